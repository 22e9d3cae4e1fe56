//! The fourth stage: where connections wait whose client takes no more for the moment. It waits
//! for space in their sockets and sees to their deadlines.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::berths::{For, Moored, Told};
use super::client::{BoxedClient, Place};
use super::pipeline::Pipeline;
use super::quay::Quay;
use crate::WorkerStart;
use crate::parts::loops::{Loop, Seat};

/// The stage.
pub(super) struct WritePoll {
    quay: Quay,
}

impl WritePoll {
    /// The stage, to be run in its thread.
    pub(super) fn make(
        start: WorkerStart,
        seat: &Seat,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Loop> {
        let stage =
            Self { quay: Quay::new(Place::WritePoll, For::Writing, start, seat, pipeline)? };
        Ok(Box::new(move || stage.run()))
    }

    fn run(mut self) -> io::Result<()> {
        self.quay.begin()?;
        while !self.quay.pipeline.is_closed() {
            self.quay.wait(None)?;
            for index in 0..self.quay.events.len() {
                let Some(event) = self.quay.events.get(index) else { break };
                match self.quay.berths.tell(event) {
                    Told::Ready(client) => self.quay.outgoing.add(client, Place::Write),
                    Told::Wake(_) => self.quay.worker.keep_house(),
                    Told::Nothing => {}
                }
            }
            self.receive();
            self.expire();
            self.obey();
            self.quay.flush();
        }
        Ok(())
    }

    fn receive(&mut self) {
        let mut arrivals = self.quay.take_arrivals();
        for mut client in arrivals.drain(..) {
            if client.is_over {
                self.quay.berths.release(&mut client); // its last stop
            } else {
                self.moor(client);
            }
        }
        self.quay.give_back(arrivals);
    }

    fn moor(&mut self, mut client: BoxedClient) {
        self.quay.berths.admit(&mut client);
        match self.quay.berths.moor(client) {
            Moored::Waiting => {}
            Moored::Ready(client) => self.quay.outgoing.add(client, Place::Write),
            Moored::Refused(mut client) => {
                client.is_over = true;
                self.quay.outgoing.add(client, Place::ReadPoll);
            }
        }
    }

    /// A client that took too long is closed, by the stage that closes.
    fn expire(&mut self) {
        for mut client in self.quay.berths.take_expired(self.quay.worker.now()) {
            client.connection.expire(&mut self.quay.worker);
            let place = client.place();
            self.quay.outgoing.add(client, place);
        }
    }

    /// On the last word everybody goes to where connections end. Until then responses under way
    /// are finished: the stages that they meet next tell them that they are the last.
    fn obey(&mut self) {
        if self.quay.has_new_failures() {
            self.quay.berths.clear_lost();
        }
        if self.quay.shared.abort.load(Ordering::Acquire) || self.quay.pipeline.is_broken() {
            for client in self.quay.berths.take_all() {
                self.quay.outgoing.add(client, Place::ReadPoll);
            }
        }
    }
}
