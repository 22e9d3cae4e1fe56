//! What a ring does with work that may block: without helpers on the spot. Otherwise it hands the
//! work out, goes on with others, and goes on with the connection when the work is back.

use super::RingLoop;
use crate::parts::disk::helpers::{
    Help, Helpers, Outcome, answer, answer_at_once, next_work, run_on_the_spot,
};

impl RingLoop {
    /// A job: on the spot, or by a helper. Returns whether it is done.
    pub(super) fn run_job(&mut self, key: u64) -> bool {
        let Some(slot) = self.connections.get(key) else { return false };
        match &mut self.helpers {
            None => {
                if run_on_the_spot(&mut slot.connection, &mut self.worker, &self.runner) {
                    self.evict();
                }
                return true;
            }
            Some(_) if answer_at_once(&mut slot.connection, &mut self.worker, &self.runner) => {
                return true;
            }
            Some(helpers) if helpers.has_room() => {
                let work = next_work(&mut slot.connection, self.file_chunk_bytes);
                work.count(&self.worker.counters);
                let handed = helpers.hand_out(key, work);
                debug_assert!(handed.is_ok(), "there was room");
            }
            Some(_) => self.want(key),
        }
        false
    }

    /// Has a helper fetch the next bytes of a file. Returns whether one does or will.
    pub(super) fn fetch(&mut self, key: u64) -> bool {
        let Some(helpers) = &mut self.helpers else { return false };
        let Some(slot) = self.connections.get(key) else { return false };
        if !helpers.has_room() {
            self.want(key);
            return true;
        }
        let work = next_work(&mut slot.connection, self.file_chunk_bytes);
        work.count(&self.worker.counters);
        slot.socket.is_fetching = helpers.hand_out(key, work).is_ok();
        true
    }

    fn want(&mut self, key: u64) {
        let Some(slot) = self.connections.get(key) else { return };
        if !std::mem::replace(&mut slot.socket.is_wanting, true) {
            self.wanting.push_back(key);
        }
    }

    /// Goes on with what helpers have done, and gives those something to do who waited for them.
    pub(super) fn take_back(&mut self) {
        if let Some(wake) = &self.helpers_wake {
            self.ring.poll_readable(super::HELPERS_KEY, wake);
        }
        let returned = self.helpers.as_mut().map(Helpers::take_back).unwrap_or_default();
        for back in returned {
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
        while self.helpers.as_ref().is_some_and(Helpers::has_room)
            && let Some(key) = self.wanting.pop_front()
        {
            if let Some(slot) = self.connections.get(key) {
                slot.socket.is_wanting = false;
                self.drive(key);
            }
        }
    }
}
