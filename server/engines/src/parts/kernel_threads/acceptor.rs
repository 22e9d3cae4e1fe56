//! The acceptor of a thread pool: it waits for arrivals and for wake-up calls, hands connections to
//! the pool, makes room when as many connections are open as may be, and ends the pool.
//!
//! If the acceptor fails, its pool ends with it: its connections have been closed and counted off,
//! and its threads have ended, when another acceptor, with another pool, takes its place.

use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use os::epoll::{Epoll, Event, EventBuffer, Interest};
use session::{Tick, Worker};

use super::registry::{Arrival, Registry};
use super::yielding::Yielding;
use crate::engine::{MakeWorker, PartitionStart, Start, WorkerStart};
use crate::orders::Orders;
use crate::parts::accept::admission::{
    ACCEPTS_PER_WAKE, Admission, LastRows, Room, Shortage, accept_all, accept_row,
};
use crate::parts::accept::listeners::{LISTENER_KEYS, Listeners, WAKE_KEY};
use crate::parts::applications::call_pool::{Bounds, CallPool};
use crate::parts::loops::clock::{read_clock, timeout_ms};
use crate::parts::loops::obey::{Obey, Obeyed, obey};
use crate::parts::loops::{Loop, LoopContext};

/// The threads that serve what an acceptor accepts.
pub(crate) trait Pool: Send {
    /// Called once, in the acceptor's thread, before anything is accepted.
    fn begin(&mut self) -> io::Result<()>;

    /// Has a connection served. Returns false if this connection and the next ones must wait until
    /// another ends.
    fn dispatch(&mut self, arrival: Arrival) -> bool;

    /// Handles the event that a socket that the pool watches is ready. The pool's keys are below
    /// those of all listeners.
    fn ready(&mut self, _event: Event) {}

    /// Has connections go to another engine that no thread waits for.
    fn leave(&mut self) {}

    /// Joins threads that have ended, and handles what has become due.
    fn maintain(&mut self, now: Tick);

    /// The moment at which [`Pool::maintain`] is worth calling without an event.
    fn next_check(&self, _now: Tick) -> Option<Tick> {
        None
    }

    /// Whether no connection is served or waits for a thread.
    fn is_idle(&self) -> bool;

    /// Ends all threads and waits for them. Connections that remain have been cut off: the threads
    /// find that out and close them.
    fn finish(&mut self);
}

/// The parts of a partition that its acceptor gets, besides the worker's start.
#[derive(Clone)]
pub(crate) struct PartitionParts {
    pub(crate) cpus: Vec<usize>,
    pub(crate) more: MakeWorker,
}

impl PartitionParts {
    /// The parts of all partitions, each of which has one acceptor, by the index of the acceptor's
    /// loop. Unpins the acceptors in `start`: an acceptor may use all CPUs of its partition, and so
    /// may the threads it starts.
    pub(crate) fn from_partitions(start: &mut Start) -> Vec<Self> {
        let parts = |partition: &mut PartitionStart| {
            partition.workers.iter_mut().for_each(|worker| worker.cpu = None);
            Self { cpus: partition.cpus.clone(), more: Arc::clone(&partition.more) }
        };
        start.partitions.iter_mut().map(parts).collect()
    }
}

/// One acceptor, and the pool it accepts for.
pub(crate) struct Acceptor<C> {
    epoll: Arc<Epoll>,
    events: EventBuffer,
    listeners: Listeners,
    /// The acceptor's clock and counters: it answers no requests.
    worker: Worker,
    registry: Arc<Registry>,
    pool: C,
    wake_index: usize,
    accepts_per_wake: usize,
    obeyed: Obeyed,
    leaving: Leaving,
}

/// How far connections have been told to go to another engine.
#[derive(Default)]
struct Leaving {
    /// The heir that the pool was told of, by its number; 0 if none.
    told: u32,
    /// The first thread that is to be interrupted next, by the place of its connection.
    from: usize,
    /// When threads are interrupted again, and the time after which all are once more.
    next: Option<Tick>,
    pause_ms: u64,
}

/// The time between two interruptions of threads that are to leave, in milliseconds: at first, and
/// at most. A thread that was about to wait has to be interrupted once more; one that is busy with
/// an application is interrupted in vain.
const INTERRUPTED_AFTER_MS: u64 = 1;
const INTERRUPTED_AFTER_MS_MAX: u64 = 64;

