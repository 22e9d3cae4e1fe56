//! Answers to requests: from a head and a cache entry to bytes that are ready to send.
//!
//! Nothing here knows the state of a connection: each call returns its result as [`Prepared`], and
//! the driver of the exchange acts on that.

use std::sync::Arc;

use file_cache::Hit;
use http1::{Expectation, FieldName, Head, Method, Parsed, Target};
use site::accept;
use site::answer::{Answer, answer};
use site::fields::{FieldList, add_to_vary};
use site::host::Host;
use site::listing::CONTENT_SECURITY_POLICY;
use site::path;
use site::resource::{Entry, FileResource, Redirect, Resource};

use crate::after::After;
use crate::exchange::{Draft, Listing, Purpose, Then};
use crate::failure::{ALLOW, BY_NAVIGATION, Failure};
use crate::job::{Done, Job, ListFormat};
use crate::partial::{next_part, partial_head, start_parts};
use crate::response::{FailedRequest, Framing, Incoming, Prepared, Request, Response};
use crate::script::is_simple;
use crate::worker::Worker;

impl Response<'_> {
    /// Answers a well-formed head. `arrived` are the bytes after it that have arrived, and the
    /// response may be the connection's last anyway (`is_last`).
    #[inline]
    pub(crate) fn respond(
        &mut self,
        w: &mut Worker,
        bytes: &[u8],
        head: &Head<'_>,
        arrived: &[u8],
        is_last: bool,
    ) -> Prepared {
        debug_assert!(self.exchange.held.is_none(), "a request begins");
        w.keep_current();
        if !w.site.applications().is_empty()
            && let Some(host) = w.site.find(head.host)
        {
            let request = Request { bytes, head, host };
            let incoming = Incoming { request, arrived, is_last };
            if let Some(prepared) = self.call(w, incoming) {
                return prepared;
            }
        }
        self.respond_from_files(w, bytes, head, arrived, is_last)
    }

    /// Answers a well-formed head that no route leads to an application.
    #[inline]
    pub(crate) fn respond_from_files(
        &mut self,
        w: &mut Worker,
        bytes: &[u8],
        head: &Head<'_>,
        arrived: &[u8],
        is_last: bool,
    ) -> Prepared {
        self.exchange.draft = Draft::new(head, w);
        if w.is_logging() {
            self.exchange.head.extend_from_slice(bytes);
        }
        let host = self.exchange.site_or(&w.site).find(head.host);
        // Decided where the host is known. Files have no use for a body: it is dropped.
        let (after, body) = After::from_request(head, arrived, is_last, &w.limits);
        *self.after = after;
        if body.is_some() {
            self.exchange.skipper = body;
        }
        let Some(host) = host else {
            let failed = FailedRequest { bytes, head: Some(head), host: None };
            let reason = "No site of that name is served here.";
            return self.plain_error(w, failed, Failure { reason, ..Failure::from_status(421) });
        };
        self.exchange.draft.host = host;
        let request = Request { bytes, head, host };
        match head.method {
            _ if head.expectation == Expectation::Unknown => self.error(w, request, 417),
            Method::Get | Method::Head => self.target(w, request),
            Method::Options => self.options(w, request),
            // What follows may be no request: after CONNECT it may be meant for a tunnel.
            Method::Unknown | Method::Connect => {
                *self.after = After::Linger;
                self.error(w, request, if head.method == Method::Connect { 405 } else { 501 })
            }
            _ => self.error(w, request, 405),
        }
    }

    /// Continues a request whose job has run.
    pub(crate) fn job_done(&mut self, w: &mut Worker, done: Done) -> Prepared {
        if let Done::Unfinished(job) = done {
            self.exchange.job = Some(job);
            return Prepared::Job;
        }
        let bytes = std::mem::take(&mut self.exchange.head);
        let (host, purpose) = (self.exchange.draft.host, self.exchange.purpose);
        let limits = self.exchange.limits_or(&w.limits).head;
        let prepared = match (http1::parse_head(&bytes, 0, &limits), purpose) {
            (Ok(Parsed::Complete(head)), _) => {
                let request = Request { bytes: &bytes, head: &head, host };
                match (done, purpose) {
                    (Done::Listed(outcome), _) => self.listed(w, request, outcome),
                    (done, Purpose::ErrorPage(failure)) => {
                        self.page_resolved(w, request.into(), failure, done)
                    }
                    (done, Purpose::Path | Purpose::Fallback) => self.resolved(w, request, done),
                    (done, Purpose::NamedFile) => self.named_file_resolved(w, request, done),
                    (done, Purpose::Script(_) | Purpose::Existence) => {
                        self.script_resolved(w, request, done)
                    }
                }
            }
            (_, Purpose::ErrorPage(failure)) => {
                let failed = FailedRequest { bytes: &[], head: None, host: Some(host) };
                self.page_resolved(w, failed, failure, done)
            }
            _ => unreachable!("without a head, the only job is for the page of the error"),
        };
        self.exchange.head = bytes;
        prepared
    }

    /// Prepares what follows a part or a chunk that is sent; none if the response is complete.
    pub(crate) fn refill(&mut self, w: &mut Worker) -> Option<Prepared> {
        let exchange = &mut *self.exchange;
        exchange.out.clear();
        exchange.out_at = 0;
        match &exchange.then {
            Then::Finish => None,
            Then::Parts(_) => {
                next_part(exchange);
                Some(Prepared::Bytes)
            }
            Then::List(_) => match exchange.next_piece() {
                true => Some(Prepared::Bytes),
                false => exchange.job.is_some().then_some(Prepared::Job),
            },
            Then::Application(_) => self.call_is_over(w),
        }
    }

    /// Answers GET or HEAD of a path.
    #[inline]
    fn target(&mut self, w: &mut Worker, request: Request<'_>) -> Prepared {
        let Target::Path { path, .. } = request.head.target else {
            return self.error(w, request, 400);
        };
        let mut scratch = std::mem::take(&mut w.path_scratch);
        let prepared = match path::canonicalise(path, &mut scratch) {
            Ok(canonical) => self.answer_path(w, request, canonical, Purpose::Path),
            Err(error) => {
                let failure = Failure { reason: error.reason(), ..Failure::from_status(400) };
                self.fail(w, request.into(), failure)
            }
        };
        w.path_scratch = scratch;
        prepared
    }

    #[inline]
    fn answer_path(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        path: &[u8],
        purpose: Purpose,
    ) -> Prepared {
        let now = w.now();
        let known = match w.cache.get(request.host, path, now).fresh() {
            Ok(hit) => {
                w.counters.cache_hits.add(1);
                return self.found(w, request, purpose, &hit);
            }
            Err(known) => known,
        };
        self.exchange.purpose = purpose;
        self.prepare_job(
            w,
            request.bytes,
            Job::Resolve { host: request.host, path: path.into(), known },
        )
    }

    fn resolved(&mut self, w: &mut Worker, request: Request<'_>, done: Done) -> Prepared {
        let purpose = self.exchange.purpose;
        match self.cache_result(w, request.host, done) {
            Some(hit) => self.found(w, request, purpose, &hit),
            None => self.unavailable(w, request),
        }
    }

    /// Answers with what a path stands for.
    #[inline]
    fn found(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        purpose: Purpose,
        hit: &Hit<Entry>,
    ) -> Prepared {
        match (&hit.value().resource, purpose) {
            (Resource::File(file), _) => self.file(w, request, purpose, hit, file),
            (_, Purpose::Fallback) => self.error(w, request, 404),
            (Resource::Redirect(redirect), _) => self.redirect(w, request, redirect),
            (Resource::Directory, _) => self.list(w, request, hit),
            (Resource::Missing, _) => self.missing(w, request, hit),
            (Resource::Forbidden, _) => self.error(w, request, 403),
        }
    }

    #[inline]
    fn file(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        purpose: Purpose,
        hit: &Hit<Entry>,
        file: &FileResource,
    ) -> Prepared {
        let head_start = self.exchange.out.len();
        let chosen = answer(request.head, file, w.unix_seconds(), w.limits.ranges_max);
        let prepared = self.put_file(w, request, hit, file, chosen);
        if purpose == Purpose::Fallback && self.sends_file() {
            add_to_vary(&mut self.exchange.out, head_start, BY_NAVIGATION);
        }
        prepared
    }

    /// Whether the answer that was prepared is a file, or that the client has it.
    pub(crate) fn sends_file(&self) -> bool {
        matches!(self.exchange.draft.status, 200 | 206 | 304)
    }

    /// Prepares the chosen answer for a file.
    #[inline]
    pub(crate) fn put_file(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        hit: &Hit<Entry>,
        file: &FileResource,
        chosen: Answer,
    ) -> Prepared {
        let connection = self.connection_line();
        let exchange = &mut *self.exchange;
        match chosen {
            Answer::Whole(index) => {
                let variant = file.variant(index);
                exchange.draft.status = 200;
                variant.write_ok(&mut exchange.out, w.date(), connection);
                exchange.send_range(hit, index, 0, variant.len);
            }
            Answer::NotModified(index) => {
                exchange.draft.status = 304;
                file.variant(index).write_not_modified(&mut exchange.out, w.date(), connection);
            }
            Answer::Partial(index, ranges) => {
                exchange.draft.status = 206;
                match ranges.single() {
                    Some(range) => {
                        let end = range.end();
                        partial_head(
                            w,
                            exchange,
                            file.variant(index),
                            range.start,
                            end,
                            connection,
                        );
                        exchange.send_range(hit, index, range.start, end);
                    }
                    None => start_parts(w, exchange, hit, index, ranges, connection),
                }
            }
            Answer::PreconditionFailed => return self.error(w, request, 412),
            Answer::NotAcceptable => return self.error(w, request, 406),
            Answer::RangeNotSatisfiable(index) => {
                let file_len = Some(file.variant(index).len);
                let failure = Failure { file_len, ..Failure::from_status(416) };
                return self.fail(w, request.into(), failure);
            }
        }
        Prepared::Bytes
    }

    /// Answers for a path that does not exist: with the script for such, if there is one.
    fn missing(&mut self, w: &mut Worker, request: Request<'_>, hit: &Hit<Entry>) -> Prepared {
        let host = self.exchange.site_or(&w.site).host(request.host);
        let script = host.front_controller(request.head.method_bytes);
        match script.filter(|_| is_simple(request.head)) {
            Some(script) => self.look_up_script(w, Incoming::simple(request, *self.after), script),
            None => self.not_found(w, request, hit),
        }
    }

    /// Answers for a path that does not exist: with the application's page for navigations, if
    /// there is one.
    pub(crate) fn not_found(
        &mut self,
        w: &mut Worker,
        request: Request<'_>,
        hit: &Hit<Entry>,
    ) -> Prepared {
        let site = Arc::clone(self.exchange.site_or(&w.site));
        let host = site.host(request.host);
        match host.spa_fallback() {
            Some(page) if is_navigation(request.head) => {
                self.answer_path(w, request, page, Purpose::Fallback)
            }
            _ => {
                let reason = if is_missing_start_page(host, hit) { NO_START_PAGE } else { "" };
                let varies = host.spa_fallback().is_some();
                let failure = Failure { reason, varies, ..Failure::from_status(404) };
                self.fail(w, request.into(), failure)
            }
        }
    }

    pub(crate) fn redirect(&mut self, w: &Worker, request: Request<'_>, to: &Redirect) -> Prepared {
        let mut location = to.location.to_vec();
        if let Target::Path { query: Some(query), .. } = request.head.target
            && !location.iter().any(|byte| b"?#".contains(byte))
        {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        let mut fields = FieldList::default();
        fields.add("Location", location);
        self.put_head(w, request.into(), to.status, fields, Framing::Length(0));
        Prepared::Bytes
    }

    fn options(&mut self, w: &Worker, request: Request<'_>) -> Prepared {
        let mut fields = FieldList::default();
        fields.add("Allow", ALLOW);
        self.put_head(w, request.into(), 204, fields, Framing::None);
        Prepared::Bytes
    }

    fn list(&mut self, w: &mut Worker, request: Request<'_>, hit: &Hit<Entry>) -> Prepared {
        let Some(permit) = w.listings.begin(w.number) else { return self.error(w, request, 503) };
        let format = list_format(request.head);
        let path = canonical_path(hit).into();
        let chunked = !self.exchange.draft.is_http10;
        if !chunked && *self.after == After::KeepAlive {
            *self.after = After::Linger;
        }
        let mut fields = FieldList::default();
        fields.add("Content-Type", format.content_type().as_bytes());
        fields.add("Content-Security-Policy", CONTENT_SECURITY_POLICY.as_bytes());
        fields.add("Cache-Control", &b"no-cache"[..]);
        fields.add("Vary", &b"Accept"[..]);
        fields.add("X-Content-Type-Options", &b"nosniff"[..]);
        let framing = if chunked { Framing::Chunked } else { Framing::None };
        self.put_head(w, request.into(), 200, fields, framing);
        let exchange = &mut *self.exchange;
        if exchange.draft.is_head {
            return Prepared::Bytes;
        }
        exchange.then = Then::List(Box::new(Listing { chunked, ..Listing::default() }));
        exchange.head.clear();
        exchange.head.extend_from_slice(request.bytes);
        exchange.hold(&w.revision);
        exchange.job = Some(Job::List { host: request.host, path, format, permit });
        Prepared::Job
    }

    /// Handles the next bytes of a listing.
    fn listed(&mut self, w: &mut Worker, request: Request<'_>, outcome: ListOutcome) -> Prepared {
        let exchange = &mut *self.exchange;
        match outcome {
            Ok((bytes, cursor)) => {
                exchange.put_piece(&bytes, cursor.is_some());
                exchange.job = cursor.map(Job::ListMore);
                Prepared::Bytes
            }
            // Nothing has been sent yet, so the status can still be an error.
            Err(_) if exchange.draft.body_bytes == 0 => {
                exchange.out.clear();
                exchange.then = Then::Finish;
                self.unavailable(w, request)
            }
            Err(_) => Prepared::Nothing,
        }
    }
}

