//! The fourth stage, in which connections wait whose clients take no more bytes for the moment. It
//! waits for space in their sockets, and with those that take long for input too, which is received
//! beside; and it enforces their deadlines.

use std::io;
use std::sync::Arc;

use super::client::{BoxedClient, Stage};
use super::pipeline::Pipeline;
use super::poller::Poller;
use super::queue::Sleep;
use super::wait_set::{Direction, Dispatched, Parked, WaitSet};
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
        let stage = Stage::WritePoll;
        let poller = Poller::new(stage, Direction::Writing, start, loop_context, pipeline)?;
        pipeline.set_write_watch(poller.wait_set.epoll());
        let stage = Self { poller };
        Ok(Box::new(move || stage.run()))
    }

    fn run(mut self) -> io::Result<()> {
        self.poller.begin()?;
        while !self.poller.pipeline.is_closed() {
            self.poller.wait(None, Sleep::ForAll)?;
            for index in 0..self.poller.events.len() {
                let Some(event) = self.poller.events.get(index) else { break };
                match self.poller.wait_set.dispatch(event) {
                    Dispatched::Ready(client) => self.send_on(client),
                    Dispatched::Wake(_) => self.poller.worker.do_housekeeping(),
                    Dispatched::Nothing => {}
                }
            }
            self.receive();
            self.expire();
            self.obey();
            self.poller.flush();
        }
        Ok(())
    }

    /// Hands a connection whose socket is ready to the stage that writes.
    fn send_on(&mut self, client: BoxedClient) {
        self.poller.outgoing.add(client, Stage::Write);
    }

    fn receive(&mut self) {
        let mut arrivals = self.poller.take_arrivals();
        for mut client in arrivals.drain(..) {
            if client.is_over {
                self.poller.wait_set.release(&mut client); // this is its last stage
            } else {
                self.park(client);
            }
        }
        self.poller.reuse_list(arrivals);
    }

    fn park(&mut self, mut client: BoxedClient) {
        let is_leaving = self.poller.shared.orders.is_issued(Order::Leave);
        // Without an heir, or when that has refused it, it is served on.
        let shared = &self.poller.shared;
        if is_leaving
            && client.refused_by != shared.heir_number()
            && (shared.is_finishing() || shared.may_move(&client.connection))
        {
            return self.poller.outgoing.add(client, Stage::ReadPoll);
        }
        let wait_set = &mut self.poller.wait_set;
        wait_set.register(&mut client);
        let parked = match WaitSet::is_to_listen(&client, self.poller.worker.now()) {
            true => wait_set.listen(client),
            false => wait_set.park(client),
        };
        match parked {
            Parked::Waiting => {}
            Parked::Ready(client) => self.send_on(client),
            Parked::Refused(mut client) => {
                client.is_over = true;
                self.poller.outgoing.add(client, Stage::ReadPoll);
            }
        }
    }

    /// Expires the connections whose deadlines have passed, and hands them to the stages that go on
    /// with them: read-poll closes those that are over. Others are from now on watched for input.
    fn expire(&mut self) {
        for mut client in self.poller.wait_set.take_expired(self.poller.worker.now()) {
            if !client.connection.expire_if_due(&mut self.poller.worker) {
                self.park(client);
                continue;
            }
            let stage = client.next_stage();
            self.poller.outgoing.add(client, stage);
        }
    }

    /// Carries out the orders of the engine. On [`Order::Abort`] all connections go to the
    /// read-poll stage, which closes them. Until then responses under way are finished: the next
    /// stage of each connection drains it. On [`Order::Leave`] they go there to be given to another
    /// engine.
    fn obey(&mut self) {
        if self.poller.has_new_failures() {
            self.poller.wait_set.clear_lost();
        }
        let is_issued = |order| self.poller.shared.orders.is_issued(order);
        let is_to_abort = is_issued(Order::Abort) || self.poller.pipeline.is_broken();
        if is_to_abort || is_issued(Order::Leave) {
            for client in self.poller.wait_set.take_all() {
                match is_to_abort {
                    true => self.poller.outgoing.add(client, Stage::ReadPoll),
                    false => self.park(client),
                }
            }
        }
    }
}
