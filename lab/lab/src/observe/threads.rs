//! The scheduling of each thread of a server: context switches, and waiting for a CPU.
//!
//! The numbers of threads that end between two snapshots are lost; such threads are counted.

use os::accounting;
use std::collections::HashMap;
use std::fs;

/// The most threads that are observed: with more a snapshot takes longer than a third of a second.
const THREADS_MAX: usize = 16_384;

/// Threads by their numbers.
pub(super) type Threads = HashMap<u32, Thread>;

/// One thread at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Thread {
    voluntary: u64,
    involuntary: u64,
    /// None where the kernel does not keep it, or when the thread ended while it was read.
    wait_ns: Option<u64>,
}

/// The differences of all threads between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scheduled {
    pub(super) count: u64,
    pub(super) ended: u64,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    pub(super) wait_us: Option<u64>,
}

/// Reads the threads of these processes; none if there are too many.
pub(super) fn read(processes: &[u32]) -> Option<Threads> {
    let mut threads = Threads::new();
    for pid in processes {
        for tid in accounting::threads(*pid) {
            if threads.len() == THREADS_MAX {
                return None;
            }
            let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
            let scheduled = accounting::scheduled(*pid, tid);
            // A thread that has just ended has no status.
            if let Some(thread) = status.ok().and_then(|status| parse(&status, scheduled)) {
                threads.insert(tid, thread);
            }
        }
    }
    Some(threads)
}

pub(super) fn between(first: &Threads, last: &Threads) -> Scheduled {
    let ended = first.keys().filter(|tid| !last.contains_key(tid)).count() as u64;
    let mut sum = Scheduled { count: last.len() as u64, ended, ..Scheduled::default() };
    let mut looks = first.values().chain(last.values());
    let mut wait_ns = looks.any(|thread| thread.wait_ns.is_some()).then_some(0_u64);
    for (tid, last) in last {
        let first = first.get(tid).copied().unwrap_or_default();
        sum.voluntary += last.voluntary.saturating_sub(first.voluntary);
        sum.involuntary += last.involuntary.saturating_sub(first.involuntary);
        let waited = last.wait_ns.unwrap_or(0).saturating_sub(first.wait_ns.unwrap_or(0));
        wait_ns = wait_ns.map(|sum| sum + waited);
    }
    sum.wait_us = wait_ns.map(|ns| ns / 1000);
    sum
}

/// Combines the text of a thread's `status` with the counts of the scheduler.
fn parse(status: &str, scheduled: Option<accounting::Scheduled>) -> Option<Thread> {
    let value = |name: &str| {
        let line = status.lines().rev().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(Thread {
        voluntary: value("voluntary_ctxt_switches:")?,
        involuntary: value("nonvoluntary_ctxt_switches:")?,
        wait_ns: scheduled.map(|scheduled| scheduled.waited_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_thread_is_read() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let expected = Thread { voluntary: 150, involuntary: 545, wait_ns: Some(82_193) };
        let scheduled = Some(accounting::Scheduled { ran_ns: 7, waited_ns: 82_193, turns: 1 });
        assert_eq!(parse(status, scheduled), Some(expected));
        assert_eq!(parse(status, None).map(|thread| thread.wait_ns), Some(None));
        assert_eq!(parse("", scheduled), None);
    }

    #[test]
    fn what_is_new_counts_from_nothing_and_what_ended_is_counted() {
        let thread = |voluntary, wait| Thread { voluntary, involuntary: 1, wait_ns: Some(wait) };
        let first = Threads::from([(1, thread(10, 1000)), (2, thread(5, 0))]);
        let last = Threads::from([(1, thread(15, 4000)), (3, thread(2, 2500))]);
        let expected =
            Scheduled { count: 2, ended: 1, voluntary: 7, involuntary: 1, wait_us: Some(5) };
        assert_eq!(between(&first, &last), expected);
    }

    #[test]
    fn a_thread_that_ends_while_it_is_looked_at_hides_no_other() {
        let thread = |wait_ns| Thread { wait_ns, ..Thread::default() };
        let first = Threads::from([(1, thread(Some(1000))), (2, thread(Some(0)))]);
        let last = Threads::from([(1, thread(Some(4000))), (2, thread(None))]);
        assert_eq!(between(&first, &last).wait_us, Some(3));
        assert_eq!(between(&first, &Threads::new()).wait_us, Some(0), "all have ended");
        let kept_by_none = Threads::from([(1, thread(None)), (2, thread(None))]);
        assert_eq!(between(&kept_by_none, &kept_by_none).wait_us, None);
    }

    /// A thread that sleeps makes a voluntary switch each time.
    #[test]
    fn sleeping_is_seen_as_voluntary_switches() {
        const TURNS: u64 = 50;
        let first = read(&[std::process::id()]).expect("few threads");
        // A few more, because one that is preempted on its way to sleep counts as involuntary.
        (0..TURNS + 10).for_each(|_| thread::sleep(Duration::from_micros(100)));
        let last = read(&[std::process::id()]).expect("few threads");
        let scheduled = between(&first, &last);
        assert!(scheduled.voluntary >= TURNS, "{scheduled:?}");
        assert!(scheduled.count >= 1);
    }
}
