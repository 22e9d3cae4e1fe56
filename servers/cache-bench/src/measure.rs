//! Measures one cell after the other: fills a store with the most popular keys, makes the requests,
//! and checks the answers.

use std::collections::{LinkedList, VecDeque};
use std::hint::black_box;
use std::sync::Arc;

use file_cache::{Budget, Cache, FirstLevel, PolicyKind};
use lab::cache_study::{Cell, Numbers, Pair, Part, Store};
use lab::observe::Others;
use os::clock;

use crate::drive::{Outcome, Times, Worker, run};
use crate::requests::{Key, keys, most_popular, requests};
use crate::stores::{
    Buckets, ByCopy, ByOwnReference, ByReference, LockFree, Metadata, OneMutex, OneRwLock,
    SeparateLru, StandardLru, TwoLevels,
};

/// Shards of the caches that have several.
const SHARDS: usize = 16;
/// Slots of a thread's first level.
const FIRST_LEVEL_SLOTS: usize = 1 << 14;

/// The keys, and the sequences of requests, which cells of equal keys and alpha share.
pub(crate) struct Inputs {
    keys: Vec<Key>,
    /// The number of requests of a measurement.
    count: usize,
    seed: u64,
    /// The sequences drawn so far, by number of keys and alpha.
    drawn: Vec<(u64, f64, Arc<[u32]>)>,
}

impl Inputs {
    /// Makes the inputs of the cells of a design that [`Design::check`] accepts: with so many keys,
    /// and so many requests in each measurement.
    ///
    /// [`Design::check`]: lab::cache_study::Design::check
    pub(crate) fn new(key_count: usize, count: usize, seed: u64) -> Self {
        Self { keys: keys(key_count), count, seed, drawn: Vec::new() }
    }

    /// Measures a cell.
    ///
    /// # Errors
    /// When a store answered a wrong value.
    pub(crate) fn measure(&mut self, cell: &Cell) -> Result<Numbers, String> {
        let others = Others::watch();
        let numbers = match cell.part {
            Part::Lists => self.list(cell),
            Part::Locks => self.lock(cell),
            Part::Copies => match cell.value_bytes {
                32 => self.copy::<32>(cell),
                256 => self.copy::<256>(cell),
                _ => self.copy::<4096>(cell),
            },
            Part::Levels => self.level(cell),
            Part::Policies => {
                let cache = Cache::new(policy(cell.store), entries(room(cell)), 1);
                self.drive(cell, || &cache)
            }
            Part::Crawler => self.beside_crawler(cell),
        };
        let others_share = others.and_then(|others| others.share());
        numbers
            .map(|numbers| Numbers { others_share, ..numbers })
            .map_err(|Wrong| format!("{cell}: it answered a value that belongs to another key"))
    }

    fn list(&mut self, cell: &Cell) -> Result<Numbers, Wrong> {
        let capacity = room(cell);
        match cell.store {
            Store::BesideMap => {
                let list = SeparateLru::new(capacity);
                self.drive(cell, || &list)
            }
            Store::VecDeque => {
                let list = StandardLru::<VecDeque<_>>::new(capacity);
                self.drive(cell, || &list)
            }
            Store::LinkedList => {
                let list = StandardLru::<LinkedList<_>>::new(capacity);
                self.drive(cell, || &list)
            }
            store => {
                let cache = Cache::new(policy(store), entries(capacity), 1);
                self.drive(cell, || &cache)
            }
        }
    }

    fn lock(&mut self, cell: &Cell) -> Result<Numbers, Wrong> {
        let all = self.keys.len();
        match cell.store {
            Store::Mutex => {
                let map = OneMutex::default();
                self.drive(cell, || &map)
            }
            Store::ReadersWriter => {
                let map = OneRwLock::default();
                self.drive(cell, || &map)
            }
            Store::BucketMutexes => {
                let map = Buckets::<Arc<Metadata>>::new(all);
                self.drive(cell, || &map)
            }
            Store::LockFree => {
                let map = LockFree::default();
                self.drive(cell, || &map)
            }
            Store::TwoLevels => {
                let cache = Cache::new(PolicyKind::Clock, entries(all * 2), SHARDS);
                self.drive(cell, || TwoLevels::new(&cache, FIRST_LEVEL_SLOTS))
            }
            store => {
                let sharded = matches!(store, Store::LruSharded | Store::ClockSharded);
                let shards = if sharded { SHARDS } else { 1 };
                let cache = Cache::new(policy(store), entries(all * 2), shards);
                self.drive(cell, || &cache)
            }
        }
    }

