//! Kernel threads that each serve one connection at a time: started when they are needed, or before
//! and kept. How a connection is served is the engine's.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use os::limits::ThreadRoom;
use session::Tick;

use super::acceptor::Pool;
use super::registry::{Arrival, Registry};
use crate::knobs::Knob;
use crate::lock::lock;

pub(crate) const STACK_KIB: Knob = Knob::number("stack_kib", 64..=65_536, 128)
    .about("KiB of address space for a thread's stack; memory is used as far as it is touched");

/// Serves one connection to its end. The buffer is the thread's.
pub(crate) type Serve = fn(&Registry, &Arrival, &mut [u8]);

/// How often those that could yield are looked for while somebody waits.
const LOOK_MS: u64 = 50;

/// The names, numbers and sizes of the threads of a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolPlan {
    /// What its threads are called.
    pub(crate) name: &'static str,
    /// Threads that are started before there are connections, and as many are kept waiting for
    /// more.
    pub(crate) spare: usize,
    /// Threads there may be at once.
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

/// What the threads share.
struct Team {
    registry: Arc<Registry>,
    plan: PoolPlan,
    state: Mutex<State>,
    /// Tells threads that wait that there is a connection, or that all is over.
    called: Condvar,
}

#[derive(Default)]
struct State {
    /// Connections that no thread has taken yet.
    queue: VecDeque<Arrival>,
    /// Threads that wait for one.
    waiting: usize,
    alive: usize,
    /// Threads that need only be joined.
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
        // Who was closed to make room has its thread for a moment longer: it takes this one.
        let may_spawn = state.alive < self.team.plan.threads_max;
        drop(state);
        if !may_spawn || self.spawn().is_ok() {
            return true;
        }
        // The system has no thread to give. Whoever rests gives up its own; the next thread that is
        // free takes the connection.
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

    fn look_after(&mut self, now: Tick) {
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

    fn next_look(&self, now: Tick) -> Option<Tick> {
        let state = lock(&self.team.state);
        let is_crowded = state.queue.len() > state.waiting;
        (is_crowded && self.team.plan.yields_after_ms.is_some()).then(|| now.plus_ms(LOOK_MS))
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
        // Nobody, if there was a thread: threads take all that wait before they end.
        let unserved = std::mem::take(&mut lock(&self.team.state).queue);
        unserved.into_iter().for_each(|arrival| self.team.registry.leave(arrival));
    }
}

impl Team {
    /// What a thread does until it is not needed any more.
    fn work(&self, id: u64) {
        let mut buffer = vec![0; self.plan.buffer_bytes];
        while let Some(arrival) = self.next(id) {
            let serve = || (self.plan.serve)(&self.registry, &arrival, &mut buffer);
            // What is broken is this connection; the panic has been printed.
            let _ = catch_unwind(AssertUnwindSafe(serve));
            self.registry.leave(arrival);
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
                self.tell_the_end(&state);
                return None;
            }
            state.waiting += 1;
            self.tell_the_end(&state);
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// When the engine ends, the acceptor waits for the last connection.
    fn tell_the_end(&self, state: &State) {
        let is_ending = self.registry.is_draining() || self.registry.is_aborting();
        if is_ending && state.alive == state.waiting {
            self.registry.wake();
        }
    }
}

#[cfg(test)]
mod tests;
