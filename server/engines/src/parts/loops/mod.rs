//! Threads with a loop each: they are started together, take orders together and end together. The
//! engine decides what a loop does: an event loop is in `reactor.rs`.
//!
//! A loop may be replaceable: if it fails, its thread makes another that goes on at the same
//! listeners. A copy of the listeners is kept for it, so that no connection in their queues is
//! reset.

pub(crate) mod clock;
pub(crate) mod connections;
pub(crate) mod cpu_placement;
pub(crate) mod drive;
mod handover;
pub(crate) mod inbox;
pub(crate) mod obey;
pub(crate) mod reactor;
pub(crate) mod step;
mod sync;
pub(crate) mod transport;
pub(crate) mod watch;
pub(crate) mod wheel;

use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::Waker;
use std::thread::{Builder, JoinHandle};

use os::event::Wake;
use session::Connection;

use crate::engine::{
    ConnectionLimit, Engine, Heir, MakeWorker, SendfileMode, Start, StartHelper, WorkerStart,
};
use crate::jobs::Runner;
use crate::knobs::KnobValues;
use crate::lock::lock;
use crate::orders::{Order, Orders};
use crate::parts::failures::Failures;
use cpu_placement::CpuPlacement;
use inbox::Inboxes;

/// Loops that run, each in a thread.
pub(crate) struct Loops {
    threads: Vec<JoinHandle<()>>,
    /// Whether the loops run, once it is known: not before all threads are there, and the order to
    /// begin.
    begins: Arc<OnceLock<bool>>,
    shared: Arc<Shared>,
    /// Whether they go on with the connections of other engines, and give theirs away.
    moves_connections: bool,
}

/// The state that the loops of one engine share.
pub(crate) struct Shared {
    /// Connections open in all engines of the process.
    pub(crate) open: Arc<AtomicUsize>,
    pub(crate) connections_max: ConnectionLimit,
    pub(crate) orders: Orders,
    /// A wake-up call for each loop.
    pub(crate) wakes: Vec<Wake>,
    /// The connections that other loops have handed to each.
    pub(crate) inboxes: Inboxes,
    /// Who gets the connections when the loops leave, and the number of all that there have been.
    heir: Mutex<(Option<Arc<dyn Heir>>, u32)>,
    /// The number of the one that there is, from 1; 0 if there is none.
    heir_number: AtomicU32,
    /// For each loop, whether another has asked it to close an idle connection.
    room_wanted: Vec<AtomicBool>,
    /// The loop that failed first, and why, in one line.
    failure: OnceLock<String>,
    /// Reports of failures that were handled.
    notices: Mutex<Vec<String>>,
    /// Copies of the listeners of each loop, until accepting stops; none if it is not replaced.
    listeners: Mutex<Vec<Vec<OwnedFd>>>,
}

/// The parts that one loop is made with, besides its worker.
#[derive(Clone)]
pub(crate) struct LoopContext {
    pub(crate) runner: Arc<Runner>,
    pub(crate) shared: Arc<Shared>,
    /// The index of the loop among all loops, from 0, and of its wake-up call in [`Shared::wakes`].
    pub(crate) index: usize,
    /// The CPU that the loop runs on.
    pub(crate) placement: CpuPlacement,
    pub(crate) sendfile: SendfileMode,
    pub(crate) exclusive_wakeups: bool,
    pub(crate) knobs: KnobValues,
    pub(crate) start_helper: StartHelper,
}

impl LoopContext {
    /// A waker of the loop, which gets its wake-up call.
    pub(crate) fn waker(&self) -> Waker {
        Waker::from(Arc::new(LoopWaker { shared: Arc::clone(&self.shared), index: self.index }))
    }
}

struct LoopWaker {
    shared: Arc<Shared>,
    index: usize,
}

impl std::task::Wake for LoopWaker {
    fn wake(self: Arc<Self>) {
        self.shared.wakes[self.index].notify();
    }
}

/// A loop, to be run in its thread until it has carried out all its orders.
pub(crate) type Loop = Box<dyn FnOnce() -> io::Result<()> + Send>;

/// Makes a loop.
type MakeLoop = Arc<dyn Fn(WorkerStart, LoopContext) -> io::Result<Loop> + Send + Sync>;

/// Called after a loop has failed and everything it had is gone, with the index of the loop and
/// whether another goes on in its place.
type Failed = Arc<dyn Fn(usize, bool) + Send + Sync>;

/// The body of a thread.
type Task = Box<dyn FnOnce() + Send>;

/// One thread's view of the loop it runs.
struct LoopThread {
    name: String,
    loop_context: LoopContext,
    /// The means to replace the loop if it fails; none if it is not replaceable.
    replace: Option<Replace>,
}

/// The means to make another loop in the place of one that has failed.
struct Replace {
    make: MakeLoop,
    more: MakeWorker,
    failed: Failed,
}

impl Loops {
    /// Starts a thread for each worker. `make` is called for all of them before any thread runs,
    /// and no loop runs before the order to begin. The failure of a loop is the engine's failure.
    pub(crate) fn start(
        name: &'static str,
        start: Start,
        make: impl Fn(WorkerStart, LoopContext) -> io::Result<Loop>,
    ) -> io::Result<Self> {
        Self::start_with(name, start, make, None, spawn)
    }

