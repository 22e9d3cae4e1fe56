//! `event-loop-shared-cache`: shared-SYMPED, the µServer (Pariag et al., EuroSys 2007;
//! Radhakrishnan 2019, §3.8): processes with an event loop each (`parts/loops/reactor.rs`), one
//! listener, and one cache, in memory that all of them share. Without that cache it is
//! `event-loop-shared-listener`. `event-loop-per-core` shares a cache too, but among threads, each
//! of which has a listener of its own.
//!
//! Its essential mechanism: one process stores its findings about a path (its heads, its
//! validators, a small body, and when these were last validated) in shared memory, and the others
//! take them from there, so that many processes query the file system as often as one. The paper's
//! lock is a futex; this one also survives its holder: a process that is killed at any instruction
//! leaves the cache usable, and is replaced. Each process decodes the entries that it uses into a
//! small cache of its own, so that a hit there costs what it costs in the other event loops.
//!
//! What it leaves out: the common descriptor table, in which the µServer's processes open a file
//! once for all of them. Here each process opens the larger files that it sends by itself, which
//! makes no measurable difference (docs/serve/engines.md), and the kernel closes the files of a
//! process that was killed.
//!
//! Where to read: `manager.rs` starts, orders and replaces processes, `worker_slot.rs` forks one,
//! `process.rs` is the process itself, `shared_memory.rs` the memory that all share (the cache
//! itself is `file_cache::shared`).

mod knobs;
mod manager;
mod process;
mod shared_memory;
mod worker_slot;

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, Plan, Processes, SendfileMode, Start};
use crate::knobs::KnobValues;
use crate::parts::loops::watch;
use crate::parts::process_count;
use knobs::KNOBS;
use manager::Manager;

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "event-loop-shared-cache",
    family: "events",
    paper: "shared-SYMPED (Radhakrishnan 2019, section 3.8)",
    about: "processes with an event loop each, one listener, and a cache in shared memory",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the loop of the client",
    moves: Moves::Never("its processes are copies of one, which alone is reached from outside"),
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

/// One process that the server starts, with one thread: it forks one copy of itself for each
/// worker, and manages the copies.
fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let workers = process_count::from_knobs(knobs, cpus);
    let manager = Processes { single_threaded: true, ..Processes::new(1) };
    Plan {
        processes: Some(manager),
        workers,
        wakeups: watch::wakeups(knobs),
        listeners_per_worker: false,
        ..Plan::ONE
    }
}

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    Ok(Box::new(Manager::start(SPEC.name, start)?))
}
