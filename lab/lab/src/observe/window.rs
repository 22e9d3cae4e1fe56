//! The use of CPUs within a window whose beginning and end are known beforehand. The snapshots of
//! an [`Observer`](super::Observer) enclose the generator's start and end as well, and where the
//! generator shares the CPUs it is busy then.

use super::cpu::{self, CoreUse};
use crate::group::Group;
use os::accounting::{self, Cpu};
use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The largest difference between a window's actual and planned beginning, in microseconds: less
/// than the steps in which the kernel counts.
const OFF_US_MAX: u64 = 5000;

/// The totals of CPUs and servers when a window began, and when it ended.
#[derive(Debug)]
pub(crate) struct WindowUse {
    from_us: u64,
    to_us: u64,
    first: Moment,
    last: Moment,
}

/// The totals of CPUs and servers at one moment.
#[derive(Debug)]
struct Moment {
    at_us: u64,
    /// How much later than planned it was.
    late_us: u64,
    cpus: Vec<Cpu>,
    /// Processor time of the servers.
    cpu_ns: u64,
    /// Processor time of this thread.
    lab: Duration,
}

impl WindowUse {
    /// Waits for the window, given by its beginning and end in microseconds since 1970, calls
    /// `begin` when it begins, and waits for its end. Returns none of a result that would come
    /// after `running` is closed.
    pub(crate) fn watch<T>(
        (from_us, to_us): (u64, u64),
        servers: &[&Group],
        running: &Receiver<Infallible>,
        begin: impl FnOnce() -> T,
    ) -> (Option<T>, Option<Self>) {
        let Some(first) = totals_at(from_us, servers, running) else { return (None, None) };
        let begun = begin();
        let last = totals_at(to_us, servers, running);
        let seen = last.map(|last| Self { from_us, to_us, first, last });
        (Some(begun), seen)
    }

    /// The use of the CPUs in the window; none if the given window is another one.
    pub(crate) fn cores(&self, began_unix_us: u64, window_us: u64) -> Option<Vec<CoreUse>> {
        let cpus = self.cpus(began_unix_us, window_us)?;
        Some(cpus.into_iter().map(CoreUse::from).collect())
    }

    /// The times of the CPUs in the window, as the kernel counts them; none if the given window, by
    /// its beginning in microseconds since 1970 and its length, is another one.
    pub(crate) fn cpus(&self, began_unix_us: u64, window_us: u64) -> Option<Vec<Cpu>> {
        let is_near = |a: u64, b: u64| a.abs_diff(b) <= OFF_US_MAX;
        let is_it =
            is_near(self.from_us, began_unix_us) && is_near(self.to_us - self.from_us, window_us);
        is_it.then(|| accounting::between(&self.first.cpus, &self.last.cpus))
    }

    /// The length of the window by our clock: the watching thread may be late.
    pub(crate) fn length_us(&self) -> u64 {
        self.last.at_us - self.first.at_us
    }

    /// By how much the watching thread was late, as a part of the window, at most 1: that much of
    /// what it saw is of another time.
    pub(crate) fn late_share(&self) -> f64 {
        let late_us = self.first.late_us + self.last.late_us;
        (late_us as f64 / self.to_us.saturating_sub(self.from_us).max(1) as f64).min(1.0)
    }

    /// Processor time of the servers in the window.
    pub(crate) fn cpu_us(&self) -> u64 {
        self.last.cpu_ns.saturating_sub(self.first.cpu_ns) / 1000
    }

    /// Processor time of the watching thread in the window: `begin` takes some.
    pub(crate) fn lab_us(&self) -> u64 {
        self.last.lab.saturating_sub(self.first.lab).as_micros() as u64
    }
}

/// Waits until `unix_us` and reads the totals; none if `running` is closed before.
fn totals_at(unix_us: u64, servers: &[&Group], running: &Receiver<Infallible>) -> Option<Moment> {
    let wait = Duration::from_micros(unix_us.saturating_sub(crate::unix_us()));
    match running.recv_timeout(wait) {
        Err(RecvTimeoutError::Timeout) => {}
        Err(RecvTimeoutError::Disconnected) => return None,
    }
    let cpus = cpu::read();
    let at_us = os::clock::now();
    let late_us = crate::unix_us().saturating_sub(unix_us);
    let lab = os::clock::cpu_time_thread();
    let cpu_ns = servers.iter().map(|group| group.cpu_ns()).sum();
    Some(Moment { at_us, late_us, cpus, cpu_ns, lab })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn a_window_is_watched_from_its_beginning_to_its_end() {
        let (running, ended) = channel();
        testkit::undisturbed(|| watch_once(&ended));
        let (begin, has_begun) = channel();
        let ending = thread::spawn(move || {
            has_begun.recv().expect("it begins");
            drop(running);
        });
        let begin = || begin.send(()).expect("it is waited for");
        let from_us = crate::unix_us();
        let (begun, seen) = WindowUse::watch((from_us, u64::MAX), &[], &ended, begin);
        assert!(begun.is_some() && seen.is_none(), "it has begun, and the generator has ended");
        ending.join().expect("nothing failed in it");
        let (begun, seen) = WindowUse::watch((crate::unix_us(), u64::MAX), &[], &ended, || ());
        assert!(begun.is_none() && seen.is_none(), "the generator has ended");
    }

    /// A thread that gets no CPU in the window has seen nothing of it.
    #[test]
    fn a_window_that_is_watched_late_is_known_to_be() {
        let (_running, ended) = channel();
        let late_share = |late_us: u64| {
            let from_us = crate::unix_us() - late_us;
            let window = (from_us, from_us + 200_000);
            let (_, seen) = WindowUse::watch(window, &[], &ended, || ());
            seen.expect("it takes place").late_share()
        };
        assert!(late_share(150_000) > 0.7);
        assert_eq!(late_share(10_000_000), 1.0);
        testkit::undisturbed(|| match late_share(0) {
            share if share < 0.05 => Ok(()),
            share => Err(format!("{share} of the window")),
        });
    }

    /// Watches a window of 200 ms; the error says that this thread was late for its beginning.
    fn watch_once(ended: &Receiver<Infallible>) -> Result<(), String> {
        let from_us = crate::unix_us() + 30_000;
        let window = (from_us, from_us + 200_000);
        let begin = || {
            let begun_us = crate::unix_us();
            let before = os::clock::cpu_time_thread();
            while os::clock::cpu_time_thread() < before + Duration::from_millis(20) {}
            begun_us
        };
        let (begun_us, seen) = WindowUse::watch(window, &[], ended, begin);
        let took_us = crate::unix_us() - from_us;
        let (begun_us, seen) = begun_us.zip(seen).expect("it takes place");
        assert!(from_us <= begun_us && took_us >= 200_000);
        let cores = seen.cores(from_us + 1000, 200_000).expect("it is that one");
        let total_us = cores.iter().map(CoreUse::total_us).max().expect("there is a CPU");
        assert!(seen.cores(from_us + 50_000, 200_000).is_none(), "it began at another time");
        assert!(seen.cores(from_us, 100_000).is_none(), "it ended at another");
        assert!(seen.lab_us() >= 20_000, "what it did at the beginning is known to be its own");
        // The total is the length of the window, even if other processes use the CPUs; the kernel
        // counts in steps.
        let is_whole = (150_000..=took_us + 50_000).contains(&total_us);
        if is_whole && seen.length_us() >= 150_000 {
            return Ok(());
        }
        Err(format!("{total_us} of {took_us}, {} by the clock", seen.length_us()))
    }
}
