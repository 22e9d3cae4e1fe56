//! Connections that are parked while they wait for their clients, and the threads that drive those
//! that are ready.
//!
//! A socket is watched for one event at a time (`EPOLLONESHOT`): that event puts its connection
//! into the queue, and the thread that parks the connection again has the socket watched again.
//! Nothing else decides which connection is next.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::thread::{Builder, JoinHandle};

use os::epoll::{Epoll, Event, Interest};
use os::socket::Readiness;
use session::Tick;

use crate::lock::lock;
use crate::parts::kernel_threads::acceptor::Pool;
use crate::parts::kernel_threads::blocking::{RECEIVE_BYTES, ServedConnection};
use crate::parts::kernel_threads::registry::{Arrival, Registry};
use crate::parts::loops::connections::{Connections, Timed};

/// The names, numbers and sizes of a pool's threads, and the length of its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParkingPlan {
    /// The first part of the names of the threads.
    pub(super) name: &'static str,
    pub(super) threads: usize,
    /// The number of connections that may wait for a thread before no more are accepted.
    pub(super) queue: usize,
    pub(super) stack_bytes: usize,
}

/// The pool of one partition, in the hands of its acceptor.
pub(super) struct ParkingPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    registry: Arc<Registry>,
    epoll: Arc<Epoll>,
    plan: ParkingPlan,
    state: Mutex<State>,
    /// Notifies threads that a connection is ready, or that the pool ends.
    called: Condvar,
}

struct State {
    /// A place for each connection, from its first byte to its close.
    places: Connections<Place>,
    /// Ready connections, with the keys of their places.
    queue: VecDeque<(u64, Parked)>,
    /// The number of threads that wait.
    waiting: usize,
    /// Whether the acceptor sleeps without a timeout for the wheel, which was empty.
    is_wheel_unwatched: bool,
    is_over: bool,
}

/// A connection's place: empty unless it is parked.
struct Place(Option<Parked>);

/// A connection: parked, in the queue, or with a thread.
struct Parked {
    served: ServedConnection,
    arrival: Arrival,
}

impl Timed for Place {
    /// The deadline of a parked connection. A connection that a thread has gets its next deadline
    /// when the thread parks it.
    fn deadline(&self) -> Option<Tick> {
        self.0.as_ref()?.served.deadline()
    }

    fn is_idle(&self) -> bool {
        self.0.as_ref().is_some_and(|parked| parked.served.is_idle())
    }
}

