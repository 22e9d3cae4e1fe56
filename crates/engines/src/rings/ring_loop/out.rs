//! What a ring does with a connection whose work may block.

use super::RingLoop;
use crate::parts::disk::blocking_work::Begun;
use crate::parts::disk::helpers::{Outcome, answer};

impl RingLoop {
    /// Has the job done that a connection wants. Returns whether it is.
    pub(super) fn begin_job(&mut self, key: u64) -> bool {
        let Some(slot) = self.connections.get(key) else { return false };
        let Begun::Done { lacked_descriptor } = self.work.job(key, slot, &mut self.worker) else {
            return false;
        };
        if lacked_descriptor {
            self.evict();
        }
        true
    }

    /// Has the next bytes of a file fetched. Returns whether somebody does.
    pub(super) fn begin_fetch(&mut self, key: u64) -> bool {
        let has_helpers = self.work.has_helpers();
        if has_helpers && let Some(slot) = self.connections.get(key) {
            let begun = self.work.hand_out(key, slot, &self.worker);
            slot.socket.is_fetching = begun == Begun::Out;
        }
        has_helpers
    }

    /// Goes on with what helpers have done, and gives those something to do who waited for them.
    pub(super) fn take_back(&mut self) {
        if let Some(wake) = &self.helpers_wake {
            self.ring.poll_readable(super::HELPERS_KEY, wake);
        }
        for back in self.work.take_back() {
            let Some(slot) = self.connections.get(back.key) else { continue };
            match back.outcome {
                Outcome::Done(id, done) => {
                    if answer(&mut slot.connection, &mut self.worker, id, done) {
                        self.evict();
                    }
                }
                Outcome::Fetched => {
                    slot.socket.is_fetching = false;
                    slot.socket.is_fetched = true;
                }
            }
            self.drive(back.key);
        }
        while let Some(key) = self.work.next_in_line() {
            if let Some(slot) = self.connections.get(key) {
                slot.is_queued = false;
                self.drive(key);
            }
        }
    }
}