    /// Starts a thread for each worker, for loops that do not depend on each other: a loop that
    /// fails is replaced. When a loop returns or panics, it must have closed its connections and
    /// counted them off.
    pub(crate) fn start_replaceable(
        name: &'static str,
        start: Start,
        make: impl Fn(WorkerStart, LoopContext) -> io::Result<Loop> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::start_related(name, start, make, |_, _| {})
    }

    /// Starts a thread for each worker, for loops that depend on each other: `failed` is called
    /// after a loop has failed and everything it had is gone, with the loop's index and whether
    /// another goes on in its place.
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

    /// Starts a thread for each worker by `spawn`. A loop that fails is replaced by means of
    /// `again`; without it, the failure is the engine's.
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
        let mut shared = Shared::new(workers.len(), start.connections_max)?;
        shared.open = start.open;
        // A loop without listeners works for another.
        let accepts = |index: &usize| !workers[*index].0.listeners.is_empty();
        shared.inboxes.takers = (0..workers.len()).filter(accepts).collect();
        let shared = Arc::new(shared);
        // All loops are made before any thread starts: if something is missing, nothing runs yet.
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
        let moves_connections = crate::find(name).is_some_and(|spec| spec.moves.are_taken());
        let (threads, begins) = (Vec::new(), Arc::new(OnceLock::new()));
        let mut loops = Self { threads, begins, shared, moves_connections };
        for (thread, run) in made {
            let (name, begins) = (thread.name.clone(), Arc::clone(&loops.begins));
            let task = move || {
                if *begins.wait() {
                    thread.keep_running(run);
                }
            };
            match spawn(name, Box::new(task)) {
                Ok(thread) => loops.threads.push(thread),
                Err(why) => {
                    // The threads that wait already must end: no caller could end them later.
                    let _ = loops.begins.set(false);
                    loops.issue(Order::StopAccepting);
                    let _ = Box::new(loops).join(); // the first error is the one that is returned
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
    fn issue(&mut self, order: Order) {
        self.shared.orders.issue(order);
        let _ = self.begins.set(true); // it may have been set by another order
        if matches!(order, Order::Leave | Order::StopAccepting) {
            // The loops empty the queues and close the listeners; a copy would hold them open.
            self.shared.listeners().iter_mut().for_each(Vec::clear);
        }
        self.wake();
    }

    fn heir(&self) -> Option<Arc<dyn Heir>> {
        self.moves_connections.then(|| Arc::clone(&self.shared) as Arc<dyn Heir>)
    }

    fn leave(&mut self, heir: Option<Arc<dyn Heir>>) {
        self.shared.set_heir(heir.filter(|_| self.moves_connections));
        self.issue(Order::Leave);
    }

    fn has_left(&self) -> bool {
        self.shared.orders.left() >= self.shared.inboxes.takers.len() || self.is_finished()
    }

    /// Wakes each loop: a loop that is woken releases the entries that it need not hold.
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
            // Panics are caught within the thread: only dropping a panic's payload could panic.
            thread.join().map_err(|_| io::Error::other("a thread panicked"))?;
        }
        self.shared.failure.get().map_or(Ok(()), |why| Err(io::Error::other(why.clone())))
    }
}

impl Shared {
    pub(crate) fn new(workers: usize, connections_max: ConnectionLimit) -> io::Result<Self> {
        Ok(Self {
            open: Arc::default(),
            connections_max,
            orders: Orders::default(),
            wakes: (0..workers).map(|_| Wake::new()).collect::<io::Result<_>>()?,
            inboxes: Inboxes::new(workers),
            heir: Mutex::default(),
            heir_number: AtomicU32::new(0),
            room_wanted: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            failure: OnceLock::new(),
            notices: Mutex::default(),
            listeners: Mutex::new((0..workers).map(|_| Vec::new()).collect()),
        })
    }

    /// Requests all loops but `requester` to close an idle connection: as many connections are open
    /// as may be, a client waits at the requester's listeners, and the requester has no idle
    /// connection.
    pub(crate) fn request_room(&self, requester: usize) {
        for (index, (is_wanted, wake)) in self.room_wanted.iter().zip(&self.wakes).enumerate() {
            if index != requester {
                is_wanted.store(true, Ordering::Release);
                wake.notify();
            }
        }
    }

    /// Takes the request for room from a loop. Returns whether there was one and there is still no
    /// room.
    pub(crate) fn is_room_wanted(&self, index: usize) -> bool {
        self.take_room_request(index) && self.is_full()
    }

    /// Takes the request for room from a loop. Returns whether there was one.
    pub(crate) fn take_room_request(&self, index: usize) -> bool {
        self.room_wanted[index].swap(false, Ordering::AcqRel)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.open.load(Ordering::Relaxed) >= self.connections_max.now()
    }

    /// Who gets the connections, if the loops leave.
    pub(crate) fn heir(&self) -> Option<Arc<dyn Heir>> {
        lock(&self.heir).0.clone()
    }

