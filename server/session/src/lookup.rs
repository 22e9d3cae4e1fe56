//! Looking up a path in the cache: in the worker's own level, in the level that it shares with
//! other workers, and in the level that processes share.

use std::sync::Arc;

use file_cache::{Cache, FirstLevel, Hit, Slot};
use site::resource::{Entry, Undecodable};

use crate::job::Known;
use crate::shared_level::{SharedLevel, Stamp};
use upstream::Tick;

/// Slots of the first level that are checked for each new entry: evicted entries then make up a few
/// percent of it at most, and a check takes a microsecond.
const SWEEP_SLOTS: usize = 64;

/// A larger buffer for encoded entries is not kept.
const ENCODED_BYTES_KEPT: usize = 64 * 1024;

/// The levels of the cache for one worker.
pub(crate) struct EntryCache {
    pub(crate) first: FirstLevel<Entry>,
    pub(crate) second: Arc<Cache<Entry>>,
    /// The level that processes share, looked up when the second has no entry, or no fresh one.
    pub(crate) shared: Option<Box<dyn SharedLevel>>,
    /// A buffer for entries that are read from that level or written to it.
    encoded: Vec<u8>,
    /// The key of the current lookup: host index, then canonical path.
    key: Vec<u8>,
    revalidate_us: u64,
    first_slots_max: usize,
}

/// What a lookup found.
pub(crate) enum Lookup {
    /// An entry that is fresh enough to be sent.
    Fresh(Hit<Entry>),
    /// An entry that must be checked first.
    Due(Arc<Slot<Entry>>),
    /// An entry of another process: its files must be opened here first.
    Encoded(Box<[u8]>),
    /// No entry.
    Absent,
}

impl Lookup {
    /// Returns an entry that can be sent, or the knowledge that a job begins with.
    #[inline]
    pub(crate) fn fresh(self) -> Result<Hit<Entry>, Known> {
        match self {
            Self::Fresh(hit) => Ok(hit),
            Self::Due(slot) => Err(Known::Entry(slot)),
            Self::Encoded(bytes) => Err(Known::Encoded(bytes)),
            Self::Absent => Err(Known::Nothing),
        }
    }
}

impl EntryCache {
    /// Creates the levels of a worker, without one that processes share.
    pub(crate) fn new(
        first_slots_max: usize,
        second: Arc<Cache<Entry>>,
        revalidate_us: u64,
    ) -> Self {
        Self {
            first: FirstLevel::new(first_slots_max),
            second,
            shared: None,
            encoded: Vec::new(),
            key: Vec::with_capacity(256),
            revalidate_us,
            first_slots_max,
        }
    }

    /// Goes on with another second level, unless it is the same: nothing of the former one, nor of
    /// the worker's own level, is found any more.
    pub(crate) fn replace_second(&mut self, second: Arc<Cache<Entry>>) {
        if !Arc::ptr_eq(&self.second, &second) {
            self.first = FirstLevel::new(self.first_slots_max);
            self.second = second;
        }
    }

    /// Looks `path` up, first in the worker's own level.
    #[inline]
    pub(crate) fn get(&mut self, host: usize, path: &[u8], now: Tick) -> Lookup {
        self.set_key(host, path);
        let hash = self.second.hash(&self.key);
        let found = match self.first.get(hash, &self.key) {
            Some(hit) => judge(Hit::clone(hit), self.revalidate_us, now),
            None => match self.second.get(hash, &self.key) {
                Some(slot) => judge(self.first.insert(slot), self.revalidate_us, now),
                None => Lookup::Absent,
            },
        };
        match found {
            Lookup::Due(slot) if self.shared.is_some() => self.renew(slot, now),
            Lookup::Absent if self.shared.is_some() => self.fetch(hash, now),
            found => found,
        }
    }

