//! The CPU that a loop is bound to, and when the loop leaves it to other programs.
//!
//! A loop that stays on its CPU finds the caches there as it left them. But where a machine is not
//! the server's alone, a bound loop waits for any other program that runs on its CPU while another
//! CPU idles. So a loop that works checks ten times a second how long it was ready and had no CPU
//! (`/proc/thread-self/schedstat`: the kernel's Documentation/scheduler/sched-stats.rst). If that
//! was more than a tenth of the time, it may run on all CPUs of its partition: for ten seconds, and
//! twice as long each time that it has to leave again soon after it came back.

use std::fs;
use std::io;
use std::sync::Arc;

use session::Tick;

const SAMPLE_US: u64 = 100_000;
/// The part of the time beyond which a loop waits too long for its CPU.
const WAITED_MAX: f64 = 0.1;
const LEAVE_US: u64 = 10_000_000;
const LEAVE_MAX_US: u64 = 640_000_000;

/// Where a loop runs: bound to a CPU, or for a while on any of its partition. The loop's context
/// keeps the initial placement; the loop itself updates a copy.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuPlacement {
    cpu: Option<usize>,
    /// The CPUs on which it runs while it is not bound; none if it always is.
    unpinned_cpus: Arc<[usize]>,
    last: Option<Sample>,
    leave: Leave,
}

/// The time that a loop has waited for a CPU, read at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_us: u64,
    waited_ns: u64,
}

/// When a loop is away from its CPU.
#[derive(Clone, Debug, Default)]
struct Leave {
    until_us: Option<u64>,
    came_back_us: Option<u64>,
    length_us: u64,
}

/// A change of placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Away,
    Back,
}

impl CpuPlacement {
    /// A placement on `cpu`, if there is one, that the loop may leave for all of `unpinned_cpus`.
    pub(crate) fn new(cpu: Option<usize>, unpinned_cpus: &Arc<[usize]>) -> Self {
        let is_elsewhere = cpu.is_some() && unpinned_cpus.iter().any(|other| Some(*other) != cpu);
        let unpinned_cpus = if is_elsewhere { Arc::clone(unpinned_cpus) } else { Arc::default() };
        Self { cpu, unpinned_cpus, last: None, leave: Leave::default() }
    }

    /// The CPU that the loop is bound to, if any.
    pub(crate) fn cpu(&self) -> Option<usize> {
        self.cpu
    }

    /// The CPUs on which the loop runs while it is not bound; none if it always is.
    pub(crate) fn unpinned_cpus(&self) -> Arc<[usize]> {
        Arc::clone(&self.unpinned_cpus)
    }

    /// Binds the calling thread, which must be the loop's, to the CPU.
    ///
    /// # Errors
    /// One line: the CPU does not exist, or this process may not use it.
    pub(crate) fn take(&self) -> Result<(), String> {
        let Some(cpu) = self.cpu else { return Ok(()) };
        os::affinity::pin_thread(&[cpu]).map_err(|why| format!("cannot stay on CPU {cpu}: {why}"))
    }

    /// Moves the loop if that is due; to be called by the loop in each of its turns.
    #[inline]
    pub(crate) fn update(&mut self, now: Tick) {
        let is_due = self.last.is_none_or(|last| now.0.wrapping_sub(last.at_us) >= SAMPLE_US);
        if is_due && !self.unpinned_cpus.is_empty() {
            self.update_now(now.0);
        }
    }

    #[cold]
    fn update_now(&mut self, at_us: u64) {
        let Some(waited_ns) = waited_ns() else {
            self.unpinned_cpus = Arc::default(); // without the kernel's figure the loop stays
            return;
        };
        let now = Sample { at_us, waited_ns };
        let Some(last) = self.last.replace(now) else { return };
        let outcome = match self.leave.next(at_us, share(last, now)) {
            Some(Move::Away) => os::affinity::pin_thread(&self.unpinned_cpus),
            Some(Move::Back) => self.take().map_err(io::Error::other),
            None => return,
        };
        if outcome.is_err() {
            // The CPUs that this process may use were changed from outside.
            self.unpinned_cpus = Arc::default();
        }
    }
}

