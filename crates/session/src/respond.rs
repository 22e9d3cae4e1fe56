//! What a request is answered with: from a head and a cache entry to bytes that are ready to send.
//!
//! Nothing here knows the state of a connection: what a call has come to is told as [`Prepared`],
//! and whoever drives the exchange does what follows from it.

use std::sync::Arc;

use file_cache::Hit;
use http1::{Expectation, FieldName, Head, HeadWriter, Method, Parsed, Target, Version};
use site::accept;
use site::answer::{Answer, answer};
use site::listing::CONTENT_SECURITY_POLICY;
use site::negotiate;
use site::path;
use site::resource::{Entry, FileResource, Redirect, Resource};

use crate::after::After;
use crate::exchange::{BodySource, Draft, Exchange, Listing, Purpose, Then};
use crate::job::{Done, Job, Known, ListFormat};
use crate::partial::{next_part, partial_head, start_parts};
use crate::worker::{Lookup, Worker};

/// The methods of a static site (RFC 9110 §9).
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// A request as it was received and as it was understood.
#[derive(Clone, Copy)]
struct Asked<'a> {
    bytes: &'a [u8],
    head: &'a Head<'a>,
    host: usize,
}

/// What a call has prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Prepared {
    /// Bytes that are ready to be sent.
    Bytes,
    /// A job that must run first.
    Job,
    /// Nothing more, though more was promised: the only honest end is a broken connection.
    Nothing,
}

/// The response under way, while it is being prepared.
pub(crate) struct Response<'c> {
    pub(crate) exchange: &'c mut Exchange,
    /// What becomes of the connection after it.
    pub(crate) after: &'c mut After,
}

