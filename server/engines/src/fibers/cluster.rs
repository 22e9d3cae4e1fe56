//! A cluster: the state that its kernel threads share. It has no thread of its own.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use os::epoll::{Epoll, EventBuffer, Interest};
use os::event::Wake;
use os::fiber::Fiber;
use os::stacks::{Stack, Stacks};
use session::{Counters, Tick, Worker};

use super::lines::{Callers, FiberLine};
use super::ready::Ready;
use super::routine::Routine;
use super::table::{FiberTable, SlotContent};
use super::timers::Timers;
use crate::engine::SendfileMode;
use crate::lock::lock;
use crate::orders::Order;
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::accept::listeners::{LISTENER_KEYS, Listeners, WAKE_KEY};
use crate::parts::applications::call_pool::{Bounds, CallPool};
use crate::parts::disk::work_queue::WorkQueue;
use crate::parts::loops::obey::Obeyed;
use crate::parts::loops::reactor::{EVENTS_PER_WAIT, FILE_CHUNK_KIB};
use crate::parts::loops::{LoopContext, Shared};

/// The key of the cluster's own wake-up call.
pub(super) const POLLER_WAKE_KEY: u64 = u64::MAX - 1;

pub(super) struct Cluster {
    pub(super) epoll: Epoll,
    pub(super) ready: Ready,
    pub(super) table: FiberTable,
    pub(super) timers: Timers,
    /// The fibers that wait for a thread of the blocking cluster, which may wait for the disk: a
    /// fiber whose next piece of work may block moves there as a whole, does the work, and moves
    /// back. None if there is no blocking cluster.
    pub(super) blocking: Option<WorkQueue<u32>>,
    /// The applications that answer requests.
    pub(super) calls: Arc<CallPool<FiberLine>>,
    pub(super) callers: Callers,
    pub(super) shared: Arc<Shared>,
    pub(super) settings: Settings,
    /// The number of connections of this cluster.
    connections: AtomicUsize,
    /// The first worker's counters, where open connections are counted: one thread counts a
    /// connection in and another out, and a counter has one writer at a time.
    gauge: Mutex<Arc<Counters>>,
    /// Whether connections of another engine wait for room here.
    pub(super) is_room_wanted: AtomicBool,
    /// The number of kernel threads that accept: each may have a connection that is not counted.
    accepting: AtomicUsize,
    pub(super) is_draining: AtomicBool,
    /// Why one of its kernel threads has failed, if one has: then all end.
    failure: OnceLock<String>,
    /// The number of kernel threads that are in the cluster.
    inside: AtomicUsize,
    /// The first kernel thread's index in the engine: its wake-up call is the cluster's.
    pub(super) first: usize,
    listeners: RwLock<Listeners>,
    /// The slots of the acceptors, grouped by listener.
    acceptors: Vec<u32>,
    stacks: Stacks,
    /// Wakes the poller when fibers become ready elsewhere.
    pub(super) poller_wake: Wake,
    /// State that only the poller uses; locked for as long as a kernel thread polls.
    poller: Mutex<Poller>,
}

/// The settings that follow from the knobs.
pub(super) struct Settings {
    pub(super) threads: usize,
    /// Kernel threads of the blocking cluster.
    pub(super) blocking_threads: usize,
    pub(super) accepts_per_wake: usize,
    pub(super) file_chunk_bytes: u64,
    /// How files are sent: with probes only where blocking threads can wait for the disk.
    pub(super) sendfile: SendfileMode,
    pub(super) parks_idle: bool,
    acceptors_per_listener: usize,
    connections_max: usize,
}

/// The state of the poller.
pub(super) struct Poller {
    pub(super) events: EventBuffer,
    /// Fibers that a poll has found ready.
    pub(super) found: Vec<u32>,
    pub(super) obeyed: Obeyed,
    pub(super) is_aborting: bool,
    /// Whether all fibers have been notified that their connections are to go to another engine.
    pub(super) is_leaving: bool,
    /// When connections to applications are to be closed that no call has used in time.
    pub(super) next_close: Option<Tick>,
}

