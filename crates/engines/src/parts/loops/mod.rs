//! Threads with a loop each: started together, told together, ended together. What a loop does is
//! the engine's: an event loop is in `reactor.rs`.
//!
//! A loop may be replaceable: if it fails, its thread makes another that goes on at the same
//! listeners. Of those a copy is kept for it, so that nobody in their queues is reset.

pub(crate) mod clock;
pub(crate) mod connections;
pub(crate) mod cpu_placement;
pub(crate) mod drive;
pub(crate) mod obey;
pub(crate) mod reactor;
pub(crate) mod step;
pub(crate) mod watch;
pub(crate) mod wheel;

use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::{Builder, JoinHandle};

use os::event::Wake;

use crate::engine::{Engine, MakeWorker, SendfileMode, Start, StartHelper, WorkerStart};
use crate::failures::Failures;
use crate::jobs::Runner;
use crate::knobs::KnobValues;
use crate::lock::lock;
use crate::orders::{Order, Orders};
use cpu_placement::CpuPlacement;

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
    pub(crate) orders: Orders,
    /// A wake-up call for each loop.
    pub(crate) wakes: Vec<Wake>,
    /// For each loop, whether another has asked it to close a connection that rests.
    room_wanted: Vec<AtomicBool>,
    /// Which loop ended against its will first, and why.
    failure: OnceLock<String>,
    /// What went wrong and was mended.
    notices: Mutex<Vec<String>>,
    /// Copies of the listeners of each loop, until no more is accepted; none if it is not replaced.
    listeners: Mutex<Vec<Vec<OwnedFd>>>,
}

/// What one loop is made with, besides its worker.
#[derive(Clone)]
pub(crate) struct LoopContext {
    pub(crate) runner: Arc<Runner>,
    pub(crate) shared: Arc<Shared>,
    /// Which of all loops it is, from 0: its wake-up call in [`Shared::wakes`].
    pub(crate) index: usize,
    /// The CPU that the loop runs on.
    pub(crate) placement: CpuPlacement,
    pub(crate) sendfile: SendfileMode,
    pub(crate) exclusive_wakeups: bool,
    pub(crate) knobs: KnobValues,
    pub(crate) start_helper: StartHelper,
}

/// A loop, to be run in its thread until all it was told to do is done.
pub(crate) type Loop = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Makes a loop.
type MakeLoop = Arc<dyn Fn(WorkerStart, LoopContext) -> io::Result<Loop> + Send + Sync>;

/// Learns that a loop has failed, when all that it had is gone: which of all loops it was, and
/// whether another goes on in its place.
type Failed = Arc<dyn Fn(usize, bool) + Send + Sync>;

/// What a thread does.
type Task = Box<dyn FnOnce() + Send>;

/// What one thread knows of the loop it runs.
struct LoopThread {
    name: String,
    loop_context: LoopContext,
    /// How the loop is replaced if it fails; none if it is not.
    replace: Option<Replace>,
}

/// What makes another loop in the place of one that has failed.
struct Replace {
    make: MakeLoop,
    more: MakeWorker,
    failed: Failed,
}

impl Loops {
    /// Starts a thread for each worker. `make` is called for all of them before any thread runs. A
    /// loop that fails is the engine's failure.
    pub(crate) fn start(
        name: &'static str,
        start: Start,
        make: impl Fn(WorkerStart, LoopContext) -> io::Result<Loop>,
    ) -> io::Result<Self> {
        Self::start_with(name, start, make, None, spawn)
    }

    /// Starts a thread for each worker, for loops that do not depend on each other: a loop that
    /// fails is replaced. When it returns or panics, it has closed its connections and counted them
    /// off.
    pub(crate) fn start_replaceable(
        name: &'static str,
        start: Start,
        make: impl Fn(WorkerStart, LoopContext) -> io::Result<Loop> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start_related(name, start, make, |_, _| {})
    }

