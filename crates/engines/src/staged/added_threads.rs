//! Threads that come and go: the thread controller starts them, and each ends by itself when there
//! has been nothing to do for a while. Those that a stage has from the start are not among them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use session::Worker;

use super::client::Stage;
use super::pipeline::Pipeline;
use super::stage_thread::StageThread;
use crate::engine::MakeWorker;
use crate::parts::loops::{Seat, describe_panic};

/// The threads of one partition, and what they leave.
pub(super) struct AddedThreads {
    more: MakeWorker,
    /// Of threads that have ended. Each has counters for ever, so the next ones take them.
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

    /// Starts a thread for a stage.
    pub(super) fn add(pipeline: &Arc<Pipeline>, seat: &Seat, stage: Stage) -> io::Result<()> {
        let pool = Arc::clone(pipeline.pool(stage));
        let (task_pipeline, seat) = (Arc::clone(pipeline), seat.clone());
        let task_pool = Arc::clone(&pool);
        pool.added.fetch_add(1, Ordering::Relaxed);
        let task = move || {
            let outcome = task_pipeline.added_threads.run(&task_pipeline, &seat, stage);
            task_pool.added.fetch_sub(1, Ordering::Relaxed);
            if let Err(why) = outcome {
                task_pipeline.lose();
                let name = task_pool.name;
                seat.shared.tell(format!("a thread that was added to {name} failed: {why}"));
            }
        };
        let spawned = Builder::new().name(format!("{}-added", super::SPEC.name)).spawn(task);
        match spawned {
            Ok(thread) => pipeline.added_threads.keep(thread),
            Err(why) => {
                pool.added.fetch_sub(1, Ordering::Relaxed);
                return Err(why);
            }
        }
        Ok(())
    }

    /// A thread's whole life.
    fn run(&self, pipeline: &Arc<Pipeline>, seat: &Seat, stage: Stage) -> Result<(), String> {
        let idle_ms = seat.knobs.get(super::THREAD_IDLE_MS.name);
        let run =
            || StageThread::new(self.worker(), seat, pipeline, stage).run_for_a_while(idle_ms);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(mut worker)) => {
                worker.keep_house();
                lock(&self.workers).push(worker);
                self.ended.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Ok(Err(why)) => Err(why.to_string()),
            Err(panic) => Err(describe_panic(&*panic)),
        }
    }

    /// The worker of a thread that has ended, or a new one.
    fn worker(&self) -> Worker {
        let kept = lock(&self.workers).pop();
        kept.unwrap_or_else(|| (self.more)())
    }

    fn keep(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.threads);
        // What has ended is only memory.
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// How many threads ended because there was nothing to do.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Has workers without a thread let go of what has left the cache.
    pub(super) fn keep_house(&self) {
        lock(&self.workers).iter_mut().for_each(Worker::keep_house);
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

/// No panic happens under these locks, so what they guard is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
