//! The state that the threads of a partition share when each of them serves one connection at a
//! time: a pool of workers, lent to busy threads, and the registry of the connections that are
//! open, so that one can be closed from outside while its thread waits for bytes.
//!
//! This module starts no threads and serves no connections: see `pool.rs` and `blocking.rs`.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use os::interrupt::ThreadNumber;
use session::{Connection, Counters, Done, Job, Tick, Worker};

use super::yielding::Yielding;
use crate::engine::{Handed, MakeWorker, SendfileMode};
use crate::jobs::Runner;
use crate::lock::lock;
use crate::orders::Order;
use crate::parts::applications::call_pool::CallPool;
use crate::parts::disk::helpers::lacks_descriptor;
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::{LoopContext, Shared};

/// The registry of one partition.
pub(crate) struct Registry {
    pub(crate) runner: Arc<Runner>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) sendfile: SendfileMode,
    pub(crate) yielding: Yielding,
    /// The applications that answer requests.
    pub(crate) calls: Arc<CallPool>,
    /// Orders that come while a connection waits for an application.
    pub(crate) summons: Option<Box<dyn Summons>>,
    /// The CPUs of its threads; none means any.
    pub(crate) cpus: Vec<usize>,
    /// Connections in the whole engine, at most.
    connections_max: usize,
    /// The index of the loop that is woken when connections have ended or there is room.
    index: usize,
    /// Workers that no thread holds, the last used last. A thread that waits for a client holds
    /// none, so there are as many as threads were busy at once, and their first levels stay warm.
    workers: Mutex<Workers>,
    more: MakeWorker,
    entries: Mutex<Entries>,
    /// Whether the acceptor waits for room.
    is_starving: AtomicBool,
}

/// Orders to the only thread of a process, which comes to no loop while it waits for an
/// application.
pub(crate) trait Summons: Send + Sync {
    /// Becomes readable when there is an order.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Passes on the orders that have come.
    fn heed(&self, registry: &Registry);
}

/// Boxed, because workers are lent and returned: that moves a pointer, not 500 bytes.
type Workers = Vec<Box<Worker>>;

/// The connections that are open.
struct Entries {
    /// Written only while the entries are locked.
    counters: Arc<Counters>,
    slots: Vec<Option<Arc<Entry>>>,
    free: Vec<usize>,
    /// The slots that had rested longest at the last search, the first to be closed last.
    candidates: Vec<(u64, usize)>,
}

/// The number of connections that are remembered as those that have rested longest: a search for
/// them goes through all connections.
const CANDIDATES_MAX: usize = 64;

/// The number of threads that are interrupted at once.
const INTERRUPTED_MAX: usize = 32;

/// One connection, as other threads access it.
pub(crate) struct Entry {
    socket: OwnedFd,
    /// The moment since which the connection rests, in ticks, or [`BUSY`] or [`TAKEN`].
    rests_since: AtomicU64,
    /// The thread that may wait for its client in a call.
    thread: AtomicI32,
}

/// An entry that does not rest.
const BUSY: u64 = 0;
/// An entry whose connection was closed from outside.
const TAKEN: u64 = u64::MAX;

/// A connection that was accepted, to be served by a thread.
pub(crate) struct Arrival {
    pub(crate) entry: Arc<Entry>,
    pub(crate) peer: SocketAddr,
    /// The connection, if another engine has begun it.
    pub(crate) begun: Option<Box<Connection>>,
    /// The heir that refused it, by its number; 0 if none has.
    pub(crate) refused_by: u32,
    slot: usize,
}

impl Registry {
    /// A registry for the acceptor of this loop. At most `connections_max` connections are open in
    /// the engine, which also has its own limit.
    pub(crate) fn new(
        loop_context: &LoopContext,
        cpus: Vec<usize>,
        more: MakeWorker,
        counters: Arc<Counters>,
        connections_max: usize,
        calls: Arc<CallPool>,
    ) -> Self {
        let entries =
            Entries { counters, slots: Vec::new(), free: Vec::new(), candidates: Vec::new() };
        Self {
            runner: Arc::clone(&loop_context.runner),
            shared: Arc::clone(&loop_context.shared),
            sendfile: loop_context.sendfile,
            yielding: Yielding::without_acceptor(),
            calls,
            summons: None,
            cpus,
            connections_max: connections_max.min(loop_context.shared.connections_max.most()),
            index: loop_context.index,
            workers: Mutex::default(),
            more,
            entries: Mutex::new(entries),
            is_starving: AtomicBool::new(false),
        }
    }