/// Events taken from the kernel at once.
const EVENTS_PER_WAIT: usize = 64;

impl<C: Pool + 'static> Acceptor<C> {
    /// An acceptor, to be run in its thread. Its pool serves at most `connections_max` connections
    /// at once, and applications have at most what `bounds` says, or half of the connections.
    pub(crate) fn make(
        start: WorkerStart,
        loop_context: &LoopContext,
        parts: PartitionParts,
        connections_max: usize,
        bounds: Option<Bounds>,
        pool: impl FnOnce(Arc<Registry>, &Arc<Epoll>) -> C,
    ) -> io::Result<Loop> {
        let PartitionParts { cpus, more } = parts;
        let counters = Arc::clone(&start.worker.counters);
        let epoll = Arc::new(Epoll::new()?);
        let limit = &loop_context.shared.connections_max;
        let connections_max = connections_max.min(limit.most());
        let bounds = bounds.unwrap_or_else(|| Bounds::of_threads(connections_max, limit, false));
        let (applications, waker) = (start.worker.applications(), loop_context.waker());
        let numbers_max = start.worker.application_numbers_max();
        let calls = CallPool::new(applications, numbers_max, bounds, Some(waker));
        let mut registry =
            Registry::new(loop_context, cpus, more, counters, connections_max, calls);
        registry.yielding = Yielding::for_acceptor(&epoll);
        let registry = Arc::new(registry);
        epoll.add(
            loop_context.shared.wakes[loop_context.index].as_fd(),
            Interest::READ,
            WAKE_KEY,
        )?;
        let listeners = Listeners::new(start.listeners, loop_context.exclusive_wakeups);
        listeners.watch(&epoll)?;
        let acceptor = Self {
            pool: pool(Arc::clone(&registry), &epoll),
            epoll,
            events: EventBuffer::with_capacity(EVENTS_PER_WAIT),
            listeners,
            worker: start.worker,
            registry,
            wake_index: loop_context.index,
            accepts_per_wake: loop_context.knobs.get_usize(ACCEPTS_PER_WAKE.name),
            obeyed: Obeyed::default(),
            leaving: Leaving::default(),
        };
        Ok(Box::new(move || acceptor.run()))
    }

    fn run(mut self) -> io::Result<()> {
        if !self.registry.cpus.is_empty() {
            // The threads that the acceptor starts inherit the CPUs.
            os::affinity::pin_thread(&self.registry.cpus)?;
        }
        let turn = || self.pool.begin().and_then(|()| self.turn_until_over());
        let outcome = catch_unwind(AssertUnwindSafe(turn));
        if !matches!(outcome, Ok(Ok(()))) {
            self.registry.cut_off();
        }
        self.pool.finish();
        self.registry.count_out_all(); // a panic may have lost connections on the way to the pool
        outcome.unwrap_or_else(|panic| resume_unwind(panic))
    }

    fn turn_until_over(&mut self) -> io::Result<()> {
        read_clock(&mut self.worker);
        loop {
            self.wait()?;
            for index in 0..self.events.len() {
                if let Some(event) = self.events.get(index) {
                    self.handle(event)?;
                }
            }
            self.listeners.resume(&self.epoll, self.worker.now())?;
            if self.worker.is_logging() {
                self.registry.do_housekeeping();
            }
            self.pool.maintain(self.worker.now());
            obey(self);
            if self.is_over() {
                return Ok(());
            }
        }
    }

    /// Waits for events.
    fn wait(&mut self) -> io::Result<()> {
        let timeout = self.timeout_ms();
        self.registry.yielding.acceptor_steps(self.worker.now());
        self.epoll.wait(&mut self.events, timeout)?;
        read_clock(&mut self.worker);
        self.registry.yielding.acceptor_steps(self.worker.now());
        Ok(())
    }

    fn handle(&mut self, event: Event) -> io::Result<()> {
        if event.key < LISTENER_KEYS {
            self.pool.ready(event);
            return Ok(());
        }
        if event.key != WAKE_KEY {
            let listener = (event.key - LISTENER_KEYS) as usize;
            accept_row(self, listener, self.accepts_per_wake);
            return Ok(());
        }
        self.registry.shared.wakes[self.wake_index].clear();
        self.worker.keep_current();
        self.registry.do_housekeeping();
        self.adopt_all();
        if self.registry.shared.take_room_request(self.wake_index) && self.registry.is_full() {
            self.registry.evict();
        }
        // A connection may have ended.
        self.listeners.resume_now(&self.epoll)
    }

    /// Goes on with the connections that come from another engine.
    fn adopt_all(&mut self) {
        for handed in self.registry.shared.inboxes.take(self.wake_index) {
            let arrival = self.registry.adopt(handed);
            self.pool.dispatch(arrival);
        }
    }

    fn is_over(&self) -> bool {
        self.obeyed.is_closed
            && self.registry.is_ending()
            && self.pool.is_idle()
            && self.registry.shared.inboxes.close_if_empty(self.wake_index)
    }

    /// How long to wait for events.
    fn timeout_ms(&self) -> Option<u32> {
        let pool = self.pool.next_check(self.worker.now());
        let (now, is_ending) = (self.worker.now(), self.registry.is_ending());
        let calls = self.registry.calls.close_kept(now, is_ending);
        let leaving = self.leaving.next;
        let moments = [self.listeners.next_check(), self.worker.next_look(), pool, calls, leaving];
        timeout_ms(self.worker.now(), moments)
    }
}

