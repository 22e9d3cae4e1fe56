//! A level of the cache that processes share: an entry that one worker process has made is there
//! for all.
//!
//! Entries are stored there as bytes (`Entry::encode`), and each process decodes the entries it
//! uses into levels of its own, so that a hit in those costs the same as without this level. Where
//! the bytes are stored is up to the engine.

use site::resource::Entry;

/// The shared level, for one worker. No method may block for longer than it takes to copy an entry.
pub trait SharedLevel: Send {
    /// Copies the entry for `key`, as it was encoded, to `bytes`, replacing their content. Each
    /// process opens the files of the entry itself.
    fn find(&mut self, hash: u64, key: &[u8], bytes: &mut Vec<u8>) -> Option<Stamp>;

    /// The stamp of the entry with this hash.
    fn stamp(&mut self, hash: u64) -> Option<Stamp>;

    /// Notes that the entry with this hash was found to be current, if it still has that version.
    fn validate(&mut self, hash: u64, stamp: Stamp);

    /// Stores an entry, replacing an older one under its key.
    fn insert(&mut self, hash: u64, key: &[u8], bytes: &[u8], stamp: Stamp);
}

/// The version of an entry, and when it was last found to be current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Distinguishes an entry from earlier and later ones of its path.
    pub version: u64,
    /// When the entry was last validated, in microseconds of the clock that all processes share.
    pub validated: u64,
}

impl Stamp {
    pub(crate) fn new(entry: &Entry, validated: u64) -> Self {
        // No path is resolved twice in a nanosecond, and the result would be equal.
        Self { version: entry.resolved_ns as u64, validated }
    }
}
