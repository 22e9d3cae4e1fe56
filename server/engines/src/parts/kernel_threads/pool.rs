//! Kernel threads that each serve one connection at a time: started on demand, or before, and kept.
//! The engine decides how a connection is served.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use os::limits::ThreadRoom;
use session::{Connection, Tick};

use super::acceptor::Pool;
use super::registry::{Arrival, Registry};
use crate::knobs::Knob;
use crate::lock::lock;

pub(crate) const STACK_KIB: Knob = Knob::number("stack_kib", 64..=65_536, 128)
    .about("KiB of address space for a thread's stack; memory is used as far as it is touched");

/// Serves one connection to its end, or until it is to go to another engine: then it is returned.
/// The buffer belongs to the thread.
pub(crate) type Serve = fn(&Registry, &mut Arrival, &mut [u8]) -> Option<Connection>;

/// The interval, in milliseconds, at which an idle connection that could yield its thread is looked
/// for while another waits for one.
const YIELD_CHECK_MS: u64 = 50;

/// The names, numbers and sizes of the threads of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolPlan {
    /// The first part of the names of the threads.
    pub(crate) name: &'static str,
    /// The number of threads that are started before there are connections; as many idle ones are
    /// kept.
    pub(crate) spare: usize,
    /// The number of threads at once, at most.
    pub(crate) threads_max: usize,
    /// How long an idle connection keeps its thread while another waits for one; none: until it
    /// ends, or is closed to make room for another.
    pub(crate) yields_after_ms: Option<u64>,
    pub(crate) stack_bytes: usize,
    pub(crate) buffer_bytes: usize,
    pub(crate) serve: Serve,
}

/// The threads of one partition.
pub(crate) struct ThreadPool {
    team: Arc<Team>,
    threads: HashMap<u64, JoinHandle<()>>,
    next_id: u64,
    room: ThreadRoom,
}

/// The state that the threads share.
struct Team {
    registry: Arc<Registry>,
    plan: PoolPlan,
    state: Mutex<State>,
    /// Notifies waiting threads that there is a connection, or that the pool ends.
    called: Condvar,
}

#[derive(Default)]
struct State {
    /// Connections that no thread has taken yet.
    queue: VecDeque<Arrival>,
    /// The number of threads that wait for a connection.
    waiting: usize,
    alive: usize,
    /// Threads that have ended and are to be joined.
    ended: Vec<u64>,
    is_over: bool,
}

impl ThreadPool {
    pub(crate) fn new(registry: Arc<Registry>, plan: PoolPlan) -> Self {
        let team = Team { registry, plan, state: Mutex::default(), called: Condvar::new() };
        Self {
            team: Arc::new(team),
            threads: HashMap::new(),
            next_id: 0,
            room: ThreadRoom::default(),
        }
    }

    fn spawn(&mut self) -> io::Result<()> {
        let (id, team) = (self.next_id, Arc::clone(&self.team));
        self.room.check()?;
        let plan = team.plan;
        self.next_id += 1;
        lock(&team.state).alive += 1;
        let thread = Builder::new()
            .name(format!("{}-{id}", plan.name))
            .stack_size(plan.stack_bytes)
            .spawn(move || team.work(id));
        match thread {
            Ok(thread) => {
                self.threads.insert(id, thread);
                Ok(())
            }
            Err(why) => {
                lock(&self.team.state).alive -= 1;
                Err(why)
            }
        }
    }
}

impl Pool for ThreadPool {
    fn begin(&mut self) -> io::Result<()> {
        let plan = self.team.plan;
        (0..plan.spare.min(plan.threads_max)).try_for_each(|_| self.spawn())
    }

    fn dispatch(&mut self, arrival: Arrival) -> bool {
        let mut state = lock(&self.team.state);
        state.queue.push_back(arrival);
        if state.queue.len() <= state.waiting {
            self.team.called.notify_one();
            return true;
        }
        // A connection that was closed to make room has its thread for a moment longer: that thread
        // takes this one next.
        let may_spawn = state.alive < self.team.plan.threads_max;
        drop(state);
        if !may_spawn || self.spawn().is_ok() {
            return true;
        }
        // The system has no thread left. An idle connection is closed to free its thread; the next
        // thread that is free takes the connection.
        self.team.registry.evict();
        let mut state = lock(&self.team.state);
        if state.alive == 0
            && let Some(arrival) = state.queue.pop_back()
        {
            drop(state);
            self.team.registry.leave(arrival);
        }
        false
    }

    fn maintain(&mut self, now: Tick) {
        let (ended, is_crowded) = {
            let mut state = lock(&self.team.state);
            (std::mem::take(&mut state.ended), state.queue.len() > state.waiting)
        };
        if is_crowded && let Some(ms) = self.team.plan.yields_after_ms {
            self.team.registry.evict_if_rested(now, ms);
        }
        for thread in ended.into_iter().filter_map(|id| self.threads.remove(&id)) {
            let _ = thread.join(); // panics are caught within
        }
    }

    fn next_check(&self, now: Tick) -> Option<Tick> {
        let state = lock(&self.team.state);
        let is_crowded = state.queue.len() > state.waiting;
        let may_yield = self.team.plan.yields_after_ms.is_some();
        (is_crowded && may_yield).then(|| now.plus_ms(YIELD_CHECK_MS))
    }

    fn is_idle(&self) -> bool {
        let state = lock(&self.team.state);
        state.queue.is_empty() && state.alive == state.waiting
    }

    fn finish(&mut self) {
        lock(&self.team.state).is_over = true;
        self.team.called.notify_all();
        for (_, thread) in self.threads.drain() {
            let _ = thread.join(); // panics are caught within
        }
        // None is left if there was a thread: threads take all queued connections before they end.
        let unserved = std::mem::take(&mut lock(&self.team.state).queue);
        unserved.into_iter().for_each(|arrival| self.team.registry.leave(arrival));
    }
}

impl Team {
    /// Serves connections until the thread is not needed any more.
    fn work(&self, id: u64) {
        let mut buffer = vec![0; self.plan.buffer_bytes];
        while let Some(arrival) = self.next(id) {
            let mut left = Some(arrival);
            while let Some(arrival) = left {
                left = self.serve(arrival, &mut buffer);
            }
        }
    }

    /// Serves a connection to its end, or until it has gone to another engine. Returns it if no
    /// engine takes it.
    fn serve(&self, mut arrival: Arrival, buffer: &mut [u8]) -> Option<Arrival> {
        arrival.entry.is_waited_for_here();
        let serve = || (self.plan.serve)(&self.registry, &mut arrival, buffer);
        // A panic concerns this connection only; it has been printed.
        match catch_unwind(AssertUnwindSafe(serve)) {
            Ok(Some(connection)) => self.registry.give(arrival, connection),
            _ => {
                self.registry.leave(arrival);
                None
            }
        }
    }

    /// The next connection; none if the thread is to end.
    fn next(&self, id: u64) -> Option<Arrival> {
        let mut state = lock(&self.state);
        loop {
            if let Some(arrival) = state.queue.pop_front() {
                return Some(arrival);
            }
            if state.is_over || state.waiting >= self.plan.spare {
                state.alive -= 1;
                state.ended.push(id);
                self.notify_if_ending(&state);
                return None;
            }
            state.waiting += 1;
            self.notify_if_ending(&state);
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Wakes the acceptor after the last connection if the engine is ending: the acceptor waits for
    /// that.
    fn notify_if_ending(&self, state: &State) {
        if self.registry.is_ending() && state.alive == state.waiting {
            self.registry.wake();
        }
    }
}

#[cfg(test)]
mod tests;
