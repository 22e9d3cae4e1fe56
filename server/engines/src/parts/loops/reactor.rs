//! The event loop itself: one thread, one set of watched sockets. Used by the engines of the event
//! family; each decides how many loops there are, and whether they have helpers. Threads and what
//! loops share are in `mod.rs`, the event mechanisms in `watch.rs`.
//!
//! While helpers have work of a connection, or have no room for it yet, the connection receives, so
//! that a client that goes away is noticed. After a reset the connection is closed at once, and
//! what the helpers bring back for it is dropped: they hold the files that they work on, and none
//! of them its socket. After an orderly end it is kept until its requests are answered, because the
//! client may still read. A client that has sent so much ahead that nothing more is received is
//! noticed by the event of its reset, which select(2) does not have.
//!
//! A connection that can be answered at once after it is accepted is never watched at all.

use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use os::epoll::{Event, Interest};
use session::{Connection, Op, Tick, Worker};

use super::super::applications::call_loop::CallLoop;
use super::super::applications::table::{Share, Table};
use super::clock::{read_clock, timeout_ms};
use super::connections::{Connections, NO_UPSTREAM, Slot, Timed};
use super::cpu_placement::CpuPlacement;
use super::drive::{Begun, Driven, Pause, drive, drive_beside};
use super::obey::{LEAVES_AGAIN_MS, Obey, Obeyed, obey};
use super::step::{RECEIVE_BYTES, Step, Turn, receive_beside, step};
use super::transport::Plain;
use super::watch::{self, Watch};
use super::{Loop, LoopContext, Shared, run_or_cut_off};
use crate::engine::{Handed, SendfileMode, WorkerStart};
use crate::knobs::Knob;
use crate::orders::{Order, Orders};
use crate::parts::accept::admission::{
    ACCEPTS_PER_WAKE, Admission, LastRows, Room, Shortage, accept_all, accept_row,
};
use crate::parts::accept::gate::{self, Gate};
use crate::parts::accept::listeners::{LISTENER_KEYS, Listeners, WAKE_KEY, WatchListeners, refuse};
use crate::parts::disk::blocking_work::{BlockingWork, Offload};
use crate::parts::disk::helpers::{self, Help};

mod calls;
pub(crate) mod gateway;

/// Events taken from the kernel at once: more batch better, fewer are fairer.
pub(crate) const EVENTS_PER_WAIT: usize = 256;

pub(crate) const FILE_CHUNK_KIB: Knob = Knob::number("file_chunk_kib", 16..=1 << 20, 256)
    .about("KiB of a file sent in a row before other connections get a turn");

/// The key of the helpers: above those of all listeners.
const HELPERS_KEY: u64 = u64::MAX - 1;

/// One event loop.
pub(crate) struct Reactor {
    watch: Watch,
    listeners: Listeners,
    connections: Connections,
    worker: Worker,
    work: BlockingWork,
    /// The applications that answer requests, and the connections to them.
    table: Table<calls::WatchedLine>,
    shared: Arc<Shared>,
    index: usize,
    placement: CpuPlacement,
    buffer: Box<[u8]>,
    accepts_per_wake: usize,
    /// Present where other processes wait at the same listeners.
    gate: Option<Gate>,
    sendfile: SendfileMode,
    file_chunk_bytes: u64,
    obeyed: Obeyed,
    /// The loop beside it, if one of the two is a gateway.
    side: Option<gateway::Side>,
}

impl Reactor {
    /// An event loop.
    pub(crate) fn plain(start: WorkerStart, loop_context: LoopContext) -> io::Result<Self> {
        Self::new(start, loop_context, None)
    }

    /// An event loop for an engine with the knobs of the [`Gate`]: at listeners shared with other
    /// processes the loop lets those go first when it is nearly full or has accepted many times.
    pub(crate) fn gated(start: WorkerStart, loop_context: LoopContext) -> io::Result<Self> {
        let gate = Some(Gate::new(&loop_context.knobs));
        Ok(Self { gate, ..Self::new(start, loop_context, None)? })
    }

    /// The loop, to be run in its thread.
    pub(crate) fn into_loop(self) -> Loop {
        Box::new(move || self.run())
    }

