//! The second level: shared by the workers of a partition, divided into shards with a lock each.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::budget::{Budget, Cost, Usage};
use crate::policy::PolicyKind;
use crate::shard::{Departures, Offer, Shard};
use crate::slot::Slot;

/// The least share of a shard: with a smaller one a shard is not worth its lock, and too often full
/// by chance. A cache with a small budget has fewer shards than requested, down to one.
const SHARE_MIN: Budget = Budget { bytes: 1 << 20, descriptors: 64, entries: 64 };

/// The largest number of shards: more of them only spread the budget thinner.
const SHARDS_MAX: usize = 1 << 10;

/// The shared level. All methods may be called from any thread at any time.
///
/// An entry is found by its key; the hash that comes with each call must be [`Cache::hash`] of the
/// key. It is computed once by the caller because the first level needs it, too.
pub struct Cache<V> {
    kind: PolicyKind,
    budget: Budget,
    hasher: RandomState,
    shards: Box<[Line<V>]>,
    departures: AtomicU64,
}

/// How far a pass through all entries has come ([`Cache::scan_part`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct Round {
    shard: usize,
    place: usize,
}

/// A shard on cache lines of its own (two, because they are fetched in pairs): its lock word is
/// written at every lookup.
#[repr(align(128))]
struct Line<V>(RwLock<Shard<V>>);

impl<V: Send + Sync> Cache<V> {
    /// Creates an empty cache. The budget is for the whole cache and divided evenly among the
    /// shards. Their number is rounded down to a power of two, and further until each shard has at
    /// least 1 MiB, 64 descriptors and 64 entries of every resource that the budget has at all. So
    /// a budget of 8 descriptors means one shard. An entry must fit into one shard's share.
    pub fn new(kind: PolicyKind, budget: Budget, shards: usize) -> Self {
        Self::with_hasher(kind, budget, shards, RandomState::new())
    }

    /// Creates an empty cache of the same kind with another budget, whose hashes are those of this
    /// one.
    #[must_use]
    pub fn emptied(&self, budget: Budget) -> Self {
        Self::with_hasher(self.kind, budget, self.shards(), self.hasher.clone())
    }

    fn with_hasher(kind: PolicyKind, budget: Budget, shards: usize, hasher: RandomState) -> Self {
        let shards = shard_count(budget, shards);
        let share = budget.share(shards);
        let lines = (0..shards).map(|_| Line(RwLock::new(Shard::new(kind, share))));
        Self { kind, budget, hasher, shards: lines.collect(), departures: AtomicU64::new(0) }
    }

    /// The eviction policy.
    pub fn policy(&self) -> PolicyKind {
        self.kind
    }

    /// The budget of the whole cache.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// SipHash of the key, seeded at random for each cache, so that file names that collide cannot
    /// be chosen.
    pub fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// Returns the entry for `key`. Under LRU this takes the shard's exclusive lock, because the
    /// entry has to be moved; under the other policies it takes the shared lock.
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<Arc<Slot<V>>> {
        if self.kind.moves_on_hit() {
            self.write(hash).get_moving(hash, key)
        } else {
            self.read(hash).get(hash, key)
        }
    }

    /// Inserts an entry, replacing an older one under the same key, and evicts others until the
    /// budget allows it. An entry larger than the budget (of a shard) is returned but not kept: it
    /// is evicted from the start. `validated` is the caller's tick ([`Slot::validated`]).
    pub fn insert(
        &self,
        hash: u64,
        key: &[u8],
        value: V,
        cost: Cost,
        validated: u64,
    ) -> Arc<Slot<V>> {
        let slot = Arc::new(Slot::new(hash, key, value, cost, validated));
        loop {
            let mut departures = Departures::new();
            let offer = self.write(hash).offer(&slot, &mut departures);
            self.note_departures(departures.len());
            // The departures are dropped here, after the lock has been released.
            match offer {
                Offer::Kept => return slot,
                Offer::Again => {}
                Offer::Refused => {
                    slot.set_evicted();
                    self.note_departures(1);
                    return slot;
                }
            }
        }
    }

