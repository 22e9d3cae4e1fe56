//! Threads that send requests to a store, and the times of these requests. The module depends on no
//! particular store.

use std::sync::Barrier;
use std::thread;

use hdrhistogram::Histogram;
use os::clock;

use crate::requests::Key;

/// One thread's access to a store.
pub(crate) trait Worker {
    /// Looks up the key; returns [`Key::word`] from its value if it is in the store.
    fn get(&mut self, key: &Key) -> Option<u64>;

    /// Loads the key; returns whether another entry was evicted.
    fn set(&mut self, key: &Key) -> bool;
}

/// The results of a run; times are wall-clock nanoseconds unless documented otherwise.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Lookups that found their key.
    pub(crate) get: Times,
    /// Loads that evicted no entry.
    pub(crate) set: Times,
    /// Loads that evicted an entry.
    pub(crate) evict: Times,
    /// Whole requests: a lookup and, where it missed, a load.
    pub(crate) request: Times,
    pub(crate) requests: usize,
    pub(crate) hits: usize,
    pub(crate) ns: u64,
    /// Processor time of all threads together: other programs on the machine do not count, nor does
    /// waiting for a lock while a thread sleeps.
    pub(crate) cpu_ns: u64,
    /// The sum of the words that were answered.
    pub(crate) sum: u64,
}

impl Outcome {
    fn count_hit(&mut self, word: u64) {
        self.hits += 1;
        self.sum = self.sum.wrapping_add(word);
    }

    /// Adds the value of a load as a hit would have, so that the sum shows wrong values, not
    /// misses.
    fn count_load(&mut self, key: &Key) {
        self.sum = self.sum.wrapping_add(key.word());
    }

    fn merge(mut self, part: &Self) -> Self {
        self.get.merge(&part.get);
        self.set.merge(&part.set);
        self.evict.merge(&part.evict);
        self.request.merge(&part.request);
        self.requests += part.requests;
        self.hits += part.hits;
        self.cpu_ns += part.cpu_ns;
        self.ns = self.ns.max(part.ns);
        self.sum = self.sum.wrapping_add(part.sum);
        self
    }
}

/// One of this many requests is timed: reading the clock takes about as long as a lookup.
const TIMED_SHARE: usize = 8;

/// Makes the requests, divided evenly among the threads, each of which has a worker of its own. A
/// remainder that cannot be divided evenly is left out.
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
        let (start, cpu_start) = (clock::now_ns(), clock::cpu_time_thread());
        let mut outcome = work(&mut worker, keys, requests);
        outcome.cpu_ns = clock::cpu_time_thread().saturating_sub(cpu_start).as_nanos() as u64;
        outcome.ns = clock::now_ns() - start;
        outcome
    };
    let part = &part;
    thread::scope(|scope| {
        let parts = requests.chunks_exact(requests.len() / threads).take(threads);
        let parts: Vec<_> = parts.map(|requests| scope.spawn(move || part(requests))).collect();
        let outcomes = parts.into_iter().map(|part| part.join().expect("a worker does not panic"));
        outcomes.reduce(|all, part| all.merge(&part)).unwrap_or_default()
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
    let start = clock::now_ns();
    let found = worker.get(key);
    let looked = clock::now_ns() - start;
    if let Some(word) = found {
        outcome.count_hit(word);
        outcome.get.add(looked);
        outcome.request.add(looked);
        return;
    }
    outcome.count_load(key);
    let start = clock::now_ns();
    let evicted = worker.set(key);
    let loaded = clock::now_ns() - start;
    outcome.request.add(looked + loaded);
    if evicted { outcome.evict.add(loaded) } else { outcome.set.add(loaded) }
}

/// A histogram of durations in nanoseconds, precise to a hundredth of the value.
pub(crate) struct Times(Histogram<u32>);

impl Default for Times {
    fn default() -> Self {
        let mut times = Histogram::new(2).expect("two digits are allowed");
        times.auto(true);
        Self(times)
    }
}

impl Times {
    fn add(&mut self, ns: u64) {
        self.0.record(ns).expect("it grows as needed");
    }

    fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("it grows as needed");
    }

    /// The `q`-quantile of the durations, in nanoseconds; none if there are none.
    pub(crate) fn quantile(&self, q: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(q) as f64)
    }
}
