//! Beginning and ending sessions, issuing requests, opening and closing connections.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

use os::epoll::Interest;
use os::errors::Cause;
use workload::request_log::{Request, Template};

use super::record::due_times;
use super::slot::{Phase, Slot};
use super::timers::NEVER;
use super::{AFTER_FAILURE_US, Clients, NO_SESSION};
use crate::error_kind::ErrorKind;
use crate::plan::{ConnectionUse, Model, Target};

const READ: Interest = Interest::READ.with(Interest::RDHUP).with(Interest::EDGE);

impl Clients<'_> {
    /// Begins a session on a free slot.
    pub(super) fn begin(&mut self, session: u64, intended_us: u64) {
        let id = self.take_slot(self.target_index(session));
        let measured = self.recorder.window.contains(intended_us);
        let requests = self.requests(session);
        self.recorder.session_due(self.now_us, measured);
        if measured {
            self.recorder.session_started(requests.len());
        }
        if self.is_open() {
            self.recorder.requests_asked(self.now_us, intended_us, requests);
        }
        self.sessions += 1;
        let slot = &mut self.slots[id as usize];
        slot.session = session;
        slot.session_us = intended_us;
        slot.session_measured = measured;
        (slot.session_failed, slot.is_broken) = (false, false);
        (slot.position, slot.issued, slot.replies) = (0, 0, 0);
        self.issue(id, intended_us, self.is_open());
    }

    /// Begins the next session of a closed run on the slot of the last, whose connection may lead
    /// to another target.
    pub(super) fn begin_next(&mut self, id: u32) {
        self.release(id);
        if self.now_us < self.recorder.window.to_us
            && let Some((session, _)) = self.starts.next()
        {
            self.begin(session, self.now_us);
        }
    }

    /// Takes a slot without session, with a connection to `target` if one is kept.
    fn take_slot(&mut self, target: usize) -> u32 {
        if let Some(id) = self.kept[target].pop().or_else(|| self.free.pop()) {
            return id;
        }
        self.slots.push(Slot::new());
        u32::try_from(self.slots.len() - 1).expect("descriptors are numbered by i32")
    }

    /// Issues the next request of the session, or the rest of a burst whose first reply has come.
    /// `timed`: the request had an intended time, for which the client waited.
    pub(super) fn issue(&mut self, id: u32, intended_us: u64, timed: bool) {
        let measured = self.recorder.window.contains(intended_us);
        let slot = &self.slots[id as usize];
        let requests = self.requests(slot.session);
        let count = match self.plan.connection_use {
            ConnectionUse::Request => 1,
            _ => group(&requests[slot.issued as usize..]),
        };
        let group = &requests[slot.issued as usize..][..count];
        if timed && measured {
            self.recorder.lag(intended_us, self.now_us);
        }
        if measured {
            self.recorder.issued(self.now_us, group, requests.len());
        }
        self.in_flight += count as u64;
        let slot = &mut self.slots[id as usize];
        slot.issued += count as u32;
        slot.measured = measured;
        slot.is_late = self.now_us >= self.recorder.window.to_us;
        slot.intended_us = intended_us;
        slot.issued_us = self.now_us;
        slot.expect_reply();
        if slot.is_usable() { self.send(id) } else { self.connect(id) }
    }

    /// Opens a connection and sends the issued requests as soon as it is established, which over
    /// the loopback interface is at once.
    fn connect(&mut self, id: u32) {
        self.close(id);
        let slot = &self.slots[id as usize];
        let (session, measured) = (slot.session, slot.measured);
        if measured {
            self.recorder.connection_tried();
        }
        let started_us = os::clock::now();
        let target = self.target_index(session);
        let address = self.plan.targets[target].address;
        let socket = match os::socket::connect_start(address, self.source_address(session)) {
            Ok(socket) => socket,
            Err(why) => return self.fail(id, connect_error_kind(&why)),
        };
        self.open += 1;
        self.recorder.open(self.open);
        self.compose(id);
        let slot = &mut self.slots[id as usize];
        slot.generation = slot.generation.wrapping_add(1);
        (slot.target, slot.connected_us) = (target, started_us);
        slot.connection_replies = 0;
        (slot.peer_closed, slot.keep_alive) = (false, true);
        slot.phase = Phase::Connecting;
        // The time is taken before the request leaves: afterwards the server may work while this
        // thread waits for a CPU, and its reply would seem to have taken less.
        self.now_us = os::clock::now();
        let sent = os::send::send(socket.as_fd(), &self.text, false);
        slot.socket = Some(socket);
        match sent {
            Ok(sent) => {
                self.connected(id);
                self.handed_over(id, sent);
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                self.set_deadline(id, self.plan.connect_timeout_us);
                self.handed_over(id, 0);
            }
            Err(why) => self.fail(id, connect_error_kind(&why)),
        }
    }

    /// Notes that the connection was made at `now_us`, just before the request went out over it.
    fn connected(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        let took_us = self.now_us.saturating_sub(slot.connected_us);
        slot.connected_us = self.now_us;
        if slot.measured {
            self.recorder.connection_made(took_us);
        }
        // The reply's time begins when the request can be sent; the corrected one began before.
        slot.issued_us = self.now_us;
    }

    /// Notes that `sent` bytes of the request in `text` are on their way over a new connection.
    fn handed_over(&mut self, id: u32, sent: usize) {
        let slot = &mut self.slots[id as usize];
        let key = key(id, slot.generation);
        let waits_for_room = sent < self.text.len();
        slot.watches_room = waits_for_room;
        let interest = if waits_for_room { READ.with(Interest::WRITE) } else { READ };
        let socket = slot.socket.as_ref().expect("it has just been opened");
        if let Err(why) = self.epoll.add(socket.as_fd(), interest, key) {
            return self.fail(id, system_error_kind(&why));
        }
        self.sent(id, sent);
    }

    /// Sends the issued requests over the established connection.
    fn send(&mut self, id: u32) {
        self.compose(id);
        let slot = &self.slots[id as usize];
        let socket = slot.socket.as_ref().expect("the connection is usable");
        match os::send::send(socket.as_fd(), &self.text, false) {
            Ok(sent) => self.sent(id, sent),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => self.sent(id, 0),
            Err(why) => self.fail(id, system_error_kind(&why)),
        }
    }

    /// Notes that `sent` bytes of the request in `text` are on their way.
    fn sent(&mut self, id: u32, sent: usize) {
        if self.slots[id as usize].measured {
            self.recorder.sent(sent);
        }
        let slot = &mut self.slots[id as usize];
        let is_connecting = slot.phase == Phase::Connecting && sent == 0;
        if sent < self.text.len() {
            slot.unsent.clear();
            slot.unsent.extend_from_slice(&self.text[sent..]);
        }
        if is_connecting {
            return;
        }
        slot.phase = if sent < self.text.len() { Phase::Sending } else { Phase::Waiting };
        let must_watch = slot.phase == Phase::Sending && !slot.watches_room;
        self.set_deadline(id, self.plan.timeout_us);
        if must_watch {
            self.watch_room(id);
        }
    }

    /// Has the epoll set report room to send, and once more bytes that are there to read.
    pub(super) fn watch_room(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        slot.watches_room = true;
        let socket = slot.socket.as_ref().expect("a request is under way on it");
        let interest = READ.with(Interest::WRITE);
        let watched = self.epoll.modify(socket.as_fd(), interest, key(id, slot.generation));
        if let Err(why) = watched {
            self.fail(id, system_error_kind(&why));
        }
    }

    /// Sends the rest: there is room, or the connection is established or has failed.
    pub(super) fn send_rest(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        let Some(socket) = &slot.socket else { return };
        let was_connecting = slot.phase == Phase::Connecting;
        if was_connecting {
            self.now_us = os::clock::now();
        }
        match os::send::send(socket.as_fd(), &slot.unsent, false) {
            Ok(sent) => {
                slot.unsent.drain(..sent);
                // Replies may have begun already, to the first requests or before the last byte.
                if matches!(slot.phase, Phase::Connecting | Phase::Sending) {
                    let is_sent = slot.unsent.is_empty();
                    slot.phase = if is_sent { Phase::Waiting } else { Phase::Sending };
                }
                if slot.measured {
                    self.recorder.sent(sent);
                }
                if was_connecting {
                    self.connected(id);
                    self.set_deadline(id, self.plan.timeout_us);
                }
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(why) if was_connecting => self.fail(id, connect_error_kind(&why)),
            Err(why) => self.on_broken(id, system_error_kind(&why)),
        }
    }

    /// Puts the text of the requests that are issued into `text`.
    fn compose(&mut self, id: u32) {
        let slot = &self.slots[id as usize];
        let requests = self.requests(slot.session);
        let target = &self.plan.targets[self.target_index(slot.session)];
        let close = self.plan.connection_use == ConnectionUse::Request;
        self.text.clear();
        for request in &requests[slot.position as usize..slot.issued as usize] {
            let template = &self.plan.log.templates()[request.template()];
            write_request(&mut self.text, template, target, close);
        }
    }

    fn source_address(&self, session: u64) -> Option<IpAddr> {
        let sources = &self.plan.sources;
        sources.get((session % sources.len().max(1) as u64) as usize).copied()
    }

    /// Continues the session when all requests under way are answered.
    pub(super) fn go_on(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        (slot.phase, slot.deadline_us) = (Phase::Thinking, NEVER);
        let requests = {
            let session = slot.session;
            self.requests(session)
        };
        let slot = &mut self.slots[id as usize];
        let done = slot.position as usize;
        if requests.get(done).is_some_and(|next| next.joins()) {
            return self.issue_now(id);
        }
        if done == requests.len() && !self.plan.model.is_endless() {
            return self.end_session(id);
        }
        if done == requests.len() {
            (slot.position, slot.issued) = (0, 0);
        }
        match requests[done - 1].pause_us() {
            0 => self.issue_now(id),
            pause_us => {
                let at_us = self.now_us + pause_us;
                self.wakes.arm(id, at_us, &mut slot.armed_wake);
            }
        }
    }

    fn issue_now(&mut self, id: u32) {
        if self.now_us < self.recorder.window.to_us {
            self.issue(id, self.now_us, false);
        }
    }

    fn end_session(&mut self, id: u32) {
        self.sessions -= 1;
        let slot = &self.slots[id as usize];
        if slot.session_measured {
            let length = self.requests(slot.session).len();
            self.recorder.session_ended(slot, length, self.now_us);
        }
        if self.plan.connection_use == ConnectionUse::Session {
            self.close(id);
        }
        match self.plan.model {
            Model::Closed { .. } if self.slots[id as usize].is_broken => self.rest(id),
            Model::Closed { .. } => self.begin_next(id),
            Model::Open(_) => self.release(id),
        }
    }

    /// Has a client of a closed run pause after a failure.
    fn rest(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        (slot.session, slot.phase, slot.deadline_us) = (NO_SESSION, Phase::Thinking, NEVER);
        self.wakes.arm(id, self.now_us + AFTER_FAILURE_US, &mut slot.armed_wake);
    }

    /// Releases the slot for other sessions.
    fn release(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        (slot.phase, slot.deadline_us) = (Phase::Free, NEVER);
        let keeps = self.plan.connection_use == ConnectionUse::Keep && slot.is_usable();
        if keeps {
            self.kept[slot.target].push(id);
        } else {
            self.close(id);
            self.free.push(id);
        }
    }

    /// Sets the deadline of the requests under way, `time_us` from now. Requests that the generator
    /// issued after the end of the window get no time of their own, so that the run ends.
    fn set_deadline(&mut self, id: u32, time_us: u64) {
        let slot = &mut self.slots[id as usize];
        let from_us = if slot.is_late { self.recorder.window.to_us } else { self.now_us };
        let at_us = from_us.saturating_add(time_us);
        slot.deadline_us = at_us;
        self.deadlines.arm(id, at_us, &mut slot.armed_deadline);
    }

    pub(super) fn time_out(&mut self, id: u32) {
        let kind = match self.slots[id as usize].phase {
            Phase::Connecting => ErrorKind::TimeoutConnecting,
            Phase::Sending => ErrorKind::TimeoutSending,
            Phase::Waiting => ErrorKind::TimeoutWaiting,
            Phase::Receiving => ErrorKind::TimeoutReceiving,
            Phase::Free | Phase::Thinking => return,
        };
        self.fail(id, kind);
    }

    /// Fails the requests under way, and with them the connection and the session.
    pub(super) fn fail(&mut self, id: u32, kind: ErrorKind) {
        let slot = &self.slots[id as usize];
        let requests = self.requests(slot.session);
        let (measured, first) = (slot.measured, slot.position as usize);
        let under_way = &requests[first..slot.issued as usize];
        for (index, request) in under_way.iter().enumerate() {
            let got = if index == 0 { slot.body_bytes } else { 0 };
            let expected = &self.plan.expected[request.template()];
            if measured {
                self.recorder.failed(kind, expected, got, self.now_us);
            }
        }
        if measured && !self.plan.model.is_endless() {
            let to_us = self.recorder.window.to_us;
            self.recorder.abandoned(due_before(to_us, requests, slot.issued as usize, self.now_us));
        }
        if self.is_open() {
            self.recorder.settled_from(first, slot, requests, self.now_us);
        }
        if slot.session_measured && kind.is_timeout() {
            self.recorder.session_timed_out(requests.len());
        }
        self.in_flight -= under_way.len() as u64;
        self.close(id);
        let slot = &mut self.slots[id as usize];
        slot.position = slot.issued;
        (slot.session_failed, slot.is_broken) = (true, true);
        self.end_session(id);
    }

    /// Closes the slot's connection if it has one.
    pub(super) fn close(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        slot.held.clear();
        slot.unsent.clear();
        let Some(socket) = slot.socket.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        self.open -= 1;
        self.recorder.connection_closed(slot, self.now_us);
        drop(socket);
    }
}

