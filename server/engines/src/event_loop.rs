//! `event-loop`: SPED, the single-process event-driven server (Pai, Druschel, Zwaenepoel, "Flash",
//! USENIX 1999, §3.3; Radhakrishnan 2019, §2.1.1).
//!
//! Its essential mechanism: one thread waits for readiness of all sockets at once and never waits
//! for any of them alone. The loop is `parts/loops/reactor.rs`, which all engines of this family
//! run; they differ in how many loops there are, in threads or processes, and in whose listeners
//! and cache they use. What it leaves out: other CPUs, on which `event-loop-per-core` has loops,
//! and help with the disk, which `event-loop-helpers` has. Work on the file system runs on the
//! spot, so a file that is not in memory delays every connection; that is part of the architecture,
//! and what the others improve on.

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, Plan, SendfileMode, Start};
use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor::{self, Reactor, gateway};
use crate::parts::loops::watch::{self, EVENTS};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "event-loop",
    family: "events",
    paper: "SPED (Flash, USENIX 1999, section 3.3)",
    about: "one thread and one event set for all connections of a partition",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the loop of the client",
    moves: Moves::BetweenSteps,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

const KNOBS: &[Knob] = &[EVENTS, ACCEPTS_PER_WAKE, reactor::FILE_CHUNK_KIB, gateway::GATEWAY];

fn plan(knobs: &KnobValues, _: usize) -> Plan {
    Plan { wakeups: watch::wakeups(knobs), ..Plan::ONE }
}

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    Ok(Box::new(gateway::start(SPEC.name, start, Reactor::plain)?))
}
