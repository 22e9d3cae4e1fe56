//! An exchange: the buffers and the progress of the current request and its response. A connection
//! has one only while it has bytes to remember, so that an idle connection is small.

use std::sync::Arc;

use file_cache::Hit;
use http1::{BodySkipper, Head, HeadLimits, Method, Parsed, Version, parse_head};
use site::Site;
use site::range::RangeSet;
use site::resource::{Body, Entry, Variant};
use site::routes::NamedBy;

use crate::failure::Failure;
use crate::job::Job;
use crate::limits::Limits;
use crate::named_file::NamedFile;
use crate::op::Op;
use crate::revision::Revision;
use crate::stream::Stream;
use crate::worker::Worker;
use upstream::Tick;

/// Larger buffers are not kept for reuse.
const KEPT_BYTES_MAX: usize = 4096;

/// Bytes of a file that are read at once: the plain text of a TLS record (RFC 8446 §5.1).
const READ_BYTES_MAX: usize = 1 << 14;

/// A client may send this many bytes ahead of the response under way, and what is received at once
/// beyond that.
pub(crate) const AHEAD_BYTES_MAX: usize = 16 * 1024;

/// The status that is logged for a client that leaves before its reply begins. It is never sent.
const CLIENT_LEFT: u16 = 499;

/// What became of an unwanted body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// There is none any more.
    Whole,
    /// More of it is still to arrive.
    Part,
    /// It is malformed or too long, so that the next request cannot be found.
    Broken,
}

/// The state of one request and its response.
#[derive(Default)]
pub(crate) struct Exchange {
    /// Received bytes that have not been consumed; those before `input_at` have.
    pub(crate) input: Vec<u8>,
    pub(crate) input_at: usize,
    /// How many bytes after `input_at` the head parser has scanned.
    pub(crate) scanned: usize,
    /// The request's head, kept while a job runs and for the log. If a script has redirected the
    /// request, it is that of the new one, and the one that the client has sent follows.
    pub(crate) head: Vec<u8>,
    /// Bytes to send ahead of the body; those before `out_at` are sent.
    pub(crate) out: Vec<u8>,
    pub(crate) out_at: usize,
    pub(crate) body: BodySource,
    /// What follows when `out` and `body` are sent.
    pub(crate) then: Then,
    /// The request's own body, which is still to be read and dropped.
    pub(crate) skipper: Option<BodySkipper>,
    pub(crate) skipped: u64,
    /// A job that has not been taken yet, or the rest of one.
    pub(crate) job: Option<Job>,
    /// What the job's answer is for.
    pub(crate) purpose: Purpose,
    /// What the request goes by, if it began to wait for something: the worker may have taken
    /// another revision over since.
    pub(crate) held: Option<Arc<Revision>>,
    /// The file that an application has named, while it is looked up.
    pub(crate) named_file: Option<Box<NamedFile>>,
    /// Whether bytes of files pass through user space.
    pub(crate) reads_files: bool,
    /// Bytes sent since the write deadline was last renewed.
    pub(crate) progress: u64,
    pub(crate) draft: Draft,
}

/// Body bytes that are sent from the place where they are.
#[derive(Default)]
pub(crate) enum BodySource {
    #[default]
    None,
    /// Bytes `at..end` of a variant of a file.
    Variant { entry: Hit<Entry>, variant: usize, at: u64, end: u64 },
}

/// What follows when everything prepared is sent.
#[derive(Default)]
pub(crate) enum Then {
    /// More of an application's reply.
    Application(Stream),
    /// The response is complete.
    #[default]
    Finish,
    /// More parts of a multipart response.
    Parts(Box<Parts>),
    /// More of a listing.
    List(Box<Listing>),
}

/// A multipart/byteranges response that is being sent (RFC 9110 §14.6).
pub(crate) struct Parts {
    pub(crate) entry: Hit<Entry>,
    pub(crate) variant: usize,
    pub(crate) ranges: RangeSet,
    pub(crate) next: usize,
    pub(crate) boundary: [u8; 24],
}

