//! Resolution: from a canonical path to an [`Entry`], by looking at files through [`Files`].
//!
//! The order of a lookup is the whole policy of the site and is in [`resolve`]. This module does no
//! input or output of its own, so every rule can be tested on a made-up file system.

use std::io;

use crate::entity_tag::{ContentHash, EntityTag};
use crate::hashing::{Hashed, Hashing};
use crate::host::{Dotfiles, Host, Symlinks};
use crate::negotiate::Coding;
use crate::path;
use crate::refusal::Refusal;
use crate::resource::{
    Body, Entry, FileRef, FileResource, FileStamp, Identity, Redirect, Representation, Resource,
    Variant,
};

/// The file system of one host, for resolution. Paths are relative to the host's root, without a
/// leading slash; the empty path is the root.
pub trait Files {
    /// Opens `path` without following links against `symlinks`, and returns what kind of file it
    /// is.
    ///
    /// # Errors
    /// See [`Unopened`].
    fn open(&self, path: &[u8], symlinks: Symlinks) -> Result<Opened, Unopened>;

    /// The identity of the file at `path` now, for comparison with a [`FileStamp`], without
    /// following links against `symlinks`. The file need not be readable.
    ///
    /// # Errors
    /// Any error of the operating system; each means that there is no file.
    fn identity(&self, path: &[u8], symlinks: Symlinks) -> io::Result<Identity>;

    /// The identity of the directory at `path`, in which several files are looked up, as it was a
    /// moment ago, without following links against `symlinks`. The implementation decides how long
    /// a moment is.
    ///
    /// # Errors
    /// The errors of [`Self::identity`].
    fn directory(&self, path: &[u8], symlinks: Symlinks) -> io::Result<Identity> {
        self.identity(path, symlinks)
    }

    /// The identity of the file at `path` now, for comparison with a [`FileStamp`], where the path
    /// to its directory is known to be allowed.
    ///
    /// # Errors
    /// The errors of [`Self::identity`].
    fn in_directory(&self, path: &[u8], symlinks: Symlinks) -> io::Result<Identity> {
        self.identity(path, symlinks)
    }

    /// Reads exactly `len` bytes from the start of an open file.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has become shorter.
    fn read(&self, file: &FileRef, len: usize) -> io::Result<Vec<u8>>;

    /// Reads into `buffer` from `offset` on, as many bytes as are available at once; 0 is the end.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn read_at(&self, file: &FileRef, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The identity of an open file now.
    ///
    /// # Errors
    /// Any error of the operating system.
    fn identity_of(&self, file: &FileRef) -> io::Result<Identity>;

    /// Notifies the implementation of a file that exists and is not served, and why. It must not
    /// block.
    fn report_refusal(&self, _path: &[u8], _why: Refusal) {}

    /// The result of hashing a file in this state, if that was done before.
    fn hashed(&self, identity: &Identity) -> Option<Hashed>;

    /// Notifies the implementation of a precompressed sibling that is not served, because it is
    /// older than its file.
    fn report_left_out(&self, _sibling: &[u8]) {}
}

/// An opened file or directory.
#[derive(Debug)]
pub struct Opened {
    /// The open file.
    pub file: FileRef,
    /// What kind of file it is.
    pub kind: Kind,
    /// Which file it is.
    pub identity: Identity,
}

/// The kinds of files that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file: the only kind that is served.
    Regular,
    /// A directory.
    Directory,
    /// A pipe, socket or device: never served, never waited for.
    Other,
}

/// Why a path was not opened.
#[derive(Debug)]
pub enum Unopened {
    /// The name does not exist in its directory, whose stamp covers that.
    Absent,
    /// The path can lead to no file: it leads through a file, or has a name that is too long.
    Nowhere,
    /// A directory that may not be read, whether it may be searched or not: it cannot be listed.
    ClosedDirectory,
    /// A file exists that is not served.
    Refused(Refusal),
    /// The system failed; the failure may be temporary.
    Failed(io::Error),
}

