//! Runs many simulations at once, each in one thread, and shows their progress.
//!
//! The outcomes depend neither on the number of threads nor on their order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use coherence::{Machine, Options, Outcome, SimulationError, Workload, simulate};
use command::ProgressLine;

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
    let progress = Mutex::new((Progress::new("simulated", points.len() as u64), 0));
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
        let threads = threads.clamp(1, points.len().max(1));
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let parts = running.into_iter().map(|one| one.join().expect("a simulation never panics"));
        parts.flatten().collect::<Vec<_>>()
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// How much is done, for people at a terminal.
pub(super) struct Progress {
    what: &'static str,
    all: u64,
    shown: Option<u64>,
    line: ProgressLine,
}

impl Progress {
    pub(super) fn new(what: &'static str, all: u64) -> Self {
        Self { what, all, shown: None, line: ProgressLine::new() }
    }

    pub(super) fn show(&mut self, done: u64) {
        let percent = (done * 100).checked_div(self.all).unwrap_or(100).min(100);
        if self.shown == Some(percent) {
            return;
        }
        self.shown = Some(percent);
        let bar = "#".repeat(percent as usize / 4);
        self.line.print_on_terminal(&format!("{} [{bar:25}] {percent} %", self.what));
    }
}
