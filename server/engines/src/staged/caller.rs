//! A thread of the application stage: a small event loop, which has the connections whose requests
//! applications answer, and drives both sockets of each until its call is over. A connection that
//! was handed over for each piece of a reply would have two owners.
//!
//! A socket is watched here only while its call waits for it, and once: a connection to an
//! application that is kept for the next call, by any of the threads, wakes none of them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use os::epoll::{Epoll, EventBuffer, Interest};
use os::event::Wake;
use os::socket::Awaited;
use session::{Job, JobId, Op, Tick, Worker};

use super::applications::CallerInbox;
use super::client::{BoxedClient, Client, Stage};
use super::pipeline::{Outgoing, Pipeline};
use super::poller::LOOPS_WAKE;
use super::queue::Sleep;
use crate::engine::{SendfileMode, WorkerStart};
use crate::jobs::Runner;
use crate::orders::Order;
use crate::parts::applications::client_end::{move_client, note_client};
use crate::parts::applications::driven_call::{DrivenCall, Progress, SessionClient, Unwatched};
use crate::parts::applications::joint::RECEIVE_BYTES;
use crate::parts::applications::table::MARK;
use crate::parts::loops::clock::{read_clock, timeout_ms};
use crate::parts::loops::connections::{Connections, Timed};
use crate::parts::loops::reactor::EVENTS_PER_WAIT;
use crate::parts::loops::step::{STEPS_PER_TURN, Step, Turn, step};
use crate::parts::loops::transport::Plain;
use crate::parts::loops::{Loop, LoopContext, Shared};

/// Keys of wake-up calls: above those of all calls.
const WAKE_KEYS: u64 = (u32::MAX as u64) << 32;

/// From when a client is watched from which nothing is expected, in milliseconds: it may leave.
/// Most requests are answered in less, and to watch a socket costs two calls.
const CLIENT_WATCH_MS: u64 = 100;

/// How often one call may move what fits in its buffers before others get a turn.
const ROUNDS_PER_TURN: u32 = 16;

/// The thread.
pub(super) struct Caller {
    epoll: Epoll,
    events: EventBuffer,
    calls: Connections<Calling>,
    /// The keys of the calls that can go on.
    queue: Vec<u64>,
    worker: Worker,
    shared: Arc<Shared>,
    pipeline: Arc<Pipeline>,
    runner: Arc<Runner>,
    inbox: Arc<CallerInbox>,
    buffer: Box<[u8]>,
    outgoing: Outgoing,
    /// Whether it closes the connections that no call has used in time: the first thread does.
    closes_kept: bool,
    /// When that is due.
    closing_due: Option<Tick>,
    is_draining: bool,
}

/// A connection whose request an application answers.
struct Calling {
    client: BoxedClient,
    id: JobId,
    call: DrivenCall,
    /// From when the client is watched, whatever is expected of it.
    watched_from: Tick,
    /// What the client's socket is watched for; none if it is not, or was since an event.
    watched: Option<Awaited>,
    is_queued: bool,
}

impl Timed for Calling {
    fn deadline(&self) -> Option<Tick> {
        let watched_from = self.watched.is_none().then_some(self.watched_from);
        let deadlines = [self.client.connection.deadline(), self.call.deadline(), watched_from];
        deadlines.into_iter().flatten().min()
    }

    fn is_idle(&self) -> bool {
        false
    }
}

/// Why a call pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Paused {
    /// It waits for its sockets.
    Waits,
    /// It can go on when others have had their turn.
    Yields,
    Over,
}

impl Caller {
    /// The thread with this number in its stage.
    pub(super) fn make(
        start: WorkerStart,
        loop_context: &LoopContext,
        pipeline: &Arc<Pipeline>,
        number: usize,
    ) -> io::Result<Loop> {
        let inbox = Arc::clone(pipeline.applications.inbox(number));
        let wakes: [&Wake; 2] = [&loop_context.shared.wakes[loop_context.index], &inbox.wake];
        let epoll = Epoll::new()?;
        for (index, wake) in wakes.into_iter().enumerate() {
            let interest = Interest::READ.with(Interest::EDGE);
            epoll.add(wake.as_fd(), interest, WAKE_KEYS + index as u64)?;
        }
        let now = Tick(os::clock::now());
        let closes_kept = number == 0;
        let caller = Self {
            epoll,
            events: EventBuffer::with_capacity(EVENTS_PER_WAIT),
            calls: Connections::new(now),
            queue: Vec::new(),
            worker: start.worker,
            shared: Arc::clone(&loop_context.shared),
            pipeline: Arc::clone(pipeline),
            runner: Arc::clone(&loop_context.runner),
            inbox,
            buffer: vec![0; RECEIVE_BYTES].into(),
            outgoing: Outgoing::default(),
            closes_kept,
            closing_due: closes_kept.then_some(now),
            is_draining: false,
        };
        Ok(Box::new(move || caller.run()))
    }

