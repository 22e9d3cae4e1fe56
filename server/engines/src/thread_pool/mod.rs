//! `thread-pool`: a fixed number of kernel threads for all connections: Apache's worker model, and
//! with idle connections parked its event model (Radhakrishnan 2019, §3.4; the Apache HTTP Server's
//! documentation of the two). Apache has several processes of such threads; here the number of
//! processes is set for any engine (`engine.processes`), and each has a pool.
//!
//! Its essential mechanism: threads take connections from a queue. Without parking (`park_idle =
//! 0`) a connection keeps its thread from its first byte to its close, so no more are accepted than
//! there are threads and places in the queue; while one waits there, a connection that has been
//! idle for `yield_ms` is closed. With parking, the default, the accepting thread also watches all
//! connections that wait for their clients, and hands over those that are ready: a thread is needed
//! for a request, not for a client.
//!
//! What it leaves out: a thread for every connection, which `threads` has, and threads for each
//! kind of work, which `staged` has: here any thread receives, looks up and sends. A slow reader of
//! a file keeps a thread until it has the file (if sends do not block, only until its socket is
//! full: then it is parked, too), and a cold disk keeps one as well; when such connections keep all
//! threads, all others wait.

mod parking;

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, Plan, SendfileMode, Start};
use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::applications::call_pool::Bounds;
use crate::parts::kernel_threads::acceptor::{Acceptor, PartitionParts};
use crate::parts::kernel_threads::blocking::{self, RECEIVE_BYTES};
use crate::parts::kernel_threads::pool::{PoolPlan, STACK_KIB, ThreadPool};
use crate::parts::loops::Loops;
use parking::{ParkingPlan, ParkingPool};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "thread-pool",
    family: "kernel threads",
    paper: "Apache worker, and Apache event (Radhakrishnan 2019, section 3.4)",
    about: "a fixed pool of threads; idle connections are parked in an event set",
    knobs: KNOBS,
    sendfile: &[SendfileMode::Blocking, SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the thread of the client",
    moves: Moves::BetweenSteps,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

const THREADS: Knob = Knob::number("threads", 1..=100_000, 64).about("threads of a partition");

const PARK_IDLE: Knob = Knob::switch("park_idle", 1)
    .about("1 parks connections that wait for their clients; 0 lets each keep its thread");

const QUEUE: Knob = Knob::number("queue", 0..=1_000_000, 512)
    .about("connections that may wait for a thread before no more are accepted");

const YIELD_MS: Knob = Knob::number("yield_ms", 0..=3_600_000, 1000).about(
    "ms for which a connection may be idle while another waits for a thread; then it is \
     closed; not if parked",
);

const KNOBS: &[Knob] = &[THREADS, PARK_IDLE, QUEUE, YIELD_MS, STACK_KIB, ACCEPTS_PER_WAKE];

/// One worker, which is the acceptor's; threads share others.
fn plan(_: &KnobValues, _: usize) -> Plan {
    Plan::ONE
}

fn start(mut start: Start) -> io::Result<Box<dyn Engine>> {
    let knobs = start.knobs.clone();
    let (threads, queue) = (knobs.get_usize(THREADS.name), knobs.get_usize(QUEUE.name));
    let stack_bytes = knobs.get_usize(STACK_KIB.name) * 1024;
    let is_parking = knobs.get(PARK_IDLE.name) == 1;
    let partitions = start.partitions.len();
    let parts = PartitionParts::from_partitions(&mut start);
    let loops = Loops::start_replaceable(SPEC.name, start, move |worker, loop_context| {
        let parts = parts[loop_context.index].clone(); // each partition has one worker
        let limit = &loop_context.shared.connections_max;
        let bounds = Some(Bounds::of_threads(threads, limit, is_parking));
        if is_parking {
            let plan = ParkingPlan { name: SPEC.name, threads, queue, stack_bytes };
            return Acceptor::make(
                worker,
                &loop_context,
                parts,
                usize::MAX,
                bounds,
                |registry, epoll| ParkingPool::new(registry, epoll, plan),
            );
        }
        let plan = PoolPlan {
            name: SPEC.name,
            spare: threads,
            threads_max: threads,
            yields_after_ms: Some(knobs.get(YIELD_MS.name)),
            stack_bytes,
            buffer_bytes: RECEIVE_BYTES,
            serve: blocking::serve,
        };
        let connections_max = (threads + queue).saturating_mul(partitions);
        Acceptor::make(worker, &loop_context, parts, connections_max, bounds, |registry, _| {
            ThreadPool::new(registry, plan)
        })
    });
    Ok(Box::new(loops?))
}
