//! The loop of one ring: one thread, its connections, and the operations under way for them.
//!
//! Sends of small responses from memory and all receives are operations of the ring. Files, and
//! bodies too large to be worth a copy, are sent by [`step`], whose policy holds for the ring's
//! own sends as well; when it finds a socket full, the ring waits for room.
//!
//! A connection that wants no input while a job is out has no receive under way. The ring waits for
//! its end then, so that a reset closes it at once.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::DerefMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use os::errors::Cause;
use os::ring::{Descriptor, Event, Operation, Received, Ring};
use session::{Connection, Phase, Tick, Worker};

use super::accepting::{Accepting, MARGIN};
use super::calls::RingLine;
use super::knobs::{BODIES, HELPERS, MULTISHOT, excess_bytes_max, sizes};
use super::socket::{RingSocket, RingTransport};
use crate::engine::{SendfileMode, WorkerStart};
use crate::orders::{Order, Orders};
use crate::parts::accept::admission::{Admission, LastRows, Room, Shortage, find_room};
use crate::parts::accept::listeners::{LISTENER_KEYS, Listeners, WAKE_KEY, is_exhaustion};
use crate::parts::applications::call_loop::CallLoop;
use crate::parts::applications::table::{Share, Table};
use crate::parts::disk::blocking_work::{BlockingWork, Offload};
use crate::parts::disk::helpers::{Help, Helpers, QUEUE_PER_HELPER, refuse};
use crate::parts::loops::clock::read_clock;
use crate::parts::loops::connections::{Connections, NO_UPSTREAM, Slot, Timed};
use crate::parts::loops::cpu_placement::CpuPlacement;
use crate::parts::loops::drive::{Begun, Driven, Pause, drive};
use crate::parts::loops::obey::{LEAVES_AGAIN_MS, Obey, Obeyed, obey};
use crate::parts::loops::reactor::FILE_CHUNK_KIB;
use crate::parts::loops::step::{Step, Turn, receive_beside, step};
use crate::parts::loops::transport::COALESCED_BYTES_MAX;
use crate::parts::loops::{Loop, LoopContext, Shared, run_or_cut_off};

/// The key of the helpers' wake-up call.
const HELPERS_KEY: u64 = u64::MAX - 1;

/// The loop of one ring.
pub(super) struct RingLoop {
    // Dropped first: the ring releases all sockets.
    pub(super) ring: Ring,
    pub(super) accepting: Accepting,
    pub(super) connections: Connections<Slot<RingSocket>>,
    pub(super) worker: Worker,
    pub(super) work: BlockingWork,
    /// The applications that answer requests, and the connections to them.
    pub(super) table: Table<RingLine>,
    /// The descriptors that wake the loop: its own wake-up call, and that of its helpers.
    wake: Rc<Descriptor>,
    helpers_wake: Option<Rc<Descriptor>>,
    pub(super) shared: Arc<Shared>,
    pub(super) index: usize,
    placement: CpuPlacement,
    /// The buffer in which responses are gathered.
    buffer: Box<[u8]>,
    /// The size of the buffers that the ring receives into.
    pub(super) buffer_bytes: usize,
    is_multishot: bool,
    sendfile: SendfileMode,
    file_chunk_bytes: u64,
    /// The bytes that connections did not want when they came, and how many these may be: as many
    /// as multishot receives of one connection may bring before they are cancelled. A client that
    /// sends more while others have sent much is cut off.
    pub(super) excess_bytes: u64,
    excess_bytes_max: u64,
    /// Whether a receive is submitted once for all that comes: not while much has come that was not
    /// wanted.
    receives_many: bool,
    /// The waits for the end of connections that do not receive.
    pub(super) ends: HashMap<u64, Operation>,
    pub(super) is_accepting: bool,
    /// Whether connections go to another engine.
    is_leaving: bool,
    /// Whether the listeners were closed in this turn.
    has_just_closed: bool,
    pub(super) obeyed: Obeyed,
}

impl RingLoop {
    /// A loop, to be run in its thread. A ring stays in the thread that makes it.
    pub(super) fn make(start: WorkerStart, loop_context: LoopContext) -> io::Result<Loop> {
        Ok(Box::new(move || Self::new(start, loop_context)?.run()))
    }

