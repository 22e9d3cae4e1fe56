//! Resources: what a canonical path stands for, made ready to be sent.
//!
//! An [`Entry`] is immutable. It is what the cache holds: response heads are rendered once, small
//! bodies are in memory, larger ones are an open file. Length, validators and bytes come from the
//! same open file, so they always agree. [`FileStamp`]s record which changes in the file system
//! would make the entry out of date.

mod encoding;
mod residency;

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::conditional::Validators;
use crate::entity_tag::EntityTag;
use crate::fields::{Content, FieldList};
use crate::host::Host;
use crate::negotiate::{Coding, CodingSet};

pub use encoding::Undecodable;
pub use residency::{BLOCK_BYTES, Residency};

/// An open file, shared by the cache and the connections that send it.
pub type FileRef = Arc<OpenFile>;

/// An open file, and which parts of it were seen in memory a moment ago.
pub struct OpenFile {
    file: File,
    residency: Residency,
}

/// The bytes before the date in every head of an entry: the date is written over a placeholder.
const STATUS_OK: &[u8] = b"HTTP/1.1 200 OK\r\nDate: ";
const STATUS_NOT_MODIFIED: &[u8] = b"HTTP/1.1 304 Not Modified\r\nDate: ";
/// Bytes of an IMF-fixdate (RFC 9110 §5.6.7).
pub const DATE_LEN: usize = 29;

/// What a path stands for, and how to notice that this has changed.
#[derive(Debug)]
pub struct Entry {
    /// The resource that is sent.
    pub resource: Resource,
    /// The state of the file system this entry was made from.
    pub stamps: Box<[FileStamp]>,
    /// When it was made, in nanoseconds of wall-clock time, before any file was checked.
    pub resolved_ns: i128,
}

/// What a path stands for.
#[derive(Debug)]
pub enum Resource {
    /// A file in one or more codings.
    File(FileResource),
    /// A redirect to another location.
    Redirect(Redirect),
    /// A directory that may be listed.
    Directory,
    /// No file, or none that may be shown: 404.
    Missing,
    /// A file that the server may not read: 403.
    Forbidden,
}

/// A redirect.
#[derive(Debug)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// A `Location` that is safe to send; the request's query is appended if it has none.
    pub location: Box<[u8]>,
}

/// A file in every coding in which it exists.
#[derive(Debug)]
pub struct FileResource {
    variants: Box<[Variant]>,
    available: CodingSet,
}

/// One representation of a file (RFC 9110 §8).
#[derive(Debug)]
pub struct Variant {
    /// Its content coding.
    pub coding: Coding,
    /// Its length in bytes.
    pub len: u64,
    /// Its entity tag.
    pub etag: EntityTag,
    /// Its modification time in seconds since 1970; none where it carries no information. It may be
    /// in the future: see [`Variant::validators`].
    pub modified: Option<i64>,
    /// Whether that time vouches for its bytes.
    has_strong_date: bool,
    /// Where its bytes are.
    pub body: Body,
    /// The media type, for the parts of a multipart response.
    pub content_type: Box<str>,
    /// A whole 200 head with a placeholder for the date.
    head_ok: Box<[u8]>,
    /// A whole 304 head with a placeholder for the date.
    head_not_modified: Box<[u8]>,
    /// Where the representation fields of `head_ok` end and `Content-Length` begins.
    fields_end: u32,
    /// Where in `head_ok` the modification time is, if it was in the future when the head was made:
    /// until then it must not be sent, and the date takes its place (RFC 9110 §8.8.2.1). 0: there
    /// is no such place.
    modified_at: u32,
    /// The index of its file among the entry's file stamps.
    source: u16,
}

/// Where the bytes of a representation are.
#[derive(Debug)]
pub enum Body {
    /// In memory.
    Memory(Box<[u8]>),
    /// In an open file.
    File(FileRef),
}

/// A path that was looked up, and the state that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// The path below the root, without a leading slash; empty for the root itself.
    pub path: Box<[u8]>,
    /// The state of the file, with links followed under the policy; none if it could not be read.
    pub identity: Option<Identity>,
}

/// The state of a file, as far as its metadata can distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// The length in bytes.
    pub len: u64,
    /// The modification time in nanoseconds since 1970.
    pub modified_ns: i128,
    /// The status change time in nanoseconds since 1970; no system call can set it back.
    pub changed_ns: i128,
}

