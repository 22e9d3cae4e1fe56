//! The ready queue of a cluster, which its kernel threads share, and the nominated poller in it.
//!
//! The poller is an entry of the queue: whoever takes it asks the kernel for events, on behalf of
//! all, and puts it back at the end. So every fiber that was ready has run between two polls, and
//! each poll finds the events of all that time (Radhakrishnan 2019, section 3.11). Only when
//! nothing is ready may the poll sleep.

use std::collections::VecDeque;
use std::mem;

#[cfg(test)]
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use std::sync::PoisonError;
#[cfg(not(test))]
use std::sync::{Condvar, Mutex, MutexGuard};

/// The poller's entry. No fiber has this index: descriptors are 31-bit numbers.
const POLLER: u32 = u32::MAX;

/// What a kernel thread is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Run the fibers of its batch.
    Run,
    /// Poll, and sleep if nothing has happened and `may_sleep`; then [`Ready::end_poll`].
    Poll { may_sleep: bool },
    /// Keep house: it was called.
    Housekeeping,
    /// Nothing more, ever.
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
    /// The poll under way may sleep, and nobody has woken it.
    is_asleep: bool,
    /// Kernel threads that wait for work.
    waiting: usize,
    /// How often all were called.
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

    /// The next work of a kernel thread; waits if there is none. `batch` is empty and is filled;
    /// `calls_seen` is the thread's own.
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

    /// Has every kernel thread keep house once.
    pub(super) fn call_all(&self) {
        self.lock().calls += 1;
        self.called.notify_all();
    }

    /// No kernel thread gets work any more.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.called.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Takes what is ready before the poller's turn: all of it where a thread is alone, else one
    /// fiber, for the disk may hold a thread up with all that it has taken.
    fn take(&mut self, is_shared: bool, batch: &mut Vec<u32>) {
        while let Some(fiber) = self.entries.pop_front_if(|entry| *entry != POLLER) {
            batch.push(fiber);
            if is_shared {
                return;
            }
        }
    }
}
