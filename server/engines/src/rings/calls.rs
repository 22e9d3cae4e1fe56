//! Applications in the loop of a ring: their sockets are driven beside those of the clients, by
//! operations of the ring.
//!
//! A receive is begun where the client's stream has room for what it brings, and is for one buffer.
//! If that came full there is more, and the rest is received by calls, as large bodies are sent. A
//! connection that no call uses has a receive under way: it reports the end, and the next call gets
//! its reply from it.

use std::io;
use std::os::fd::OwnedFd;

use os::ring::{Received, Ring};
use session::Tick;
use upstream::{Call, Downstream, Next};

use super::ring_loop::{RingLoop, is_for_another};
use super::socket::RingSocket;
use crate::parts::applications::call_loop::{CallLoop, CallParts, ends};
use crate::parts::applications::joint::Joint;
use crate::parts::applications::table::{MARK, Table};
use crate::parts::loops::transport::{COALESCED_BYTES_MAX, Moved};

/// A connection to an application.
pub(crate) struct RingLine {
    socket: RingSocket,
    /// Whether the connection is still being made.
    is_connecting: bool,
    /// Whether the last receive has filled its buffer.
    has_more: bool,
    /// Whether a send has failed. A reply may have come before, and is received.
    is_broken: bool,
}

impl From<OwnedFd> for RingLine {
    fn from(socket: OwnedFd) -> Self {
        let socket = RingSocket::new(socket.into());
        Self { socket, is_connecting: true, has_more: false, is_broken: false }
    }
}

impl RingLine {
    /// Receives what there is by a call, or else has the ring receive.
    fn receive(&mut self, ring: &mut Ring, key: u64, buffer: &mut [u8]) -> io::Result<Moved> {
        if self.socket.is_at_end {
            return Ok(Moved::Now(0));
        }
        if std::mem::take(&mut self.has_more) {
            match os::send::recv(ring.ordinary(&self.socket.descriptor)?, buffer) {
                Ok(n) => {
                    self.has_more = n == buffer.len();
                    return Ok(Moved::Now(n));
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(why),
            }
        }
        self.socket.begin_receive(ring, key, false);
        Ok(Moved::Later)
    }

    /// Has the ring send a few bytes, which it copies; more of them are sent by a call. Returns how
    /// many were sent; none while a send is under way, or waits for room.
    fn send(&mut self, ring: &mut Ring, key: u64, bytes: &[u8]) -> Option<usize> {
        if self.is_broken || self.socket.is_sending() {
            return None;
        }
        if bytes.len() <= COALESCED_BYTES_MAX {
            self.socket.begin_send(ring, key, [bytes, b""]);
            return None;
        }
        let socket = ring.ordinary(&self.socket.descriptor);
        match socket.and_then(|socket| os::send::send(socket, bytes, false)) {
            Ok(n) => return Some(n),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                self.socket.wait_for_room(ring, key);
            }
            Err(_) => self.is_broken = true,
        }
        None
    }

    /// Moves bytes between an application and its client's stream until neither end can go on.
    fn join<D: Downstream>(
        &mut self,
        ring: &mut Ring,
        key: u64,
        call: &mut Call,
        d: &mut D,
        buffer: &mut [u8],
        now: Tick,
    ) -> Joint {
        loop {
            match call.next(d, now) {
                Next::Connect | Next::ConnectAnew => return Joint::Anew,
                Next::Over { keeps } => {
                    return Joint::Over { keeps: keeps && !self.socket.is_at_end };
                }
                Next::Wait => return Joint::Waits,
                Next::EndSending => {
                    // It fails if the connection has ended, which is received.
                    if let Ok(socket) = ring.ordinary(&self.socket.descriptor) {
                        let _ = os::socket::shutdown_write(socket);
                    }
                    call.sending_ended();
                    continue;
                }
                Next::Recv => {}
                Next::Send(bytes) => {
                    if let Some(n) = self.send(ring, key, bytes) {
                        call.sent(n, now);
                        continue;
                    }
                }
            }
            if !call.wants_input(d) {
                return Joint::Waits;
            }
            match self.receive(ring, key, buffer) {
                Ok(Moved::Later) => return Joint::Waits,
                Ok(Moved::Now(0)) | Err(_) => call.ended(d),
                Ok(Moved::Now(n)) => call.ingest(d, &buffer[..n], now),
            }
        }
    }
}

impl CallLoop for RingLoop {
    type Line = RingLine;

