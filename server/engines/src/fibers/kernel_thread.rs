//! A kernel thread of a cluster: it runs fibers that are ready, and polls for all threads in its
//! turn. The fiber that it runs uses its worker, buffer and clock.

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, Builder};

use os::epoll::Event;
use os::fiber::{Fiber, Pause};
use session::{Connection, Tick, Worker};

use super::cluster::{Cluster, POLLER_WAKE_KEY, Poller};
use super::ready::Work;
use super::routine::{Routine, Suspension};
use super::state::FiberEvents;
use super::table::{Slot, SlotContent};
use crate::engine::Handed;
use crate::jobs::Runner;
use crate::orders::{Order, Orders};
use crate::parts::accept::admission::{
    Admission, LastRows, Room, Shortage, accept_all, accept_row,
};
use crate::parts::accept::listeners::{Accepted, LISTENER_KEYS, Listeners, WAKE_KEY};
use crate::parts::applications::table::MARK;
use crate::parts::disk::work_queue::WorkQueue;
use crate::parts::loops::clock::{read_clock, timeout_ms};
use crate::parts::loops::cpu_placement::CpuPlacement;
use crate::parts::loops::obey::{Obey, Obeyed, obey};
use crate::parts::loops::step::RECEIVE_BYTES;
use crate::parts::loops::{Loop, LoopContext, describe_panic};

pub(super) struct KernelThread {
    pub(super) cluster: Arc<Cluster>,
    pub(super) worker: Worker,
    pub(super) runner: Arc<Runner>,
    pub(super) buffer: Box<[u8]>,
    /// The events for the fiber that runs, until the fiber takes it.
    pub(super) events: FiberEvents,
    /// The thread's index in the engine.
    index: usize,
    placement: CpuPlacement,
}

/// Ends a cluster when the first of its threads ends: the others would wait for a poller that is
/// gone.
struct EndClusterOnDrop<'c>(&'c Cluster);

impl Drop for EndClusterOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ready.end();
        self.0.wake_poller();
        if let Some(blocking) = &self.0.blocking {
            blocking.close();
        }
    }
}

/// Fails a cluster if one of its threads never starts: the cluster must not serve on without the
/// thread, because another cluster may be made in its place.
struct FailIfNotStarted(Option<Arc<Cluster>>);

impl Drop for FailIfNotStarted {
    fn drop(&mut self) {
        if let Some(cluster) = &self.0 {
            cluster.fail("a thread of it could not begin".into());
            drop(EndClusterOnDrop(cluster));
        }
    }
}

impl KernelThread {
    /// A kernel thread's loop, to be run in it.
    pub(super) fn make(worker: Worker, cluster: Arc<Cluster>, loop_context: LoopContext) -> Loop {
        let thread = Self {
            cluster,
            worker,
            runner: loop_context.runner,
            buffer: vec![0; RECEIVE_BYTES].into(),
            events: FiberEvents::NONE,
            index: loop_context.index,
            placement: loop_context.placement,
        };
        let mut fail_if_not_started = FailIfNotStarted(Some(Arc::clone(&thread.cluster)));
        Box::new(move || {
            fail_if_not_started.0.take(); // it has started
            thread.run()
        })
    }

    fn run(mut self) -> io::Result<()> {
        let cluster = Arc::clone(&self.cluster);
        cluster.enter();
        let served = catch_unwind(AssertUnwindSafe(|| self.serve(&cluster)));
        if cluster.leave() {
            self.close_all(&cluster);
        }
        match (served, cluster.failure()) {
            (Ok(Ok(())), Some(why)) => {
                Err(io::Error::other(format!("its cluster ended with another thread: {why}")))
            }
            (Ok(outcome), _) => outcome,
            (Err(panic), _) => resume_unwind(panic),
        }
    }

