//! What is asked for, by whom, and how long it took: Zipf requests over a million file names, the
//! threads that make them, and quantiles. It knows none of the stores that it drives.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// A file name and its hash, which is computed before the clock starts: every store is given it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) hash: u64,
    pub(crate) name: [u8; 24],
}

impl Key {
    /// What every store answers for this key.
    pub(crate) fn word(&self) -> u64 {
        self.hash & 0xFF
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Hands out the hash that a [`Key`] brings along.
#[derive(Clone, Copy, Default)]
pub(crate) struct GivenHash(u64);

impl Hasher for GivenHash {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a key writes its hash only");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// `count` file names like those of SPECweb99, `/dir00042/class1_0000123`.
/// They are hashed as [`file_cache::Cache::hash`] does it, with a fixed seed.
pub(crate) fn keys(count: usize) -> Vec<Key> {
    let key = |n: usize| {
        let text = format!("/dir{:05}/class{}_{:07}", n % 36_000, n % 4, n / 4);
        let name: [u8; 24] = text.as_bytes().try_into().expect("the format is 24 bytes wide");
        let mut hasher = DefaultHasher::new();
        hasher.write(&name);
        Key { hash: hasher.finish(), name }
    };
    (0..count).map(key).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same requests in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// `count` indices of keys, the key of rank r asked for in proportion to 1/r^alpha. Ranks are
/// scattered over the `keys` (a power of two), so that popular keys are not neighbours in memory.
pub(crate) fn zipf(keys: usize, alpha: f64, count: usize) -> Vec<u32> {
    let mut sum = 0.0;
    let weigh = |rank: usize| {
        sum += (rank as f64).powf(-alpha);
        sum
    };
    let cumulative: Vec<f64> = (1..=keys).map(weigh).collect();
    let mut random = Random(alpha.to_bits());
    let mut draw = || {
        let point = random.unit() * cumulative[keys - 1];
        scatter(cumulative.partition_point(|&sum| sum <= point), keys)
    };
    (0..count).map(|_| draw()).collect()
}

/// The key of a rank, one to one because the factor is odd and `keys` a power of two.
pub(crate) fn scatter(rank: usize, keys: usize) -> u32 {
    (rank.wrapping_mul(0x9E37_79B1) & (keys - 1)) as u32
}

/// One thread's access to a store.
pub(crate) trait Worker {
    /// [`Key::word`] from the value, if the key is there.
    fn get(&mut self, key: &Key) -> Option<u64>;

    /// Loads the key and says whether another had to leave.
    fn set(&mut self, key: &Key) -> bool;
}

/// What a run found out; times are wall-clock unless they say otherwise.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Lookups that found their key.
    pub(crate) get: Latencies,
    /// Loads that evicted nothing.
    pub(crate) set: Latencies,
    /// Loads that evicted.
    pub(crate) evict: Latencies,
    /// Whole requests: a lookup and, where it missed, a load.
    pub(crate) request: Latencies,
    pub(crate) requests: usize,
    pub(crate) hits: usize,
    pub(crate) seconds: f64,
    pub(crate) cpu_ns: u64,
    pub(crate) checksum: u64,
}

impl Outcome {
    pub(crate) fn hit_percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.requests as f64
    }

    pub(crate) fn millions_per_second(&self) -> f64 {
        self.requests as f64 / self.seconds / 1e6
    }

    fn count_hit(&mut self, word: u64) {
        self.hits += 1;
        self.checksum = self.checksum.wrapping_add(word);
    }

    /// As a hit would have counted, so that the checksum tells wrong values and not misses.
    fn count_load(&mut self, key: &Key) {
        self.checksum = self.checksum.wrapping_add(key.word());
    }

    /// CPU time of all threads together: other programs on the machine do not count, nor does
    /// waiting for a lock once a thread sleeps.
    pub(crate) fn cpu_ns_per_request(&self) -> f64 {
        self.cpu_ns as f64 / self.requests as f64
    }
}

/// One request in this many is timed: reading the clock takes about as long as a lookup.
const TIMED_SHARE: usize = 8;

/// Makes the requests, divided among the threads, of which each has a worker of its own.
pub(crate) fn run<W: Worker>(
    worker: impl Fn() -> W + Sync,
    keys: &[Key],
    requests: &[u32],
    threads: usize,
) -> Outcome {
    let barrier = Barrier::new(threads);
    let part = |requests: &[u32]| {
        let mut worker = worker();
        barrier.wait();
        let (start, cpu_start) = (now(), thread_cpu_ns());
        let mut outcome = work(&mut worker, keys, requests);
        outcome.cpu_ns = thread_cpu_ns().saturating_sub(cpu_start);
        outcome.seconds = start.elapsed().as_secs_f64();
        outcome
    };
    let part = &part;
    thread::scope(|scope| {
        let parts = requests.chunks(requests.len() / threads).take(threads);
        let parts: Vec<_> = parts.map(|requests| scope.spawn(move || part(requests))).collect();
        let outcomes = parts.into_iter().map(|part| part.join().expect("a worker does not panic"));
        outcomes.reduce(|all, part| merge(all, &part)).unwrap_or_default()
    })
}

fn work(worker: &mut impl Worker, keys: &[Key], requests: &[u32]) -> Outcome {
    let mut outcome = Outcome { requests: requests.len(), ..Outcome::default() };
    for (n, &request) in requests.iter().enumerate() {
        let key = &keys[request as usize];
        if n % TIMED_SHARE == 0 {
            timed_request(worker, key, &mut outcome);
        } else if let Some(word) = worker.get(key) {
            outcome.count_hit(word);
        } else {
            worker.set(key);
            outcome.count_load(key);
        }
    }
    outcome
}

fn timed_request(worker: &mut impl Worker, key: &Key, outcome: &mut Outcome) {
    let start = now();
    let found = worker.get(key);
    let looked = start.elapsed().as_nanos();
    outcome.request.add(looked);
    if let Some(word) = found {
        outcome.count_hit(word);
        outcome.get.add(looked);
        return;
    }
    outcome.count_load(key);
    let start = now();
    let evicted = worker.set(key);
    let loaded = start.elapsed().as_nanos();
    outcome.request.replace_last(looked, looked + loaded);
    if evicted { outcome.evict.add(loaded) } else { outcome.set.add(loaded) }
}

fn merge(mut all: Outcome, part: &Outcome) -> Outcome {
    all.get.merge(&part.get);
    all.set.merge(&part.set);
    all.evict.merge(&part.evict);
    all.request.merge(&part.request);
    all.requests += part.requests;
    all.hits += part.hits;
    all.cpu_ns += part.cpu_ns;
    all.seconds = all.seconds.max(part.seconds);
    all.checksum = all.checksum.wrapping_add(part.checksum);
    all
}

/// Counts of durations, in buckets of 8 ns up to 32 µs; the last bucket has all that are longer.
#[derive(Clone)]
pub(crate) struct Latencies {
    counts: Vec<u32>,
    total: usize,
}

const BUCKET_NS: usize = 8;
const BUCKETS: usize = 4096;

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Latencies {
    pub(crate) fn add(&mut self, nanoseconds: u128) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    fn replace_last(&mut self, wrong: u128, right: u128) {
        self.counts[bucket(wrong)] -= 1;
        self.counts[bucket(right)] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(all, part)| *all += part);
        self.total += other.total;
    }

    /// Median and 99th percentile in nanoseconds, or a dash if nothing was measured.
    pub(crate) fn summary(&self) -> String {
        if self.total == 0 {
            return "–".into();
        }
        format!("{} / {}", self.quantile(0.5), self.quantile(0.99))
    }

    fn quantile(&self, q: f64) -> usize {
        let mut left = (self.total as f64 * q) as usize;
        for (bucket, &count) in self.counts.iter().enumerate() {
            if left < count as usize {
                return bucket * BUCKET_NS;
            }
            left -= count as usize;
        }
        BUCKETS * BUCKET_NS
    }
}

fn bucket(nanoseconds: u128) -> usize {
    (nanoseconds as usize / BUCKET_NS).min(BUCKETS - 1)
}

/// What the scheduler has charged this thread with, up to its last tick; zero where the kernel does
/// not tell.
pub(crate) fn thread_cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