impl ParkingPool {
    pub(super) fn new(registry: Arc<Registry>, epoll: &Arc<Epoll>, plan: ParkingPlan) -> Self {
        let state = State {
            places: Connections::new(Tick(os::clock::now())),
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

impl Pool for ParkingPool {
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

    /// Parks a new connection, which waits for its first bytes as any other for its next ones.
    /// Mostly they have come with it: then it never rests, and may not be closed to make room.
    fn dispatch(&mut self, mut arrival: Arrival) -> bool {
        let shared = &self.shared;
        let mut served = ServedConnection::new(&shared.registry, &mut arrival, true);
        if served.is_idle() {
            arrival.entry.rest(Tick(os::clock::now()));
        }
        let has_input = os::socket::wait_ready(arrival.entry.socket(), Readiness::Readable, 0);
        let has_input = has_input.unwrap_or(false);
        if has_input {
            served.note_input();
        }
        // One that comes from another engine may have something else to do.
        let is_ready = has_input || !served.receives();
        let mut state = lock(&shared.state);
        let key = state.places.insert(Place(None));
        let interest = if is_ready { Interest::NONE } else { Interest::READ };
        let interest = interest.with(Interest::ONCE);
        let watched = shared.epoll.add(arrival.entry.socket(), interest, key);
        if watched.is_err() {
            state.places.remove(key);
            drop(state);
            shared.registry.leave(arrival); // no memory for the watch
            return false;
        }
        shared.put(&mut state, key, Parked { served, arrival });
        if is_ready {
            shared.call(&mut state, key);
        }
        state.queue.len() <= shared.plan.queue
    }

    fn ready(&mut self, event: Event) {
        let mut state = lock(&self.shared.state);
        if let Some(Place(Some(parked))) = state.places.get(event.key) {
            parked.served.note(event);
        }
        self.shared.call(&mut state, event.key);
    }

    /// A thread takes each parked connection, and gives it away.
    fn leave(&mut self) {
        let mut state = lock(&self.shared.state);
        state.places.keys().into_iter().for_each(|key| self.shared.call(&mut state, key));
    }

    fn maintain(&mut self, now: Tick) {
        let mut state = lock(&self.shared.state);
        if state.places.next_check().is_some_and(|moment| moment <= now) {
            let expired = state.places.take_expired(now);
            expired.into_iter().for_each(|key| self.shared.call(&mut state, key));
        }
    }

    fn next_check(&self, _: Tick) -> Option<Tick> {
        let mut state = lock(&self.shared.state);
        let next = state.places.next_check();
        state.is_wheel_unwatched = next.is_none();
        next
    }

    fn is_idle(&self) -> bool {
        lock(&self.shared.state).places.len() == 0
    }

    fn finish(&mut self) {
        {
            let mut state = lock(&self.shared.state);
            state.is_over = true;
            // Parked connections were cut off. A thread takes each of them to find that out.
            state.places.keys().into_iter().for_each(|key| self.shared.call(&mut state, key));
        }
        self.shared.called.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // panics over a connection are caught where it is driven
        }
        let unserved = std::mem::take(&mut lock(&self.shared.state).queue);
        unserved.into_iter().for_each(|(key, parked)| self.shared.end(key, parked));
    }
}

impl Shared {
    /// Drives ready connections until the pool ends, for the whole life of a thread.
    fn work(self: &Arc<Self>) {
        let mut buffer = vec![0; RECEIVE_BYTES];
        while let Some((key, mut parked)) = self.next() {
            let waker = || Waker::from(Arc::new(PlaceWaker { key, shared: Arc::downgrade(self) }));
            let Parked { served, arrival } = &mut parked;
            match served.drive(&self.registry, &arrival.entry, &mut buffer, Some(&waker)) {
                Some(interest) => self.park(key, parked, interest),
                None => self.end(key, parked),
            }
        }
    }

    /// Waits for the next connection that is ready; none if the pool ends.
    fn next(&self) -> Option<(u64, Parked)> {
        let mut state = lock(&self.state);
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

    /// Parks a connection and has its socket watched. From then on another thread may take it.
    fn park(&self, key: u64, parked: Parked, interest: Interest) {
        if parked.served.leaves(&self.registry, &parked.arrival.entry) {
            return self.give(key, parked);
        }
        let mut state = lock(&self.state);
        if state.is_over {
            drop(state);
            return self.end(key, parked); // no thread would drive it any more
        }
        let socket = parked.arrival.entry.socket();
        let watched = self.epoll.modify(socket, interest.with(Interest::ONCE), key);
        debug_assert!(watched.is_ok(), "the watch of a watched socket can be changed");
        // Its call may have got a place just before the waker could find it here.
        let can_go_on = parked.served.can_go_on();
        self.put(&mut state, key, parked);
        if can_go_on {
            self.call(&mut state, key);
        }
    }

    /// Gives a connection to another engine. If that takes no more it is served on.
    #[cold]
    fn give(&self, key: u64, Parked { served, arrival }: Parked) {
        let _ = self.epoll.remove(arrival.entry.socket()); // it is in the set
        match self.registry.give(arrival, served.into_connection()) {
            None => self.vacate(key),
            Some(mut arrival) => {
                let served = ServedConnection::new(&self.registry, &mut arrival, true);
                if self.epoll.add(arrival.entry.socket(), Interest::ONCE, key).is_err() {
                    return self.end(key, Parked { served, arrival }); // no memory for the watch
                }
                let mut state = lock(&self.state);
                self.put(&mut state, key, Parked { served, arrival });
                self.call(&mut state, key);
            }
        }
    }

    fn end(&self, key: u64, parked: Parked) {
        self.registry.leave(parked.arrival);
        self.vacate(key);
    }

    /// Empties the place of a connection that has gone.
    fn vacate(&self, key: u64) {
        let mut state = lock(&self.state);
        state.places.remove(key);
        let is_last = state.places.len() == 0;
        drop(state);
        if is_last && self.registry.is_ending() {
            self.registry.wake();
        }
    }

    fn put(&self, state: &mut State, key: u64, parked: Parked) {
        let Some(place) = state.places.get(key) else { return };
        place.0 = Some(parked);
        state.places.schedule(key);
        if std::mem::take(&mut state.is_wheel_unwatched) {
            self.registry.wake();
        }
    }

    /// Hands a parked connection to a thread. It rests no longer: if it was closed before, its
    /// thread will find that out.
    fn call(&self, state: &mut State, key: u64) {
        let Some(parked) = state.places.get(key).and_then(|place| place.0.take()) else { return };
        let _ = parked.arrival.entry.resume();
        state.queue.push_back((key, parked));
        if state.waiting > 0 {
            self.called.notify_one();
        }
    }
}

/// Has a thread take a parked connection whose call has a place now.
struct PlaceWaker {
    key: u64,
    shared: Weak<Shared>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.shared.upgrade() {
            shared.call(&mut lock(&shared.state), self.key);
        }
    }
}

#[cfg(test)]
mod tests;
