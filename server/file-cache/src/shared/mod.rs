//! A cache in memory that several processes share: byte strings under byte-string keys, in shards
//! with a lock each, bounded in bytes and entries, evicted by CLOCK.
//!
//! It is made of 64-bit cells that are only ever read and written whole, and of numbers instead of
//! pointers, so that it may be mapped at different addresses. A process may be killed at any
//! instruction: then the shard's lock is taken over from the dead process, its next holder learns
//! of that, and the shard is emptied, because a cache may always forget. Data is never trusted: a
//! number that leads nowhere, or bytes whose checksum is wrong, also empty the shard.
//!
//! The cache does not interpret the bytes, makes no system calls, and knows no processes: its
//! [`Keeper`] defines how a lock is taken.

mod shard;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use shard::{HEADER_CELLS, Shard, ShardLayout};

/// The lock operation that the cache requires of its users.
pub trait Keeper {
    /// Runs `section` while it holds `lock` exclusively. The argument of `section` is whether the
    /// last holder died with the lock.
    fn with_lock(&self, lock: &'static AtomicU64, section: &mut dyn FnMut(bool));
}

/// The sizes of a [`SharedCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    shards: usize,
    shard: ShardLayout,
}

/// The cache in the memory of one process.
#[derive(Clone, Copy)]
pub struct SharedCache {
    cells: &'static [AtomicU64],
    layout: Layout,
}

/// The label that is stored with an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Distinguishes values of one key.
    pub version: u64,
    /// When the value was last found to be current, in the caller's ticks.
    pub validated: u64,
}

/// The content of a shared cache, and counts of its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedUsage {
    /// Current entries.
    pub entries: u64,
    /// Bytes in blocks that hold entries.
    pub bytes: u64,
    /// Entries that were evicted to make room.
    pub evictions: u64,
    /// Times that a shard was emptied because a holder died or the data was wrong.
    pub resets: u64,
}

impl Layout {
    /// The layout of a cache of about `bytes` bytes in all, for at most `entries` entries, with
    /// `shards` locks (rounded to a power of two).
    #[must_use]
    pub fn new(bytes: usize, entries: usize, shards: usize) -> Self {
        let shards = shards.clamp(1, 1 << 10).next_power_of_two();
        Self { shards, shard: ShardLayout::new(bytes / shards, entries / shards) }
    }

    /// The number of cells that the cache takes.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.shards * self.shard.cells()
    }
}

impl SharedCache {
    /// Opens the cache in `cells`, which were all 0 before their first use.
    ///
    /// # Panics
    /// If their number is not [`Layout::cells`].
    #[must_use]
    pub fn new(cells: &'static [AtomicU64], layout: Layout) -> Self {
        assert_eq!(cells.len(), layout.cells(), "a cell for everything");
        Self { cells, layout }
    }

    /// All locks.
    pub fn locks(self) -> impl Iterator<Item = &'static AtomicU64> {
        self.cells.iter().step_by(self.layout.shard.cells())
    }

    /// Copies the value under `key` to `value`, replacing its content.
    pub fn get(
        self,
        keeper: &impl Keeper,
        hash: u64,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Option<Label> {
        self.with(keeper, hash, |shard| shard.get(hash, key, value))
    }

    /// The label of the value of this hash.
    pub fn label(self, keeper: &impl Keeper, hash: u64) -> Option<Label> {
        self.with(keeper, hash, |shard| shard.label(hash))
    }

    /// Notes that the value of this hash was found to be current at `validated`, if it still has
    /// that version.
    pub fn validate(self, keeper: &impl Keeper, hash: u64, version: u64, validated: u64) {
        self.with(keeper, hash, |shard| shard.validate(hash, version, validated).map(Some));
    }

    /// Inserts a value, replacing an older one under its key, and evicts others for it. Returns
    /// whether the value was small enough; if not, an older one is removed all the same.
    pub fn insert(
        self,
        keeper: &impl Keeper,
        hash: u64,
        key: &[u8],
        value: &[u8],
        label: Label,
    ) -> bool {
        let inserted =
            self.with(keeper, hash, |shard| shard.insert(hash, key, value, label).map(Some));
        inserted == Some(true)
    }

    /// The content and the counts. This waits for no lock: the numbers of different shards may be
    /// of different moments.
    #[must_use]
    pub fn usage(self) -> SharedUsage {
        let shards = (0..self.layout.shards).map(|index| self.shard(index).usage());
        shards.fold(SharedUsage::default(), |sum, usage| SharedUsage {
            entries: sum.entries + usage.entries,
            bytes: sum.bytes + usage.bytes,
            evictions: sum.evictions + usage.evictions,
            resets: sum.resets + usage.resets,
        })
    }

    /// Calls `work` with the shard of a hash, while its lock is held.
    fn with<T>(
        self,
        keeper: &impl Keeper,
        hash: u64,
        mut work: impl FnMut(&Shard) -> Result<Option<T>, shard::Broken>,
    ) -> Option<T> {
        let shard = self.shard((hash >> 48) as usize & (self.layout.shards - 1));
        let mut outcome = None;
        keeper.with_lock(shard.lock(), &mut |is_inherited| {
            if is_inherited {
                shard.empty();
            }
            outcome = work(&shard).unwrap_or_else(|shard::Broken| {
                shard.empty();
                None
            });
        });
        outcome
    }

    fn shard(self, index: usize) -> Shard {
        let len = self.layout.shard.cells();
        Shard::new(&self.cells[index * len..][..len], self.layout.shard)
    }
}

impl fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache").field("layout", &self.layout).finish_non_exhaustive()
    }
}

const _: () = assert!(HEADER_CELLS.is_multiple_of(8), "locks are on cache lines of their own");

fn get(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}

fn set(cell: &AtomicU64, value: u64) {
    cell.store(value, Ordering::Relaxed);
}
