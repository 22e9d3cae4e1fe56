//! A kernel thread for each connection: how engines of that kind are planned and started. They
//! differ only in how a thread serves its connection.

use std::io;

use super::acceptor::{Acceptor, PartitionParts};
use super::blocking::RECEIVE_BYTES;
use super::pool::{PoolPlan, STACK_KIB, Serve, ThreadPool};
use crate::engine::{Engine, Plan, Start};
use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::Loops;

const SPAWN: Knob = Knob::number("spawn", 0..=100_000, 32)
    .about("threads started before connections come, and as many spare ones kept; 0 on demand");

pub(crate) const KNOBS: &[Knob] = &[SPAWN, STACK_KIB, ACCEPTS_PER_WAKE];

/// One worker, which is the acceptor's; threads share others.
pub(crate) fn plan(_: &KnobValues, _: usize) -> Plan {
    Plan::ONE
}

/// Starts an engine of that name, whose threads serve connections by `serve`, which returns those
/// that are to go to another engine.
pub(crate) fn start(
    name: &'static str,
    mut start: Start,
    serve: Serve,
) -> io::Result<Box<dyn Engine>> {
    let parts = PartitionParts::from_partitions(&mut start);
    let loops = Loops::start_replaceable(name, start, move |worker, loop_context| {
        let parts = parts[loop_context.index].clone(); // each partition has one worker
        Acceptor::make(worker, &loop_context, parts, usize::MAX, None, |registry, _| {
            let plan = PoolPlan {
                name,
                spare: loop_context.knobs.get_usize(SPAWN.name),
                threads_max: registry.connections_max(),
                yields_after_ms: None,
                stack_bytes: loop_context.knobs.get_usize(STACK_KIB.name) * 1024,
                buffer_bytes: RECEIVE_BYTES,
                serve,
            };
            ThreadPool::new(registry, plan)
        })
    });
    Ok(Box::new(loops?))
}