    /// Whether there is an heir that can take a connection in this state.
    pub(crate) fn may_move(&self, connection: &Connection) -> bool {
        lock(&self.heir).0.as_ref().is_some_and(|heir| heir.may_take(connection))
    }

    /// Whether connections are to end with their next responses: they can go to no other engine.
    pub(crate) fn is_finishing(&self) -> bool {
        self.orders.is_issued(Order::Leave) && self.heir_number() == 0
    }

    /// The number of the heir, 0 without one. A connection that one has refused is offered to the
    /// next.
    pub(crate) fn heir_number(&self) -> u32 {
        self.heir_number.load(Ordering::SeqCst)
    }

    fn set_heir(&self, heir: Option<Arc<dyn Heir>>) {
        let mut current = lock(&self.heir);
        current.1 += u32::from(heir.is_some());
        let number = if heir.is_some() { current.1 } else { 0 };
        current.0 = heir;
        self.heir_number.store(number, Ordering::SeqCst);
    }

    /// Takes the reports of failures that were handled since the last call.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.notices))
    }

    /// Adds a report of a failure that was handled.
    pub(crate) fn add_notice(&self, notice: String) {
        lock(&self.notices).push(notice);
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Vec<OwnedFd>>> {
        lock(&self.listeners)
    }
}

impl LoopThread {
    /// Runs a loop, and another each time that one fails, for the whole life of the thread.
    fn keep_running(self, mut run: Loop) {
        let mut failures = Failures::default();
        while let Err(why) = self.run(run) {
            match self.replace(&mut failures) {
                Ok(Some(another)) => {
                    let notice = format!("{} failed and was replaced: {why}", self.name);
                    self.loop_context.shared.add_notice(notice);
                    self.notify_failed(true);
                    run = another;
                }
                Ok(None) => return self.record_failure(&why),
                Err(other) => return self.record_failure(&format!("{why}; not replaced: {other}")),
            }
        }
        // The loop may have ended without an order to. No loop accepts at its listeners any more.
        self.loop_context.shared.listeners()[self.loop_context.index].clear();
        self.loop_context.shared.close_inbox(self.loop_context.index);
    }

    /// Runs a loop to its end, by which it has closed everything it had.
    fn run(&self, run: Loop) -> Result<(), String> {
        let outcome = || {
            self.loop_context.placement.take()?;
            run().map_err(|why| why.to_string())
        };
        let outcome = catch_unwind(AssertUnwindSafe(outcome));
        outcome.unwrap_or_else(|panic| Err(describe_panic(&*panic)))
    }

    /// Makes another loop at the listeners of one that has failed; none if there were too many
    /// failures or all loops are about to end.
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
            // Under the lock: these copies must not be made after the kept ones were dropped.
            if shared.orders.is_any_issued() {
                return Ok(None);
            }
            copies(&copies_kept[self.loop_context.index])?
        };
        let placement = &self.loop_context.placement;
        let (cpu, unpinned_cpus) = (placement.cpu(), placement.unpinned_cpus());
        let worker = WorkerStart { worker: more(), cpu, unpinned_cpus, listeners };
        let again = catch_unwind(AssertUnwindSafe(|| make(worker, self.loop_context.clone())));
        let again = again.map_err(|panic| io::Error::other(describe_panic(&*panic)))??;
        // The wake-up call of the last order may have been cleared by the loop that failed.
        shared.wakes[self.loop_context.index].notify();
        Ok(Some(again))
    }

    fn record_failure(&self, why: &str) {
        self.loop_context.shared.listeners()[self.loop_context.index].clear();
        self.loop_context.shared.close_inbox(self.loop_context.index);
        // The first failure is the one that is reported.
        let _ = self.loop_context.shared.failure.set(format!("{}: {why}", self.name));
        self.notify_failed(false);
    }

    fn notify_failed(&self, is_replaced: bool) {
        if let Some(replace) = &self.replace {
            (replace.failed)(self.loop_context.index, is_replaced);
        }
    }
}

/// Takes the turns of a loop until everything has ended. If the loop fails, each of its connections
/// is cut off, and those in the listeners' queues wait for the loop that may take its place.
pub(crate) fn run_or_cut_off<L>(
    mut this: L,
    turns: fn(&mut L) -> io::Result<()>,
    keys: fn(&L) -> Vec<u64>,
    cut_off: fn(&mut L, u64),
) -> io::Result<()> {
    let outcome = catch_unwind(AssertUnwindSafe(|| turns(&mut this)));
    if !matches!(outcome, Ok(Ok(()))) {
        for key in keys(&this) {
            // The connection that failed may fail again, and the others must still be closed.
            let _ = catch_unwind(AssertUnwindSafe(|| cut_off(&mut this, key)));
        }
    }
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

fn spawn(name: String, task: Task) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name).spawn(task)
}

fn copies(listeners: &[OwnedFd]) -> io::Result<Vec<OwnedFd>> {
    listeners.iter().map(OwnedFd::try_clone).collect()
}

/// The message of a panic, whose place in the code has been printed.
pub(crate) fn describe_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no message"))
}

#[cfg(test)]
mod tests;