    /// Removes the entry for `key`. Returns whether there was one.
    pub fn remove(&self, hash: u64, key: &[u8]) -> bool {
        let mut departures = Departures::new();
        let found = self.write(hash).remove(hash, key, &mut departures);
        self.note_departures(departures.len());
        found
    }

    /// Passes through the entries with descriptors, one `part`-th of all places in the cache in
    /// each call, and removes those for which `leaves` returns true. `leaves` is called without a
    /// lock. `round` is the place where the last call ended; after the last place the next call
    /// begins at the first one.
    pub fn scan_part(
        &self,
        round: &mut Round,
        part: usize,
        leaves: &mut dyn FnMut(&Slot<V>) -> bool,
    ) {
        /// The number of nodes that are copied under one lock: it takes some microseconds.
        const NODES_MAX: usize = 256;
        let places: usize = self.shards.iter().map(|line| read(line).places()).sum();
        let mut left = places.div_ceil(part.max(1));
        while left > 0 {
            let (slots, count, places) = {
                let shard = read(&self.shards[round.shard]);
                let places = shard.places();
                let count = left.min(NODES_MAX).min(places.saturating_sub(round.place));
                (shard.with_descriptors(round.place, count), count, places)
            };
            slots.into_iter().filter(|slot| leaves(slot)).for_each(|slot| self.remove_slot(&slot));
            round.place += count;
            left -= count;
            if round.place >= places {
                *round = Round { shard: round.shard + 1, place: 0 };
            }
            if round.shard == self.shards.len() {
                *round = Round::default();
                return;
            }
        }
    }

    fn remove_slot(&self, slot: &Arc<Slot<V>>) {
        let mut departures = Departures::new();
        self.write(slot.hash()).remove_slot(slot, &mut departures);
        self.note_departures(departures.len());
    }

    /// The number of entries that have left the cache: evicted, replaced, removed or refused. When
    /// it has changed, a first level may hold entries that it should drop
    /// ([`crate::FirstLevel::sweep`]).
    pub fn evictions(&self) -> u64 {
        self.departures.load(Ordering::Acquire)
    }

    /// The current content, summed over the shards one after the other.
    pub fn usage(&self) -> Usage {
        let usages = self.shards.iter().map(|line| read(line).usage());
        usages.fold(Usage::default(), Usage::plus)
    }

    /// Counts departures after their entries were marked, so that a sweep that sees the count sees
    /// the marks.
    fn note_departures(&self, count: usize) {
        if count > 0 {
            self.departures.fetch_add(count as u64, Ordering::Release);
        }
    }

    fn read(&self, hash: u64) -> RwLockReadGuard<'_, Shard<V>> {
        read(self.line(hash))
    }

    /// Locks a shard for writing. A poisoned lock is a bug in this crate, because no foreign code
    /// runs under it; the bug should cost one request and not every later one.
    fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Shard<V>> {
        self.line(hash).0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shard of a hash: the high bits choose the shard, the low ones the bucket within.
    fn line(&self, hash: u64) -> &Line<V> {
        let high = (hash >> 48) as usize;
        &self.shards[high & (self.shards.len() - 1)]
    }
}

impl<V> fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Cache");
        debug.field("policy", &self.kind).field("shards", &self.shards.len());
        debug.finish_non_exhaustive()
    }
}

fn read<V>(line: &Line<V>) -> RwLockReadGuard<'_, Shard<V>> {
    line.0.read().unwrap_or_else(PoisonError::into_inner)
}

fn shard_count(budget: Budget, wanted: usize) -> usize {
    let allowed = |total: usize, least: usize| if total == 0 { SHARDS_MAX } else { total / least };
    let most = wanted
        .min(SHARDS_MAX)
        .min(allowed(budget.bytes, SHARE_MIN.bytes))
        .min(allowed(budget.descriptors, SHARE_MIN.descriptors))
        .min(allowed(budget.entries, SHARE_MIN.entries));
    1 << most.max(1).ilog2()
}
