//! One request and its response, without the connection around them: for who reads, answers and
//! writes in a straight line and keeps its place in its own code. What becomes of the bytes, when
//! time is up and what comes next is the caller's; see [`crate::Connection`] for all of that.

use std::net::SocketAddr;

use http1::Head;

use crate::after::After;
use crate::exchange::Exchange;
use crate::job::{Done, Job};
use crate::op::Op;
use crate::response::{Prepared, Response};
use crate::worker::Worker;

/// The response to one request. Whatever happens to it, [`Reply::finish`] is called last.
pub struct Reply {
    exchange: Box<Exchange>,
    after: After,
}

impl Reply {
    /// Begins the response to a request: `bytes` is its head, and `after` what it says about the
    /// connection ([`After::of`]).
    #[inline]
    pub fn to(w: &mut Worker, bytes: &[u8], head: &Head<'_>, after: After) -> (Self, Prepared) {
        let mut reply = Self { exchange: w.take_exchange(), after };
        let prepared = reply.response().respond(w, bytes, head);
        (reply, prepared)
    }

    /// Begins the response to bytes that are no request, or to one that will never be complete, and
    /// says whether it is one to HEAD ([`http1::begins_head_request`]).
    pub fn refusal(
        w: &mut Worker,
        status: u16,
        reason: &'static str,
        is_head: bool,
    ) -> (Self, Prepared) {
        let mut reply = Self { exchange: w.take_exchange(), after: After::Linger };
        let prepared = reply.response().refuse(w, status, reason, is_head);
        (reply, prepared)
    }

    /// The job that was prepared.
    ///
    /// # Panics
    /// If none was.
    pub fn take_job(&mut self) -> Job {
        self.exchange.job.take().expect("a job is taken once, after Prepared::Job")
    }

    /// Has the connection close after this response, which is not prepared yet.
    pub fn be_last(&mut self) {
        if self.after == After::KeepAlive {
            self.after = After::Linger;
        }
    }

    /// Goes on when the job has run.
    pub fn done(&mut self, w: &mut Worker, done: Done) -> Prepared {
        self.response().job_done(w, done)
    }

    /// What to send next of what was prepared, `Op::Send` or `Op::File`; `Op::Wait` if all of it is
    /// sent.
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

    /// When all is sent that was prepared: prepares what follows; none if the response is complete.
    #[inline]
    pub fn refill(&mut self) -> Option<Prepared> {
        self.response().refill()
    }

    /// Records the response, however far it came, and gives the buffers back.
    #[inline]
    pub fn finish(self, w: &mut Worker, peer: SocketAddr) -> After {
        if self.exchange.draft.status != 0 {
            w.record(&self.exchange, peer);
        }
        w.give_exchange(self.exchange);
        self.after
    }

    #[inline]
    fn response(&mut self) -> Response<'_> {
        Response { exchange: &mut self.exchange, after: &mut self.after }
    }
}
