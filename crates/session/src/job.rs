//! Jobs: work that may block, handed out by a connection and run wherever the engine likes.
//!
//! A job owns all it needs. What it does with the file system is the runner's; this file only says
//! what is asked and what may be answered.

use std::io;
use std::sync::{Arc, Mutex};

use file_cache::Slot;
use site::hashing::{Hashed, Hashing};
use site::listing::Renderer;
use site::resource::{Entry, FileRef, Identity};

use crate::listings::ListingPermit;

/// Which job of a connection an answer belongs to: a number that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId(pub u32);

/// Work that may block.
#[derive(Debug)]
pub enum Job {
    /// Find out what a path stands for, or that what is known still holds.
    Resolve {
        /// The index of the virtual host.
        host: usize,
        /// The canonical path.
        path: Box<[u8]>,
        /// What the cache had.
        known: Known,
    },
    /// Go on with finding out what a path stands for: a file of it is being hashed.
    Hash(Box<HashJob>),
    /// Begin to list a directory.
    List {
        /// The index of the virtual host.
        host: usize,
        /// The canonical path, with its final slash.
        path: Box<[u8]>,
        /// In which format.
        format: ListFormat,
        /// Its place among the listings under way, kept for as long as the directory is open.
        permit: ListingPermit,
    },
    /// Go on with a listing.
    ListMore(Box<ListCursor>),
}

/// The hash of a file on its way, for all who want it: each may do the next piece.
pub type SharedHashing = Arc<Mutex<Hashing>>;

/// A path on its way to an entry, for which files are hashed.
#[derive(Debug)]
pub struct HashJob {
    /// The index of the virtual host.
    pub host: usize,
    /// The canonical path.
    pub path: Box<[u8]>,
    /// The file at hand.
    pub file: FileRef,
    /// How far its hash is.
    pub hashing: SharedHashing,
    /// The files before it.
    pub hashed: Vec<(Identity, Hashed)>,
}

/// What was in the cache about a path that is to be resolved.
#[derive(Debug)]
pub enum Known {
    /// Nothing.
    Nothing,
    /// An entry that is due to be looked at again.
    Entry(Arc<Slot<Entry>>),
    /// What another process has found, encoded; its files are not open here.
    Encoded(Box<[u8]>),
}

/// The answer to a job.
#[derive(Debug)]
pub enum Done {
    /// The previous entry still holds.
    Current(Arc<Slot<Entry>>),
    /// The path that was asked about, and what it stands for. The error is one that passes: 503.
    Resolved(io::Result<(Box<[u8]>, Entry)>),
    /// A part of the job is done; this is the rest.
    Unfinished(Job),
    /// The next bytes of a listing, and how to go on unless that was all.
    Listed(io::Result<(Vec<u8>, Option<Box<ListCursor>>)>),
}

/// The formats of a listing.
pub use site::listing::Format as ListFormat;

/// A listing under way: the names are read and sorted, what remains is to look at each.
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
    /// The first entry that was not rendered yet.
    pub next: usize,
    /// Its place among the listings under way.
    pub permit: ListingPermit,
}

/// One name of a listing, as bytes `start..start + len` of all names.
#[derive(Clone, Copy, Debug)]
pub struct ListName {
    /// Where the name begins.
    pub start: u32,
    /// How long it is.
    pub len: u16,
    /// Whether it is known to be a directory.
    pub is_directory: bool,
}
