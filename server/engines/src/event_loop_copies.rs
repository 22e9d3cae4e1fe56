//! `event-loop-copies`: N-copy, several independent event-driven servers (Harji 2010;
//! Genevès 2012, §II.B; Radhakrishnan 2019, §2.1.1).
//!
//! Its essential mechanism: processes that share nothing, not even a cache, each an event loop
//! (`parts/loops/reactor.rs`) with a listener of its own; the kernel distributes connections among
//! them (`SO_REUSEPORT`), or as in the papers each has a port of its own (`ports`) and the clients
//! choose. What it leaves out: balance, and economy. A copy with busier connections gets no help,
//! and all keep the same files in memory; `event-loop-per-core` has threads that share a cache
//! instead.

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, Plan, Processes, SendfileMode, Start};
use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::admission::ACCEPTS_PER_WAKE;
use crate::parts::loops::reactor::{self, Reactor, gateway};
use crate::parts::loops::watch::{self, EVENTS};
use crate::parts::process_count::{self, PROCESSES};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "event-loop-copies",
    family: "events",
    paper: "N-copy (Harji 2010; Geneves 2012, section II.B)",
    about: "processes that share nothing, each an event loop with its own listener",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the loop of the client",
    moves: Moves::AtRest,
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

const PORTS: Knob = Knob::switch("ports", 0)
    .about("1: each copy has ports of its own, consecutive from the configured ones");

const KNOBS: &[Knob] =
    &[PROCESSES, PORTS, EVENTS, ACCEPTS_PER_WAKE, reactor::FILE_CHUNK_KIB, gateway::GATEWAY];

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let copies = Processes::new(process_count::from_knobs(knobs, cpus));
    let own_ports = knobs.get(PORTS.name) == 1;
    let processes = Processes { listeners_per_process: true, own_ports, ..copies };
    Plan { processes: Some(processes), wakeups: watch::wakeups(knobs), ..Plan::ONE }
}

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    Ok(Box::new(gateway::start(SPEC.name, start, Reactor::plain)?))
}
