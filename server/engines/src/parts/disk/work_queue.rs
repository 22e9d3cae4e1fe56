//! A queue of work that may block, for the threads that do it. It is not bounded: the caller that
//! adds work knows how much there may be.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::lock::lock;

/// Work that waits for a thread, in order.
pub(crate) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    has_work: Condvar,
}

struct State<T> {
    waiting: VecDeque<T>,
    is_closed: bool,
}

impl<T> WorkQueue<T> {
    pub(crate) fn new() -> Self {
        let state = State { waiting: VecDeque::new(), is_closed: false };
        Self { state: Mutex::new(state), has_work: Condvar::new() }
    }

    pub(crate) fn push(&self, work: T) {
        lock(&self.state).waiting.push_back(work);
        self.has_work.notify_one();
    }

    /// Waits for work. Returns none when the thread is to end.
    pub(crate) fn next(&self) -> Option<T> {
        let mut state = lock(&self.state);
        while state.waiting.is_empty() && !state.is_closed {
            state = self.has_work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.pop_front()
    }

    /// Drops the work that waits.
    pub(crate) fn clear(&self) {
        let forgotten = std::mem::take(&mut lock(&self.state).waiting);
        drop(forgotten); // not under the lock: it may close files
    }

    /// Has the threads end once the queue is empty.
    pub(crate) fn close(&self) {
        lock(&self.state).is_closed = true;
        self.has_work.notify_all();
    }

    /// The number of pieces of work that wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    #[cfg(test)]
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).is_closed
    }
}