    fn run(mut self) -> io::Result<()> {
        self.pipeline.enter(&self.shared)?;
        read_clock(&mut self.worker);
        while !self.pipeline.is_closed() {
            self.wait()?;
            self.pipeline.share_spares(&mut self.worker, 0);
            self.note_events();
            self.receive();
            self.expire();
            self.obey();
            self.go_on();
            self.outgoing.flush(&self.pipeline);
        }
        Ok(())
    }

    /// Waits for events until something is due.
    fn wait(&mut self) -> io::Result<()> {
        let CallerInbox { clients, admitted, .. } = &*self.inbox;
        let may_sleep = self.queue.is_empty()
            && clients.may_sleep(Sleep::ForAll)
            && admitted.may_sleep(Sleep::ForAll);
        let moments = [self.calls.next_check(), self.worker.next_look(), self.closing_due];
        let timeout = if may_sleep { timeout_ms(self.worker.now(), moments) } else { Some(0) };
        self.epoll.wait(&mut self.events, timeout)?;
        read_clock(&mut self.worker);
        Ok(())
    }

    /// Takes note of all events before any call goes on: a later one may be of a connection that an
    /// earlier one has its call give up.
    fn note_events(&mut self) {
        for index in 0..self.events.len() {
            let Some(event) = self.events.get(index) else { return };
            if event.key >= WAKE_KEYS {
                self.handle_wake(event.key - WAKE_KEYS);
                continue;
            }
            let found = Awaited {
                input: event.readable,
                room: event.writable,
                is_over: event.hangup || event.error,
            };
            self.note(event.key & !MARK, event.key & MARK != 0, found);
        }
    }

    fn handle_wake(&mut self, wake: u64) {
        if wake == LOOPS_WAKE as u64 {
            self.worker.do_housekeeping();
        }
        self.closing_due = self.closes_kept.then(|| self.worker.now());
    }

    /// Takes note of what there is at one of the sockets of a call.
    fn note(&mut self, key: u64, is_applications: bool, found: Awaited) {
        let Some(calling) = self.calls.get(key) else { return };
        if is_applications {
            calling.call.note(found, self.worker.now());
        } else {
            let Client { connection, ready, .. } = &mut *calling.client;
            note_client(connection, &mut self.worker, ready, found);
            calling.watched = None;
        }
        self.queue(key);
    }

    /// Has a call go on in its turn, if it is still there.
    fn queue(&mut self, key: u64) {
        if let Some(calling) = self.calls.get(key)
            && !std::mem::replace(&mut calling.is_queued, true)
        {
            self.queue.push(key);
        }
    }

    /// Takes in the connections that were handed over, and the calls that have a place by now.
    fn receive(&mut self) {
        let mut clients = Vec::new();
        self.inbox.clients.take(&mut clients);
        clients.into_iter().for_each(|client| self.begin(client));
        let mut admitted = Vec::new();
        self.inbox.admitted.take(&mut admitted);
        admitted.into_iter().for_each(|key| self.queue(key));
    }

    /// Begins the call that a connection wants.
    fn begin(&mut self, mut client: BoxedClient) {
        if self.is_draining {
            client.drain();
        }
        let (id, job) = client.connection.take_job();
        let Job::Application(call) = job else { unreachable!("its stage would be another") };
        let (key, now) = (self.calls.next_key(), self.worker.now());
        let waker = || self.inbox.waker(key);
        let call = DrivenCall::begin(&self.pipeline.applications.pool, call, waker, now);
        let watched_from = now.plus_ms(CLIENT_WATCH_MS);
        let calling = Calling { client, id, call, watched_from, watched: None, is_queued: false };
        self.calls.insert(calling);
        self.queue(key);
    }

    /// Has the calls go on of which something is due, and closes connections that no call has used
    /// in time.
    fn expire(&mut self) {
        let now = self.worker.now();
        self.calls.take_expired(now).into_iter().for_each(|key| self.queue(key));
        let is_ending = self.shared.orders.is_ending();
        if self.closing_due.is_some_and(|due| due <= now || is_ending) {
            self.closing_due = self.pipeline.applications.pool.close_kept(now, is_ending);
        }
    }

    /// Carries out the orders of the engine. On [`Order::Abort`] all connections go to the
    /// read-poll stage, which closes them.
    fn obey(&mut self) {
        let orders = &self.shared.orders;
        if orders.is_issued(Order::Abort) || self.pipeline.is_broken() {
            for key in self.calls.keys() {
                let Some(mut calling) = self.calls.remove(key) else { continue };
                calling.client.is_over = true;
                self.outgoing.add(calling.client, Stage::ReadPoll);
            }
        } else if !self.is_draining && orders.is_issued(Order::Drain) {
            self.is_draining = true;
            for key in self.calls.keys() {
                self.calls.get(key).into_iter().for_each(|calling| calling.client.drain());
            }
        }
    }