    pub(crate) fn connections_max(&self) -> usize {
        self.connections_max
    }

    pub(crate) fn is_full(&self) -> bool {
        self.shared.is_full() || self.shared.open.load(Ordering::Relaxed) >= self.connections_max
    }

    /// Whether connections are to end after the response under way.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        self.shared.orders.is_issued(Order::Drain)
    }

    /// Whether no connection is to stay: see [`Orders::is_ending`](crate::orders::Orders).
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.shared.orders.is_ending()
    }

    /// Whether connections are to end with their next responses, or with those under way.
    pub(crate) fn are_last(&self) -> bool {
        self.is_ending() && (self.is_draining() || self.shared.is_finishing())
    }

    /// Whether connections are to go to another engine.
    pub(crate) fn is_leaving(&self) -> bool {
        self.shared.orders.is_issued(Order::Leave)
    }

    /// Whether connections are to end now.
    #[inline]
    pub(crate) fn is_aborting(&self) -> bool {
        self.shared.orders.is_issued(Order::Abort)
    }

    /// Counts a connection that was accepted by the thread that serves it.
    pub(crate) fn count_accepted(&self) {
        lock(&self.entries).counters.connections_accepted.add(1);
    }

    /// Registers a connection that begins.
    pub(crate) fn admit(&self, socket: OwnedFd, peer: SocketAddr) -> Arrival {
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        self.enter(socket, peer, None)
    }

    /// Registers a connection that another engine has begun.
    pub(crate) fn adopt(&self, Handed { connection, socket }: Handed) -> Arrival {
        let peer = connection.peer();
        self.enter(socket, peer, Some(Box::new(connection)))
    }

    fn enter(&self, socket: OwnedFd, peer: SocketAddr, begun: Option<Box<Connection>>) -> Arrival {
        let (rests_since, thread) = (AtomicU64::new(BUSY), AtomicI32::new(0));
        let entry = Arc::new(Entry { socket, rests_since, thread });
        let mut entries = lock(&self.entries);
        entries.counters.connections_open.add(1);
        let slot = entries.free.pop().unwrap_or_else(|| {
            entries.slots.push(None);
            entries.slots.len() - 1
        });
        entries.slots[slot] = Some(Arc::clone(&entry));
        Arrival { entry, peer, begun, refused_by: 0, slot }
    }

    /// Gives a connection to another engine; returns it if that takes no more.
    #[cold]
    pub(crate) fn give(&self, mut arrival: Arrival, connection: Connection) -> Option<Arrival> {
        let (number, heir) = (self.shared.heir_number(), self.shared.heir());
        // It may be another by now than the one for which the connection was found to be ready.
        if heir.as_ref().is_some_and(|heir| !heir.may_take(&connection)) {
            arrival.begun = Some(Box::new(connection));
            return Some(arrival);
        }
        let mut given = Some((arrival, connection));
        let is_ready = given.as_ref().is_some_and(|(arrival, _)| {
            os::socket::set_blocking(arrival.entry.socket(), false).is_ok()
        });
        if let Some(heir) = heir.filter(|_| is_ready) {
            heir.take(&mut || {
                let (arrival, connection) = given.take().expect("it is given once");
                let mut entries = lock(&self.entries);
                entries.slots[arrival.slot] = None;
                entries.free.push(arrival.slot);
                entries.counters.connections_open.subtract(1);
                let entry = Arc::into_inner(arrival.entry).expect("there is no other reference");
                Handed { connection, socket: entry.socket }
            });
        }
        let (mut arrival, connection) = given?;
        (arrival.begun, arrival.refused_by) = (Some(Box::new(connection)), number);
        Some(arrival)
    }

    /// Interrupts some of the threads that wait for their clients in calls, so that they see an
    /// order, and do not all at once want to run: those at the places from `from` on. Returns the
    /// place at which it goes on, 0 after the last.
    pub(crate) fn interrupt_some(&self, from: usize) -> usize {
        let entries = lock(&self.entries);
        let (mut place, mut interrupted) = (from, 0);
        while place < entries.slots.len() && interrupted < INTERRUPTED_MAX {
            let entry = entries.slots[place].iter();
            let thread = entry.map(|entry| ThreadNumber(entry.thread.load(Ordering::Relaxed)));
            for thread in thread.filter(|thread| *thread != ThreadNumber::NONE) {
                thread.interrupt();
                interrupted += 1;
            }
            place += 1;
        }
        if place < entries.slots.len() { place } else { 0 }
    }

    /// Removes a connection that has ended.
    pub(crate) fn leave(&self, arrival: Arrival) {
        let mut entries = lock(&self.entries);
        entries.slots[arrival.slot] = None;
        entries.free.push(arrival.slot);
        // A connection that was closed from outside has been counted off already.
        if arrival.entry.rests_since.load(Ordering::Relaxed) != TAKEN {
            self.count_out(&entries);
        }
        drop(entries);
        drop(arrival); // closes the descriptor before the acceptor learns that there is one
        if self.is_starving.swap(false, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// Closes the connection that has rested longest. Returns whether one rests. Its thread has the
    /// descriptor for a moment longer.
    pub(crate) fn evict(&self) -> bool {
        self.evict_rested_since(u64::MAX)
    }

    /// Closes the connection that has rested longest if it has rested for at least `ms`
    /// milliseconds. Returns whether it did.
    pub(crate) fn evict_if_rested(&self, now: Tick, ms: u64) -> bool {
        self.evict_rested_since(now.0.saturating_sub(ms * 1000))
    }

    fn evict_rested_since(&self, latest: u64) -> bool {
        let mut entries = lock(&self.entries);
        for are_chosen_anew in [false, true] {
            if are_chosen_anew {
                entries.choose_candidates();
            }
            while let Some((since, slot)) = entries.candidates.pop() {
                if since > latest {
                    entries.candidates.push((since, slot));
                    return false;
                }
                if entries.take(since, slot) {
                    self.count_out(&entries);
                    return true;
                }
            }
        }
        false
    }

    /// Requests a wake-up call when the next connection ends.
    pub(crate) fn starve(&self) {
        self.is_starving.store(true, Ordering::Release);
    }

    /// Wakes the acceptor.
    pub(crate) fn wake(&self) {
        self.shared.wakes[self.index].notify();
    }

    /// Wakes the connections that rest when the engine drains: they wait for no more bytes. The
    /// threads of busy connections notice the order themselves.
    pub(crate) fn wake_resting(&self) {
        // Either this finds an entry resting, or its thread finds the engine draining: both
        // sides write before they read (see `Entry::rest`).
        fence(Ordering::SeqCst);
        for entry in lock(&self.entries).slots.iter().flatten() {
            if entry.rests_since.load(Ordering::Relaxed) != BUSY {
                let _ = os::socket::shutdown_read(entry.socket()); // fails if the peer has gone
            }
        }
    }

    /// Ends all connections.
    pub(crate) fn cut_off(&self) {
        for entry in lock(&self.entries).slots.iter().flatten() {
            let _ = os::socket::shutdown_both(entry.socket()); // fails only if the peer has gone
        }
    }

    /// Counts off the connections that are still registered, when no thread serves them any more.
    pub(crate) fn count_out_all(&self) {
        let mut entries = lock(&self.entries);
        for entry in std::mem::take(&mut entries.slots).into_iter().flatten() {
            if entry.rests_since.load(Ordering::Relaxed) != TAKEN {
                self.count_out(&entries);
            }
        }
    }

    /// Runs a job on the spot: only this connection waits.
    pub(crate) fn run(&self, job: Job) -> Done {
        let done = self.runner.run(job);
        if lacks_descriptor(&done) {
            self.evict();
        }
        done
    }

    /// Marks a connection that waits for its client: from now on other threads may close it.
    #[inline]
    pub(crate) fn rest(&self, entry: &Entry, now: Tick) {
        entry.rest(now);
        if self.is_draining() {
            // The thread still reads the bytes that have arrived, and then the end of input.
            let _ = os::socket::shutdown_read(entry.socket()); // fails only if the peer has gone
        }
    }

    /// Takes a worker out of the pool, or makes one, and sets its clock.
    pub(crate) fn take_worker(&self) -> Box<Worker> {
        let worker = lock(&self.workers).pop();
        let mut worker = worker.unwrap_or_else(|| Box::new((self.more)()));
        read_clock(&mut worker);
        worker
    }

    /// Puts a worker back into the pool.
    pub(crate) fn return_worker(&self, worker: Box<Worker>) {
        lock(&self.workers).push(worker);
    }

    /// Has the workers that no thread holds release what has left the cache, and hand over their
    /// log records.
    pub(crate) fn do_housekeeping(&self) {
        let count = lock(&self.workers).len();
        for index in 0..count {
            // One at a time, so that a thread that needs a worker finds one.
            let worker = {
                let mut workers = lock(&self.workers);
                if index < workers.len() { Some(workers.remove(index)) } else { None }
            };
            let Some(mut worker) = worker else { return };
            worker.do_housekeeping();
            let mut workers = lock(&self.workers);
            let index = index.min(workers.len());
            workers.insert(index, worker);
        }
    }

    /// The number of workers that no thread holds.
    #[cfg(test)]
    pub(crate) fn workers_spare(&self) -> usize {
        lock(&self.workers).len()
    }

    fn count_out(&self, entries: &Entries) {
        entries.counters.connections_open.subtract(1);
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Entries {
    /// Closes the connection in that slot if it has rested since then and still rests. A connection
    /// whose client has sent a request does not rest, though its thread has not received it yet.
    fn take(&mut self, since: u64, slot: usize) -> bool {
        let Some(entry) = &self.slots[slot] else { return false };
        let word = &entry.rests_since;
        let rests = word.load(Ordering::Relaxed) == since && !os::socket::has_input(entry.socket());
        let (taken, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        if !rests || word.compare_exchange(since, TAKEN, taken, relaxed).is_err() {
            return false;
        }
        // For reading only: the thread may have received a request just now, and then answers it.
        let _ = os::socket::shutdown_read(entry.socket()); // fails if the peer has gone
        self.counters.connections_evicted.add(1);
        true
    }

    /// Searches for the connections that have rested longest. As long as one of them rests on, it
    /// has rested longer than those that are not chosen now.
    fn choose_candidates(&mut self) {
        let resting = (0..self.slots.len()).filter_map(|at| Some((self.rests_since(at)?, at)));
        let mut resting: Vec<(u64, usize)> = resting.collect();
        if resting.len() > CANDIDATES_MAX {
            resting.select_nth_unstable(CANDIDATES_MAX);
            resting.truncate(CANDIDATES_MAX);
        }
        resting.sort_unstable_by(|a, b| b.cmp(a));
        self.candidates = resting;
    }

    fn rests_since(&self, slot: usize) -> Option<u64> {
        let since = self.slots[slot].as_ref()?.rests_since.load(Ordering::Relaxed);
        (since != BUSY && since != TAKEN).then_some(since)
    }
}

impl Entry {
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether the connection was closed from outside: it is counted off, and ends here.
    pub(crate) fn is_taken(&self) -> bool {
        self.rests_since.load(Ordering::Relaxed) == TAKEN
    }

    /// Notes that the calling thread may wait for the client.
    pub(crate) fn is_waited_for_here(&self) {
        self.thread.store(ThreadNumber::of_this_thread().0, Ordering::Relaxed);
    }

    /// Marks the connection as resting since `now`: from now on it may be closed from outside.
    #[inline]
    pub(crate) fn rest(&self, now: Tick) {
        self.rests_since.store(now.0.clamp(BUSY + 1, TAKEN - 1), Ordering::Relaxed);
        fence(Ordering::SeqCst); // before the flags are read: see `Registry::wake_resting`
    }

    /// Marks the connection as busy again. Returns whether it may go on: not if it was closed from
    /// outside. A thread that received a request in that very moment may still answer it, and none
    /// after it.
    #[inline]
    pub(crate) fn resume(&self) -> bool {
        self.rests_since.swap(BUSY, Ordering::AcqRel) != TAKEN || {
            self.rests_since.store(TAKEN, Ordering::Relaxed);
            false
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
