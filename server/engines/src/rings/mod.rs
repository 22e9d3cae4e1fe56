//! `rings`: completion instead of readiness (io_uring, Axboe 2019), one ring per core; the
//! architecture that came after the papers.
//!
//! Its essential mechanism: a loop does not query which sockets are ready and then call the kernel
//! for each of them. It submits standing operations (multishot: accept on this listener, receive on
//! this socket for as long as bytes come, into any free one of the buffers provided), submits sends
//! by the dozen, and reads completions from memory: one system call for a whole turn. The loop is
//! in `ring_loop.rs`. It differs from `event-loop-per-core` only in that: there is a ring on each
//! CPU, with a listener of its own.
//!
//! What it leaves out: files, and responses of more than 4 KiB. There is no sendfile among the
//! operations, and splice always goes to kernel threads. The bytes that an operation sends have to
//! stay in place until it is over, so the ring copies them first, which is too expensive for large
//! bodies. Both are sent by calls, from the loop, on the same non-blocking socket. The loop waits
//! for the disk itself, unless it has `helpers`: these are threads that look files up in its place,
//! and with `socket.sendfile = "probe"` fetch them as well, as in `event-loop-helpers`.
//!
//! With `direct` connections are accepted into a table of the ring's own, and the ring's operations
//! use that table. Sendfile, larger bodies, a shutdown (as an operation it always goes to a kernel
//! thread) and the client's address for a log or an application need calls, for which a connection
//! gets a descriptor of the process, once, when the first of them comes.

mod accepting;
mod calls;
mod knobs;
mod leaving;
mod ring_loop;
mod socket;

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, Plan, SendfileMode, Start, Wakeups};
use crate::knobs::KnobValues;
use crate::parts::loops::Loops;

use self::knobs::{HELPERS, KNOBS, WORKERS, sizes};
use ring_loop::RingLoop;

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "rings",
    family: "completion",
    paper: "io_uring (Axboe 2019); not in the papers",
    about: "one io_uring per CPU: completions are read from memory, not asked for",
    knobs: KNOBS,
    sendfile: &[SendfileMode::NonBlocking, SendfileMode::Probe, SendfileMode::Off],
    applications: "the loop of the client",
    moves: Moves::BetweenSteps,
    obstacle,
    plan,
    start,
};

fn plan(knobs: &KnobValues, cpus: usize) -> Plan {
    let workers = knobs.workers(WORKERS.name, cpus);
    // An accept in a ring is exclusive by itself.
    let fetches = knobs.get(HELPERS.name) > 0;
    Plan { workers, wakeups: Wakeups::One, fetches, ..Plan::ONE }
}

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    os::ring::check(sizes(&start.knobs, start.connections_max.most()))
        .map_err(|why| refusal(&why))?;
    Ok(Box::new(Loops::start_replaceable(SPEC.name, start, RingLoop::make)?))
}

/// Why rings cannot run on this machine, if they cannot.
fn obstacle() -> Option<String> {
    let refused = os::ring::check(sizes(&SPEC.default_knobs(), 0)).err();
    refused.map(|why| why.to_string())
}

/// The error for operators where rings cannot run.
fn refusal(why: &io::Error) -> io::Error {
    let text = format!("{why}; event-loop-per-core serves instead: --engine event-loop-per-core");
    io::Error::new(why.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_missing_and_what_serves_instead() {
        let why = io::Error::new(io::ErrorKind::PermissionDenied, "io_uring is not permitted");
        let text = refusal(&why).to_string();
        assert!(text.starts_with("io_uring is not permitted; "), "{text}");
        assert!(text.ends_with("--engine event-loop-per-core"), "{text}");
        assert!(!text.contains('\n'));
    }
}
