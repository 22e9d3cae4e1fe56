//! A worker: what one thread (or process, or fiber scheduler) has for all its connections.

use std::sync::Arc;

use file_cache::{Cache, FirstLevel, Hit, Slot};
use http1::format_date;
use site::Site;
use site::resource::{DATE_LEN, Entry, FileRef, Undecodable};

use crate::access_log::AccessLog;
use crate::beyond::{Beyond, Stamp};
use crate::counters::Counters;
use crate::exchange::Exchange;
use crate::limits::Limits;
use crate::listings::Listings;

/// A moment in microseconds of a monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u64);

impl Tick {
    /// This moment plus `ms` milliseconds.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// Microseconds since `earlier`; 0 if that is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What a worker is made of.
pub struct WorkerParts {
    /// The hosts and their rules.
    pub site: Arc<Site>,
    /// The bounds of every connection.
    pub limits: Arc<Limits>,
    /// The listings under way, counted for all workers of a server together.
    pub listings: Arc<Listings>,
    /// The second level of the cache, shared by the workers of a partition.
    pub cache: Arc<Cache<Entry>>,
    /// Bound on the worker's own first level.
    pub first_level_slots_max: usize,
    /// How old an entry may grow before the file system is asked again, in microseconds;
    /// `u64::MAX` for trees that never change.
    pub revalidate_us: u64,
    /// Where finished responses are recorded, if anywhere.
    pub log: Option<Box<dyn AccessLog>>,
    /// The worker's counters.
    pub counters: Arc<Counters>,
}

/// What is booked on a worker: its counters, and the listings under way in its name. In memory that
/// processes share it outlives a process that works with the worker.
#[derive(Clone)]
pub struct Account {
    counters: Arc<Counters>,
    listings: Arc<Listings>,
    number: u64,
}

impl Account {
    /// Takes back what was open in a process that has ended: it may have been killed.
    pub fn forget_process(&self) {
        self.counters.connections_open.reset();
        self.listings.forget(self.number);
    }
}

/// What one thread has for all its connections: the clock, the first level of the cache, spare
/// buffers. It holds nothing that belongs to one connection.
pub struct Worker {
    pub(crate) site: Arc<Site>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) listings: Arc<Listings>,
    /// Among those that share the listings.
    pub(crate) number: u64,
    pub(crate) cache: EntryCache,
    pub(crate) log: Option<Box<dyn AccessLog>>,
    /// The worker's counters.
    pub counters: Arc<Counters>,
    /// The canonical path of the request at hand, when it had to be decoded.
    pub(crate) path_scratch: Vec<u8>,
    #[expect(
        clippy::vec_box,
        reason = "they move into connections and back: a pointer, not 300 bytes"
    )]
    spare: Vec<Box<Exchange>>,
    now: Tick,
    unix_us: u64,
    date: [u8; DATE_LEN],
    log_flushed: Tick,
}

