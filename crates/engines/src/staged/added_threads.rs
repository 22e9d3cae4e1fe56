//! Threads that come and go: the thread controller starts them, and each ends by itself when there
//! has been nothing to do for a while. Those that a stage has from the start are not among them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use session::Worker;

use crate::engine::MakeWorker;
use crate::lock::lock;

/// The threads of one partition, and what they leave.
pub(super) struct AddedThreads {
    more: MakeWorker,
    /// Workers of threads that have ended. Each has counters for ever, so the next threads take
    /// them.
    workers: Mutex<Vec<Worker>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Threads that ended because there was nothing to do.
    ended: AtomicU64,
}

impl AddedThreads {
    pub(super) fn new(more: MakeWorker) -> Self {
        Self {
            more,
            workers: Mutex::default(),
            threads: Mutex::default(),
            ended: AtomicU64::new(0),
        }
    }

    /// The worker of a thread that has ended, or a new one.
    pub(super) fn worker(&self) -> Worker {
        let kept = lock(&self.workers).pop();
        kept.unwrap_or_else(|| (self.more)())
    }

    pub(super) fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.threads);
        // What has ended is only memory.
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// A thread has ended because there was nothing to do.
    pub(super) fn leave(&self, mut worker: Worker) {
        worker.do_housekeeping();
        lock(&self.workers).push(worker);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// How many threads ended because there was nothing to do.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Has workers without a thread let go of what has left the cache.
    pub(super) fn do_housekeeping(&self) {
        lock(&self.workers).iter_mut().for_each(Worker::do_housekeeping);
    }

    pub(super) fn is_finished(&self) -> bool {
        lock(&self.threads).iter().all(JoinHandle::is_finished)
    }

    /// Waits for all threads to end.
    pub(super) fn join(&self) {
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join(); // its panic was caught and told
        }
    }
}
