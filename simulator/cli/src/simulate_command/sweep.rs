//! Runs many simulations at once, each in one thread, and shows their progress.
//!
//! The outcomes depend neither on the number of threads nor on their order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use coherence::{Machine, Options, Outcome, SimulationError, Workload, simulate};
use command::ProgressLine;
use command::estimate::minutes;
use os::clock;

/// One simulation.
pub(super) struct Point {
    pub(super) machine: Machine,
    pub(super) options: Options,
    pub(super) seed: u64,
}

/// Runs all points and returns their outcomes in the order of the points, or the first failure.
pub(super) fn run(
    workload: &Workload,
    points: &[Point],
    threads: usize,
) -> Result<Vec<Outcome>, SimulationError> {
    let next = AtomicUsize::new(0);
    let threads = threads.clamp(1, points.len().max(1));
    let progress = Progress::new("simulated", points.len() as u64, threads as u64);
    let progress = Mutex::new((progress, 0));
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(number) else { return done };
            let outcome = simulate(workload, &point.machine, point.options, point.seed);
            let failed = outcome.is_err();
            done.push((number, outcome));
            if failed {
                // The other threads end after their current points.
                next.store(points.len(), Ordering::Relaxed);
            }
            let mut progress = progress.lock().expect("no thread panics while it shows progress");
            progress.1 += 1;
            let count = progress.1;
            progress.0.show(count);
        }
    };
    let mut all = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let parts = running.into_iter().map(|one| one.join().expect("a simulation never panics"));
        parts.flatten().collect::<Vec<_>>()
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The least that must be done until it tells how long the rest takes: this part, or what was done
/// in this time.
const TELLING_PERCENT: u64 = 1;
const TELLING_US: u64 = 2_000_000;

/// How much is done, and how long the rest takes, for people at a terminal.
pub(super) struct Progress {
    what: &'static str,
    all: u64,
    /// How many parts are worked on at once. Until as many are done, the ones that are say little:
    /// the others have been worked on for as long.
    at_once: u64,
    begun_us: u64,
    /// The percentage and the seconds of the line that is shown.
    shown: Option<(u64, u64)>,
    line: ProgressLine,
}

impl Progress {
    pub(super) fn new(what: &'static str, all: u64, at_once: u64) -> Self {
        let line = ProgressLine::new();
        Self { what, all, at_once, begun_us: clock::now(), shown: None, line }
    }

    pub(super) fn show(&mut self, done: u64) {
        let took_us = clock::now() - self.begun_us;
        let now = Some((self.percent(done), took_us / 1_000_000));
        if self.shown != now {
            self.shown = now;
            self.line.print_on_terminal(&self.text(done, took_us));
        }
    }

    /// The line after this time.
    fn text(&self, done: u64, took_us: u64) -> String {
        let percent = self.percent(done);
        let bar = "#".repeat(percent as usize / 4);
        let left = match self.left_s(done, took_us) {
            Some(left_s) => format!(", about {} left", minutes(left_s.max(1.0))),
            None => String::new(),
        };
        format!("{} [{bar:25}] {percent} %{left}", self.what)
    }

    /// The seconds that the rest takes if it goes on as it did; none while too little is done to
    /// tell, and at the end.
    fn left_s(&self, done: u64, took_us: u64) -> Option<f64> {
        let is_enough = self.percent(done) >= TELLING_PERCENT || took_us >= TELLING_US;
        let tells = is_enough && (self.at_once.max(1)..self.all).contains(&done);
        tells.then(|| took_us as f64 / 1e6 * (self.all - done) as f64 / done as f64)
    }

    fn percent(&self, done: u64) -> u64 {
        (done * 100).checked_div(self.all).unwrap_or(100).min(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(all: u64, at_once: u64, done: u64, took_s: f64, expected: &str) {
        let progress = Progress::new("read", all, at_once);
        let text = progress.text(done, (took_s * 1e6) as u64);
        let (_, told) = text.split_once("] ").expect("the end of the bar");
        assert_eq!(told, expected, "{text}");
    }

    #[test]
    fn the_time_left_is_told_from_one_percent_or_two_seconds_on() {
        check(1000, 1, 9, 1.9, "0 %");
        check(1000, 1, 10, 1.9, "1 %, about 3 min left");
        check(1000, 1, 9, 2.0, "0 %, about 4 min left");
        check(1000, 1, 0, 60.0, "0 %");
        check(1000, 1, 250, 10.0, "25 %, about 30 s left");
        check(1000, 1, 999, 10.0, "99 %, about 1 s left");
        check(1000, 1, 1000, 10.0, "100 %");
        check(0, 1, 0, 10.0, "100 %");
        // Ten hours of a day are over.
        check(24, 1, 10, 36_000.0, "41 %, about 14.0 h left");
    }

    #[test]
    fn the_first_of_parts_at_once_tells_no_time() {
        check(64, 4, 3, 8.0, "4 %");
        check(64, 4, 4, 8.0, "6 %, about 2 min left");
        // Fewer parts than could be worked on at once.
        check(4, 4, 3, 8.0, "75 %");
    }

    #[test]
    fn the_bar_is_as_long_as_what_is_done() {
        let text = Progress::new("read", 4, 1).text(2, 0);
        assert_eq!(text, "read [############             ] 50 %, about 1 s left");
    }
}
