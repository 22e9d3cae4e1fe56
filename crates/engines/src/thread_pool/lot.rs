//! The lot: where connections are parked while they wait for their clients, and the threads that
//! take on those that are ready.
//!
//! A socket is watched once at a time: an event takes its connection out of the lot and into the
//! queue, and the thread that parks it again has it watched again. Nothing else decides whose turn
//! it is.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use os::epoll::{Epoll, Interest};
use os::socket::Readiness;
use session::Tick;

use crate::parts::acceptor::Crew;
use crate::parts::blocking::{Line, RECEIVE_BYTES};
use crate::parts::house::{Arrival, House};
use crate::parts::wheel::Wheel;

/// What a lot and its threads are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct LotPlan {
    /// What the threads are called.
    pub(super) name: &'static str,
    pub(super) threads: usize,
    /// Connections that may wait for a thread before no more are accepted.
    pub(super) queue: usize,
    pub(super) stack_bytes: usize,
}

/// The lot of one partition, as its acceptor has it.
pub(super) struct Lot {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    house: Arc<House>,
    epoll: Arc<Epoll>,
    plan: LotPlan,
    state: Mutex<State>,
    /// Tells threads that a connection is ready, or that all is over.
    called: Condvar,
}

struct State {
    places: Vec<Place>,
    free: Vec<u32>,
    wheel: Wheel,
    /// Ready connections, with their places.
    queue: VecDeque<(u32, Car)>,
    /// Threads that wait.
    waiting: usize,
    /// Whether the acceptor sleeps without looking at the wheel.
    is_wheel_unwatched: bool,
    is_over: bool,
}

/// A connection's place, its own from its first byte to its close.
struct Place {
    /// Tells it from earlier connections in the same place.
    generation: u32,
    /// The connection while it is parked.
    car: Option<Car>,
    /// When its entry in the wheel comes up.
    scheduled: Tick,
}

/// A connection.
struct Car {
    line: Line,
    arrival: Arrival,
}

/// No entry in the wheel.
const NEVER: Tick = Tick(u64::MAX);

impl Lot {
    pub(super) fn new(house: Arc<House>, epoll: &Arc<Epoll>, plan: LotPlan) -> Self {
        let state = State {
            places: Vec::new(),
            free: Vec::new(),
            wheel: Wheel::new(Tick(os::clock::now())),
            queue: VecDeque::new(),
            waiting: 0,
            is_wheel_unwatched: false,
            is_over: false,
        };
        let (epoll, state) = (Arc::clone(epoll), Mutex::new(state));
        let shared = Shared { house, epoll, plan, state, called: Condvar::new() };
        Self { shared: Arc::new(shared), threads: Vec::new() }
    }
}

impl Crew for Lot {
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
        let line = Line::new(&shared.house, &arrival, true);
        arrival.guest.rest(Tick(os::clock::now()));
        let is_ready = os::socket::wait_ready(arrival.guest.socket(), Readiness::Readable, 0);
        let is_ready = is_ready.unwrap_or(false);
        let mut state = shared.lock();
        let place = state.take_place();
        let interest = if is_ready { Interest::NONE } else { Interest::READ };
        let interest = interest.with(Interest::ONCE);
        let watched = shared.epoll.add(arrival.guest.socket(), interest, state.key(place));
        if watched.is_err() {
            state.leave_place(place);
            drop(state);
            shared.house.leave(arrival); // no memory for the watch
            return false;
        }
        shared.put(&mut state, place, Car { line, arrival });
        if is_ready {
            shared.call(&mut state, place);
        }
        state.queue.len() <= shared.plan.queue
    }

    fn ready(&mut self, key: u64) {
        let mut state = self.shared.lock();
        if let Some(place) = state.place_of(key) {
            self.shared.call(&mut state, place);
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
            let Some(place) = state.place_of(key) else { continue };
            if state.places[place as usize].scheduled != moment {
                continue; // an entry that was replaced
            }
            state.places[place as usize].scheduled = NEVER;
            match state.deadline(place) {
                Some(deadline) if deadline <= now => self.shared.call(&mut state, place),
                Some(deadline) => state.schedule(place, deadline),
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
        state.free.len() == state.places.len()
    }

    fn finish(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.called.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // panics over a connection are caught where it is driven
        }
    }
}

