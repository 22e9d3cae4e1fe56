//! The response under way: what it answers, what it has come to, and how its head is written.

use file_cache::Hit;
use http1::{Head, HeadWriter, Target};
use site::fields::{Content, FieldList};
use site::path;
use site::resource::Entry;

use crate::after::After;
use crate::exchange::Exchange;
use crate::job::{Done, Job};
use crate::worker::Worker;

/// A request as it was received and as it was understood.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) head: &'a Head<'a>,
    pub(crate) host: usize,
}

/// What says where the content of a response ends.
#[derive(Clone, Copy)]
pub(crate) enum Framing {
    /// Its length in bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Nothing: there is none, or the close does.
    Unsaid,
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

/// A request that is not answered with a file: as far as it was understood.
#[derive(Clone, Copy)]
pub(crate) struct Failed<'a> {
    /// Its head; empty if it could not be read.
    pub(crate) bytes: &'a [u8],
    pub(crate) head: Option<&'a Head<'a>>,
    /// None if no host answers for it.
    pub(crate) host: Option<usize>,
}

impl<'a> From<Asked<'a>> for Failed<'a> {
    fn from(asked: Asked<'a>) -> Self {
        Self { bytes: asked.bytes, head: Some(asked.head), host: Some(asked.host) }
    }
}

impl Failed<'_> {
    /// The canonical path that rules are matched against; of what has none it is the root.
    pub(crate) fn path<'p>(&'p self, scratch: &'p mut Vec<u8>) -> &'p [u8] {
        match self.head.map(|head| head.target) {
            Some(Target::Path { path, .. }) => path::canonicalise(path, scratch).unwrap_or(b"/"),
            _ => b"/",
        }
    }
}

impl Response<'_> {
    /// Has a job find out what a path stands for. The head is kept until it has run.
    pub(crate) fn ask(&mut self, w: &Worker, head: &[u8], job: Job) -> Prepared {
        w.counters.cache_misses.add(1);
        self.exchange.head.clear();
        self.exchange.head.extend_from_slice(head);
        self.exchange.job = Some(job);
        Prepared::Job
    }

    /// Keeps what a job has found out; none if it failed for a reason that passes.
    pub(crate) fn learn(&self, w: &mut Worker, host: usize, done: Done) -> Option<Hit<Entry>> {
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

    /// Writes a head that is not a file's: with the fields that rules add to these.
    pub(crate) fn put_head<'f>(
        &mut self,
        w: &'f Worker,
        failed: Failed<'_>,
        status: u16,
        mut fields: FieldList<'f>,
        framing: Framing,
    ) {
        let host = failed.host.map(|host| w.site.host(host));
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
            Framing::Length(len) => head.field_number("Content-Length", len),
            Framing::Chunked => head.field("Transfer-Encoding", b"chunked"),
            Framing::Unsaid => {}
        }
        head.lines(connection);
        head.finish();
    }

    /// The `Connection` line of the response, or nothing where the version's default holds.
    #[inline]
    pub(crate) fn connection_line(&self) -> &'static [u8] {
        match (*self.after, self.exchange.draft.is_http10) {
            (After::KeepAlive, false) => b"",
            (After::KeepAlive, true) => b"Connection: keep-alive\r\n",
            (After::Close | After::Linger, _) => b"Connection: close\r\n",
        }
    }
}

pub(crate) fn start_head<'v>(w: &Worker, out: &'v mut Vec<u8>, status: u16) -> HeadWriter<'v> {
    let mut head = HeadWriter::new(out, status);
    head.field("Date", w.date());
    head
}