    /// An event loop that hands work that may block to `helpers`.
    pub(crate) fn with_helpers(
        start: WorkerStart,
        loop_context: LoopContext,
        helpers: Box<dyn Help>,
    ) -> io::Result<Self> {
        Self::new(start, loop_context, Some(helpers))
    }

    fn new(
        start: WorkerStart,
        loop_context: LoopContext,
        helpers: Option<Box<dyn Help>>,
    ) -> io::Result<Self> {
        let LoopContext {
            runner,
            shared,
            index,
            placement,
            sendfile,
            exclusive_wakeups,
            knobs,
            ..
        } = loop_context;
        let watch = Watch::new(knobs.get(watch::EVENTS.name), EVENTS_PER_WAIT)?;
        watch.begin(shared.wakes[index].as_fd(), Interest::READ, WAKE_KEY)?;
        let file_chunk_bytes = knobs.get(FILE_CHUNK_KIB.name) * 1024;
        let work = BlockingWork::new(runner, helpers, file_chunk_bytes);
        if let Some(wake) = work.wake() {
            watch.begin(wake, Interest::READ, HELPERS_KEY)?;
        }
        let listeners = Listeners::new(start.listeners, exclusive_wakeups);
        listeners.watch(&watch)?;
        let now = Tick(os::clock::now());
        let share = Share::new(&shared.connections_max, shared.wakes.len());
        let table = Table::new(start.worker.applications(), share, now);
        let mut reactor = Self {
            table,
            watch,
            listeners,
            connections: Connections::new(now),
            worker: start.worker,
            work,
            shared,
            index,
            placement,
            buffer: vec![0; RECEIVE_BYTES].into(),
            accepts_per_wake: knobs.get_usize(ACCEPTS_PER_WAKE.name),
            gate: None,
            sendfile,
            file_chunk_bytes,
            obeyed: Obeyed::default(),
            side: None,
        };
        read_clock(&mut reactor.worker);
        Ok(reactor)
    }

    fn run(self) -> io::Result<()> {
        run_or_cut_off(self, Self::turn, |reactor| reactor.connections.keys(), Self::close)
    }