/// The epoll key that identifies a slot and its connection.
fn key(id: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(id)
}

/// How many of the requests are issued together: the first of a burst alone, then all others of it.
fn group(requests: &[Request]) -> usize {
    match requests {
        [first, ..] if first.joins() => {
            requests.iter().position(|request| !request.joins()).unwrap_or(requests.len())
        }
        _ => 1,
    }
}

/// How many requests, after the first `issued`, would have been due before `to_us`, had the issued
/// ones been answered at `now_us`, and all later ones at once.
fn due_before(to_us: u64, requests: &[Request], issued: usize, now_us: u64) -> u64 {
    let due_us = due_times(now_us, &requests[issued.saturating_sub(1)..]).skip(1);
    due_us.take_while(|at_us| *at_us < to_us).count() as u64
}

/// Appends the bytes of a request. `close`: the connection is not to be kept.
pub(crate) fn write_request(text: &mut Vec<u8>, template: &Template, target: &Target, close: bool) {
    text.extend_from_slice(template.method.as_bytes());
    text.push(b' ');
    // Logs of the University of Waterloo leave the slash out.
    if !template.uri.starts_with(b"/") && !template.uri.starts_with(b"http://") {
        text.push(b'/');
    }
    text.extend_from_slice(&template.uri);
    text.extend_from_slice(&target.fields);
    if close {
        text.extend_from_slice(b"Connection: close\r\n");
    }
    let body = &template.body;
    if !body.is_empty() {
        text.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    text.extend_from_slice(body);
}

pub(crate) fn connect_error_kind(why: &io::Error) -> ErrorKind {
    match why.kind() {
        io::ErrorKind::ConnectionRefused => ErrorKind::Refused,
        io::ErrorKind::TimedOut => ErrorKind::TimeoutConnecting,
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            ErrorKind::Unreachable
        }
        _ => system_error_kind(why),
    }
}

