//! The first level: one worker's own table of entries it has used. It has no lock, no policy and no
//! budget; its entries are in the second level or about to be swept out.

use std::fmt;
use std::sync::Arc;

use crate::slot::Slot;

/// An entry as a worker passes it to its connections. The outer count belongs to the worker:
/// cloning and dropping it writes to no cache line that another worker uses.
pub type Hit<V> = Arc<Arc<Slot<V>>>;

/// The number of entries in a set: as many as fill one cache line.
const WAYS: usize = 4;

/// The smallest initial size: a worker that serves ten files needs no larger table.
const SLOTS_MIN: usize = 256;

/// Conflicts are counted over a window of this many lookups for each slot. The table doubles as
/// soon as one slot in [`CONFLICT_SHARE`] was replaced by a conflict within a window.
const WINDOW: usize = 16;
const CONFLICT_SHARE: usize = 4;

/// A set-associative table from hash and key to [`Hit`].
///
/// It starts with 256 slots of 16 bytes and doubles while entries replace one another often, up to
/// the given number. Create it on the thread that uses it.
pub struct FirstLevel<V> {
    sets: Vec<Set<V>>,
    sets_max: usize,
    lookups: usize,
    conflicts: usize,
    /// The way that is replaced next, for all sets.
    rotation: usize,
    evictions_seen: u64,
    sweep_next: usize,
    sweep_left: usize,
}

#[repr(align(64))]
struct Set<V>([Way<V>; WAYS]);

/// One way of a set. The hash is repeated here so that a lookup follows no pointer in vain.
struct Way<V> {
    hash: u64,
    hit: Option<Hit<V>>,
}

const _: () = assert!(size_of::<Set<u8>>() == 64);

impl<V> FirstLevel<V> {
    /// Creates an empty table that may grow to `slots_max` slots, rounded down to a power of two,
    /// and to at least four.
    pub fn new(slots_max: usize) -> Self {
        let sets_max = 1 << (slots_max / WAYS).max(1).ilog2();
        Self {
            sets: vacant(sets_max.min(SLOTS_MIN / WAYS)),
            sets_max,
            lookups: 0,
            conflicts: 0,
            rotation: 0,
            evictions_seen: 0,
            sweep_next: 0,
            sweep_left: 0,
        }
    }

