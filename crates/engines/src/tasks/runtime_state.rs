//! What the tasks of one runtime share: a context for each of its threads, and the registry of
//! connections, by which their tasks are told things and the one that has rested longest is found.
//!
//! Nothing is locked across an await. The lock of a context is its thread's own: it is contended
//! only while the workers of a runtime that sleeps are looked after.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use session::Worker;

use super::knobs::BLOCKING_THREADS;
use crate::engine::SendfileMode;
use crate::lock::lock;
use crate::orders::Order;
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::LoopContext;
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::reactor;
use crate::parts::loops::step::RECEIVE_BYTES;

/// Make room: close, if you rest.
pub(super) const LEAVE: u8 = 1;
/// Finish what is under way and then close.
pub(super) const DRAIN: u8 = 2;
/// Close now.
pub(super) const ABORT: u8 = 4;

/// Turns of tasks for which one look at the clock is good enough, unless the thread slept.
const TURNS_PER_LOOK: u32 = 16;

thread_local! {
    /// Which context is this thread's. A thread belongs to one runtime all its life.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
    /// Turns for which the time is still good enough.
    static TURNS_LEFT: Cell<u32> = const { Cell::new(0) };
}

/// The thread slept: what its worker takes for the time may be long ago.
pub(super) fn forget_time() {
    TURNS_LEFT.set(0);
}

/// What a thread takes the turns of its tasks with.
pub(super) struct ThreadContext {
    pub(super) worker: Worker,
    pub(super) buffer: Box<[u8]>,
}

/// What is known about one connection outside its task.
#[derive(Default)]
pub(super) struct Control {
    /// What the task was told and has not done yet.
    pub(super) orders: AtomicU8,
    /// Since when the connection rests, in the worker's time; 0 while it does not.
    pub(super) rests_since: AtomicU64,
}

/// The connections that are open.
#[derive(Default)]
struct Registry {
    tasks: Vec<Option<TaskHandle>>,
    free: Vec<usize>,
    /// What newcomers are told.
    orders: u8,
    /// Connections by the time since when they rest, as it was once; the first is asked to leave
    /// first. Who has been busy since is passed over, and nobody who is not in it rests longer.
    resting: VecDeque<(u64, usize)>,
    acceptors: Vec<Waker>,
    failure: Option<io::Error>,
}

struct TaskHandle {
    control: Arc<Control>,
    waker: Waker,
}

