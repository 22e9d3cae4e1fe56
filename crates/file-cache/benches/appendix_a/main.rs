//! Appendix A of Radhakrishnan, "Comparative study of concurrent programming models" (2019), asked
//! again of this crate: lists, locks, copies, and the policies the appendix does not have.
//!
//! `cargo bench -p file-cache` takes about a minute; `cargo test --benches` runs the same with
//! small parameters, as a test. Times are nanoseconds: a pair is median / 99th percentile by
//! the clock, and includes reading it once, which the first line tells; CPU is the mean processor
//! time of a request, which other programs on the machine disturb less. The checksum depends on the
//! requests only, not on which of them hit: it differs if a store ever answers a wrong value.

mod stores;
mod workload;

use std::collections::{LinkedList, VecDeque};
use std::sync::Arc;

use file_cache::{Budget, Cache, FirstLevel, PolicyKind};
use stores::{
    Buckets, ByCopy, ByOwnReference, ByReference, LockFree, Metadata, OneMutex, OneRwLock,
    SeparateLru, StandardLru, TwoLevels,
};
use workload::{Key, Latencies, Outcome, Worker, keys, now, run, scatter, thread_cpu_ns, zipf};

const ALPHAS: [f64; 4] = [0.6, 0.8, 1.0, 1.2];
const SHARES_PERCENT: [usize; 3] = [10, 50, 100];
const THREADS: [usize; 3] = [1, 2, 4];

/// An outcome of filling a store and one of driving it.
struct Measured {
    name: String,
    fill: Outcome,
    run: Outcome,
}

fn main() {
    // `cargo bench` says so; anything else is a test run.
    let full = std::env::args().any(|argument| argument == "--bench");
    let (keys, requests) = if full { (1 << 20, 1 << 19) } else { (1 << 12, 1 << 13) };
    let start = now();
    let mut study = Study::new(keys, requests);
    println!("{keys} keys, {requests} requests; reading the clock takes {} ns", clock_cost());
    study.lists_by_share();
    study.lists_by_alpha();
    study.locks();
    study.copies_and_references();
    study.levels();
    study.policies();
    study.scans();
    println!("\nchecksum {:016x}", study.checksum);
    println!("{:.1} s", start.elapsed().as_secs_f64());
}

/// The keys, and for each of [`ALPHAS`] the requests to measure with.
struct Study {
    keys: Vec<Key>,
    requests: [Vec<u32>; 4],
    checksum: u64,
}

impl Study {
    fn new(key_count: usize, request_count: usize) -> Self {
        let requests = ALPHAS.map(|alpha| zipf(key_count, alpha, request_count));
        Self { keys: keys(key_count), requests, checksum: 0 }
    }

    fn lists_by_share(&mut self) {
        heading(
            "Lists and the share of keys that fit (A.2, Figure A.3): LRU, one lock, one thread, alpha 1.0",
            "list                       cached %  hit %  get          set          evict",
        );
        for share in SHARES_PERCENT {
            for measured in self.lists(share, ALPHA_ONE) {
                let Measured { name, fill, run } = measured;
                let times = [&run.get, &fill.set, &run.evict].map(Latencies::summary);
                let [get, set, evict] = times;
                let hits = run.hit_percent();
                println!("{name:26} {share:8} {hits:6.1}  {get:12} {set:12} {evict}");
            }
        }
    }

    fn lists_by_alpha(&mut self) {
        heading(
            "Lists and popularity (A.2, Figure A.4): LRU, one lock, one thread, 10 % of keys cached",
            "list                        alpha  hit %  request       CPU",
        );
        for (number, alpha) in ALPHAS.iter().enumerate() {
            for Measured { name, run, .. } in self.lists(10, number) {
                let (hits, mean) = (run.hit_percent(), run.cpu_ns_per_request());
                println!(
                    "{name:26} {alpha:6.1} {hits:6.1}  {:12} {mean:4.0}",
                    run.request.summary()
                );
            }
        }
    }

    /// Fills and drives each LRU with room for `share` percent of the keys.
    fn lists(&mut self, share: usize, alpha: usize) -> Vec<Measured> {
        let capacity = self.keys.len() * share / 100;
        let cache = Cache::new(PolicyKind::Lru, entries(capacity), 1);
        let linked = self.measure("index-linked (this crate)", capacity, alpha, || &cache);
        drop(cache);
        let separate = SeparateLru::new(capacity);
        let separate = self.measure("list beside the map", capacity, alpha, || &separate);
        let queue = StandardLru::<VecDeque<_>>::new(capacity);
        let queue = self.measure("standard VecDeque", capacity, alpha, || &queue);
        let list = StandardLru::<LinkedList<_>>::new(capacity);
        let list = self.measure("standard LinkedList", capacity, alpha, || &list);
        vec![linked, separate, queue, list]
    }