impl Identity {
    /// Whether a change after `now_ns` would show: a change within the resolution of file system
    /// timestamps after the last one does not. Two seconds is the coarsest resolution in use (FAT).
    #[must_use]
    pub fn is_settled(&self, now_ns: i128) -> bool {
        const TIMESTAMP_RESOLUTION_NS: i128 = 2_000_000_000;
        self.changed_ns + TIMESTAMP_RESOLUTION_NS < now_ns
    }

    /// A hash of 128 bits that identifies this state.
    #[must_use]
    pub fn fingerprint(&self) -> [u64; 2] {
        let mut bytes = [0; 3 * 8 + 2 * 16];
        let numbers = [self.device, self.inode, self.len].map(u64::to_le_bytes);
        let times = [self.modified_ns, self.changed_ns].map(i128::to_le_bytes);
        let parts = numbers.as_flattened().iter().chain(times.as_flattened());
        bytes.iter_mut().zip(parts).for_each(|(byte, part)| *byte = *part);
        let hash = xxhash_rust::xxh3::xxh3_128(&bytes);
        [hash as u64, (hash >> 64) as u64]
    }

    /// Whether the file was written where it is, and its modification time is that of the write. A
    /// time that was set is seldom near the moment when it was set, which is the status change, and
    /// often in whole seconds; nor can a file system that stores only seconds tell two writes
    /// apart. A rename or a change of mode soon after the write, as in careful replacements, does
    /// not change the result.
    #[must_use]
    pub fn was_written_here(&self) -> bool {
        const NS_PER_S: i128 = 1_000_000_000;
        const SOON_NS: i128 = 60 * NS_PER_S;
        let has_fraction = |ns: i128| ns.rem_euclid(NS_PER_S) != 0;
        has_fraction(self.modified_ns)
            && has_fraction(self.changed_ns)
            && (0..=SOON_NS).contains(&(self.changed_ns - self.modified_ns))
    }

    /// Whether the second of the modification time vouches for the file's bytes at `now_ns` (RFC
    /// 9110 §8.8.2.2): the file was written here, and nothing has happened to it after that second.
    /// A client may compare by a date only if it was given the bytes in a later second; they are
    /// the same then, since other bytes come with a later status change. (Unless a directory that
    /// was written in the same second takes the place of another.) That the file was written here
    /// is not enough: a copy that keeps its time counts as that for a minute, and only a tag names
    /// the moment of the copy.
    #[must_use]
    pub fn has_strong_date(&self, now_ns: i128) -> bool {
        let second = |ns: i128| ns.div_euclid(1_000_000_000);
        self.was_written_here()
            && second(self.modified_ns) == second(self.changed_ns)
            && self.is_settled(now_ns)
    }
}

impl Entry {
    /// Whether the file stamps can vouch for the entry at all.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let settled =
            |w: &FileStamp| w.identity.is_none_or(|identity| identity.is_settled(self.resolved_ns));
        self.stamps.iter().all(settled)
    }

    /// Whether the entry stands for the file of this canonical path, and not for another in its
    /// place.
    #[must_use]
    pub fn is_file(&self, path: &[u8]) -> bool {
        let Resource::File(file) = &self.resource else { return false };
        let is_it = |variant: &Variant| {
            let stamp = self.stamps.get(usize::from(variant.source));
            variant.coding == Coding::Identity && stamp.is_some_and(|it| *it.path == path[1..])
        };
        file.variants.iter().any(is_it)
    }

    /// The open files of bodies, in the order in which decoding requests them.
    pub fn files(&self) -> impl Iterator<Item = &FileRef> {
        let variants = match &self.resource {
            Resource::File(file) => &file.variants[..],
            _ => &[],
        };
        variants.iter().filter_map(|variant| match &variant.body {
            Body::File(file) => Some(file),
            Body::Memory(_) => None,
        })
    }

    /// Bytes of memory and open descriptors the entry holds.
    #[must_use]
    pub fn cost(&self) -> (usize, usize) {
        let stamps: usize = self.stamps.iter().map(|w| w.path.len() + size_of::<FileStamp>()).sum();
        let fixed = size_of::<Self>() + stamps;
        match &self.resource {
            Resource::File(file) => {
                let costs = file.variants.iter().map(Variant::cost);
                costs.fold((fixed, 0), |sum, cost| (sum.0 + cost.0, sum.1 + cost.1))
            }
            Resource::Redirect(redirect) => (fixed + redirect.location.len(), 0),
            Resource::Directory | Resource::Missing | Resource::Forbidden => (fixed, 0),
        }
    }
}

