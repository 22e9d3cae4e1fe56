//! Looking up what is known of a path: in the worker's own level of the cache, in that which it
//! shares, and beyond its process.

use std::sync::Arc;

use file_cache::{Cache, FirstLevel, Hit, Slot};
use site::resource::{Entry, Undecodable};

use crate::job::Known;
use crate::shared_level::{SharedLevel, Stamp};
use crate::tick::Tick;

/// Slots of the first level that are looked at for each entry that is new: evicted entries in it
/// are then a few percent of it at most, and it takes a microsecond.
const SWEEP_SLOTS: usize = 64;

/// A larger buffer for encoded entries is not kept.
const ENCODED_BYTES_KEPT: usize = 64 * 1024;

/// The levels of the cache as one worker sees them.
pub(crate) struct EntryCache {
    pub(crate) first: FirstLevel<Entry>,
    pub(crate) second: Arc<Cache<Entry>>,
    /// Asked when the second level has nothing, or nothing that is fresh.
    pub(crate) beyond: Option<Box<dyn SharedLevel>>,
    /// An entry on its way to or from beyond.
    encoded: Vec<u8>,
    /// The key of the lookup at hand: host index, then canonical path.
    key: Vec<u8>,
    revalidate_us: u64,
}

/// What a lookup found.
pub(crate) enum Lookup {
    /// An entry that is fresh enough to be sent.
    Fresh(Hit<Entry>),
    /// An entry that must be looked at again first.
    Due(Arc<Slot<Entry>>),
    /// An entry of another process: its files are to be opened here first.
    Encoded(Box<[u8]>),
    /// Nothing.
    Absent,
}

impl Lookup {
    /// What can be sent, or what a job is to begin with.
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
    /// The levels of a worker; `beyond` its process there is nothing yet.
    pub(crate) fn new(
        first_slots_max: usize,
        second: Arc<Cache<Entry>>,
        revalidate_us: u64,
    ) -> Self {
        Self {
            first: FirstLevel::new(first_slots_max),
            second,
            beyond: None,
            encoded: Vec::new(),
            key: Vec::with_capacity(256),
            revalidate_us,
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
            Lookup::Due(slot) if self.beyond.is_some() => self.renew(slot, now),
            Lookup::Absent if self.beyond.is_some() => self.fetch(hash, now),
            found => found,
        }
    }

    /// Keeps what a job found, and returns it to be sent even if the cache has no room.
    pub(crate) fn insert(
        &mut self,
        host: usize,
        path: &[u8],
        entry: Entry,
        now: Tick,
    ) -> Hit<Entry> {
        self.set_key(host, path);
        let hash = self.second.hash(&self.key);
        if let Some(beyond) = &mut self.beyond {
            let stamp = Stamp::new(&entry, now.0);
            let is_known = beyond.stamp(hash).is_some_and(|known| known.version == stamp.version);
            if is_known {
                beyond.validate(hash, stamp); // it came from there, and is open here now
            } else {
                self.encoded.clear();
                entry.encode(&mut self.encoded);
                beyond.insert(hash, &self.key, &self.encoded, stamp);
                self.encoded.shrink_to(ENCODED_BYTES_KEPT);
            }
        }
        self.keep(hash, entry, now)
    }

    /// Notes that an entry was found to be true, for all who have it.
    pub(crate) fn validate(&mut self, slot: &Slot<Entry>, now: Tick) {
        slot.set_validated(now.0);
        if let Some(beyond) = &mut self.beyond {
            beyond.validate(slot.hash(), Stamp::new(slot.value(), now.0));
        }
    }

    /// Puts an entry into the levels of this process, under the key at hand.
    fn keep(&mut self, hash: u64, entry: Entry, validated: Tick) -> Hit<Entry> {
        let (bytes, descriptors) = entry.cost();
        let bytes = bytes + self.key.len() + size_of::<Slot<Entry>>();
        let cost = file_cache::Cost { bytes, descriptors };
        let slot = self.second.insert(hash, &self.key, entry, cost, validated.0);
        // What had to leave for it would otherwise be kept until the next housekeeping.
        self.first.sweep(self.second.evictions(), SWEEP_SLOTS);
        if slot.is_evicted() { Hit::new(slot) } else { self.first.insert(slot) }
    }

    /// An entry that is due: somebody else may have looked at its files meanwhile, or found a newer
    /// one.
    #[cold]
    fn renew(&mut self, slot: Arc<Slot<Entry>>, now: Tick) -> Lookup {
        let Some(beyond) = &mut self.beyond else { return Lookup::Due(slot) };
        let Some(stamp) = beyond.stamp(slot.hash()) else { return Lookup::Due(slot) };
        if stamp != Stamp::new(slot.value(), stamp.validated) {
            return self.fetch(slot.hash(), now);
        }
        if slot.validated() < stamp.validated {
            slot.set_validated(stamp.validated);
        }
        judge(Hit::new(slot), self.revalidate_us, now)
    }

    /// What another process has put beyond, under the key at hand.
    #[cold]
    fn fetch(&mut self, hash: u64, now: Tick) -> Lookup {
        let Some(beyond) = &mut self.beyond else { return Lookup::Absent };
        self.encoded.clear();
        let Some(stamp) = beyond.find(hash, &self.key, &mut self.encoded) else {
            return Lookup::Absent;
        };
        let lookup = match Entry::decode(&self.encoded, &mut |_, _| None) {
            Ok(entry) => {
                let hit = self.keep(hash, entry, Tick(stamp.validated));
                judge(hit, self.revalidate_us, now)
            }
            Err(Undecodable::NoFile) => Lookup::Encoded(self.encoded.as_slice().into()),
            Err(Undecodable::Malformed) => Lookup::Absent,
        };
        self.encoded.shrink_to(ENCODED_BYTES_KEPT);
        lookup
    }

    fn set_key(&mut self, host: usize, path: &[u8]) {
        self.key.clear();
        // Hosts are bounded far below 2^32 by the size of a configuration.
        self.key.extend_from_slice(&(host as u32).to_le_bytes());
        self.key.extend_from_slice(path);
    }
}

#[inline]
fn judge(hit: Hit<Entry>, revalidate_us: u64, now: Tick) -> Lookup {
    if now.since(Tick(hit.validated())) < revalidate_us {
        return Lookup::Fresh(hit);
    }
    Lookup::Due(Arc::clone(&hit))
}
