//! Threads with a loop each: started together, told together, ended together. What a loop does is
//! the engine's: an event loop is in `reactor.rs`.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use os::event::Wake;

use crate::jobs::Runner;
use crate::knobs::KnobValues;
use crate::{Engine, SendfileMode, Start, WorkerStart};

/// Loops that run, each in a thread.
pub(crate) struct Loops {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// What the loops of one engine share.
pub(crate) struct Shared {
    /// Connections open in all loops.
    pub(crate) open: AtomicUsize,
    pub(crate) connections_max: usize,
    pub(crate) stop_accepting: AtomicBool,
    pub(crate) drain: AtomicBool,
    pub(crate) abort: AtomicBool,
    /// A wake-up call for each loop.
    pub(crate) wakes: Vec<Wake>,
    /// Which loop ended against its will first, and why.
    failure: OnceLock<String>,
}

/// What one loop is made with, besides its worker.
pub(crate) struct Seat {
    pub(crate) runner: Arc<Runner>,
    pub(crate) shared: Arc<Shared>,
    /// Which of all loops it is, from 0: its wake-up call in [`Shared::wakes`].
    pub(crate) index: usize,
    pub(crate) sendfile: SendfileMode,
    pub(crate) exclusive_wakeups: bool,
    pub(crate) knobs: KnobValues,
}

/// A loop, to be run in its thread until all it was told to do is done.
pub(crate) type Loop = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// What a thread does.
type Task = Box<dyn FnOnce() + Send>;

impl Loops {
    /// Starts a thread for each worker. `make` is called for all of them before any thread runs.
    pub(crate) fn start(
        name: &'static str,
        start: Start,
        make: impl Fn(WorkerStart, Seat) -> io::Result<Loop>,
    ) -> io::Result<Self> {
        Self::start_with(name, start, make, |name, task| Builder::new().name(name).spawn(task))
    }

    /// The same with another way to get threads.
    fn start_with(
        name: &'static str,
        start: Start,
        make: impl Fn(WorkerStart, Seat) -> io::Result<Loop>,
        mut spawn: impl FnMut(String, Task) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<Self> {
        let workers: Vec<WorkerStart> =
            start.partitions.into_iter().flat_map(|partition| partition.workers).collect();
        let shared = Arc::new(Shared::new(workers.len(), start.connections_max)?);
        // Made before any thread is: what is missing is said now, and nothing runs then.
        let make = |(index, worker): (usize, WorkerStart)| {
            let cpu = worker.cpu;
            let seat = Seat {
                runner: Arc::clone(&start.runner),
                shared: Arc::clone(&shared),
                index,
                sendfile: start.sendfile,
                exclusive_wakeups: start.exclusive_wakeups,
                knobs: start.knobs.clone(),
            };
            Ok((cpu, make(worker, seat)?))
        };
        let made: Vec<_> = workers.into_iter().enumerate().map(make).collect::<io::Result<_>>()?;
        let mut loops = Self { threads: Vec::new(), shared };
        for (index, (cpu, run)) in made.into_iter().enumerate() {
            let (name, shared) = (format!("{name}-{index}"), Arc::clone(&loops.shared));
            let task = task(name.clone(), cpu, run, shared);
            match spawn(name, task) {
                Ok(thread) => loops.threads.push(thread),
                Err(why) => {
                    // Those that run already must not go on without anybody to stop them.
                    loops.stop_accepting();
                    loops.abort();
                    let _ = Box::new(loops).join(); // what was missing first is the reason
                    return Err(why);
                }
            }
        }
        Ok(loops)
    }

    fn tell(&self, flag: &AtomicBool) {
        flag.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        self.shared.wakes.iter().for_each(Wake::notify);
    }
}

impl Engine for Loops {
    fn stop_accepting(&mut self) {
        self.tell(&self.shared.stop_accepting);
    }

    fn drain(&mut self) {
        self.tell(&self.shared.drain);
    }

    fn abort(&mut self) {
        self.tell(&self.shared.abort);
    }

    /// A loop that is woken lets go of what it need not hold.
    fn keep_house(&self) {
        self.wake();
    }

    fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    fn join(self: Box<Self>) -> io::Result<()> {
        for thread in self.threads {
            // Panics are caught within: only the end of a panic could panic again.
            thread.join().map_err(|_| io::Error::other("a thread ended in disorder"))?;
        }
        self.shared.failure.get().map_or(Ok(()), |why| Err(io::Error::other(why.clone())))
    }
}

impl Shared {
    pub(crate) fn new(workers: usize, connections_max: usize) -> io::Result<Self> {
        Ok(Self {
            open: AtomicUsize::new(0),
            connections_max,
            stop_accepting: AtomicBool::new(false),
            drain: AtomicBool::new(false),
            abort: AtomicBool::new(false),
            wakes: (0..workers).map(|_| Wake::new()).collect::<io::Result<_>>()?,
            failure: OnceLock::new(),
        })
    }
}

/// A loop in its thread. That it fails is noted when all it had is closed.
fn task(name: String, cpu: Option<usize>, run: Loop, shared: Arc<Shared>) -> Task {
    Box::new(move || {
        let outcome = || {
            if let Some(cpu) = cpu {
                let pinned = os::affinity::pin_thread(&[cpu]);
                pinned.map_err(|why| format!("cannot stay on CPU {cpu}: {why}"))?;
            }
            run().map_err(|why| why.to_string())
        };
        let outcome = catch_unwind(AssertUnwindSafe(outcome));
        let outcome = outcome.unwrap_or_else(|panic| Err(describe_panic(&*panic)));
        if let Err(why) = outcome {
            let _ = shared.failure.set(format!("{name}: {why}")); // the first is the one to tell
        }
    })
}

/// What a panic said; the place has been printed.
fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no message"))
}

#[cfg(test)]
mod tests;
