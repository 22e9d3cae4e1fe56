//! The connection: its states, and the transitions between them.
//!
//! This file is the state machine: reading requests, going from one to the next, deadlines,
//! closing. How a request is answered is in `respond.rs`.

use std::net::SocketAddr;

use http1::{Head, Parsed};
use upstream::Tick;

use crate::after::After;
use crate::exchange::{AHEAD_BYTES_MAX, Exchange, Skipped, Then};
use crate::job::{Done, Job, JobId};
use crate::limits::{LINGER_BYTES_MAX, WRITE_PROGRESS_BYTES_MIN};
use crate::op::Op;
use crate::response::{Prepared, Response};
use crate::stream::Stream;
use crate::worker::Worker;

/// The phase of a connection, for drivers that evict or park connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before a request, without buffers: may be closed or parked.
    Idle,
    /// In the middle of a head.
    Reading,
    /// A job has to run, or runs.
    Working,
    /// Sending a response.
    Writing,
    /// Reading bytes that are not needed.
    Draining,
    /// To be closed.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Accepted, nothing received.
    Fresh,
    Idle,
    Reading,
    /// A job is ready to be taken.
    Working,
    /// The job was taken and has not been answered, and nothing is left to send.
    Waiting,
    /// The request's body is gathered before its application is called.
    Spooling,
    /// An application waits for more of the request's body, and nothing is left to send.
    Uploading,
    Writing,
    /// The rest of the job is ready to be taken; bytes may be left to send.
    Continuing,
    /// Bytes are left to send, and the job is out for the rest of its answer.
    Streaming,
    /// Dropping an unwanted request body.
    Skipping,
    /// About to shut the write side down.
    ShuttingDown,
    /// Waiting for the client's close.
    Lingering,
    Closed {
        reset: bool,
    },
}

/// How soon the server wants a connection to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Never,
    /// After a response that says so.
    WithNext,
    /// After the response under way, or at once.
    Now,
}

/// One client connection.
///
/// # The grammar of its calls
///
/// [`Connection::next`] says what to do, and the driver reports each result:
///
/// | operation | when it is done | what it is |
/// |---|---|---|
/// | [`Op::Job`] | `take_job`, run it, `done` | a request, or the page of an error, needs a job |
/// | [`Op::Stream`] of a listing | `take_job`, run it, `done` | its next part can be prepared |
/// | [`Op::Stream`] of a call | its `stream` | more of a body has come, or a reply has room |
/// | [`Op::Send`], [`Op::File`] | `sent` | a response, or a part of one |
/// | [`Op::Read`] | `read` | bytes of a file, which are then sent |
/// | [`Op::Recv`] | `ingest`, with nothing at the end of the stream | a request, or its rest |
/// | [`Op::Wait`] | | the job that is out has to come back first |
/// | [`Op::Shutdown`] | `sent(0)` | no more is sent |
/// | [`Op::Close`] | `close`, and nothing after it | the end, in order or with a reset |
///
/// Beside these, at any time: `ingest` if [`Connection::wants_input`], `sent` for bytes whose
/// sending has begun, `done` for a job that is out, `stream` for a call that is out, `expire` when
/// the [`Connection::deadline`] has passed, `drain`, `end_with_next` and `close`.
///
/// The job of an application is a call, which its driver makes beside this connection. It has no
/// answer: what there is of the reply goes into its stream, and its end with it. When the call is
/// no longer wanted, no operation says so: a driver that waits with a call out looks at
/// [`Connection::wants_stream`] first.
///
/// # What always holds
///
/// * The next operation changes only with a call that takes `&mut self`.
/// * Of several operations that are possible, the one that is higher in the table comes first: a
///   job is begun before bytes are sent, and bytes are sent before more is received. A driver whose
///   socket is full has therefore nothing else to do for the connection than to receive.
/// * The bytes of an operation do not move until `sent`, whatever is ingested and whichever job is
///   answered meanwhile.
/// * One job is out at a time. A job that has answered in part keeps its number for its next part,
///   which is prepared when half of the last is sent, and kept while the other half is. A driver
///   that has no room for it now may put it off ([`Connection::put_off`]) and send the other half.
/// * There is a deadline, unless a job is out, nothing is left to send, and the client owes nothing
///   of a body: then the connection waits for its own server, or for a client that speaks another
///   protocol by now, whose time the call keeps.
/// * After the end of the client's stream nothing is received, and requests that came before it
///   are answered. After `Shutdown` nothing is sent. After `Close` nothing changes any more.
/// * The answer to a job that has ended, or whose connection has, is dropped.
pub struct Connection {
    pub(crate) exchange: Option<Box<Exchange>>,
    pub(crate) peer: SocketAddr,
    pub(crate) deadline: Tick,
    /// When the head that is being read began; for its minimum rate.
    pub(crate) head_began: Tick,
    /// The number of the last job that was taken.
    pub(crate) job: u32,
    pub(crate) requests: u32,
    /// Bytes dropped while lingering.
    pub(crate) lingered: u32,
    pub(crate) state: State,
    /// What happens to the connection after the current response.
    pub(crate) after: After,
    /// Whether the server wants the connection to end, and how soon.
    pub(crate) ending: Ending,
    /// Whether the client has shut its side down.
    pub(crate) is_at_end: bool,
}

