//! How a body whose length is not known is gathered as it comes, and the application called when it
//! is whole. Where it is kept is in `spool.rs`.

use std::sync::Arc;

use http1::Parsed;

use crate::application::TOO_LARGE;
use crate::connection::{Connection, State};
use crate::exchange::{Exchange, Then};
use crate::job::Job;
use crate::reply::Reply;
use crate::response::{Prepared, Request, Response};
use crate::worker::Worker;

impl Connection {
    /// Takes what has arrived of a body that is gathered, and has the application called when it is
    /// whole.
    #[cold]
    pub(crate) fn gather(&mut self, w: &mut Worker) {
        if self.state != State::Spooling {
            return;
        }
        match self.response(w).gather(w) {
            Prepared::Body => self.renew_deadline(w),
            prepared => self.follow(w, prepared),
        }
    }
}

impl Reply {
    /// Takes what has arrived of a body that is gathered. When it is whole, the application's call
    /// is prepared, or the answer if it cannot be kept; until then it is [`Prepared::Body`].
    pub fn gather(&mut self, w: &mut Worker) -> Prepared {
        self.response().gather(w)
    }

    /// Prepares the answer to a client whose body has not come in time.
    pub fn fail_body(&mut self, w: &mut Worker) -> Prepared {
        self.response().call_failed(w, 408)
    }
}

impl Response<'_> {
    fn gather(&mut self, w: &mut Worker) -> Prepared {
        match self.exchange.gather_arrived() {
            Ok(true) => self.call_with_spool(w),
            Ok(false) => Prepared::Body,
            Err(status) => self.call_failed(w, status),
        }
    }

    fn call_with_spool(&mut self, w: &mut Worker) -> Prepared {
        let bytes = std::mem::take(&mut self.exchange.head);
        let host = self.exchange.draft.host;
        let spool = self.exchange.stream_mut().and_then(|stream| stream.spool.as_mut());
        let Some(spool) = spool else { return Prepared::Nothing };
        let (application, script) = (Arc::clone(&spool.application), spool.script.take());
        let body_bytes = Some(spool.len());
        let limits = self.exchange.limits_or(&w.limits).head;
        let parsed = http1::parse_head(&bytes, 0, &limits);
        let Ok(Parsed::Complete(head)) = &parsed else { unreachable!("the head was read before") };
        let request = Request { bytes: &bytes, head, host };
        let call = self.make_call(w, request, application, script.as_ref(), body_bytes);
        drop(parsed);
        self.exchange.head = bytes;
        let Some(call) = call else { return self.call_failed(w, TOO_LARGE) };
        self.exchange.job = Some(Job::Application(Box::new(call)));
        Prepared::Job
    }
}

impl Exchange {
    /// Returns whether the body is whole, or the status of the answer if it cannot be.
    fn gather_arrived(&mut self) -> Result<bool, u16> {
        loop {
            let ahead = self.body_ahead().map_err(http1::BodyError::status)?;
            let (input, at) = (&self.input, self.input_at);
            let Then::Application(stream) = &mut self.then else { return Err(400) };
            let Some(spool) = &mut stream.spool else { return Err(400) };
            let target = target(&self.head);
            if self.skipper.is_none() {
                return spool.end(target).map(|()| true);
            }
            if spool.len() + ahead as u64 > stream.body_bytes_max {
                return Err(413);
            }
            if ahead == 0 {
                return Ok(false);
            }
            spool.append(&input[at..at + ahead], target)?;
            self.take_body(ahead);
        }
    }
}

/// The target in the first line of a head that was read.
fn target(head: &[u8]) -> &[u8] {
    head.split(|byte| *byte == b' ').nth(1).unwrap_or_default()
}
