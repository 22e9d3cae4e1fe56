//! Connections that are parked while they wait for their clients, and the threads that take on
//! those that are ready.
//!
//! A socket is watched for one event at a time (`EPOLLONESHOT`): that takes its connection into the
//! queue, and the thread that parks it again has it watched again. Nothing else decides whose turn
//! it is.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use os::epoll::{Epoll, Interest};
use os::socket::Readiness;
use session::Tick;

use crate::parts::kernel_threads::acceptor::Crew;
use crate::parts::kernel_threads::blocking::{Line, RECEIVE_BYTES};
use crate::parts::kernel_threads::registry::{Arrival, Registry};
use crate::parts::loops::wheel::Wheel;

/// What the threads of a pool are like, and its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParkingPlan {
    /// What the threads are called.
    pub(super) name: &'static str,
    pub(super) threads: usize,
    /// Connections that may wait for a thread before no more are accepted.
    pub(super) queue: usize,
    pub(super) stack_bytes: usize,
}

/// The pool of one partition, as its acceptor has it.
pub(super) struct ParkingPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    registry: Arc<Registry>,
    epoll: Arc<Epoll>,
    plan: ParkingPlan,
    state: Mutex<State>,
    /// Tells threads that a connection is ready, or that all is over.
    called: Condvar,
}

struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    wheel: Wheel,
    /// Ready connections, with their slots.
    queue: VecDeque<(u32, Parked)>,
    /// Threads that wait.
    waiting: usize,
    /// Whether the acceptor sleeps without looking at the wheel.
    is_wheel_unwatched: bool,
    is_over: bool,
}

/// A connection's slot, its own from its first byte to its close.
struct Slot {
    /// Tells it from earlier connections in the same slot.
    generation: u32,
    /// The connection while it is parked.
    parked: Option<Parked>,
    /// When its entry in the wheel comes up.
    scheduled: Tick,
}

/// A connection: parked, in the queue, or with a thread.
struct Parked {
    line: Line,
    arrival: Arrival,
}

/// No entry in the wheel.
const NEVER: Tick = Tick(u64::MAX);

impl ParkingPool {
    pub(super) fn new(registry: Arc<Registry>, epoll: &Arc<Epoll>, plan: ParkingPlan) -> Self {
        let state = State {
            slots: Vec::new(),
            free: Vec::new(),
            wheel: Wheel::new(Tick(os::clock::now())),
            queue: VecDeque::new(),
            waiting: 0,
            is_wheel_unwatched: false,
            is_over: false,
        };
        let (epoll, state) = (Arc::clone(epoll), Mutex::new(state));
        let shared = Shared { registry, epoll, plan, state, called: Condvar::new() };
        Self { shared: Arc::new(shared), threads: Vec::new() }
    }
}

impl Crew for ParkingPool {
    fn begin(&mut self) -> io::Result<()> {
        for index in 0..self.shared.plan.threads {
            let shared = Arc::clone(&self.shared);
            let thread = Builder::new()
                .name(format!("{}-{index}", shared.plan.name))
                .stack_size(shared.plan.stack_bytes)
                .spawn(move || shared.work())?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// A new connection waits for its first bytes, as any other for its next ones. Mostly they have
    /// come with it: then it never rests, and nobody may close it to make room.
    fn dispatch(&mut self, arrival: Arrival) -> bool {
        let shared = &self.shared;
        let line = Line::new(&shared.registry, &arrival, true);
        arrival.entry.rest(Tick(os::clock::now()));
        let is_ready = os::socket::wait_ready(arrival.entry.socket(), Readiness::Readable, 0);
        let is_ready = is_ready.unwrap_or(false);
        let mut state = shared.lock();
        let slot = state.take_slot();
        let interest = if is_ready { Interest::NONE } else { Interest::READ };
        let interest = interest.with(Interest::ONCE);
        let watched = shared.epoll.add(arrival.entry.socket(), interest, state.key(slot));
        if watched.is_err() {
            state.free_slot(slot);
            drop(state);
            shared.registry.leave(arrival); // no memory for the watch
            return false;
        }
        shared.put(&mut state, slot, Parked { line, arrival });
        if is_ready {
            shared.call(&mut state, slot);
        }
        state.queue.len() <= shared.plan.queue
    }

    fn ready(&mut self, key: u64) {
        let mut state = self.shared.lock();
        if let Some(slot) = state.slot_of(key) {
            self.shared.call(&mut state, slot);
        }
    }

    fn look_after(&mut self, now: Tick) {
        let mut state = self.shared.lock();
        if state.wheel.next_look().is_none_or(|look| look > now) {
            return;
        }
        let mut due = Vec::new();
        state.wheel.take_due(now, &mut due);
        for (key, moment) in due {
            let Some(slot) = state.slot_of(key) else { continue };
            if state.slots[slot as usize].scheduled != moment {
                continue; // an entry that was replaced
            }
            state.slots[slot as usize].scheduled = NEVER;
            match state.deadline(slot) {
                Some(deadline) if deadline <= now => self.shared.call(&mut state, slot),
                Some(deadline) => state.schedule(slot, deadline),
                None => {} // it is with a thread, which parks it with its next deadline
            }
        }
    }

    fn next_look(&self, _: Tick) -> Option<Tick> {
        let mut state = self.shared.lock();
        let look = state.wheel.next_look();
        state.is_wheel_unwatched = look.is_none();
        look
    }

    fn is_idle(&self) -> bool {
        let state = self.shared.lock();
        state.free.len() == state.slots.len()
    }

    fn finish(&mut self) {
        {
            let mut state = self.shared.lock();
            state.is_over = true;
            // Who is parked was cut off, and its thread is to find that out.
            (0..state.slots.len() as u32).for_each(|slot| self.shared.call(&mut state, slot));
        }
        self.shared.called.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // panics over a connection are caught where it is driven
        }
        let unserved = std::mem::take(&mut self.shared.lock().queue);
        unserved.into_iter().for_each(|(slot, parked)| self.shared.end(slot, parked));
    }
}

impl Shared {
    /// What a thread does until all is over.
    fn work(&self) {
        let mut buffer = vec![0; RECEIVE_BYTES];
        while let Some((slot, mut parked)) = self.next() {
            match parked.line.drive(&self.registry, &parked.arrival.entry, &mut buffer) {
                Some(readiness) => self.park(slot, parked, readiness),
                None => self.end(slot, parked),
            }
        }
    }