    fn turn(&mut self) -> io::Result<()> {
        loop {
            let timeout = self.timeout_ms();
            self.watch.wait(timeout)?;
            read_clock(&mut self.worker);
            self.placement.update(self.worker.now());
            let mut index = 0;
            while let Some(event) = self.watch.event(index) {
                self.handle(event)?;
                index += 1;
            }
            let yielded = self.connections.take_yielded();
            yielded.iter().for_each(|key| self.drive(*key));
            self.connections.keep_buffer(yielded);
            self.expire();
            self.listeners.resume(&self.watch, self.worker.now())?;
            obey(self);
            if self.is_over() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn handle(&mut self, event: Event) -> io::Result<()> {
        if event.key < LISTENER_KEYS {
            let Some(slot) = self.connections.get(event.key) else {
                // Of an application, or of a connection that has gone meanwhile.
                self.handle_upstream(event);
                return Ok(());
            };
            slot.ready.is_drained &= !event.readable;
            slot.ready.is_full &= !event.writable;
            slot.ready.is_hung_up |= event.hangup || event.error;
            match slot.is_queued || event.error {
                true => self.notice(event),
                false => self.drive(event.key),
            }
            Ok(())
        } else if event.key == WAKE_KEY {
            self.shared.wakes[self.index].clear();
            // Other loops may have evicted entries that this worker still holds.
            self.worker.do_housekeeping();
            self.leave_retired();
            self.take_handed();
            if self.shared.is_room_wanted(self.index) {
                self.evict();
            }
            Ok(())
        } else if event.key == HELPERS_KEY {
            self.take_back();
            Ok(())
        } else {
            let before = self.worker.counters.connections_accepted.get();
            accept_row(self, (event.key - LISTENER_KEYS) as usize, self.accepts_per_wake);
            self.let_others_accept(before)
        }
    }

    /// Takes in an event of a connection that is queued, which goes on in its turn, or one that
    /// says that the client has gone: then nothing is left to do for a connection that does not
    /// receive.
    #[cold]
    fn notice(&mut self, event: Event) {
        let Some(slot) = self.connections.get(event.key) else { return };
        let is_in_line = slot.is_queued && self.work.is_in_line(slot);
        if event.error && (slot.is_queued || !slot.connection.wants_input()) {
            self.close(event.key);
        } else if !slot.is_queued {
            self.drive(event.key);
        } else if is_in_line {
            match drive_beside(&mut Drive { reactor: self, key: event.key }) {
                Pause::Closed => self.close(event.key),
                _ => self.wait(event.key),
            }
        }
    }

    /// Takes steps with one connection until it waits, yields or closes.
    #[inline]
    fn drive(&mut self, key: u64) {
        self.go_on(key, false);
    }

    /// Has a connection wait: watches its socket, at least for its end, and sets the timer.
    #[inline(always)] // a call would cost each request ten instructions
    fn wait(&mut self, key: u64) {
        let Some(slot) = self.connections.get(key) else { return };
        if slot.upstream != NO_UPSTREAM {
            return self.wait_with_call(key);
        }
        if self.watch.follow(slot, key).is_err() {
            return self.close(key); // no memory for the watch
        }
        self.connections.schedule(key);
    }

    fn close(&mut self, key: u64) {
        if let Some(mut slot) = self.connections.remove(key) {
            self.work.forget(key, &mut slot);
            self.watch.leave(&mut slot);
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            self.worker.counters.connections_open.subtract(1);
            slot.connection.close(&mut self.worker);
            self.end_unwanted(slot.upstream);
        }
    }

    /// Rests or requeues after an accept if the gate requires it, where other processes share the
    /// listeners.
    fn let_others_accept(&mut self, accepted_before: u64) -> io::Result<()> {
        let Some(gate) = &mut self.gate else { return Ok(()) };
        let accepted = self.worker.counters.connections_accepted.get() - accepted_before;
        let open = self.shared.open.load(Ordering::Relaxed);
        if gate.closes(open, self.shared.connections_max.now()) {
            self.listeners.rest(&self.watch, self.worker.now().plus_ms(gate::REST_MS));
        } else if gate.is_turn_over(accepted) {
            self.listeners.requeue(&self.watch)?;
        }
        Ok(())
    }

    fn welcome(&mut self, socket: OwnedFd, peer: SocketAddr) {
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        self.worker.counters.connections_accepted.add(1);
        self.worker.counters.connections_open.add(1);
        let connection = Connection::new(&self.worker, peer);
        let key = self.connections.welcome(connection, socket);
        self.drive(key);
    }

    /// Returns a socket that the event mechanism can watch. If the number of `socket` is too high,
    /// it gets a lower one if one is free, or becomes free when an idle connection is closed;
    /// otherwise its client is turned away and the result is none.
    fn make_watchable(&mut self, socket: OwnedFd) -> Option<OwnedFd> {
        if self.watch.can_watch(socket.as_fd()) {
            return Some(socket);
        }
        for attempt in 0..2 {
            if attempt > 0 && !self.evict() {
                break;
            }
            let lower = socket.try_clone().ok();
            if let Some(lower) = lower.filter(|lower| self.watch.can_watch(lower.as_fd())) {
                return Some(lower);
            }
        }
        refuse(socket.as_fd());
        None
    }

    fn expire(&mut self) {
        let now = self.worker.now();
        if self.connections.next_check().is_none_or(|moment| moment > now) {
            return;
        }
        for key in self.connections.take_expired(now) {
            if !self.receives_after_all(key)
                && !self.refuse_in_line(key)
                && let Some(slot) = self.connections.get(key)
            {
                slot.connection.expire(&mut self.worker);
                self.drive(key);
            }
        }
    }

    /// Receives what has arrived at a connection whose deadline has passed, though its event has
    /// not been seen: the loop may not have run for a while. Returns whether there was something,
    /// and no deadline has passed after that.
    fn receives_after_all(&mut self, key: u64) -> bool {
        let Some(slot) = self.connections.get(key) else { return false };
        let receives = matches!(slot.connection.next(), Op::Recv);
        if !receives || !os::socket::has_input(slot.socket.as_fd()) {
            return false;
        }
        slot.ready.is_drained = false;
        self.drive(key);
        let now = self.worker.now();
        self.connections.get(key).and_then(|slot| slot.deadline()).is_none_or(|at| at > now)
    }

    /// Answers a job that has found no room with the helpers in all its time: its client is to try
    /// again. Returns whether the connection had such a job.
    fn refuse_in_line(&mut self, key: u64) -> bool {
        if !self.work.has_helpers() {
            return false;
        }
        let Some(slot) = self.connections.get(key) else { return false };
        let is_refused =
            self.work.forget(key, slot) && helpers::refuse(&mut slot.connection, &mut self.worker);
        if is_refused {
            self.drive(key);
        }
        is_refused
    }

    fn is_over(&mut self) -> bool {
        self.obeyed.is_closed
            && self.shared.orders.is_ending()
            && self.connections.len() == 0
            && self.closes_inbox()
    }

    /// Takes no connections from others any more, unless there are some on their way. Returns
    /// whether it takes none.
    #[cold]
    #[inline(never)]
    fn closes_inbox(&mut self) -> bool {
        let is_closed = self.shared.inboxes.close_if_empty(self.index);
        if !is_closed {
            self.take_handed();
        }
        is_closed
    }

    /// Takes in the connections that others have handed over.
    #[cold]
    #[inline(never)]
    fn take_handed(&mut self) {
        for handed in self.shared.inboxes.take(self.index) {
            self.adopt(handed);
        }
    }

    fn adopt(&mut self, Handed { mut connection, socket }: Handed) {
        self.worker.counters.connections_open.add(1);
        if self.obeyed.is_draining {
            connection.drain();
        }
        let Some(socket) = self.make_watchable(socket) else {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            self.worker.counters.connections_open.subtract(1);
            return connection.close(&mut self.worker);
        };
        let key = self.connections.welcome(connection, socket);
        match self.shared.orders.is_issued(Order::Abort) {
            true => self.close(key),
            false => self.drive(key),
        }
    }

    /// Lets go of a connection that others go on with; there must be one of this key.
    #[cold]
    fn release(&mut self, key: u64) -> Handed {
        let mut slot = self.connections.remove(key).expect("a connection is released once");
        self.work.forget(key, &mut slot);
        self.watch.forget(slot.socket.as_fd(), &mut slot.watched);
        self.worker.counters.connections_open.subtract(1);
        Handed { connection: slot.connection, socket: slot.socket }
    }

    /// Leaves the listeners to others, who watch them already. Returns false if a connection waits
    /// there for room: its arrival may have woken this loop alone.
    fn leave_listeners(&mut self) -> bool {
        self.listeners.unwatch(&self.watch);
        let is_left = accept_all(self);
        if is_left {
            self.listeners.close(&self.watch);
        }
        is_left
    }

    /// How long to wait for events. Before, the calls of applications end that take too long.
    #[inline]
    fn timeout_ms(&mut self) -> Option<u32> {
        let mut calls = None;
        if self.table.is_used {
            calls = self.expire_calls();
            self.hand_back();
        }
        if self.connections.has_yielded() {
            return Some(0);
        }
        let mut connections = self.connections.next_check();
        if calls.is_some() {
            connections = connections.into_iter().chain(calls).min();
        }
        let moments = [connections, self.listeners.next_check(), self.worker.next_look()];
        timeout_ms(self.worker.now(), moments)
    }
}

/// One connection of a loop.
struct Drive<'r> {
    reactor: &'r mut Reactor,
    key: u64,
}

impl Driven for Drive<'_> {
    #[inline]
    fn step(&mut self, turn: &mut Turn) -> Step {
        let Reactor { connections, worker, buffer, .. } = &mut *self.reactor;
        let Some(slot) = connections.get(self.key) else { return Step::Away };
        let Slot { socket, connection, ready, .. } = slot;
        step(&mut Plain(socket.as_fd()), connection, worker, buffer, ready, turn)
    }