    fn locks(&mut self) {
        heading(
            "Locks (A.1): all keys cached, alpha 1.0",
            "store                                threads  CPU  million/s  get",
        );
        let all = self.keys.len();
        self.lock("map, one mutex", &OneMutex::default());
        self.lock("map, one readers-writer lock", &OneRwLock::default());
        self.lock("map, a mutex for each bucket", &Buckets::<Arc<Metadata>>::new(all));
        self.lock("map, lock-free (papaya)", &LockFree::default());
        for (kind, shards) in [(PolicyKind::Lru, 1), (PolicyKind::Lru, 16)] {
            let cache = Cache::new(kind, entries(all * 2), shards);
            self.lock(&format!("this crate, {kind}, shards: {shards}"), &cache);
        }
        for shards in [1, 16] {
            let cache = Cache::new(PolicyKind::Clock, entries(all * 2), shards);
            self.lock(&format!("this crate, clock, shards: {shards}"), &cache);
        }
        let cache = Cache::new(PolicyKind::Clock, entries(all * 2), 16);
        self.by_threads("this crate, clock, both levels", || TwoLevels::new(&cache, 1 << 14));
    }

    fn lock<S: Sync>(&mut self, name: &str, store: &S)
    where
        for<'s> &'s S: Worker,
    {
        self.by_threads(name, || store);
    }

    fn by_threads<W: Worker>(&mut self, name: &str, worker: impl Fn() -> W + Sync) {
        let fill = most_popular(self.keys.len(), self.keys.len());
        run(&worker, &self.keys, &fill, 1);
        for threads in THREADS {
            let outcome = run(&worker, &self.keys, &self.requests[ALPHA_ONE], threads);
            let (rate, get) = (outcome.millions_per_second(), outcome.get.summary());
            let cpu = outcome.cpu_ns_per_request();
            println!("{name:36} {threads:7} {cpu:4.0} {rate:10.2}  {get}");
            self.count(&outcome);
        }
    }

    fn copies_and_references(&mut self) {
        heading(
            "By copy and by reference (A.1): a mutex for each bucket, 4096 keys, alpha 1.2",
            "bytes  lookup                        1 thread    2 threads   4 threads (CPU)",
        );
        // Few keys: the values, not the index, are what misses the processor's caches.
        let keys = self.keys.len().min(1 << 12);
        let requests = zipf(keys, ALPHAS[3], self.requests[0].len());
        self.copies::<32>(&requests, keys);
        self.copies::<256>(&requests, keys);
        self.copies::<4096>(&requests, keys);
    }

    fn copies<const BYTES: usize>(&mut self, requests: &[u32], keys: usize) {
        let copies = Buckets::<[u8; BYTES]>::new(keys);
        self.copy(&format!("{BYTES:5}  by copy"), requests, keys, || ByCopy(&copies));
        let references = Buckets::<Arc<[u8; BYTES]>>::new(keys);
        let worker = || ByReference(&references);
        self.copy(&format!("{BYTES:5}  by reference"), requests, keys, worker);
        let second = Cache::<[u8; BYTES]>::new(PolicyKind::Clock, entries(keys * 2), 16);
        let worker = || ByOwnReference { first: FirstLevel::new(keys * 4), second: &second };
        self.copy(&format!("{BYTES:5}  by a worker's own reference"), requests, keys, worker);
    }

    fn copy<W: Worker>(
        &mut self,
        name: &str,
        requests: &[u32],
        keys: usize,
        worker: impl Fn() -> W + Sync,
    ) {
        run(&worker, &self.keys, &most_popular(keys, keys), 1);
        let times = THREADS.map(|threads| {
            let outcome = run(&worker, &self.keys, requests, threads);
            self.count(&outcome);
            outcome.cpu_ns_per_request()
        });
        let [one, two, four] = times;
        println!("{name:35} {one:9.0}   {two:9.0}   {four:9.0}");
    }

    fn levels(&mut self) {
        heading(
            "Levels (beyond Appendix A): every key cached in both, one thread, each key in turn (CPU)",
            "  keys   hash   first level   second level: clock   lru",
        );
        for count in [64, 1024, 4096] {
            let keys = self.keys[..count].to_vec();
            let rounds = self.requests[0].len() * 4 / count;
            let [clock, lru] = [PolicyKind::Clock, PolicyKind::Lru]
                .map(|kind| Cache::<Metadata>::new(kind, entries(count * 2), 1));
            let hash = cpu_each(&keys, rounds, |key| clock.hash(&key.name));
            let mut first = TwoLevels::new(&clock, count * 16);
            let first = self.level(&mut first, &keys, rounds);
            let second = [&clock, &lru].map(|mut cache| self.level(&mut cache, &keys, rounds));
            let [clock, lru] = second;
            println!("{count:6} {hash:6.1} {first:13.1} {clock:21.1} {lru:5.1}");
        }
    }