    fn call_parts(&mut self) -> CallParts<'_, RingLine, RingSocket> {
        (&mut self.table, &mut self.connections, &mut self.worker)
    }

    fn move_bytes(&mut self, key: u64) -> Option<Joint> {
        self.move_received(key, None)
    }

    fn watch_upstream(&mut self, key: u64) -> io::Result<()> {
        let Some(upstream) = self.table.slots.get(key) else { return Ok(()) };
        let line = &mut upstream.line;
        if line.is_connecting {
            line.socket.wait_for_room(&mut self.ring, key | MARK);
        } else if upstream.out.is_none() {
            line.has_more = false;
            line.socket.begin_receive(&mut self.ring, key | MARK, false);
        }
        Ok(())
    }

    fn is_silent(&mut self, key: u64) -> bool {
        let Self { table, ring, .. } = self;
        let Some(upstream) = table.slots.get(key) else { return false };
        let socket = &upstream.line.socket;
        !socket.is_at_end && ring.ordinary(&socket.descriptor).is_ok_and(os::socket::is_silent)
    }

    /// What a receive under way has taken is lost: of the reply only its end matters.
    fn take_socket(&mut self, line: &mut RingLine) -> io::Result<OwnedFd> {
        self.ring.ordinary(&line.socket.descriptor)?.try_clone_to_owned()
    }

    fn close_line(&mut self, line: RingLine) {
        line.socket.hang_up(&mut self.ring);
    }
}

impl RingLoop {
    /// Handles the end of a receive that is not of a client: it is of an application, or of a
    /// connection that has gone meanwhile.
    #[cold]
    #[inline(never)]
    pub(super) fn received_apart(&mut self, key: u64, result: io::Result<Option<Received>>) {
        let upstream = of_application(key).and_then(|key| self.table.slots.get(key));
        let Some(upstream) = upstream else {
            result.ok().flatten().into_iter().for_each(|received| self.ring.give_back(received));
            return;
        };
        upstream.line.socket.receive_ended();
        let (key, is_idle) = (key & !MARK, upstream.out.is_none());
        let is_over = !matches!(&result, Err(error) if is_for_another(error));
        let received = result.ok().flatten();
        upstream.line.socket.is_at_end = is_over && received.is_none();
        if is_idle {
            received.into_iter().for_each(|received| self.ring.give_back(received));
            match is_over {
                // Nothing was asked of it: it is closing, or is not to be trusted.
                true => self.close_upstream(key),
                false => self.follow(key),
            }
            return;
        }
        let joint = self.move_received(key, received);
        self.moved(key, joint);
    }

    /// Passes received bytes, if there are any, to the call that they are for, and goes on with it.
    fn move_received(&mut self, key: u64, received: Option<Received>) -> Option<Joint> {
        let Self { table: Table { slots, buffer, .. }, connections, worker, ring, .. } = self;
        let now = worker.now();
        let mut ends = ends(slots, connections, worker, key);
        if let Some(received) = received {
            if let Some((line, call, stream)) = &mut ends {
                let bytes = ring.bytes(&received);
                line.has_more = bytes.len() == self.buffer_bytes;
                call.ingest(stream, bytes, now);
            }
            ring.give_back(received);
        }
        let (line, call, mut stream) = ends?;
        if line.is_connecting {
            // What the stream has called for is asked again when there is a connection.
            return Some(Joint::Waits);
        }
        Some(line.join(ring, key | MARK, call, &mut stream, buffer, now))
    }

    /// Handles the end of a send to an application.
    #[cold]
    #[inline(never)]
    pub(super) fn sent_apart(&mut self, key: u64, result: io::Result<usize>) {
        let Some(key) = of_application(key) else { return };
        let now = self.worker.now();
        let Some(upstream) = self.table.slots.get(key) else { return };
        upstream.line.socket.sending_ended();
        match (result, &mut upstream.out) {
            (Ok(count), Some(out)) => out.call.sent(count, now),
            (Ok(_), None) => {}
            (Err(_), _) => upstream.line.is_broken = true,
        }
        self.go_on_with_call(key);
    }

    /// Goes on with an application whose socket has room, or whose connection is made.
    #[cold]
    #[inline(never)]
    pub(super) fn ready_apart(&mut self, key: u64) {
        let Some(key) = of_application(key) else { return };
        let Some(upstream) = self.table.slots.get(key) else { return };
        let line = &mut upstream.line;
        line.socket.sending_ended();
        if std::mem::take(&mut line.is_connecting) {
            let socket = self.ring.ordinary(&line.socket.descriptor);
            let is_made = matches!(socket.and_then(os::socket::take_error), Ok(None));
            return self.connected(key, is_made);
        }
        self.go_on_with_call(key);
    }
}

/// The key of a connection to an application in the table; none if it is of a client.
fn of_application(key: u64) -> Option<u64> {
    (key & MARK != 0).then_some(key & !MARK)
}
