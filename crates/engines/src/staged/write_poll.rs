//! The fourth stage: where connections wait whose client takes no more for the moment. It waits
//! for space in their sockets and sees to their deadlines.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use os::epoll::EventBuffer;
use session::{Tick, Worker};

use super::berths::{Berths, For, Moored, Told};
use super::client::{BoxedClient, Place};
use super::pipeline::{Outgoing, Pipeline};
use crate::WorkerStart;
use crate::parts::clock::read_clock;
use crate::parts::loops::{Loop, Seat, Shared};

/// The stage.
pub(super) struct WritePoll {
    berths: Berths,
    events: EventBuffer,
    worker: Worker,
    shared: Arc<Shared>,
    pipeline: Arc<Pipeline>,
    arrivals: Vec<BoxedClient>,
    outgoing: Outgoing,
    /// Failures of stages whose lost connections were looked for.
    failures: u64,
}

impl WritePoll {
    /// The stage, to be run in its thread.
    pub(super) fn make(
        start: WorkerStart,
        seat: &Seat,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Loop> {
        let wakes = [&seat.shared.wakes[seat.index], pipeline.wake(Place::WritePoll)];
        let stage = Self {
            berths: Berths::new(For::Writing, &wakes, Tick(os::clock::now()))?,
            events: EventBuffer::with_capacity(seat.knobs.get_usize(super::EVENTS_PER_WAIT.name)),
            worker: start.worker,
            shared: Arc::clone(&seat.shared),
            pipeline: Arc::clone(pipeline),
            arrivals: Vec::new(),
            outgoing: Outgoing::default(),
            failures: pipeline.failures(),
        };
        Ok(Box::new(move || stage.run()))
    }

    fn run(mut self) -> io::Result<()> {
        let pipeline = Arc::clone(&self.pipeline);
        pipeline.stay_on_cpus()?;
        read_clock(&mut self.worker);
        while !pipeline.is_closed() {
            let sleeps = pipeline.inbox(Place::WritePoll).may_sleep();
            let timeout_ms = if sleeps { self.timeout_ms() } else { Some(0) };
            self.berths.wait(&mut self.events, timeout_ms)?;
            read_clock(&mut self.worker);
            for index in 0..self.events.len() {
                let Some(event) = self.events.get(index) else { break };
                match self.berths.tell(event) {
                    Told::Ready(client) => self.outgoing.add(client, Place::Write),
                    Told::Wake(_) => self.worker.keep_house(),
                    Told::Nothing => {}
                }
            }
            self.receive();
            self.expire();
            self.obey();
            self.outgoing.flush(&pipeline);
        }
        Ok(())
    }

    fn receive(&mut self) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.pipeline.inbox(Place::WritePoll).take(&mut arrivals);
        for mut client in arrivals.drain(..) {
            if client.is_over {
                self.berths.release(&mut client); // its last stop
            } else {
                self.moor(client);
            }
        }
        self.arrivals = arrivals;
    }

    fn moor(&mut self, mut client: BoxedClient) {
        self.berths.admit(&mut client);
        match self.berths.moor(client) {
            Moored::Waiting => {}
            Moored::Ready(client) => self.outgoing.add(client, Place::Write),
            Moored::Refused(mut client) => {
                client.is_over = true;
                self.outgoing.add(client, Place::ReadPoll);
            }
        }
    }

    /// A client that took too long is closed, by the stage that closes.
    fn expire(&mut self) {
        for mut client in self.berths.take_expired(self.worker.now()) {
            client.connection.expire(&mut self.worker);
            let place = client.place();
            self.outgoing.add(client, place);
        }
    }

    /// On the last word everybody goes to where connections end. Until then responses under way
    /// are finished: the stages that they meet next tell them that they are the last.
    fn obey(&mut self) {
        let failures = self.pipeline.failures();
        if std::mem::replace(&mut self.failures, failures) != failures {
            self.berths.clear_lost();
        }
        if self.shared.abort.load(Ordering::Acquire) || self.pipeline.is_broken() {
            for client in self.berths.take_all() {
                self.outgoing.add(client, Place::ReadPoll);
            }
        }
    }

    fn timeout_ms(&self) -> Option<u32> {
        let now = self.worker.now();
        let housekeeping = self.worker.needs_time().then(|| now.plus_ms(250));
        let next = [self.berths.next_look(), housekeeping].into_iter().flatten().min()?;
        Some(u32::try_from(next.since(now).div_ceil(1000)).unwrap_or(u32::MAX))
    }
}