/// The text of the built-in page at an empty root. Any client can read it, so it says nothing about
/// this machine.
const NO_START_PAGE: &str = "There is no index.html here yet. If this is your site, put one into \
    its directory, or have the files listed with --listing.";

/// Whether an entry stands for the root directory of a host that lacks its usual index file.
fn is_missing_start_page(host: &Host, hit: &Hit<Entry>) -> bool {
    canonical_path(hit) == b"/" && host.settings().index.iter().any(|name| name == "index.html")
}

/// The path of an entry: a key is the host's index in four bytes and the canonical path.
fn canonical_path(hit: &Hit<Entry>) -> &[u8] {
    &hit.key()[4..]
}

type ListOutcome = std::io::Result<(Vec<u8>, Option<Box<crate::job::ListCursor>>)>;

/// Whether a browser is going to show the answer as a page: only then may an application's page
/// replace a path that does not exist. A missing script answered with a page breaks the site in
/// ways that are hard to find.
fn is_navigation(head: &Head<'_>) -> bool {
    let Target::Path { path, .. } = head.target else { return false };
    if path::extension(path).is_some() {
        return false;
    }
    if let Some(mode) = head.field(FieldName::SecFetchMode) {
        return mode.eq_ignore_ascii_case(b"navigate");
    }
    accept::names(head.values(FieldName::Accept), "text/html")
}

/// The format of a listing: HTML unless the client prefers JSON.
fn list_format(head: &Head<'_>) -> ListFormat {
    let weight = |media_type| accept::weight(head.values(FieldName::Accept), media_type);
    if weight("application/json") > weight("text/html") {
        ListFormat::Json
    } else {
        ListFormat::Html
    }
}
