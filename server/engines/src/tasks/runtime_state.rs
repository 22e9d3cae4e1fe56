//! The state that the tasks of one runtime share: a context for each of its threads, and the
//! registry of connections, through which tasks get orders and the connection that has rested
//! longest is found.
//!
//! No lock is held across an await. The lock of a context belongs to its thread: it is contended
//! only during the housekeeping for the workers of a runtime that sleeps.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use session::{Tick, Worker};

use super::calls::TaskLine;
use super::knobs::BLOCKING_THREADS;
use crate::engine::SendfileMode;
use crate::lock::lock;
use crate::orders::{Order, Orders};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::applications::call_pool::{Bounds, CallPool};
use crate::parts::loops::LoopContext;
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::reactor;
use crate::parts::loops::step::RECEIVE_BYTES;

/// The order to a task to make room: to close its connection if that rests.
pub(super) const MAKE_ROOM: u8 = 1;
/// The order to a task to finish the response under way and then close.
pub(super) const DRAIN: u8 = 2;
/// The order to a task to close now.
pub(super) const ABORT: u8 = 4;
/// The order to a task to give its connection to another engine, as soon as it can be moved.
pub(super) const LEAVE: u8 = 8;

/// The orders to every task that follow from those that were issued to the engine. A task has a
/// byte of its own for its orders: it takes them out as it carries them out, while those of the
/// engine stay, and [`MAKE_ROOM`] is for one task and is no order of the engine.
pub(super) fn orders_to_tasks(issued: &Orders) -> u8 {
    let all = [(Order::Leave, LEAVE), (Order::Drain, DRAIN), (Order::Abort, ABORT)];
    let orders = all.into_iter().filter(|(order, _)| issued.is_issued(*order));
    orders.fold(0, |sum, (_, order)| sum | order)
}

/// The number of tasks' turns for which one reading of the clock is exact enough, unless the thread
/// slept.
const TURNS_PER_CLOCK_READ: u32 = 16;

