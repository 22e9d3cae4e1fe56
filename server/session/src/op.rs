//! The operations that a connection requires of its driver.

use site::resource::FileRef;

use crate::job::JobId;

/// The next operation that a driver performs for a connection.
#[derive(Debug)]
pub enum Op<'s> {
    /// Receive bytes and pass them to [`crate::Connection::ingest`].
    Recv,
    /// Send `head` and then `body`, in one system call. `more` says that more follows at once.
    Send {
        /// The connection's own bytes.
        head: &'s [u8],
        /// A cache entry's bytes.
        body: &'s [u8],
        /// Whether to wait for further bytes before a packet is sent that is not full.
        more: bool,
    },
    /// Send `len` bytes of `file` from `offset`; the driver chooses how much at a time.
    File {
        /// The open file.
        file: &'s FileRef,
        /// The offset of its first byte.
        offset: u64,
        /// The number of bytes.
        len: u64,
    },
    /// Read some of the `len` bytes of `file` from `offset`, and pass them to
    /// [`crate::Connection::read`]. In place of `File` where bytes pass through user space.
    Read {
        /// The open file.
        file: &'s FileRef,
        /// The offset of its first byte.
        offset: u64,
        /// The number of bytes, 16 KiB at most.
        len: usize,
    },
    /// Take the job with [`crate::Connection::take_job`] and run it.
    Job,
    /// Go on with this job. Of a listing, take the rest with [`crate::Connection::take_job`] and
    /// run it: half of the last part is sent. Of a call, whose driver has it, go on with
    /// [`crate::Connection::stream`]: more of the request's body has come, or its end, or there is
    /// room for more of the reply.
    Stream(JobId),
    /// Wait for the job that is out: its client has shut its side down, or has sent so much ahead
    /// of the answer that no more is received.
    Wait,
    /// Shut the write side down, then call `sent(0)`.
    Shutdown,
    /// Close the socket; with a reset where the client must not believe in an orderly end.
    Close {
        /// Whether to drop what is still in the socket's send buffer.
        reset: bool,
    },
}
