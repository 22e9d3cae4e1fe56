//! What a loop has done that may block: by helpers, or on the spot while everybody waits. Helpers
//! are handed the work, the loop goes on with others, and with the connection when the work is
//! back.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use session::Worker;

use super::helpers::{Help, Returned, answer_at_once, next_work, run_on_the_spot};
use crate::jobs::Runner;
use crate::parts::loops::connections::Slot;

/// Who does it, and who waits for that.
pub(crate) struct BlockingWork {
    runner: Arc<Runner>,
    helpers: Option<Box<dyn Help>>,
    /// Connections with work for helpers that have no room for it now: not more than there are.
    line: VecDeque<u64>,
    /// Bytes of a file that are fetched at once.
    fetched_bytes_max: u64,
}

/// What has become of a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is done. If it lacked a descriptor, an idle connection is to be closed for the next one.
    Done {
        /// Whether it did.
        lacked_descriptor: bool,
    },
    /// A helper has it.
    Out,
    /// All helpers are busy: the connection is in line.
    InLine,
}

impl BlockingWork {
    pub(crate) fn new(
        runner: Arc<Runner>,
        helpers: Option<Box<dyn Help>>,
        fetched_bytes_max: u64,
    ) -> Self {
        Self { runner, helpers, line: VecDeque::new(), fetched_bytes_max }
    }

    /// Whether there are helpers.
    pub(crate) fn has_helpers(&self) -> bool {
        self.helpers.is_some()
    }

    /// What is readable when work is back.
    pub(crate) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.helpers.as_ref().map(|helpers| helpers.as_fd())
    }

    /// Has the job done that a connection wants.
    pub(crate) fn job<S>(&mut self, key: u64, slot: &mut Slot<S>, worker: &mut Worker) -> Begun {
        let connection = &mut slot.connection;
        if self.helpers.is_none() {
            let lacked_descriptor = run_on_the_spot(connection, worker, &self.runner);
            return Begun::Done { lacked_descriptor };
        }
        if answer_at_once(connection, worker, &self.runner) {
            return Begun::Done { lacked_descriptor: false };
        }
        self.hand_out(key, slot, worker)
    }

    /// Gives what a connection wants to the helpers: its job, or the next bytes of its file.
    pub(crate) fn hand_out<S>(&mut self, key: u64, slot: &mut Slot<S>, worker: &Worker) -> Begun {
        let Some(helpers) = self.helpers.as_mut().filter(|helpers| helpers.has_room()) else {
            if !std::mem::replace(&mut slot.is_queued, true) {
                self.line.push_back(key);
            }
            return Begun::InLine;
        };
        let work = next_work(&mut slot.connection, self.fetched_bytes_max);
        work.count(&worker.counters);
        let handed = helpers.hand_out(key, work);
        debug_assert!(handed.is_ok(), "there was room");
        Begun::Out
    }

    /// What has come back.
    pub(crate) fn take_back(&mut self) -> Vec<Returned> {
        self.helpers.as_mut().map(|helpers| helpers.take_back()).unwrap_or_default()
    }

    /// The first in line, if there is room for its work.
    pub(crate) fn next_in_line(&mut self) -> Option<u64> {
        let has_room = self.helpers.as_ref().is_some_and(|helpers| helpers.has_room());
        if has_room { self.line.pop_front() } else { None }
    }
}