pub(crate) fn system_error_kind(why: &io::Error) -> ErrorKind {
    match why.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => ErrorKind::Reset,
        io::ErrorKind::AddrNotAvailable => ErrorKind::OutOfPorts,
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            ErrorKind::Unreachable
        }
        _ if Cause::from_error(why) == Cause::NoDescriptor => ErrorKind::OutOfDescriptors,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requests_due_in_the_window_count_as_given_up() {
        let request = |joins, pause_us| Request::new(0, joins, pause_us);
        // Two bursts, a request after a long pause, and one after it.
        let session = [request(false, 0), request(true, 10), request(false, 0), request(true, 30)];
        let session = [&session[..], &[request(false, 0), request(false, 5)]].concat();
        let due = |issued, to_us| due_before(to_us, &session, issued, 100);
        assert_eq!((due(1, 101), due(1, 110), due(1, 111), due(1, 140)), (1, 1, 3, 3));
        assert_eq!((due(1, 141), due(1, u64::MAX)), (5, 5));
        assert_eq!((due(2, 110), due(2, 111), due(4, 130), due(4, 131)), (0, 2, 0, 2));
        assert_eq!((due(6, u64::MAX), due(1, 100), due(1, 0)), (0, 0, 0));
    }

    #[track_caller]
    fn check(code: i32, expected: ErrorKind) {
        assert_eq!(connect_error_kind(&io::Error::from_raw_os_error(code)), expected);
    }

    /// The error numbers are Linux's.
    #[test]
    fn failures_to_connect_have_names() {
        check(111, ErrorKind::Refused); // ECONNREFUSED
        check(110, ErrorKind::TimeoutConnecting); // ETIMEDOUT
        check(101, ErrorKind::Unreachable); // ENETUNREACH
        check(113, ErrorKind::Unreachable); // EHOSTUNREACH
        check(104, ErrorKind::Reset); // ECONNRESET
        check(32, ErrorKind::Reset); // EPIPE
        check(99, ErrorKind::OutOfPorts); // EADDRNOTAVAIL
        check(24, ErrorKind::OutOfDescriptors); // EMFILE
        check(23, ErrorKind::OutOfDescriptors); // ENFILE
        check(13, ErrorKind::Other); // EACCES
    }
}
