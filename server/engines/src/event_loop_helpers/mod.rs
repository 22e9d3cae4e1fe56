//! `event-loop-helpers`: AMPED, the asymmetric multi-process event-driven server (Pai, Druschel,
//! Zwaenepoel, "Flash", USENIX 1999, §3.4), and what nginx calls thread pools.
//!
//! Its essential mechanism: an event loop (`parts/loops/reactor.rs`) that never waits for the disk.
//! Before it sends a file it asks the kernel whether the bytes are in memory (`socket.sendfile` is
//! `probe` unless set); if not, it has a helper fetch them, serves other connections, and sends
//! when they are there (`parts/disk/blocking_work.rs`). Helpers resolve paths and list directories,
//! too. They are threads (`parts/disk/helpers.rs`), or processes as in Flash
//! (`helper_processes.rs`).
//!
//! Like `event-loop-per-core` it has a loop on each CPU (`workers`; Flash had one). It differs in
//! that no loop waits for the disk, and that all of them accept from one listener (AMPED as an
//! extension of SYMPED): a loop that is free takes the next connection. What it leaves out: Flash's
//! mapped files; here files are sent by sendfile, and a read that does not wait (`RWF_NOWAIT`)
//! tells whether they are in memory.

mod helper_processes;
mod request;

use std::io;
use std::sync::Arc;

use crate::engine::{Engine, EngineSpec, Moves, Plan, SendfileMode, Start, WorkerStart};
use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::disk::helpers::{Help, Helpers, QUEUE_PER_HELPER, RunJob};
use crate::parts::loops::reactor::{self, Reactor};
use crate::parts::loops::watch::{self, EVENTS};
use crate::parts::loops::{Loop, LoopContext, Loops};
use helper_processes::HelperProcesses;

pub use helper_processes::run_helper_process;

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "event-loop-helpers",
    family: "events",
    paper: "AMPED (Flash, USENIX 1999, section 3.4)",
    about: "event loops on one listener; helpers fetch what is not in memory, so no loop waits",
    knobs: KNOBS,
    sendfile: &[SendfileMode::Probe, SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the loop of the client",
    moves: Moves::BetweenSteps,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

const WORKERS: Knob = Knob::number("workers", 0..=1024, 0)
    .about("event loops on the listener of a partition; 0 means one for each of its CPUs");

const HELPERS: Knob = Knob::number("helpers", 1..=1024, 4)
    .about("helpers of each loop, which wait for the disk in its place");

const KIND: Knob = Knob::choice("kind", &["threads", "processes"])
    .about("what helpers are; processes, as in Flash, cost a descriptor each");

/// The value of [`KIND`] that stands for processes.
const PROCESSES: u64 = 1;

const KNOBS: &[Knob] = &[WORKERS, HELPERS, KIND, EVENTS, ACCEPTS_PER_WAKE, reactor::FILE_CHUNK_KIB];

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let workers = knobs.workers(WORKERS.name, cpus);
    let helpers_per_worker = match knobs.get(KIND.name) {
        PROCESSES => knobs.get_usize(HELPERS.name),
        _ => 0,
    };
    let wakeups = watch::wakeups(knobs);
    Plan { workers, listeners_per_worker: false, helpers_per_worker, wakeups, ..Plan::ONE }
}

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    Ok(Box::new(Loops::start_replaceable(SPEC.name, start, make)?))
}

fn make(start: WorkerStart, loop_context: LoopContext) -> io::Result<Loop> {
    let count = loop_context.knobs.get_usize(HELPERS.name);
    let waiting_max = count * QUEUE_PER_HELPER;
    let runner = Arc::clone(&loop_context.runner);
    let run_job: RunJob = Arc::new(move |job| runner.run(job));
    let helpers: Box<dyn Help> = match loop_context.knobs.get(KIND.name) {
        PROCESSES => Box::new(HelperProcesses::start(&loop_context, count, waiting_max, run_job)?),
        _ => {
            let name = format!("helper-{}", loop_context.index);
            Box::new(Helpers::start(&name, count, waiting_max, run_job)?)
        }
    };
    Ok(Reactor::with_helpers(start, loop_context, helpers)?.into_loop())
}

#[cfg(test)]
mod tests;