impl Shared {
    /// What a thread does until all is over.
    fn work(&self) {
        let mut buffer = vec![0; RECEIVE_BYTES];
        while let Some((place, mut car)) = self.next() {
            match car.line.drive(&self.house, &car.arrival.guest, &mut buffer) {
                Some(readiness) => self.park(place, car, readiness),
                None => self.end(place, car),
            }
        }
    }

    /// The next connection that is ready; none if all is over.
    fn next(&self) -> Option<(u32, Car)> {
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
    fn park(&self, place: u32, car: Car, readiness: Readiness) {
        let interest = match readiness {
            Readiness::Readable => Interest::READ,
            Readiness::Writable => Interest::WRITE,
        };
        let mut state = self.lock();
        let (socket, key) = (car.arrival.guest.socket(), state.key(place));
        let watched = self.epoll.modify(socket, interest.with(Interest::ONCE), key);
        debug_assert!(watched.is_ok(), "what is watched can be watched for something else");
        self.put(&mut state, place, car);
    }

    fn end(&self, place: u32, car: Car) {
        self.house.leave(car.arrival);
        let mut state = self.lock();
        state.leave_place(place);
        let is_last = state.free.len() == state.places.len();
        drop(state);
        if is_last && (self.house.is_draining() || self.house.is_aborting()) {
            self.house.wake();
        }
    }

    fn put(&self, state: &mut State, place: u32, car: Car) {
        let deadline = car.line.deadline();
        state.places[place as usize].car = Some(car);
        if let Some(deadline) = deadline {
            state.schedule(place, deadline);
        }
        if std::mem::take(&mut state.is_wheel_unwatched) {
            self.house.wake();
        }
    }

    /// Hands a parked connection to a thread. It rests no longer: whether it was closed before
    /// that, its thread will find out.
    fn call(&self, state: &mut State, place: u32) {
        let Some(car) = state.places[place as usize].car.take() else { return };
        let _ = car.arrival.guest.resume();
        state.queue.push_back((place, car));
        if state.waiting > 0 {
            self.called.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { generation: 0, car: None, scheduled: NEVER });
            // Descriptors are 31-bit numbers, so places are fewer.
            (self.places.len() - 1) as u32
        })
    }

    /// Gives a place up in which nothing is parked.
    fn leave_place(&mut self, index: u32) {
        let place = &mut self.places[index as usize];
        // The last generation is left out: keys of listeners and wake-ups begin there.
        place.generation = (place.generation + 1) % (u32::MAX - 1);
        place.scheduled = NEVER;
        self.free.push(index);
    }

    fn key(&self, place: u32) -> u64 {
        u64::from(self.places[place as usize].generation) << 32 | u64::from(place)
    }

    /// The place with that key, unless its connection has gone.
    fn place_of(&self, key: u64) -> Option<u32> {
        let place = self.places.get(key as u32 as usize)?;
        (u64::from(place.generation) == key >> 32).then_some(key as u32)
    }

    /// When a parked connection must be looked at.
    fn deadline(&self, place: u32) -> Option<Tick> {
        self.places[place as usize].car.as_ref()?.line.deadline()
    }

    /// Sees to it that the place comes up when that has passed. Later deadlines cost nothing.
    fn schedule(&mut self, place: u32, deadline: Tick) {
        if self.wheel.moment(deadline) < self.places[place as usize].scheduled {
            let key = self.key(place);
            self.places[place as usize].scheduled = self.wheel.add(key, deadline);
        }
    }
}

#[cfg(test)]
mod tests;