    /// Goes on with the calls that can. A bug met by one ends its connection: the panic has been
    /// printed.
    fn go_on(&mut self) {
        for key in std::mem::take(&mut self.queue) {
            let Some(calling) = self.calls.get(key) else { continue };
            calling.is_queued = false;
            let paused = catch_unwind(AssertUnwindSafe(|| self.drive(key)));
            match paused {
                Ok(Paused::Waits) => match self.watch(key) {
                    Ok(()) => self.calls.schedule(key),
                    Err(_) => self.give_up(key), // no memory for the watch
                },
                Ok(Paused::Yields) => self.queue(key),
                Ok(Paused::Over) => self.send_on(key),
                Err(_) => self.give_up(key),
            }
        }
    }

    /// Moves bytes between a client and its application.
    fn drive(&mut self, key: u64) -> Paused {
        let may_keep = !self.shared.orders.is_ending();
        let Self { calls, worker, buffer, runner, .. } = self;
        let Some(Calling { client, id, call, .. }) = calls.get(key) else { return Paused::Over };
        let Client { connection, socket, ready, .. } = &mut **client;
        let (id, now) = (*id, worker.now());
        connection.expire_if_due(worker);
        let watch = Unwatched; // it is watched when the call waits
        call.expire_if_due(&mut SessionClient { connection, worker, id, watch }, now);
        for _ in 0..ROUNDS_PER_TURN {
            let mut end = SessionClient { connection, worker, id, watch: Unwatched };
            if call.go_on(&mut end, buffer, now, runner, may_keep) == Progress::Over {
                return self.finish(key);
            }
            let mut socket = Plain(socket.as_fd());
            if !move_client(&mut socket, connection, worker, buffer, ready, id) {
                return Paused::Waits;
            }
        }
        Paused::Yields
    }

    /// Sends what is in memory of the reply, as long as the client takes it: most replies need no
    /// other stage. Whatever else comes next is another stage's, so that this is no use of `drive`.
    fn finish(&mut self, key: u64) -> Paused {
        let Self { calls, worker, buffer, .. } = self;
        let Some(Calling { client, .. }) = calls.get(key) else { return Paused::Over };
        let Client { connection, socket, ready, is_over, .. } = &mut **client;
        let mut turn = Turn::new(0, SendfileMode::NonBlocking);
        for _ in 0..STEPS_PER_TURN {
            if ready.is_full || !matches!(connection.next(), Op::Send { .. }) {
                break;
            }
            let mut socket = Plain(socket.as_fd());
            if step(&mut socket, connection, worker, buffer, ready, &mut turn) == Step::Closed {
                *is_over = true;
                break;
            }
        }
        Paused::Over
    }

    /// Hands a connection on whose call is over.
    fn send_on(&mut self, key: u64) {
        let Some(Calling { mut client, watched, .. }) = self.calls.remove(key) else { return };
        if watched.is_some() {
            let _ = self.epoll.remove(client.socket.as_fd()); // fails if it was not watched
        }
        client.is_answered = true;
        let stage = client.next_stage();
        self.outgoing.add(client, stage);
    }

    /// Ends a connection whose call cannot go on.
    fn give_up(&mut self, key: u64) {
        if let Some(calling) = self.calls.get(key) {
            calling.client.is_over = true;
            self.send_on(key);
        }
    }

    /// Watches the sockets of a call for what it waits for.
    fn watch(&mut self, key: u64) -> io::Result<()> {
        let Some(calling) = self.calls.get(key) else { return Ok(()) };
        if let Some((socket, awaited)) = calling.call.awaited() {
            watch_once(&self.epoll, socket.as_fd(), awaited, key | MARK)?;
        }
        let Client { connection, socket, ready, .. } = &*calling.client;
        // Without a deadline nothing is expected of the client, unless it speaks whenever it likes.
        let may_rest = connection.deadline().is_none() && !connection.is_tunnel();
        if may_rest && self.worker.now() < calling.watched_from {
            return Ok(());
        }
        let input = connection.wants_input();
        let awaited = Awaited { input, room: ready.is_full, ..Awaited::default() };
        if calling.watched != Some(awaited) {
            watch_once(&self.epoll, socket.as_fd(), awaited, key)?;
            calling.watched = Some(awaited);
        }
        Ok(())
    }
}

/// Watches a socket until an event. It may have been watched before.
fn watch_once(epoll: &Epoll, socket: BorrowedFd<'_>, awaited: Awaited, key: u64) -> io::Result<()> {
    let flag = |is_set, flag| if is_set { flag } else { Interest::NONE };
    let input = flag(awaited.input, Interest::READ);
    let interest = Interest::ONCE | input | flag(awaited.room, Interest::WRITE);
    match epoll.modify(socket, interest, key) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => epoll.add(socket, interest, key),
        outcome => outcome,
    }
}
