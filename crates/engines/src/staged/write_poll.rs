//! The fourth stage: where connections wait whose client takes no more for the moment. It waits
//! for space in their sockets and sees to their deadlines.

use std::io;
use std::sync::Arc;

use super::client::{BoxedClient, Stage};
use super::pipeline::Pipeline;
use super::poller::Poller;
use super::queue::Sleep;
use super::wait_set::{Direction, Parked, Told};
use crate::engine::WorkerStart;
use crate::orders::Order;
use crate::parts::loops::{Loop, LoopContext};

/// The stage.
pub(super) struct WritePoll {
    poller: Poller,
}

impl WritePoll {
    /// The stage, to be run in its thread.
    pub(super) fn make(
        start: WorkerStart,
        loop_context: &LoopContext,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Loop> {
        let stage = Self {
            poller: Poller::new(
                Stage::WritePoll,
                Direction::Writing,
                start,
                loop_context,
                pipeline,
            )?,
        };
        Ok(Box::new(move || stage.run()))
    }

    fn run(mut self) -> io::Result<()> {
        self.poller.begin()?;
        while !self.poller.pipeline.is_closed() {
            self.poller.wait(None, Sleep::ForAll)?;
            for index in 0..self.poller.events.len() {
                let Some(event) = self.poller.events.get(index) else { break };
                match self.poller.wait_set.tell(event) {
                    Told::Ready(client) => self.poller.outgoing.add(client, Stage::Write),
                    Told::Wake(_) => self.poller.worker.do_housekeeping(),
                    Told::Nothing => {}
                }
            }
            self.receive();
            self.expire();
            self.obey();
            self.poller.flush();
        }
        Ok(())
    }

    fn receive(&mut self) {
        let mut arrivals = self.poller.take_arrivals();
        for mut client in arrivals.drain(..) {
            if client.is_over {
                self.poller.wait_set.release(&mut client); // its last stop
            } else {
                self.park(client);
            }
        }
        self.poller.give_back(arrivals);
    }

    fn park(&mut self, mut client: BoxedClient) {
        self.poller.wait_set.register(&mut client);
        match self.poller.wait_set.park(client) {
            Parked::Waiting => {}
            Parked::Ready(client) => self.poller.outgoing.add(client, Stage::Write),
            Parked::Refused(mut client) => {
                client.is_over = true;
                self.poller.outgoing.add(client, Stage::ReadPoll);
            }
        }
    }

    /// A client that took too long is closed, by the stage that closes.
    fn expire(&mut self) {
        for mut client in self.poller.wait_set.take_expired(self.poller.worker.now()) {
            client.connection.expire(&mut self.poller.worker);
            let stage = client.next_stage();
            self.poller.outgoing.add(client, stage);
        }
    }

    /// Obeys the orders. On the last one all connections go to where connections end. Until then
    /// responses under way are finished: the stages that they meet next tell them that they are the
    /// last.
    fn obey(&mut self) {
        if self.poller.has_new_failures() {
            self.poller.wait_set.clear_lost();
        }
        if self.poller.shared.orders.is_given(Order::Abort) || self.poller.pipeline.is_broken() {
            for client in self.poller.wait_set.take_all() {
                self.poller.outgoing.add(client, Stage::ReadPoll);
            }
        }
    }
}
