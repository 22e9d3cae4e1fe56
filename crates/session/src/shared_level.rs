//! A level of the cache beyond this process: what one worker process has found out, all know.
//!
//! Entries are there as bytes (`Entry::encode`), and each process decodes what it uses into levels
//! of its own, so that a hit there costs what it costs without this one. Where those bytes are kept
//! is the engine's business.

use site::resource::Entry;

/// The level beyond, as one worker sees it. Nothing here may block for longer than it takes to copy
/// an entry.
pub trait SharedLevel: Send {
    /// Copies the entry for `key`, as it was encoded, to `bytes`, in place of what they held. Its
    /// files each process opens for itself.
    fn find(&mut self, hash: u64, key: &[u8], bytes: &mut Vec<u8>) -> Option<Stamp>;

    /// What is known about the entry with this hash.
    fn stamp(&mut self, hash: u64) -> Option<Stamp>;

    /// Notes that the entry with this hash was found to be true, if it is still that version.
    fn validate(&mut self, hash: u64, stamp: Stamp);

    /// Keeps an entry, in place of an older one under its key.
    fn insert(&mut self, hash: u64, key: &[u8], bytes: &[u8], stamp: Stamp);
}

/// Which entry it is, and when it was last found to be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Tells an entry from an earlier or later one of its path.
    pub version: u64,
    /// When the entry was last validated, in microseconds of the clock that all processes share.
    pub validated: u64,
}

impl Stamp {
    pub(crate) fn new(entry: &Entry, validated: u64) -> Self {
        // Nobody resolves a path twice in a nanosecond, and who tried would find the same.
        Self { version: entry.resolved_ns as u64, validated }
    }
}
