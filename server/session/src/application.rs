//! Which requests an application answers, the call of it that is prepared then, and the answer if
//! the call fails.

use std::sync::Arc;

use http1::{BodyFraming, BodySkipper, Expectation, Method, Parsed, Target};
use site::path;
use site::routes::{Routed, Script};
use upstream::{Application, Call, Origin, Protocol};

use crate::after::After;
use crate::exchange::{Draft, Then};
use crate::job::Job;
use crate::named_file::FileSource;
use crate::request_body::CONTINUE;
use crate::response::{Incoming, Prepared, Request, Response};
use crate::spool::Spool;
use crate::stream::{Instead, Stream};
use crate::worker::Worker;

/// The status of a request with more fields than a program can be told (RFC 6585 §5).
pub(crate) const TOO_LARGE: u16 = 431;

impl Response<'_> {
    /// What a route leads a request to; none if files answer it, or it is refused without an
    /// application.
    pub(crate) fn routed(&self, w: &mut Worker, request: Request<'_>) -> Option<Routed> {
        let head = request.head;
        let Target::Path { path, .. } = head.target else { return None };
        if head.expectation == Expectation::Unknown || head.method == Method::Trace {
            return None;
        }
        let host = self.exchange.site_or(&w.site).host(request.host);
        let canonical = path::canonicalise_for_application(path, &mut w.path_scratch).ok()?;
        host.route(canonical, head.method_bytes)
    }

    /// Prepares the call of the application that answers a request; none if files do.
    #[inline(never)]
    pub(crate) fn call(&mut self, w: &mut Worker, incoming: Incoming<'_>) -> Option<Prepared> {
        let routed = self.routed(w, incoming.request);
        if routed.is_some() {
            let Request { head, host, .. } = incoming.request;
            self.exchange.draft = Draft { host, ..Draft::new(head, w) };
        }
        match routed {
            Some(Routed::Application(index)) => Some(self.begin_call(w, incoming, index, None)),
            Some(Routed::Script(script)) => Some(self.look_up_script(w, incoming, script)),
            Some(Routed::Program(script)) => {
                let index = script.application;
                Some(self.begin_call(w, incoming, index, Some(&script)))
            }
            Some(Routed::Nothing) => Some(self.decline(w, incoming, 404)),
            None => self.look_for_front_controller(w, incoming),
        }
    }

    /// Prepares the call of an application, which may be asked to run a script that exists.
    pub(crate) fn begin_call(
        &mut self,
        w: &mut Worker,
        incoming: Incoming<'_>,
        index: usize,
        script: Option<&Script>,
    ) -> Prepared {
        let Request { bytes, head, host } = incoming.request;
        let site = self.exchange.site_or(&w.site);
        let application = Arc::clone(&site.applications()[index]);
        let files = FileSource::new(site, host, index);
        let body_bytes_max = application.limits().body_bytes_max;
        if matches!(head.body, BodyFraming::Length(length) if length > body_bytes_max) {
            return self.decline(w, incoming, 413);
        }
        *self.after = After::from_head(head, incoming.is_last);
        if !matches!(head.body, BodyFraming::None | BodyFraming::Length(0)) {
            self.exchange.skipper = Some(BodySkipper::new(head.body));
        }
        // A script must be told the length of its body.
        let runs_scripts = application.settings().protocol != Protocol::Http;
        let is_spooled = runs_scripts && head.body == BodyFraming::Chunked;
        let expects = head.expectation == Expectation::Continue;
        let prepared = match is_spooled {
            true => {
                if expects && incoming.arrived.is_empty() {
                    self.exchange.out.extend_from_slice(CONTINUE);
                }
                Prepared::Body
            }
            false => {
                let application = Arc::clone(&application);
                let call = self.make_call(w, incoming.request, application, script, None);
                let Some(call) = call else { return self.decline(w, incoming, TOO_LARGE) };
                self.exchange.job = Some(Job::Application(Box::new(call)));
                Prepared::Job
            }
        };
        self.exchange.hold(&w.revision);
        self.exchange.head.clear();
        self.exchange.head.extend_from_slice(bytes);
        self.exchange.then = Then::Application(Stream {
            application: index,
            owes_continue: expects && !is_spooled,
            body_bytes_max,
            files,
            spool: is_spooled.then(|| Box::new(Spool::new(application, script.cloned()))),
            reply_bytes_max: w.limits.reply_bytes_max,
            ..Stream::default()
        });
        prepared
    }

    /// Makes the call of an application; none if it cannot be told all that there is to be said of
    /// the request. `body_bytes` is the length of a body that was gathered.
    pub(crate) fn make_call(
        &self,
        w: &Worker,
        request: Request<'_>,
        application: Arc<Application>,
        script: Option<&Script>,
        body_bytes: Option<u64>,
    ) -> Option<Call> {
        let peer = self.peer.ip().to_canonical();
        let called = Arc::clone(&application);
        let is_trusted = called.trusts(peer);
        let origin = Origin { peer, is_trusted, authority: called.authority() };
        match application.settings().protocol {
            Protocol::Http => Some(Call::http(application, request.head, &origin, w.now())),
            Protocol::FastCgi | Protocol::Cgi => {
                let script = (script, body_bytes);
                self.make_script_call(w, request, application, script, origin)
            }
        }
    }

    /// Answers a request for an application without it; its body is dropped.
    pub(crate) fn decline(
        &mut self,
        w: &mut Worker,
        incoming: Incoming<'_>,
        status: u16,
    ) -> Prepared {
        self.drop_body(w, incoming);
        self.error(w, incoming.request, status)
    }

    /// Has the body of a request dropped, and decides what happens to its connection.
    pub(crate) fn drop_body(&mut self, w: &Worker, incoming: Incoming<'_>) {
        let Incoming { request, arrived, is_last } = incoming;
        let (after, body) = After::from_request(request.head, arrived, is_last, &w.limits);
        *self.after = after;
        self.exchange.skipper = body;
    }

    /// Prepares what follows in the reply of an application whose call is over; none if the reply
    /// is complete.
    #[cold]
    pub(crate) fn call_is_over(&mut self, w: &mut Worker) -> Option<Prepared> {
        if self.exchange.next_gathered() {
            return Some(Prepared::Bytes);
        }
        let stream = self.exchange.stream()?;
        match stream.failure {
            Some(failure) => Some(self.call_failed(w, failure.status())),
            None => stream.instead.is_some().then(|| self.answer_instead(w)),
        }
    }

    /// Answers with what an application has named in place of its reply.
    #[cold]
    pub(crate) fn answer_instead(&mut self, w: &mut Worker) -> Prepared {
        let Then::Application(mut stream) = std::mem::take(&mut self.exchange.then) else {
            return Prepared::Nothing;
        };
        match stream.instead.take() {
            Some(Instead::File(named)) => self.send_named_file(w, named),
            Some(Instead::Request(target)) => self.answer_redirect(w, stream.application, &target),
            None => Prepared::Nothing,
        }
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
        self.with_request(w, |response, w, request| response.error(w, request, status))
    }

    /// Answers the request whose head was kept for the call of an application.
    pub(crate) fn with_request(
        &mut self,
        w: &mut Worker,
        answer: impl FnOnce(&mut Self, &mut Worker, Request<'_>) -> Prepared,
    ) -> Prepared {
        let bytes = std::mem::take(&mut self.exchange.head);
        let host = self.exchange.draft.host;
        let limits = self.exchange.limits_or(&w.limits).head;
        let prepared = match http1::parse_head(&bytes, 0, &limits) {
            Ok(Parsed::Complete(head)) => {
                answer(self, w, Request { bytes: &bytes, head: &head, host })
            }
            _ => unreachable!("the head was read before"),
        };
        self.exchange.head = bytes;
        prepared
    }
}
