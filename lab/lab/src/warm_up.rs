//! What comes before a window, in studies, searches and comparisons alike: everything is requested
//! once and checked, then the server is loaded until it no longer improves, or for as long as the
//! caller can afford; and how long a run takes in all.

use crate::trial::{LoadSetup, RunFailure, Target, Trial};

/// While warming up, a server still improves if it needs this much less for a request than before,
/// or serves this many more requests, as a share.
const IMPROVEMENT: f64 = 0.05;

/// The length of a window of warming up, as a part of the window; and its least in seconds.
const WARM_UP: (f64, f64) = (0.25, 0.25);

/// Windows that warming up is estimated to take: most servers are steady after the second, which
/// the third shows.
pub(crate) const WARM_UPS_ESTIMATED: u32 = 3;

/// Seconds that starting a server, priming it and stopping it are estimated to take.
const START_S: f64 = 1.0;

/// How a server is made ready.
#[derive(Clone, Copy, Debug)]
pub struct Preparation<'a> {
    /// Copies of which everything is requested once, each by a generator that reaches it. Empty
    /// where the page cache has been filled as it is to be.
    pub primed: &'a [(Target<'a>, usize)],
    /// Whether everything is to come from memory: a server that has just read from the disk is not
    /// ready.
    pub reads_nothing: bool,
    /// How many windows of warming up are allowed.
    pub windows_max: u32,
}

/// As many windows of warming up as any server needs that ever becomes steady.
pub const UNTIL_STEADY: u32 = 12;

/// How a server was warmed up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp {
    /// The seconds of warming up.
    pub seconds: f64,
    /// Whether it had stopped improving by then.
    pub is_steady: bool,
}

/// Seconds of each window of warming up before a window of this length.
pub fn warm_up_s(window_s: f64) -> f64 {
    (window_s * WARM_UP.0).max(WARM_UP.1)
}

/// Seconds that a run with a window of this length, and this many windows of warming up before it,
/// is estimated to take.
pub fn run_s(window_s: f64, warm_ups: u32) -> f64 {
    START_S + f64::from(warm_ups) * warm_up_s(window_s) + window_s
}

impl LoadSetup {
    /// Makes a server ready for windows like `trial`.
    ///
    /// # Errors
    /// What it serves wrong, in a line; or as [`LoadSetup::run`].
    pub fn make_ready(
        &self,
        server: Target<'_>,
        trial: &Trial<'_>,
        preparation: &Preparation<'_>,
    ) -> Result<WarmUp, RunFailure> {
        for &(copy, generator) in preparation.primed {
            self.prime(copy, generator, trial.workload)?;
        }
        self.warm_up(server, trial, preparation)
    }

    /// Loads a server until it no longer improves: until a window neither needs less processor time
    /// for a request than the best before it, nor serves more requests, nor reads much less from
    /// the disk; or nothing at all, where everything is to come from memory: the pages of the
    /// programs themselves come from the disk, too.
    fn warm_up(
        &self,
        server: Target<'_>,
        trial: &Trial<'_>,
        preparation: &Preparation<'_>,
    ) -> Result<WarmUp, RunFailure> {
        let windows_max = preparation.windows_max;
        let window_s = warm_up_s(trial.window_s);
        let mut progress = Progress::default();
        for number in 1..=windows_max {
            let seed = trial.seed.wrapping_add(1000 + u64::from(number));
            // Each of these windows begins without sessions, which makes them alike.
            let trial = Trial { window_s, seed, waits_for_sessions: false, ..*trial };
            let measured = self.run(server, &trial)?;
            let cpu_us = measured.cpu_us_per_request().unwrap_or(f64::INFINITY);
            let seconds = window_s * f64::from(number);
            let read_bytes = measured.observed.get("block_read_bytes").copied().unwrap_or(0.0);
            let throughput = measured.figures.throughput_per_s;
            let is_cold = preparation.reads_nothing && read_bytes > 0.0;
            if !progress.is_improved_by(cpu_us, throughput, read_bytes) && !is_cold {
                return Ok(WarmUp { seconds, is_steady: true });
            }
        }
        Ok(WarmUp { seconds: window_s * f64::from(windows_max), is_steady: false })
    }
}

/// The best values of the windows of warming up so far.
#[derive(Debug)]
struct Progress {
    cpu_us: f64,
    throughput: f64,
    read_bytes: f64,
}

impl Default for Progress {
    /// No window yet: the first window counts as an improvement.
    fn default() -> Self {
        Self { cpu_us: f64::INFINITY, throughput: 0.0, read_bytes: f64::INFINITY }
    }
}

impl Progress {
    fn is_improved_by(&mut self, cpu_us: f64, throughput: f64, read_bytes: f64) -> bool {
        let is_first = self.read_bytes.is_infinite();
        let is_improved = is_first
            || cpu_us < self.cpu_us * (1.0 - IMPROVEMENT)
            || throughput > self.throughput * (1.0 + IMPROVEMENT)
            // What is read on purpose, page by page, goes up and down by less than half.
            || read_bytes < self.read_bytes / 2.0;
        self.cpu_us = self.cpu_us.min(cpu_us);
        self.throughput = self.throughput.max(throughput);
        self.read_bytes = self.read_bytes.min(read_bytes);
        is_improved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warming_up_ends_when_nothing_improves() {
        let mut progress = Progress::default();
        let mut improves = |cpu_us, throughput, read_bytes| {
            progress.is_improved_by(cpu_us, throughput, read_bytes)
        };
        assert!(improves(100.0, 1000.0, 90_000.0), "the first window proves nothing");
        assert!(improves(60.0, 1000.0, 90_000.0), "cheaper");
        assert!(improves(60.0, 1200.0, 90_000.0), "faster");
        assert!(improves(60.0, 1200.0, 4096.0), "nearly all is in memory now");
        assert!(improves(60.0, 1200.0, 0.0), "all is");
        assert!(!improves(58.0, 1210.0, 0.0), "hardly");
        assert!(!improves(70.0, 900.0, 4096.0), "worse is not better");
    }

    #[test]
    fn a_run_is_estimated_with_its_warming_up() {
        assert_eq!((run_s(2.0, 1), run_s(2.0, 3)), (3.5, 4.5));
        assert_eq!(run_s(0.1, 1), 1.35, "warming up has a least length");
    }
}
