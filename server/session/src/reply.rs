//! One request and its response, without a connection: for engines that read, answer and write in
//! sequential code, which keeps their state. The caller reads and sends bytes, watches the time and
//! decides what comes next; [`crate::Connection`] does all of that itself.

use std::net::SocketAddr;

use http1::{BodySkipper, Head};

use crate::after::After;
use crate::exchange::Exchange;
use crate::job::{Done, Job};
use crate::op::Op;
use crate::response::{Prepared, Response};
use crate::worker::Worker;

/// The response to one request. In all cases [`Reply::finish`] is called last.
pub struct Reply {
    exchange: Box<Exchange>,
    after: After,
    peer: SocketAddr,
}

impl Reply {
    /// Begins the response to a request of `peer`: `bytes` is its head, `arrived` are the bytes
    /// after it that have arrived, and `is_last` says that the connection is closed after it in any
    /// case. Returns the request's body as well, if it is to be read and dropped after the
    /// response.
    #[inline]
    pub fn begin(
        w: &mut Worker,
        peer: SocketAddr,
        bytes: &[u8],
        head: &Head<'_>,
        arrived: &[u8],
        is_last: bool,
    ) -> (Self, Prepared, Option<BodySkipper>) {
        let mut reply = Self { exchange: w.take_exchange(), after: After::KeepAlive, peer };
        let prepared = reply.response().respond(w, bytes, head, arrived, is_last);
        let body = reply.exchange.skipper.take();
        (reply, prepared, body)
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
        let mut reply = Self { exchange: w.take_exchange(), after: After::Linger, peer };
        let prepared = reply.response().refuse(w, status, reason, is_head);
        (reply, prepared)
    }

    /// Takes the job that was prepared.
    ///
    /// # Panics
    /// If no job was prepared.
    pub fn take_job(&mut self) -> Job {
        self.exchange.job.take().expect("a job is taken once, after Prepared::Job")
    }

    /// Makes the connection close after this response, which has not been prepared yet.
    pub fn be_last(&mut self) {
        if self.after == After::KeepAlive {
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
    pub fn refill(&mut self) -> Option<Prepared> {
        self.response().refill()
    }

    /// Records the response, even if it is incomplete, and returns the buffers.
    #[inline]
    pub fn finish(self, w: &mut Worker) -> After {
        if self.exchange.draft.status != 0 {
            w.record(&self.exchange, self.peer);
        }
        w.return_exchange(self.exchange);
        self.after
    }

    #[inline]
    fn response(&mut self) -> Response<'_> {
        Response { exchange: &mut self.exchange, after: &mut self.after, peer: &self.peer }
    }
}