impl Cluster {
    pub(super) fn new(
        sockets: Vec<OwnedFd>,
        worker: &Worker,
        loop_context: &LoopContext,
    ) -> io::Result<Self> {
        let settings = Settings::new(loop_context);
        let connections_max = &loop_context.shared.connections_max;
        let bounds = Bounds::of_threads(settings.connections_max, connections_max, true);
        let (applications, waker) = (worker.applications(), loop_context.waker());
        let numbers_max = worker.application_numbers_max();
        let calls = CallPool::new(applications, numbers_max, bounds, Some(waker));
        let knobs = &loop_context.knobs;
        let acceptors = sockets.len() * settings.acceptors_per_listener;
        let fibers_max = settings.connections_max + acceptors;
        let stack_bytes = knobs.get_usize(super::knobs::STACK_KIB.name) * 1024;
        let listeners = Listeners::new(sockets, loop_context.exclusive_wakeups);
        let mut cluster = Self {
            epoll: Epoll::new()?,
            ready: Ready::new(settings.threads),
            table: FiberTable::new(fibers_max),
            timers: Timers::new(Tick(os::clock::now())),
            blocking: (settings.blocking_threads > 0).then(WorkQueue::new),
            calls,
            callers: Callers::default(),
            shared: Arc::clone(&loop_context.shared),
            connections: AtomicUsize::new(0),
            gauge: Mutex::new(Arc::clone(&worker.counters)),
            is_room_wanted: AtomicBool::new(false),
            accepting: AtomicUsize::new(0),
            is_draining: AtomicBool::new(false),
            failure: OnceLock::new(),
            inside: AtomicUsize::new(0),
            first: loop_context.index,
            listeners: RwLock::new(listeners),
            acceptors: Vec::with_capacity(acceptors),
            stacks: reserve(fibers_max, stack_bytes)?,
            poller_wake: Wake::new()?,
            poller: Mutex::new(Poller {
                events: EventBuffer::with_capacity(EVENTS_PER_WAIT),
                found: Vec::new(),
                obeyed: Obeyed::default(),
                is_aborting: false,
                is_leaving: false,
                next_close: None,
            }),
            settings,
        };
        cluster.watch()?;
        cluster.stacks.prepare(knobs.get_usize(super::knobs::PRESPAWNED.name).min(fibers_max))?;
        cluster.spawn_acceptors()?;
        Ok(cluster)
    }

    fn watch(&self) -> io::Result<()> {
        for (wake, key) in
            [(&self.shared.wakes[self.first], WAKE_KEY), (&self.poller_wake, POLLER_WAKE_KEY)]
        {
            self.epoll.add(wake.as_fd(), Interest::READ, key)?;
        }
        self.listeners().watch(&self.epoll)
    }

    fn spawn_acceptors(&mut self) -> io::Result<()> {
        let count = self.listeners().count();
        for listener in 0..count {
            for _ in 0..self.settings.acceptors_per_listener {
                let key = self.spawn(|_| Routine::Acceptor { listener })?;
                self.acceptors.push(key.ok_or(io::ErrorKind::OutOfMemory)? as u32);
            }
        }
        // They run once at the start: connections may wait already, without an event to come.
        self.acceptors.iter().for_each(|acceptor| self.run_later(*acceptor));
        Ok(())
    }

    /// Makes a fiber, owned by the caller. Returns its key; none if there is no room.
    ///
    /// # Errors
    /// No memory for a stack.
    pub(super) fn spawn(&self, routine: impl FnOnce(u64) -> Routine) -> io::Result<Option<u64>> {
        let Some(stack) = self.stacks.take()? else { return Ok(None) };
        let Some(key) = self.table.occupy() else { return Ok(None) };
        if let Some(slot) = self.table.get(key as u32) {
            *slot.content() = SlotContent::Fiber(Fiber::new(stack, routine(key)));
        }
        Ok(Some(key))
    }

    /// Takes a stack for a connection that has given its own up; none if there is none.
    pub(super) fn stack(&self) -> Option<Stack> {
        self.stacks.take().ok().flatten()
    }

    /// Queues an owned fiber to run in its turn.
    pub(super) fn run_later(&self, index: u32) {
        if self.ready.push(index) {
            self.wake_poller();
        }
    }

    /// Wakes the poller.
    pub(super) fn wake_poller(&self) {
        self.poller_wake.notify();
    }

    /// The slots of the acceptors of the listener with that key.
    pub(super) fn listener_acceptors(&self, key: u64) -> &[u32] {
        let each = self.settings.acceptors_per_listener;
        let listener = (key - LISTENER_KEYS) as usize;
        self.acceptors.get(listener * each..(listener + 1) * each).unwrap_or_default()
    }

    /// Whether the fiber in that slot accepts.
    pub(super) fn is_acceptor(&self, index: u32) -> bool {
        self.acceptors.contains(&index)
    }

    pub(super) fn is_full(&self) -> bool {
        self.shared.is_full()
            || self.connections.load(Ordering::Relaxed) >= self.settings.connections_max
    }

    /// Counts a connection that was accepted.
    pub(super) fn count_in(&self) {
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        self.count_in_moved();
    }

    /// Counts a connection that has come from another engine.
    pub(super) fn count_in_moved(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
        lock(&self.gauge).connections_open.add(1);
    }