impl FileResource {
    /// A file with at least one variant.
    pub(crate) fn new(variants: Vec<Variant>) -> Self {
        assert!(!variants.is_empty(), "a file exists in at least one coding");
        let available =
            variants.iter().fold(CodingSet::EMPTY, |available, v| available.with(v.coding));
        Self { variants: variants.into(), available }
    }

    /// The codings in which the file exists.
    #[must_use]
    #[inline]
    pub fn available(&self) -> CodingSet {
        self.available
    }

    /// The index of the variant in `coding`.
    #[must_use]
    #[inline]
    pub fn position(&self, coding: Coding) -> Option<usize> {
        self.variants.iter().position(|v| v.coding == coding)
    }

    /// The variant at an index that [`FileResource::position`] returned.
    #[must_use]
    #[inline]
    pub fn variant(&self, index: usize) -> &Variant {
        &self.variants[index]
    }

    /// Whether what is sent depends on `Accept-Encoding`.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.available.is_negotiated()
    }
}

impl OpenFile {
    /// The parts of the file that were seen in memory a moment ago.
    #[must_use]
    pub fn residency(&self) -> &Residency {
        &self.residency
    }
}

impl From<File> for OpenFile {
    fn from(file: File) -> Self {
        Self { file, residency: Residency::default() }
    }
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

impl AsFd for OpenFile {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

/// The parts that [`Variant::new`] makes a variant from.
pub(crate) struct Representation<'a> {
    pub(crate) host: &'a Host,
    /// The canonical path of the file without its coding's suffix: rules and media type follow it.
    pub(crate) path: &'a [u8],
    pub(crate) coding: Coding,
    pub(crate) len: u64,
    pub(crate) etag: EntityTag,
    /// The modification time in seconds since 1970; none if it carries no information.
    pub(crate) modified: Option<i64>,
    /// Whether the modification time vouches for the bytes.
    pub(crate) has_strong_date: bool,
    /// Whether the modification time is in the future.
    pub(crate) is_in_future: bool,
    /// Whether the file exists in more than this coding, or only in this one that is not identity.
    pub(crate) varies: bool,
    pub(crate) body: Body,
    /// The index of its file among the entry's file stamps.
    pub(crate) source: u16,
}

impl Variant {
    pub(crate) fn new(of: Representation<'_>) -> Self {
        let media_type =
            crate::mime::content_type(crate::path::file_name(of.path), &of.host.mime_types);
        let date = |seconds| http1::format_date(seconds).to_vec();
        let mut fields = FieldList::default();
        fields.add("Content-Type", media_type.as_bytes());
        if of.coding != Coding::Identity {
            fields.add("Content-Encoding", of.coding.token().as_bytes());
        }
        add_cache_fields(&mut fields, &of);
        of.modified.iter().for_each(|seconds| fields.add("Last-Modified", date(*seconds)));
        fields.add("Accept-Ranges", &b"bytes"[..]);
        fields.add("X-Content-Type-Options", &b"nosniff"[..]);
        fields.apply(of.host.header_rules(of.path), 200, Content::File);
        let mut head = Vec::with_capacity(384);
        start_head(&mut head, STATUS_OK);
        let modified_at = fields.offset_of("Last-Modified").map(|offset| head.len() + offset);
        let modified_at = modified_at.filter(|_| of.is_in_future);
        fields.write(&mut head);
        let fields_end = head.len();
        head.extend_from_slice(format!("Content-Length: {}\r\n\r\n", of.len).as_bytes());
        let media_type = fields.value("Content-Type").unwrap_or_default();
        let content_type = String::from_utf8_lossy(media_type).as_ref().into();
        Self {
            coding: of.coding,
            len: of.len,
            etag: of.etag,
            modified: of.modified,
            has_strong_date: of.has_strong_date,
            content_type,
            head_ok: head.into(),
            head_not_modified: not_modified(&of),
            // A head is bounded far below 2^32 by the size of a configuration.
            fields_end: fields_end as u32,
            modified_at: modified_at.unwrap_or(0) as u32,
            source: of.source,
            body: of.body,
        }
    }

