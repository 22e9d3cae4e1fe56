//! What a loop with helpers does with work that may block: hands it out, goes on with others, and
//! goes on with the connection when the work is back.
//!
//! Until then nothing happens to the connection. If its time runs out meanwhile, its socket is shut
//! down and nothing more: it is closed when the work is back, so that what is out is bounded by who
//! is connected, and no descriptor gets a new meaning while somebody works for the old.

use std::os::fd::AsFd;

use super::Reactor;
use crate::parts::disk::blocking_work::Begun;
use crate::parts::disk::helpers::{Outcome, answer, refuse};
use crate::parts::loops::step::Turn;

impl Reactor {
    /// Has the job done that a connection wants. Returns whether it is.
    pub(super) fn begin_job(&mut self, key: u64) -> bool {
        let Some(slot) = self.connections.get(key) else { return false };
        let begun = self.work.job(key, slot, &mut self.worker);
        match begun {
            Begun::Done { lacked_descriptor } => {
                if lacked_descriptor {
                    self.evict();
                }
                true
            }
            Begun::Out | Begun::InLine => {
                self.leave(key, begun);
                false
            }
        }
    }

    /// Has the next bytes of a file fetched. Returns whether somebody does.
    pub(super) fn begin_fetch(&mut self, key: u64) -> bool {
        let has_helpers = self.work.has_helpers();
        if has_helpers && let Some(slot) = self.connections.get(key) {
            let begun = self.work.hand_out(key, slot, &self.worker);
            self.leave(key, begun);
        }
        has_helpers
    }

    /// Leaves a connection to the helpers.
    fn leave(&mut self, key: u64, begun: Begun) {
        if let Some(slot) = self.connections.get(key) {
            slot.is_out = begun == Begun::Out;
            self.watch.rest(slot);
            self.connections.schedule(key);
        }
    }

    /// Goes on with the connections whose work is back, and then with those that waited for room.
    pub(super) fn take_back(&mut self) {
        for returned in self.work.take_back() {
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
        while let Some(key) = self.work.next_in_line() {
            if let Some(slot) = self.connections.get(key) {
                slot.is_queued = false;
                self.drive(key);
            }
        }
    }

    /// What a deadline means to a connection that waits for helpers; false if it does not.
    pub(super) fn expire_with_helpers(&mut self, key: u64) -> bool {
        if !self.work.has_helpers() {
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