    /// Counts off a connection that was closed.
    pub(super) fn count_out(&self) {
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
        self.count_out_moved();
    }

    /// Counts off a connection that has gone to another engine.
    pub(super) fn count_out_moved(&self) {
        lock(&self.gauge).connections_open.subtract(1);
        self.connections.fetch_sub(1, Ordering::SeqCst);
        self.wake_poller_if_ending();
        if self.is_room_wanted.load(Ordering::SeqCst) {
            self.wake_poller();
        }
    }

    /// Counts off all connections that are still counted, when all have gone.
    pub(super) fn count_out_all(&self) {
        let left = self.connections.swap(0, Ordering::SeqCst);
        self.shared.open.fetch_sub(left, Ordering::Relaxed);
        lock(&self.gauge).connections_open.subtract(left as u64);
    }

    /// Counts a kernel thread that begins.
    pub(super) fn enter(&self) {
        self.inside.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts off a kernel thread that ends. Returns whether it is to close the connections that
    /// are left.
    pub(super) fn leave(&self) -> bool {
        self.inside.fetch_sub(1, Ordering::SeqCst) == 1 && self.failure().is_some()
    }

    pub(super) fn fail(&self, why: String) {
        let _ = self.failure.set(why); // the first failure is the one that is reported
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Counts one more acceptor.
    pub(super) fn begin_accepting(&self) {
        self.accepting.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts one acceptor less; the connections that it has accepted are counted already.
    pub(super) fn end_accepting(&self) {
        self.accepting.fetch_sub(1, Ordering::SeqCst);
        self.wake_poller_if_ending();
    }

    /// Wakes the poller when the cluster ends, since it would sleep for ever when no other thread
    /// is left to wake it. The only thread of a cluster checks before it sleeps.
    fn wake_poller_if_ending(&self) {
        if self.settings.threads > 1 && self.is_ending() {
            self.wake_poller();
        }
    }

    /// Whether the cluster is to end and has no connections left.
    pub(super) fn is_over(&self, poller: &Poller) -> bool {
        let is_none = |count: &AtomicUsize| count.load(Ordering::SeqCst) == 0;
        let is_ordered = poller.obeyed.is_closed && self.is_ending();
        is_ordered
            && is_none(&self.accepting)
            && is_none(&self.connections)
            && self.shared.inboxes.close_if_empty(self.first)
    }

    fn is_ending(&self) -> bool {
        let orders = &self.shared.orders;
        self.is_draining.load(Ordering::SeqCst)
            || orders.is_issued(Order::Abort)
            || orders.is_issued(Order::Leave)
    }

    pub(super) fn listeners(&self) -> RwLockReadGuard<'_, Listeners> {
        self.listeners.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn listeners_mut(&self) -> RwLockWriteGuard<'_, Listeners> {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the poller. Only for the kernel thread whose turn it is to poll, so that the lock is
    /// never waited for.
    pub(super) fn poller(&self) -> MutexGuard<'_, Poller> {
        self.poller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserves address space for all stacks that a cluster may ever need at once.
fn reserve(fibers_max: usize, stack_bytes: usize) -> io::Result<Stacks> {
    Stacks::new(fibers_max, stack_bytes).map_err(|why| {
        let gib = (fibers_max * stack_bytes).div_ceil(1 << 30);
        let advice = "lower limits.connections_max or engine.knobs.stack_kib";
        let what = format!("no {gib} GiB of address space for {fibers_max} stacks ({why})");
        io::Error::new(why.kind(), format!("{what}: {advice}"))
    })
}

impl Settings {
    fn new(loop_context: &LoopContext) -> Self {
        let knobs = &loop_context.knobs;
        let connections_max = loop_context.shared.connections_max.most();
        let blocking_threads = knobs.get_usize(super::knobs::BLOCKING_THREADS.name);
        Self {
            threads: knobs.get_usize(super::knobs::THREADS_PER_CLUSTER.name),
            blocking_threads,
            accepts_per_wake: knobs.get_usize(ACCEPTS_PER_WAKE.name),
            file_chunk_bytes: knobs.get(FILE_CHUNK_KIB.name) * 1024,
            sendfile: match blocking_threads {
                0 => SendfileMode::NonBlocking,
                _ => loop_context.sendfile,
            },
            parks_idle: knobs.get(super::knobs::PARK_IDLE.name) == 1,
            acceptors_per_listener: knobs.get_usize(super::knobs::ACCEPTORS.name),
            connections_max: match knobs.get(super::knobs::SPAWN_ON_DEMAND.name) {
                1 => connections_max,
                _ => connections_max.min(knobs.get_usize(super::knobs::PRESPAWNED.name).max(1)),
            },
        }
    }
}