impl Response<'_> {
    /// Answers a well-formed head.
    #[inline]
    pub(crate) fn respond(&mut self, w: &mut Worker, bytes: &[u8], head: &Head<'_>) -> Prepared {
        let draft = Draft {
            started: w.now(),
            is_head: head.method == Method::Head,
            is_http10: head.version == Version::Http10,
            ..Draft::default()
        };
        self.exchange.draft = draft;
        if w.log.is_some() {
            self.exchange.head.extend_from_slice(bytes);
        }
        let Some(host) = w.site.find(head.host) else {
            return self.plain(w, 421, "No site of that name is served here.", &[]);
        };
        self.exchange.draft.host = host;
        let asked = Asked { bytes, head, host };
        match head.method {
            _ if head.expectation == Expectation::Unknown => self.error(w, asked, 417),
            Method::Get | Method::Head => self.target(w, asked),
            Method::Options => self.options(w),
            Method::Unknown => {
                *self.after = After::Linger;
                self.error(w, asked, 501)
            }
            _ => self.error(w, asked, 405),
        }
    }

    /// Answers bytes that are no request, or a request that will never be complete, and closes.
    pub(crate) fn refuse(&mut self, w: &Worker, status: u16, reason: &str) -> Prepared {
        self.exchange.reset();
        self.exchange.draft.started = w.now();
        *self.after = After::Linger;
        self.plain(w, status, reason, &[])
    }

    /// Goes on with a request whose job has run.
    pub(crate) fn job_done(&mut self, w: &mut Worker, done: Done) -> Prepared {
        let bytes = std::mem::take(&mut self.exchange.head);
        let (host, purpose) = (self.exchange.draft.host, self.exchange.purpose);
        let limits = w.limits.head;
        let prepared = match done {
            Done::Listed(outcome) => self.listed(w, outcome),
            done => match http1::parse_head(&bytes, 0, &limits) {
                Ok(Parsed::Complete(head)) => {
                    let asked = Asked { bytes: &bytes, head: &head, host };
                    self.resolved(w, asked, purpose, done)
                }
                _ => unreachable!("the head was parsed before its job was made"),
            },
        };
        self.exchange.head = bytes;
        prepared
    }

    /// Prepares what follows a part or a chunk that is sent; none if the response is complete.
    pub(crate) fn refill(&mut self) -> Option<Prepared> {
        let exchange = &mut *self.exchange;
        exchange.out.clear();
        exchange.out_at = 0;
        match &mut exchange.then {
            Then::Finish => None,
            Then::Parts(_) => {
                next_part(exchange);
                Some(Prepared::Bytes)
            }
            Then::List(listing) => {
                exchange.job = Some(Job::ListMore(listing.cursor.take()?));
                Some(Prepared::Job)
            }
        }
    }

    /// GET or HEAD of a path.
    #[inline]
    fn target(&mut self, w: &mut Worker, asked: Asked<'_>) -> Prepared {
        let Target::Path { path, .. } = asked.head.target else {
            return self.error(w, asked, 400);
        };
        let mut scratch = std::mem::take(&mut w.path_scratch);
        let prepared = match path::canonicalise(path, &mut scratch) {
            Ok(canonical) => self.look_up(w, asked, canonical, Purpose::Path),
            Err(error) => self.plain(w, 400, error.reason(), &[]),
        };
        w.path_scratch = scratch;
        prepared
    }

    #[inline]
    fn look_up(
        &mut self,
        w: &mut Worker,
        asked: Asked<'_>,
        path: &[u8],
        purpose: Purpose,
    ) -> Prepared {
        let now = w.now();
        match w.cache.get(asked.host, path, now) {
            Lookup::Fresh(hit) => {
                w.counters.cache_hits.add(1);
                self.found(w, asked, purpose, &hit)
            }
            Lookup::Due(slot) => self.ask(w, asked, path, purpose, Known::Entry(slot)),
            Lookup::Encoded(bytes) => self.ask(w, asked, path, purpose, Known::Encoded(bytes)),
            Lookup::Absent => self.ask(w, asked, path, purpose, Known::Nothing),
        }
    }

    /// Has a job find out what a path stands for.
    fn ask(
        &mut self,
        w: &mut Worker,
        asked: Asked<'_>,
        path: &[u8],
        purpose: Purpose,
        known: Known,
    ) -> Prepared {
        w.counters.cache_misses.add(1);
        let exchange = &mut *self.exchange;
        exchange.head.clear();
        exchange.head.extend_from_slice(asked.bytes);
        exchange.purpose = purpose;
        exchange.job = Some(Job::Resolve { host: asked.host, path: path.into(), known });
        Prepared::Job
    }

    fn resolved(
        &mut self,
        w: &mut Worker,
        asked: Asked<'_>,
        purpose: Purpose,
        done: Done,
    ) -> Prepared {
        let now = w.now();
        let hit = match done {
            Done::Current(slot) => {
                w.cache.validate(&slot, now);
                Hit::new(slot)
            }
            Done::Resolved(Ok((path, entry))) => w.cache.insert(asked.host, &path, entry, now),
            Done::Resolved(Err(_)) | Done::Listed(_) => {
                return self.unavailable(w);
            }
        };
        self.found(w, asked, purpose, &hit)
    }

    /// Answers with what a path stands for.
    #[inline]
    fn found(
        &mut self,
        w: &mut Worker,
        asked: Asked<'_>,
        purpose: Purpose,
        hit: &Hit<Entry>,
    ) -> Prepared {
        match (&hit.value().resource, purpose) {
            (Resource::File(file), Purpose::Path | Purpose::Fallback) => {
                self.file(w, asked, hit, file)
            }
            (Resource::File(file), Purpose::ErrorPage(status)) => {
                self.error_page(w, asked, status, hit, file)
            }
            (_, Purpose::ErrorPage(status)) => self.plain_error(w, status),
            (_, Purpose::Fallback) => self.error(w, asked, 404),
            (Resource::Redirect(redirect), Purpose::Path) => {
                self.redirect(w, asked, redirect, &hit.value().extra_fields)
            }
            (Resource::Directory, Purpose::Path) => self.list(w, asked, hit),
            (Resource::Missing, Purpose::Path) => self.missing(w, asked),
            (Resource::Forbidden, Purpose::Path) => self.error(w, asked, 403),
        }
    }

    #[inline]
    fn file(
        &mut self,
        w: &mut Worker,
        asked: Asked<'_>,
        hit: &Hit<Entry>,
        file: &FileResource,
    ) -> Prepared {
        let connection = self.connection_line();
        let exchange = &mut *self.exchange;
        match answer(asked.head, file, w.unix_seconds(), w.limits.ranges_max) {
            Answer::Whole(index) => {
                let variant = file.variant(index);
                exchange.draft.status = 200;
                variant.write_ok(&mut exchange.out, w.date(), connection);
                exchange.send_range(hit, index, 0, variant.len);
                Prepared::Bytes
            }
            Answer::NotModified(index) => {
                exchange.draft.status = 304;
                file.variant(index).write_not_modified(&mut exchange.out, w.date(), connection);
                Prepared::Bytes
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
                Prepared::Bytes
            }
            Answer::PreconditionFailed => self.error(w, asked, 412),
            Answer::NotAcceptable => self.error(w, asked, 406),
            Answer::RangeNotSatisfiable(index) => {
                let line = format!("Content-Range: bytes */{}\r\n", file.variant(index).len);
                self.plain(w, 416, "", line.as_bytes())
            }
        }
    }

    /// Nothing there: the application's page for navigations, if there is one.
    fn missing(&mut self, w: &mut Worker, asked: Asked<'_>) -> Prepared {
        let site = Arc::clone(&w.site);
        match site.host(asked.host).spa_fallback() {
            Some(page) if is_navigation(asked.head) => {
                self.look_up(w, asked, page, Purpose::Fallback)
            }
            _ => self.error(w, asked, 404),
        }
    }

    fn redirect(
        &mut self,
        w: &Worker,
        asked: Asked<'_>,
        to: &Redirect,
        extra_fields: &[u8],
    ) -> Prepared {
        let connection = self.connection_line();
        let exchange = &mut *self.exchange;
        let mut location = to.location.to_vec();
        if let Target::Path { query: Some(query), .. } = asked.head.target
            && !location.iter().any(|byte| b"?#".contains(byte))
        {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        exchange.draft.status = to.status;
        let mut head = start_head(w, &mut exchange.out, to.status);
        head.field("Location", &location);
        head.lines(extra_fields);
        head.field_number("Content-Length", 0);
        head.lines(connection);
        head.finish();
        Prepared::Bytes
    }

    fn options(&mut self, w: &Worker) -> Prepared {
        let connection = self.connection_line();
        let exchange = &mut *self.exchange;
        exchange.draft.status = 204;
        let mut head = start_head(w, &mut exchange.out, 204);
        head.field("Allow", ALLOW);
        head.lines(connection);
        head.finish();
        Prepared::Bytes
    }

    /// An error, dressed by the site's own page if it has one.
    fn error(&mut self, w: &mut Worker, asked: Asked<'_>, status: u16) -> Prepared {
        let site = Arc::clone(&w.site);
        match site.host(asked.host).error_page(status) {
            Some(page) => self.look_up(w, asked, page, Purpose::ErrorPage(status)),
            None => self.plain_error(w, status),
        }
    }

    fn error_page(
        &mut self,
        w: &mut Worker,
        asked: Asked<'_>,
        status: u16,
        hit: &Hit<Entry>,
        file: &FileResource,
    ) -> Prepared {
        let lines = asked.head.values(FieldName::AcceptEncoding);
        let coding = negotiate::choose(lines, file.available());
        let Some(index) = coding.and_then(|coding| file.position(coding)) else {
            return self.plain_error(w, status);
        };
        let connection = self.connection_line();
        let exchange = &mut *self.exchange;
        let variant = file.variant(index);
        exchange.draft.status = status;
        let mut head = start_head(w, &mut exchange.out, status);
        head.field("Content-Type", variant.content_type.as_bytes());
        if variant.coding != negotiate::Coding::Identity {
            head.field("Content-Encoding", variant.coding.token().as_bytes());
        }
        if file.varies() {
            head.field("Vary", b"Accept-Encoding");
        }
        head.lines(error_fields(status));
        head.field("X-Content-Type-Options", b"nosniff");
        head.field_number("Content-Length", variant.len);
        head.lines(connection);
        head.finish();
        exchange.send_range(hit, index, 0, variant.len);
        Prepared::Bytes
    }

    fn plain_error(&mut self, w: &Worker, status: u16) -> Prepared {
        self.plain(w, status, "", error_fields(status))
    }

    /// A job failed, or may not begin, for a reason that passes.
    fn unavailable(&mut self, w: &Worker) -> Prepared {
        self.plain(w, 503, "Try again in a moment.", b"Retry-After: 1\r\n")
    }

    /// An error with a page of our own.
    fn plain(&mut self, w: &Worker, status: u16, reason: &str, fields: &[u8]) -> Prepared {
        let connection = self.connection_line();
        let exchange = &mut *self.exchange;
        let phrase = http1::reason_phrase(status);
        let body = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <title>{status} {phrase}</title>\n<h1>{status} {phrase}</h1>\n<p>{reason}</p>\n"
        );
        exchange.draft.status = status;
        let mut head = start_head(w, &mut exchange.out, status);
        head.field("Content-Type", b"text/html; charset=utf-8");
        head.lines(fields);
        head.field_number("Content-Length", body.len() as u64);
        head.lines(connection);
        head.finish();
        if !exchange.draft.is_head {
            exchange.out.extend_from_slice(body.as_bytes());
            exchange.draft.body_bytes = body.len() as u64;
        }
        Prepared::Bytes
    }

    fn list(&mut self, w: &mut Worker, asked: Asked<'_>, hit: &Hit<Entry>) -> Prepared {
        let Some(permit) = w.listings.begin(w.number) else { return self.unavailable(w) };
        let format = list_format(asked.head);
        // A key is the host's index in four bytes and the canonical path.
        let path = hit.key()[4..].into();
        let connection = self.connection_line();
        let exchange = &mut *self.exchange;
        let draft = &mut exchange.draft;
        draft.status = 200;
        let chunked = !draft.is_http10;
        if !chunked && *self.after == After::KeepAlive {
            *self.after = After::Linger;
        }
        let mut head = start_head(w, &mut exchange.out, 200);
        head.field("Content-Type", format.content_type().as_bytes());
        head.field("Content-Security-Policy", CONTENT_SECURITY_POLICY.as_bytes());
        head.field("Cache-Control", b"no-cache");
        head.field("Vary", b"Accept");
        head.field("X-Content-Type-Options", b"nosniff");
        head.lines(&hit.value().extra_fields);
        match chunked {
            true => {
                head.field("Transfer-Encoding", b"chunked");
                head.lines(connection);
            }
            false => head.lines(b"Connection: close\r\n"),
        }
        head.finish();
        if exchange.draft.is_head {
            return Prepared::Bytes;
        }
        exchange.then = Then::List(Box::new(Listing { cursor: None, chunked }));
        exchange.head.clear();
        exchange.head.extend_from_slice(asked.bytes);
        exchange.job = Some(Job::List { host: asked.host, path, format, permit });
        Prepared::Job
    }

    /// Bytes of a listing have come.
    fn listed(&mut self, w: &mut Worker, outcome: ListOutcome) -> Prepared {
        let exchange = &mut *self.exchange;
        let Then::List(listing) = &mut exchange.then else {
            unreachable!("only a listing asks for one")
        };
        let (bytes, cursor) = match outcome {
            Ok(listed) => listed,
            // Nothing is sent yet: there is still time for an honest status.
            Err(_) if exchange.draft.body_bytes == 0 => {
                exchange.out.clear();
                exchange.then = Then::Finish;
                return self.unavailable(w);
            }
            Err(_) => return Prepared::Nothing,
        };
        exchange.draft.body_bytes += bytes.len() as u64;
        if listing.chunked {
            put_chunk(&mut exchange.out, &bytes, cursor.is_none());
        } else {
            exchange.out.extend_from_slice(&bytes);
        }
        match cursor {
            Some(_) => listing.cursor = cursor,
            None => exchange.then = Then::Finish,
        }
        Prepared::Bytes
    }

    /// The `Connection` line of the response, or nothing where the version's default holds.
    #[inline]
    fn connection_line(&self) -> &'static [u8] {
        match (*self.after, self.exchange.draft.is_http10) {
            (After::KeepAlive, false) => b"",
            (After::KeepAlive, true) => b"Connection: keep-alive\r\n",
            (After::Close | After::Linger, _) => b"Connection: close\r\n",
        }
    }
}

