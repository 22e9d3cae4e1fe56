//! The current response: what it answers, what was prepared, and how its head is written.

use std::net::SocketAddr;

use file_cache::Hit;
use http1::{Head, HeadWriter, Target};
use site::fields::{Content, FieldList};
use site::path;
use site::resource::Entry;

use crate::after::After;
use crate::exchange::Exchange;
use crate::job::{Done, Job};
use crate::worker::Worker;

/// A request as it was received and as it was parsed.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) head: &'a Head<'a>,
    pub(crate) host: usize,
}

/// A request that was just read, or whose answer could not be chosen before.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) request: Request<'a>,
    /// The bytes after its head that have arrived.
    pub(crate) arrived: &'a [u8],
    /// Whether the response may be the last of the connection anyway.
    pub(crate) is_last: bool,
}

impl<'a> Incoming<'a> {
    /// A request without a body, of whose connection it was decided what happens to it.
    pub(crate) fn simple(request: Request<'a>, after: After) -> Self {
        Self { request, arrived: &[], is_last: after != After::KeepAlive }
    }
}

/// How the end of the content of a response is marked.
#[derive(Clone, Copy)]
pub(crate) enum Framing {
    /// By its length in bytes.
    Length(u64),
    /// By the last chunk.
    Chunked,
    /// Not at all: there is no content, or the close ends it.
    None,
}

/// The result of a call that prepares a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Prepared {
    /// Bytes that are ready to be sent.
    Bytes,
    /// A job that must run first.
    Job,
    /// A body that must be whole first.
    Body,
    /// Nothing, though more was announced: the connection has to be broken off.
    Nothing,
}

/// The response under way, while it is being prepared.
pub(crate) struct Response<'c> {
    pub(crate) exchange: &'c mut Exchange,
    /// What happens to the connection after it.
    pub(crate) after: &'c mut After,
    /// The client.
    pub(crate) peer: &'c SocketAddr,
}

/// A request that is not answered with a file, as far as it was parsed.
#[derive(Clone, Copy)]
pub(crate) struct FailedRequest<'a> {
    /// Its head; empty if it could not be read.
    pub(crate) bytes: &'a [u8],
    pub(crate) head: Option<&'a Head<'a>>,
    /// None if no host answers for the request.
    pub(crate) host: Option<usize>,
}

impl<'a> From<Request<'a>> for FailedRequest<'a> {
    fn from(request: Request<'a>) -> Self {
        Self { bytes: request.bytes, head: Some(request.head), host: Some(request.host) }
    }
}

impl FailedRequest<'_> {
    /// The canonical path that rules are matched against; the root if the request has none.
    pub(crate) fn path<'p>(&'p self, scratch: &'p mut Vec<u8>) -> &'p [u8] {
        match self.head.map(|head| head.target) {
            Some(Target::Path { path, .. }) => path::canonicalise(path, scratch).unwrap_or(b"/"),
            _ => b"/",
        }
    }
}

impl Response<'_> {
    /// Prepares a job that resolves a path. The head is kept until the job has run.
    pub(crate) fn prepare_job(&mut self, w: &Worker, head: &[u8], job: Job) -> Prepared {
        w.counters.cache_misses.add(1);
        self.exchange.head.clear();
        self.exchange.head.extend_from_slice(head);
        self.exchange.hold(&w.revision);
        self.exchange.job = Some(job);
        Prepared::Job
    }

    /// Caches the result of a job; none if the job failed temporarily.
    pub(crate) fn cache_result(
        &self,
        w: &mut Worker,
        host: usize,
        done: Done,
    ) -> Option<Hit<Entry>> {
        let now = w.now();
        match done {
            Done::Current(slot) => {
                w.cache.validate(&slot, now);
                Some(Hit::new(slot))
            }
            Done::Resolved(Ok((path, entry))) => Some(w.cache.insert(host, &path, entry, now)),
            Done::Resolved(Err(_)) | Done::Listed(_) | Done::Unfinished(_) => None,
        }
    }

    /// Writes a head that is not a file's, with these fields and those that rules add.
    pub(crate) fn put_head<'f>(
        &mut self,
        w: &'f Worker,
        failed: FailedRequest<'_>,
        status: u16,
        fields: FieldList<'f>,
        framing: Framing,
    ) {
        let mut fields = fields;
        let held = self.exchange.held.take();
        let site = held.as_ref().map_or(&w.site, |held| &held.site);
        let host = failed.host.map(|host| site.host(host));
        if let Some(host) = host.filter(|host| host.has_header_rules()) {
            let mut scratch = Vec::new();
            let path = failed.path(&mut scratch);
            fields.apply(host.header_rules(path), status, Content::Other);
        }
        let connection = self.connection_line();
        self.exchange.draft.status = status;
        let mut head = start_head(w, &mut self.exchange.out, status);
        fields.write(head.rest());
        match framing {
            Framing::Length(len) => head.content_length(len),
            Framing::Chunked => head.field("Transfer-Encoding", b"chunked"),
            Framing::None => {}
        }
        head.lines(connection);
        head.finish();
        self.exchange.held = held;
    }

    /// The `Connection` line of the response, empty where it is the default of the version.
    #[inline]
    pub(crate) fn connection_line(&self) -> &'static [u8] {
        match (*self.after, self.exchange.draft.is_http10) {
            (After::KeepAlive, false) => b"",
            (After::KeepAlive, true) => b"Connection: keep-alive\r\n",
            (After::Close | After::Linger, _) => b"Connection: close\r\n",
        }
    }
}

/// The canonical path of a request for an application, by which rules for its reply are found.
pub(crate) fn path_for_rules<'p>(head: &Head<'p>, scratch: &'p mut Vec<u8>) -> &'p [u8] {
    match head.target {
        Target::Path { path, .. } => {
            path::canonicalise_for_application(path, scratch).unwrap_or(b"/")
        }
        _ => b"/",
    }
}

pub(crate) fn start_head<'v>(w: &Worker, out: &'v mut Vec<u8>, status: u16) -> HeadWriter<'v> {
    let mut head = HeadWriter::new(out, status);
    head.field("Date", w.date());
    head
}