impl Connection {
    /// Creates a connection that was just accepted from `peer`.
    #[must_use]
    pub fn new(w: &Worker, peer: SocketAddr) -> Self {
        Self {
            exchange: None,
            peer,
            deadline: w.now().plus_ms(w.limits.head_ms),
            head_began: w.now(),
            job: 0,
            requests: 0,
            lingered: 0,
            state: State::Fresh,
            after: After::KeepAlive,
            ending: Ending::Never,
            is_at_end: false,
        }
    }

    /// Returns the next operation. It stays the same until the driver reports a result.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Op<'_> {
        match self.state {
            State::Fresh
            | State::Idle
            | State::Reading
            | State::Uploading
            | State::Skipping
            | State::Lingering => Op::Recv,
            State::Writing | State::Streaming => {
                self.exchange.as_ref().map_or(Op::Wait, |exchange| exchange.op())
            }
            State::Spooling => self.next_of_body(),
            State::Working => Op::Job,
            State::Continuing => Op::Stream(self.job_id()),
            State::Waiting if self.wants_input() => Op::Recv,
            State::Waiting => Op::Wait,
            State::ShuttingDown => Op::Shutdown,
            State::Closed { reset } => Op::Close { reset },
        }
    }

    /// What is next while a body is gathered: it is received, after its client was invited.
    #[cold]
    #[inline(never)]
    fn next_of_body(&self) -> Op<'_> {
        match self.exchange.as_ref().map_or(Op::Wait, |exchange| exchange.op()) {
            Op::Wait => Op::Recv,
            invitation => invitation,
        }
    }

    /// Whether to receive: because that is the next operation, or beside it, while a response is
    /// sent that its client does not take, and while a job is out. A client that has sent 16 KiB
    /// ahead of its answers waits.
    #[inline]
    #[must_use]
    pub fn wants_input(&self) -> bool {
        let is_open = !matches!(self.state, State::ShuttingDown | State::Closed { .. });
        let is_busy = matches!(self.phase(), Phase::Working | Phase::Writing);
        let kept = self.exchange.as_ref().map_or(0, |exchange| exchange.unread().len());
        is_open && !self.is_at_end && (!is_busy || kept < AHEAD_BYTES_MAX)
    }

    /// Takes all received bytes; none means the end of the stream.
    #[inline]
    pub fn ingest(&mut self, w: &mut Worker, bytes: &[u8]) {
        if bytes.is_empty() {
            return self.end_of_stream();
        }
        match self.state {
            State::Fresh | State::Idle if self.exchange.is_none() => self.read_lent(w, bytes),
            State::Fresh | State::Idle | State::Reading | State::Skipping => {
                self.stash(w, bytes);
                self.read_stashed(w);
            }
            State::Lingering => self.linger(bytes.len()),
            State::Working
            | State::Waiting
            | State::Spooling
            | State::Uploading
            | State::Writing
            | State::Continuing
            | State::Streaming => self.take_ahead(w, bytes),
            State::ShuttingDown | State::Closed { .. } => {}
        }
    }

    /// Reports that `n` bytes of the operation were sent. For `Op::File`, 0 means that the file has
    /// become shorter; for `Op::Shutdown` it is always 0.
    #[inline]
    pub fn sent(&mut self, w: &mut Worker, n: usize) {
        match self.state {
            State::Writing | State::Continuing | State::Streaming if n > 0 => self.count_sent(w, n),
            State::Writing | State::Continuing | State::Streaming => {
                w.counters.bodies_cut_short.add(1);
                self.state = State::Closed { reset: true };
            }
            State::Spooling => {
                if let Some(exchange) = &mut self.exchange {
                    exchange.sent(n);
                }
            }
            State::ShuttingDown => {
                self.state = State::Lingering;
                self.deadline = w.now().plus_ms(w.limits.linger_ms);
            }
            _ => {}
        }
    }

    /// Takes in the bytes of a file that `Op::Read` asked for, or the first of them; none means
    /// that the file has become shorter.
    pub fn read(&mut self, w: &mut Worker, bytes: &[u8]) {
        match &mut self.exchange {
            Some(exchange) if self.state == State::Writing && !bytes.is_empty() => {
                exchange.read(bytes);
            }
            _ => self.sent(w, 0),
        }
    }

    /// The job that is ready to be taken.
    #[must_use]
    pub fn job(&self) -> Option<&Job> {
        match self.state {
            State::Working | State::Continuing => self.exchange.as_ref()?.job.as_ref(),
            _ => None,
        }
    }

    /// Takes the job, or the rest of it. Only when [`Connection::next`] returned `Op::Job` or
    /// `Op::Stream`.
    ///
    /// # Panics
    /// If it returned something else.
    pub fn take_job(&mut self) -> (JobId, Job) {
        let job = self.exchange.as_mut().and_then(|exchange| exchange.job.take());
        let job = job.expect("a job is taken once, after Op::Job or Op::Stream");
        self.state = match (self.state, &self.exchange) {
            (State::Continuing, Some(exchange)) if !exchange.is_sent() => State::Streaming,
            _ => State::Waiting,
        };
        (self.job_id(), job)
    }

    /// Puts the rest of a job off until what is left to send is sent. Returns whether anything is.
    pub fn put_off(&mut self) -> bool {
        let is_left = self.exchange.as_ref().is_some_and(|exchange| !exchange.is_sent());
        let is_put_off = self.state == State::Continuing && is_left;
        if is_put_off {
            self.state = State::Writing;
        }
        is_put_off
    }

    /// The job that is ready to be taken, or was taken last.
    pub(crate) fn job_id(&self) -> JobId {
        JobId { number: self.job, stream: 0 }
    }

    /// Whether a job is out or has answered in part.
    pub(crate) fn is_streaming(&self) -> bool {
        matches!(
            self.state,
            State::Waiting | State::Uploading | State::Streaming | State::Continuing
        )
    }

    /// Reports the answer to a job. An answer to an earlier job is dropped.
    pub fn done(&mut self, w: &mut Worker, id: JobId, done: Done) {
        if !matches!(self.state, State::Waiting | State::Streaming) || id != self.job_id() {
            return;
        }
        let prepared = self.response(w).job_done(w, done);
        match (self.state, prepared) {
            // The client's time for what is being sent goes on.
            (State::Streaming, Prepared::Bytes) => self.state = State::Writing,
            _ => self.follow(w, prepared),
        }
        self.gather(w);
    }

    /// The phase of the connection.
    #[must_use]
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Fresh | State::Idle => Phase::Idle,
            State::Reading => Phase::Reading,
            State::Spooling if !matches!(self.next_of_body(), Op::Recv) => Phase::Writing,
            State::Working | State::Waiting | State::Spooling | State::Uploading => Phase::Working,
            State::Writing | State::Continuing | State::Streaming => Phase::Writing,
            State::Skipping | State::ShuttingDown | State::Lingering => Phase::Draining,
            State::Closed { .. } => Phase::Closed,
        }
    }

    /// Whether another driver may go on with the connection, with a worker of another site: no job
    /// is out, and what is left of the answer does not depend on the hosts.
    #[must_use]
    pub fn is_movable(&self) -> bool {
        match self.state {
            State::Working
            | State::Waiting
            | State::Spooling
            | State::Uploading
            | State::Streaming => false,
            _ => self.exchange.as_ref().is_none_or(|exchange| exchange.is_movable()),
        }
    }

    /// The client's address, as the connection was told.
    #[must_use]
    #[inline]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Tells a connection its client's address which was not known when it began.
    pub fn set_peer(&mut self, peer: SocketAddr) {
        self.peer = peer;
    }

    /// Takes the connection out, for another driver, and leaves one that is closed.
    #[must_use]
    pub fn release(&mut self) -> Self {
        let closed = Self {
            exchange: None,
            state: State::Closed { reset: false },
            peer: self.peer,
            after: After::Close,
            ..*self
        };
        std::mem::replace(self, closed)
    }

    /// Makes the connection close after the response under way, or at once if it rests.
    pub fn drain(&mut self) {
        self.ending = Ending::Now;
        self.be_last();
        if matches!(self.state, State::Fresh | State::Idle) {
            self.state = State::Closed { reset: false };
        }
    }

    /// Makes the connection close after the first response that can still say that it is the last:
    /// that to the request under way unless its head is written, or else to the next one, for which
    /// the connection stays open.
    pub fn end_with_next(&mut self) {
        self.ending = self.ending.max(Ending::WithNext);
        if self.exchange.as_ref().is_none_or(|exchange| exchange.draft.status == 0) {
            self.be_last();
        }
    }

    fn be_last(&mut self) {
        if self.after == After::KeepAlive {
            self.after = After::Linger;
        }
    }

    /// When [`Connection::expire`] is due; none while a job is out and nothing is left to send.
    #[must_use]
    #[inline]
    pub fn deadline(&self) -> Option<Tick> {
        (self.state != State::Waiting).then_some(self.deadline)
    }

    /// Acts on a deadline that has passed, or closes an idle connection for its driver.
    pub fn expire(&mut self, w: &mut Worker) {
        match self.state {
            State::Reading if self.has_part_of_head() => {
                w.counters.connections_expired.add(1);
                let unread = self.exchange.as_ref().map_or(&[][..], |exchange| exchange.unread());
                let is_head = http1::begins_head_request(unread);
                self.refuse(w, 408, "The request head took too long.", is_head);
            }
            State::Spooling | State::Uploading => {
                w.counters.connections_expired.add(1);
                self.fail_call(w, 408);
            }
            // A decision to close is kept: a reset must not become an orderly close.
            State::Waiting | State::Closed { .. } => {}
            State::Writing | State::Continuing | State::Streaming => {
                w.counters.connections_expired.add(1);
                self.state = State::Closed { reset: true };
            }
            _ => {
                w.counters.connections_expired.add(1);
                self.state = State::Closed { reset: false };
            }
        }
    }

    /// Acts on the deadline if it has passed. Returns whether it had.
    #[inline]
    pub fn expire_if_due(&mut self, w: &mut Worker) -> bool {
        let is_due = self.deadline().is_some_and(|deadline| deadline <= w.now());
        if is_due {
            self.expire(w);
        }
        is_due
    }

    /// Whether more has arrived than the blank line that may precede a request (RFC 9112 §2.2):
    /// some clients send one after a body, which is no part of a request.
    fn has_part_of_head(&self) -> bool {
        let unread = self.exchange.as_ref().map_or(&[][..], |exchange| exchange.unread());
        !b"\r\n".starts_with(unread)
    }

    /// Returns the buffers to the worker and records a response that was broken off. This is the
    /// last call.
    pub fn close(&mut self, w: &mut Worker) {
        self.state = State::Closed { reset: false };
        if let Some(exchange) = self.exchange.take() {
            if exchange.draft.status != 0 {
                w.record(&exchange, self.peer);
            }
            w.return_exchange(exchange);
        }
    }

    /// Reads the next head from received bytes without copying them; usually they are one whole
    /// request.
    #[inline]
    fn read_lent(&mut self, w: &mut Worker, bytes: &[u8]) {
        match self.read_head(w, bytes, 0) {
            Ok(taken) if taken == bytes.len() => {}
            Ok(taken) => self.take_ahead(w, &bytes[taken..]),
            Err(scanned) => {
                self.stash(w, bytes);
                self.wait_for_head(w, scanned);
            }
        }
    }

    /// Continues with bytes that were kept: an unwanted body first, then the next head.
    fn read_stashed(&mut self, w: &mut Worker) {
        let Some(exchange) = &mut self.exchange else { return };
        if exchange.skipper.is_some() && !self.skip_body(w) {
            return;
        }
        let Some(exchange) = &mut self.exchange else { return };
        if exchange.unread().is_empty() {
            return self.rest(w);
        }
        let input = std::mem::take(&mut exchange.input);
        let (at, scanned) = (exchange.input_at, exchange.scanned);
        let outcome = self.read_head(w, &input[at..], scanned);
        let exchange = self.exchange.get_or_insert_with(|| w.take_exchange());
        (exchange.input, exchange.input_at) = (input, at);
        match outcome {
            Ok(taken) => {
                exchange.consume(taken);
                self.skip_ahead(w);
                self.gather(w);
            }
            Err(scanned) => self.wait_for_head(w, scanned),
        }
    }

    /// Tries to read one head, and begins its request. `Ok` is the number of bytes of the head;
    /// `Err` is how far an incomplete head was scanned.
    #[inline]
    fn read_head(&mut self, w: &mut Worker, bytes: &[u8], scanned: usize) -> Result<usize, usize> {
        match http1::parse_head(bytes, scanned, &w.limits.head) {
            Ok(Parsed::Complete(head)) => {
                self.begin(w, &bytes[..head.len], &head, &bytes[head.len..]);
                Ok(head.len)
            }
            Ok(Parsed::Partial { scanned }) => Err(scanned),
            Err(error) => {
                let is_head = http1::begins_head_request(bytes);
                self.refuse(w, error.status(), error.reason(), is_head);
                Ok(bytes.len())
            }
        }
    }

    /// Begins a request: prepares its answer.
    #[inline]
    fn begin(&mut self, w: &mut Worker, bytes: &[u8], head: &Head<'_>, arrived: &[u8]) {
        self.requests = self.requests.wrapping_add(1);
        let is_last =
            self.ending != Ending::Never || self.has_had(w.limits.requests_per_connection_max);
        let prepared = self.response(w).respond(w, bytes, head, arrived, is_last);
        self.follow(w, prepared);
    }

    /// Whether as many requests have come as may, unless that is 0: it may have begun under a limit
    /// above this one.
    #[inline]
    fn has_had(&self, requests_max: u32) -> bool {
        requests_max != 0 && self.requests >= requests_max
    }

    /// The current response, to be prepared.
    #[inline]
    pub(crate) fn response(&mut self, w: &mut Worker) -> Response<'_> {
        let exchange = self.exchange.get_or_insert_with(|| w.take_exchange());
        Response { exchange, after: &mut self.after, peer: &self.peer }
    }

    /// Answers bytes that are no request, or a request that will never be complete.
    fn refuse(&mut self, w: &mut Worker, status: u16, reason: &'static str, is_head: bool) {
        let prepared = self.response(w).refuse(w, status, reason, is_head);
        self.follow(w, prepared);
    }

    /// Changes the state according to what was prepared.
    #[inline]
    pub(crate) fn follow(&mut self, w: &Worker, prepared: Prepared) {
        match prepared {
            Prepared::Bytes => {
                self.state = State::Writing;
                self.deadline = w.now().plus_ms(w.limits.write_ms);
            }
            Prepared::Job => {
                // The time for the request is over: it must not run out while the job runs.
                self.state = State::Working;
                self.job = self.job.wrapping_add(1);
                self.deadline = w.now().plus_ms(w.limits.write_ms);
            }
            Prepared::Body => {
                self.state = State::Spooling;
                self.renew_deadline(w);
            }
            Prepared::Nothing => {
                w.counters.bodies_cut_short.add(1);
                self.state = State::Closed { reset: true };
            }
        }
    }

    pub(crate) fn renew_deadline(&mut self, w: &Worker) {
        self.deadline = w.now().plus_ms(w.limits.write_ms);
    }

    /// Drops what has arrived of an unwanted body, after the response. Returns whether the whole
    /// body is dropped.
    fn skip_body(&mut self, w: &mut Worker) -> bool {
        let Some(exchange) = &mut self.exchange else { return true };
        match exchange.skip_body(w.limits.unread_body_bytes_max) {
            Skipped::Whole => return true,
            Skipped::Part => {}
            Skipped::Broken => {
                self.end(After::Linger);
                return false;
            }
        }
        if self.state != State::Skipping {
            self.state = State::Skipping;
            self.deadline = w.now().plus_ms(w.limits.head_ms);
        }
        self.close_if_at_end();
        false
    }

    #[inline]
    fn count_sent(&mut self, w: &mut Worker, n: usize) {
        let Some(exchange) = &mut self.exchange else { return };
        let is_sent = exchange.sent(n);
        if exchange.progress >= WRITE_PROGRESS_BYTES_MIN {
            exchange.progress = 0;
            self.deadline = w.now().plus_ms(w.limits.write_ms);
        }
        if is_sent {
            self.advance(w);
        } else if matches!(self.state, State::Writing | State::Streaming) && exchange.has_room() {
            self.state = State::Continuing;
        }
    }

    /// Prepares what follows when everything prepared is sent, or finishes the response.
    #[inline]
    fn advance(&mut self, w: &mut Worker) {
        let Some(exchange) = &mut self.exchange else { return };
        match exchange.then {
            Then::Finish => self.finish(w),
            _ => self.advance_to_more(w),
        }
    }

    /// Prepares what follows of a response in several pieces.
    #[inline(never)]
    fn advance_to_more(&mut self, w: &mut Worker) {
        let Some(exchange) = &mut self.exchange else { return };
        if matches!(exchange.then, Then::Application(_)) {
            // A send may take a while: what has come meanwhile is still for the application.
            let has_come = self.state == State::Continuing;
            self.advance_call(w);
            if has_come && self.is_streaming() {
                self.state = State::Continuing;
            }
            return;
        }
        if self.state == State::Streaming {
            self.state = State::Waiting;
            return;
        }
        match (Response { exchange, after: &mut self.after, peer: &self.peer }).refill(w) {
            // A response of many parts keeps its deadline, which its progress renews.
            Some(Prepared::Bytes) => {}
            Some(_) => {
                self.state = State::Continuing;
                self.deadline = w.now().plus_ms(w.limits.write_ms);
            }
            None => self.finish(w),
        }
    }

    /// Changes the state after the call of an application has taken or brought something.
    /// `was_free` says that nothing was left to send before.
    pub(crate) fn after_call(&mut self, w: &mut Worker, was_free: bool) {
        let Some(exchange) = &mut self.exchange else { return };
        let Some(stream) = exchange.stream() else { return };
        if exchange.is_sent() {
            return self.advance_call(w);
        }
        self.state = if stream.is_complete { State::Writing } else { State::Streaming };
        if was_free {
            exchange.progress = 0;
            self.deadline = w.now().plus_ms(w.limits.write_ms);
        }
    }

    /// Goes on with the reply of an application of which everything is sent that has come.
    #[inline(never)]
    fn advance_call(&mut self, w: &mut Worker) {
        let Some(exchange) = &mut self.exchange else { return };
        let has_more = exchange.next_gathered();
        let Some(stream) = exchange.stream() else { return };
        if has_more {
            self.state = if stream.is_complete { State::Writing } else { State::Streaming };
        } else if let Some(failure) = stream.failure {
            self.fail_call(w, failure.status());
        } else if stream.is_complete && stream.instead.is_some() {
            let prepared = self.response(w).answer_instead(w);
            self.follow(w, prepared);
        } else if stream.is_complete {
            self.finish(w);
        } else if stream.has_room(0) {
            self.state = State::Continuing;
        } else if stream.awaits_body && !stream.is_tunnel() {
            self.state = State::Uploading;
            self.deadline = w.now().plus_ms(w.limits.write_ms);
        } else {
            self.state = State::Waiting;
        }
    }

    /// Answers in the place of an application; or breaks off what it has begun to answer.
    #[cold]
    pub(crate) fn fail_call(&mut self, w: &mut Worker, status: u16) {
        let prepared = self.response(w).call_failed(w, status);
        self.follow(w, prepared);
    }

    /// Ends a complete response, and continues with the next request.
    #[inline]
    fn finish(&mut self, w: &mut Worker) {
        let Some(mut exchange) = self.exchange.take() else { return };
        w.record(&exchange, self.peer);
        let (skipper, skipped) = (exchange.skipper.take(), exchange.skipped);
        let is_simple = skipper.is_none() && exchange.unread().is_empty();
        if self.after != After::KeepAlive {
            let after = if is_simple { self.after } else { After::Linger };
            w.return_exchange(exchange);
            return self.end(after);
        }
        if is_simple {
            w.return_exchange(exchange);
            return self.rest(w);
        }
        exchange.finish();
        (exchange.skipper, exchange.skipped) = (skipper, skipped);
        self.exchange = Some(exchange);
        self.state = State::Reading;
        self.head_began = w.now();
        self.read_stashed(w);
    }

    /// Lets the connection rest until the next request.
    #[inline]
    fn rest(&mut self, w: &mut Worker) {
        if let Some(exchange) = self.exchange.take() {
            w.return_exchange(exchange);
        }
        self.state = State::Idle;
        self.deadline = w.now().plus_ms(w.limits.idle_ms);
        if self.ending == Ending::Now {
            self.state = State::Closed { reset: false };
        }
        self.close_if_at_end();
    }

    /// Ends the connection: there are no more responses.
    fn end(&mut self, after: After) {
        self.state = match after {
            After::Linger if !self.is_at_end => State::ShuttingDown,
            _ => State::Closed { reset: false },
        };
    }

    /// Waits for the rest of a head: the more of it has arrived, the more time it gets.
    fn wait_for_head(&mut self, w: &mut Worker, scanned: usize) {
        let Some(exchange) = &mut self.exchange else { return };
        exchange.scanned = scanned;
        let received = exchange.unread().len() as u64;
        let earned_ms = received.saturating_mul(1000) / w.limits.head_bytes_per_s_min.max(1);
        let ms = w.limits.head_ms + earned_ms.min(2 * w.limits.head_ms);
        if self.state != State::Fresh && self.state != State::Reading {
            self.head_began = w.now();
        }
        self.state = State::Reading;
        self.deadline = self.head_began.plus_ms(ms);
        self.close_if_at_end();
    }

    /// Notes that the client has shut its side down. Requests before that are still answered.
    fn end_of_stream(&mut self) {
        let is_first = !std::mem::replace(&mut self.is_at_end, true);
        if (self.is_streaming() || self.state == State::Spooling)
            && let Some(exchange) = &mut self.exchange
            && exchange.stream().is_some_and(|stream| !stream.is_complete)
        {
            // The application of another protocol is told, and may go on. The end after the end is
            // that of both directions.
            if is_first && exchange.stream().is_some_and(Stream::is_tunnel) {
                if exchange.stream().is_some_and(|stream| stream.awaits_body) {
                    self.state = State::Continuing;
                }
                return;
            }
            // The application is not kept busy for a client that has gone.
            exchange.note_client_left();
            self.state = State::Closed { reset: false };
            return;
        }
        let unread = self.exchange.as_ref().map_or(&[][..], |exchange| exchange.unread());
        if self.after == After::KeepAlive && unread.is_empty() {
            self.after = After::Close;
        }
        self.close_if_at_end();
    }

    fn close_if_at_end(&mut self) {
        let is_busy = matches!(self.phase(), Phase::Working | Phase::Writing | Phase::Closed);
        if self.is_at_end && !is_busy {
            self.state = State::Closed { reset: false };
        }
    }

    /// Keeps bytes that arrive before the response is sent, but for those of an unwanted body.
    #[cold]
    fn take_ahead(&mut self, w: &mut Worker, bytes: &[u8]) {
        let exchange = self.exchange.get_or_insert_with(|| w.take_exchange());
        exchange.keep(bytes);
        if exchange.stream().is_some_and(|stream| stream.awaits_body && !stream.is_complete) {
            self.state = State::Continuing;
        }
        self.skip_ahead(w);
        self.gather(w);
    }

    /// Drops what has arrived of an unwanted body before the response is sent. An application takes
    /// its body by itself.
    #[cold]
    fn skip_ahead(&mut self, w: &Worker) {
        let Some(exchange) = &mut self.exchange else { return };
        if exchange.stream().is_some_and(|stream| !stream.is_complete) {
            return;
        }
        if exchange.skip_body(w.limits.unread_body_bytes_max) == Skipped::Broken {
            self.after = After::Linger;
        }
    }

    fn linger(&mut self, n: usize) {
        self.lingered = self.lingered.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
        if u64::from(self.lingered) > LINGER_BYTES_MAX {
            self.state = State::Closed { reset: true };
        }
    }

    fn stash(&mut self, w: &mut Worker, bytes: &[u8]) {
        let exchange = self.exchange.get_or_insert_with(|| w.take_exchange());
        exchange.keep(bytes);
    }
}
