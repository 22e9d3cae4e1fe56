//! A socket and the operations under way on it.

use std::io;
use std::rc::Rc;

use os::ring::{Descriptor, Operation, Ring};
use site::resource::FileRef;

use crate::parts::loops::transport::{COALESCED_BYTES_MAX, Moved, Plain, Transport};

/// A socket, shared with the operations under way on it: it is closed with the last of them.
pub(super) struct RingSocket {
    pub(super) descriptor: Rc<Descriptor>,
    receiving: Option<Operation>,
    is_receive_cancelled: bool,
    /// The operation that sends, or waits for room in the socket's send buffer.
    sending: Option<Operation>,
    /// Whether it waits for room.
    is_waiting_for_room: bool,
    /// Whether the stream has ended and the connection has not been told yet.
    pub(super) is_at_end: bool,
    /// The number of bytes received while the connection did not want any: what a multishot
    /// operation had received already when the first of them was read.
    excess_bytes: u64,
}

impl RingSocket {
    pub(super) fn new(socket: Descriptor) -> Self {
        Self {
            descriptor: Rc::new(socket),
            receiving: None,
            is_receive_cancelled: false,
            sending: None,
            is_waiting_for_room: false,
            is_at_end: false,
            excess_bytes: 0,
        }
    }

    /// Makes sure that the ring reports when the socket, which is full, has room again.
    pub(super) fn wait_for_room(&mut self, ring: &mut Ring, key: u64) {
        if self.sending.is_none() {
            self.sending = Some(ring.poll_writable(key, &self.descriptor));
            self.is_waiting_for_room = true;
        }
    }

    /// Whether an operation sends.
    pub(super) fn is_sending_bytes(&self) -> bool {
        self.sending.is_some() && !self.is_waiting_for_room
    }

    /// Whether an operation sends, or waits for room.
    pub(super) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Has the ring send a copy of these bytes.
    #[inline]
    pub(super) fn begin_send(&mut self, ring: &mut Ring, key: u64, parts: [&[u8]; 2]) {
        self.sending = Some(ring.send(key, &self.descriptor, parts, false));
    }

    /// Makes sure that a receive is under way.
    #[inline]
    pub(super) fn begin_receive(&mut self, ring: &mut Ring, key: u64, is_multishot: bool) {
        if self.receiving.is_none() {
            self.receiving = Some(ring.receive(key, &self.descriptor, is_multishot));
        }
    }

    /// Records that the operation that sends, or waits for room, has ended.
    #[inline]
    pub(super) fn sending_ended(&mut self) {
        self.sending = None;
        self.is_waiting_for_room = false;
    }

    /// Records that the receive has ended, for any reason.
    #[inline]
    pub(super) fn receive_ended(&mut self) {
        self.receiving = None;
        self.is_receive_cancelled = false;
    }

    /// Whether no receive is under way: then nothing is learnt from the client.
    #[inline]
    pub(super) fn is_deaf(&self) -> bool {
        self.receiving.is_none()
    }

    /// Counts bytes that came while the connection did not want any. Cancels the receive: the
    /// client's next bytes wait in the kernel, as in an event loop.
    pub(super) fn count_excess(&mut self, ring: &mut Ring, bytes: u64) {
        self.excess_bytes += bytes;
        self.cancel_receive(ring);
    }

    /// Cancels the receive that is under way. Returns whether there was one: it ends later.
    pub(super) fn cancel_receive(&mut self, ring: &mut Ring) -> bool {
        let Some(receiving) = self.receiving else { return false };
        if !std::mem::replace(&mut self.is_receive_cancelled, true) {
            ring.cancel(receiving);
        }
        true
    }

    /// Takes the number of bytes that came while the connection did not want any.
    pub(super) fn take_excess(&mut self) -> u64 {
        std::mem::take(&mut self.excess_bytes)
    }

    /// Cancels the operations under way, with the last of which the socket is closed.
    pub(super) fn hang_up(self, ring: &mut Ring) {
        for operation in [self.receiving, self.sending].into_iter().flatten() {
            ring.cancel(operation);
        }
    }
}

/// A socket whose receives, and sends of small responses, are operations of a ring. What is no
/// operation is a call, on an ordinary descriptor; without one the connection is cut off.
pub(super) struct RingTransport<'r> {
    pub(super) ring: &'r mut Ring,
    pub(super) key: u64,
    pub(super) socket: &'r mut RingSocket,
    pub(super) is_multishot: bool,
    /// The bytes that all connections of the ring did not want when they came.
    pub(super) excess_bytes: &'r mut u64,
}

impl RingTransport<'_> {
    fn ordinary(&mut self) -> io::Result<Plain<'_>> {
        self.ring.ordinary(&self.socket.descriptor).map(Plain)
    }
}

impl Transport for RingTransport<'_> {
    /// Makes sure that a receive is under way. What arrives is taken in where the ring has put it,
    /// so that here nothing is received but the end of the stream.
    #[inline]
    fn receive(&mut self, _: &mut [u8]) -> io::Result<Moved> {
        if self.socket.is_at_end {
            return Ok(Moved::Now(0));
        }
        *self.excess_bytes -= self.socket.take_excess();
        self.socket.begin_receive(self.ring, self.key, self.is_multishot);
        Ok(Moved::Later)
    }

    /// A head that more follows is sent by calls: a file, or the next of many parts.
    #[inline]
    fn send(
        &mut self,
        head: &[u8],
        body: &[u8],
        more: bool,
        buffer: &mut [u8],
    ) -> io::Result<Moved> {
        if more || head.len() + body.len() > COALESCED_BYTES_MAX {
            return self.ordinary()?.send(head, body, more, buffer);
        }
        self.socket.begin_send(self.ring, self.key, [head, body]);
        Ok(Moved::Later)
    }

    fn send_file(&mut self, file: &FileRef, offset: u64, len: usize) -> io::Result<Moved> {
        self.ordinary()?.send_file(file, offset, len)
    }

    fn shut_down(&mut self) -> io::Result<()> {
        self.ordinary()?.shut_down()
    }

    fn reset_on_close(&mut self) {
        if let Ok(mut ordinary) = self.ordinary() {
            ordinary.reset_on_close();
        }
    }
}
