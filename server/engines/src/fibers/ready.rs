//! The ready queue of a cluster, which its kernel threads share, and the nominated poller in it.
//!
//! The poller is an entry of the queue: the thread that takes it polls the kernel for events, on
//! behalf of all, and puts it back at the end. So every fiber that was ready has run between two
//! polls, and each poll finds the events of all that time (Radhakrishnan 2019, section 3.11). The
//! poll may sleep only when no fiber is ready.

use std::collections::VecDeque;
use std::mem;

#[cfg(test)]
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(test))]
use std::sync::{Condvar, Mutex, MutexGuard};

/// The poller's entry. No fiber has this index: descriptors are 31-bit numbers.
const POLLER: u32 = u32::MAX;

/// The next work of a kernel thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Run the fibers of its batch.
    Run,
    /// Poll, and sleep if there are no events and `may_sleep`; then call [`Ready::end_poll`].
    Poll { may_sleep: bool },
    /// Do the housekeeping that the thread was called for.
    Housekeeping,
    /// End: there will be no more work.
    End,
}

pub(super) struct Ready {
    queue: Mutex<Queue>,
    called: Condvar,
    /// Whether several kernel threads take from the queue.
    is_shared: bool,
}

struct Queue {
    entries: VecDeque<u32>,
    /// Whether the poll under way may sleep and has not been woken.
    is_asleep: bool,
    /// The number of kernel threads that wait for work.
    waiting: usize,
    /// How often all threads were called.
    calls: u64,
    is_over: bool,
}

impl Ready {
    pub(super) fn new(threads: usize) -> Self {
        let queue = Queue {
            entries: VecDeque::from([POLLER]),
            is_asleep: false,
            waiting: 0,
            calls: 0,
            is_over: false,
        };
        Self { queue: Mutex::new(queue), called: Condvar::new(), is_shared: threads > 1 }
    }

    /// The next work of a kernel thread; waits if there is none. `batch`, which must be empty, is
    /// filled; `calls_seen` is the thread's own.
    pub(super) fn next(&self, batch: &mut Vec<u32>, calls_seen: &mut u64) -> Work {
        let mut queue = self.lock();
        loop {
            if queue.is_over {
                return Work::End;
            }
            if mem::replace(calls_seen, queue.calls) != queue.calls {
                return Work::Housekeeping;
            }
            match queue.entries.front() {
                Some(&POLLER) => {
                    queue.entries.pop_front();
                    queue.is_asleep = queue.entries.is_empty();
                    return Work::Poll { may_sleep: queue.is_asleep };
                }
                Some(_) => {
                    queue.take(self.is_shared, batch);
                    if queue.waiting > 0 && !queue.entries.is_empty() {
                        self.called.notify_one();
                    }
                    return Work::Run;
                }
                None => {
                    queue.waiting += 1;
                    queue = self.called.wait(queue).unwrap_or_else(PoisonError::into_inner);
                    queue.waiting -= 1;
                }
            }
        }
    }

    /// Adds a fiber. Returns whether the poller must be woken from its sleep to run it.
    #[must_use]
    pub(super) fn push(&self, fiber: u32) -> bool {
        let mut queue = self.lock();
        queue.entries.push_back(fiber);
        if queue.waiting > 0 {
            self.called.notify_one();
            return false;
        }
        mem::replace(&mut queue.is_asleep, false)
    }

    /// Ends a poll: adds the fibers that it found ready, takes them out of `found`, and nominates
    /// the poller anew.
    pub(super) fn end_poll(&self, found: &mut Vec<u32>) {
        let mut queue = self.lock();
        queue.is_asleep = false;
        queue.entries.extend(found.drain(..));
        queue.entries.push_back(POLLER);
        if queue.waiting > 0 && queue.entries.len() > 1 {
            self.called.notify_one();
        }
    }

    /// Has every kernel thread do its housekeeping once.
    pub(super) fn call_all(&self) {
        self.lock().calls += 1;
        self.called.notify_all();
    }

    /// Ends all kernel threads: they get no work any more.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.called.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Takes fibers that are ready before the poller's turn: all of them for a thread that is
    /// alone, else only one, because the disk may delay a thread with all fibers that it has taken.
    fn take(&mut self, is_shared: bool, batch: &mut Vec<u32>) {
        while let Some(fiber) = self.entries.pop_front_if(|entry| *entry != POLLER) {
            batch.push(fiber);
            if is_shared {
                return;
            }
        }
    }
}
