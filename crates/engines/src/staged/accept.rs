//! The first stage: accepting. It waits for its listeners only; what it accepts goes to the
//! read-poll stage in batches.
//!
//! It has no connections of its own, so it cannot make room: when there is none it asks the
//! read-poll stage, where those that rest are, and waits for the answer.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use os::epoll::{Epoll, EventBuffer, Interest};
use session::{Connection, Tick, Worker};

use super::client::{BoxedClient, Client};
use super::controllers::TokenBucket;
use super::pipeline::Pipeline;
use crate::engine::WorkerStart;
use crate::orders::Order;
use crate::parts::accept::listeners::{Accepted, BACKLOG_MAX, LISTENER_KEYS, Listeners, WAKE_KEY};
use crate::parts::loops::clock::{read_clock, timeout_ms};
use crate::parts::loops::{Loop, Seat, Shared};

/// The key of the wake-up calls of the stages.
const ANSWER_KEY: u64 = u64::MAX - 1;

/// The stage.
pub(super) struct Accept {
    epoll: Epoll,
    listeners: Listeners,
    worker: Worker,
    shared: Arc<Shared>,
    /// Its wake-up call in [`Shared::wakes`].
    index: usize,
    pipeline: Arc<Pipeline>,
    accepts_per_wake: usize,
    accepted: Vec<BoxedClient>,
    /// What the admission controller lets it have.
    bucket: TokenBucket,
    /// What it waits to hear from the read-poll stage.
    asked: Option<Asked>,
    /// Which listener still has connections to be accepted before it is closed.
    closing: Option<usize>,
}

/// Why there was no room.
#[derive(Clone, Copy)]
enum Asked {
    /// As many connections as there may be.
    Full,
    /// No descriptors for one that waits at this listener.
    Exhausted(usize),
}

/// How a row of attempts to accept ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// Nobody waits.
    Empty,
    /// Others have their turn.
    Enough,
    /// Somebody waits for room.
    NoRoom,
}