    fn new(start: WorkerStart, loop_context: LoopContext) -> io::Result<Self> {
        let LoopContext { runner, shared, index, placement, sendfile, knobs, .. } = loop_context;
        let helpers: Option<Box<dyn Help>> = match knobs.get_usize(HELPERS.name) {
            0 => None,
            count => {
                let (name, runner) = (format!("rings-{index}-helper"), Arc::clone(&runner));
                let run_job = Arc::new(move |job| runner.run(job));
                Some(Box::new(Helpers::start(&name, count, count * QUEUE_PER_HELPER, run_job)?))
            }
        };
        let share = |descriptor: BorrowedFd<'_>| {
            descriptor.try_clone_to_owned().map(|copy| Rc::new(Descriptor::from(copy)))
        };
        let file_chunk_bytes = knobs.get(FILE_CHUNK_KIB.name) * 1024;
        let work = BlockingWork::new(runner, helpers, file_chunk_bytes);
        let sizes = sizes(&knobs, shared.connections_max.most());
        let now = Tick(os::clock::now());
        let of_connections = Share::new(&shared.connections_max, shared.wakes.len());
        let mut ring_loop = Self {
            ring: Ring::new(sizes)?,
            accepting: Accepting::new(start.listeners)?,
            connections: Connections::new(now),
            table: Table::new(start.worker.applications(), of_connections, now),
            worker: start.worker,
            wake: share(shared.wakes[index].as_fd())?,
            helpers_wake: work.wake().map(share).transpose()?,
            work,
            shared,
            index,
            placement,
            buffer: vec![0; COALESCED_BYTES_MAX].into(),
            buffer_bytes: sizes.buffer_bytes as usize,
            is_multishot: knobs.get(MULTISHOT.name) == 1,
            sendfile,
            file_chunk_bytes,
            excess_bytes: 0,
            excess_bytes_max: excess_bytes_max(&sizes),
            receives_many: false,
            ends: HashMap::new(),
            is_accepting: true,
            is_leaving: false,
            has_just_closed: false,
            obeyed: Obeyed::default(),
        };
        read_clock(&mut ring_loop.worker);
        Ok(ring_loop)
    }

    fn run(self) -> io::Result<()> {
        run_or_cut_off(self, Self::turn, |ring_loop| ring_loop.connections.keys(), Self::cut_off)
    }

    /// Closes a connection whose operations may never end, if it is the ring that fails.
    fn cut_off(&mut self, key: u64) {
        if let Some(slot) = self.connections.get(key) {
            // It fails if the peer has gone, or if the socket is in the ring's table only: then it
            // is closed with the ring.
            let socket = self.ring.ordinary(&slot.socket.descriptor);
            let _ = socket.and_then(os::socket::shutdown_both);
        }
        self.close(key);
    }

    fn turn(&mut self) -> io::Result<()> {
        self.ring.poll_readable(WAKE_KEY, &self.wake);
        if let Some(wake) = &self.helpers_wake {
            self.ring.poll_readable(HELPERS_KEY, wake);
        }
        self.arm();
        loop {
            let timeout = self.timeout_us();
            self.ring.wait(timeout)?;
            self.receives_many = self.is_multishot && self.excess_bytes <= self.excess_bytes_max;
            read_clock(&mut self.worker);
            self.placement.update(self.worker.now());
            self.handle_events();
            let yielded = self.connections.take_yielded();
            yielded.iter().for_each(|key| self.drive(*key));
            self.connections.keep_buffer(yielded);
            self.expire()?;
            obey(self);
            if self.is_over() {
                return Ok(());
            }
            self.arm();
        }
    }

    #[inline]
    fn handle_events(&mut self) {
        while let Some(event) = self.ring.next_event() {
            self.handle(event);
        }
    }

    #[inline]
    fn handle(&mut self, event: Event) {
        match event {
            Event::Received { key, result, is_last } => self.received(key, result, is_last),
            Event::Sent { key, result } => self.sent(key, result),
            Event::Ready { key: WAKE_KEY } => {
                self.shared.wakes[self.index].clear();
                self.ring.poll_readable(WAKE_KEY, &self.wake);
                // Other loops may have evicted entries that this worker still holds.
                self.worker.do_housekeeping();
                self.leave_retired();
                self.adopt_all();
                if self.shared.is_room_wanted(self.index) {
                    self.evict();
                }
            }
            Event::Ready { key: HELPERS_KEY } => {
                if let Some(wake) = &self.helpers_wake {
                    self.ring.poll_readable(HELPERS_KEY, wake);
                }
                self.take_back();
            }
            Event::Ready { key } => {
                let Some(slot) = self.connections.get(key) else { return self.ready_apart(key) };
                slot.socket.sending_ended();
                slot.ready.is_full = false;
                self.drive(key);
            }
            Event::Ended { key, is_gone: true } => self.ended(key),
            Event::Ended { .. } => {} // an orderly end: its requests are answered
            Event::Accepted { key, result, is_last } => {
                let index = (key - LISTENER_KEYS) as usize;
                if is_last {
                    self.accepting.ended(index);
                }
                self.accepted(index, result);
            }
        }
    }

    #[inline]
    fn received(&mut self, key: u64, result: io::Result<Option<Received>>, is_last: bool) {
        let Some(slot) = self.connections.get(key) else {
            return self.received_apart(key, result);
        };
        if is_last {
            slot.socket.receive_ended();
        }
        match result {
            Ok(None) => slot.socket.is_at_end = true,
            Ok(Some(received)) => return self.ingest(key, received),
            Err(error) if is_for_another(&error) => {}
            Err(_) => return self.close(key),
        }
        self.drive(key);
    }

    #[inline]
    fn ingest(&mut self, key: u64, received: Received) {
        self.learn_peer(key);
        let Some(slot) = self.connections.get(key) else { return };
        let bytes = self.ring.bytes(&received);
        let (connection, worker, len) = (&mut slot.connection, &mut self.worker, bytes.len());
        let is_wanted = connection.wants_input();
        let ingested = catch_unwind(AssertUnwindSafe(|| connection.ingest(worker, bytes)));
        self.ring.give_back(received);
        let has_room = is_wanted || self.count_excess(key, len);
        match ingested {
            Ok(()) if has_room => self.drive(key),
            _ => self.close(key), // as in `drive`, if it has failed
        }
    }

    /// Asks for the client's address if it was of no interest before, because the log was off.
    #[inline]
    fn learn_peer(&mut self, key: u64) {
        let Some(slot) = self.connections.get(key).filter(|it| it.connection.peer().port() == 0)
        else {
            return;
        };
        self.worker.keep_current();
        if self.worker.is_logging()
            && let Ok(socket) = self.ring.ordinary(&slot.socket.descriptor)
            && let Ok(peer) = os::socket::peer_addr(socket)
        {
            slot.connection.set_peer(peer);
        }
    }

    /// Counts bytes that a connection did not want. Returns whether there was room for them.
    #[cold]
    fn count_excess(&mut self, key: u64, bytes: usize) -> bool {
        if let Some(slot) = self.connections.get(key) {
            slot.socket.count_excess(&mut self.ring, bytes as u64);
            self.excess_bytes += bytes as u64;
            self.receives_many &= self.excess_bytes <= self.excess_bytes_max;
            if slot.upstream != NO_UPSTREAM {
                return self.excess_bytes <= self.excess_bytes_max * BODIES;
            }
        }
        self.excess_bytes <= self.excess_bytes_max
    }

    /// Closes a connection whose client has gone while its job is out.
    #[cold]
    fn ended(&mut self, key: u64) {
        self.ends.remove(&key);
        let is_working = |slot: &mut Slot<_>| slot.connection.phase() == Phase::Working;
        if self.connections.get(key).is_some_and(is_working) {
            self.close(key);
        }
    }

    #[inline]
    fn sent(&mut self, key: u64, result: io::Result<usize>) {
        let Some(slot) = self.connections.get(key) else { return self.sent_apart(key, result) };
        slot.socket.sending_ended();
        slot.ready.is_full = false;
        let Some(count) = result.ok() else { return self.close(key) };
        let (connection, worker) = (&mut slot.connection, &mut self.worker);
        match catch_unwind(AssertUnwindSafe(|| connection.sent(worker, count))) {
            Ok(()) => self.drive(key),
            Err(_) => self.close(key), // as in `drive`
        }
    }

    /// Goes on with one connection until it waits for something, yields or closes, or has gone to
    /// another engine.
    #[inline]
    pub(super) fn drive(&mut self, key: u64) {
        if !self.is_leaving || !self.gives(key) {
            self.go_on(key, false);
        }
    }

    /// Has the ring report when the socket, if it is full, has room again.
    fn wait_for_room(&mut self, key: u64) {
        let Some(mut slot) = self.connections.get(key) else { return };
        if slot.upstream != NO_UPSTREAM {
            self.end_if_unwanted(key);
            let Some(again) = self.connections.get(key) else { return };
            slot = again;
        }
        if slot.ready.is_full {
            slot.socket.wait_for_room(&mut self.ring, key);
        }
        let is_deaf = slot.socket.is_deaf() && !slot.socket.is_at_end;
        if is_deaf && slot.connection.phase() == Phase::Working {
            self.wait_for_end(key);
        }
        self.connections.schedule(key);
    }

    /// Has the ring report when the connection ends.
    #[cold]
    fn wait_for_end(&mut self, key: u64) {
        let Some(slot) = self.connections.get(key) else { return };
        let descriptor = &slot.socket.descriptor;
        self.ends.entry(key).or_insert_with(|| self.ring.poll_end(key, descriptor));
    }

    /// Closes a connection. Its socket is closed with the last operation under way on it.
    pub(super) fn close(&mut self, key: u64) {
        if let Some(mut slot) = self.connections.remove(key) {
            self.work.forget(key, &mut slot);
            self.excess_bytes -= slot.socket.take_excess();
            if !self.ends.is_empty() {
                self.ends.remove(&key).into_iter().for_each(|end| self.ring.cancel(end));
            }
            slot.connection.close(&mut self.worker);
            slot.socket.hang_up(&mut self.ring);
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            self.worker.counters.connections_open.subtract(1);
            self.end_unwanted(slot.upstream);
        }
    }

    fn accepted(&mut self, index: usize, result: io::Result<Descriptor>) {
        match result {
            Ok(socket) => self.place(socket),
            Err(error) if is_exhaustion(&error) => {
                if !self.accepting.is_awaiting_descriptor() {
                    find_room(self, Shortage::Descriptors { listener: index });
                }
            }
            Err(_) => {} // the client has gone already, or the accept was cancelled
        }
    }

    /// Finds a place for a connection, or has it wait for one.
    fn place(&mut self, socket: Descriptor) {
        match !self.is_full() || find_room(self, Shortage::Places) == Room::Made {
            true => self.welcome(socket),
            false => self.accepting.waiting.push_back(socket),
        }
    }

    pub(super) fn welcome(&mut self, socket: Descriptor) {
        let Ok(peer) = self.peer_address(&socket) else { return }; // the client has gone already
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        self.worker.counters.connections_accepted.add(1);
        self.worker.counters.connections_open.add(1);
        let connection = Connection::new(&self.worker, peer);
        let key = self.connections.welcome(connection, RingSocket::new(socket));
        self.drive(key);
    }

    /// The client's address. The query needs an ordinary descriptor, which a direct one gets only
    /// if the worker logs or there are applications, which are told; otherwise the address is
    /// unspecified, with port 0, until the worker logs.
    fn peer_address(&mut self, socket: &Descriptor) -> io::Result<SocketAddr> {
        let is_told = self.worker.is_logging() || self.table.is_used;
        if socket.is_direct() && !is_told {
            return Ok((Ipv4Addr::UNSPECIFIED, 0).into());
        }
        self.ring.ordinary(socket).and_then(os::socket::peer_addr)
    }

    /// Makes sure that connections are accepted, unless accepting is over or paused.
    fn arm(&mut self) {
        if !self.is_accepting {
            return;
        }
        if self.accepting.resume(self.worker.now()) {
            while self.accepting.next_check().is_none()
                && let Some(socket) = self.accepting.waiting.pop_front()
            {
                self.place(socket);
            }
        }
        let open = self.shared.open.load(Ordering::Relaxed);
        let many = self.is_multishot && open + MARGIN <= self.shared.connections_max.now();
        self.accepting.arm(&mut self.ring, many);
    }

    fn expire(&mut self) -> io::Result<()> {
        let now = self.worker.now();
        if self.connections.next_check().is_none_or(|moment| moment > now) {
            return Ok(());
        }
        let expired = self.connections.take_expired(now);
        if !expired.is_empty() {
            // What has arrived comes before the deadline: the loop may not have run for a while.
            self.ring.wait(Some(0))?;
            self.handle_events();
        }
        let is_due = |slot: &mut Slot<_>| slot.deadline().is_some_and(|at| at <= now);
        for key in expired {
            if let Some(slot) = self.connections.get(key)
                && is_due(slot)
            {
                // A job that found no room with the helpers in all this time is refused.
                let was_in_line = self.work.forget(key, slot);
                slot.is_queued = false;
                let is_refused = was_in_line && refuse(&mut slot.connection, &mut self.worker);
                if !is_refused {
                    slot.connection.expire(&mut self.worker);
                }
                self.drive(key);
            }
        }
        Ok(())
    }

    /// Takes the connections that wait, accepted already or in a listener's queue.
    fn empty_queues(&mut self) {
        let waiting = std::mem::take(&mut self.accepting.waiting);
        waiting.into_iter().for_each(|socket| self.place(socket));
        LastRows::default().take(self);
    }

    fn is_over(&self) -> bool {
        let is_issued = |order| self.shared.orders.is_issued(order);
        let is_ending = self.obeyed.is_draining || self.is_leaving || is_issued(Order::Abort);
        self.obeyed.is_closed
            && is_ending
            && self.connections.len() == 0
            && self.shared.inboxes.close_if_empty(self.index)
    }

    /// How long to wait for events. Before, the calls of applications end that take too long.
    #[inline]
    fn timeout_us(&mut self) -> Option<u64> {
        let calls = if self.table.is_used { self.expire_calls() } else { None };
        let is_stopping = self.obeyed.is_closed && !self.obeyed.is_draining;
        if self.connections.has_yielded()
            || (is_stopping && self.shared.orders.is_issued(Order::Drain))
        {
            return Some(0);
        }
        let connections = self.connections.next_check();
        let moments = [connections, calls, self.accepting.next_check(), self.worker.next_look()];
        let next = moments.into_iter().flatten().min()?;
        Some(next.since(self.worker.now()).max(1))
    }
}

