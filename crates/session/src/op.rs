//! What a connection asks its driver for.

use site::resource::FileRef;

/// What a driver does next for a connection.
#[derive(Debug)]
pub enum Op<'s> {
    /// Receive bytes and give them to [`crate::Connection::ingest`].
    Recv,
    /// Send `head` and then `body`, in one system call. `more` says that more follows at once.
    Send {
        /// The connection's own bytes.
        head: &'s [u8],
        /// A cache entry's bytes.
        body: &'s [u8],
        /// Whether to wait for what follows before a packet is filled.
        more: bool,
    },
    /// Send `len` bytes of `file` from `offset`; as much at a time as the driver likes.
    File {
        /// The open file.
        file: &'s FileRef,
        /// Where its bytes begin.
        offset: u64,
        /// How many.
        len: u64,
    },
    /// Take the job and run it.
    Job,
    /// A job is out: nothing to do until it is done.
    Wait,
    /// Shut the write side down, then call `sent(0)`.
    Shutdown,
    /// Close the socket; with a reset where the client must not believe in an orderly end.
    Close {
        /// Whether to drop what is still in the socket's send buffer.
        reset: bool,
    },
}