    fn copy<const BYTES: usize>(&mut self, cell: &Cell) -> Result<Numbers, Wrong> {
        let keys = cell.keys as usize;
        match cell.store {
            Store::Copy => {
                let values = Buckets::<[u8; BYTES]>::new(keys);
                self.drive(cell, || ByCopy(&values))
            }
            Store::Reference => {
                let values = Buckets::<Arc<[u8; BYTES]>>::new(keys);
                self.drive(cell, || ByReference(&values))
            }
            _ => {
                let second =
                    Cache::<[u8; BYTES]>::new(PolicyKind::Clock, entries(keys * 2), SHARDS);
                let first = || FirstLevel::new(keys * 4);
                self.drive(cell, || ByOwnReference { first: first(), second: &second })
            }
        }
    }

    /// Fills a store with the most popular keys that it has room for, then makes the requests.
    fn drive<W: Worker>(
        &mut self,
        cell: &Cell,
        worker: impl Fn() -> W + Sync,
    ) -> Result<Numbers, Wrong> {
        let requests = self.requests(cell);
        let keys = &self.keys[..cell.keys as usize];
        let threads = cell.threads as usize;
        let fill = run(&worker, keys, &most_popular(room(cell), keys.len()), 1);
        let driven = run(&worker, keys, &requests, threads);
        let made = &requests[..driven.requests];
        check_answers(driven.sum, made.iter().map(|&key| &keys[key as usize]))?;
        Ok(numbers(&fill, &driven))
    }

    /// The requests of all cells of equal keys and alpha, drawn when first needed.
    fn requests(&mut self, cell: &Cell) -> Arc<[u32]> {
        let (keys, alpha) = (cell.keys, cell.alpha);
        let known = self.drawn.iter().find(|one| (one.0, one.1) == (keys, alpha));
        if let Some((_, _, requests)) = known {
            return Arc::clone(requests);
        }
        let drawn: Arc<[u32]> = requests(keys as usize, alpha, self.count, self.seed).into();
        self.drawn.push((keys, alpha, Arc::clone(&drawn)));
        drawn
    }

    /// Measures a store that holds all keys, with a request for each in turn.
    fn level(&self, cell: &Cell) -> Result<Numbers, Wrong> {
        let keys = &self.keys[..cell.keys as usize];
        let rounds = (self.count * 4).div_ceil(keys.len());
        let cache = Cache::<Metadata>::new(policy(cell.store), entries(keys.len() * 2), 1);
        if cell.store == Store::Hash {
            let (_, cpu_ns) = in_turn(keys, rounds, |key| cache.hash(&key.name));
            return Ok(Numbers { cpu_ns, hit_percent: 100.0, ..Numbers::default() });
        }
        if cell.store == Store::TwoLevels {
            return all_in_turn(&mut TwoLevels::new(&cache, keys.len() * 16), keys, rounds);
        }
        all_in_turn(&mut &cache, keys, rounds)
    }

    /// Measures with a crawler: every other request is for the next of all keys, in order. Only the
    /// hits of the remaining requests count.
    fn beside_crawler(&mut self, cell: &Cell) -> Result<Numbers, Wrong> {
        let requests = self.requests(cell);
        let keys = &self.keys[..cell.keys as usize];
        let cache = Cache::<Metadata>::new(policy(cell.store), entries(room(cell)), 1);
        run(|| &cache, keys, &most_popular(room(cell), keys.len()), 1);
        let mut worker = &cache;
        let mut hits = 0_u32;
        let start = clock::cpu_time_thread();
        for (crawled, &wanted) in keys.iter().cycle().zip(requests.iter()) {
            is_hit(&mut worker, crawled)?;
            hits += u32::from(is_hit(&mut worker, &keys[wanted as usize])?);
        }
        let cpu = clock::cpu_time_thread().saturating_sub(start).as_nanos() as f64;
        Ok(Numbers {
            hit_percent: 100.0 * f64::from(hits) / requests.len() as f64,
            cpu_ns: cpu / (2.0 * requests.len() as f64),
            ..Numbers::default()
        })
    }
}

/// A store answered a value that belongs to another key.
#[derive(Debug, PartialEq, Eq)]
struct Wrong;

/// Checks that the sum of the answers is that of the requested keys.
fn check_answers<'k>(sum: u64, asked: impl Iterator<Item = &'k Key>) -> Result<(), Wrong> {
    let expected = asked.fold(0_u64, |sum, key| sum.wrapping_add(key.word()));
    if sum == expected { Ok(()) } else { Err(Wrong) }
}

/// Makes a whole request; returns whether it found its key.
fn is_hit(worker: &mut impl Worker, key: &Key) -> Result<bool, Wrong> {
    match worker.get(key) {
        Some(word) if word == key.word() => Ok(true),
        Some(_) => Err(Wrong),
        None => {
            worker.set(key);
            Ok(false)
        }
    }
}

