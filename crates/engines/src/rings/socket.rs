//! A socket and the operations under way on it.

use std::rc::Rc;

use os::ring::{Descriptor, Operation, Ring};

/// Bytes that may be received ahead while a connection is busy with something else. Then its
/// receive is cancelled, and the client's next bytes wait in the kernel, as in an event loop.
const AHEAD_BYTES_MAX: usize = 16 * 1024;

/// A socket, shared with the operations under way on it: it is closed with the last of them.
pub(super) struct RingSocket {
    pub(super) descriptor: Rc<Descriptor>,
    receiving: Option<Operation>,
    is_receive_cancelled: bool,
    pub(super) sending: Option<Operation>,
    /// Waits for room in the socket's send buffer.
    pub(super) polling: Option<Operation>,
    /// The stream has ended, and the connection does not know yet.
    pub(super) is_at_end: bool,
    /// Bytes received while the connection did not ask for any.
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

    /// Whether something is under way that must end before more is sent.
    #[inline]
    pub(super) fn is_sending(&self) -> bool {
        self.sending.is_some() || self.polling.is_some()
    }

    /// The connection asks for bytes: sees to it that they will come.
    #[inline]
    pub(super) fn receive(&mut self, ring: &mut Ring, key: u64, many: bool) {
        self.ahead_bytes = 0;
        if self.receiving.is_none() {
            self.receiving = Some(ring.receive(key, &self.descriptor, many));
        }
    }

    /// The receive has ended, for whatever reason.
    #[inline]
    pub(super) fn receive_ended(&mut self) {
        self.receiving = None;
        self.is_receive_cancelled = false;
    }

    /// Bytes came that nobody has asked for yet. Too many are not to come.
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

    /// Ends what is under way, and with it the connection.
    pub(super) fn hang_up(self, ring: &mut Ring) {
        for operation in [self.receiving, self.sending, self.polling].into_iter().flatten() {
            ring.cancel(operation);
        }
    }
}