    /// The validators against which conditional requests are evaluated at `now`, in seconds since
    /// 1970. A time that is still in the future has not been sent to any client.
    #[must_use]
    pub fn validators(&self, now: i64) -> Validators<'_> {
        let modified = self.modified.filter(|seconds| *seconds <= now);
        let (etag, has_strong_date) = (Some(self.etag.as_bytes()), self.has_strong_date);
        Validators { etag, modified, has_strong_date }
    }

    /// Appends the 200 head. `connection` is the whole `Connection` line or empty.
    #[inline]
    pub fn write_ok(&self, out: &mut Vec<u8>, date: &[u8; DATE_LEN], connection: &[u8]) {
        let start = out.len();
        write_head(out, &self.head_ok, STATUS_OK.len(), date, connection);
        if self.modified_at != 0 && self.is_in_future(date) {
            put_date(&mut out[start..], self.modified_at as usize, date);
        }
    }

    /// Appends the 304 head (RFC 9110 §15.4.5).
    pub fn write_not_modified(&self, out: &mut Vec<u8>, date: &[u8; DATE_LEN], connection: &[u8]) {
        write_head(out, &self.head_not_modified, STATUS_NOT_MODIFIED.len(), date, connection);
    }

    /// The representation's field lines, for heads with another status and this date.
    #[must_use]
    pub fn fields(&self, date: &[u8; DATE_LEN]) -> Cow<'_, [u8]> {
        let start = STATUS_OK.len() + DATE_LEN + 2;
        let fields = &self.head_ok[start..self.fields_end as usize];
        match (self.modified_at as usize).checked_sub(start) {
            Some(at) if self.is_in_future(date) => {
                let mut fields = fields.to_vec();
                put_date(&mut fields, at, date);
                fields.into()
            }
            _ => fields.into(),
        }
    }

    /// Whether the modification time is later than this date.
    #[cold]
    fn is_in_future(&self, date: &[u8; DATE_LEN]) -> bool {
        http1::parse_date(date) < self.modified
    }

    fn cost(&self) -> (usize, usize) {
        let heads = self.head_ok.len() + self.head_not_modified.len() + self.content_type.len();
        match &self.body {
            Body::Memory(bytes) => (size_of::<Self>() + heads + bytes.len(), 0),
            Body::File(_) => (size_of::<Self>() + heads, 1),
        }
    }
}

/// Makes the 304 head: it has those fields of the 200 that caches use, and the fields of rules (RFC
/// 9110 §15.4.5).
fn not_modified(of: &Representation<'_>) -> Box<[u8]> {
    let mut fields = FieldList::default();
    add_cache_fields(&mut fields, of);
    fields.apply(of.host.header_rules(of.path), 304, Content::KnownFile);
    let mut head = Vec::with_capacity(256);
    start_head(&mut head, STATUS_NOT_MODIFIED);
    fields.write(&mut head);
    head.extend_from_slice(b"\r\n");
    head.into()
}

/// Starts a head whose date is a placeholder.
fn start_head(head: &mut Vec<u8>, status_line: &[u8]) {
    head.extend_from_slice(status_line);
    head.extend_from_slice(&[b'-'; DATE_LEN]);
    head.extend_from_slice(b"\r\n");
}

/// Adds the fields that a 304 repeats.
fn add_cache_fields<'a>(fields: &mut FieldList<'a>, of: &'a Representation<'_>) {
    fields.add("ETag", of.etag.as_bytes());
    fields.add("Cache-Control", of.host.cache_control(of.path).as_bytes());
    if of.varies {
        fields.add("Vary", &b"Accept-Encoding"[..]);
    }
}

/// Copies a rendered head, writes the date over its placeholder and inserts the `Connection` line.
#[inline]
fn write_head(
    out: &mut Vec<u8>,
    head: &[u8],
    date_at: usize,
    date: &[u8; DATE_LEN],
    connection: &[u8],
) {
    let start = out.len();
    out.extend_from_slice(head);
    put_date(&mut out[start..], date_at, date);
    if !connection.is_empty() {
        out.truncate(out.len() - 2);
        out.extend_from_slice(connection);
        out.extend_from_slice(b"\r\n");
    }
}

/// Writes a date over its placeholder.
#[inline]
fn put_date(head: &mut [u8], at: usize, date: &[u8; DATE_LEN]) {
    head[at..at + DATE_LEN].copy_from_slice(date);
}