/// Spare buffers that workers pass on to each other, where requests begin with one worker and end
/// with another: without it the first would make new ones for ever and the last throw them away.
#[derive(Default)]
pub struct Spares(#[expect(clippy::vec_box, reason = "as in a worker")] Vec<Box<Exchange>>);

/// More than this many are not kept for others.
const SPARES_MAX: usize = 512;

/// Exchanges kept for reuse; more are in use only while that many responses are blocked.
const SPARE_MAX: usize = 64;

/// Slots of the first level that are looked at for each entry that is new: evicted entries in it
/// are then a few percent of it at most, and it takes a microsecond.
const SWEEP_SLOTS: usize = 64;

/// The log and the cache are looked after this often.
pub const HOUSEKEEPING_MS: u64 = 250;

impl Worker {
    /// A worker whose clock stands at 1970: call [`Worker::set_time`] before anything else.
    #[must_use]
    pub fn new(parts: WorkerParts) -> Self {
        Self {
            site: parts.site,
            limits: parts.limits,
            number: parts.listings.enter(),
            listings: parts.listings,
            cache: EntryCache {
                first: FirstLevel::new(parts.first_level_slots_max),
                second: parts.cache,
                beyond: None,
                encoded: Vec::new(),
                key: Vec::with_capacity(256),
                revalidate_us: parts.revalidate_us,
            },
            log: parts.log,
            counters: parts.counters,
            path_scratch: Vec::with_capacity(256),
            spare: Vec::with_capacity(SPARE_MAX),
            now: Tick(0),
            unix_us: 0,
            date: format_date(0),
            log_flushed: Tick(0),
        }
    }

    /// The second level of the worker's cache.
    #[must_use]
    pub fn cache(&self) -> &Arc<Cache<Entry>> {
        &self.cache.second
    }

    /// Gives the worker another second level. Before its first connection.
    pub fn use_cache(&mut self, second: Arc<Cache<Entry>>) {
        self.cache.second = second;
    }

    /// Gives the worker a level beyond its process. All who share that must hash alike
    /// ([`Cache::emptied`]). Before its first connection.
    pub fn reach_beyond(&mut self, beyond: Box<dyn Beyond>) {
        self.cache.beyond = Some(beyond);
    }

    /// Tells the worker what time it is: once per turn of an event loop, once per operation of a
    /// blocking thread. `unix_us` is microseconds since 1970.
    #[inline]
    pub fn set_time(&mut self, now: Tick, unix_us: u64) {
        if unix_us / 1_000_000 != self.unix_us / 1_000_000 {
            self.date = format_date(unix_us.cast_signed() / 1_000_000);
        }
        self.now = now;
        self.unix_us = unix_us;
        if now.since(self.log_flushed) >= HOUSEKEEPING_MS * 1000 {
            self.log_flushed = now;
            self.keep_house();
        }
    }

    /// The moment that [`Worker::set_time`] set.
    #[must_use]
    #[inline]
    pub fn now(&self) -> Tick {
        self.now
    }

    /// The bounds of every connection.
    #[must_use]
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// When [`Worker::set_time`] has something to do even if no connection has: buffered log
    /// records. An engine that sleeps without bound asks first.
    #[must_use]
    pub fn next_look(&self) -> Option<Tick> {
        self.is_logging().then(|| self.now.plus_ms(HOUSEKEEPING_MS))
    }

    /// Whether requests are recorded in a log: only there does it matter who the client is.
    #[must_use]
    pub fn is_logging(&self) -> bool {
        self.log.is_some()
    }

    /// Seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        (self.unix_us / 1_000_000).cast_signed()
    }

    pub(crate) fn unix_us(&self) -> u64 {
        self.unix_us
    }

    /// The `Date` of now (RFC 9110 §6.6.1).
    #[inline]
    pub(crate) fn date(&self) -> &[u8; DATE_LEN] {
        &self.date
    }

    /// An exchange with empty buffers.
    #[inline]
    pub(crate) fn take_exchange(&mut self) -> Box<Exchange> {
        self.spare.pop().unwrap_or_default()
    }

    /// Takes an exchange back.
    #[inline]
    pub(crate) fn give_exchange(&mut self, mut exchange: Box<Exchange>) {
        if self.spare.len() < SPARE_MAX {
            exchange.reset();
            self.spare.push(exchange);
        }
    }

    /// Keeps `count` spare buffers (64 at most): what is missing comes from `others`, and what is
    /// too much goes there.
    pub fn share_spares(&mut self, others: &mut Spares, count: usize) {
        let count = count.min(SPARE_MAX);
        while self.spare.len() > count && others.0.len() < SPARES_MAX {
            others.0.extend(self.spare.pop());
        }
        let missing = count.saturating_sub(self.spare.len()).min(others.0.len());
        self.spare.extend(others.0.drain(others.0.len() - missing..));
    }

    /// What is booked on this worker.
    #[must_use]
    pub fn account(&self) -> Account {
        Account {
            counters: Arc::clone(&self.counters),
            listings: Arc::clone(&self.listings),
            number: self.number,
        }
    }

    /// Books on another account. Before the worker's first connection.
    pub fn use_account(&mut self, account: &Account) {
        self.counters = Arc::clone(&account.counters);
        self.listings = Arc::clone(&account.listings);
        self.number = account.number;
    }

    /// Hands log records over and lets go of entries that have left the cache. A worker does so by
    /// itself when [`Worker::set_time`] is called; one that sleeps must be told now and then.
    pub fn keep_house(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
        // Evicted entries hold memory and descriptors until the last worker lets go of them.
        let evictions = self.cache.second.evictions();
        self.cache.first.sweep(evictions, usize::MAX);
        if let Some(beyond) = &mut self.cache.beyond {
            beyond.keep_house(self.now);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(log) = &mut self.log {
            log.flush();
        }
    }
}

/// The levels of the cache as one worker sees them.
pub struct EntryCache {
    first: FirstLevel<Entry>,
    second: Arc<Cache<Entry>>,
    /// Asked when the second level has nothing, or nothing that is fresh.
    beyond: Option<Box<dyn Beyond>>,
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

impl EntryCache {
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
            let keeps_files = beyond.keeps_files();
            let files: Vec<FileRef> = entry.files().filter(|_| keeps_files).cloned().collect();
            if is_known && files.is_empty() {
                beyond.validate(hash, stamp); // it came from there, and is open here now
            } else {
                self.encoded.clear();
                entry.encode(&mut self.encoded);
                beyond.insert(hash, &self.key, &self.encoded, files, stamp);
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
        let mut files = Vec::new();
        let Some(stamp) = beyond.find(hash, &self.key, &mut self.encoded, &mut files) else {
            return Lookup::Absent;
        };
        let mut files = files.into_iter();
        let lookup = match Entry::decode(&self.encoded, &mut |_, _| files.next()) {
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

/// A larger buffer for encoded entries is not kept.
const ENCODED_BYTES_KEPT: usize = 64 * 1024;

#[inline]
fn judge(hit: Hit<Entry>, revalidate_us: u64, now: Tick) -> Lookup {
    if now.since(Tick(hit.validated())) < revalidate_us {
        return Lookup::Fresh(hit);
    }
    Lookup::Due(Arc::clone(&hit))
}