/// A listing that is being sent. Its rest is a job of the exchange.
#[derive(Default)]
pub(crate) struct Listing {
    /// The piece that follows the one in `out`: that does not move while it is sent.
    pub(crate) following: Vec<u8>,
    /// The number of its bytes that are content.
    pub(crate) following_bytes: u64,
    /// Whether the last piece is prepared.
    pub(crate) is_complete: bool,
    /// Whether the transfer coding is chunked; otherwise the close ends the body (HTTP/1.0).
    pub(crate) chunked: bool,
}

/// What a job's answer is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To answer the requested path.
    #[default]
    Path,
    /// To answer a navigation with the application's page.
    Fallback,
    /// To add the page to an error.
    ErrorPage(Failure),
    /// To answer with the file that an application has named.
    NamedFile,
    /// To see whether a script exists that is to be run.
    Script(NamedBy),
    /// To see whether a path exists, before the script for those that do not is run.
    Existence,
}

/// The facts of the response that will be recorded.
#[derive(Clone, Copy, Default)]
pub(crate) struct Draft {
    /// 0 while there is no response.
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) started: Tick,
    /// The virtual host.
    pub(crate) host: usize,
    /// How often scripts have redirected the request.
    pub(crate) redirects: u8,
    pub(crate) is_head: bool,
    pub(crate) is_http10: bool,
    /// Whether the log was on when the response began: its head is kept for the record.
    pub(crate) is_logged: bool,
    /// The number of the revision that the worker went by then.
    pub(crate) revision: u64,
}

impl Draft {
    /// The draft of a response to a request that was read now.
    #[inline]
    pub(crate) fn new(head: &Head<'_>, w: &Worker) -> Self {
        Self {
            is_head: head.method == Method::Head,
            is_http10: head.version == Version::Http10,
            ..Self::begin(w)
        }
    }

    /// The draft of a response to what is no request, as far as can be seen.
    #[inline]
    pub(crate) fn begin(w: &Worker) -> Self {
        Self {
            started: w.now(),
            is_logged: w.is_logging(),
            revision: w.revision_number,
            ..Self::default()
        }
    }
}

impl Exchange {
    /// Empties everything, and frees what is too large to keep.
    pub(crate) fn reset(&mut self) {
        self.finish();
        self.input_at = 0;
        self.scanned = 0;
        let out_max = if self.reads_files { READ_BYTES_MAX } else { KEPT_BYTES_MAX };
        let [input, head, out] = [&mut self.input, &mut self.head, &mut self.out];
        for (buffer, kept_max) in [(input, KEPT_BYTES_MAX), (head, KEPT_BYTES_MAX), (out, out_max)]
        {
            buffer.clear();
            if buffer.capacity() > kept_max {
                *buffer = Vec::new();
            }
        }
    }

    /// Discards the response and its request, but not the bytes received after it.
    pub(crate) fn finish(&mut self) {
        self.head.clear();
        self.out.clear();
        self.out_at = 0;
        self.body = BodySource::None;
        // Usually it is so: to drop nothing costs ten instructions.
        if !matches!(self.then, Then::Finish) {
            self.then = Then::Finish;
        }
        self.skipper = None;
        self.skipped = 0;
        self.job = None;
        if self.purpose == Purpose::NamedFile {
            self.named_file = None;
        }
        self.purpose = Purpose::Path;
        if self.held.is_some() {
            self.held = None;
        }
        self.progress = 0;
        self.draft = Draft::default();
    }

    /// Has the request go by this revision to its end, unless it goes by another.
    pub(crate) fn hold(&mut self, revision: &Arc<Revision>) {
        self.held.get_or_insert_with(|| Arc::clone(revision));
    }

    /// The site that the request goes by: its own, or else that of the worker.
    #[inline]
    pub(crate) fn site_or<'s>(&'s self, of_worker: &'s Arc<Site>) -> &'s Arc<Site> {
        self.held.as_ref().map_or(of_worker, |held| &held.site)
    }

    /// The limits that the request goes by: its own, or else those of the worker.
    pub(crate) fn limits_or<'l>(&'l self, of_worker: &'l Arc<Limits>) -> &'l Arc<Limits> {
        self.held.as_ref().map_or(of_worker, |held| &held.limits)
    }

