//! Which requests an application answers, the call of it that is prepared then, and the answer if
//! the call fails.

use std::sync::Arc;

use http1::{BodyFraming, BodySkipper, Expectation, Head, Method, Parsed, Target};
use site::path;
use upstream::{Call, Origin};

use crate::after::After;
use crate::exchange::{Draft, Then};
use crate::job::Job;
use crate::response::{Prepared, Request, Response};
use crate::stream::Stream;
use crate::worker::Worker;

impl Response<'_> {
    /// Finds the application that answers a request; none if files do, or the request is refused
    /// without one.
    fn application(&self, w: &mut Worker, host: usize, head: &Head<'_>) -> Option<usize> {
        let Target::Path { path, .. } = head.target else { return None };
        if head.expectation == Expectation::Unknown || head.method == Method::Trace {
            return None;
        }
        let mut scratch = std::mem::take(&mut w.path_scratch);
        let canonical = path::canonicalise_for_application(path, &mut scratch);
        let found = canonical.ok().and_then(|it| w.site.host(host).route(it, head.method_bytes));
        w.path_scratch = scratch;
        found
    }

    /// Prepares the call of the application that answers a request; none if files do.
    #[inline(never)]
    pub(crate) fn call(
        &mut self,
        w: &mut Worker,
        bytes: &[u8],
        head: &Head<'_>,
        arrived: &[u8],
        is_last: bool,
    ) -> Option<Prepared> {
        let host = w.site.find(head.host)?;
        let index = self.application(w, host, head)?;
        self.exchange.draft = Draft { host, ..Draft::of(head, w.now()) };
        let application = Arc::clone(&w.applications()[index]);
        let body_bytes_max = application.limits().body_bytes_max;
        if matches!(head.body, BodyFraming::Length(length) if length > body_bytes_max) {
            let (after, body) = After::from_request(head, arrived, is_last, &w.limits);
            *self.after = after;
            self.exchange.skipper = body;
            return Some(self.error(w, Request { bytes, head, host }, 413));
        }
        *self.after = After::of(head, is_last);
        if !matches!(head.body, BodyFraming::None | BodyFraming::Length(0)) {
            self.exchange.skipper = Some(BodySkipper::new(head.body));
        }
        let peer = self.peer.ip().to_canonical();
        let origin = Origin {
            peer,
            is_trusted: application.trusts(peer),
            authority: application.authority(),
        };
        let call = Call::http(Arc::clone(&application), head, &origin, w.now());
        self.exchange.head.clear();
        self.exchange.head.extend_from_slice(bytes);
        self.exchange.then = Then::Application(Box::new(Stream {
            owes_continue: head.expectation == Expectation::Continue,
            body_bytes_max,
            reply_bytes_max: w.limits.reply_bytes_max,
            ..Stream::default()
        }));
        self.exchange.job = Some(Job::Application(Box::new(call)));
        Some(Prepared::Job)
    }

    /// Prepares what follows in the reply of an application whose call is over; none if the reply
    /// is complete.
    #[cold]
    pub(crate) fn call_is_over(&mut self, w: &mut Worker) -> Option<Prepared> {
        if self.exchange.next_gathered() {
            return Some(Prepared::Bytes);
        }
        let failure = self.exchange.stream()?.failure?;
        Some(self.call_failed(w, failure.status()))
    }

    /// Answers in the place of an application; with nothing if it has begun to answer.
    #[cold]
    pub(crate) fn call_failed(&mut self, w: &mut Worker, status: u16) -> Prepared {
        let exchange = &mut *self.exchange;
        let has_reply = exchange.stream().is_some_and(|stream| stream.has_reply);
        exchange.then = Then::Finish;
        if has_reply {
            return Prepared::Nothing;
        }
        // Nothing but a close says where the next request would begin.
        if exchange.skipper.take().is_some() || status < 500 {
            *self.after = After::Linger;
        }
        let bytes = std::mem::take(&mut exchange.head);
        let host = exchange.draft.host;
        let prepared = match http1::parse_head(&bytes, 0, &w.limits.head) {
            Ok(Parsed::Complete(head)) => {
                self.error(w, Request { bytes: &bytes, head: &head, host }, status)
            }
            _ => unreachable!("the head was read before"),
        };
        self.exchange.head = bytes;
        prepared
    }
}
