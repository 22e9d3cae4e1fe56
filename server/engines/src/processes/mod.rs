//! `processes`: a process for each connection, forked when it comes (the CERN httpd), or a pool of
//! processes forked before, with limits on the number of spare ones (Apache's prefork model;
//! Radhakrishnan 2019, §2.1.2; MP in Flash, USENIX 1999, §3.1).
//!
//! Its essential mechanism: a process serves one connection at a time, and a fault in it affects no
//! other connection. A master forks processes, counts idle ones, replaces dead ones, and, when all
//! are taken and a client waits, has the connection closed that has rested longest. The master
//! accepts if processes are forked for connections; those of a pool accept themselves. No more
//! connections are accepted than there are processes.
//!
//! It differs from the event loops in processes (`event-loop-copies`, for example) in that one
//! process has one connection and waits with it, from `threads` in that only the scoreboard is
//! shared.
//!
//! What it leaves out: sharing. A process that is forked for a connection begins with an empty
//! cache; one of a pool keeps its own, and all of them keep the same files, each in its part of the
//! memory that caches may take. It differs from Apache in two things. Sockets do not block, so that
//! a process can be made to stop listening while a client is slow. In place of Apache's mutex
//! around accept(2) an arrival wakes one process (`EPOLLEXCLUSIVE`).
//!
//! Where to read: `master.rs` decides how many processes there are, `pool.rs` forks and ends them,
//! `child.rs` is the code of one, `board.rs` is Apache's scoreboard, with the states of processes
//! and the master's commands, `note.rs` holds the master's reports on processes.

mod board;
mod calls;
mod child;
mod master;
mod note;
mod pool;

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use os::fork::{Child, Ended};

use crate::engine::{
    Engine, EngineSpec, Heir, Moves, Plan, Processes, SendfileMode, Start, Wakeups,
};
use crate::knobs::{Knob, KnobValues};
use crate::lock::lock;
use crate::orders::Order;
use board::Board;
use master::Limits;

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "processes",
    family: "processes",
    paper: "fork per connection (CERN httpd), and Apache prefork (MP in Flash, USENIX 1999)",
    about: "a process for each connection, forked for it or before it",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the process of the client",
    moves: Moves::Never("each ends in the process that has accepted it"),
    obstacle: crate::engine::runs_everywhere,
    plan,
    start,
};

const PREFORKED: Knob = Knob::number("preforked", 0..=10_000, 5)
    .about("processes forked before there are connections; 0 forks one for each connection");

const SPARE_MIN: Knob = Knob::number("spare_min", 1..=10_000, 5)
    .about("with fewer idle processes than this, more are forked; only if preforked");

const SPARE_MAX: Knob = Knob::number("spare_max", 1..=10_000, 10).about(
    "with more idle processes than this, and than spare_min, some are ended; only if preforked",
);

const PROCESSES_MAX: Knob = Knob::number("processes_max", 1..=10_000, 256)
    .about("processes of a partition at once, and so connections");

const CONNECTIONS_PER_PROCESS: Knob = Knob::number("connections_per_process", 0..=1_000_000_000, 0)
    .about(
        "connections that a process serves before another takes its place; 0 means any number; \
         only if preforked",
    );

const KNOBS: &[Knob] = &[PREFORKED, SPARE_MIN, SPARE_MAX, PROCESSES_MAX, CONNECTIONS_PER_PROCESS];

fn plan(_: &KnobValues, _: usize) -> Plan {
    let master =
        Processes { listeners_per_process: true, single_threaded: true, ..Processes::new(1) };
    // The master's processes wait exclusively.
    Plan { processes: Some(master), wakeups: Wakeups::One, ..Plan::ONE }
}

/// Forks a master for each partition. The calling process goes on to supervise the engine, and its
/// own listeners are closed.
fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    let knobs = &start.knobs;
    let most = start.connections_max.most().div_ceil(start.partitions.len().max(1));
    let limits = Limits {
        preforked: knobs.get_usize(PREFORKED.name),
        spare_min: knobs.get_usize(SPARE_MIN.name),
        spare_max: knobs.get_usize(SPARE_MAX.name).max(knobs.get_usize(SPARE_MIN.name)),
        processes_max: knobs.get_usize(PROCESSES_MAX.name).min(most).max(1),
        connections_per_process: knobs.get(CONNECTIONS_PER_PROCESS.name),
    };
    let mut masters =
        RunningMasters { masters: Vec::new(), failure: OnceLock::new(), is_ending: false };
    for partition in start.partitions {
        let board = Board::new(limits.processes_max)?;
        let (runner, copy) = (Arc::clone(&start.runner), board.clone());
        let work = move || master::run(partition, runner, limits, &copy);
        let process = Mutex::new(os::fork::fork(work)?);
        masters.masters.push(Running { process, board, notes_seen: Cell::new(0) });
    }
    Ok(Box::new(masters))
}

/// The engine in the hands of the process that started it.
struct RunningMasters {
    masters: Vec<Running>,
    failure: OnceLock<String>,
    is_ending: bool,
}

/// One master.
struct Running {
    process: Mutex<Child>,
    board: Board,
    notes_seen: Cell<u64>,
}

impl Running {
    /// The status of the master, if it has ended.
    fn ended(&self) -> Option<Ended> {
        lock(&self.process).try_wait().ok().flatten()
    }

    fn take_notes(&self) -> Vec<String> {
        let mut seen = self.notes_seen.get();
        let notes = self.board.notes_since(&mut seen);
        self.notes_seen.set(seen);
        notes
    }

    /// Why the master ended, if it should not have.
    fn failure(&self, is_ending: bool) -> Option<String> {
        let how = self.ended().filter(|how| !is_ending || *how != Ended::Exit(0))?;
        let why = self.board.failure().map_or_else(|| how.to_string(), |why| why.to_string());
        Some(format!("the master of the processes: {why}"))
    }
}

impl Engine for RunningMasters {
    fn issue(&mut self, order: Order) {
        self.is_ending |= order.is_to_end();
        self.masters.iter().for_each(|master| master.board.order(order));
    }

    /// Connections end here: they cannot go from one process to another.
    fn leave(&mut self, _: Option<Arc<dyn Heir>>) {
        self.issue(Order::Leave);
    }

    fn has_left(&self) -> bool {
        self.masters.iter().all(|master| master.board.orders.left() > 0 || master.ended().is_some())
    }

    /// Has the masters look whether there is another revision, by which the processes go that they
    /// fork. Those that serve look by themselves, and do their housekeeping before they sleep.
    fn do_housekeeping(&self) {
        self.masters.iter().for_each(|master| master.board.wake.notify());
    }

    fn failure(&self) -> Option<&str> {
        if self.failure.get().is_none()
            && let Some(why) = self.masters.iter().find_map(|one| one.failure(self.is_ending))
        {
            let _ = self.failure.set(why); // the first failure is the one that is reported
        }
        self.failure.get().map(String::as_str)
    }

    fn take_notices(&self) -> Vec<String> {
        self.masters.iter().flat_map(Running::take_notes).collect()
    }

    fn is_finished(&self) -> bool {
        self.masters.iter().all(|master| master.ended().is_some())
    }

    fn join(self: Box<Self>) -> io::Result<()> {
        for master in &self.masters {
            lock(&master.process).wait()?;
        }
        self.failure().map_or(Ok(()), |why| Err(io::Error::other(why.to_string())))
    }
}