impl From<io::Error> for Unopened {
    /// Classifies an error of the system by its kind, as far as possible.
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as K;
        match error.kind() {
            K::NotFound => Self::Absent,
            K::NotADirectory | K::InvalidFilename => Self::Nowhere,
            K::PermissionDenied => Self::Refused(Refusal::Permission),
            K::CrossesDevices => Self::Refused(Refusal::OutsideRoot),
            _ => Self::Failed(error),
        }
    }
}

/// Why there is no entry.
#[derive(Debug)]
pub enum Unresolved {
    /// A temporary failure (too many open files, out of memory, an I/O error): the caller answers
    /// 503 and caches nothing.
    Failed(io::Error),
    /// A file has to be hashed first, which takes a while; after that [`Files::hashed`] must return
    /// the result.
    Unhashed(Hashing),
}

impl From<io::Error> for Unresolved {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Resolves a canonical path. `now_ns` is wall-clock time read before the call; bodies of at most
/// `small_body_bytes_max` bytes are read into memory.
///
/// # Errors
/// See [`Unresolved`].
pub fn resolve(
    host: &Host,
    canonical: &[u8],
    files: &dyn Files,
    now_ns: i128,
    small_body_bytes_max: u64,
) -> Result<Entry, Unresolved> {
    let mut lookup = Lookup {
        host,
        files,
        small_body_bytes_max,
        now_ns,
        stamps: Vec::new(),
        has_reported: false,
    };
    let resource = lookup.resource(canonical)?;
    Ok(Entry { resource, stamps: lookup.stamps.into(), resolved_ns: now_ns })
}

/// Whether everything that an entry was made from is unchanged, and may still be reached under the
/// policy for links.
#[must_use]
pub fn is_current(entry: &Entry, symlinks: Symlinks, files: &dyn Files) -> bool {
    // The path to a file is checked with its directory, once for all files in it: following a
    // policy takes three system calls, a stat of a name takes one.
    let same = |w: &FileStamp| {
        let others = || entry.stamps.iter().filter(|other| other.path != w.path);
        let found = if others().any(|other| is_in(other, w)) {
            files.directory(&w.path, symlinks)
        } else if others().any(|other| is_in(w, other)) {
            files.in_directory(&w.path, symlinks)
        } else {
            files.identity(&w.path, symlinks)
        };
        found.ok() == w.identity
    };
    entry.is_settled() && entry.stamps.iter().all(same)
}

/// Whether the file of a stamp is in a directory that exists.
fn is_in(stamp: &FileStamp, directory: &FileStamp) -> bool {
    directory.identity.is_some() && *parent(&stamp.path) == *directory.path
}

type Looked<T> = Result<T, Unresolved>;

/// One lookup under way.
struct Lookup<'a> {
    host: &'a Host,
    files: &'a dyn Files,
    small_body_bytes_max: u64,
    now_ns: i128,
    stamps: Vec<FileStamp>,
    /// Whether a refusal has been reported: one reason is enough for a path.
    has_reported: bool,
}

/// The result of one attempt to open a path.
enum Found {
    File(Opened),
    Directory,
    ClosedDirectory,
    Missing,
    Forbidden,
}

