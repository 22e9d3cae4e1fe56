//! A kernel thread for each connection: what engines of that kind are started with. They differ in
//! how a thread serves its connection, which is theirs to say.

use std::io;

use super::acceptor::{ACCEPTS_PER_WAKE, Acceptor, PartitionParts};
use super::blocking::RECEIVE_BYTES;
use super::crew::{CrewPlan, STACK_KIB, Serve, ThreadCrew};
use crate::engine::{Engine, Plan, Start};
use crate::knobs::{Knob, KnobValues, Values};
use crate::parts::loops::Loops;

const SPAWN: Knob = Knob {
    name: "spawn",
    about: "threads started before connections come, and as many spare ones kept; 0 on demand",
    values: Values::Numbers { min: 0, max: 100_000 },
    default: 32,
};

const THREADS_MAX: Knob = Knob {
    name: "threads_max",
    about: "connections served at once, each by a thread; 0 means as many as may be open",
    values: Values::Numbers { min: 0, max: 1_000_000 },
    default: 0,
};

pub(crate) const KNOBS: &[Knob] = &[SPAWN, THREADS_MAX, STACK_KIB, ACCEPTS_PER_WAKE];

/// The one worker is the acceptor; threads share others.
pub(crate) fn plan(_: &KnobValues, _: usize) -> Plan {
    Plan::ONE
}

/// Starts an engine of that name, whose threads serve connections in this way.
pub(crate) fn start(
    name: &'static str,
    mut start: Start,
    serve: Serve,
) -> io::Result<Box<dyn Engine>> {
    let threads_max = match start.knobs.get_usize(THREADS_MAX.name) {
        0 => usize::MAX,
        most => most,
    };
    let parts = PartitionParts::of_each(&mut start);
    let loops = Loops::start_replaceable(name, start, move |worker, seat| {
        let parts = parts[seat.index].clone(); // each partition has one worker
        Acceptor::make(worker, &seat, parts, threads_max, |registry, _| {
            let plan = CrewPlan {
                name,
                spare: seat.knobs.get_usize(SPAWN.name),
                threads_max: registry.connections_max(),
                yields_after_ms: None,
                stack_bytes: seat.knobs.get_usize(STACK_KIB.name) * 1024,
                buffer_bytes: RECEIVE_BYTES,
                serve,
            };
            ThreadCrew::new(registry, plan)
        })
    });
    Ok(Box::new(loops?))
}
