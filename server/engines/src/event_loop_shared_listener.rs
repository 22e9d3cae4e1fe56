//! `event-loop-shared-listener`: SYMPED, the symmetric multi-process event-driven server (Pariag et
//! al., EuroSys 2007; Radhakrishnan 2019, §2.1.1); nginx and its worker processes.
//!
//! Its essential mechanism: processes that share one listener and nothing else, each an event loop
//! (`parts/loops/reactor.rs`). A process that is free accepts. With more processes than CPUs
//! (`processes`; by default there is one for each) the kernel runs another while one waits for the
//! disk. With epoll an arrival wakes one of the waiting processes (`EPOLLEXCLUSIVE`). As in nginx a
//! process that is nearly full stops accepting for a moment, and one that has accepted many goes to
//! the end of the queue of waiters (`parts/accept/gate.rs`). What it leaves out: a common cache;
//! shared-SYMPED adds it (`event-loop-shared-cache`).

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, Plan, Processes, SendfileMode, Start};
use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::accept::gate;
use crate::parts::loops::reactor::{self, Reactor, gateway};
use crate::parts::loops::watch::{self, EVENTS};
use crate::parts::process_count::{self, PROCESSES};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "event-loop-shared-listener",
    family: "events",
    paper: "SYMPED (Pariag et al., EuroSys 2007)",
    about: "processes that share one listener, each an event loop",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the loop of the client",
    moves: Moves::AtRest,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

const KNOBS: &[Knob] = &[
    PROCESSES,
    gate::ACCEPT_GATE_EIGHTHS,
    gate::REQUEUE_EVERY,
    EVENTS,
    ACCEPTS_PER_WAKE,
    reactor::FILE_CHUNK_KIB,
    gateway::GATEWAY,
];

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let processes = Processes::new(process_count::from_knobs(knobs, cpus));
    Plan { processes: Some(processes), wakeups: watch::wakeups(knobs), ..Plan::ONE }
}

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    Ok(Box::new(gateway::start(SPEC.name, start, Reactor::gated)?))
}