impl Accept {
    /// The stage, to be run in its thread.
    pub(super) fn make(
        start: WorkerStart,
        seat: &Seat,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Loop> {
        let epoll = Epoll::new()?;
        let edge = Interest::READ.with(Interest::EDGE);
        epoll.add(seat.shared.wakes[seat.index].as_fd(), edge, WAKE_KEY)?;
        epoll.add(pipeline.room.wake.as_fd(), edge, ANSWER_KEY)?;
        let listeners = Listeners::new(start.listeners, seat.exclusive_wakeups);
        listeners.watch(&epoll)?;
        let stage = Self {
            epoll,
            listeners,
            worker: start.worker,
            shared: Arc::clone(&seat.shared),
            index: seat.index,
            pipeline: Arc::clone(pipeline),
            accepts_per_wake: seat.knobs.get_usize(super::ACCEPTS_PER_WAKE.name),
            accepted: Vec::new(),
            bucket: TokenBucket::new(Tick(os::clock::now())),
            asked: None,
            closing: None,
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
                    WAKE_KEY => self.listen(),
                    ANSWER_KEY => {}
                    key => self.accept((key - LISTENER_KEYS) as usize),
                }
            }
            self.hear()?;
            let is_over = self.obey();
            pipeline.give_to_read_poll(&mut self.accepted);
            if is_over || pipeline.is_closed() || pipeline.is_broken() {
                self.listeners.close(&self.epoll);
                pipeline.end_accepting();
                return Ok(());
            }
        }
    }

    /// Somebody called: other loops, or who gives orders, which are looked at anyway.
    fn listen(&mut self) {
        self.worker.keep_house();
        if self.shared.is_room_wanted(self.index) {
            self.pipeline.ask_for_another();
        }
    }

    fn accept(&mut self, listener: usize) {
        // One event of several: the answer to what was asked for the first may come.
        if self.asked.is_none() {
            self.accept_row(listener, self.accepts_per_wake);
        }
    }

    /// Accepts up to `count` connections from one listener.
    fn accept_row(&mut self, listener: usize, count: usize) -> Row {
        for attempt in 0..count {
            if self.shared.is_full() {
                // An event says that one waits. Whether more do, the next event will say: nobody
                // is closed to make room for nobody.
                if attempt > 0 {
                    return Row::Enough;
                }
                self.ask(Asked::Full);
                return Row::NoRoom;
            }
            if !self.may_accept() {
                return Row::Enough;
            }
            match self.listeners.accept(listener) {
                Ok(Accepted::Connection(socket, peer)) => {
                    self.bucket.spend();
                    self.worker.counters.connections_accepted.add(1);
                    let connection = Connection::new(&self.worker, peer);
                    self.accepted.push(Box::new(Client::new(connection, socket, &self.shared)));
                }
                Ok(Accepted::Gone) => {}
                Ok(Accepted::Exhausted) => {
                    self.ask(Asked::Exhausted(listener));
                    return Row::NoRoom;
                }
                Ok(Accepted::Nothing) | Err(_) => return Row::Empty,
            }
        }
        Row::Enough
    }

    /// Whether the admission controller lets one more in. If not, who comes waits in the kernel's
    /// queue until it does; before the end nobody is kept waiting.
    fn may_accept(&mut self) -> bool {
        let Some(rate) = self.pipeline.rate() else { return true };
        if self.closing.is_some() {
            return true;
        }
        match self.bucket.look(self.worker.now(), rate) {
            Ok(()) => true,
            Err(until) => {
                self.pipeline.controller_counts.rests.fetch_add(1, Ordering::Relaxed);
                self.listeners.rest(&self.epoll, until);
                false
            }
        }
    }

    /// Asks for room. Meanwhile the kernel's queue holds who comes.
    fn ask(&mut self, what: Asked) {
        self.asked = Some(what);
        self.listeners.pause(&self.epoll, self.worker.now());
        // Those just accepted may be among the ones that rest.
        self.pipeline.give_to_read_poll(&mut self.accepted);
        self.pipeline.ask_for_room();
    }

    /// Goes on when there is room, or when there was none for long enough.
    fn hear(&mut self) -> io::Result<()> {
        let now = self.worker.now();
        if let Some(asked) = self.asked {
            let Some(is_granted) = self.pipeline.room.answer() else { return Ok(()) };
            self.asked = None;
            if is_granted {
                // Its end, whenever it was to be.
                return self.listeners.resume(&self.epoll, Tick(u64::MAX));
            }
            self.worker.counters.accept_pauses.add(1);
            // Before the end nobody waits for room: it would come again and again.
            self.closing = self.closing.map(|_| self.listeners.count());
            match asked {
                Asked::Full => self.shared.ask_for_room(self.index),
                Asked::Exhausted(listener) => self.listeners.turn_one_away(listener),
            }
            self.listeners.pause(&self.epoll, now);
        }
        self.listeners.resume(&self.epoll, now)
    }

    /// Does what the engine was told to do. Returns whether that is all.
    fn obey(&mut self) -> bool {
        if self.shared.orders.is_given(Order::Abort) {
            return true;
        }
        if self.closing.is_none() && self.shared.orders.is_given(Order::StopAccepting) {
            self.closing = Some(0);
        }
        // Who waits in a queue would be reset by its close. It holds so many at most; more have
        // come since.
        while let Some(listener) = self.closing
            && self.asked.is_none()
        {
            if listener == self.listeners.count() {
                return true;
            }
            match self.accept_row(listener, BACKLOG_MAX) {
                Row::Enough if self.shared.is_full() => {}
                Row::Empty | Row::Enough => self.closing = Some(listener + 1),
                Row::NoRoom => return false,
            }
        }
        false
    }

    fn timeout_ms(&self) -> Option<u32> {
        if self.asked.is_some() {
            return None; // the answer comes with a call
        }
        timeout_ms(self.worker.now(), [self.listeners.next_look()])
    }
}
