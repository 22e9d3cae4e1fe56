//! The socket's side of a connection: what receives and sends its bytes. [`super::step`] decides
//! what is next, and with how much of it; the transport does it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use site::resource::FileRef;

/// Heads and bodies up to this many bytes together are copied into one buffer: below it the copy
/// costs less than a second vector element does in the kernel.
pub(crate) const COALESCED_BYTES_MAX: usize = 4096;

/// The outcome of an operation that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// So many bytes were moved; a receive of none is the end of the stream.
    Now(usize),
    /// The operation is under way. The engine is told of its end, and takes no other of its
    /// direction before.
    Later,
}

/// Moves the bytes of one connection. Operations do not wait, unless the socket is in blocking
/// mode: `WouldBlock` says that there is nothing to receive, or no room to send.
pub(crate) trait Transport {
    /// Receives into `buffer`.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved>;

    /// Sends a head and a body, which may be gathered in `buffer`. `more` says that more follows at
    /// once.
    fn send(
        &mut self,
        head: &[u8],
        body: &[u8],
        more: bool,
        buffer: &mut [u8],
    ) -> io::Result<Moved>;

    /// Sends `len` bytes of a file; none means that the file has become shorter.
    fn send_file(&mut self, file: &FileRef, offset: u64, len: usize) -> io::Result<Moved>;

    /// Reads bytes of a file, which are then sent by [`Transport::send`]. None means that the file
    /// has become shorter, or cannot be read.
    fn read_file(&mut self, file: &FileRef, offset: u64, buffer: &mut [u8]) -> usize {
        os::files::read_at(file.as_fd(), buffer, offset).unwrap_or(0)
    }

    /// Shuts the side down that sends. It is no failure that the peer has gone.
    fn shut_down(&mut self) -> io::Result<()>;

    /// Has the close reset the connection. If that fails the close is orderly.
    fn reset_on_close(&mut self);
}

/// A socket that calls of the kernel use, without encryption.
pub(crate) struct Plain<'s>(pub(crate) BorrowedFd<'s>);

impl Plain<'_> {
    /// Sends a head and a body with one call, through the buffer if they are small.
    #[inline]
    pub(crate) fn send_both(
        &self,
        head: &[u8],
        body: &[u8],
        more: bool,
        buffer: &mut [u8],
    ) -> io::Result<usize> {
        let len = head.len() + body.len();
        if body.is_empty() {
            return os::send::send(self.0, head, more);
        }
        if head.is_empty() {
            return os::send::send(self.0, body, more);
        }
        if len <= COALESCED_BYTES_MAX.min(buffer.len()) {
            buffer[..head.len()].copy_from_slice(head);
            buffer[head.len()..len].copy_from_slice(body);
            return os::send::send(self.0, &buffer[..len], more);
        }
        os::send::send_two(self.0, head, body, more)
    }
}

impl Transport for Plain<'_> {
    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Moved> {
        os::send::recv(self.0, buffer).map(Moved::Now)
    }

    #[inline]
    fn send(
        &mut self,
        head: &[u8],
        body: &[u8],
        more: bool,
        buffer: &mut [u8],
    ) -> io::Result<Moved> {
        self.send_both(head, body, more, buffer).map(Moved::Now)
    }

    #[inline]
    fn send_file(&mut self, file: &FileRef, offset: u64, len: usize) -> io::Result<Moved> {
        os::send::sendfile(self.0, file.as_fd(), offset, len).map(Moved::Now)
    }

    fn shut_down(&mut self) -> io::Result<()> {
        let _ = os::socket::shutdown_write(self.0); // fails only if the peer has gone
        Ok(())
    }

    fn reset_on_close(&mut self) {
        let _ = os::socket::set_linger_zero(self.0);
    }
}