/// One connection of a ring.
struct Drive<'r> {
    ring_loop: &'r mut RingLoop,
    key: u64,
}

impl Driven for Drive<'_> {
    #[inline]
    fn step(&mut self, turn: &mut Turn) -> Step {
        let RingLoop { connections, ring, worker, buffer, receives_many, excess_bytes, .. } =
            &mut *self.ring_loop;
        let Some(slot) = connections.get(self.key) else { return Step::Away };
        if slot.is_queued {
            return self.receive_beside(); // it waits for its turn, or for a helper
        }
        let Slot { socket, connection, ready, .. } = slot;
        let (key, is_multishot) = (self.key, *receives_many);
        let mut transport = RingTransport { ring, key, socket, is_multishot, excess_bytes };
        step(&mut transport, connection, worker, buffer, ready, turn)
    }

    fn job(&mut self) -> Begun {
        if self.ring_loop.table.is_used
            && let Some(begun) = self.ring_loop.call(self.key)
        {
            return begun;
        }
        self.ring_loop.begin_job(self.key)
    }

    fn fetch(&mut self, _: &Turn) -> Begun {
        self.ring_loop.begin_fetch(self.key)
    }

    fn receive_beside(&mut self) -> Step {
        let RingLoop { connections, ring, worker, buffer, receives_many, excess_bytes, .. } =
            &mut *self.ring_loop;
        let Some(slot) = connections.get(self.key) else { return Step::Away };
        let Slot { socket, connection, ready, .. } = slot;
        let (key, is_multishot) = (self.key, *receives_many);
        let mut transport = RingTransport { ring, key, socket, is_multishot, excess_bytes };
        receive_beside(&mut transport, connection, worker, buffer, ready)
    }
}

