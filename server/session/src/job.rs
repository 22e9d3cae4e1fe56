//! Jobs: work that may block, handed out by a connection and run by the engine wherever it chooses.
//!
//! A job owns everything it needs. The runner knows what a job does with the file system; this file
//! only defines jobs and their answers.

use std::io;
use std::sync::{Arc, Mutex};

use file_cache::Slot;
use site::hashing::{Hashed, Hashing};
use site::listing::Renderer;
use site::resource::{Entry, FileRef, Identity};

use crate::listings::ListingPermit;
use upstream::Call;

/// Which job of a connection an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId {
    /// Increases from job to job of a connection.
    pub number: u32,
    /// The stream whose request the job is for. HTTP/1.1 has a single one, 0.
    pub stream: u32,
}

/// Work that may block.
#[derive(Debug)]
pub enum Job {
    /// Resolve a path, or check that what is known of it still holds.
    Resolve {
        /// The index of the virtual host.
        host: usize,
        /// The canonical path.
        path: Box<[u8]>,
        /// The content of the cache for the path.
        known: Known,
    },
    /// Continue to resolve a path: one of its files is being hashed.
    Hash(Box<HashJob>),
    /// Begin to list a directory.
    List {
        /// The index of the virtual host.
        host: usize,
        /// The canonical path, with its final slash.
        path: Box<[u8]>,
        /// In which format.
        format: ListFormat,
        /// Its place among the current listings, kept as long as the directory is open.
        permit: ListingPermit,
    },
    /// Continue a listing.
    ListMore(Box<ListCursor>),
    /// Have an application answer: not run, but driven beside its stream.
    Application(Box<Call>),
}

/// The unfinished hash of a file, shared by all jobs that need it: each may hash the next piece.
pub type SharedHashing = Arc<Mutex<Hashing>>;

/// A path that is being resolved, for which files are hashed.
#[derive(Debug)]
pub struct HashJob {
    /// The index of the virtual host.
    pub host: usize,
    /// The canonical path.
    pub path: Box<[u8]>,
    /// The file that is being hashed.
    pub file: FileRef,
    /// Its unfinished hash.
    pub hashing: SharedHashing,
    /// The files that have been hashed.
    pub hashed: Vec<(Identity, Hashed)>,
}

/// What the cache contains about a path that is to be resolved.
#[derive(Debug)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// An entry that is due for a check.
    Entry(Arc<Slot<Entry>>),
    /// An entry of another process, encoded; its files are not open here.
    Encoded(Box<[u8]>),
}

/// The answer to a job.
#[derive(Debug)]
pub enum Done {
    /// The previous entry still holds.
    Current(Arc<Slot<Entry>>),
    /// The resolved path, and what it stands for. An error is temporary: 503.
    Resolved(io::Result<(Box<[u8]>, Entry)>),
    /// A part of the job is done; this is the rest.
    Unfinished(Job),
    /// The next bytes of a listing, and how to continue unless that was all.
    Listed(io::Result<(Vec<u8>, Option<Box<ListCursor>>)>),
}

/// The formats of a listing.
pub use site::listing::Format as ListFormat;

/// A listing in progress: the names are read and sorted, but the status of each is still to be
/// read.
#[derive(Debug)]
pub struct ListCursor {
    /// The directory, open, so that a rename does not confuse the listing.
    pub directory: FileRef,
    /// The canonical path of the directory, for the heading.
    pub path: Box<[u8]>,
    /// Writes the items.
    pub renderer: Renderer,
    /// The bytes of all names: one allocation for 100,000 entries.
    pub names: Vec<u8>,
    /// All entries, sorted.
    pub entries: Vec<ListName>,
    /// The first entry that has not been rendered.
    pub next: usize,
    /// Its place among the current listings.
    pub permit: ListingPermit,
}

/// One name of a listing, as bytes `start..start + len` of all names.
#[derive(Clone, Copy, Debug)]
pub struct ListName {
    /// Where the name begins.
    pub start: u32,
    /// The length of the name.
    pub len: u16,
    /// Whether it is known to be a directory.
    pub is_directory: bool,
}