impl<C: Pool + 'static> Obey for Acceptor<C> {
    fn orders(&self) -> &Orders {
        &self.registry.shared.orders
    }

    fn obeyed(&mut self) -> &mut Obeyed {
        &mut self.obeyed
    }

    fn leave(&mut self) {
        if !self.obeyed.is_closed {
            self.listeners.unwatch(&self.epoll);
            self.obeyed.is_closed = accept_all(self);
        }
        if self.obeyed.is_closed {
            self.listeners.close(&self.epoll);
        }
        let number = self.registry.shared.heir_number();
        if self.leaving.told != number {
            self.leaving = Leaving { told: number, ..Leaving::default() };
            self.pool.leave();
        }
        let now = self.worker.now();
        if number > 0 && self.leaving.next.is_none_or(|next| next <= now) {
            self.leaving.from = self.registry.interrupt_some(self.leaving.from);
            if self.leaving.from == 0 {
                let doubled = (2 * self.leaving.pause_ms).min(INTERRUPTED_AFTER_MS_MAX);
                self.leaving.pause_ms = doubled.max(INTERRUPTED_AFTER_MS);
            }
            let pause_ms = if self.leaving.from == 0 { self.leaving.pause_ms } else { 1 };
            self.leaving.next = Some(now.plus_ms(pause_ms));
        }
    }

    fn stop_accepting(&mut self) -> bool {
        LastRows::default().take(self);
        self.listeners.close(&self.epoll);
        true
    }

    fn drain(&mut self) -> bool {
        self.registry.wake_resting();
        true
    }

    fn abort(&mut self) {
        self.registry.cut_off();
    }
}

impl<C: Pool + 'static> Admission for Acceptor<C> {
    fn is_full(&self) -> bool {
        self.registry.is_full()
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        &mut self.listeners
    }

    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) -> bool {
        self.worker.counters.connections_accepted.add(1);
        let arrival = self.registry.admit(socket, peer);
        let is_dispatched = self.pool.dispatch(arrival);
        if !is_dispatched {
            self.pause();
        }
        is_dispatched
    }

    /// Closes the connection that has rested longest. It is counted off at once; its thread closes
    /// the descriptor later.
    fn make_room(&mut self, shortage: Shortage) -> Room {
        match (self.registry.evict(), shortage) {
            (false, _) => Room::None,
            (true, Shortage::Places) => Room::Made,
            (true, Shortage::Descriptors { .. }) => {
                self.pause();
                Room::Begun
            }
        }
    }

    fn request_room_from_others(&mut self) {
        self.registry.shared.request_room(self.wake_index);
    }

    /// Pauses accepting until a connection ends, or for a moment.
    fn pause(&mut self) {
        self.worker.counters.accept_pauses.add(1);
        self.listeners.pause(&self.epoll, self.worker.now());
        self.registry.starve();
    }
}
