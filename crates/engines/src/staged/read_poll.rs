//! The second stage: where connections begin, rest and end. It waits for the sockets of those that
//! rest, sees to their deadlines, closes who must make room, and closes everybody in the end.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use os::epoll::EventBuffer;
use session::{Op, Tick, Worker};

use super::berths::{Berths, For, Moored, Told};
use super::client::{BoxedClient, Place};
use super::governor::Governor;
use super::pipeline::{Outgoing, Pipeline};
use crate::WorkerStart;
use crate::parts::clock::read_clock;
use crate::parts::loops::{Loop, Seat, Shared};

/// The stage.
pub(super) struct ReadPoll {
    berths: Berths,
    events: EventBuffer,
    worker: Worker,
    shared: Arc<Shared>,
    pipeline: Arc<Pipeline>,
    arrivals: Vec<BoxedClient>,
    outgoing: Outgoing,
    /// The controllers, if any are switched on.
    governor: Option<Governor>,
    /// Failures of stages whose lost connections were counted off.
    failures: u64,
    is_draining: bool,
    is_aborting: bool,
}

/// Which wake-up call is which, in the order in which the berths were given them.
const TOLD: usize = 0;

impl ReadPoll {
    /// The stage, to be run in its thread.
    pub(super) fn make(
        start: WorkerStart,
        seat: &Seat,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Loop> {
        let wakes = [&seat.shared.wakes[seat.index], pipeline.wake(Place::ReadPoll)];
        let stage = Self {
            berths: Berths::new(For::Reading, &wakes, Tick(os::clock::now()))?,
            events: EventBuffer::with_capacity(seat.knobs.get_usize(super::EVENTS_PER_WAIT.name)),
            worker: start.worker,
            shared: Arc::clone(&seat.shared),
            pipeline: Arc::clone(pipeline),
            arrivals: Vec::new(),
            outgoing: Outgoing::default(),
            governor: Governor::new(seat, pipeline, Tick(os::clock::now())),
            failures: pipeline.failures(),
            is_draining: false,
            is_aborting: false,
        };
        Ok(Box::new(move || stage.run()))
    }

    fn run(mut self) -> io::Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        pipeline.stay_on_cpus()?;
        read_clock(&mut self.worker);
        while !self.is_over() {
            let sleeps = pipeline.inbox(Place::ReadPoll).may_sleep();
            let timeout_ms = if sleeps { self.timeout_ms() } else { Some(0) };
            self.berths.wait(&mut self.events, timeout_ms)?;
            read_clock(&mut self.worker);
            self.hear_events();
            self.receive();
            self.expire();
            self.obey();
            self.make_room();
            if let Some(governor) = &mut self.governor {
                governor.look(self.worker.now());
            }
            self.outgoing.flush(&pipeline);
        }
        pipeline.close();
        Ok(())
    }

    fn hear_events(&mut self) {
        for index in 0..self.events.len() {
            let Some(event) = self.events.get(index) else { return };
            match self.berths.tell(event) {
                Told::Ready(client) => self.send_on(client, Place::Read),
                Told::Wake(TOLD) => {
                    self.worker.keep_house();
                    self.pipeline.keep_house();
                }
                Told::Wake(_) | Told::Nothing => {}
            }
        }
    }

    /// Takes in who was accepted, and who comes back.
    fn receive(&mut self) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.pipeline.inbox(Place::ReadPoll).take(&mut arrivals);
        for client in arrivals.drain(..) {
            self.receive_one(client);
        }
        self.arrivals = arrivals;
    }

    #[inline]
    fn receive_one(&mut self, mut client: BoxedClient) {
        let is_new = client.berths[For::Reading as usize].is_none();
        // Those that are not new have a berth, unless that was lost with a stage that failed.
        if self.berths.admit(&mut client) {
            self.worker.counters.connections_open.add(1);
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
            governor.note(self.worker.now().since(client.since));
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
            Op::Recv => match self.berths.moor(client) {
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
        client.since = self.worker.now();
        self.outgoing.add(client, place);
    }

    fn close(&mut self, mut client: BoxedClient) {
        if let Op::Close { reset: true } = client.connection.next() {
            // If it fails the close is an orderly one.
            let _ = os::socket::set_linger_zero(client.socket.as_fd());
        }
        client.connection.close(&mut self.worker);
        self.berths.release(&mut client);
        self.worker.counters.connections_open.subtract(1);
        client.counted = None;
        if client.berths[For::Writing as usize].is_some() {
            client.is_over = true;
            self.outgoing.add(client, Place::WritePoll); // it has a berth there to give up
        }
    }

    fn expire(&mut self) {
        for mut client in self.berths.take_expired(self.worker.now()) {
            client.connection.expire(&mut self.worker);
            self.settle(client);
        }
    }

    /// Does what the engine was told to do.
    fn obey(&mut self) {
        if !self.is_draining && self.shared.drain.load(Ordering::Acquire) {
            self.is_draining = true;
            for mut client in self.berths.take_all() {
                client.drain();
                self.settle(client);
            }
        }
        let failures = self.pipeline.failures();
        if std::mem::replace(&mut self.failures, failures) != failures {
            self.count_lost();
        }
        let is_to_abort = self.shared.abort.load(Ordering::Acquire) || self.pipeline.is_broken();
        if !self.is_aborting && is_to_abort {
            self.is_aborting = true;
            // Who waits for a client in a system call goes on.
            self.berths.shut_down_all();
            self.berths.take_all().into_iter().for_each(|client| self.close(client));
        }
    }

    /// Counts connections off that were lost with a stage that failed.
    fn count_lost(&mut self) {
        let lost = self.berths.clear_lost();
        self.worker.counters.connections_open.subtract(lost as u64);
        if lost > 0 {
            self.shared.tell(format!("{lost} connections ended with a stage that failed"));
        }
    }

    /// Closes the connection that has rested longest, if somebody asked for room.
    fn make_room(&mut self) {
        let pipeline = Arc::clone(&self.pipeline);
        pipeline.room.serve(|| {
            let Some(client) = self.berths.take_least_recent() else { return false };
            self.worker.counters.connections_evicted.add(1);
            self.close(client);
            self.shared.open.load(Ordering::Relaxed) < self.shared.connections_max
        });
    }

    fn is_over(&self) -> bool {
        let is_ending = self.is_draining || self.is_aborting;
        if !is_ending || !self.pipeline.has_accepted_all() {
            return false;
        }
        let is_empty =
            self.berths.len() == 0 && self.pipeline.inbox(Place::ReadPoll).figures().len == 0;
        // What waits for a stage that has failed is not waited for.
        is_empty || (self.is_aborting && self.pipeline.is_broken())
    }

    /// How long to wait for events.
    fn timeout_ms(&self) -> Option<u32> {
        let now = self.worker.now();
        let housekeeping = self.worker.needs_time().then(|| now.plus_ms(250));
        let governor = self.governor.as_ref().and_then(Governor::next_look);
        let looks = [self.berths.next_look(), housekeeping, governor];
        let next = looks.into_iter().flatten().min()?;
        Some(u32::try_from(next.since(now).div_ceil(1000)).unwrap_or(u32::MAX))
    }
}

impl Drop for ReadPoll {
    /// There are berths left only if it fails, or ends with one that has. Whoever lies at one ends
    /// with it; who is away comes back to the next.
    fn drop(&mut self) {
        self.worker.counters.connections_open.subtract(self.berths.len() as u64);
        let lost = self.berths.take_all().len();
        if lost > 0 {
            self.shared.tell(format!("{lost} connections ended with the read-poll stage"));
        }
    }
}
