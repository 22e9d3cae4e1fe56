//! `event-loop-per-core`: an event loop on every core, as in modern servers; the N-copy
//! architecture (Genevès 2012, §II.B) with threads in place of processes, so that the copies share
//! a cache.
//!
//! Its essential mechanism: as many event loops (`parts/loops/reactor.rs`) as CPUs, each pinned to
//! one and with its own listener, among which the kernel spreads connections (`SO_REUSEPORT`); a
//! connection never changes its loop. Loops share the second level of the cache and the count of
//! open connections; when as many are open as may be, a loop without an idle connection requests
//! the others to close one of theirs.
//!
//! It differs from `event-loop-helpers`, which has a loop on each CPU as well, in that each has a
//! listener and waits for the disk itself. What it leaves out: balance, and isolation. A loop with
//! busier connections gets no help from the others. A loop that fails is replaced, but a crash of
//! the process ends all of them; in `event-loop-copies` it ends one.

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, Plan, SendfileMode, Start};
use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor::{self, Reactor, gateway};
use crate::parts::loops::watch::{self, EVENTS};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "event-loop-per-core",
    family: "events",
    paper: "N-copy (Geneves 2012, section II.B), with threads",
    about: "one pinned event loop per CPU, each with a listener of its own",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the loop of the client",
    moves: Moves::BetweenSteps,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

const WORKERS: Knob = Knob::number("workers", 0..=1024, 0)
    .about("event loops in a partition; 0 means one for each of its CPUs");

const KNOBS: &[Knob] =
    &[WORKERS, EVENTS, ACCEPTS_PER_WAKE, reactor::FILE_CHUNK_KIB, gateway::GATEWAY];

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let workers = knobs.workers(WORKERS.name, cpus);
    Plan { workers, wakeups: watch::wakeups(knobs), ..Plan::ONE }
}

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    Ok(Box::new(gateway::start(SPEC.name, start, Reactor::plain)?))
}
