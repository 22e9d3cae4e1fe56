//! Work of a loop that may block: done by helpers, or on the spot while all connections of the loop
//! wait. The loop hands the work to helpers, goes on with other connections, and with this one when
//! the work is back. How long that may take, and what else may happen to the connection meanwhile,
//! is the loop's business.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use session::{Connection, Op, Worker};

use super::helpers::{Help, Outcome, Work, answer, answer_at_once, next_work, run_on_the_spot};
use crate::jobs::Runner;
use crate::parts::loops::connections::{Connections, Slot};
use crate::parts::loops::drive::Begun;

/// Work that may block: the helpers that do it, and the connections that wait for it.
pub(crate) struct BlockingWork {
    runner: Arc<Runner>,
    helpers: Option<Box<dyn Help>>,
    /// Connections with work that the helpers have no room for now: each connection at most once.
    line: VecDeque<u64>,
    /// Bytes of a file that are fetched at once.
    fetched_bytes_max: u64,
}

impl BlockingWork {
    pub(crate) fn new(
        runner: Arc<Runner>,
        helpers: Option<Box<dyn Help>>,
        fetched_bytes_max: u64,
    ) -> Self {
        Self { runner, helpers, line: VecDeque::new(), fetched_bytes_max }
    }

    /// What runs the jobs, and reports to operators.
    pub(crate) fn runner(&self) -> &Runner {
        &self.runner
    }

    /// Whether there are helpers.
    pub(crate) fn has_helpers(&self) -> bool {
        self.helpers.is_some()
    }

    /// The descriptor that is readable when work is back.
    pub(crate) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.helpers.as_ref().map(|helpers| helpers.as_fd())
    }

    /// Whether a connection that is queued waits in line, and not for its turn with the loop.
    pub(crate) fn is_in_line<S>(&self, slot: &Slot<S>) -> bool {
        self.has_helpers() && (wants_job(&slot.connection) || slot.ready.is_fetching)
    }

    /// Takes a connection out of the line. Returns whether it was there.
    #[inline]
    pub(crate) fn forget<S>(&mut self, key: u64, slot: &mut Slot<S>) -> bool {
        slot.is_queued && self.leave_line(key, slot)
    }

    /// Connections mostly leave in the order in which they came: the search is short.
    #[cold]
    #[inline(never)]
    fn leave_line<S>(&mut self, key: u64, slot: &mut Slot<S>) -> bool {
        let place = self.line.iter().position(|waiting| *waiting == key);
        let was_there = place.and_then(|place| self.line.remove(place)).is_some();
        if was_there {
            (slot.is_queued, slot.ready.is_fetching) = (false, false);
        }
        was_there
    }

    /// Hands the work that a connection wants to the helpers: its job, or the fetch of the next
    /// bytes of its file. If the helpers have no room the connection sends what it has, or waits in
    /// line, where nothing of its file is sent.
    fn hand_out<S>(&mut self, key: u64, slot: &mut Slot<S>, worker: &Worker) -> Begun {
        if !self.has_room() {
            if slot.connection.put_off() {
                return Begun::Out;
            }
            if !std::mem::replace(&mut slot.is_queued, true) {
                slot.ready.is_fetching = !wants_job(&slot.connection);
                self.line.push_back(key);
            }
            return Begun::Away;
        }
        self.forget(key, slot); // the loop may have gone on with it out of its turn
        let work = next_work(&mut slot.connection, self.fetched_bytes_max);
        work.count(&worker.counters);
        slot.ready.is_fetching = matches!(work, Work::Fetch { .. });
        let handed = self.helpers.as_mut().map(|helpers| helpers.hand_out(key, work));
        debug_assert!(matches!(handed, Some(Ok(()))), "there was room");
        Begun::Out
    }

    /// Takes the first connection in line, if there is room for its work.
    fn next_in_line(&mut self) -> Option<u64> {
        if self.has_room() { self.line.pop_front() } else { None }
    }

    fn has_room(&self) -> bool {
        self.helpers.as_ref().is_some_and(|helpers| helpers.has_room())
    }
}

/// Whether a connection wants a job, or the rest of one, and not the bytes of a file.
fn wants_job(connection: &Connection) -> bool {
    matches!(connection.next(), Op::Job | Op::Stream(_))
}

/// A loop that has work done that may block.
pub(crate) trait Offload {
    type Socket;

    /// The work, the connections that it is done for, and the worker that answers them.
    fn parts(&mut self) -> (&mut BlockingWork, &mut Connections<Slot<Self::Socket>>, &mut Worker);

    /// Closes the idle connection that has rested longest. Returns whether there was one.
    fn evict(&mut self) -> bool;

    /// Goes on with a connection. `is_fetched` tells whether the next bytes of its file were
    /// fetched.
    fn go_on(&mut self, key: u64, is_fetched: bool);

    /// Begins the job that a connection wants.
    fn begin_job(&mut self, key: u64) -> Begun {
        let (work, connections, worker) = self.parts();
        let Some(slot) = connections.get(key) else { return Begun::Away };
        if !work.has_helpers() {
            if run_on_the_spot(&mut slot.connection, worker, &work.runner) {
                self.evict();
            }
            return Begun::Done;
        }
        match answer_at_once(&mut slot.connection, worker, &work.runner) {
            true => Begun::Done,
            false => work.hand_out(key, slot, worker),
        }
    }

    /// Begins to fetch the next bytes of a file, if there are helpers to do so.
    fn begin_fetch(&mut self, key: u64) -> Begun {
        let (work, connections, worker) = self.parts();
        match connections.get(key) {
            Some(slot) if work.has_helpers() => work.hand_out(key, slot, worker),
            _ => Begun::Done,
        }
    }

    /// Goes on with the connections whose work is back, and then with those that waited for room.
    fn take_back(&mut self) {
        let helpers = self.parts().0.helpers.as_mut();
        for returned in helpers.map(|helpers| helpers.take_back()).unwrap_or_default() {
            let (_, connections, worker) = self.parts();
            // A connection that was closed meanwhile has no slot any more.
            let Some(slot) = connections.get(returned.key) else { continue };
            let mut is_fetched = false;
            match returned.outcome {
                Outcome::Done(id, done) => {
                    if answer(&mut slot.connection, worker, id, done) {
                        self.evict();
                    }
                }
                Outcome::Fetched => {
                    slot.ready.is_fetching = false;
                    is_fetched = true;
                }
            }
            self.go_on(returned.key, is_fetched);
        }
        while let Some(key) = self.parts().0.next_in_line() {
            if let Some(slot) = self.parts().1.get(key) {
                (slot.is_queued, slot.ready.is_fetching) = (false, false);
                self.go_on(key, false);
            }
        }
    }
}

#[cfg(test)]
mod tests;
