//! What a loop with helpers does with work that may block: hands it out, goes on with others, and
//! goes on with the connection when the work is back.
//!
//! Until then nothing happens to the connection. If its time runs out meanwhile, its socket is shut
//! down and nothing more: it is closed when the work is back, so that what is out is bounded by who
//! is connected, and no descriptor gets a new meaning while somebody works for the old.

use std::os::fd::AsFd;

use super::Reactor;
use crate::parts::disk::helpers::{Outcome, answer, answer_at_once, next_work, refuse};
use crate::parts::loops::step::Turn;

impl Reactor {
    /// Whether a job was answered that would have been handed out, had it had to wait for anything.
    pub(super) fn is_answered_at_once(&mut self, key: u64) -> bool {
        self.connections.get(key).is_some_and(|slot| {
            answer_at_once(&mut slot.connection, &mut self.worker, &self.runner)
        })
    }

    /// Gives what a connection wants to the helpers. If they have no room it waits in a line, which
    /// is not longer than there are connections.
    pub(super) fn hand_out(&mut self, key: u64) {
        let (Some(helpers), Some(slot)) = (&mut self.helpers, self.connections.get(key)) else {
            return;
        };
        self.watch.rest(slot);
        if !helpers.has_room() {
            if !std::mem::replace(&mut slot.is_queued, true) {
                self.parked.push_back(key);
            }
            return self.connections.schedule(key);
        }
        let work = next_work(&mut slot.connection, self.file_chunk_bytes);
        work.count(&self.worker.counters);
        slot.is_out = helpers.hand_out(key, work).is_ok(); // it is: there was room
        self.connections.schedule(key);
    }

    /// Goes on with the connections whose work is back, and then with those that waited for room.
    pub(super) fn take_back(&mut self) {
        let Some(helpers) = &mut self.helpers else { return };
        for returned in helpers.take_back() {
            let key = returned.key;
            // Of a connection that was cut off meanwhile there is nothing left.
            let Some(slot) = self.connections.get(key) else { continue };
            slot.is_out = false;
            let mut turn = Turn::new(self.file_chunk_bytes, self.sendfile);
            match returned.outcome {
                Outcome::Done(id, done) => {
                    if answer(&mut slot.connection, &mut self.worker, id, done) {
                        self.evict();
                    }
                }
                Outcome::Fetched => turn.is_fetched = true,
            }
            self.drive_with(key, turn);
        }
        while self.helpers.as_ref().is_some_and(|helpers| helpers.has_room())
            && let Some(key) = self.parked.pop_front()
        {
            if let Some(slot) = self.connections.get(key) {
                slot.is_queued = false;
                self.drive(key);
            }
        }
    }

    /// What a deadline means to a connection that waits for helpers; false if it does not.
    pub(super) fn expire_with_helpers(&mut self, key: u64) -> bool {
        if self.helpers.is_none() {
            return false;
        }
        let Some(slot) = self.connections.get(key) else { return false };
        if slot.is_out {
            slot.connection.expire(&mut self.worker);
            let _ = os::socket::shutdown_write(slot.socket.as_fd()); // fails if the peer has gone
            return true;
        }
        // A job for which there was no room in all this time: its client is told to try again.
        let is_refused = slot.is_queued && refuse(&mut slot.connection, &mut self.worker);
        if is_refused {
            slot.is_queued = false;
            self.drive(key);
        }
        is_refused
    }
}
