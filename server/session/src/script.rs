//! Requests for scripts: whether the script exists is looked up as for files, through the cache,
//! before an application is asked to run it. That alone ends tricks by which it would run what an
//! attacker has uploaded under another name, as `/evil.jpg/x.php`.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use file_cache::Hit;
use http1::{BodyFraming, Head, Method, Target};
use site::path;
use site::resource::{Entry, Resource};
use site::routes::{NamedBy, Routed, Script};
use upstream::{Application, Call, Origin, ScriptRequest};

use crate::after::After;
use crate::exchange::{Draft, Purpose, sent_head};
use crate::job::{Done, Job};
use crate::response::{Incoming, Prepared, Request, Response};
use crate::worker::Worker;

/// Whether files can answer a request if there is no script: it reads, and has no body.
pub(crate) fn is_simple(head: &Head<'_>) -> bool {
    matches!(head.method, Method::Get | Method::Head) && head.body == BodyFraming::None
}

impl Response<'_> {
    /// Runs a script if it exists, which may have to be looked up first.
    pub(crate) fn look_up_script(
        &mut self,
        w: &mut Worker,
        incoming: Incoming<'_>,
        script: Script,
    ) -> Prepared {
        match w.cache.get(incoming.request.host, &script.name, w.now()).fresh() {
            Ok(hit) => {
                w.counters.cache_hits.add(1);
                self.script_found(w, incoming, &script, &hit)
            }
            Err(known) => {
                let purpose = Purpose::Script(script.named_by);
                let path = script.name.into();
                let job = Job::Resolve { host: incoming.request.host, path, known };
                self.look_up_first(w, incoming, purpose, job)
            }
        }
    }

    /// Prepares the call of the script for paths that do not exist; none if files answer. A request
    /// that they can answer is theirs until they have nothing.
    pub(crate) fn look_for_front_controller(
        &mut self,
        w: &mut Worker,
        incoming: Incoming<'_>,
    ) -> Option<Prepared> {
        let Request { head, host, .. } = incoming.request;
        let its = self.exchange.site_or(&w.site).host(host);
        if its.settings().front_controller.is_none() || is_simple(head) {
            return None;
        }
        let script = its.front_controller(head.method_bytes)?;
        let Target::Path { path, .. } = head.target else { return None };
        let mut scratch = Vec::new();
        let path = path::canonicalise(path, &mut scratch).ok()?;
        self.exchange.draft = Draft { host, ..Draft::new(head, w) };
        match w.cache.get(host, path, w.now()).fresh() {
            Ok(hit) => matches!(hit.value().resource, Resource::Missing)
                .then(|| self.look_up_script(w, incoming, script)),
            Err(known) => {
                let job = Job::Resolve { host, path: path.into(), known };
                Some(self.look_up_first(w, incoming, Purpose::Existence, job))
            }
        }
    }

    /// Has a path looked up before it is decided what answers. Until then the body waits.
    fn look_up_first(
        &mut self,
        w: &Worker,
        incoming: Incoming<'_>,
        purpose: Purpose,
        job: Job,
    ) -> Prepared {
        *self.after = After::from_head(incoming.request.head, incoming.is_last);
        self.exchange.purpose = purpose;
        self.prepare_job(w, incoming.request.bytes, job)
    }

    /// Goes on with a request for which a path was looked up.
    pub(crate) fn script_resolved(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        done: Done,
    ) -> Prepared {
        let purpose = self.exchange.purpose;
        let arrived = match request.head.body {
            BodyFraming::None => Vec::new(),
            _ => self.exchange.unread().to_vec(),
        };
        let is_last = *self.after != After::KeepAlive;
        let incoming = Incoming { request, arrived: &arrived, is_last };
        let Some(hit) = self.cache_result(w, request.host, done) else {
            self.drop_body(w, incoming);
            return self.unavailable(w, request);
        };
        match (purpose, self.script_of(w, request, purpose)) {
            (Purpose::Existence, Some(script)) if is_missing(&hit) => {
                self.look_up_script(w, incoming, script)
            }
            (Purpose::Script(_), Some(script)) => self.script_found(w, incoming, &script, &hit),
            _ => self.answer_from_files(w, incoming),
        }
    }

    /// The script of a request for which a path was looked up.
    fn script_of(&self, w: &mut Worker, request: Request<'_>, purpose: Purpose) -> Option<Script> {
        match purpose {
            Purpose::Script(NamedBy::Path | NamedBy::Index) => match self.routed(w, request)? {
                Routed::Script(script) => Some(script),
                Routed::Program(_) | Routed::Application(_) | Routed::Nothing => None,
            },
            _ => {
                let host = self.exchange.site_or(&w.site).host(request.host);
                host.front_controller(request.head.method_bytes)
            }
        }
    }

    /// Runs a script if its file was found, or else answers without it.
    fn script_found(
        &mut self,
        w: &mut Worker,
        incoming: Incoming<'_>,
        script: &Script,
        hit: &Hit<Entry>,
    ) -> Prepared {
        if hit.value().is_file(&script.name) {
            return self.begin_call(w, incoming, script.application, Some(script));
        }
        // A directory is no script either, although a path without its slash is redirected there.
        let host = self.exchange.site_or(&w.site).host(incoming.request.host);
        let is_moved = host.redirect(&script.name).is_some();
        match (script.named_by, &hit.value().resource) {
            (NamedBy::Path, Resource::Redirect(redirect)) if is_moved => {
                self.drop_body(w, incoming);
                self.redirect(w, incoming.request, redirect)
            }
            (NamedBy::Path, Resource::Forbidden) => self.decline(w, incoming, 403),
            (NamedBy::Path, _) => self.decline(w, incoming, 404),
            (NamedBy::FrontController, _) if is_simple(incoming.request.head) => {
                self.not_found(w, incoming.request, hit)
            }
            (NamedBy::Index | NamedBy::FrontController, _) => self.answer_from_files(w, incoming),
        }
    }

    pub(crate) fn answer_from_files(&mut self, w: &mut Worker, incoming: Incoming<'_>) -> Prepared {
        let Incoming { request, arrived, is_last } = incoming;
        let Draft { started, redirects, .. } = self.exchange.draft;
        let Request { bytes, head, .. } = request;
        let prepared = self.respond_from_files(w, bytes, head, arrived, is_last);
        let draft = &mut self.exchange.draft;
        (draft.started, draft.redirects) = (started, redirects);
        prepared
    }

    /// Makes the call of a script, which an application runs or which is a program by itself.
    pub(crate) fn make_script_call(
        &self,
        w: &Worker,
        request: Request<'_>,
        application: Arc<Application>,
        (script, body_bytes): (Option<&Script>, Option<u64>),
        origin: Origin<'_>,
    ) -> Option<Call> {
        let root = application.fastcgi().map(|settings| settings.root.clone()).unwrap_or_default();
        let site = self.exchange.site_or(&w.site);
        let host_root = site.host(request.host).settings().root.as_os_str().as_bytes();
        let mut scratch = Vec::new();
        let path = match request.head.target {
            Target::Path { path, .. } => {
                path::canonicalise_for_application(path, &mut scratch).unwrap_or_default()
            }
            Target::Asterisk | Target::Authority => b"",
        };
        let sent = sent_head(request.bytes, request.head, &self.exchange.limits_or(&w.limits).head);
        let script = ScriptRequest {
            origin,
            peer_port: self.peer.port(),
            root: if root.is_empty() { host_root } else { root.as_bytes() },
            script_name: script.map_or(b"", |script| &script.name),
            path_info: script.map_or(path, |script| &script.path_info),
            body_bytes,
            asked: sent.map(|head| head.target),
        };
        match application.programs() {
            None => Some(Call::fastcgi(application, request.head, &script, w.now())),
            Some(_) => {
                let place = request.host - site.first();
                Call::cgi(application, request.head, &script, place, w.now())
            }
        }
    }
}

fn is_missing(hit: &Hit<Entry>) -> bool {
    matches!(hit.value().resource, Resource::Missing)
}