    fn serve(&mut self, cluster: &Cluster) -> io::Result<()> {
        let blocking = cluster.blocking.as_ref().filter(|_| self.index == cluster.first);
        thread::scope(|scope| {
            let _end_cluster_on_drop = EndClusterOnDrop(cluster);
            if let Some(blocking) = blocking {
                for number in 0..cluster.settings.blocking_threads {
                    let name = format!("blocking-{}.{number}", self.index);
                    let started = Builder::new().name(name);
                    let started = started.spawn_scoped(scope, || run_blocking(blocking, cluster));
                    started.inspect_err(|why| cluster.fail(why.to_string()))?;
                }
            }
            let worked = catch_unwind(AssertUnwindSafe(|| self.work(cluster)));
            match &worked {
                Ok(Ok(())) => {}
                Ok(Err(why)) => cluster.fail(why.to_string()),
                Err(panic) => cluster.fail(describe_panic(&**panic)),
            }
            worked.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Closes the connections that a failed cluster has left behind. All its threads have left it,
    /// so that no thread owns a fiber.
    fn close_all(&mut self, cluster: &Cluster) {
        // The lock is for a thread that comes late and leaves at once: it would do this, too.
        let _alone = cluster.poller();
        for index in cluster.table.indices() {
            let Some(slot) = cluster.table.get(index) else { continue };
            if !cluster.is_acceptor(index) {
                slot.state.notify_any(FiberEvents::ABORT);
                // The fiber that failed may fail again, and the others must still be closed.
                let _ = catch_unwind(AssertUnwindSafe(|| self.run_fiber(cluster, index)));
            }
            *slot.content() = SlotContent::Vacant;
        }
        cluster.count_out_all();
    }

    fn work(&mut self, cluster: &Cluster) -> io::Result<()> {
        let (mut batch, mut calls_seen) = (Vec::new(), 0);
        read_clock(&mut self.worker);
        loop {
            self.placement.update(self.worker.now());
            match cluster.ready.next(&mut batch, &mut calls_seen) {
                Work::Run => {
                    // The only thread of a cluster has read the clock when it polled.
                    if cluster.settings.threads > 1 {
                        read_clock(&mut self.worker);
                    }
                    self.run_batch(cluster, &mut batch);
                }
                Work::Poll { may_sleep } => self.poll(cluster, may_sleep)?,
                Work::Housekeeping => self.worker.do_housekeeping(),
                Work::End => return Ok(()),
            }
        }
    }

    /// Runs fibers that this thread owns, in order.
    fn run_batch(&mut self, cluster: &Cluster, batch: &mut Vec<u32>) {
        for (place, index) in batch.iter().enumerate() {
            // While one fiber runs, the stack of the next is fetched into the CPU's cache.
            if let Some(next) = batch.get(place + 1) {
                cluster.table.prefetch(*next);
            }
            self.run_fiber(cluster, *index);
        }
        batch.clear();
    }

    /// Runs a fiber that this thread owns until it rests, moves or ends. May be called from within
    /// another fiber, which has this one closed to make room and goes on with its own events
    /// afterwards.
    fn run_fiber(&mut self, cluster: &Cluster, index: u32) {
        let Some(slot) = cluster.table.get(index) else { return };
        let outer = mem::replace(&mut self.events, slot.state.take_events());
        self.run_slot(cluster, slot, index);
        self.events = outer;
    }

    #[inline]
    fn run_slot(&mut self, cluster: &Cluster, slot: &Slot, index: u32) {
        let mut content = slot.content();
        if let SlotContent::Parked(_) = &*content
            && !self.unpark(cluster, &mut content)
        {
            drop(content);
            return cluster.table.vacate(index);
        }
        let SlotContent::Fiber(fiber) = &mut *content else { return };
        match fiber.resume(self) {
            Pause::Rest(Suspension::Wait { deadline, is_idle }) => {
                drop(content);
                self.rest(cluster, slot, index, deadline, is_idle);
            }
            Pause::Rest(Suspension::Yield { deadline }) => {
                drop(content);
                self.schedule(cluster, slot, index, deadline);
                cluster.run_later(index);
            }
            Pause::Block => {
                drop(content);
                if let Some(blocking) = &cluster.blocking {
                    blocking.push(index);
                }
            }
            Pause::Blocked => cluster.run_later(index),
            Pause::Left(routine) if routine.is_moving() => {
                drop(content);
                self.give(cluster, slot, index, routine);
            }
            Pause::Left(routine) if routine.is_parked() => {
                let deadline = routine.deadline();
                *content = SlotContent::Parked(Box::new(routine));
                drop(content);
                self.rest(cluster, slot, index, deadline, true);
            }
            Pause::Left(routine) => {
                *content = SlotContent::Vacant;
                drop((content, routine));
                cluster.table.vacate(index);
            }
        }
    }

    /// Provides a parked connection with a stack again. Returns whether there was one: if not, the
    /// connection ends here.
    fn unpark(&mut self, cluster: &Cluster, content: &mut SlotContent) -> bool {
        let SlotContent::Parked(mut routine) = mem::replace(content, SlotContent::Vacant) else {
            return false;
        };
        match cluster.stack() {
            Some(stack) => *content = SlotContent::Fiber(Fiber::new(stack, *routine)),
            None => routine.leave(self),
        }
        matches!(content, SlotContent::Fiber(_))
    }

    /// Gives the connection of a fiber to another engine. If that takes no more it is served on.
    #[cold]
    fn give(&self, cluster: &Cluster, slot: &Slot, index: u32, routine: Routine) {
        let Routine::Connection(mut fiber) = routine else { return };
        if mem::take(&mut fiber.is_watched) {
            let _ = cluster.epoll.remove(fiber.socket.as_fd()); // it is in the set
        }
        // It may be another by now than the one for which the fiber was found to be ready.
        let heir = cluster.shared.heir().filter(|heir| heir.may_take(&fiber.connection));
        let mut fiber = Some(fiber);
        let mut release = || {
            let fiber = fiber.take().expect("a connection is released once");
            Handed { connection: fiber.connection, socket: fiber.socket }
        };
        let has_gone = heir.is_some_and(|heir| heir.take(&mut release));
        match fiber {
            Some(mut fiber) if !has_gone => {
                fiber.is_moving = false;
                fiber.is_leaving = false; // until the next order
                *slot.content() = SlotContent::Parked(Box::new(Routine::Connection(fiber)));
                cluster.run_later(index);
            }
            _ => {
                *slot.content() = SlotContent::Vacant;
                cluster.table.vacate(index);
                cluster.count_out_moved();
            }
        }
    }

    #[inline]
    fn rest(&mut self, cluster: &Cluster, slot: &Slot, index: u32, deadline: Tick, is_idle: bool) {
        self.schedule(cluster, slot, index, deadline);
        if !slot.state.rest(is_idle) {
            cluster.run_later(index); // there are events already
        }
    }

    #[inline]
    fn schedule(&self, cluster: &Cluster, slot: &Slot, index: u32, deadline: Tick) {
        slot.set_deadline(deadline);
        let key = u64::from(slot.state.generation()) << 32 | u64::from(index);
        if cluster.timers.schedule(slot, key) {
            cluster.wake_poller();
        }
    }

    /// Polls the kernel for events, on behalf of the cluster, and handles timers and orders.
    fn poll(&mut self, cluster: &Cluster, may_sleep: bool) -> io::Result<()> {
        let mut poller = cluster.poller();
        let poller = &mut *poller;
        if cluster.is_over(poller) {
            cluster.ready.end();
            return Ok(());
        }
        let timeout = if may_sleep { self.timeout_ms(cluster, poller) } else { Some(0) };
        cluster.epoll.wait(&mut poller.events, timeout)?;
        read_clock(&mut self.worker);
        for index in 0..poller.events.len() {
            if let Some(event) = poller.events.get(index) {
                self.handle(cluster, event, poller);
            }
        }
        let (now, is_ending) = (self.worker.now(), cluster.shared.orders.is_ending());
        if poller.next_close.is_some_and(|moment| moment <= now || is_ending) {
            poller.next_close = cluster.calls.close_kept(now, is_ending);
        }
        cluster.timers.expire(&cluster.table, self.worker.now(), &mut poller.found);
        if cluster.listeners().next_check().is_some_and(|moment| moment <= self.worker.now()) {
            cluster.listeners_mut().resume(&cluster.epoll, self.worker.now())?;
        }
        if cluster.is_room_wanted.load(Ordering::SeqCst) {
            self.adopt_all(cluster);
        }
        obey(&mut Poll { thread: self, cluster, poller });
        cluster.ready.end_poll(&mut poller.found);
        Ok(())
    }

    #[inline]
    fn handle(&mut self, cluster: &Cluster, event: Event, poller: &mut Poller) {
        let found = &mut poller.found;
        if event.key < LISTENER_KEYS {
            if event.key & MARK != 0 {
                return handle_line(cluster, event, found);
            }
            // An event of a connection that has gone meanwhile finds no fiber.
            if cluster.table.notify(event.key, FiberEvents::from_event(event)) {
                found.push(event.key as u32);
            }
        } else if event.key == WAKE_KEY {
            cluster.shared.wakes[cluster.first].clear();
            // Other workers may have evicted entries that this one still holds.
            self.worker.do_housekeeping();
            if cluster.shared.is_room_wanted(cluster.first) {
                self.evict();
            }
            poller.next_close = Some(self.worker.now());
            poller.is_leaving = false; // others are to have the connections, maybe
            self.adopt_all(cluster);
            cluster.ready.call_all();
        } else if event.key == POLLER_WAKE_KEY {
            cluster.poller_wake.clear();
        } else {
            let wake = |acceptor: &&u32| {
                let slot = cluster.table.get(**acceptor);
                slot.is_some_and(|slot| slot.state.notify_any(FiberEvents::READABLE))
            };
            found.extend(cluster.listener_acceptors(event.key).iter().filter(wake));
        }
    }

    /// Accepts up to `count` connections from one listener.
    pub(super) fn accept(&mut self, listener: usize, count: usize) {
        self.accept_with(|admission| accept_row(admission, listener, count));
    }

    fn accept_with<T>(&mut self, accept: impl FnOnce(&mut ClusterAdmission<'_>) -> T) -> T {
        let cluster = Arc::clone(&self.cluster);
        cluster.begin_accepting();
        let outcome = accept(&mut ClusterAdmission { thread: self, cluster: &cluster });
        cluster.end_accepting();
        outcome
    }

    /// Has a new fiber serve a connection. Returns false if none could be made: then the connection
    /// is closed.
    fn serve_in_fiber(&mut self, cluster: &Cluster, socket: OwnedFd, peer: SocketAddr) -> bool {
        self.worker.counters.connections_accepted.add(1);
        let connection = Connection::new(&self.worker, peer);
        let spawned = cluster.spawn(|key| Routine::connection(connection, socket, key));
        let Ok(Some(key)) = spawned else { return false };
        cluster.count_in();
        cluster.run_later(key as u32);
        true
    }

    /// Goes on with the connections that come from another engine. Those for which there is no room
    /// wait: some here may be closed, or end.
    #[cold]
    fn adopt_all(&mut self, cluster: &Cluster) {
        let mut handed = cluster.shared.inboxes.take(cluster.first).into_iter();
        while let Some(one) = handed.next() {
            if self.is_aborting() {
                cluster.shared.open.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            if let Err(one) = adopt(cluster, one) {
                cluster.shared.inboxes.put_back(cluster.first, [one].into_iter().chain(handed));
                cluster.is_room_wanted.store(true, Ordering::SeqCst);
                self.evict();
                return;
            }
        }
        cluster.is_room_wanted.store(false, Ordering::SeqCst);
    }

    /// Closes the connection that has been idle longest. Returns whether there was one.
    pub(super) fn evict(&mut self) -> bool {
        let cluster = Arc::clone(&self.cluster);
        let Some(index) = cluster.timers.evict_least_recent(&cluster.table) else { return false };
        self.run_fiber(&cluster, index);
        true
    }

    pub(super) fn is_draining(&self) -> bool {
        self.cluster.is_draining.load(Ordering::SeqCst)
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.cluster.shared.orders.is_issued(Order::Leave)
    }

    pub(super) fn is_aborting(&self) -> bool {
        self.cluster.shared.orders.is_issued(Order::Abort)
    }

    /// How long the poll may sleep.
    fn timeout_ms(&self, cluster: &Cluster, poller: &Poller) -> Option<u32> {
        let now = self.worker.now();
        let moments = [cluster.listeners().next_check(), self.worker.next_look()];
        let mut until = moments.into_iter().flatten().min();
        if poller.next_close.is_some() {
            until = until.into_iter().chain(poller.next_close).min();
        }
        timeout_ms(now, [cluster.timers.sleep(until)])
    }
}

/// Has a new fiber go on with a connection of another engine; gives it back if there is no room.
fn adopt(cluster: &Cluster, handed: Handed) -> Result<(), Handed> {
    let mut handed = Some(handed);
    let spawned = cluster.spawn(|key| {
        let Handed { connection, socket } = handed.take().expect("a fiber is made once");
        Routine::connection(connection, socket, key)
    });
    if let Ok(Some(key)) = spawned {
        cluster.count_in_moved();
        cluster.run_later(key as u32);
    }
    handed.map_or(Ok(()), Err)
}

/// Handles an event of a connection to an application.
#[cold]
#[inline(never)]
fn handle_line(cluster: &Cluster, event: Event, found: &mut Vec<u32>) {
    if let Some(fiber) = cluster.callers.find(event)
        && cluster.table.notify(fiber, FiberEvents::from_event(event).of_call())
    {
        found.push(fiber as u32);
    }
}

/// Runs the blocking parts of fibers until the blocking cluster ends.
fn run_blocking(blocking: &WorkQueue<u32>, cluster: &Cluster) {
    while let Some(index) = blocking.next() {
        let Some(slot) = cluster.table.get(index) else { continue };
        if let SlotContent::Fiber(fiber) = &mut *slot.content() {
            fiber.resume_blocking();
        }
        cluster.run_later(index);
    }
}

/// A thread that polls.
struct Poll<'a> {
    thread: &'a mut KernelThread,
    cluster: &'a Cluster,
    poller: &'a mut Poller,
}

impl Obey for Poll<'_> {
    fn orders(&self) -> &Orders {
        &self.cluster.shared.orders
    }

    fn obeyed(&mut self) -> &mut Obeyed {
        &mut self.poller.obeyed
    }

    /// Notifies all fibers, once for each order: each tries again before it rests.
    fn leave(&mut self) {
        if !self.poller.obeyed.is_closed {
            self.cluster.listeners().unwatch(&self.cluster.epoll);
            self.poller.obeyed.is_closed = self.thread.accept_with(|it| accept_all(it));
        }
        if self.poller.obeyed.is_closed {
            self.cluster.listeners_mut().close(&self.cluster.epoll);
        }
        if !mem::replace(&mut self.poller.is_leaving, true) {
            self.cluster.table.notify_all(FiberEvents::LEAVE, &mut self.poller.found);
        }
    }

    fn stop_accepting(&mut self) -> bool {
        self.thread.accept_with(|admission| LastRows::default().take(admission));
        self.cluster.listeners_mut().close(&self.cluster.epoll);
        true
    }

    fn drain(&mut self) -> bool {
        self.cluster.is_draining.store(true, Ordering::SeqCst);
        self.cluster.table.notify_all(FiberEvents::DRAIN, &mut self.poller.found);
        true
    }

    /// Notifies all fibers to end now. Fibers that come later check the order themselves.
    fn abort(&mut self) {
        if !mem::replace(&mut self.poller.is_aborting, true) {
            self.cluster.table.notify_all(FiberEvents::ABORT, &mut self.poller.found);
        }
    }
}

/// A thread that accepts for its cluster.
struct ClusterAdmission<'a> {
    thread: &'a mut KernelThread,
    cluster: &'a Cluster,
}

impl Admission for ClusterAdmission<'_> {
    fn is_full(&self) -> bool {
        self.cluster.is_full()
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        self.cluster.listeners_mut()
    }

    /// Whether a connection waits at a listener. The lock is taken for reading, here and to accept:
    /// several threads accept at once.
    fn has_arrival(&mut self, listener: usize) -> bool {
        self.cluster.listeners().has_arrival(listener)
    }

    fn accept(&mut self, listener: usize) -> Accepted {
        self.cluster.listeners().accept(listener)
    }

    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) -> bool {
        // Without a stack it cannot be served: an idle connection makes room for the next one.
        let can_go_on =
            self.thread.serve_in_fiber(self.cluster, socket, peer) || self.thread.evict();
        if !can_go_on {
            self.pause();
        }
        can_go_on
    }

    fn make_room(&mut self, _: Shortage) -> Room {
        Room::if_closed(self.thread.evict())
    }

    fn request_room_from_others(&mut self) {
        self.cluster.shared.request_room(self.cluster.first);
    }

    fn pause(&mut self) {
        let worker = &self.thread.worker;
        worker.counters.accept_pauses.add(1);
        self.cluster.listeners_mut().pause(&self.cluster.epoll, worker.now());
        if self.cluster.settings.threads > 1 {
            self.cluster.wake_poller(); // the poller must not sleep beyond the pause
        }
    }
}
