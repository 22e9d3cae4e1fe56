//! One request and its response, without a connection: for engines that read, answer and write in
//! sequential code, which keeps their state. The caller reads and sends bytes, watches the time and
//! decides what comes next; [`crate::Connection`] does all of that itself.

use std::net::SocketAddr;

use http1::{BodySkipper, Head};
use upstream::Failure;

use crate::after::After;
use crate::exchange::{AHEAD_BYTES_MAX, Exchange};
use crate::job::{Done, Job};
use crate::op::Op;
use crate::response::{Prepared, Response};
use crate::stream::Stream;
use crate::worker::Worker;

/// The response to one request. In all cases [`Reply::finish`] is called last.
///
/// If [`Reply::take_job`] returns a call of an application, its driver moves bytes between the
/// call and the client until the call is over ([`Reply::stream`], [`Reply::to_send`],
/// [`Reply::ingest`]), and goes on with what is left to send, and with [`Reply::refill`], which may
/// prepare another call.
pub struct Reply {
    pub(crate) exchange: Box<Exchange>,
    pub(crate) after: After,
    peer: SocketAddr,
    /// Whether the client has shut its side down.
    pub(crate) is_at_end: bool,
}

impl Reply {
    /// Begins the response to a request of `peer`: `bytes` is its head, `arrived` are the bytes
    /// after it that have arrived, and `is_last` says that the connection is closed after it in any
    /// case.
    #[inline]
    pub fn begin(
        w: &mut Worker,
        peer: SocketAddr,
        bytes: &[u8],
        head: &Head<'_>,
        arrived: &[u8],
        is_last: bool,
    ) -> (Self, Prepared) {
        let mut reply = Self::new(w, peer, After::KeepAlive);
        let prepared = reply.response().respond(w, bytes, head, arrived, is_last);
        (reply, prepared)
    }

    /// Begins the response to bytes that are no request, or to one that will never be complete.
    /// `is_head` says whether the method is HEAD ([`http1::begins_head_request`]).
    pub fn refusal(
        w: &mut Worker,
        peer: SocketAddr,
        status: u16,
        reason: &'static str,
        is_head: bool,
    ) -> (Self, Prepared) {
        let mut reply = Self::new(w, peer, After::Linger);
        let prepared = reply.response().refuse(w, status, reason, is_head);
        (reply, prepared)
    }

    fn new(w: &mut Worker, peer: SocketAddr, after: After) -> Self {
        Self { exchange: w.take_exchange(), after, peer, is_at_end: false }
    }

    /// Takes the job that was prepared.
    ///
    /// # Panics
    /// If no job was prepared.
    pub fn take_job(&mut self) -> Job {
        self.exchange.job.take().expect("a job is taken once, after Prepared::Job")
    }

    /// Makes the connection close after this response, unless its head is written, which then does
    /// not say so.
    pub fn be_last(&mut self) {
        if self.exchange.draft.status == 0 && self.after == After::KeepAlive {
            self.after = After::Linger;
        }
    }

    /// Continues when the job has run.
    pub fn done(&mut self, w: &mut Worker, done: Done) -> Prepared {
        self.response().job_done(w, done)
    }

    /// The next operation of what was prepared, `Op::Send`, `Op::File` or `Op::Read`; `Op::Wait` if
    /// everything is sent.
    #[inline]
    #[must_use]
    pub fn op(&self) -> Op<'_> {
        self.exchange.op()
    }

    /// Counts `n` sent bytes off.
    #[inline]
    pub fn sent(&mut self, n: usize) {
        self.exchange.sent(n);
    }

    /// Takes in bytes of a file that `Op::Read` asked for.
    pub fn read(&mut self, bytes: &[u8]) {
        self.exchange.read(bytes);
    }

    /// Prepares what follows when everything prepared is sent; none if the response is complete.
    #[inline]
    pub fn refill(&mut self, w: &mut Worker) -> Option<Prepared> {
        self.response().refill(w)
    }

    /// Takes in received bytes while an application is called: the request's body, of which the
    /// call takes what it can, and what follows it.
    pub fn ingest(&mut self, bytes: &[u8]) {
        self.exchange.keep(bytes);
    }

    /// Notes that the client has shut its side down while an application is called. Returns whether
    /// the application is to go on all the same: it speaks another protocol by now.
    pub fn end_of_stream(&mut self) -> bool {
        !std::mem::replace(&mut self.is_at_end, true) && self.stream_has(Stream::is_tunnel)
    }

    /// The bytes that the call has not taken.
    #[must_use]
    pub fn unread(&self) -> &[u8] {
        self.exchange.unread()
    }

    /// Drops those bytes, which its driver has now: another call may follow.
    pub fn drop_unread(&mut self) {
        self.exchange.consume(self.unread().len());
    }

    /// Whether to receive while an application is called. A client that has sent 16 KiB ahead
    /// waits.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        !self.is_at_end && self.unread().len() < AHEAD_BYTES_MAX
    }

    /// The next bytes of an application's reply, as far as it has come.
    pub fn to_send(&mut self) -> &[u8] {
        if self.exchange.is_sent() {
            self.exchange.next_gathered();
        }
        &self.exchange.out[self.exchange.out_at..]
    }

    /// Whether the call waits for its client: to take what has come of the reply, or to send more
    /// of the body.
    #[must_use]
    pub fn awaits_client(&self) -> bool {
        !self.is_sent() || self.stream_has(|stream| stream.awaits_body && !stream.is_tunnel())
    }

    /// Whether all is sent that has come of an application's reply.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.exchange.is_sent() && self.stream_has(|stream| stream.gathered.is_empty())
    }

    /// Whether nothing more is wanted of the call, whether or not it is over.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.stream_has(|stream| stream.is_complete)
    }

    fn stream_has(&self, quality: impl FnOnce(&Stream) -> bool) -> bool {
        self.exchange.stream().is_some_and(quality)
    }

    /// Ends the call because its client has not done in time what the call waits for. Returns
    /// whether it was the body: then an answer follows.
    pub fn time_out(&mut self) -> bool {
        let was_body = self.is_sent();
        if let Some(stream) = self.exchange.stream_mut().filter(|_| was_body) {
            stream.failure = Some(Failure::Request(408));
        }
        was_body
    }

    /// Ends the call because its client has gone.
    pub fn leave(&mut self) {
        self.exchange.note_client_left();
    }

    /// Records the response, even if it is incomplete, and returns the buffers. Returns what
    /// happens to the connection, and the rest of the request's body, which is to be read and
    /// dropped before the next request.
    #[inline]
    pub fn finish(mut self, w: &mut Worker) -> (After, Option<BodySkipper>) {
        if self.exchange.draft.status != 0 {
            w.record(&self.exchange, self.peer);
        }
        let body = self.exchange.skipper.take();
        w.return_exchange(self.exchange);
        (self.after, body)
    }

    #[inline]
    pub(crate) fn response(&mut self) -> Response<'_> {
        Response { exchange: &mut self.exchange, after: &mut self.after, peer: &self.peer }
    }
}
