//! The applications of a partition whose threads have one client each: the connections that are
//! kept for the next request, and the bounds that hold for all these threads together.
//!
//! Kept connections belong to no thread: of a hundred threads each would keep one, and a server
//! such as php-fpm serves one connection with each of its processes. They are not watched, and are
//! looked at before they are used.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use session::Tick;
use upstream::{Application, Balance, Failure};

use super::joint::Line;
use crate::lock::lock;

/// How often a thread whose request waits for another to be over looks after its client.
const LOOK: Duration = Duration::from_millis(100);

/// All applications of a partition.
pub(crate) struct CallPool {
    usages: Vec<Usage>,
    /// How many threads one application may have: half of them, so that requests for files never
    /// wait for an application.
    threads_max: u64,
    /// Whether somebody knows when [`CallPool::close_idle`] is to be called.
    is_watched: AtomicBool,
}

struct Usage {
    application: Arc<Application>,
    state: Mutex<State>,
    /// Notified when a call is over.
    is_over: Condvar,
}

struct State {
    balance: Balance,
    /// Kept connections of each server; the last used is first used again.
    idle: Vec<Vec<Kept>>,
    in_flight: u64,
    waiting: u64,
}

struct Kept {
    line: Line,
    until: Tick,
}

/// The place of a call among those of its application, until it is dropped.
pub(crate) struct Place<'p>(&'p Usage);

impl CallPool {
    /// The applications as `threads` threads use them.
    pub(crate) fn new(applications: &[Arc<Application>], threads: usize) -> Self {
        let usage = |application: &Arc<Application>| {
            let servers = &application.settings().servers;
            let state = State {
                balance: Balance::new(servers.iter().map(|server| server.weight)),
                idle: servers.iter().map(|_| Vec::new()).collect(),
                in_flight: 0,
                waiting: 0,
            };
            let (state, is_over) = (Mutex::new(state), Condvar::new());
            Usage { application: Arc::clone(application), state, is_over }
        };
        let threads_max = (threads as u64 / 2).max(1);
        Self {
            usages: applications.iter().map(usage).collect(),
            threads_max,
            is_watched: AtomicBool::new(false),
        }
    }

    /// Gets a place for a call, and waits for one if it must. Meanwhile it looks after the client
    /// with `is_wanted` from time to time.
    pub(crate) fn admit(
        &self,
        application: usize,
        mut is_wanted: impl FnMut() -> bool,
    ) -> Result<Place<'_>, Failure> {
        let usage = &self.usages[application];
        let limits = usage.application.limits();
        let mut state = lock(&usage.state);
        let until = os::clock::now() + limits.queue_ms * 1000;
        let is_full = state.waiting >= limits.queue_max && state.in_flight >= limits.in_flight_max;
        if is_full || state.in_flight + state.waiting >= self.threads_max {
            return Err(Failure::Full);
        }
        state.waiting += 1;
        while state.in_flight >= limits.in_flight_max && os::clock::now() < until {
            let waited = usage.is_over.wait_timeout(state, LOOK);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            let is_wanted = is_wanted();
            state = lock(&usage.state);
            if !is_wanted {
                break;
            }
        }
        state.waiting -= 1;
        if state.in_flight >= limits.in_flight_max {
            return Err(Failure::Queued);
        }
        state.in_flight += 1;
        Ok(Place(usage))
    }

    /// Chooses a server for a call, and takes a connection to it that was kept, if there is one.
    pub(crate) fn choose(&self, application: usize, now: Tick) -> Option<(usize, Option<Line>)> {
        let mut state = lock(&self.usages[application].state);
        let server = state.balance.choose(now, |_| true)?;
        while let Some(mut kept) = state.idle[server].pop() {
            if kept.until > now && !kept.line.is_unsound() {
                return Some((server, Some(kept.line)));
            }
        }
        Some((server, None))
    }

    /// Keeps a connection for the next call. Returns whether [`CallPool::close_idle`] has to be
    /// called, since nobody knows yet that something is kept.
    #[must_use]
    pub(crate) fn keep(&self, application: usize, server: usize, line: Line, now: Tick) -> bool {
        let usage = &self.usages[application];
        let until = now.plus_ms(usage.application.limits().idle_ms);
        lock(&usage.state).idle[server].push(Kept { line, until });
        !self.is_watched.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn note_failure(&self, application: usize, server: usize, now: Tick) {
        lock(&self.usages[application].state).balance.note_failure(server, now);
    }

    pub(crate) fn note_success(&self, application: usize, server: usize) {
        lock(&self.usages[application].state).balance.note_success(server);
    }

    /// Closes the connections that no call has used in time. Returns when it is to be called again;
    /// none if nothing is kept.
    pub(crate) fn close_idle(&self, now: Tick) -> Option<Tick> {
        self.is_watched.store(false, Ordering::Release); // before the search: none is missed
        let next = self.usages.iter().filter_map(|usage| usage.close_idle(now)).min();
        if next.is_some() {
            self.is_watched.store(true, Ordering::Release);
        }
        next
    }
}

impl Usage {
    fn close_idle(&self, now: Tick) -> Option<Tick> {
        let mut state = lock(&self.state);
        state.idle.iter_mut().for_each(|idle| idle.retain(|kept| kept.until > now));
        state.idle.iter().flatten().map(|kept| kept.until).min()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).in_flight -= 1;
        self.0.is_over.notify_one();
    }
}
