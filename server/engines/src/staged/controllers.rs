//! SEDA's controllers as rules (Welsh, Culler, Brewer, SOSP 2001, §4, with the constants of their
//! source of October 2002): they decide what to change, given measurements. They have no clock, no
//! threads and no queues; `governor.rs` measures, and acts on their decisions.

use session::Tick;

/// The rule for the number of threads of a stage. A stage whose queue is longer than a threshold
/// gets one more; threads that have no work for a while end by themselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadController {
    pub(super) queue_len_min: usize,
    pub(super) threads_max: usize,
}

impl ThreadController {
    /// Whether a stage with `threads` threads is to get another.
    pub(super) fn wants_another(self, queue_len: usize, threads: usize) -> bool {
        queue_len >= self.queue_len_min && threads < self.threads_max
    }
}

/// The rule for the number of events that a stage takes at once: as few as it can without losing
/// throughput, since in a large batch the first event waits for the last.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchController {
    max: f64,
    target: f64,
    /// The best throughput so far, smoothed like the others.
    best: f64,
    smoothed: Option<f64>,
    is_growing: bool,
}

/// The weight of the past in smoothed values.
const PAST: f64 = 0.7;
const BATCH_FACTOR: f64 = 1.2;
/// Batches shrink while throughput is at least this part of the best.
const THROUGHPUT_LOW: f64 = 0.90;
/// Once batches grow, they do so until throughput is this part of the best again.
const THROUGHPUT_HIGH: f64 = 0.98;
/// Below the first and above the second part of the best throughput the load is another one: the
/// search begins anew.
const LOAD_FELL: f64 = 0.2;
const LOAD_ROSE: f64 = 2.0;

impl BatchController {
    pub(super) fn new(max: usize) -> Self {
        let max = max as f64;
        Self { max, target: max, best: 0.0, smoothed: None, is_growing: false }
    }

    /// Takes the throughput of the last period and returns the new bound on batches.
    pub(super) fn observe(&mut self, throughput: f64) -> usize {
        let throughput = smooth(&mut self.smoothed, throughput);
        let is_another_load = throughput < LOAD_FELL * self.best
            || (self.best > 0.0 && throughput >= LOAD_ROSE * self.best);
        if is_another_load {
            (self.best, self.target, self.is_growing) = (throughput, self.max, false);
            return self.batch();
        }
        self.best = self.best.max(throughput);
        let floor = if self.is_growing { THROUGHPUT_HIGH } else { THROUGHPUT_LOW };
        self.is_growing = throughput < floor * self.best;
        let target =
            if self.is_growing { self.target * BATCH_FACTOR } else { self.target / BATCH_FACTOR };
        self.target = target.clamp(1.0, self.max);
        self.batch()
    }

    fn batch(&self) -> usize {
        self.target.round() as usize // between 1 and the knob's value
    }
}

/// The rule for the number of connections that are accepted a second: as many as leave nine of ten
/// requests a response within the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmissionController {
    target_us: f64,
    smoothed: Option<f64>,
    per_second: f64,
}

/// Bounds of the rate, in connections a second.
const RATE_MIN: f64 = 0.05;
pub(super) const RATE_MAX: f64 = 5000.0;
/// Added to the rate while responses are well within the target.
const RATE_STEP: f64 = 0.5;
/// The rate is divided by this when responses are late.
const RATE_DIVISOR: f64 = 2.0;
/// Responses below the first part of the target are well within it, and above the second late.
const TARGET_LOW: f64 = 0.9;
const TARGET_HIGH: f64 = 1.2;
/// The number of response times that is enough to judge by.
pub(super) const SAMPLES_MAX: usize = 100;

impl AdmissionController {
    pub(super) fn new(target_ms: u64) -> Self {
        Self { target_us: target_ms as f64 * 1000.0, smoothed: None, per_second: RATE_MAX }
    }

    /// Takes response times in microseconds, which it may reorder, and returns how many connections
    /// may be accepted a second from now on. Without response times nothing changes.
    pub(super) fn observe(&mut self, times_us: &mut [u64]) -> f64 {
        if times_us.is_empty() {
            return self.per_second;
        }
        let rank = times_us.len() * 9 / 10;
        let (_, percentile, _) = times_us.select_nth_unstable(rank.min(times_us.len() - 1));
        let percentile_us = smooth(&mut self.smoothed, *percentile as f64);
        if percentile_us < TARGET_LOW * self.target_us {
            self.per_second += RATE_STEP;
        } else if percentile_us > TARGET_HIGH * self.target_us {
            self.per_second /= RATE_DIVISOR;
        }
        self.per_second = self.per_second.clamp(RATE_MIN, RATE_MAX);
        self.per_second
    }

    /// The smoothed 90th percentile of the last call of [`Self::observe`], in microseconds.
    pub(super) fn percentile_us(&self) -> f64 {
        self.smoothed.unwrap_or(0.0)
    }
}

/// A bucket of tokens: the accept stage takes one for each connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    tokens: f64,
    filled: Tick,
}

/// The number of tokens that save up while no connections come, at most.
const TOKENS_MAX: f64 = 10.0;

