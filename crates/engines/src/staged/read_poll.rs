//! The second stage: where connections begin, rest and end. It waits for the sockets of those that
//! rest, sees to their deadlines, closes who must make room, and closes everybody in the end.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use session::{Op, Tick};

use super::berths::{For, Moored, Told};
use super::client::{BoxedClient, Place};
use super::governor::Governor;
use super::pipeline::Pipeline;
use super::quay::{Quay, TOLD};
use crate::WorkerStart;
use crate::parts::loops::{Loop, Seat};

/// The stage.
pub(super) struct ReadPoll {
    quay: Quay,
    /// The controllers, if any are switched on.
    governor: Option<Governor>,
    is_draining: bool,
    is_aborting: bool,
}

impl ReadPoll {
    /// The stage, to be run in its thread.
    pub(super) fn make(
        start: WorkerStart,
        seat: &Seat,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Loop> {
        let stage = Self {
            quay: Quay::new(Place::ReadPoll, For::Reading, start, seat, pipeline)?,
            governor: Governor::new(seat, pipeline, Tick(os::clock::now())),
            is_draining: false,
            is_aborting: false,
        };
        Ok(Box::new(move || stage.run()))
    }

    fn run(mut self) -> io::Result<()> {
        self.quay.begin()?;
        while !self.is_over() {
            self.quay.wait(self.governor.as_ref().and_then(Governor::next_look))?;
            self.hear_events();
            self.receive();
            self.expire();
            self.obey();
            self.make_room();
            if let Some(governor) = &mut self.governor {
                governor.look(self.quay.worker.now());
            }
            self.quay.flush();
        }
        self.quay.pipeline.close();
        Ok(())
    }

    fn hear_events(&mut self) {
        for index in 0..self.quay.events.len() {
            let Some(event) = self.quay.events.get(index) else { return };
            match self.quay.berths.tell(event) {
                Told::Ready(client) => self.send_on(client, Place::Read),
                Told::Wake(TOLD) => {
                    self.quay.worker.keep_house();
                    self.quay.pipeline.keep_house();
                }
                Told::Wake(_) | Told::Nothing => {}
            }
        }
    }

    /// Takes in who was accepted, and who comes back.
    fn receive(&mut self) {
        let mut arrivals = self.quay.take_arrivals();
        for client in arrivals.drain(..) {
            self.receive_one(client);
        }
        self.quay.give_back(arrivals);
    }

    #[inline]
    fn receive_one(&mut self, mut client: BoxedClient) {
        let is_new = client.berths[For::Reading as usize].is_none();
        // Those that are not new have a berth, unless that was lost with a stage that failed.
        if self.quay.berths.admit(&mut client) {
            self.quay.worker.counters.connections_open.add(1);
        }
        if self.is_draining {
            client.drain();
        }
        // Whoever was just accepted has probably sent a request: no need to ask first.
        if is_new && client.place() == Place::Read && !self.is_aborting {
            return self.send_on(client, Place::Read);
        }
        if let Some(governor) = &mut self.governor
            && std::mem::take(&mut client.is_answered)
        {
            governor.note(self.quay.worker.now().since(client.since));
        }
        self.settle(client);
    }

    /// Has a connection rest here or end here, or sends it on.
    #[inline]
    fn settle(&mut self, client: BoxedClient) {
        if client.is_over || self.is_aborting {
            return self.close(client);
        }
        match client.connection.next() {
            // Whatever else is known of its socket: who sent it here found nothing there.
            Op::Recv => match self.quay.berths.moor(client) {
                Moored::Waiting => {}
                Moored::Ready(client) => self.send_on(client, Place::Read),
                Moored::Refused(client) => self.close(client),
            },
            Op::Job | Op::Shutdown => self.send_on(client, Place::Read),
            Op::Send { .. } | Op::File { .. } => self.send_on(client, Place::Write),
            Op::Wait | Op::Close { .. } => self.close(client),
        }
    }

    #[inline]
    fn send_on(&mut self, mut client: BoxedClient, place: Place) {
        client.since = self.quay.worker.now();
        self.quay.outgoing.add(client, place);
    }

    fn close(&mut self, mut client: BoxedClient) {
        if let Op::Close { reset: true } = client.connection.next() {
            // If it fails the close is an orderly one.
            let _ = os::socket::set_linger_zero(client.socket.as_fd());
        }
        client.connection.close(&mut self.quay.worker);
        self.quay.berths.release(&mut client);
        self.quay.worker.counters.connections_open.subtract(1);
        client.counted = None;
        if client.berths[For::Writing as usize].is_some() {
            client.is_over = true;
            self.quay.outgoing.add(client, Place::WritePoll); // it has a berth there to give up
        }
    }

    fn expire(&mut self) {
        for mut client in self.quay.berths.take_expired(self.quay.worker.now()) {
            client.connection.expire(&mut self.quay.worker);
            self.settle(client);
        }
    }

    /// Does what the engine was told to do.
    fn obey(&mut self) {
        if !self.is_draining && self.quay.shared.drain.load(Ordering::Acquire) {
            self.is_draining = true;
            for mut client in self.quay.berths.take_all() {
                client.drain();
                self.settle(client);
            }
        }
        if self.quay.has_new_failures() {
            self.count_lost();
        }
        let is_to_abort =
            self.quay.shared.abort.load(Ordering::Acquire) || self.quay.pipeline.is_broken();
        if !self.is_aborting && is_to_abort {
            self.is_aborting = true;
            // Who waits for a client in a system call goes on.
            self.quay.berths.shut_down_all();
            self.quay.berths.take_all().into_iter().for_each(|client| self.close(client));
        }
    }

    /// Counts connections off that were lost with a stage that failed.
    fn count_lost(&mut self) {
        let lost = self.quay.berths.clear_lost();
        self.quay.worker.counters.connections_open.subtract(lost as u64);
        if lost > 0 {
            self.quay.shared.tell(format!("{lost} connections ended with a stage that failed"));
        }
    }

    /// Closes the connection that has rested longest, if somebody asked for room.
    fn make_room(&mut self) {
        let pipeline = Arc::clone(&self.quay.pipeline);
        pipeline.room.serve(|| {
            let Some(client) = self.quay.berths.take_least_recent() else { return false };
            self.quay.worker.counters.connections_evicted.add(1);
            self.close(client);
            self.quay.shared.open.load(Ordering::Relaxed) < self.quay.shared.connections_max
        });
    }

    fn is_over(&self) -> bool {
        let is_ending = self.is_draining || self.is_aborting;
        if !is_ending || !self.quay.pipeline.has_accepted_all() {
            return false;
        }
        let is_empty = self.quay.berths.len() == 0
            && self.quay.pipeline.inbox(Place::ReadPoll).figures().len == 0;
        // What waits for a stage that has failed is not waited for.
        is_empty || (self.is_aborting && self.quay.pipeline.is_broken())
    }
}

impl Drop for ReadPoll {
    /// There are berths left only if it fails, or ends with one that has. Whoever lies at one ends
    /// with it; who is away comes back to the next.
    fn drop(&mut self) {
        self.quay.worker.counters.connections_open.subtract(self.quay.berths.len() as u64);
        let lost = self.quay.berths.take_all().len();
        if lost > 0 {
            self.quay.shared.tell(format!("{lost} connections ended with the read-poll stage"));
        }
    }
}