    fn job(&mut self) -> Begun {
        if self.reactor.table.is_used {
            if self.reactor.side.is_some() && self.reactor.hands_job_over(self.key) {
                return Begun::Away;
            }
            if let Some(begun) = self.reactor.call(self.key) {
                return begun;
            }
        }
        let begun = self.reactor.begin_job(self.key);
        if begun == Begun::Done
            && let Some(slot) = self.reactor.connections.get(self.key)
        {
            // It may have taken long: there may be room again, and the event is still to be seen.
            slot.ready.is_full = false;
        }
        begun
    }

    fn fetch(&mut self, _: &Turn) -> Begun {
        self.reactor.begin_fetch(self.key)
    }

    fn receive_beside(&mut self) -> Step {
        let Reactor { connections, worker, buffer, .. } = &mut *self.reactor;
        let Some(slot) = connections.get(self.key) else { return Step::Away };
        let Slot { socket, connection, ready, .. } = slot;
        receive_beside(&mut Plain(socket.as_fd()), connection, worker, buffer, ready)
    }
}

impl Offload for Reactor {
    type Socket = OwnedFd;

    fn parts(&mut self) -> (&mut BlockingWork, &mut Connections, &mut Worker) {
        (&mut self.work, &mut self.connections, &mut self.worker)
    }

