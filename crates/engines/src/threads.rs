//! `threads`: a kernel thread for each connection (Knot linked against NPTL instead of Capriccio:
//! Genevès 2012, §II.A; Harji 2010).
//!
//! Its essential mechanism: a connection is a straight line through calls that wait, and the
//! kernel's scheduler is the event loop. An idle connection is a thread blocked in a receive; a
//! file is sent by one call that lasts as long as the client takes, and a cold disk delays nobody
//! else. Threads are started for connections or, as the paper found better, before them. No more
//! connections are accepted than can have a thread.
//!
//! What it leaves out: small idle connections. Each keeps a thread, with its stacks in user space
//! and in the kernel; `thread-pool` parks them, and `fibers` have smaller stacks.

use std::io;

use crate::knobs::{Knob, KnobValues};
use crate::parts::acceptor::{ACCEPTS_PER_WAKE, Acceptor, Premises};
use crate::parts::blocking::{self, RECEIVE_BYTES};
use crate::parts::crew::{CrewPlan, ThreadCrew};
use crate::parts::loops::Loops;
use crate::{Engine, EngineSpec, Plan, SendfileMode, Start};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "threads",
    family: "kernel threads",
    paper: "thread per connection (Knot on NPTL: Geneves 2012, section II.A)",
    about: "a kernel thread for each connection, in calls that block",
    knobs: KNOBS,
    sendfile: &[SendfileMode::Blocking, SendfileMode::NonBlocking],
    plan,
    start,
};

const SPAWN: Knob = Knob {
    name: "spawn",
    about: "threads started before connections come, and as many spare ones kept; 0 on demand",
    min: 0,
    max: 100_000,
    default: 32,
};

const THREADS_MAX: Knob = Knob {
    name: "threads_max",
    about: "connections served at once, each by a thread; 0 means as many as may be open",
    min: 0,
    max: 1_000_000,
    default: 0,
};

const STACK_KIB: Knob = Knob {
    name: "stack_kib",
    about: "KiB of address space for a thread's stack; memory is used as far as it is touched",
    min: 64,
    max: 65_536,
    default: 128,
};

const KNOBS: &[Knob] = &[SPAWN, THREADS_MAX, STACK_KIB, ACCEPTS_PER_WAKE];

/// The one worker is the acceptor; threads share others.
fn plan(_: &KnobValues, _: usize) -> Plan {
    Plan { processes: None, workers: 1, listeners_per_worker: true }
}

fn start(mut start: Start) -> io::Result<Box<dyn Engine>> {
    let threads_max = match start.knobs.get_usize(THREADS_MAX.name) {
        0 => usize::MAX,
        most => most,
    };
    let premises = Premises::of_each(&mut start);
    let loops = Loops::start(SPEC.name, start, |worker, seat| {
        let premises = premises.borrow_mut().pop_front().expect("each partition has one worker");
        Acceptor::make(worker, &seat, premises, threads_max, |house, _| {
            let plan = CrewPlan {
                name: SPEC.name,
                spare: seat.knobs.get_usize(SPAWN.name),
                threads_max: house.connections_max(),
                yields_after_ms: None,
                stack_bytes: seat.knobs.get_usize(STACK_KIB.name) * 1024,
                buffer_bytes: RECEIVE_BYTES,
                serve: blocking::serve,
            };
            ThreadCrew::new(house, plan)
        })
    });
    Ok(Box::new(loops?))
}