    /// Received bytes that have not been consumed.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.input[self.input_at..]
    }

    /// Keeps received bytes. Consumed ones are removed for them: otherwise, from a client whose
    /// every packet ends in the middle of a request, everything would be kept.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.input.drain(..self.input_at);
        self.input_at = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Marks `n` unread bytes as consumed.
    pub(crate) fn consume(&mut self, n: usize) {
        self.input_at += n;
        self.scanned = 0;
        if self.input_at == self.input.len() {
            self.input.clear();
            self.input_at = 0;
        }
    }

    /// Drops what has arrived of the request's own body, of which at most `bytes_max` are dropped.
    pub(crate) fn skip_body(&mut self, bytes_max: u64) -> Skipped {
        let Some(mut skipper) = self.skipper.take() else { return Skipped::Whole };
        let Ok(taken) = skipper.skip(self.unread()) else { return Skipped::Broken };
        self.skipped += taken as u64;
        self.consume(taken);
        // The limit is checked first: whether a body is too long must not depend on how it was cut.
        if self.skipped > bytes_max {
            return Skipped::Broken;
        }
        if skipper.is_done() {
            self.skipped = 0;
            return Skipped::Whole;
        }
        self.skipper = Some(skipper);
        Skipped::Part
    }

    /// The next operation of a response; `Op::Wait` if everything prepared is sent.
    #[inline]
    pub(crate) fn op(&self) -> Op<'_> {
        let head = &self.out[self.out_at..];
        // What an application sends next may be long in coming.
        let more = matches!(self.then, Then::Parts(_) | Then::List(_));
        match &self.body {
            BodySource::Variant { entry, variant, at, end } if at < end => {
                match &variant_of(entry.value(), *variant).body {
                    // Lengths in memory fit an index.
                    Body::Memory(bytes) => {
                        Op::Send { head, body: &bytes[*at as usize..*end as usize], more }
                    }
                    Body::File(_) if !head.is_empty() => Op::Send { head, body: &[], more: true },
                    Body::File(file) if self.reads_files => {
                        let len = (end - at).min(READ_BYTES_MAX as u64) as usize;
                        Op::Read { file, offset: *at, len }
                    }
                    Body::File(file) => Op::File { file, offset: *at, len: end - at },
                }
            }
            _ if head.is_empty() => Op::Wait,
            _ => Op::Send { head, body: &[], more },
        }
    }

    /// Counts `n` sent bytes off. Returns whether everything prepared is sent.
    #[inline]
    pub(crate) fn sent(&mut self, n: usize) -> bool {
        let from_out = n.min(self.out.len() - self.out_at);
        self.out_at += from_out;
        let from_body = (n - from_out) as u64;
        self.progress += n as u64;
        let body_is_sent = match &mut self.body {
            BodySource::None => from_body == 0,
            BodySource::Variant { at, end, .. } => {
                *at += from_body;
                debug_assert!(at <= end, "more was sent than there is");
                self.draft.body_bytes += from_body;
                at == end
            }
        };
        body_is_sent && self.out_at == self.out.len()
    }

    /// Whether everything ahead of the body is sent; for a stream, the piece that is being sent.
    pub(crate) fn is_sent(&self) -> bool {
        self.out_at == self.out.len()
    }

    /// Whether more of a stream may be prepared: at most half of the piece that is being sent is
    /// left, and none follows it yet.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        match &self.then {
            Then::List(listing) => {
                let is_low = self.out_at >= self.out.len() / 2;
                is_low && listing.following.is_empty() && self.job.is_some()
            }
            Then::Application(stream) => stream.has_room(self.out.len() - self.out_at),
            Then::Finish | Then::Parts(_) => false,
        }
    }

    /// Adds a piece of a stream to what is sent. It is kept while another is being sent.
    pub(crate) fn put_piece(&mut self, bytes: &[u8], has_more: bool) {
        let is_first = self.draft.body_bytes == 0;
        let is_sent = self.is_sent();
        if is_sent {
            self.out.clear();
            self.out_at = 0;
        }
        let Then::List(listing) = &mut self.then else {
            unreachable!("only a listing asks for one")
        };
        let is_kept = !is_first && !is_sent;
        let out = if is_kept { &mut listing.following } else { &mut self.out };
        match listing.chunked {
            true => put_chunk(out, bytes),
            false => out.extend_from_slice(bytes),
        }
        if listing.chunked && !has_more {
            put_last_chunk(out);
        }
        listing.is_complete = !has_more;
        match is_kept {
            true => listing.following_bytes = bytes.len() as u64,
            false => self.draft.body_bytes += bytes.len() as u64,
        }
        if !has_more && !is_kept {
            self.then = Then::Finish;
        }
    }

    /// Goes on to the piece that follows. Returns whether there is one.
    pub(crate) fn next_piece(&mut self) -> bool {
        let Then::List(listing) = &mut self.then else { return false };
        if listing.following.is_empty() {
            return false;
        }
        std::mem::swap(&mut self.out, &mut listing.following);
        listing.following.clear();
        self.draft.body_bytes += listing.following_bytes;
        self.out_at = 0;
        if listing.is_complete {
            self.then = Then::Finish;
        }
        true
    }

    /// Takes in bytes of the body's file, to be sent next.
    pub(crate) fn read(&mut self, bytes: &[u8]) {
        let BodySource::Variant { at, end, .. } = &mut self.body else { return };
        debug_assert!(self.out_at == self.out.len(), "what is read is sent before more is read");
        *at += bytes.len() as u64;
        debug_assert!(at <= end, "more was read than there is");
        self.draft.body_bytes += bytes.len() as u64;
        self.out.clear();
        self.out_at = 0;
        self.out.reserve_exact(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Makes bytes `at..end` of a variant the body, unless the request was HEAD.
    #[inline]
    pub(crate) fn send_range(&mut self, entry: &Hit<Entry>, variant: usize, at: u64, end: u64) {
        if !self.draft.is_head && at < end {
            self.body = BodySource::Variant { entry: Hit::clone(entry), variant, at, end };
        }
    }

    /// Whether a worker of another site can send what is left, of which no job is out. The rest of
    /// a listing has all that it needs.
    pub(crate) fn is_movable(&self) -> bool {
        match &self.then {
            Then::Finish | Then::Parts(_) | Then::List(_) => true,
            Then::Application(stream) => stream.is_settled(),
        }
    }

    pub(crate) fn stream(&self) -> Option<&Stream> {
        match &self.then {
            Then::Application(stream) => Some(stream),
            _ => None,
        }
    }

    pub(crate) fn stream_mut(&mut self) -> Option<&mut Stream> {
        match &mut self.then {
            Then::Application(stream) => Some(stream),
            _ => None,
        }
    }

    /// Notes that the client has gone: unless a reply had begun, that is what is logged.
    pub(crate) fn note_client_left(&mut self) {
        if self.draft.status == 0 {
            self.draft.status = CLIENT_LEFT;
        }
    }

    /// Goes on to what was gathered while the last bytes were sent. Returns whether there is
    /// anything.
    pub(crate) fn next_gathered(&mut self) -> bool {
        let Then::Application(stream) = &mut self.then else { return false };
        self.out.clear();
        self.out_at = 0;
        if !stream.gathered.is_empty() {
            std::mem::swap(&mut self.out, &mut stream.gathered);
        }
        self.draft.body_bytes += std::mem::take(&mut stream.gathered_bytes);
        !self.out.is_empty()
    }
}

/// The head that the client has sent, if a script has redirected its request: it follows the head
/// that was parsed from these bytes.
#[inline]
pub(crate) fn sent_head<'b>(
    bytes: &'b [u8],
    head: &Head<'_>,
    limits: &HeadLimits,
) -> Option<Head<'b>> {
    let sent = bytes.get(head.len..).filter(|sent| !sent.is_empty())?;
    match parse_head(sent, 0, limits) {
        Ok(Parsed::Complete(head)) => Some(head),
        _ => None,
    }
}

/// Writes a chunk, unless there is nothing in it (RFC 9112 §7.1).
pub(crate) fn put_chunk(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        http1::put_chunk_size(out, bytes.len());
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes the end of a body in chunks.
pub(crate) fn put_last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

/// Returns a variant of an entry that is known to be a file.
pub(crate) fn variant_of(entry: &Entry, index: usize) -> &Variant {
    match &entry.resource {
        site::resource::Resource::File(file) => file.variant(index),
        _ => unreachable!("only files have variants"),
    }
}