type ListOutcome = std::io::Result<(Vec<u8>, Option<Box<crate::job::ListCursor>>)>;

impl Exchange {
    /// Makes bytes `at..end` of a variant the body, unless the request was HEAD.
    #[inline]
    fn send_range(&mut self, entry: &Hit<Entry>, variant: usize, at: u64, end: u64) {
        if !self.draft.is_head && at < end {
            self.body = BodySource::Variant { entry: Hit::clone(entry), variant, at, end };
        }
    }
}

pub(crate) fn start_head<'v>(w: &Worker, out: &'v mut Vec<u8>, status: u16) -> HeadWriter<'v> {
    let mut head = HeadWriter::new(out, status);
    head.field("Date", w.date());
    head
}

/// Fields that an error status calls for.
fn error_fields(status: u16) -> &'static [u8] {
    match status {
        405 | 501 => b"Allow: GET, HEAD, OPTIONS\r\n",
        406 => b"Vary: Accept-Encoding\r\n",
        _ => b"",
    }
}

fn put_chunk(out: &mut Vec<u8>, bytes: &[u8], is_last: bool) {
    if !bytes.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
    if is_last {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// Whether a browser is going to show the answer as a page: only then may an application's page
/// stand in for a path that does not exist. A missing script answered with a page breaks the site
/// in ways that are hard to find.
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

/// HTML unless the client wants JSON more.
fn list_format(head: &Head<'_>) -> ListFormat {
    let weight = |media_type| accept::weight(head.values(FieldName::Accept), media_type);
    if weight("application/json") > weight("text/html") {
        ListFormat::Json
    } else {
        ListFormat::Html
    }
}
