//! The common part of the two stages that poll: a set of connections that wait, and the queues in
//! which connections come and go. The stage decides what to do with a connection.

use std::io;
use std::sync::Arc;

use os::epoll::EventBuffer;
use session::{Tick, Worker};

use super::client::{BoxedClient, Stage};
use super::pipeline::{Outgoing, Pipeline};
use super::queue::Sleep;
use super::wait_set::{Direction, WaitSet};
use crate::engine::WorkerStart;
use crate::parts::loops::clock::{read_clock, timeout_ms};
use crate::parts::loops::reactor::EVENTS_PER_WAIT;
use crate::parts::loops::{LoopContext, Shared};

/// How long a connection that only comes back to rest may wait in the inbox, in milliseconds: its
/// deadline is not watched meanwhile.
const REST_LATE_MS: u64 = 250;

/// The common part of a stage that polls.
pub(super) struct Poller {
    pub(super) wait_set: WaitSet,
    /// The events of the last wait.
    pub(super) events: EventBuffer,
    pub(super) worker: Worker,
    pub(super) shared: Arc<Shared>,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) outgoing: Outgoing,
    stage: Stage,
    arrivals: Vec<BoxedClient>,
    /// The number of failures of stages that this one has dealt with.
    failures: u64,
}

/// The index of the wake-up call of [`Loops`](crate::parts::loops::Loops); the others are the
/// pipeline's.
pub(super) const LOOPS_WAKE: usize = 0;

impl Poller {
    /// The poller of `stage`.
    pub(super) fn new(
        stage: Stage,
        direction: Direction,
        start: WorkerStart,
        loop_context: &LoopContext,
        pipeline: &Arc<Pipeline>,
    ) -> io::Result<Self> {
        let wakes = [&loop_context.shared.wakes[loop_context.index], pipeline.wake(stage)];
        Ok(Self {
            wait_set: WaitSet::new(direction, &wakes, Tick(os::clock::now()))?,
            events: EventBuffer::with_capacity(EVENTS_PER_WAIT),
            worker: start.worker,
            shared: Arc::clone(&loop_context.shared),
            pipeline: Arc::clone(pipeline),
            outgoing: Outgoing::default(),
            stage,
            arrivals: Vec::new(),
            failures: pipeline.failures(),
        })
    }

    /// Prepares the calling thread, which is the stage's.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        self.pipeline.enter(&self.shared)?;
        read_clock(&mut self.worker);
        Ok(())
    }

    /// Waits for events until a connection arrives that is to be taken in, a deadline has come, or
    /// `next_check` has.
    pub(super) fn wait(&mut self, next_check: Option<Tick>, sleep: Sleep) -> io::Result<()> {
        // A stage that replaces a failed one does not watch connections that are with other stages.
        let lets_wait = self.failures == 0 && self.wait_set.lets_wait();
        let sleep = if lets_wait { sleep } else { Sleep::ForAll };
        let may_sleep = self.pipeline.inbox(self.stage).may_sleep(sleep);
        let timeout_ms = if may_sleep { self.timeout_ms(next_check, sleep) } else { Some(0) };
        self.wait_set.wait(&mut self.events, timeout_ms)?;
        read_clock(&mut self.worker);
        Ok(())
    }

    /// How long to wait for events.
    fn timeout_ms(&self, next_check: Option<Tick>, sleep: Sleep) -> Option<u32> {
        let now = self.worker.now();
        let misses_some = sleep == Sleep::ForUrgent && self.wait_set.has_some_away();
        let late = misses_some.then(|| now.plus_ms(REST_LATE_MS));
        timeout_ms(now, [self.wait_set.next_check(), self.worker.next_look(), late, next_check])
    }

    /// Takes the connections that have arrived, in a list to be returned empty to
    /// [`Poller::reuse_list`].
    pub(super) fn take_arrivals(&mut self) -> Vec<BoxedClient> {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.pipeline.inbox(self.stage).take(&mut arrivals);
        arrivals
    }

    /// Keeps the memory of an empty list for the next arrivals.
    pub(super) fn reuse_list(&mut self, list: Vec<BoxedClient>) {
        self.arrivals = list;
    }

    /// Whether a stage has failed since the last call: then connections may be lost.
    pub(super) fn has_new_failures(&mut self) -> bool {
        let failures = self.pipeline.failures();
        std::mem::replace(&mut self.failures, failures) != failures
    }

    /// Hands over the connections that leave the stage.
    pub(super) fn flush(&mut self) {
        self.outgoing.flush(&self.pipeline);
    }
}
