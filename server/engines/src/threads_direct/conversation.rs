//! One connection from its first byte to its close, in straight-line code: the state of the
//! protocol is the position in this code. The answers to requests are made in `session`, and heads
//! are parsed in `http1`.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use http1::{BodySkipper, Head, Parsed, begins_head_request, parse_head};
use session::Connection;
use session::{After, Job, LINGER_BYTES_MAX, Limits, Op, Prepared, Reply, Tick};
use session::{WRITE_PROGRESS_BYTES_MIN, Worker};

use super::input::Input;
use crate::parts::kernel_threads::blocking::{Waits, WorkerLease, remaining_ms};
use crate::parts::kernel_threads::registry::{Arrival, Entry, Registry};
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::transport::Plain;

/// Serves a connection to its end.
pub(super) fn serve(
    registry: &Registry,
    arrival: &mut Arrival,
    buffer: &mut [u8],
) -> Option<Connection> {
    let mut lease = WorkerLease::new(registry);
    let limits = Arc::clone(lease.worker().limits());
    let waits = Waits::new(registry.sendfile, false);
    let (entry, peer) = (&*arrival.entry, arrival.peer);
    let mut conversation =
        Conversation { registry, entry, peer, lease, waits, limits, requests: 0, is_taken: false };
    conversation.hold(&mut Input::new(buffer));
    None // without the state machine it goes to no other engine
}

/// A client's connection, and the state needed to serve it.
pub(super) struct Conversation<'a> {
    pub(super) registry: &'a Registry,
    pub(super) entry: &'a Entry,
    peer: SocketAddr,
    pub(super) lease: WorkerLease<'a>,
    waits: Waits,
    limits: Arc<Limits>,
    requests: u32,
    /// Whether the connection was closed from outside at the moment in which a request was
    /// received, which is then the last one.
    is_taken: bool,
}

/// The way a conversation ends.
pub(super) enum End {
    /// In order.
    Close,
    /// In order, but the client may still be sending.
    Linger,
    /// With a reset: the client must not take the response for complete.
    Reset,
}

/// The time that a client may take to accept a response: the deadline moves with its progress.
pub(super) struct Pace {
    pub(super) deadline: Tick,
    progress: u64,
}