impl Offload for RingLoop {
    type Socket = RingSocket;

    fn parts(&mut self) -> (&mut BlockingWork, &mut Connections<Slot<RingSocket>>, &mut Worker) {
        (&mut self.work, &mut self.connections, &mut self.worker)
    }

    fn evict(&mut self) -> bool {
        let ring = &mut self.ring;
        let has_input = |slot: &Slot<RingSocket>| {
            ring.ordinary(&slot.socket.descriptor).is_ok_and(os::socket::has_input)
        };
        let Some(first) = self.connections.take_least_recent(has_input) else { return false };
        self.worker.counters.connections_evicted.add(1);
        if let Some(slot) = self.connections.get(first) {
            self.accepting.await_descriptor(&slot.socket.descriptor);
        }
        self.close(first);
        true
    }

    #[inline]
    fn go_on(&mut self, key: u64, is_fetched: bool) {
        let mut turn = Turn::new(self.file_chunk_bytes, self.sendfile);
        turn.is_fetched = is_fetched;
        match drive(&mut Drive { ring_loop: self, key }, &mut turn) {
            Pause::Wait | Pause::Away => self.wait_for_room(key),
            Pause::Yield => self.connections.queue(key),
            Pause::Closed => self.close(key),
        }
    }
}

impl Obey for RingLoop {
    fn orders(&self) -> &Orders {
        &self.shared.orders
    }

