//! Threads that serve yield to the one that accepts.
//!
//! To the scheduler it is one of many: beside 500 busy threads it gets a 500th of a CPU, and who
//! arrives waits for a second. (A lower nice value takes a privilege, and was seen not to help on
//! Linux 6.18: 1.4 ms of work, then 180 ms without a CPU.) So those that serve look now and then
//! whether it has something to do and gets nowhere, and then wait until it gets on.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use os::epoll::Epoll;
use os::socket::Readiness;
use session::Tick;

use crate::lock::lock;

/// The time between two looks at the acceptor, in microseconds. It is behind if it is at the same
/// point at two looks in a row.
const LOOK_US: u64 = 4000;

/// The longest wait for the acceptor: it may be held up by something else than the threads that
/// serve.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// The time of the next look while the acceptor is waited for.
const NOW: u64 = 0;
/// The progress seen at a look at which the acceptor had nothing to do.
const NOTHING: u64 = u64::MAX;

/// How far the acceptor has got, as those who serve see it.
pub(crate) struct Yielding {
    /// What the acceptor waits at; none where nobody accepts for others.
    epoll: Option<Arc<Epoll>>,
    /// Odd while it is at work.
    progress: AtomicU64,
    /// The acceptor's progress at the last look.
    seen: AtomicU64,
    /// When somebody looks next, in ticks.
    next_look: AtomicU64,
    lock: Mutex<()>,
    gets_on: Condvar,
}

impl Yielding {
    /// Yielding to an acceptor that waits at `epoll`, and calls [`Self::acceptor_steps`] before and
    /// after it does. The acceptor is at work, and has not waited yet.
    pub(crate) fn to_acceptor_at(epoll: &Arc<Epoll>) -> Self {
        Self { epoll: Some(Arc::clone(epoll)), ..Self::from(LOOK_US) }
    }

    /// Yielding to no acceptor: no thread accepts for others.
    pub(crate) fn to_none() -> Self {
        Self::from(u64::MAX)
    }

    fn from(next_look: u64) -> Self {
        Self {
            epoll: None,
            progress: AtomicU64::new(1),
            seen: AtomicU64::new(NOTHING),
            next_look: AtomicU64::new(next_look),
            lock: Mutex::default(),
            gets_on: Condvar::new(),
        }
    }

    /// The acceptor is about to wait, or has waited.
    #[inline]
    pub(crate) fn acceptor_steps(&self, now: Tick) {
        self.progress.fetch_add(1, Ordering::SeqCst);
        if self.next_look.load(Ordering::SeqCst) == NOW {
            self.release(now);
        }
    }

    /// Waits for the acceptor if it gets nowhere.
    #[inline]
    pub(crate) fn yield_if_behind(&self, now: Tick) {
        let due = self.next_look.load(Ordering::Relaxed);
        if due <= now.0 && (due == NOW || self.is_behind(due, now)) {
            self.wait(WAIT_MAX);
        }
    }

    /// Looks, unless somebody else does.
    #[cold]
    fn is_behind(&self, due: u64, now: Tick) -> bool {
        let (next, relaxed) = (now.0 + LOOK_US, Ordering::Relaxed);
        if self.next_look.compare_exchange(due, next, relaxed, relaxed).is_err() {
            return false;
        }
        let progress = self.progress.load(Ordering::SeqCst);
        let seen = if self.has_work(progress) { progress } else { NOTHING };
        if self.seen.swap(seen, Ordering::Relaxed) != seen || seen == NOTHING {
            return false;
        }
        self.next_look.store(NOW, Ordering::SeqCst);
        // Either this sees that it has got on, or it sees that it is waited for.
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
        let is_waited_for = |(): &mut ()| self.next_look.load(Ordering::SeqCst) == NOW;
        let waited = self.gets_on.wait_timeout_while(guard, at_most, is_waited_for);
        let (guard, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(guard);
        if outcome.timed_out() {
            self.release(Tick(os::clock::now()));
        }
    }

    /// Has those that wait go on.
    #[cold]
    fn release(&self, now: Tick) {
        let guard = lock(&self.lock);
        self.seen.store(NOTHING, Ordering::Relaxed);
        self.next_look.store(now.0 + LOOK_US, Ordering::SeqCst);
        drop(guard);
        self.gets_on.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    use os::epoll::Interest;
    use os::event::Wake;

    /// An acceptor that nobody runs, which waits, and what calls it.
    fn acceptor() -> (Yielding, Wake) {
        let (epoll, wake) = (Arc::new(Epoll::new().unwrap()), Wake::new().unwrap());
        epoll.add(wake.as_fd(), Interest::READ, 1).unwrap();
        let yielding = Yielding::to_acceptor_at(&epoll);
        yielding.acceptor_steps(Tick(0));
        (yielding, wake)
    }

    /// Later than any time at which a wait can end here: from that the next look is counted.
    const LATE: u64 = 1 << 40;

    /// Whether anybody waits, in vain, at one of so many looks.
    fn waits(yielding: &Yielding, looks: usize) -> bool {
        (0..looks).any(|_| {
            let due = yielding.next_look.load(Ordering::Relaxed);
            yielding.yield_if_behind(Tick(due.max(LATE)));
            yielding.next_look.load(Ordering::Relaxed) < LATE
        })
    }

    #[test]
    fn nobody_waits_for_an_acceptor_that_has_nothing_to_do_or_is_not_there() {
        let (yielding, _wake) = acceptor();
        assert!(!waits(&yielding, 5));
        Yielding::to_none().yield_if_behind(Tick(u64::MAX - 1));
    }

    #[test]
    fn who_is_called_twice_and_gets_nowhere_is_waited_for_and_then_let_alone() {
        let (yielding, wake) = acceptor();
        wake.notify();
        assert!(!waits(&yielding, 1));
        assert!(waits(&yielding, 1));
        assert!(!waits(&yielding, 1), "it may be held up by something else");
        assert!(waits(&yielding, 1));
    }

    /// The acceptor has been called, has no CPU, and its epoll set does not say so any more.
    #[test]
    fn who_is_at_work_and_gets_nowhere_is_waited_for() {
        let (yielding, _wake) = acceptor();
        yielding.acceptor_steps(Tick(0));
        assert!(waits(&yielding, 2));
        yielding.acceptor_steps(Tick(LATE));
        assert!(!waits(&yielding, 5), "it has nothing more to do");
    }

    #[test]
    fn nobody_waits_for_who_gets_on() {
        let (yielding, wake) = acceptor();
        wake.notify();
        for _ in 0..5 {
            assert!(!waits(&yielding, 1));
            yielding.acceptor_steps(Tick(0));
        }
    }

    /// Were they not told, they would wait for an hour.
    #[test]
    fn who_waits_goes_on_as_soon_as_it_gets_on() {
        const HOUR: Duration = Duration::from_secs(3600);
        for _ in 0..50 {
            let (yielding, _wake) = acceptor();
            yielding.next_look.store(NOW, Ordering::SeqCst);
            thread::scope(|scope| {
                (0..3).for_each(|_| drop(scope.spawn(|| yielding.wait(HOUR))));
                thread::yield_now();
                yielding.acceptor_steps(Tick(0));
            });
            assert_eq!(yielding.next_look.load(Ordering::SeqCst), LOOK_US);
        }
    }
}