impl Conversation<'_> {
    fn hold(&mut self, input: &mut Input<'_>) {
        let Err(mut end) = self.talk(input);
        if let End::Linger = end {
            end = self.linger(input);
        }
        if let End::Reset = end {
            // If it fails the close is orderly.
            let _ = os::socket::set_linger_zero(self.entry.socket());
        }
    }

    /// Reads and answers request after request.
    fn talk(&mut self, input: &mut Input<'_>) -> Result<Infallible, End> {
        self.waits.begin(self.entry).or(Err(End::Close))?;
        while !self.registry.is_aborting() {
            let (reply, prepared) = self.read_request(input)?;
            let (after, body) = self.write(reply, prepared, input)?;
            match (after, body) {
                (After::KeepAlive, None) if self.ends_here(input) => return Err(End::Linger),
                (After::KeepAlive, None) => {}
                (After::KeepAlive, Some(body)) => self.skip(body, input)?,
                (After::Close, None) if input.len() == 0 => return Err(End::Close),
                (After::Close | After::Linger, _) => return Err(End::Linger),
            }
        }
        Err(End::Close)
    }

    /// Reads one head, in however many pieces it arrives, and begins the response to it.
    #[inline]
    fn read_request(&mut self, input: &mut Input<'_>) -> Result<(Reply, Prepared), End> {
        let began = self.rest(input)?;
        let mut scanned = 0;
        loop {
            match parse_head(input.bytes(), scanned, &self.limits.head) {
                Ok(Parsed::Complete(head)) => {
                    let (bytes, arrived) = input.bytes().split_at(head.len);
                    let begun = self.answer(bytes, &head, arrived);
                    let len = head.len;
                    input.consume(len);
                    return Ok(begun);
                }
                Ok(Parsed::Partial { scanned: all }) => scanned = all,
                Err(error) => {
                    let (status, reason) = (error.status(), error.reason());
                    let begun = self.refuse(status, reason, input.bytes());
                    input.consume(input.len()); // bytes after an invalid head have no meaning
                    return Ok(begun);
                }
            }
            // The more of the head has arrived, the more time it gets.
            let earned_ms = input.len() as u64 * 1000 / self.limits.head_bytes_per_s_min.max(1);
            let ms = self.limits.head_ms + earned_ms.min(2 * self.limits.head_ms);
            if !self.receive(input, began.plus_ms(ms), false)? {
                self.worker().counters.connections_expired.add(1);
                let why = "The request head took too long.";
                return Ok(self.refuse(408, why, input.bytes()));
            }
        }
    }

    /// Waits for the first bytes of a request. Returns when its head began.
    #[inline]
    fn rest(&mut self, input: &mut Input<'_>) -> Result<Tick, End> {
        let now = self.worker().now();
        if !Arc::ptr_eq(&self.limits, self.lease.worker().limits()) {
            self.limits = Arc::clone(self.lease.worker().limits());
        }
        let is_first = self.requests == 0;
        let ms = if is_first { self.limits.head_ms } else { self.limits.idle_ms };
        if input.len() == 0 && !self.receive(input, now.plus_ms(ms), true)? {
            return Err(self.expired(End::Close));
        }
        Ok(if is_first { now } else { self.worker().now() })
    }

    /// Begins the response to a request.
    #[inline]
    fn answer(&mut self, bytes: &[u8], head: &Head<'_>, arrived: &[u8]) -> (Reply, Prepared) {
        self.requests = self.requests.wrapping_add(1);
        let is_last = self.requests == self.limits.requests_per_connection_max;
        let is_last = is_last || self.is_taken || self.registry.are_last();
        Reply::begin(self.lease.worker(), self.peer, bytes, head, arrived, is_last)
    }

    /// Begins the response to bytes that are no request, or will never be a whole one.
    fn refuse(&mut self, status: u16, reason: &'static str, received: &[u8]) -> (Reply, Prepared) {
        let is_head = begins_head_request(received);
        Reply::refusal(self.lease.worker(), self.peer, status, reason, is_head)
    }

    /// Sends a response and records it, whether or not sending succeeds. Returns what follows, and
    /// the request's body if it is still to be read and dropped.
    #[inline]
    fn write(
        &mut self,
        mut reply: Reply,
        prepared: Prepared,
        input: &mut Input<'_>,
    ) -> Result<(After, Option<BodySkipper>), End> {
        let outcome = self.write_all(&mut reply, prepared, input);
        let after = reply.finish(self.lease.worker());
        outcome.map(|()| after)
    }

    /// Whether the connection is to end although the last response kept it alive: the engine
    /// drains, and the client has sent nothing meanwhile. A request that it has sent is answered,
    /// and the answer announces the close.
    fn ends_here(&self, input: &Input<'_>) -> bool {
        self.registry.is_draining()
            && input.len() == 0
            && !os::socket::has_input(self.entry.socket())
    }

    #[inline]
    fn write_all(
        &mut self,
        reply: &mut Reply,
        mut prepared: Prepared,
        input: &mut Input<'_>,
    ) -> Result<(), End> {
        let mut pace = self.pace();
        loop {
            while matches!(prepared, Prepared::Job | Prepared::Body) {
                prepared = match prepared {
                    Prepared::Body => self.gather(reply, input)?,
                    _ => match reply.take_job() {
                        Job::Application(call) => self.call(call, reply, input)?,
                        job => self.run(job, reply),
                    },
                };
                pace = self.pace();
            }
            if prepared == Prepared::Nothing {
                return Err(self.cut_short());
            }
            let room = input.spare();
            while self.send(reply, &mut pace, room)? {}
            match reply.refill(self.worker()) {
                Some(next) => prepared = next,
                None => return Ok(()),
            }
        }
    }

    /// Gathers a body that its application must be told the length of. What follows it stays with
    /// the reply, until the application has answered.
    #[cold]
    fn gather(&mut self, reply: &mut Reply, input: &mut Input<'_>) -> Result<Prepared, End> {
        let mut pace = self.pace();
        let room = input.spare();
        while self.send(reply, &mut pace, room)? {} // the client may wait for an invitation
        loop {
            reply.ingest(input.bytes());
            input.consume(input.len());
            match reply.gather(self.worker()) {
                Prepared::Body => {}
                prepared => return Ok(prepared),
            }
            let deadline = self.pace().deadline;
            match self.receive(input, deadline, false) {
                Ok(true) => {}
                Ok(false) => {
                    self.worker().counters.connections_expired.add(1);
                    return Ok(reply.fail_body(self.worker()));
                }
                Err(end) => {
                    reply.leave();
                    return Err(end);
                }
            }
        }
    }

    /// Runs a job of the response.
    fn run(&mut self, job: Job, reply: &mut Reply) -> Prepared {
        let done = self.registry.run(job);
        read_clock(self.worker());
        if self.registry.are_last() {
            reply.be_last();
        }
        reply.done(self.worker(), done)
    }

    /// Sends a piece of the prepared response. Returns whether there was one.
    #[inline]
    fn send(&mut self, reply: &mut Reply, pace: &mut Pace, room: &mut [u8]) -> Result<bool, End> {
        let socket = self.entry.socket();
        let remaining_ms = remaining_ms(pace.deadline, self.worker().now());
        self.waits.before_send(self.entry, remaining_ms).or(Err(End::Close))?;
        let sent = match reply.op() {
            Op::Send { head, body, more } => Plain(socket).send_both(head, body, more, room),
            Op::File { file, offset, len } => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                match os::send::sendfile(socket, file.as_fd(), offset, len) {
                    Ok(0) => return Err(self.cut_short()), // the file has become shorter
                    sent => sent,
                }
            }
            Op::Read { file, offset, len } => {
                let len = len.min(room.len());
                return match os::files::read_at(file.as_fd(), &mut room[..len], offset) {
                    Ok(0) | Err(_) => Err(self.cut_short()),
                    Ok(read) => {
                        reply.read(&room[..read]);
                        Ok(true)
                    }
                };
            }
            _ => return Ok(false),
        };
        match sent {
            Ok(n) => {
                read_clock(self.worker()); // the call may have waited
                reply.sent(n);
                self.note_sent(pace, n);
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                self.lease.release();
                self.waits.wait_for_room(self.entry, remaining_ms).or(Err(End::Close))?;
                if pace.deadline <= self.worker().now() {
                    return Err(self.expired(End::Reset));
                }
            }
            Err(_) => return Err(End::Close),
        }
        Ok(true)
    }

    /// Reads and drops the body of a request that was answered without it.
    fn skip(&mut self, mut body: BodySkipper, input: &mut Input<'_>) -> Result<(), End> {
        let deadline = self.worker().now().plus_ms(self.limits.head_ms);
        let mut skipped = 0;
        loop {
            let taken = body.skip(input.bytes()).or(Err(End::Linger))?;
            input.consume(taken);
            skipped += taken as u64;
            // The limit comes first: whether a body is too long must not depend on the pieces in
            // which it arrives.
            if skipped > self.limits.unread_body_bytes_max {
                return Err(End::Linger);
            }
            if body.is_done() {
                return Ok(());
            }
            if !self.receive(input, deadline, false)? {
                return Err(self.expired(End::Close));
            }
        }
    }

    /// Shuts down the server's side of the connection, and waits for the client's close.
    fn linger(&mut self, input: &mut Input<'_>) -> End {
        let _ = os::socket::shutdown_write(self.entry.socket()); // fails only if the peer has gone
        let deadline = self.worker().now().plus_ms(self.limits.linger_ms);
        let mut dropped = 0;
        while dropped <= LINGER_BYTES_MAX {
            input.consume(input.len());
            match self.receive(input, deadline, false) {
                Ok(true) => dropped += input.len() as u64,
                Ok(false) => return self.expired(End::Close),
                Err(end) => return end,
            }
        }
        End::Reset
    }

    /// Waits for bytes until the deadline. Returns whether some have come. A connection that
    /// `rests` may be closed from outside meanwhile.
    #[inline]
    fn receive(&mut self, input: &mut Input<'_>, deadline: Tick, rests: bool) -> Result<bool, End> {
        loop {
            let now = self.worker().now();
            if deadline <= now {
                return Ok(false);
            }
            self.lease.release();
            self.registry.yielding.yield_if_behind(now);
            if rests {
                self.registry.rest(self.entry, now);
            }
            let remaining_ms = remaining_ms(deadline, now);
            let receive = || self.waits.receive(self.entry, remaining_ms, input.room());
            let received = os::uninterrupted(receive);
            self.is_taken |= rests && !self.entry.resume();
            match received {
                Ok(0) => return Err(End::Close),
                Ok(n) => {
                    input.add(n);
                    return Ok(true);
                }
                Err(_) if self.is_taken => return Err(End::Close),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(End::Close),
            }
        }
    }

    #[inline]
    pub(super) fn note_sent(&mut self, pace: &mut Pace, n: usize) {
        pace.progress += n as u64;
        if pace.progress >= WRITE_PROGRESS_BYTES_MIN {
            *pace = self.pace();
        }
    }

    pub(super) fn pace(&mut self) -> Pace {
        Pace { deadline: self.lease.worker().now().plus_ms(self.limits.write_ms), progress: 0 }
    }

    pub(super) fn expired(&mut self, end: End) -> End {
        self.worker().counters.connections_expired.add(1);
        end
    }

    fn cut_short(&mut self) -> End {
        self.worker().counters.bodies_cut_short.add(1);
        End::Reset
    }

    #[inline]
    pub(super) fn worker(&mut self) -> &mut Worker {
        self.lease.worker()
    }
}