impl TaskHandle {
    fn tell(&self, orders: u8) {
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
    threads: Vec<Mutex<ThreadContext>>,
    threads_seen: AtomicUsize,
    registry: Mutex<Registry>,
    /// Connections of this runtime, those included whose task has not begun.
    open: AtomicUsize,
    acceptors_left: AtomicUsize,
    /// Whether an acceptor waits for somebody to leave.
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
        Self {
            // Without somebody to fetch there is no use in asking what has to be fetched.
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

    /// This thread's context, at a time that is good enough for a turn.
    pub(super) fn this_thread(&self) -> MutexGuard<'_, ThreadContext> {
        let index = THREAD.get().unwrap_or_else(|| {
            let taken = self.threads_seen.fetch_add(1, Ordering::Relaxed);
            // A thread too many would only have to share: the lock is a real one.
            let index = taken % self.threads.len();
            THREAD.set(Some(index));
            index
        });
        let mut thread = self.threads[index].lock().unwrap_or_else(PoisonError::into_inner);
        match TURNS_LEFT.get() {
            0 => {
                read_clock(&mut thread.worker);
                TURNS_LEFT.set(TURNS_PER_LOOK);
            }
            turns => TURNS_LEFT.set(turns - 1),
        }
        thread
    }

    /// Looks after workers, of whom some may sleep for long.
    pub(super) fn keep(&self) {
        for thread in &self.threads {
            let mut thread = thread.lock().unwrap_or_else(PoisonError::into_inner);
            read_clock(&mut thread.worker);
            thread.worker.do_housekeeping();
        }
    }

    /// Whether [`RuntimeState::keep`] is to be called now and then.
    pub(super) fn is_logging(&self) -> bool {
        let is_logging = |thread: &Mutex<ThreadContext>| {
            thread.lock().unwrap_or_else(PoisonError::into_inner).worker.is_logging()
        };
        self.threads.iter().any(is_logging)
    }

    /// Counts a connection, whose task will [`RuntimeState::enter`].
    pub(super) fn admit(&self) {
        self.loop_context.shared.open.fetch_add(1, Ordering::Relaxed);
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

    /// Takes a connection out of the count, and its task out of the registry if it is there. Its
    /// socket is closed already.
    pub(super) fn leave(&self, slot: Option<usize>) {
        if let Some(slot) = slot {
            let mut registry = lock(&self.registry);
            let task = registry.tasks[slot].take();
            registry.free.push(slot);
            drop(registry);
            drop(task); // it may hold the last reference to the task
        }
        self.loop_context.shared.open.fetch_sub(1, Ordering::Relaxed);
        let was = self.open.fetch_sub(1, Ordering::AcqRel);
        self.say_there_is_room();
        if was == 1 && self.is_ending() {
            self.ring();
        }
    }

    /// Tells all tasks, and those that are to come.
    pub(super) fn tell_all(&self, orders: u8) {
        let mut registry = lock(&self.registry);
        registry.orders |= orders;
        registry.tasks.iter().flatten().for_each(|task| task.tell(orders));
    }

    /// Asks the connection that has rested longest to leave. Returns whether there is one: when it
    /// has left, or is found to be busy again, acceptors are told.
    pub(super) fn evict(&self) -> bool {
        let mut registry = lock(&self.registry);
        for is_fresh in [false, true] {
            if is_fresh {
                registry.look_who_rests();
            }
            while let Some((since, slot)) = registry.resting.pop_front() {
                if let Some(task) = &registry.tasks[slot]
                    && task.control.rests_since.load(Ordering::Relaxed) == since
                {
                    // Who is asked once does not count as resting any more.
                    task.control.rests_since.store(0, Ordering::Relaxed);
                    task.tell(LEAVE);
                    return true;
                }
            }
        }
        false
    }

    pub(super) fn is_full(&self) -> bool {
        self.loop_context.shared.is_full()
    }

    /// Asks other runtimes for room: nobody rests in this one.
    pub(super) fn ask_for_room(&self) {
        self.loop_context.shared.ask_for_room(self.loop_context.index);
    }

    /// Asks somebody who rests to leave, if another runtime wants room.
    pub(super) fn make_room_for_others(&self) {
        if self.loop_context.shared.is_room_wanted(self.loop_context.index) {
            self.evict();
        }
    }

    pub(super) fn is_accepting(&self) -> bool {
        !self.loop_context.shared.orders.is_given(Order::StopAccepting)
    }

    /// Has acceptors look again at what they wait for.
    pub(super) fn call_acceptors(&self) {
        lock(&self.registry).acceptors.iter().for_each(Waker::wake_by_ref);
    }

    pub(super) fn say_there_is_room(&self) {
        if self.is_room_wanted.load(Ordering::Acquire) {
            self.call_acceptors();
        }
    }

    /// An acceptor begins.
    pub(super) fn enter_acceptor(&self, waker: &Waker) {
        lock(&self.registry).acceptors.push(waker.clone());
    }

    /// An acceptor has ended, and why unless it was told to.
    pub(super) fn leave_acceptor(&self, failure: Option<io::Error>) {
        let mut registry = lock(&self.registry);
        registry.failure = registry.failure.take().or(failure);
        drop(registry);
        self.acceptors_left.fetch_sub(1, Ordering::AcqRel);
        self.ring();
    }

    /// What ended an acceptor against its will.
    pub(super) fn failure(&self) -> Option<io::Error> {
        lock(&self.registry).failure.take()
    }

    /// Whether nobody is left and nobody will come.
    pub(super) fn is_over(&self) -> bool {
        self.is_ending()
            && self.acceptors_left.load(Ordering::Acquire) == 0
            && self.open.load(Ordering::Acquire) == 0
    }

    fn is_ending(&self) -> bool {
        self.loop_context.shared.orders.is_ending()
    }

    /// Wakes who looks after the runtime.
    fn ring(&self) {
        self.loop_context.shared.wakes[self.loop_context.index].notify();
    }
}

impl Registry {
    fn look_who_rests(&mut self) {
        let since = |(slot, task): (usize, &Option<TaskHandle>)| {
            let since = task.as_ref()?.control.rests_since.load(Ordering::Relaxed);
            (since != 0).then_some((since, slot))
        };
        let mut resting: Vec<_> = self.tasks.iter().enumerate().filter_map(since).collect();
        resting.sort_unstable();
        self.resting = resting.into();
    }
}
