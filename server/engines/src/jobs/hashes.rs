//! Hashes of files' contents: those that are known, and those under way.
//!
//! Known hashes are remembered, because an entry may leave the cache, or be made anew because
//! something else in its directory has changed, and its file is not to be read again for that. They
//! are in memory that forked processes share. A job that wants a hash that is under way joins in:
//! all jobs that want it read the next piece in turn, and the file is read once. Forked processes
//! do not see hashes under way in others; they see a hash as soon as one of them has it.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use os::shared_memory::{Cells, create_cells, map_cells};
use session::SharedHashing;
use site::entity_tag::ContentHash;
use site::hashing::Hashing;
use site::resource::Identity;

use crate::lock::lock;

/// The number of hashes that are remembered: 192 KiB, of which only used pages take memory.
const SLOTS: usize = 8192;
/// The cells of a slot: the hash, and the two halves of the identity's fingerprint, each mixed with
/// the hash.
const SLOT_CELLS: usize = 3;

/// The hashes of files, known or under way. May be used by any thread.
pub(super) struct Hashes {
    known: Known,
    under_way: Mutex<UnderWay>,
}

type UnderWay = Vec<(Identity, Weak<Mutex<Hashing>>)>;

/// A table in which a hash overwrites another that has the same slot. No thread waits, and a
/// process that is killed leaves the table consistent: a slot with cells of two writers matches no
/// fingerprint.
struct Known(Arc<Cells>);

impl Hashes {
    pub(super) fn new() -> io::Result<Self> {
        let file = create_cells(SLOTS * SLOT_CELLS)?;
        Ok(Self { known: Known(Arc::new(map_cells(file.as_fd())?)), under_way: Mutex::default() })
    }

    /// The hashes of another process: the known ones in the same memory, and none under way.
    #[cfg(test)]
    pub(super) fn duplicate(&self) -> Self {
        Self { known: Known(Arc::clone(&self.known.0)), under_way: Mutex::default() }
    }

    pub(super) fn get(&self, identity: &Identity) -> Option<ContentHash> {
        self.known.get(identity.fingerprint())
    }

    pub(super) fn put(&self, identity: &Identity, hash: ContentHash) {
        self.known.put(identity.fingerprint(), hash);
    }

    /// Joins the hashing of a file: returns `hashing`, shared, unless one is under way already.
    pub(super) fn join(&self, hashing: Hashing) -> SharedHashing {
        let mut under_way = lock(&self.under_way);
        under_way.retain(|(_, shared)| shared.strong_count() > 0);
        let is_same = |(identity, _): &&(Identity, _)| identity == hashing.identity();
        if let Some(shared) = under_way.iter().find(is_same).and_then(|(_, it)| it.upgrade()) {
            return shared;
        }
        let identity = *hashing.identity();
        let shared = SharedHashing::new(Mutex::new(hashing));
        under_way.push((identity, SharedHashing::downgrade(&shared)));
        shared
    }
}

impl Known {
    fn get(&self, fingerprint: [u64; 2]) -> Option<ContentHash> {
        let [hash, one, other] = self.slot(fingerprint).map(|cell| cell.load(Ordering::Relaxed));
        ([one ^ hash, other ^ hash] == fingerprint).then_some(ContentHash(hash))
    }

    fn put(&self, fingerprint: [u64; 2], ContentHash(hash): ContentHash) {
        let numbers = [hash, fingerprint[0] ^ hash, fingerprint[1] ^ hash];
        let cells = self.slot(fingerprint).into_iter().zip(numbers);
        cells.for_each(|(cell, number)| cell.store(number, Ordering::Relaxed));
    }

    fn slot(&self, [number, _]: [u64; 2]) -> [&AtomicU64; SLOT_CELLS] {
        let first = number as usize % SLOTS * SLOT_CELLS;
        std::array::from_fn(|cell| &self.0[first + cell])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(inode: u64) -> Identity {
        Identity { device: 1, inode, len: 0, modified_ns: 0, changed_ns: 0 }
    }

    #[test]
    fn a_known_hash_is_that_of_the_same_file() {
        let (hashes, count) = (Hashes::new().unwrap(), 10 * SLOTS as u64);
        let there = hashes.duplicate();
        assert_eq!(hashes.get(&numbered(0)), None);
        for inode in 0..count {
            hashes.put(&numbered(inode), ContentHash(inode * inode));
            assert_eq!(there.get(&numbered(inode)), Some(ContentHash(inode * inode)));
        }
        let known = |inode: &u64| match hashes.get(&numbered(*inode)) {
            Some(hash) => hash == ContentHash(inode * inode) || panic!("{inode}: {hash:?}"),
            None => false,
        };
        let known = (0..count).filter(known).count();
        assert!((SLOTS / 2..=SLOTS).contains(&known), "{known} of {count}");
        let newer = Identity { changed_ns: 1, ..numbered(count - 1) };
        assert_eq!(hashes.get(&newer), None);
    }

    /// One writer was interrupted by another after each of its steps.
    #[test]
    fn a_slot_that_two_have_written_at_once_is_of_no_file() {
        let known = Hashes::new().unwrap().known;
        let (one, other) = ([1, 100], [1 + SLOTS as u64, 200]);
        for step in 1..SLOT_CELLS {
            known.put(one, ContentHash(7));
            let cells = known.slot(one);
            let of_one = cells.map(|cell| cell.load(Ordering::Relaxed));
            known.put(other, ContentHash(9));
            let late = cells.iter().zip(of_one).skip(step);
            late.for_each(|(cell, number)| cell.store(number, Ordering::Relaxed));
            assert_eq!((known.get(one), known.get(other)), (None, None), "step {step}");
        }
    }
}