impl Lookup<'_> {
    /// Applies the rules in their order: redirects, hidden names, paths with a final slash, files,
    /// directories without a slash, files by suffix.
    fn resource(&mut self, canonical: &[u8]) -> Looked<Resource> {
        if let Some((to, status)) = self.host.redirect(canonical) {
            let location = to.as_bytes().into();
            return Ok(Resource::Redirect(Redirect { status, location }));
        }
        if self.host.settings.dotfiles == Dotfiles::Deny && path::is_hidden(canonical) {
            return Ok(Resource::Missing);
        }
        let relative = &canonical[1..];
        let resource = match relative.strip_suffix(b"/") {
            Some(directory) => self.directory(directory)?,
            None if relative.is_empty() => self.directory(relative)?,
            None => self.file(relative)?,
        };
        if matches!(resource, Resource::Missing | Resource::Forbidden) {
            self.stamp_ancestor(relative);
            // A dangling link may start to work without a change of any directory stamped here.
            self.stamp_failure(relative.strip_suffix(b"/").unwrap_or(relative));
        }
        Ok(resource)
    }

    /// Resolves a path with a final slash: its index file, or the directory itself if it may be
    /// listed. It has to be readable only for a listing.
    fn directory(&mut self, directory: &[u8]) -> Looked<Resource> {
        let is_closed = match self.open(directory)? {
            Found::Directory => false,
            Found::ClosedDirectory => true,
            Found::Forbidden => return Ok(Resource::Forbidden),
            Found::File(_) | Found::Missing => return Ok(Resource::Missing),
        };
        let routes = &self.host.routes;
        for name in self.host.settings.index.iter().filter(|name| !routes.is_for_scripts(name)) {
            let mut index = directory.to_vec();
            if !index.is_empty() {
                index.push(b'/');
            }
            index.extend_from_slice(name.as_bytes());
            if let Some(resource) = self.variants(&index)? {
                return Ok(resource);
            }
        }
        if is_closed {
            self.refuse(directory, Refusal::Permission);
            return Ok(Resource::Forbidden);
        }
        Ok(if self.host.settings.listing { Resource::Directory } else { Resource::Missing })
    }

    /// Resolves a path without a final slash.
    fn file(&mut self, relative: &[u8]) -> Looked<Resource> {
        let found = self.open(relative)?;
        if let Found::Forbidden = found {
            return Ok(Resource::Forbidden);
        }
        if let Found::File(opened) = found {
            return self.with_siblings(relative, Some(opened));
        }
        if let Some(resource) = self.variants_if(matches!(found, Found::Missing), relative)? {
            return Ok(resource);
        }
        let suffixed = [relative, b".html"].concat();
        if let Some(resource) = self.variants_if(self.host.settings.html_suffix, &suffixed)? {
            return Ok(resource);
        }
        Ok(match found {
            Found::Directory => slash_redirect(relative),
            Found::ClosedDirectory => match self.directory(relative)? {
                Resource::Forbidden => Resource::Forbidden,
                _ => slash_redirect(relative),
            },
            _ => Resource::Missing,
        })
    }

    fn variants_if(&mut self, wanted: bool, relative: &[u8]) -> Looked<Option<Resource>> {
        if wanted { self.variants(relative) } else { Ok(None) }
    }

    /// Resolves the file at `relative` in all codings; none if it exists in no coding.
    fn variants(&mut self, relative: &[u8]) -> Looked<Option<Resource>> {
        match self.open(relative)? {
            Found::File(opened) => self.with_siblings(relative, Some(opened)).map(Some),
            Found::Forbidden => Ok(Some(Resource::Forbidden)),
            Found::Directory | Found::ClosedDirectory => Ok(None),
            Found::Missing => match self.with_siblings(relative, None)? {
                Resource::Missing => Ok(None),
                resource => Ok(Some(resource)),
            },
        }
    }

    /// Joins the file itself, if it exists, with its precompressed siblings.
    fn with_siblings(&mut self, relative: &[u8], identity: Option<Opened>) -> Looked<Resource> {
        let mut found: Vec<(Coding, Opened)> = Vec::new();
        found.extend(identity.map(|opened| (Coding::Identity, opened)));
        for &coding in &self.host.settings.precompressed {
            let sibling = [relative, coding.suffix().as_bytes()].concat();
            let Found::File(opened) = self.open(&sibling)? else { continue };
            match found.first() {
                Some((Coding::Identity, file)) if self.is_outdated(&opened, file) => {
                    self.files.report_left_out(&sibling);
                }
                _ => found.push((coding, opened)),
            }
        }
        self.stamp_parent(relative);
        let varies = found.len() > 1 || found.iter().any(|(c, _)| *c != Coding::Identity);
        let variants: Looked<Vec<Variant>> =
            found.into_iter().map(|(c, o)| self.variant(relative, c, o, varies)).collect();
        let variants = variants?;
        if variants.is_empty() {
            return Ok(Resource::Missing);
        }
        Ok(Resource::File(FileResource::new(variants)))
    }

    /// Whether a sibling was made from an earlier version of its file.
    fn is_outdated(&self, sibling: &Opened, file: &Opened) -> bool {
        const NS_PER_S: i128 = 1_000_000_000;
        let lag_ns = file.identity.modified_ns - sibling.identity.modified_ns;
        let most = self.host.settings.precompressed_lag_s_max;
        most.is_some_and(|seconds| lag_ns > i128::from(seconds) * NS_PER_S)
    }

    /// Makes a variant of an open file; its length, validators and bytes are of the same state.
    fn variant(
        &self,
        relative: &[u8],
        coding: Coding,
        opened: Opened,
        varies: bool,
    ) -> Looked<Variant> {
        let Opened { file, identity, .. } = opened;
        let len = identity.len;
        let small = len <= self.small_body_bytes_max;
        let content = if small { self.read_unchanged(&file, &identity)? } else { None };
        let etag = match &content {
            Some(content) => EntityTag::from_content(ContentHash::compute(content), coding),
            None => self.tag_of_open_file(&file, &identity, coding)?,
        };
        let body =
            content.map_or_else(|| Body::File(FileRef::clone(&file)), |c| Body::Memory(c.into()));
        let seconds = i64::try_from(identity.modified_ns.div_euclid(1_000_000_000)).unwrap_or(0);
        // Reproducible builds set all times to 0 or 1, which carry no information.
        let is_dated = seconds > 1;
        let canonical = [b"/", relative].concat();
        Ok(Variant::new(Representation {
            host: self.host,
            path: &canonical,
            coding,
            len,
            etag,
            modified: is_dated.then_some(seconds),
            // One of several codings may have the date of another.
            has_strong_date: !varies && identity.has_strong_date(self.now_ns),
            is_in_future: identity.modified_ns > self.now_ns,
            varies,
            body,
            source: self.source(&[relative, coding.suffix().as_bytes()].concat()),
        }))
    }

    /// The index of the stamp of a file that was opened. An entry has far fewer than 65,535 stamps.
    fn source(&self, path: &[u8]) -> u16 {
        let position = self.stamps.iter().position(|w| *w.path == *path);
        position.and_then(|index| u16::try_from(index).ok()).unwrap_or(u16::MAX)
    }

    /// The tag of a file that is not in memory.
    fn tag_of_open_file(
        &self,
        file: &FileRef,
        identity: &Identity,
        coding: Coding,
    ) -> Looked<EntityTag> {
        if identity.was_written_here() && identity.is_settled(self.now_ns) {
            return Ok(EntityTag::from_change(identity, coding));
        }
        let hashed = match self.files.hashed(identity) {
            _ if identity.len > self.host.settings.etag_hash_bytes_max => Hashed::Changed,
            Some(hashed) => hashed,
            None => {
                let hashing = Hashing::new(FileRef::clone(file), *identity);
                return Err(Unresolved::Unhashed(hashing));
            }
        };
        Ok(match hashed {
            Hashed::Hash(hash) => EntityTag::from_content(hash, coding),
            Hashed::Changed => EntityTag::weak_from_change(identity, coding),
        })
    }

    /// Reads a whole file; none if it was written to meanwhile (a log that grows): then it is sent
    /// from the open file, and either its length is as announced or the connection ends.
    fn read_unchanged(&self, file: &FileRef, identity: &Identity) -> io::Result<Option<Vec<u8>>> {
        let len = usize::try_from(identity.len).map_err(io::Error::other)?;
        let content = match self.files.read(file, len) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            content => content?,
        };
        Ok((self.files.identity_of(file)? == *identity).then_some(content))
    }

    fn open(&mut self, relative: &[u8]) -> io::Result<Found> {
        match self.files.open(relative, self.host.settings.symlinks) {
            Ok(opened) => {
                self.stamp(relative, Some(opened.identity));
                Ok(match opened.kind {
                    Kind::Regular => Found::File(opened),
                    Kind::Directory => Found::Directory,
                    Kind::Other => {
                        self.refuse(relative, Refusal::NotRegular);
                        Found::Missing
                    }
                })
            }
            Err(Unopened::Absent) => Ok(Found::Missing),
            Err(why) => {
                // The stamp of the directory covers names that do not exist. A file that was
                // refused may be allowed without a change of any directory, so it needs a stamp of
                // its own.
                self.stamp_failure(relative);
                self.not_opened(relative, why)
            }
        }
    }

    /// Turns missing and forbidden into answers, and passes on failures, which may be temporary. A
    /// path that leads out of the root or in a cycle is missing for clients.
    fn not_opened(&mut self, relative: &[u8], why: Unopened) -> io::Result<Found> {
        match why {
            Unopened::Absent | Unopened::Nowhere => Ok(Found::Missing),
            Unopened::ClosedDirectory => Ok(Found::ClosedDirectory),
            Unopened::Refused(why) => {
                self.refuse(relative, why);
                let is_forbidden = why == Refusal::Permission;
                Ok(if is_forbidden { Found::Forbidden } else { Found::Missing })
            }
            Unopened::Failed(error) => Err(error),
        }
    }

    fn refuse(&mut self, relative: &[u8], why: Refusal) {
        if !std::mem::replace(&mut self.has_reported, true) {
            self.files.report_refusal(relative, why);
        }
    }

    /// Stamps the directory of a file, which covers all names in it that do not exist.
    fn stamp_parent(&mut self, relative: &[u8]) {
        let parent = parent(relative);
        if let Ok(identity) = self.identity(parent) {
            self.stamp(parent, Some(identity));
        }
    }

    /// Stamps the nearest directory that exists, which covers everything below it that does not.
    /// The walk begins at the root, so that a path of a thousand missing directories costs one
    /// system call.
    fn stamp_ancestor(&mut self, relative: &[u8]) {
        let mut nearest = (&[][..], self.identity(&[]).ok());
        for end in memchr::memchr_iter(b'/', relative) {
            match self.identity(&relative[..end]) {
                Ok(identity) => nearest = (&relative[..end], Some(identity)),
                Err(_) => break,
            }
        }
        self.stamp(nearest.0, nearest.1);
    }

    /// Stamps a path that could not be opened, with its identity if that can be read.
    fn stamp_failure(&mut self, relative: &[u8]) {
        let identity = self.identity(relative).ok();
        self.stamp(relative, identity);
    }

    fn identity(&self, relative: &[u8]) -> io::Result<Identity> {
        self.files.identity(relative, self.host.settings.symlinks)
    }

    fn stamp(&mut self, path: &[u8], identity: Option<Identity>) {
        if !self.stamps.iter().any(|w| *w.path == *path) {
            self.stamps.push(FileStamp { path: path.into(), identity });
        }
    }
}

fn parent(relative: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', relative).map_or(&[], |at| &relative[..at])
}

/// A redirect for a directory that was requested without its slash: relative references in its page
/// would go wrong.
fn slash_redirect(relative: &[u8]) -> Resource {
    let mut location = Vec::new();
    path::encode_for_location(&[b"/", relative, b"/"].concat(), &mut location);
    Resource::Redirect(Redirect { status: 301, location: location.into() })
}

#[cfg(test)]
mod tests;