    fn obeyed(&mut self) -> &mut Obeyed {
        &mut self.obeyed
    }

    fn leave(&mut self) {
        self.is_leaving = true;
        self.obeyed.is_closed = self.obeyed.is_closed || self.leave_listeners();
        self.drain_calls();
        self.accepting.resume(self.worker.now()); // the end of a wait for room
        if let Some(again) = self.obeyed.next_walk(self.connections.len(), self.worker.now()) {
            return self.accepting.rest(again);
        }
        for key in self.connections.keys() {
            if self.shared.heir().is_some_and(|heir| !heir.has_room()) {
                self.obeyed.walk_is_not_over();
                return self.accepting.rest(self.worker.now().plus_ms(LEAVES_AGAIN_MS));
            }
            self.gives(key);
        }
    }

    /// Stops accepting. Accepts that are under way have to end first, which takes turns.
    fn stop_accepting(&mut self) -> bool {
        self.is_accepting = false;
        self.has_just_closed = self.accepting.disarm(&mut self.ring);
        if self.has_just_closed {
            self.empty_queues();
            self.accepting.close();
        }
        self.has_just_closed
    }

    /// Drains all connections, but not before the turn after the listeners were closed: by then the
    /// requests of the connections from the queues have been received.
    fn drain(&mut self) -> bool {
        if !self.obeyed.is_closed || std::mem::take(&mut self.has_just_closed) {
            return false;
        }
        self.drain_calls();
        for key in self.connections.keys() {
            if let Some(slot) = self.connections.get(key) {
                slot.connection.drain();
                self.drive(key);
            }
        }
        true
    }

    fn abort(&mut self) {
        self.connections.keys().into_iter().for_each(|key| self.close(key));
    }
}

impl Admission for RingLoop {
    fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        &mut self.accepting.listeners
    }

    fn admit(&mut self, socket: OwnedFd, _: SocketAddr) -> bool {
        self.welcome(socket.into());
        true
    }

    fn make_room(&mut self, _: Shortage) -> Room {
        Room::if_closed(self.evict())
    }

    fn request_room_from_others(&mut self) {
        self.shared.request_room(self.index);
    }

    fn pause(&mut self) {
        self.worker.counters.accept_pauses.add(1);
        self.accepting.pause(self.worker.now());
    }
}

/// Whether a receive has ended so that another may be begun. Without a free buffer, there will be
/// some when that is submitted: all buffers in use are returned before. One that was cancelled is
/// begun again on demand.
pub(super) fn is_for_another(error: &io::Error) -> bool {
    is_exhaustion(error) || Cause::from_error(error) == Cause::Cancelled
}