impl TokenBucket {
    pub(super) fn new(now: Tick) -> Self {
        Self { tokens: TOKENS_MAX, filled: now }
    }

    /// Checks whether there is a token. The error is when there will be one.
    pub(super) fn check(&mut self, now: Tick, per_second: f64) -> Result<(), Tick> {
        let earned = now.since(self.filled) as f64 / 1e6 * per_second;
        self.tokens = (self.tokens + earned).min(TOKENS_MAX);
        self.filled = self.filled.max(now);
        if self.tokens >= 1.0 {
            return Ok(());
        }
        let wait_us = (1.0 - self.tokens) / per_second * 1e6;
        Err(Tick(now.0 + wait_us.ceil() as u64))
    }

    /// Takes a token.
    pub(super) fn spend(&mut self) {
        self.tokens = (self.tokens - 1.0).max(0.0);
    }
}

fn smooth(smoothed: &mut Option<f64>, value: f64) -> f64 {
    let value = smoothed.map_or(value, |past| PAST * past + (1.0 - PAST) * value);
    *smoothed = Some(value);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_gets_threads_one_by_one_up_to_a_bound() {
        let controller = ThreadController { queue_len_min: 1000, threads_max: 20 };
        let cases = [(999, 1, false), (1000, 1, true), (5000, 19, true), (5000, 20, false)];
        for (queue_len, threads, expected) in cases {
            assert_eq!(controller.wants_another(queue_len, threads), expected, "{queue_len}");
        }
    }

    #[test]
    fn batches_shrink_while_throughput_lasts_and_grow_until_it_is_back() {
        let mut controller = BatchController::new(100);
        // 100 / 1.2, then / 1.2 again.
        assert_eq!([controller.observe(1000.0), controller.observe(1000.0)], [83, 69]);
        // Smoothed: 850, under 900. Growing goes on below 980.
        assert_eq!(controller.observe(500.0), 83);
        assert_eq!(controller.observe(1000.0), 100);
        assert_eq!(controller.observe(1000.0), 100, "0.927 of the best is not enough to stop");
        for _ in 0..8 {
            controller.observe(1000.0);
        }
        assert_eq!(controller.observe(1000.0), 33, "when it is enough, batches shrink again");
    }

    #[test]
    fn batches_never_leave_their_bounds() {
        let mut controller = BatchController::new(4);
        for _ in 0..50 {
            assert!((1..=4).contains(&controller.observe(10.0)));
        }
        assert_eq!(controller.observe(10.0), 1);
    }

    #[test]
    fn another_load_begins_the_search_anew() {
        for throughput in [10_000.0, 0.0] {
            let mut controller = BatchController::new(64);
            for _ in 0..20 {
                controller.observe(1000.0);
            }
            assert_eq!(controller.observe(1000.0), 1);
            let batch = (0..6).map(|_| controller.observe(throughput)).max();
            assert_eq!(batch, Some(64), "{throughput}");
        }
    }

    #[test]
    fn late_responses_halve_the_rate_and_early_ones_raise_it_by_a_half() {
        let mut controller = AdmissionController::new(10);
        assert_eq!(controller.observe(&mut []), 5000.0, "without a sample nothing changes");
        assert_eq!(controller.observe(&mut [20_000; 100]), 2500.0);
        assert_eq!(controller.observe(&mut [20_000; 100]), 1250.0);
        // Smoothed with 0.7 of the past: after two samples 20 has become 11.9, neither early nor
        // late.
        let fast = |controller: &mut AdmissionController| controller.observe(&mut [1000; 100]);
        assert_eq!([fast(&mut controller), fast(&mut controller)], [625.0, 625.0]);
        assert_eq!(fast(&mut controller), 625.5);
        assert!((7_000.0..9_000.0).contains(&controller.percentile_us()));
    }

    #[test]
    fn one_late_response_in_ten_is_allowed() {
        let mut times: Vec<u64> = (0..100).map(|at| if at < 9 { 90_000 } else { 100 }).collect();
        let mut controller = AdmissionController::new(10);
        controller.observe(&mut times);
        assert_eq!(controller.percentile_us(), 100.0);
    }

    #[test]
    fn the_rate_stays_in_its_bounds() {
        let mut controller = AdmissionController::new(1);
        for _ in 0..100 {
            controller.observe(&mut [50_000]);
        }
        assert_eq!(controller.observe(&mut [50_000]), 0.05);
        for _ in 0..20_000 {
            controller.observe(&mut [1]);
        }
        assert_eq!(controller.observe(&mut [1]), 5000.0);
    }

    #[test]
    fn a_bucket_has_ten_tokens_at_once_and_then_its_rate() {
        let mut bucket = TokenBucket::new(Tick(0));
        let mut take = |at: u64| bucket.check(Tick(at), 2.0).map(|()| bucket.spend());
        assert!((0..10).all(|_| take(0).is_ok()));
        assert_eq!(take(0), Err(Tick(500_000)));
        assert_eq!(take(500_000), Ok(()));
        assert_eq!(take(500_000), Err(Tick(1_000_000)));
        // No more are saved, however long no connection comes.
        assert!((0..10).all(|_| take(3_600_000_000).is_ok()));
        assert!(take(3_600_000_000).is_err());
    }
}
