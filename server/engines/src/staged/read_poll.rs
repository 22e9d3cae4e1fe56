//! The second stage, in which connections begin, rest and end. It waits for the sockets of idle
//! connections, enforces their deadlines, closes idle ones to make room, and closes all in the end.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use session::{Op, Tick};

use super::client::{BoxedClient, Counted, Stage};
use super::governor::Governor;
use super::pipeline::Pipeline;
use super::poller::{LOOPS_WAKE, Poller};
use super::queue::Sleep;
use super::wait_set::{Direction, Dispatched, Parked};
use crate::engine::{Handed, WorkerStart};
use crate::orders::Order;
use crate::parts::loops::transport::{Plain, Transport};
use crate::parts::loops::{Loop, LoopContext};

/// The stage.
pub(super) struct ReadPoll {
    poller: Poller,
    /// The controllers, if any are switched on.
    governor: Option<Governor>,
    is_draining: bool,
    is_aborting: bool,
    /// Whether connections go to another engine.
    is_leaving: bool,
}

impl ReadPoll {
    /// The stage, to be run in its thread.
    pub(super) fn make(
        start: WorkerStart,
        loop_context: &LoopContext,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Loop> {
        let stage = Stage::ReadPoll;
        let stage = Self {
            poller: Poller::new(stage, Direction::Reading, start, loop_context, pipeline)?,
            governor: Governor::new(loop_context, pipeline, Tick(os::clock::now())),
            is_draining: false,
            is_aborting: false,
            is_leaving: false,
        };
        Ok(Box::new(move || stage.run()))
    }

    fn run(mut self) -> io::Result<()> {
        self.poller.begin()?;
        while !self.is_over() {
            self.wait()?;
            self.handle_events();
            self.receive();
            self.expire();
            self.obey();
            self.make_room();
            if let Some(governor) = &mut self.governor {
                governor.run_due(self.poller.worker.now());
            }
            self.poller.flush();
        }
        self.poller.pipeline.close();
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        // Controllers measure when a connection is back, and at the end each is needed at once.
        let is_ending = self.is_draining || self.is_aborting || self.is_leaving;
        let has_time = self.governor.is_none() && !is_ending;
        let sleep = if has_time { Sleep::ForUrgent } else { Sleep::ForAll };
        self.poller.wait(self.governor.as_ref().and_then(Governor::next_check), sleep)
    }

    fn handle_events(&mut self) {
        for index in 0..self.poller.events.len() {
            let Some(event) = self.poller.events.get(index) else { return };
            match self.poller.wait_set.dispatch(event) {
                Dispatched::Ready(client) => self.send_on(client, Stage::Read),
                Dispatched::Wake(LOOPS_WAKE) => {
                    self.begin_to_leave();
                    self.poller.worker.do_housekeeping();
                    self.poller.pipeline.do_housekeeping();
                }
                Dispatched::Wake(_) | Dispatched::Nothing => {}
            }
        }
    }

    /// Takes in the connections that were accepted, and those that come back.
    fn receive(&mut self) {
        let mut arrivals = self.poller.take_arrivals();
        for client in arrivals.drain(..) {
            self.receive_one(client);
        }
        self.poller.reuse_list(arrivals);
    }

    #[inline]
    fn receive_one(&mut self, mut client: BoxedClient) {
        let is_new = client.registrations[Direction::Reading as usize].is_none();
        // A connection that is not new is registered, unless a stage that failed has lost that.
        if self.poller.wait_set.register(&mut client) {
            self.poller.worker.counters.connections_open.add(1);
        }
        if self.is_draining {
            client.drain();
        }
        // The client of a new connection has probably sent a request: no need to wait first.
        if is_new && client.next_stage() == Stage::Read && !self.is_aborting {
            return self.send_on(client, Stage::Read);
        }
        if let Some(governor) = &mut self.governor
            && std::mem::take(&mut client.is_answered)
        {
            governor.note(self.poller.worker.now().since(client.since));
        }
        self.keep_or_pass_on(client);
    }

    /// Has a connection rest here or end here, or sends it on.
    #[inline]
    fn keep_or_pass_on(&mut self, client: BoxedClient) {
        if client.is_over || self.is_aborting {
            return self.close(client);
        }
        let left = if self.is_leaving { self.give(client) } else { Some(client) };
        if let Some(client) = left {
            self.keep(client);
        }
    }

    #[inline]
    fn keep(&mut self, client: BoxedClient) {
        match client.connection.next() {
            // `ready` is ignored: the stage that sent the connection here found no input.
            Op::Recv => match self.poller.wait_set.park(client) {
                Parked::Waiting => {}
                Parked::Ready(client) => self.send_on(client, Stage::Read),
                Parked::Refused(client) => self.close(client),
            },
            Op::Wait | Op::Close { .. } => self.close(client),
            _ => {
                let stage = client.next_stage();
                self.send_on(client, stage);
            }
        }
    }

    /// Gives a connection to another engine; returns it if that takes no more.
    #[cold]
    fn give(&mut self, mut client: BoxedClient) -> Option<BoxedClient> {
        let number = self.poller.shared.heir_number();
        if number == 0 {
            client.connection.end_with_next();
            return Some(client);
        }
        let heir = self.poller.shared.heir().filter(|_| client.refused_by != number);
        let Some(heir) = heir.filter(|heir| heir.may_take(&client.connection)) else {
            return Some(client);
        };
        self.poller.wait_set.forget(&mut client);
        self.poller.pipeline.end_write_watch(client.socket.as_fd());
        client.registrations = [None; 2];
        let mut client = Some(client);
        let has_gone = heir.take(&mut || {
            let client = *client.take().expect("a connection is released once");
            client.counted.into_iter().for_each(Counted::give_away);
            let socket = Arc::into_inner(client.socket).expect("no other stage has it");
            Handed { connection: client.connection, socket }
        });
        self.poller.worker.counters.connections_open.subtract(1);
        debug_assert_eq!(has_gone, client.is_none());
        let mut client = client?;
        client.refused_by = number;
        self.poller.wait_set.register(&mut client);
        self.poller.worker.counters.connections_open.add(1);
        Some(client)
    }

    /// Has all connections go to another engine, if that was ordered.
    fn begin_to_leave(&mut self) {
        self.is_leaving |= self.poller.shared.orders.is_issued(Order::Leave);
        if self.is_leaving {
            for client in self.poller.wait_set.take_all() {
                self.keep_or_pass_on(client);
            }
        }
    }

    #[inline]
    fn send_on(&mut self, mut client: BoxedClient, stage: Stage) {
        client.since = self.poller.worker.now();
        self.poller.outgoing.add(client, stage);
    }

    fn close(&mut self, mut client: BoxedClient) {
        if let Op::Close { reset: true } = client.connection.next() {
            Plain(client.socket.as_fd()).reset_on_close();
        }
        client.connection.close(&mut self.poller.worker);
        self.poller.wait_set.release(&mut client);
        self.poller.worker.counters.connections_open.subtract(1);
        client.counted = None;
        if client.registrations[Direction::Writing as usize].is_some() {
            client.is_over = true;
            self.poller.outgoing.add(client, Stage::WritePoll); // to end its registration there
        }
    }

    fn expire(&mut self) {
        for mut client in self.poller.wait_set.take_expired(self.poller.worker.now()) {
            if os::socket::has_input(client.socket.as_fd()) {
                // What has arrived comes first: a stage that receives expires the connection then.
                client.ready.is_drained = false;
                self.send_on(client, Stage::Read);
            } else {
                client.connection.expire(&mut self.poller.worker);
                self.keep_or_pass_on(client);
            }
        }
    }

    /// Carries out the orders of the engine.
    fn obey(&mut self) {
        if !self.is_draining && self.poller.shared.orders.is_issued(Order::Drain) {
            self.is_draining = true;
            for mut client in self.poller.wait_set.take_all() {
                client.drain();
                self.keep_or_pass_on(client);
            }
        }
        if self.poller.has_new_failures() {
            self.count_lost();
        }
        let is_to_abort =
            self.poller.shared.orders.is_issued(Order::Abort) || self.poller.pipeline.is_broken();
        if !self.is_aborting && is_to_abort {
            self.is_aborting = true;
            // A thread that waits for a client in a system call goes on.
            self.poller.wait_set.shut_down_all();
            self.poller.wait_set.take_all().into_iter().for_each(|client| self.close(client));
        }
    }

    /// Counts off the connections that were lost with a stage that failed.
    fn count_lost(&mut self) {
        let lost = self.poller.wait_set.clear_lost();
        self.poller.worker.counters.connections_open.subtract(lost as u64);
        if lost > 0 {
            self.poller
                .shared
                .add_notice(format!("{lost} connections ended with a stage that failed"));
        }
    }

    /// Closes the connection that has rested longest, if room was requested.
    fn make_room(&mut self) {
        let pipeline = Arc::clone(&self.poller.pipeline);
        pipeline.room.serve(|| {
            let Some(client) = self.poller.wait_set.take_least_recent() else { return false };
            self.poller.worker.counters.connections_evicted.add(1);
            self.close(client);
            !self.poller.shared.is_full()
        });
    }

    fn is_over(&self) -> bool {
        let is_ending = self.is_draining || self.is_aborting || self.is_leaving;
        if !is_ending || !self.poller.pipeline.has_accepted_all() {
            return false;
        }
        let is_empty = self.poller.wait_set.len() == 0
            && self.poller.pipeline.inbox(Stage::ReadPoll).figures().len == 0;
        // Connections that wait for a stage that has failed will not come back.
        is_empty || (self.is_aborting && self.poller.pipeline.is_broken())
    }
}

impl Drop for ReadPoll {
    /// Counts off and reports the connections that are left, which are some only if this stage
    /// fails, or ends because another has. Parked connections end with it; those that are with
    /// other stages come back to its replacement.
    fn drop(&mut self) {
        self.poller.worker.counters.connections_open.subtract(self.poller.wait_set.len() as u64);
        let lost = self.poller.wait_set.take_all().len();
        if lost > 0 {
            self.poller
                .shared
                .add_notice(format!("{lost} connections ended with the read-poll stage"));
        }
    }
}
