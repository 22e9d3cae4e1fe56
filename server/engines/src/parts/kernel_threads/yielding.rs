//! Threads that serve yield to the one that accepts.
//!
//! To the scheduler the acceptor is one of many: beside 500 busy threads it gets a 500th of a CPU,
//! and a new client waits for a second. (A lower nice value takes a privilege, and did not help on
//! Linux 6.18: 1.4 ms of work, then 180 ms without a CPU.) So the threads that serve check now and
//! then whether the acceptor has work and makes no progress, and then wait until it does.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use os::epoll::Epoll;
use os::socket::Readiness;
use session::Tick;

use crate::lock::lock;

/// The time between two checks of the acceptor, in microseconds. The acceptor is behind if two
/// checks in a row find it at the same point.
const CHECK_US: u64 = 4000;

/// The longest wait for the acceptor: it may be held up by something other than the threads that
/// serve.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// The time of the next check while threads wait for the acceptor.
const NOW: u64 = 0;
/// The progress recorded by a check at which the acceptor had nothing to do.
const NOTHING: u64 = u64::MAX;

/// The progress of the acceptor, as the threads that serve observe it.
pub(crate) struct Yielding {
    /// The epoll set that the acceptor waits at; none where no thread accepts for others.
    epoll: Option<Arc<Epoll>>,
    /// The number of the acceptor's steps: odd while it is at work.
    progress: AtomicU64,
    /// The acceptor's progress at the last check.
    seen: AtomicU64,
    /// The time of the next check, in ticks.
    next_check: AtomicU64,
    lock: Mutex<()>,
    progressed: Condvar,
}

impl Yielding {
    /// Yielding to an acceptor that waits at `epoll`, and calls [`Self::acceptor_steps`] before and
    /// after each wait. The acceptor is at work, and has not waited yet.
    pub(crate) fn for_acceptor(epoll: &Arc<Epoll>) -> Self {
        Self { epoll: Some(Arc::clone(epoll)), ..Self::with_next_check(CHECK_US) }
    }

    /// Yielding to no acceptor: no thread accepts for others.
    pub(crate) fn without_acceptor() -> Self {
        Self::with_next_check(u64::MAX)
    }

    fn with_next_check(next_check: u64) -> Self {
        Self {
            epoll: None,
            progress: AtomicU64::new(1),
            seen: AtomicU64::new(NOTHING),
            next_check: AtomicU64::new(next_check),
            lock: Mutex::default(),
            progressed: Condvar::new(),
        }
    }

    /// Records that the acceptor is about to wait, or has waited.
    #[inline]
    pub(crate) fn acceptor_steps(&self, now: Tick) {
        self.progress.fetch_add(1, Ordering::SeqCst);
        if self.next_check.load(Ordering::SeqCst) == NOW {
            self.release(now);
        }
    }

    /// Waits for the acceptor if it makes no progress.
    #[inline]
    pub(crate) fn yield_if_behind(&self, now: Tick) {
        let due = self.next_check.load(Ordering::Relaxed);
        if due <= now.0 && (due == NOW || self.is_behind(due, now)) {
            self.wait(WAIT_MAX);
        }
    }

    /// Checks whether the acceptor makes no progress, unless another thread does the check.
    #[cold]
    fn is_behind(&self, due: u64, now: Tick) -> bool {
        let (next, relaxed) = (now.0 + CHECK_US, Ordering::Relaxed);
        if self.next_check.compare_exchange(due, next, relaxed, relaxed).is_err() {
            return false;
        }
        let progress = self.progress.load(Ordering::SeqCst);
        let seen = if self.has_work(progress) { progress } else { NOTHING };
        if self.seen.swap(seen, Ordering::Relaxed) != seen || seen == NOTHING {
            return false;
        }
        self.next_check.store(NOW, Ordering::SeqCst);
        // Either this thread sees that the acceptor has made progress, or the acceptor sees that a
        // thread waits for it.
        if self.progress.load(Ordering::SeqCst) != progress {
            self.release(now);
        }
        true
    }