    /// The number of entries that the table has room for at its present size.
    pub fn slots(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// Returns the entry for `key`, unless it is not here or has left the second level.
    pub fn get(&mut self, hash: u64, key: &[u8]) -> Option<&Hit<V>> {
        self.count_lookup();
        let set = self.set_of(hash);
        let way = self.sets[set].find(hash, key)?;
        let place = &mut self.sets[set].0[way].hit;
        if place.as_ref().is_some_and(|hit| hit.is_evicted()) {
            *place = None;
        }
        let hit = place.as_ref()?;
        hit.touch();
        Some(hit)
    }

    /// Keeps an entry that the second level has returned, in place of one of equal key or, if its
    /// set is full, of any other. An entry that has already left the second level is not kept. This
    /// allocates the outer `Arc`, unless it can reuse that of a replaced entry that no connection
    /// holds.
    pub fn insert(&mut self, slot: Arc<Slot<V>>) -> Hit<V> {
        if slot.is_evicted() {
            return Arc::new(slot);
        }
        let set = self.set_of(slot.hash());
        let (way, conflict) = self.choose(set, &slot);
        if conflict && self.count_conflict() {
            return self.insert(slot);
        }
        let way = &mut self.sets[set].0[way];
        way.hash = slot.hash();
        let hit = renew(way.hit.take(), slot);
        way.hit = Some(Arc::clone(&hit));
        hit
    }

    /// Removes the entry for `key`. Returns whether there was one.
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> bool {
        let set = self.set_of(hash);
        let found = self.sets[set].find(hash, key);
        if let Some(way) = found {
            self.sets[set].0[way].hit = None;
        }
        found.is_some()
    }

    /// Drops entries that have left the second level, whose count of them is `evictions_now`
    /// ([`crate::Cache::evictions`]). This costs a comparison when no entry has left since the last
    /// time; otherwise it checks `slots` slots (a thousand take some 20 microseconds) and continues
    /// at the next call. Returns whether all slots have been checked.
    pub fn sweep(&mut self, evictions_now: u64, slots: usize) -> bool {
        if self.evictions_seen != evictions_now {
            self.evictions_seen = evictions_now;
            self.sweep_left = self.sets.len();
        }
        let turn = self.sweep_left.min((slots / WAYS).max(1));
        for _ in 0..turn {
            self.sets[self.sweep_next].drop_evicted();
            self.sweep_next = (self.sweep_next + 1) & (self.sets.len() - 1);
        }
        self.sweep_left -= turn;
        self.sweep_left == 0
    }

    /// Chooses a way in the set for the entry: its own old way, a free one, or the next in
    /// rotation. Returns whether another entry is replaced.
    fn choose(&mut self, set: usize, slot: &Slot<V>) -> (usize, bool) {
        let set = &self.sets[set];
        let free = || set.0.iter().position(Way::is_free);
        if let Some(way) = set.find(slot.hash(), slot.key()).or_else(free) {
            return (way, false);
        }
        self.rotation = (self.rotation + 1) % WAYS;
        (self.rotation, true)
    }

    fn count_lookup(&mut self) {
        self.lookups += 1;
        if self.lookups > self.slots() * WINDOW {
            self.lookups = 0;
            self.conflicts = 0;
        }
    }

    /// Counts a conflict. Returns whether the table has grown because of it.
    fn count_conflict(&mut self) -> bool {
        self.conflicts += 1;
        let grows =
            self.conflicts > self.slots() / CONFLICT_SHARE && self.sets.len() < self.sets_max;
        if grows {
            self.grow();
        }
        grows
    }

    /// Doubles the table. Every set divides into two, so that each entry finds a place.
    fn grow(&mut self) {
        let doubled = vacant(self.sets.len() * 2);
        let old = std::mem::replace(&mut self.sets, doubled);
        for way in old.into_iter().flat_map(|set| set.0).filter(|way| !way.is_free()) {
            let set = self.set_of(way.hash);
            let place = self.sets[set].0.iter_mut().find(|place| place.is_free());
            *place.expect("a set's entries come from one set of as many ways") = way;
        }
        (self.lookups, self.conflicts) = (0, 0);
        (self.sweep_next, self.sweep_left) = (0, self.sets.len());
    }

    fn set_of(&self, hash: u64) -> usize {
        // The truncation is intended: only the low bits matter.
        hash as usize & (self.sets.len() - 1)
    }
}

impl<V> fmt::Debug for FirstLevel<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstLevel").field("slots", &self.slots()).finish_non_exhaustive()
    }
}

impl<V> Set<V> {
    fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        let is_match = |way: &Way<V>| {
            way.hash == hash && way.hit.as_ref().is_some_and(|hit| hit.is_for(hash, key))
        };
        self.0.iter().position(is_match)
    }

    fn drop_evicted(&mut self) {
        for way in &mut self.0 {
            if way.is_free() {
                way.hit = None;
            }
        }
    }
}

impl<V> Way<V> {
    /// Whether the way holds no entry, or an evicted one.
    fn is_free(&self) -> bool {
        self.hit.as_ref().is_none_or(|hit| hit.is_evicted())
    }
}

fn vacant<V>(sets: usize) -> Vec<Set<V>> {
    let set = || Set(std::array::from_fn(|_| Way { hash: 0, hit: None }));
    std::iter::repeat_with(set).take(sets).collect()
}

/// Makes a `Hit` for `slot`, in the allocation of `old` if there is no other reference to that.
fn renew<V>(old: Option<Hit<V>>, slot: Arc<Slot<V>>) -> Hit<V> {
    let Some(mut hit) = old else { return Arc::new(slot) };
    match Arc::get_mut(&mut hit) {
        Some(inner) => *inner = slot,
        None => return Arc::new(slot),
    }
    hit
}
