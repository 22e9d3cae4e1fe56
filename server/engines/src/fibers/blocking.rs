//! The queue of the blocking cluster, whose kernel threads may wait for the disk. A fiber whose
//! next piece of work may block moves there as a whole, does the work, and moves back.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::lock::lock;

pub(super) struct Blocking {
    queue: Mutex<Queue>,
    called: Condvar,
    pub(super) threads: usize,
}

struct Queue {
    fibers: VecDeque<u32>,
    is_over: bool,
}

impl Blocking {
    pub(super) fn new(threads: usize) -> Self {
        let queue = Queue { fibers: VecDeque::new(), is_over: false };
        Self { queue: Mutex::new(queue), called: Condvar::new(), threads }
    }

    /// Queues a fiber, which its owner hands over.
    pub(super) fn push(&self, index: u32) {
        lock(&self.queue).fibers.push_back(index);
        self.called.notify_one();
    }

    /// Has the threads end once the queue is empty.
    pub(super) fn end(&self) {
        lock(&self.queue).is_over = true;
        self.called.notify_all();
    }

    /// Waits for a fiber. Returns none when the thread is to end.
    pub(super) fn next(&self) -> Option<u32> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(index) = queue.fibers.pop_front() {
                return Some(index);
            }
            if queue.is_over {
                return None;
            }
            queue = self.called.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