    fn has_work(&self, progress: u64) -> bool {
        let is_called = |epoll: &Arc<Epoll>| {
            os::socket::wait_ready(epoll.as_fd(), Readiness::Readable, 0).unwrap_or(false)
        };
        !progress.is_multiple_of(2) || self.epoll.as_ref().is_some_and(is_called)
    }

    #[cold]
    fn wait(&self, at_most: Duration) {
        let guard = lock(&self.lock);
        let is_waited_for = |(): &mut ()| self.next_check.load(Ordering::SeqCst) == NOW;
        let waited = self.progressed.wait_timeout_while(guard, at_most, is_waited_for);
        let (guard, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(guard);
        if outcome.timed_out() {
            self.release(Tick(os::clock::now()));
        }
    }

    /// Has the waiting threads go on.
    #[cold]
    fn release(&self, now: Tick) {
        let guard = lock(&self.lock);
        self.seen.store(NOTHING, Ordering::Relaxed);
        self.next_check.store(now.0 + CHECK_US, Ordering::SeqCst);
        drop(guard);
        self.progressed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use os::epoll::Interest;
    use os::event::Wake;

    /// An acceptor without a thread, which waits, and its wake-up call.
    fn acceptor() -> (Yielding, Wake) {
        let (epoll, wake) = (Arc::new(Epoll::new().unwrap()), Wake::new().unwrap());
        epoll.add(wake.as_fd(), Interest::READ, 1).unwrap();
        let yielding = Yielding::for_acceptor(&epoll);
        yielding.acceptor_steps(Tick(0));
        (yielding, wake)
    }

    /// Later than any time at which a wait can end here: a wait that times out sets the next check
    /// to a time before it.
    const LATE: u64 = 1 << 40;

    /// Whether a thread waits, in vain, at one of so many checks.
    fn waits(yielding: &Yielding, checks: usize) -> bool {
        (0..checks).any(|_| {
            let due = yielding.next_check.load(Ordering::Relaxed);
            yielding.yield_if_behind(Tick(due.max(LATE)));
            yielding.next_check.load(Ordering::Relaxed) < LATE
        })
    }

    #[test]
    fn threads_do_not_wait_for_an_acceptor_that_is_idle_or_absent() {
        let (yielding, _wake) = acceptor();
        assert!(!waits(&yielding, 5));
        Yielding::without_acceptor().yield_if_behind(Tick(u64::MAX - 1));
    }

    #[test]
    fn threads_wait_at_every_other_check_for_a_called_acceptor_without_progress() {
        let (yielding, wake) = acceptor();
        wake.notify();
        assert!(!waits(&yielding, 1));
        assert!(waits(&yielding, 1));
        assert!(!waits(&yielding, 1), "it may be held up by something else");
        assert!(waits(&yielding, 1));
    }

    /// The acceptor has been called and has no CPU, and its epoll set does not show that any more.
    #[test]
    fn threads_wait_for_an_acceptor_that_is_at_work_without_progress() {
        let (yielding, _wake) = acceptor();
        yielding.acceptor_steps(Tick(0));
        assert!(waits(&yielding, 2));
        yielding.acceptor_steps(Tick(LATE));
        assert!(!waits(&yielding, 5), "it has nothing more to do");
    }

    #[test]
    fn threads_do_not_wait_for_an_acceptor_that_makes_progress() {
        let (yielding, wake) = acceptor();
        wake.notify();
        for _ in 0..5 {
            assert!(!waits(&yielding, 1));
            yielding.acceptor_steps(Tick(0));
        }
    }

    /// Without the notification the threads would wait for an hour.
    #[test]
    fn waiting_threads_go_on_as_soon_as_the_acceptor_makes_progress() {
        const HOUR: Duration = Duration::from_secs(3600);
        for _ in 0..50 {
            let (yielding, _wake) = acceptor();
            yielding.next_check.store(NOW, Ordering::SeqCst);
            thread::scope(|scope| {
                (0..3).for_each(|_| drop(scope.spawn(|| yielding.wait(HOUR))));
                thread::yield_now();
                yielding.acceptor_steps(Tick(0));
            });
            assert_eq!(yielding.next_check.load(Ordering::SeqCst), CHECK_US);
        }
    }
}
