//! A gateway: a thread beside a loop, which has a connection of its clients while applications
//! answer it. It is a loop without listeners, and drives both sockets as any loop does; here is the
//! way there and back. No loop needs one: it shows what a hand-over costs.

use std::io;
use std::sync::Arc;

use session::{Job, Phase};

use super::Reactor;
use crate::engine::{Start, WorkerStart};
use crate::knobs::Knob;
use crate::parts::loops::connections::NO_UPSTREAM;
use crate::parts::loops::{LoopContext, Loops};

pub(crate) const GATEWAY: Knob = Knob::switch("gateway", 0)
    .about("1: a thread beside each loop has connections while applications answer; 0: the loop");

/// What a loop has to know of the one beside it.
#[derive(Clone)]
pub(crate) struct Side {
    /// The index of the other loop.
    other: usize,
    is_gateway: bool,
    /// The keys of the connections whose call is over, until they rest.
    over: Vec<u64>,
}

/// Starts replaceable loops, each with a gateway beside it if the knob says so and there are
/// applications.
///
/// # Errors
/// As [`Loops::start_replaceable`].
pub(crate) fn start(
    name: &'static str,
    mut start: Start,
    make: fn(WorkerStart, LoopContext) -> io::Result<Reactor>,
) -> io::Result<Loops> {
    let sides = if start.knobs.get(GATEWAY.name) == 1 { add_gateways(&mut start) } else { vec![] };
    Loops::start_replaceable(name, start, move |worker, loop_context| {
        let side = sides.get(loop_context.index).cloned();
        Ok(Reactor { side, ..make(worker, loop_context)? }.into_loop())
    })
}

/// Adds a worker for the gateway of each loop. Returns the sides of all loops.
fn add_gateways(start: &mut Start) -> Vec<Side> {
    let mut sides = Vec::new();
    for partition in &mut start.partitions {
        let (first, loops) = (sides.len(), partition.workers.len());
        if partition.workers.iter().any(|it| it.worker.applications().is_empty()) {
            return Vec::new();
        }
        for is_gateway in [false, true] {
            sides.extend((0..loops).map(|index| Side {
                other: first + index + if is_gateway { 0 } else { loops },
                is_gateway,
                over: Vec::new(),
            }));
        }
        partition.workers.extend((0..loops).map(|_| WorkerStart {
            worker: (partition.more)(),
            cpu: None,
            unpinned_cpus: Arc::default(),
            listeners: Vec::new(),
        }));
    }
    sides
}

impl Reactor {
    /// Hands a connection that wants a job to the other loop, if the job is that one's. Returns
    /// whether it has gone.
    #[cold]
    #[inline(never)]
    pub(super) fn hands_job_over(&mut self, key: u64) -> bool {
        let Some(slot) = self.connections.get(key) else { return true };
        let Some(Side { is_gateway, .. }) = self.side else { return false };
        match slot.connection.job() {
            Some(Job::Application(_)) if is_gateway => false,
            Some(Job::Application(_)) => self.hand_over(key),
            Some(_) => is_gateway && slot.upstream == NO_UPSTREAM && self.hand_over(key),
            None => false, // it is of a call that is under way
        }
    }

    /// Notes that the call of a connection is over.
    pub(super) fn note_over(&mut self, key: u64) {
        if let Some(side) = self.side.as_mut().filter(|side| side.is_gateway) {
            side.over.push(key);
        }
    }

    /// Hands those connections back whose calls are over and that rest.
    pub(super) fn hand_back(&mut self) {
        let Some(Side { over, .. }) = &mut self.side else { return };
        for key in std::mem::take(over) {
            let Some(slot) = self.connections.get(key) else { continue };
            let rests = slot.connection.phase() == Phase::Idle;
            if slot.upstream != NO_UPSTREAM || (rests && self.hand_over(key)) {
                continue; // it is noted again when that call is over
            }
            self.note_over(key);
        }
    }

    /// Hands a connection to the other loop. Returns whether it takes one.
    fn hand_over(&mut self, key: u64) -> bool {
        let Some(Side { other, .. }) = self.side else { return false };
        // What is about to end goes on where it is.
        let is_staying = self.obeyed.is_draining;
        let shared = Arc::clone(&self.shared);
        !is_staying && shared.hand_to(other, || self.release(key))
    }
}