    /// The next connection that is ready; none if all is over.
    fn next(&self) -> Option<(u32, Parked)> {
        let mut state = self.lock();
        loop {
            if let Some(ready) = state.queue.pop_front() {
                return Some(ready);
            }
            if state.is_over {
                return None;
            }
            state.waiting += 1;
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Puts a connection back and has its socket watched. From then on it may be somebody else's.
    fn park(&self, slot: u32, parked: Parked, readiness: Readiness) {
        let interest = match readiness {
            Readiness::Readable => Interest::READ,
            Readiness::Writable => Interest::WRITE,
        };
        let mut state = self.lock();
        if state.is_over {
            drop(state);
            return self.end(slot, parked); // nobody would look after it
        }
        let (socket, key) = (parked.arrival.entry.socket(), state.key(slot));
        let watched = self.epoll.modify(socket, interest.with(Interest::ONCE), key);
        debug_assert!(watched.is_ok(), "what is watched can be watched for something else");
        self.put(&mut state, slot, parked);
    }

    fn end(&self, slot: u32, parked: Parked) {
        self.registry.leave(parked.arrival);
        let mut state = self.lock();
        state.free_slot(slot);
        let is_last = state.free.len() == state.slots.len();
        drop(state);
        if is_last && (self.registry.is_draining() || self.registry.is_aborting()) {
            self.registry.wake();
        }
    }

    fn put(&self, state: &mut State, slot: u32, parked: Parked) {
        let deadline = parked.line.deadline();
        state.slots[slot as usize].parked = Some(parked);
        if let Some(deadline) = deadline {
            state.schedule(slot, deadline);
        }
        if std::mem::take(&mut state.is_wheel_unwatched) {
            self.registry.wake();
        }
    }

    /// Hands a parked connection to a thread. It rests no longer: whether it was closed before
    /// that, its thread will find out.
    fn call(&self, state: &mut State, slot: u32) {
        let Some(parked) = state.slots[slot as usize].parked.take() else { return };
        let _ = parked.arrival.entry.resume();
        state.queue.push_back((slot, parked));
        if state.waiting > 0 {
            self.called.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, parked: None, scheduled: NEVER });
            // Descriptors are 31-bit numbers, so slots are fewer.
            (self.slots.len() - 1) as u32
        })
    }

    /// Gives a slot up in which nothing is parked.
    fn free_slot(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        // The last generation is left out: keys of listeners and wake-ups begin there.
        slot.generation = (slot.generation + 1) % (u32::MAX - 1);
        slot.scheduled = NEVER;
        self.free.push(index);
    }

    fn key(&self, slot: u32) -> u64 {
        u64::from(self.slots[slot as usize].generation) << 32 | u64::from(slot)
    }

    /// The slot with that key, unless its connection has gone.
    fn slot_of(&self, key: u64) -> Option<u32> {
        let slot = self.slots.get(key as u32 as usize)?;
        (u64::from(slot.generation) == key >> 32).then_some(key as u32)
    }

    /// When a parked connection must be looked at.
    fn deadline(&self, slot: u32) -> Option<Tick> {
        self.slots[slot as usize].parked.as_ref()?.line.deadline()
    }

    /// Sees to it that the slot comes up when that has passed. Later deadlines cost nothing.
    fn schedule(&mut self, slot: u32, deadline: Tick) {
        if self.wheel.moment(deadline) < self.slots[slot as usize].scheduled {
            let key = self.key(slot);
            self.slots[slot as usize].scheduled = self.wheel.add(key, deadline);
        }
    }
}

#[cfg(test)]
mod tests;