    fn evict(&mut self) -> bool {
        let has_input = |slot: &Slot| os::socket::has_input(slot.socket.as_fd());
        let Some(first) = self.connections.take_least_recent(has_input) else { return false };
        self.worker.counters.connections_evicted.add(1);
        self.close(first);
        true
    }

    #[inline]
    fn go_on(&mut self, key: u64, is_fetched: bool) {
        let mut turn = Turn::new(self.file_chunk_bytes, self.sendfile);
        turn.is_fetched = is_fetched;
        match drive(&mut Drive { reactor: self, key }, &mut turn) {
            Pause::Wait | Pause::Away => self.wait(key),
            Pause::Yield => self.connections.queue(key),
            Pause::Closed => self.close(key),
        }
    }
}

impl Obey for Reactor {
    fn orders(&self) -> &Orders {
        &self.shared.orders
    }

    fn obeyed(&mut self) -> &mut Obeyed {
        &mut self.obeyed
    }

    fn leave(&mut self) {
        self.obeyed.is_closed = self.obeyed.is_closed || self.leave_listeners();
        self.drain_calls();
        if let Some(again) = self.obeyed.next_walk(self.connections.len(), self.worker.now()) {
            return self.listeners.rest(&self.watch, again);
        }
        let heir = self.shared.heir();
        for key in self.connections.keys() {
            let Some(slot) = self.connections.get(key) else { continue };
            match &heir {
                Some(heir) if slot.upstream == NO_UPSTREAM && heir.may_take(&slot.connection) => {
                    if !heir.has_room() {
                        // There are no listeners to rest from, but the next turn comes.
                        self.obeyed.walk_is_not_over();
                        let again = self.worker.now().plus_ms(LEAVES_AGAIN_MS);
                        return self.listeners.rest(&self.watch, again);
                    }
                    heir.take(&mut || self.release(key));
                }
                Some(_) => {}
                None => slot.connection.end_with_next(),
            }
        }
    }

    fn stop_accepting(&mut self) -> bool {
        LastRows::default().take(self);
        self.listeners.close(&self.watch);
        true
    }

    fn drain(&mut self) -> bool {
        self.drain_calls();
        for key in self.connections.keys() {
            let Some(slot) = self.connections.get(key) else { continue };
            slot.connection.drain();
            self.drive(key);
        }
        true
    }

    fn abort(&mut self) {
        self.connections.keys().into_iter().for_each(|key| self.close(key));
    }
}

impl Admission for Reactor {
    fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        &mut self.listeners
    }

    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) -> bool {
        let watchable = self.make_watchable(socket);
        let is_taken = watchable.is_some();
        match watchable {
            Some(socket) => self.welcome(socket, peer),
            None => self.pause(),
        }
        is_taken
    }

    fn make_room(&mut self, _: Shortage) -> Room {
        Room::if_closed(self.evict())
    }

    fn request_room_from_others(&mut self) {
        self.shared.request_room(self.index);
    }

    fn pause(&mut self) {
        self.worker.counters.accept_pauses.add(1);
        self.listeners.pause(&self.watch, self.worker.now());
    }
}
