//! Answers to requests that fail: the host's own page for the status, or a built-in one.
//!
//! A page is looked up like any path, and its job may have to run first; the other facts of the
//! answer are kept meanwhile. A page that is not available is no second failure: the built-in page
//! is sent instead.

use std::sync::Arc;

use file_cache::Hit;
use http1::FieldName;
use site::negotiate;
use site::resource::{Entry, FileResource, Resource};

use crate::after::After;
use crate::exchange::{Draft, Purpose};
use crate::failure::Failure;
use crate::job::{Done, Job};
use crate::lookup::Lookup;
use crate::response::{FailedRequest, Framing, Prepared, Request, Response};
use crate::worker::Worker;

impl Response<'_> {
    /// Answers bytes that are no request, or a request that will never be complete, and closes. The
    /// requested host is not known, so the default host answers.
    pub(crate) fn refuse(
        &mut self,
        w: &mut Worker,
        status: u16,
        reason: &'static str,
        is_head: bool,
    ) -> Prepared {
        self.exchange.reset();
        w.keep_current();
        let host = w.site.find(None);
        let host_or_first = host.unwrap_or_default();
        self.exchange.draft = Draft { host: host_or_first, is_head, ..Draft::begin(w) };
        *self.after = After::Linger;
        let failed = FailedRequest { bytes: &[], head: None, host };
        self.fail(w, failed, Failure { reason, ..Failure::from_status(status) })
    }

    /// Answers with an error whose status says enough.
    pub(crate) fn error(&mut self, w: &mut Worker, request: Request<'_>, status: u16) -> Prepared {
        self.fail(w, request.into(), Failure::from_status(status))
    }

    /// Answers with an error, with the host's own page if there is one.
    pub(crate) fn fail(
        &mut self,
        w: &mut Worker,
        failed: FailedRequest<'_>,
        failure: Failure,
    ) -> Prepared {
        let site = Arc::clone(self.exchange.site_or(&w.site));
        let page =
            failed.host.and_then(|host| Some((host, site.host(host).error_page(failure.status)?)));
        let Some((host, page)) = page else { return self.plain_error(w, failed, failure) };
        let now = w.now();
        let known = match w.cache.get(host, page, now).fresh() {
            Ok(hit) => {
                w.counters.cache_hits.add(1);
                return self.page_found(w, failed, failure, &hit);
            }
            Err(known) => known,
        };
        self.exchange.purpose = Purpose::ErrorPage(failure);
        self.prepare_job(w, failed.bytes, Job::Resolve { host, path: page.into(), known })
    }

    /// Answers with 503 after a job has failed temporarily. No other job is begun for the page of
    /// that status, because it would fail as well. A page in the cache is used, however old it is.
    pub(crate) fn unavailable(&mut self, w: &mut Worker, request: Request<'_>) -> Prepared {
        let failure = Failure::from_status(503);
        let (site, now) = (Arc::clone(self.exchange.site_or(&w.site)), w.now());
        let page = site.host(request.host).error_page(failure.status);
        match page.map(|page| w.cache.get(request.host, page, now)) {
            Some(Lookup::Fresh(hit)) => self.page_found(w, request.into(), failure, &hit),
            Some(Lookup::Due(slot)) => self.page_found(w, request.into(), failure, &Hit::new(slot)),
            _ => self.plain_error(w, request.into(), failure),
        }
    }

    /// Continues when the job for the page of an error has run.
    pub(crate) fn page_resolved(
        &mut self,
        w: &mut Worker,
        failed: FailedRequest<'_>,
        failure: Failure,
        done: Done,
    ) -> Prepared {
        let host = failed.host.expect("only a host has pages");
        match self.cache_result(w, host, done) {
            Some(hit) => self.page_found(w, failed, failure, &hit),
            None => self.plain_error(w, failed, failure),
        }
    }

    fn page_found(
        &mut self,
        w: &Worker,
        failed: FailedRequest<'_>,
        failure: Failure,
        hit: &Hit<Entry>,
    ) -> Prepared {
        match &hit.value().resource {
            Resource::File(file) => self.error_page(w, failed, failure, hit, file),
            _ => self.plain_error(w, failed, failure),
        }
    }

    fn error_page(
        &mut self,
        w: &Worker,
        failed: FailedRequest<'_>,
        failure: Failure,
        hit: &Hit<Entry>,
        file: &FileResource,
    ) -> Prepared {
        // Without a readable head it is unknown what the client accepts: it gets the page without
        // coding.
        let coding = match failed.head {
            Some(head) => {
                negotiate::choose(head.values(FieldName::AcceptEncoding), file.available())
            }
            None => negotiate::choose(std::iter::empty(), file.available()),
        };
        let Some(index) = coding.and_then(|coding| file.position(coding)) else {
            return self.plain_error(w, failed, failure);
        };
        let variant = file.variant(index);
        let mut fields = failure.fields();
        fields.add("Content-Type", variant.content_type.as_bytes());
        if variant.coding != negotiate::Coding::Identity {
            fields.add("Content-Encoding", variant.coding.token().as_bytes());
        }
        if file.varies() {
            fields.add("Vary", &b"Accept-Encoding"[..]);
        }
        fields.add("X-Content-Type-Options", &b"nosniff"[..]);
        self.put_head(w, failed, failure.status, fields, Framing::Length(variant.len));
        self.exchange.send_range(hit, index, 0, variant.len);
        Prepared::Bytes
    }

    /// Answers with an error and a built-in page.
    pub(crate) fn plain_error(
        &mut self,
        w: &Worker,
        failed: FailedRequest<'_>,
        failure: Failure,
    ) -> Prepared {
        let Failure { status, reason, .. } = failure;
        let phrase = http1::reason_phrase(status);
        let paragraph =
            if reason.is_empty() { String::new() } else { format!("<p>{reason}</p>\n") };
        let body = format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <title>{status} {phrase}</title>\n<h1>{status} {phrase}</h1>\n{paragraph}"
        );
        let mut fields = failure.fields();
        fields.add("Content-Type", &b"text/html; charset=utf-8"[..]);
        fields.add("X-Content-Type-Options", &b"nosniff"[..]);
        self.put_head(w, failed, status, fields, Framing::Length(body.len() as u64));
        let exchange = &mut *self.exchange;
        if !exchange.draft.is_head {
            exchange.out.extend_from_slice(body.as_bytes());
            exchange.draft.body_bytes = body.len() as u64;
        }
        Prepared::Bytes
    }
}