    /// Starts a thread for each worker, for loops that depend on each other: `failed` learns which
    /// of them has failed, when all that it had is gone, and whether another goes on in its place.
    pub(crate) fn start_related(
        name: &'static str,
        start: Start,
        make: impl Fn(WorkerStart, LoopContext) -> io::Result<Loop> + Send + Sync + 'static,
        failed: impl Fn(usize, bool) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let make: MakeLoop = Arc::new(make);
        let failed: Failed = Arc::new(failed);
        Self::start_with(name, start, &*make, Some((&make, &failed)), spawn)
    }

    /// Starts a thread for each worker by `spawn`. A loop that fails is replaced as `again` says;
    /// with none it is the engine's failure.
    fn start_with(
        name: &'static str,
        start: Start,
        make: impl Fn(WorkerStart, LoopContext) -> io::Result<Loop>,
        again: Option<(&MakeLoop, &Failed)>,
        mut spawn: impl FnMut(String, Task) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<Self> {
        let workers: Vec<(WorkerStart, MakeWorker)> = start
            .partitions
            .into_iter()
            .flat_map(|partition| {
                let more = partition.more;
                partition.workers.into_iter().map(move |worker| (worker, Arc::clone(&more)))
            })
            .collect();
        let shared = Arc::new(Shared::new(workers.len(), start.connections_max)?);
        // Made before any thread is: what is missing is said now, and nothing runs then.
        let make = |(index, (worker, more)): (usize, (WorkerStart, MakeWorker))| {
            let loop_context = LoopContext {
                runner: Arc::clone(&start.runner),
                shared: Arc::clone(&shared),
                index,
                placement: CpuPlacement::new(worker.cpu, &worker.unpinned_cpus),
                sendfile: start.sendfile,
                exclusive_wakeups: start.exclusive_wakeups,
                knobs: start.knobs.clone(),
                start_helper: Arc::clone(&start.start_helper),
            };
            let replace = again.map(|(make, failed)| Replace {
                make: Arc::clone(make),
                more,
                failed: Arc::clone(failed),
            });
            if replace.is_some() {
                shared.listeners()[index] = copies(&worker.listeners)?;
            }
            let name = format!("{name}-{index}");
            let thread = LoopThread { name, loop_context: loop_context.clone(), replace };
            Ok((thread, make(worker, loop_context)?))
        };
        let made: Vec<_> = workers.into_iter().enumerate().map(make).collect::<io::Result<_>>()?;
        let mut loops = Self { threads: Vec::new(), shared };
        for (thread, run) in made {
            match spawn(thread.name.clone(), Box::new(move || thread.keep_running(run))) {
                Ok(thread) => loops.threads.push(thread),
                Err(why) => {
                    // Those that run already must not go on without anybody to stop them.
                    loops.tell(Order::StopAccepting);
                    loops.tell(Order::Abort);
                    let _ = Box::new(loops).join(); // what was missing first is the reason
                    return Err(why);
                }
            }
        }
        Ok(loops)
    }

    fn wake(&self) {
        self.shared.wakes.iter().for_each(Wake::notify);
    }
}

impl Engine for Loops {
    fn tell(&mut self, order: Order) {
        self.shared.orders.give(order);
        if order == Order::StopAccepting {
            // The loops empty the queues and close the listeners: then nothing may hold them open.
            self.shared.listeners().iter_mut().for_each(Vec::clear);
        }
        self.wake();
    }

    /// A loop that is woken lets go of what it need not hold.
    fn do_housekeeping(&self) {
        self.wake();
    }

    fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    fn take_notices(&self) -> Vec<String> {
        self.shared.take_notices()
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
            orders: Orders::default(),
            wakes: (0..workers).map(|_| Wake::new()).collect::<io::Result<_>>()?,
            room_wanted: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            failure: OnceLock::new(),
            notices: Mutex::default(),
            listeners: Mutex::new((0..workers).map(|_| Vec::new()).collect()),
        })
    }

    /// Asks all loops but this one to close somebody who rests: as many connections are open as may
    /// be, somebody waits at this one's listeners, and nobody rests in it.
    pub(crate) fn ask_for_room(&self, asker: usize) {
        for (index, (is_wanted, wake)) in self.room_wanted.iter().zip(&self.wakes).enumerate() {
            if index != asker {
                is_wanted.store(true, Ordering::Release);
                wake.notify();
            }
        }
    }

    /// Whether a loop was asked for that, which it is told once, and there is still no room.
    pub(crate) fn is_room_wanted(&self, index: usize) -> bool {
        self.was_asked_for_room(index) && self.is_full()
    }

    /// Whether a loop was asked for that, which it is told once.
    pub(crate) fn was_asked_for_room(&self, index: usize) -> bool {
        self.room_wanted[index].swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.connections_max
    }

    /// What has gone wrong and was mended since the last call.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.notices))
    }

    /// Tells what went wrong and was mended.
    pub(crate) fn tell(&self, notice: String) {
        lock(&self.notices).push(notice);
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Vec<OwnedFd>>> {
        lock(&self.listeners)
    }
}

impl LoopThread {
    /// A thread's whole life: a loop, and another if that fails.
    fn keep_running(self, mut run: Loop) {
        let mut failures = Failures::default();
        while let Err(why) = self.run(run) {
            match self.replace(&mut failures) {
                Ok(Some(another)) => {
                    let notice = format!("{} failed and was replaced: {why}", self.name);
                    self.loop_context.shared.tell(notice);
                    self.say_failed(true);
                    run = another;
                }
                Ok(None) => return self.give_up(&why),
                Err(other) => return self.give_up(&format!("{why}; not replaced: {other}")),
            }
        }
        // It may have ended without being told to. Then nobody accepts any more.
        self.loop_context.shared.listeners()[self.loop_context.index].clear();
    }

    /// Runs a loop to its end, which comes when all it had is closed.
    fn run(&self, run: Loop) -> Result<(), String> {
        let outcome = || {
            self.loop_context.placement.take()?;
            run().map_err(|why| why.to_string())
        };
        let outcome = catch_unwind(AssertUnwindSafe(outcome));
        outcome.unwrap_or_else(|panic| Err(describe_panic(&*panic)))
    }

    /// Makes another loop at the listeners of one that has failed; none if too many have failed or
    /// all are about to end.
    fn replace(&self, failures: &mut Failures) -> io::Result<Option<Loop>> {
        let Some(Replace { make, more, .. }) = &self.replace else { return Ok(None) };
        let now = os::clock::now();
        failures.note(now);
        if failures.are_too_many(now) {
            return Ok(None);
        }
        let shared = &self.loop_context.shared;
        let listeners = {
            let copies_kept = shared.listeners();
            // Under the lock: these copies must not outlive those that are let go of.
            if shared.orders.is_given(Order::StopAccepting) {
                return Ok(None);
            }
            copies(&copies_kept[self.loop_context.index])?
        };
        let placement = &self.loop_context.placement;
        let (cpu, unpinned_cpus) = (placement.cpu(), placement.unpinned_cpus());
        let worker = WorkerStart { worker: more(), cpu, unpinned_cpus, listeners };
        let again = catch_unwind(AssertUnwindSafe(|| make(worker, self.loop_context.clone())));
        let again = again.map_err(|panic| io::Error::other(describe_panic(&*panic)))??;
        // What the engine was told last may have been heard by the loop that failed.
        shared.wakes[self.loop_context.index].notify();
        Ok(Some(again))
    }

    fn give_up(&self, why: &str) {
        self.loop_context.shared.listeners()[self.loop_context.index].clear();
        // The first failure is the one that is told.
        let _ = self.loop_context.shared.failure.set(format!("{}: {why}", self.name));
        self.say_failed(false);
    }

    fn say_failed(&self, is_replaced: bool) {
        if let Some(replace) = &self.replace {
            (replace.failed)(self.loop_context.index, is_replaced);
        }
    }
}

fn spawn(name: String, task: Task) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name).spawn(task)
}

fn copies(listeners: &[OwnedFd]) -> io::Result<Vec<OwnedFd>> {
    listeners.iter().map(OwnedFd::try_clone).collect()
}

/// What a panic said; the place has been printed.
pub(crate) fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no message"))
}

#[cfg(test)]
mod tests;
