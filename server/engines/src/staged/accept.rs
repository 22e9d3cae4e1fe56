//! The first stage: accepting. It waits for its listeners only; accepted connections go to the
//! read-poll stage in batches.
//!
//! It has no connections of its own, so it cannot make room: when there is none it requests room
//! from the read-poll stage, which has the idle connections, and waits for the answer.

use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use os::epoll::{Epoll, EventBuffer, Interest};
use session::{Connection, Tick, Worker};

use super::client::{BoxedClient, Client, Counted};
use super::controllers::TokenBucket;
use super::pipeline::Pipeline;
use crate::engine::{Handed, WorkerStart};
use crate::orders::Order;
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::accept::admission::{Admission, LastRows, Room, Shortage, accept_row};
use crate::parts::accept::listeners::{LISTENER_KEYS, Listeners, WAKE_KEY};
use crate::parts::loops::clock::{read_clock, timeout_ms};
use crate::parts::loops::{Loop, LoopContext, Shared};

/// The key of the wake-up call for answers of the read-poll stage.
const ANSWER_KEY: u64 = u64::MAX - 1;

/// The stage.
pub(super) struct Accept {
    epoll: Epoll,
    listeners: Listeners,
    worker: Worker,
    shared: Arc<Shared>,
    /// The index of the stage's wake-up call in [`Shared::wakes`].
    index: usize,
    pipeline: Arc<Pipeline>,
    accepts_per_wake: usize,
    accepted: Vec<BoxedClient>,
    /// The connections that the admission controller allows.
    bucket: TokenBucket,
    /// The shortage for which room was requested from the read-poll stage, until the answer comes.
    requested: Option<Shortage>,
    /// The queues still to be emptied before the listeners are closed.
    closing: Option<LastRows>,
    has_left: bool,
}

impl Accept {
    /// The stage, to be run in its thread.
    pub(super) fn make(
        start: WorkerStart,
        loop_context: &LoopContext,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Loop> {
        let epoll = Epoll::new()?;
        let edge = Interest::READ.with(Interest::EDGE);
        epoll.add(loop_context.shared.wakes[loop_context.index].as_fd(), edge, WAKE_KEY)?;
        epoll.add(pipeline.room.wake.as_fd(), edge, ANSWER_KEY)?;
        let listeners = Listeners::new(start.listeners, loop_context.exclusive_wakeups);
        listeners.watch(&epoll)?;
        let stage = Self {
            epoll,
            listeners,
            worker: start.worker,
            shared: Arc::clone(&loop_context.shared),
            index: loop_context.index,
            pipeline: Arc::clone(pipeline),
            accepts_per_wake: loop_context.knobs.get_usize(ACCEPTS_PER_WAKE.name),
            accepted: Vec::new(),
            bucket: TokenBucket::new(Tick(os::clock::now())),
            requested: None,
            closing: None,
            has_left: false,
        };
        Ok(Box::new(move || stage.run()))
    }

    fn run(mut self) -> io::Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        pipeline.enter(&self.shared)?;
        let mut events = EventBuffer::with_capacity(64);
        loop {
            self.epoll.wait(&mut events, self.timeout_ms())?;
            read_clock(&mut self.worker);
            for event in events.iter() {
                match event.key {
                    WAKE_KEY => self.handle_wake(),
                    ANSWER_KEY => {}
                    key => self.accept((key - LISTENER_KEYS) as usize),
                }
            }
            self.resume()?;
            let is_over = self.obey();
            pipeline.push_to_read_poll(&mut self.accepted);
            if is_over || pipeline.is_closed() || pipeline.is_broken() {
                self.listeners.close(&self.epoll);
                pipeline.end_accepting();
                return Ok(());
            }
        }
    }

    /// Handles a wake-up call of other loops, or for orders, which are checked in each turn.
    fn handle_wake(&mut self) {
        self.worker.do_housekeeping();
        self.adopt_all();
        if self.shared.is_room_wanted(self.index) {
            self.pipeline.request_eviction();
        }
    }

    /// Passes on the connections that come from another engine, as if they were accepted.
    fn adopt_all(&mut self) {
        for Handed { connection, socket } in self.shared.inboxes.take(self.index) {
            let counted = Counted::already(&self.shared);
            self.accepted.push(Box::new(Client::new(connection, socket, counted)));
        }
    }