impl Leave {
    fn next(&mut self, now_us: u64, waited: f64) -> Option<Move> {
        match self.until_us {
            Some(until) if now_us < until => None,
            Some(_) => {
                (self.until_us, self.came_back_us) = (None, Some(now_us));
                Some(Move::Back)
            }
            None if waited <= WAITED_MAX => None,
            None => {
                let is_again = self.came_back_us.is_some_and(|at| now_us - at < self.length_us);
                self.length_us = match is_again {
                    true => (2 * self.length_us).min(LEAVE_MAX_US),
                    false => LEAVE_US,
                };
                self.until_us = Some(now_us + self.length_us);
                Some(Move::Away)
            }
        }
    }
}

/// The part of the time between two samples for which the loop waited.
fn share(first: Sample, last: Sample) -> f64 {
    let waited_ns = last.waited_ns.saturating_sub(first.waited_ns);
    waited_ns as f64 / (last.at_us.saturating_sub(first.at_us).max(1) * 1000) as f64
}

/// How long the calling thread has been ready without a CPU since it began.
fn waited_ns() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    const S: u64 = 1_000_000;

    #[test]
    fn a_loop_that_waits_leaves_for_longer_each_time() {
        let mut leave = Leave::default();
        let mut check = |at_s: u64, waited, expected| {
            assert_eq!(leave.next(at_s * S, waited), expected, "at {at_s} s");
        };
        check(100, 0.1, None);
        check(101, 0.11, Some(Move::Away));
        check(110, 0.9, None);
        check(111, 0.9, Some(Move::Back));
        check(112, 0.0, None);
        check(113, 0.5, Some(Move::Away)); // two seconds after it came back: for twenty
        check(132, 0.5, None);
        check(133, 0.0, Some(Move::Back));
        check(154, 0.5, Some(Move::Away)); // long after it came back: for ten again
        check(163, 0.5, None);
        check(164, 0.0, Some(Move::Back));
    }

    #[test]
    fn leaves_are_bounded() {
        let (mut leave, mut now_us) = (Leave::default(), S);
        for _ in 0..20 {
            assert_eq!(leave.next(now_us, 1.0), Some(Move::Away));
            now_us = leave.until_us.unwrap();
            assert_eq!(leave.next(now_us, 1.0), Some(Move::Back));
            now_us += 1;
        }
        assert_eq!(leave.length_us, LEAVE_MAX_US);
    }

    #[test]
    fn shares_are_of_the_time_between_samples() {
        let sample = |at_us, waited_ns| Sample { at_us, waited_ns };
        assert_eq!(share(sample(10, 5000), sample(110, 30_000)), 0.25);
        assert_eq!(share(sample(10, 5000), sample(10, 5000)), 0.0);
    }

    /// The CPUs that the calling thread may use, in the kernel's notation.
    fn allowed() -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    }

    /// Works until the loop has left its CPU, or for so many seconds. Returns the CPUs that it may
    /// run on then.
    fn work_until_moved(mut placement: CpuPlacement, seconds: u64) -> String {
        placement.take().unwrap();
        let (at_home, end) = (allowed(), os::clock::now() + seconds * S);
        while allowed() == at_home && os::clock::now() < end {
            placement.update(Tick(os::clock::now()));
        }
        allowed()
    }

    #[test]
    fn a_loop_leaves_a_cpu_that_another_uses() {
        let cpus = os::affinity::allowed_cpus();
        let [cpu, other, ..] = cpus[..] else {
            return testkit::skip("a loop that leaves its CPU", "there is one CPU only");
        };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                os::affinity::pin_thread(&[cpu]).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let work = |unpinned_cpus: Vec<usize>, seconds| {
                let placement = CpuPlacement::new(Some(cpu), &unpinned_cpus.into());
                scope.spawn(move || work_until_moved(placement, seconds)).join()
            };
            let (away, stayed) = (work(vec![cpu, other], 60), work(vec![cpu], 2));
            is_over.store(true, Ordering::Relaxed); // before a panic: the other thread would go on
            assert_ne!(away.unwrap(), cpu.to_string());
            assert_eq!(stayed.unwrap(), cpu.to_string());
        });
    }
}
