//! `threads`: a kernel thread for each connection (Knot linked against NPTL instead of Capriccio:
//! Genevès 2012, §II.A; Harji 2010).
//!
//! Its essential mechanism: one thread accepts (`parts/kernel_threads/acceptor.rs`), and each
//! connection has a thread that drives it, with calls that wait
//! (`parts/kernel_threads/blocking.rs`); the kernel's scheduler is the event loop. The thread
//! drives the state machine of the other engines, `session::Connection`. An idle connection is a
//! thread blocked in a receive; a file is sent, by default, by one call that lasts as long as the
//! client goes on taking it, and a cold disk delays no other client. Threads are started for
//! connections or before them (`parts/kernel_threads/pool.rs`). No more connections are accepted
//! than can have a thread.
//!
//! What it leaves out: small idle connections. Each keeps a thread, with its stacks in user space
//! and in the kernel; `thread-pool` parks them, and `fibers` have smaller stacks.
//! `threads-direct` is this engine without that state machine.

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, SendfileMode, Start};
use crate::parts::kernel_threads::{blocking, thread_each};

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "threads",
    family: "kernel threads",
    paper: "thread per connection (Knot on NPTL: Geneves 2012, section II.A)",
    about: "a kernel thread for each connection, in calls that block",
    knobs: thread_each::KNOBS,
    sendfile: &[SendfileMode::Blocking, SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the thread of the client",
    moves: Moves::BetweenSteps,
    obstacle: crate::engine::runs_everywhere,
    plan: thread_each::plan,
    start,
};

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    thread_each::start(SPEC.name, start, blocking::serve)
}