    /// Keeps the entry that a job has made, and returns it to be sent even if the cache has no
    /// room.
    pub(crate) fn insert(
        &mut self,
        host: usize,
        path: &[u8],
        entry: Entry,
        now: Tick,
    ) -> Hit<Entry> {
        self.set_key(host, path);
        let hash = self.second.hash(&self.key);
        if let Some(shared) = &mut self.shared {
            let stamp = Stamp::new(&entry, now.0);
            let is_known = shared.stamp(hash).is_some_and(|known| known.version == stamp.version);
            if is_known {
                shared.validate(hash, stamp); // its files are open here now
            } else {
                self.encoded.clear();
                entry.encode(&mut self.encoded);
                shared.insert(hash, &self.key, &self.encoded, stamp);
                self.encoded.shrink_to(ENCODED_BYTES_KEPT);
            }
        }
        self.insert_local(hash, entry, now)
    }

    /// Notes that an entry was found to be current, for all users of its levels.
    pub(crate) fn validate(&mut self, slot: &Slot<Entry>, now: Tick) {
        slot.set_validated(now.0);
        if let Some(shared) = &mut self.shared {
            shared.validate(slot.hash(), Stamp::new(slot.value(), now.0));
        }
    }

    /// Puts an entry into the levels of this process, under the current key.
    fn insert_local(&mut self, hash: u64, entry: Entry, validated: Tick) -> Hit<Entry> {
        let (bytes, descriptors) = entry.cost();
        let bytes = bytes + self.key.len() + size_of::<Slot<Entry>>();
        let cost = file_cache::Cost { bytes, descriptors };
        let slot = self.second.insert(hash, &self.key, entry, cost, validated.0);
        // Without this, entries evicted for this one would be kept until the next housekeeping.
        self.first.sweep(self.second.evictions(), SWEEP_SLOTS);
        if slot.is_evicted() { Hit::new(slot) } else { self.first.insert(slot) }
    }

    /// Renews an entry that is due: another process may have checked its files meanwhile, or found
    /// a newer entry.
    #[cold]
    fn renew(&mut self, slot: Arc<Slot<Entry>>, now: Tick) -> Lookup {
        let Some(shared) = &mut self.shared else { return Lookup::Due(slot) };
        let Some(stamp) = shared.stamp(slot.hash()) else { return Lookup::Due(slot) };
        if stamp != Stamp::new(slot.value(), stamp.validated) {
            return self.fetch(slot.hash(), now);
        }
        if slot.validated() < stamp.validated {
            slot.set_validated(stamp.validated);
        }
        judge(Hit::new(slot), self.revalidate_us, now)
    }

    /// Reads the entry that another process has put into the shared level, under the current key.
    #[cold]
    fn fetch(&mut self, hash: u64, now: Tick) -> Lookup {
        let Some(shared) = &mut self.shared else { return Lookup::Absent };
        self.encoded.clear();
        let Some(stamp) = shared.find(hash, &self.key, &mut self.encoded) else {
            return Lookup::Absent;
        };
        let lookup = match Entry::decode(&self.encoded, &mut |_, _| None) {
            Ok(entry) => {
                let hit = self.insert_local(hash, entry, Tick(stamp.validated));
                judge(hit, self.revalidate_us, now)
            }
            Err(Undecodable::NoFile) => Lookup::Encoded(self.encoded.as_slice().into()),
            Err(Undecodable::Malformed) => Lookup::Absent,
        };
        self.encoded.shrink_to(ENCODED_BYTES_KEPT);
        lookup
    }

    #[inline(always)] // a call would cost each request ten instructions
    fn set_key(&mut self, host: usize, path: &[u8]) {
        self.key.clear();
        // Hosts are bounded far below 2^32 by the size of a configuration.
        self.key.extend_from_slice(&(host as u32).to_le_bytes());
        self.key.extend_from_slice(path);
    }
}

/// The index of the host that the entry with this key is of.
#[must_use]
pub fn host_of(key: &[u8]) -> usize {
    key.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

#[inline]
fn judge(hit: Hit<Entry>, revalidate_us: u64, now: Tick) -> Lookup {
    if now.since(Tick(hit.validated())) < revalidate_us {
        return Lookup::Fresh(hit);
    }
    Lookup::Due(Arc::clone(&hit))
}
