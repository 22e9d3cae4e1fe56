//! A socket and the operations under way on it.

use std::rc::Rc;

use os::ring::{Descriptor, Operation, Ring};

/// The number of bytes that may be received ahead while a connection does not want any. Then its
/// receive is cancelled, and the client's next bytes wait in the kernel, as in an event loop.
const AHEAD_BYTES_MAX: usize = 16 * 1024;

/// A socket, shared with the operations under way on it: it is closed with the last of them.
pub(super) struct RingSocket {
    pub(super) descriptor: Rc<Descriptor>,
    receiving: Option<Operation>,
    is_receive_cancelled: bool,
    pub(super) sending: Option<Operation>,
    /// The operation that waits for room in the socket's send buffer.
    pub(super) polling: Option<Operation>,
    /// Whether the stream has ended and the connection has not been told yet.
    pub(super) is_at_end: bool,
    /// The number of bytes received while the connection did not want any.
    ahead_bytes: usize,
}

impl RingSocket {
    pub(super) fn new(socket: Descriptor) -> Self {
        Self {
            descriptor: Rc::new(socket),
            receiving: None,
            is_receive_cancelled: false,
            sending: None,
            polling: None,
            is_at_end: false,
            ahead_bytes: 0,
        }
    }

    /// Whether an operation is under way that must end before more is sent.
    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        self.sending.is_some() || self.polling.is_some()
    }

    /// Makes sure that a receive is under way, for a connection that wants bytes.
    #[inline]
    pub(super) fn receive(&mut self, ring: &mut Ring, key: u64, many: bool) {
        self.ahead_bytes = 0;
        if self.receiving.is_none() {
            self.receiving = Some(ring.receive(key, &self.descriptor, many));
        }
    }

    /// Records that the receive has ended, for any reason.
    #[inline]
    pub(super) fn receive_ended(&mut self) {
        self.receiving = None;
        self.is_receive_cancelled = false;
    }

    /// Counts bytes that came while the connection did not want any, and cancels the receive if
    /// there are too many.
    pub(super) fn count_ahead(&mut self, ring: &mut Ring, bytes: usize) {
        self.ahead_bytes += bytes;
        if self.ahead_bytes >= AHEAD_BYTES_MAX
            && let Some(receiving) = self.receiving
            && !self.is_receive_cancelled
        {
            self.is_receive_cancelled = true;
            ring.cancel(receiving);
        }
    }

    /// Cancels the operations under way, with the last of which the socket is closed.
    pub(super) fn hang_up(self, ring: &mut Ring) {
        for operation in [self.receiving, self.sending, self.polling].into_iter().flatten() {
            ring.cancel(operation);
        }
    }
}