thread_local! {
    /// The index of this thread's context. A thread belongs to one runtime all its life.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
    /// The number of turns for which the time is still exact enough.
    static TURNS_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// Has the clock read before the next turn, after the thread slept: its worker's time is outdated.
pub(super) fn forget_time() {
    TURNS_LEFT.set(0);
}

/// The worker and buffer with which a thread takes the turns of its tasks.
pub(super) struct ThreadContext {
    pub(super) worker: Worker,
    pub(super) buffer: Box<[u8]>,
}

/// The state of one connection that is accessible outside its task.
#[derive(Default)]
pub(super) struct Control {
    /// Orders that the task has not carried out yet.
    pub(super) orders: AtomicU8,
    /// The moment since which the connection rests, in the worker's time; 0 while it does not.
    pub(super) rests_since: AtomicU64,
}

/// The connections that are open.
#[derive(Default)]
struct Registry {
    tasks: Vec<Option<TaskHandle>>,
    free: Vec<usize>,
    /// The orders for new tasks.
    orders: u8,
    /// Connections by the time since which they rest, as read at the last search; the first is
    /// evicted first. A connection that has been busy since then is passed over, and one that is
    /// not listed rests for a shorter time.
    resting: VecDeque<(u64, usize)>,
    acceptors: Vec<Waker>,
    failure: Option<io::Error>,
}

struct TaskHandle {
    control: Arc<Control>,
    waker: Waker,
}

impl TaskHandle {
    fn notify(&self, orders: u8) {
        self.control.orders.fetch_or(orders, Ordering::Release);
        self.waker.wake_by_ref();
    }
}

/// The shared state of one runtime.
pub(super) struct RuntimeState {
    pub(super) loop_context: LoopContext,
    pub(super) sendfile: SendfileMode,
    pub(super) file_chunk_bytes: u64,
    pub(super) accepts_per_wake: usize,
    /// Whether jobs go to blocking threads.
    pub(super) has_blocking_threads: bool,
    /// The applications that answer requests.
    pub(super) calls: Arc<CallPool<TaskLine>>,
    threads: Vec<Mutex<ThreadContext>>,
    threads_seen: AtomicUsize,
    registry: Mutex<Registry>,
    /// The number of connections of this runtime, including those whose task has not begun.
    open: AtomicUsize,
    acceptors_left: AtomicUsize,
    /// Whether an acceptor waits for a connection to leave.
    pub(super) is_room_wanted: AtomicBool,
}

impl RuntimeState {
    pub(super) fn new(workers: Vec<Worker>, acceptors: usize, loop_context: LoopContext) -> Self {
        let thread = |worker| {
            let mut thread = ThreadContext { worker, buffer: vec![0; RECEIVE_BYTES].into() };
            read_clock(&mut thread.worker);
            Mutex::new(thread)
        };
        let has_blocking_threads = loop_context.knobs.get(BLOCKING_THREADS.name) > 0;
        let applications = workers.first().map_or(&[][..], Worker::applications);
        let numbers_max = workers.first().map_or(0, Worker::application_numbers_max);
        let connections_max = &loop_context.shared.connections_max;
        let bounds = Bounds::of_threads(connections_max.most(), connections_max, true);
        Self {
            calls: CallPool::new(applications, numbers_max, bounds, Some(loop_context.waker())),
            // Without threads to fetch bytes there is no use in probing what has to be fetched.
            sendfile: if has_blocking_threads {
                loop_context.sendfile
            } else {
                SendfileMode::NonBlocking
            },
            file_chunk_bytes: loop_context.knobs.get(reactor::FILE_CHUNK_KIB.name) * 1024,
            accepts_per_wake: loop_context.knobs.get_usize(ACCEPTS_PER_WAKE.name),
            has_blocking_threads,
            threads: workers.into_iter().map(thread).collect(),
            threads_seen: AtomicUsize::new(0),
            registry: Mutex::default(),
            open: AtomicUsize::new(0),
            acceptors_left: AtomicUsize::new(acceptors),
            is_room_wanted: AtomicBool::new(false),
            loop_context,
        }
    }

    /// Locks this thread's context, and reads the clock if its time is not exact enough for a turn.
    pub(super) fn this_thread(&self) -> MutexGuard<'_, ThreadContext> {
        let index = THREAD.get().unwrap_or_else(|| {
            let taken = self.threads_seen.fetch_add(1, Ordering::Relaxed);
            // If there were more threads than contexts, some would share one: the lock allows that.
            let index = taken % self.threads.len();
            THREAD.set(Some(index));
            index
        });
        let mut thread = self.threads[index].lock().unwrap_or_else(PoisonError::into_inner);
        match TURNS_LEFT.get() {
            0 => {
                read_clock(&mut thread.worker);
                TURNS_LEFT.set(TURNS_PER_CLOCK_READ);
            }
            turns => TURNS_LEFT.set(turns - 1),
        }
        thread
    }

    /// Does the housekeeping of all workers, whose threads may sleep for long.
    pub(super) fn do_housekeeping(&self) {
        for thread in &self.threads {
            let mut thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
            read_clock(&mut thread.worker);
            thread.worker.do_housekeeping();
        }
    }

    /// Closes connections to applications that no call has used in time. Returns how long it is
    /// until the next one; none if none is kept.
    pub(super) fn close_kept(&self) -> Option<Duration> {
        let now = Tick(os::clock::now());
        let next = self.calls.close_kept(now, self.loop_context.shared.orders.is_ending())?;
        Some(Duration::from_micros(next.since(now)))
    }

    /// Whether [`RuntimeState::do_housekeeping`] is to be called at intervals.
    pub(super) fn is_logging(&self) -> bool {
        let is_logging = |thread: &Mutex<ThreadContext>| {
            thread.lock().unwrap_or_else(PoisonError::into_inner).worker.is_logging()
        };
        self.threads.iter().any(is_logging)
    }

    /// Counts a connection that was accepted, whose task will [`RuntimeState::enter`].
    pub(super) fn admit(&self) {
        self.loop_context.shared.open.fetch_add(1, Ordering::Relaxed);
        self.adopt();
    }

    /// Counts a connection that comes from another engine, as [`RuntimeState::admit`] does.
    pub(super) fn adopt(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts a task into the registry. Returns its slot.
    pub(super) fn enter(&self, control: &Arc<Control>, waker: &Waker) -> usize {
        let task = TaskHandle { control: Arc::clone(control), waker: waker.clone() };
        let mut registry = lock(&self.registry);
        control.orders.fetch_or(registry.orders, Ordering::Release);
        match registry.free.pop() {
            Some(slot) => {
                registry.tasks[slot] = Some(task);
                slot
            }
            None => {
                registry.tasks.push(Some(task));
                registry.tasks.len() - 1
            }
        }
    }

    /// Wakes the task in a slot of the registry.
    pub(super) fn waker(&self, slot: Option<usize>) -> Waker {
        let registry = lock(&self.registry);
        let task = slot.and_then(|slot| registry.tasks[slot].as_ref());
        task.map_or_else(|| Waker::noop().clone(), |task| task.waker.clone())
    }

    /// Counts off a connection, and takes its task out of the registry if it is there. The socket
    /// must be closed already, or have gone with the connection (`has_moved`).
    pub(super) fn leave(&self, slot: Option<usize>, has_moved: bool) {
        if let Some(slot) = slot {
            let mut registry = lock(&self.registry);
            let task = registry.tasks[slot].take();
            registry.free.push(slot);
            drop(registry);
            drop(task); // it may hold the last reference to the task
        }
        if !has_moved {
            self.loop_context.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
        let was = self.open.fetch_sub(1, Ordering::AcqRel);
        self.call_for_room();
        if was == 1 && self.is_ending() {
            self.wake_overseer();
        }
    }

    /// Sends orders to all tasks, and to those that are to come.
    pub(super) fn notify_all(&self, orders: u8) {
        let mut registry = lock(&self.registry);
        registry.orders |= orders;
        registry.tasks.iter().flatten().for_each(|task| task.notify(orders));
    }

    /// Orders the connection that has rested longest to leave. Returns whether there is one: when
    /// it has left, or is found to be busy again, acceptors are woken.
    pub(super) fn evict(&self) -> bool {
        let mut registry = lock(&self.registry);
        for is_fresh in [false, true] {
            if is_fresh {
                registry.find_resting();
            }
            while let Some((since, slot)) = registry.resting.pop_front() {
                if let Some(task) = &registry.tasks[slot]
                    && task.control.rests_since.load(Ordering::Relaxed) == since
                {
                    // A connection that was ordered to leave does not count as resting any more.
                    task.control.rests_since.store(0, Ordering::Relaxed);
                    task.notify(MAKE_ROOM);
                    return true;
                }
            }
        }
        false
    }

    pub(super) fn is_full(&self) -> bool {
        self.loop_context.shared.is_full()
    }

    /// Requests room from other runtimes, when no connection of this one is idle.
    pub(super) fn request_room(&self) {
        self.loop_context.shared.request_room(self.loop_context.index);
    }

    /// Orders an idle connection to leave, if another runtime wants room.
    pub(super) fn make_room_for_others(&self) {
        if self.loop_context.shared.is_room_wanted(self.loop_context.index) {
            self.evict();
        }
    }

    pub(super) fn is_accepting(&self) -> bool {
        let orders = &self.loop_context.shared.orders;
        !orders.is_issued(Order::StopAccepting) && !self.is_leaving()
    }

    /// Whether other engines watch the listeners, and are to get the connections.
    pub(super) fn is_leaving(&self) -> bool {
        self.loop_context.shared.orders.is_issued(Order::Leave)
    }

    /// Wakes the acceptors, so that they check again what they wait for.
    pub(super) fn call_acceptors(&self) {
        lock(&self.registry).acceptors.iter().for_each(Waker::wake_by_ref);
    }

    /// Wakes the acceptors if one waits for room: there may be room, or another connection must be
    /// chosen.
    pub(super) fn call_for_room(&self) {
        if self.is_room_wanted.load(Ordering::Acquire) {
            self.call_acceptors();
        }
    }

    /// Registers an acceptor that begins.
    pub(super) fn enter_acceptor(&self, waker: &Waker) {
        lock(&self.registry).acceptors.push(waker.clone());
    }

    /// Counts off an acceptor that has ended, with the reason unless it was ordered to.
    pub(super) fn leave_acceptor(&self, failure: Option<io::Error>) {
        let mut registry = lock(&self.registry);
        registry.failure = registry.failure.take().or(failure);
        drop(registry);
        let is_last = self.acceptors_left.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && self.is_leaving() {
            self.loop_context.shared.orders.note_left();
        }
        self.wake_overseer();
    }

    /// Takes the first failure of an acceptor.
    pub(super) fn failure(&self) -> Option<io::Error> {
        lock(&self.registry).failure.take()
    }

    /// Whether no connection is left and none will come.
    pub(super) fn is_over(&self) -> bool {
        let LoopContext { shared, index, .. } = &self.loop_context;
        self.is_ending()
            && self.acceptors_left.load(Ordering::Acquire) == 0
            && self.open.load(Ordering::Acquire) == 0
            && shared.inboxes.close_if_empty(*index)
    }

    pub(super) fn is_ending(&self) -> bool {
        self.loop_context.shared.orders.is_ending()
    }

    /// Wakes the task that oversees the runtime.
    fn wake_overseer(&self) {
        self.loop_context.shared.wakes[self.loop_context.index].notify();
    }
}

impl Registry {
    fn find_resting(&mut self) {
        let since = |(slot, task): (usize, &Option<TaskHandle>)| {
            let since = task.as_ref()?.control.rests_since.load(Ordering::Relaxed);
            (since != 0).then_some((since, slot))
        };
        let mut resting: Vec<_> = self.tasks.iter().enumerate().filter_map(since).collect();
        resting.sort_unstable();
        self.resting = resting.into();
    }
}
