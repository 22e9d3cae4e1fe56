//! Reading replies: heads, bodies, and their verification.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use http1::{BodySkipper, ResponseBody};
use os::epoll::Event;

use super::Clients;
use super::issue::system_error_kind;
use super::slot::{Phase, Reply};
use crate::error_kind::ErrorKind;
use crate::plan::{ConnectionUse, Expected, ExpectedBody, Verify};

/// If more bytes of a body than this are still to come, they are received without being copied,
/// unless they are verified.
const DISCARD_MIN: u64 = 16 * 1024;
/// The most bytes received and dropped in one call, so that other clients get a turn.
const DISCARD_MAX: u64 = 4 << 20;
/// The most calls in a row for one client.
const CALLS_MAX: usize = 16;

/// The result of one read.
enum Read {
    /// `count` bytes are in the buffer. `drained`: there were no more.
    Bytes {
        count: usize,
        drained: bool,
    },
    /// `count` bytes of the body were dropped.
    Discarded {
        count: usize,
        drained: bool,
    },
    /// No bytes yet.
    Nothing,
    /// The server has closed its side.
    End,
    Failed(ErrorKind),
}

impl Clients<'_> {
    pub(super) fn on_event(&mut self, event: Event) {
        let id = event.key as u32;
        let slot = &mut self.slots[id as usize];
        if slot.generation != (event.key >> 32) as u32 || slot.socket.is_none() {
            return;
        }
        let waits_for_room = !slot.unsent.is_empty();
        if waits_for_room && (event.writable || event.error || event.hangup) {
            let generation = slot.generation;
            self.send_rest(id);
            if self.slots[id as usize].generation != generation {
                return;
            }
        }
        let ends = event.hangup || event.error;
        // No further request goes out over the connection, even if bytes are still to be read.
        self.slots[id as usize].peer_closed |= ends;
        if event.readable || ends {
            self.receive(id, ends);
        }
    }

    /// Reads until nothing is left. `ends`: the server has closed its side.
    fn receive(&mut self, id: u32, ends: bool) {
        let generation = self.slots[id as usize].generation;
        for _ in 0..CALLS_MAX {
            let drained = match self.read(id) {
                Read::Bytes { count, drained } => {
                    self.take_buffer(id, count);
                    drained
                }
                Read::Discarded { count, drained } => {
                    self.count_dropped(id, count);
                    drained
                }
                Read::Nothing => return,
                Read::End => return self.on_end(id),
                Read::Failed(kind) => return self.on_broken(id, kind),
            };
            // There are no more bytes yet, and unless the server has closed, the epoll set reports
            // the next ones.
            if self.slots[id as usize].generation != generation || drained && !ends {
                return;
            }
        }
        // An edge is reported once: re-arming has the rest reported again, after other clients have
        // had their turn.
        self.watch_room(id);
    }

    fn read(&mut self, id: u32) -> Read {
        let slot = &self.slots[id as usize];
        let Some(socket) = &slot.socket else { return Read::Nothing };
        let ahead = match &slot.reply {
            // Once all requests are answered no reply is due whose bytes could be dropped.
            Reply::Framed(body) if slot.in_flight() > 0 && !self.verifies_bytes(id) => {
                body.data_ahead()
            }
            _ => 0,
        };
        let discards = ahead > DISCARD_MIN;
        let (room, received) = if discards {
            let room = ahead.min(DISCARD_MAX) as usize;
            (room, os::send::recv_discard(socket.as_fd(), room))
        } else {
            (self.buffer.len(), os::send::recv(socket.as_fd(), &mut self.buffer))
        };
        match received {
            Ok(0) => Read::End,
            Ok(count) if discards => Read::Discarded { count, drained: count < room },
            Ok(count) => Read::Bytes { count, drained: count < room },
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Read::Nothing,
            Err(why) => Read::Failed(system_error_kind(&why)),
        }
    }

    fn verifies_bytes(&self, id: u32) -> bool {
        let slot = &self.slots[id as usize];
        self.plan.verify == Verify::Bytes
            && slot.status == 200
            && !matches!(self.expected(id).body, ExpectedBody::Unknown)
    }

    /// The expected reply to the request whose reply is being read.
    fn expected(&self, id: u32) -> &Expected {
        let slot = &self.slots[id as usize];
        let request = self.requests(slot.session)[slot.position as usize];
        &self.plan.expected[request.template()]
    }

    /// Takes the first `count` bytes of the buffer, after the bytes of an incomplete head that were
    /// kept.
    fn take_buffer(&mut self, id: u32, count: usize) {
        self.now_us = os::clock::now();
        let buffer = std::mem::take(&mut self.buffer);
        if self.slots[id as usize].held.is_empty() {
            self.take(id, &buffer[..count]);
        } else {
            let mut held = std::mem::take(&mut self.slots[id as usize].held);
            held.extend_from_slice(&buffer[..count]);
            self.take(id, &held);
        }
        self.buffer = buffer;
    }

    /// Takes bytes of replies: none, one or several.
    fn take(&mut self, id: u32, mut bytes: &[u8]) {
        let generation = self.slots[id as usize].generation;
        while !bytes.is_empty() {
            let slot = &mut self.slots[id as usize];
            if slot.in_flight() == 0 {
                // These bytes were not requested, so the next request gets another connection.
                slot.peer_closed = true;
                if slot.keep_alive {
                    self.recorder.surplus(self.now_us);
                }
                return;
            }
            if slot.first_byte_us == 0 {
                slot.first_byte_us = self.now_us;
                slot.phase = Phase::Receiving;
            }
            let taken = match slot.reply {
                Reply::Head => self.take_head(id, bytes),
                Reply::Framed(_) => self.take_framed(id, bytes),
                Reply::UntilClose => self.take_body(id, bytes).then_some(bytes.len()),
            };
            let Some(taken) = taken else { return };
            bytes = &bytes[taken..];
            if self.slots[id as usize].generation != generation {
                return;
            }
        }
    }

    /// Takes a head and returns its length, or keeps a piece of one. None: no bytes are left to
    /// take.
    fn take_head(&mut self, id: u32, bytes: &[u8]) -> Option<usize> {
        /// The length at which an incomplete head is given up.
        const HEAD_MAX: usize = 64 * 1024;
        let slot = &self.slots[id as usize];
        let request = self.requests(slot.session)[slot.position as usize];
        let to_head = &*self.plan.log.templates()[request.template()].method == "HEAD";
        let head = match http1::parse_response_head(bytes, to_head) {
            Ok(Some(head)) => head,
            Ok(None) if bytes.len() < HEAD_MAX => {
                self.slots[id as usize].held = bytes.to_vec();
                return None;
            }
            Ok(None) => {
                let why = format!("no end of the head within {} KiB", HEAD_MAX >> 10);
                self.refuse(id, &why);
                return None;
            }
            Err(why) => {
                self.refuse(id, &why);
                return None;
            }
        };
        if (100..200).contains(&head.status) {
            return Some(head.len);
        }
        // A server may keep a connection that it was asked to close.
        let keeps = self.plan.connection_use != ConnectionUse::Request;
        let slot = &mut self.slots[id as usize];
        (slot.status, slot.keep_alive) = (head.status, head.keep_alive && keeps);
        if slot.measured {
            self.recorder.overhead(head.len, 0);
        }
        match head.body {
            ResponseBody::UntilClose => slot.reply = Reply::UntilClose,
            ResponseBody::Framed(framing) => {
                let body = BodySkipper::new(framing);
                let is_done = body.is_done();
                slot.reply = Reply::Framed(body);
                if is_done {
                    self.complete(id, head.len < bytes.len());
                }
            }
        }
        Some(head.len)
    }

    fn take_framed(&mut self, id: u32, bytes: &[u8]) -> Option<usize> {
        let slot = &mut self.slots[id as usize];
        let Reply::Framed(body) = &mut slot.reply else { return None };
        let (taken, data) = match body.read(bytes) {
            Ok(read) => read,
            Err(why) => {
                self.refuse(id, &why);
                return None;
            }
        };
        let is_done = body.is_done();
        if slot.measured && taken > data.len() {
            self.recorder.overhead(0, taken - data.len());
        }
        if !data.is_empty() && !self.take_body(id, data) {
            return None;
        }
        if is_done {
            self.complete(id, taken < bytes.len());
        }
        Some(taken)
    }

    /// Fails a reply that cannot be parsed. The reason for the first such reply is reported.
    fn refuse(&mut self, id: u32, why: &dyn std::fmt::Display) {
        let (uri, address) = self.request_and_server(id);
        self.shared.refused(|| format!("{uri} from {address}: {why}"));
        self.fail(id, ErrorKind::BadReply);
    }

    /// The URI whose reply is being read, and the address of the server.
    fn request_and_server(&self, id: u32) -> (String, SocketAddr) {
        let slot = &self.slots[id as usize];
        let request = self.requests(slot.session)[slot.position as usize];
        let uri = String::from_utf8_lossy(&self.plan.log.templates()[request.template()].uri);
        (uri.into_owned(), self.plan.targets[self.target_index(slot.session)].address)
    }

    /// Takes bytes of the body; false if one of them is wrong.
    fn take_body(&mut self, id: u32, data: &[u8]) -> bool {
        let offset = self.slots[id as usize].body_bytes;
        self.slots[id as usize].body_bytes += data.len() as u64;
        if !self.verifies_bytes(id) {
            return true;
        }
        let Err(wrong) = self.expected(id).body.check(offset, data) else { return true };
        let (uri, address) = self.request_and_server(id);
        let slot = &self.slots[id as usize];
        self.shared.found_bad(format!(
            "wrong byte: {uri} from {address}, byte {} is {:#04x} instead of {:#04x} \
             (status {}, {} bytes read)",
            wrong.offset, wrong.got, wrong.expected, slot.status, slot.body_bytes
        ));
        if !slot.measured {
            self.recorder.bad_bytes_outside();
        }
        self.fail(id, ErrorKind::BadBytes);
        false
    }

    /// Counts `count` bytes of the body that were received without being verified.
    fn count_dropped(&mut self, id: u32, count: usize) {
        self.now_us = os::clock::now();
        let slot = &mut self.slots[id as usize];
        let Reply::Framed(body) = &mut slot.reply else { return };
        body.advance(count as u64);
        slot.body_bytes += count as u64;
        if body.is_done() {
            self.complete(id, false);
        }
    }

    /// Judges a complete reply. `surplus`: more bytes have come behind it.
    fn complete(&mut self, id: u32, surplus: bool) {
        let slot = &self.slots[id as usize];
        let requests = self.requests(slot.session);
        let template = requests[slot.position as usize].template();
        let expected = &self.plan.expected[template];
        let wrong_length = self.plan.verify != Verify::None
            && slot.status == 200
            && expected.bytes.is_some_and(|bytes| bytes != slot.body_bytes);
        // The expected body is known, so that any status other than 200 means that it was not sent.
        let should_be_200 = self.plan.verify != Verify::None && expected.bytes.is_some();
        let fault = match slot.status {
            200 if wrong_length => Some(ErrorKind::BadLength),
            200 => None,
            201..=399 if !should_be_200 => None,
            _ => Some(ErrorKind::BadStatus),
        };
        if fault.is_none() {
            self.recorder.completed(slot.body_bytes, self.now_us);
        }
        if slot.measured {
            self.recorder.status(slot.status);
            match fault {
                None => self.recorder.reply(slot, expected, requests.len(), self.now_us),
                Some(kind) => self.recorder.failed(kind, expected, slot.body_bytes, self.now_us),
            }
        }
        if self.is_open() {
            self.recorder.settled(self.now_us);
        }
        self.in_flight -= 1;
        let slot = &mut self.slots[id as usize];
        slot.position += 1;
        slot.session_failed |= fault.is_some();
        slot.replies += u32::from(fault.is_none());
        slot.connection_replies += 1;
        if slot.in_flight() == 0 {
            // Unrequested bytes must not become the reply to the next request.
            slot.keep_alive &= !surplus;
            if surplus {
                self.recorder.surplus(self.now_us);
            }
            self.go_on(id);
        } else if slot.keep_alive {
            slot.expect_reply();
            slot.phase = Phase::Waiting;
        } else {
            slot.expect_reply();
            self.fail(id, ErrorKind::ClosedEarly);
        }
    }

    /// Ends or fails the reply under way after the server has closed its side.
    fn on_end(&mut self, id: u32) {
        self.now_us = os::clock::now();
        let slot = &mut self.slots[id as usize];
        slot.peer_closed = true;
        if slot.in_flight() == 0 {
            return self.close(id);
        }
        match slot.reply {
            Reply::UntilClose => self.complete(id, false),
            Reply::Framed(_) => self.fail(id, ErrorKind::ShortBody),
            Reply::Head => self.fail(id, ErrorKind::ClosedEarly),
        }
    }

    /// Fails the requests under way after receiving has failed.
    pub(super) fn on_broken(&mut self, id: u32, kind: ErrorKind) {
        self.now_us = os::clock::now();
        if self.slots[id as usize].in_flight() == 0 {
            self.close(id);
        } else {
            self.fail(id, kind);
        }
    }
}
