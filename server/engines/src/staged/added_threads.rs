//! Temporary threads: the thread controller starts them, and each ends by itself when there has
//! been no work for a while. The threads that a stage has from the start are not among them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use session::Worker;

use crate::engine::MakeWorker;
use crate::lock::lock;

/// The temporary threads of one partition, and the workers of threads that have ended.
pub(super) struct AddedThreads {
    more: MakeWorker,
    /// Workers of threads that have ended. The counters of a worker are never freed, so the next
    /// threads take these workers.
    workers: Mutex<Vec<Worker>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The number of threads that ended because there was no work.
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
        // The handles of threads that have ended only occupy memory.
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Keeps the worker of a thread that ends because there was no work.
    pub(super) fn leave(&self, mut worker: Worker) {
        worker.do_housekeeping();
        lock(&self.workers).push(worker);
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of threads that ended because there was no work.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Has workers without a thread release what has left the cache.
    pub(super) fn do_housekeeping(&self) {
        lock(&self.workers).iter_mut().for_each(Worker::do_housekeeping);
    }

    pub(super) fn is_finished(&self) -> bool {
        lock(&self.threads).iter().all(JoinHandle::is_finished)
    }

    /// Waits for all threads to end.
    pub(super) fn join(&self) {
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join(); // its panic was caught and reported
        }
    }
}