fn numbers(fill: &Outcome, driven: &Outcome) -> Numbers {
    let requests = driven.requests as f64;
    Numbers {
        hit_percent: 100.0 * driven.hits as f64 / requests,
        cpu_ns: driven.cpu_ns as f64 / requests,
        millions_per_s: requests * 1e3 / driven.ns.max(1) as f64,
        get: pair(&driven.get),
        set: pair(&fill.set),
        evict: pair(&driven.evict),
        request: pair(&driven.request),
        ..Numbers::default()
    }
}

fn pair(times: &Times) -> Option<Pair> {
    Some(Pair { p50_ns: times.quantile(0.5)?, p99_ns: times.quantile(0.99)? })
}

fn all_in_turn(worker: &mut impl Worker, keys: &[Key], rounds: usize) -> Result<Numbers, Wrong> {
    // Three rounds let a first level grow to its size.
    for key in [keys; 3].concat() {
        is_hit(worker, &key)?;
    }
    let (sum, cpu_ns) = in_turn(keys, rounds, |key| worker.get(key).unwrap_or_default());
    check_answers(sum, std::iter::repeat_n(keys, rounds).flatten())?;
    Ok(Numbers { cpu_ns, hit_percent: 100.0, ..Numbers::default() })
}

/// Calls `act` for every key in turn; returns the sum of its results, and the CPU nanoseconds of
/// one call.
fn in_turn(keys: &[Key], rounds: usize, mut act: impl FnMut(&Key) -> u64) -> (u64, f64) {
    let mut sum = 0_u64;
    let start = clock::cpu_time_thread();
    for key in std::iter::repeat_n(keys, rounds).flatten() {
        sum = sum.wrapping_add(black_box(act(key)));
    }
    let cpu = clock::cpu_time_thread().saturating_sub(start);
    (sum, cpu.as_nanos() as f64 / (rounds * keys.len()) as f64)
}

/// The number of entries for which the store of a cell has room.
fn room(cell: &Cell) -> usize {
    ((cell.keys as f64 * cell.cached_percent / 100.0) as usize).max(1)
}

fn policy(store: Store) -> PolicyKind {
    match store {
        Store::Lru | Store::LruSharded => PolicyKind::Lru,
        Store::S3Fifo => PolicyKind::S3Fifo,
        _ => PolicyKind::Clock,
    }
}

fn entries(entries: usize) -> Budget {
    Budget { bytes: usize::MAX, descriptors: usize::MAX, entries }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::cache_study::Design;

    /// With three threads one request is left over.
    fn design() -> Design {
        Design {
            keys: 1 << 12,
            requests: 4000,
            alpha: 1.0,
            alphas: vec![0.5, 1.2],
            cached: 10.0,
            cached_percents: vec![10.0, 100.0],
            threads: vec![1, 3],
        }
    }

    fn inputs(design: &Design, seed: u64) -> Inputs {
        Inputs::new(design.keys as usize, design.requests as usize, seed)
    }

    #[test]
    fn every_cell_can_be_measured_and_answers_what_it_should() {
        let design = design();
        let mut inputs = inputs(&design, 1);
        for cell in design.cells() {
            let numbers = inputs.measure(&cell).expect("the answers are right");
            assert!(numbers.cpu_ns > 0.0, "{cell}");
            assert!(
                numbers.others_share.is_some_and(|share| (0.0..=1.0).contains(&share)),
                "{cell}"
            );
            let all_cached = cell.cached_percent == 100.0;
            assert_eq!(numbers.hit_percent == 100.0, all_cached, "{cell}: {numbers:?}");
            let is_driven = !matches!(cell.part, Part::Levels | Part::Crawler);
            assert_eq!(numbers.get.is_some() && numbers.set.is_some(), is_driven, "{cell}");
            let evicts = is_driven && !all_cached;
            assert_eq!(numbers.evict.is_some(), evicts, "{cell}");
        }
    }

    /// All LRU lists of equal room hit the same requests, whatever their data structures.
    #[test]
    fn all_lists_are_the_same_lru() {
        let design = design();
        let mut inputs = inputs(&design, 7);
        let lists = design.cells().into_iter().filter(|cell| cell.part == Part::Lists);
        let one_thread: Vec<Cell> = lists.filter(|cell| cell.threads == 1).collect();
        for cell in &one_thread {
            let own = inputs.measure(cell).expect("right").hit_percent;
            let of_lru = Cell { store: Store::Lru, ..cell.clone() };
            assert_eq!(own, inputs.measure(&of_lru).expect("right").hit_percent, "{cell}");
        }
    }

    #[test]
    fn a_wrong_answer_is_reported() {
        struct Liar;
        impl Worker for Liar {
            fn get(&mut self, _: &Key) -> Option<u64> {
                Some(1)
            }
            fn set(&mut self, _: &Key) -> bool {
                false
            }
        }
        let design = design();
        let cell = design.cells()[0].clone();
        assert_eq!(inputs(&design, 1).drive(&cell, || Liar), Err(Wrong));
    }
}
