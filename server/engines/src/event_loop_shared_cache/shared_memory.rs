//! The shared memory of the processes: the cache, its locks, and the owners of locks.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;

use file_cache::Budget;
use file_cache::shared::{Keeper, Label, Layout, SharedCache};
use os::robust_lock::{Owner, Owners};
use os::shared_memory::{create_cells, map_cells};
use session::{SharedLevel, Stamp};

/// The number of shards, each with a lock: a few for each process, so that few collide.
const SHARDS_PER_PROCESS: usize = 4;
/// A shard smaller than this is not worth its lock: larger entries would not fit.
const SHARD_BYTES_MIN: usize = 1 << 20;

/// The memory that the processes of one cache share.
#[derive(Clone, Copy)]
pub(super) struct SharedMemory {
    owners: Owners,
    cache: SharedCache,
}

/// The shared memory as a level of one process's cache.
pub(super) struct LevelInMemory {
    cache: SharedCache,
    locks: Locks,
}

/// Takes the locks for one process.
struct Locks(Owner);

impl SharedMemory {
    /// Creates memory for `processes` processes.
    pub(super) fn new(processes: usize, budget: Budget) -> io::Result<Self> {
        let shards = (processes * SHARDS_PER_PROCESS).min(budget.bytes / SHARD_BYTES_MIN);
        let layout = Layout::new(budget.bytes, budget.entries, shards);
        // The shards are to begin on cache lines.
        let owner_cells = Owners::cells(processes).next_multiple_of(16);
        let file = create_cells(owner_cells + layout.cells())?;
        let (owners, cache) = map_cells(file.as_fd())?.leak().split_at(owner_cells);
        Ok(Self { owners: Owners::new(owners), cache: SharedCache::new(cache, layout) })
    }

    /// The shared level for the calling process, in the slot `slot_index`, under a `number` that no
    /// other process has had.
    pub(super) fn attach(self, slot_index: usize, number: u32) -> io::Result<LevelInMemory> {
        let locks = Locks(self.owners.enter(slot_index, number)?);
        Ok(LevelInMemory { cache: self.cache, locks })
    }

    /// Releases the locks that the dead process in a slot held.
    pub(super) fn release_dead(self, slot_index: usize) {
        self.owners.release_dead(slot_index, self.cache.locks());
    }
}

impl Keeper for Locks {
    fn with_lock(&self, lock: &'static AtomicU64, section: &mut dyn FnMut(bool)) {
        let held = self.0.lock(lock);
        section(held.is_inherited());
    }
}

impl SharedLevel for LevelInMemory {
    fn find(&mut self, hash: u64, key: &[u8], bytes: &mut Vec<u8>) -> Option<Stamp> {
        self.cache.get(&self.locks, hash, key, bytes).map(stamp)
    }

    fn stamp(&mut self, hash: u64) -> Option<Stamp> {
        self.cache.label(&self.locks, hash).map(stamp)
    }

    fn validate(&mut self, hash: u64, stamp: Stamp) {
        self.cache.validate(&self.locks, hash, stamp.version, stamp.validated);
    }

    fn insert(&mut self, hash: u64, key: &[u8], bytes: &[u8], stamp: Stamp) {
        let label = Label { version: stamp.version, validated: stamp.validated };
        // An entry that is too large is not inserted: each process resolves its path by itself.
        self.cache.insert(&self.locks, hash, key, bytes, label);
    }
}

fn stamp(label: Label) -> Stamp {
    Stamp { version: label.version, validated: label.validated }
}