    fn accept(&mut self, listener: usize) {
        // An earlier event of the same wait may have led to a request for room.
        if self.requested.is_none() {
            accept_row(self, listener, self.accepts_per_wake);
        }
    }

    /// Requests room from the read-poll stage. Meanwhile the kernel's queue holds new connections.
    fn request_room(&mut self, shortage: Shortage) {
        self.requested = Some(shortage);
        self.listeners.pause(&self.epoll, self.worker.now());
        // Connections accepted just now may be among the idle ones.
        self.pipeline.push_to_read_poll(&mut self.accepted);
        self.pipeline.request_room();
    }

    /// Resumes accepting when room was granted, or when a pause without room is over.
    fn resume(&mut self) -> io::Result<()> {
        let now = self.worker.now();
        if let Some(shortage) = self.requested {
            let Some(is_granted) = self.pipeline.room.take_answer() else { return Ok(()) };
            self.requested = None;
            if is_granted {
                // Ends the pause, however long it was to be.
                return self.listeners.resume(&self.epoll, Tick(u64::MAX));
            }
            if !self.is_leaving() {
                // The last rows do not wait: the request could be refused again and again.
                self.closing.iter_mut().for_each(LastRows::abandon);
            }
            self.handle_no_room(shortage);
        }
        self.listeners.resume(&self.epoll, now)
    }

    /// Carries out the orders of the engine. Returns whether the stage is to end.
    fn obey(&mut self) -> bool {
        if self.shared.orders.is_issued(Order::Abort) {
            return true;
        }
        let is_leaving = self.is_leaving();
        if self.closing.is_none()
            && (is_leaving || self.shared.orders.is_issued(Order::StopAccepting))
        {
            self.closing = Some(LastRows::default());
        }
        let Some(mut last) = self.closing.filter(|_| self.requested.is_none()) else {
            return false;
        };
        if is_leaving && self.listeners.next_check().is_some() {
            return false; // there was no room, and is to be asked for again after the pause
        }
        let is_over = last.take(self);
        self.closing = Some(last);
        if is_over && is_leaving {
            self.listeners.unwatch(&self.epoll);
            // An arrival may have woken this stage alone.
            LastRows::default().take(self);
            if !std::mem::replace(&mut self.has_left, true) {
                self.shared.orders.note_left();
            }
        }
        is_over && self.closes_inbox()
    }

    /// Whether other engines may watch the listeners, and are to get the connections.
    fn is_leaving(&self) -> bool {
        self.shared.orders.is_issued(Order::Leave)
    }

    /// Takes no connections from other engines any more, unless some are on their way. Returns
    /// whether it takes none.
    fn closes_inbox(&mut self) -> bool {
        let is_closed = self.shared.inboxes.close_if_empty(self.index);
        if !is_closed {
            self.adopt_all();
        }
        is_closed
    }

    fn timeout_ms(&self) -> Option<u32> {
        if self.requested.is_some() {
            return None; // the answer comes with a wake-up call
        }
        timeout_ms(self.worker.now(), [self.listeners.next_check()])
    }
}

impl Admission for Accept {
    fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        &mut self.listeners
    }

    /// Whether the admission controller allows one more connection. If not, connections wait in the
    /// kernel's queue until it does; the last rows before the end are not held back.
    fn may_accept(&mut self) -> bool {
        let Some(rate) = self.pipeline.rate() else { return true };
        if self.closing.is_some() {
            return true;
        }
        match self.bucket.check(self.worker.now(), rate) {
            Ok(()) => true,
            Err(until) => {
                self.pipeline.controller_counts.rests.fetch_add(1, Ordering::Relaxed);
                self.listeners.rest(&self.epoll, until);
                false
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) -> bool {
        self.bucket.spend();
        self.worker.counters.connections_accepted.add(1);
        let connection = Connection::new(&self.worker, peer);
        let counted = Counted::new(&self.shared);
        self.accepted.push(Box::new(Client::new(connection, socket, counted)));
        true
    }

    /// Requests room from the stage that has the idle connections.
    fn make_room(&mut self, shortage: Shortage) -> Room {
        self.request_room(shortage);
        Room::Begun
    }

    fn request_room_from_others(&mut self) {
        self.shared.request_room(self.index);
    }

    fn pause(&mut self) {
        self.worker.counters.accept_pauses.add(1);
        self.listeners.pause(&self.epoll, self.worker.now());
    }
}