    fn level(&mut self, worker: &mut impl Worker, keys: &[Key], rounds: usize) -> f64 {
        // Three times, for a first level to grow to its size.
        for key in [keys; 3].concat() {
            if worker.get(&key).is_none() {
                worker.set(&key);
            }
        }
        let mut found = 0;
        let time = cpu_each(keys, rounds, |key| {
            let word = worker.get(key).unwrap_or_default();
            found += word;
            word
        });
        self.checksum = self.checksum.rotate_left(1) ^ found;
        time
    }

    fn policies(&mut self) {
        heading(
            "Policies (beyond Appendix A, which has LRU only): one thread, hit % (CPU)",
            "policy   cached %    alpha 0.6     alpha 0.8     alpha 1.0     alpha 1.2",
        );
        for share in [1, 10, 50] {
            for kind in PolicyKind::ALL {
                let columns = [0, 1, 2, 3].map(|alpha| self.policy(kind, share, alpha));
                println!("{kind:8} {share:8}    {}", columns.join("  "));
            }
        }
    }

    fn policy(&mut self, kind: PolicyKind, share: usize, alpha: usize) -> String {
        let capacity = self.keys.len() * share / 100;
        let cache = Cache::new(kind, entries(capacity), 1);
        let Measured { run, .. } = self.measure("", capacity, alpha, || &cache);
        format!("{:5.1} ({:4.0})", run.hit_percent(), run.cpu_ns_per_request())
    }

    /// A crawler: every other request is for the next of all keys, in order.
    fn scans(&mut self) {
        heading(
            "Policies under a scan (beyond Appendix A): 1 % cached, alpha 1.0, every other request a crawler's",
            "policy   hit % of the other requests",
        );
        let capacity = self.keys.len() / 100;
        let zipf = &self.requests[ALPHA_ONE];
        let mask = self.keys.len() - 1;
        let crawl = (0..zipf.len()).map(|n| (n & mask) as u32);
        let mixed: Vec<u32> = crawl.zip(zipf).flat_map(|(cold, &hot)| [cold, hot]).collect();
        for kind in PolicyKind::ALL {
            let cache = Cache::new(kind, entries(capacity), 1);
            run(|| &cache, &self.keys, &most_popular(capacity, self.keys.len()), 1);
            let outcome = run(|| &cache, &self.keys, &mixed, 1);
            // The crawler's own requests hit next to nothing.
            println!("{kind:8} {:5.1}", outcome.hit_percent() * 2.0);
            self.count(&outcome);
        }
    }

    /// Fills a store with the most popular keys, then makes the requests of one alpha.
    fn measure<W: Worker>(
        &mut self,
        name: &str,
        capacity: usize,
        alpha: usize,
        worker: impl Fn() -> W + Sync,
    ) -> Measured {
        let fill = run(&worker, &self.keys, &most_popular(capacity, self.keys.len()), 1);
        let run = run(&worker, &self.keys, &self.requests[alpha], 1);
        self.count(&run);
        Measured { name: name.into(), fill, run }
    }

    fn count(&mut self, outcome: &Outcome) {
        self.checksum = self.checksum.rotate_left(1) ^ outcome.checksum;
    }
}

/// CPU time of one `act`, which is done to every key in turn.
fn cpu_each(keys: &[Key], rounds: usize, mut act: impl FnMut(&Key) -> u64) -> f64 {
    let start = thread_cpu_ns();
    for key in std::iter::repeat_n(keys, rounds).flatten() {
        std::hint::black_box(act(key));
    }
    thread_cpu_ns().saturating_sub(start) as f64 / (rounds * keys.len()) as f64
}

/// Where [`ALPHAS`] has 1.0.
const ALPHA_ONE: usize = 2;

/// The `count` most popular of `keys`, the most popular last, as if used most recently.
fn most_popular(count: usize, keys: usize) -> Vec<u32> {
    (0..count).rev().map(|rank| scatter(rank, keys)).collect()
}

fn entries(entries: usize) -> Budget {
    Budget { bytes: usize::MAX, descriptors: usize::MAX, entries }
}

fn heading(title: &str, columns: &str) {
    println!("\n{title}\n{columns}");
}

fn clock_cost() -> usize {
    const READINGS: u32 = 10_000;
    let start = now();
    for _ in 0..READINGS {
        std::hint::black_box(now());
    }
    (start.elapsed() / READINGS).as_nanos() as usize
}
