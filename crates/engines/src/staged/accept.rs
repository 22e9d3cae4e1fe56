//! The first stage: accepting. It waits for its listeners only; what it accepts goes to the
//! read-poll stage in batches.
//!
//! It has no connections of its own, so it cannot make room: when there is none it asks the
//! read-poll stage, where those that rest are, and waits for the answer.

use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use os::epoll::{Epoll, EventBuffer, Interest};
use session::{Connection, Tick, Worker};

use super::client::{BoxedClient, Client};
use super::controllers::TokenBucket;
use super::pipeline::Pipeline;
use crate::engine::WorkerStart;
use crate::orders::Order;
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::accept::admission::{Admission, LastRows, Room, Shortage, accept_row};
use crate::parts::accept::listeners::{LISTENER_KEYS, Listeners, WAKE_KEY};
use crate::parts::loops::clock::{read_clock, timeout_ms};
use crate::parts::loops::{Loop, LoopContext, Shared};

/// The key of the wake-up calls of the stages.
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
    /// What the admission controller lets it have.
    bucket: TokenBucket,
    /// What it waits to hear from the read-poll stage.
    asked: Option<Shortage>,
    /// What is still to be accepted before the listeners are closed.
    closing: Option<LastRows>,
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

    /// Answers a wake-up call, of other loops or for orders, which are looked at anyway.
    fn listen(&mut self) {
        self.worker.do_housekeeping();
        if self.shared.is_room_wanted(self.index) {
            self.pipeline.ask_for_another();
        }
    }

    fn accept(&mut self, listener: usize) {
        // One event of several: the answer to what was asked for the first may come.
        if self.asked.is_none() {
            accept_row(self, listener, self.accepts_per_wake);
        }
    }

    /// Asks for room. Meanwhile the kernel's queue holds who comes.
    fn ask(&mut self, shortage: Shortage) {
        self.asked = Some(shortage);
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
            // Before the end nobody waits for room: it would come again and again.
            self.closing.iter_mut().for_each(LastRows::give_up);
            self.give_up(asked);
        }
        self.listeners.resume(&self.epoll, now)
    }

    /// Does what the engine was told to do. Returns whether that is all.
    fn obey(&mut self) -> bool {
        if self.shared.orders.is_given(Order::Abort) {
            return true;
        }
        if self.closing.is_none() && self.shared.orders.is_given(Order::StopAccepting) {
            self.closing = Some(LastRows::default());
        }
        let Some(mut last) = self.closing.filter(|_| self.asked.is_none()) else { return false };
        let is_over = last.take(self, self.listeners.count());
        self.closing = Some(last);
        is_over
    }

    fn timeout_ms(&self) -> Option<u32> {
        if self.asked.is_some() {
            return None; // the answer comes with a call
        }
        timeout_ms(self.worker.now(), [self.listeners.next_look()])
    }
}

impl Admission for Accept {
    fn is_full(&self) -> bool {
        self.shared.is_full()
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        &mut self.listeners
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

    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) -> bool {
        self.bucket.spend();
        self.worker.counters.connections_accepted.add(1);
        let connection = Connection::new(&self.worker, peer);
        self.accepted.push(Box::new(Client::new(connection, socket, &self.shared)));
        true
    }

    /// The idle connections are in another stage, which is asked.
    fn make_room(&mut self, shortage: Shortage) -> Room {
        self.ask(shortage);
        Room::Begun
    }

    fn ask_others(&mut self) {
        self.shared.ask_for_room(self.index);
    }

    fn pause(&mut self) {
        self.worker.counters.accept_pauses.add(1);
        self.listeners.pause(&self.epoll, self.worker.now());
    }
}
