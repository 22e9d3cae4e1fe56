//! `threads-direct`: a kernel thread for each connection that runs the server as straight-line
//! code: read, parse, answer, write, one after the other. It is the control for `threads`.
//!
//! Its essential mechanism is that of `threads`, from the acceptor to the calls that block, with
//! that engine's parser, cache and responses. The one difference: it drives no
//! `session::Connection`. The state of a connection in the protocol is the position of its thread
//! in the code (`conversation.rs`), and its deadlines and counts are local variables. So comparing
//! the two shows what the state machine that the other engines share costs a thread, and what each
//! style of writing a server demands of its programmer.
//!
//! What it leaves out: everything but kernel threads. Code that is written here for calls that
//! block would have to be written again for every other architecture.

mod call;
mod conversation;
mod input;

use std::io;

use crate::engine::{Engine, EngineSpec, Moves, SendfileMode, Start};
use crate::parts::kernel_threads::thread_each;

pub(crate) const SPEC: EngineSpec = EngineSpec {
    name: "threads-direct",
    family: "kernel threads",
    paper: "thread per connection, without the shared state machine (a control for threads)",
    about: "a kernel thread for each connection, in straight-line code: read, parse, answer, write",
    knobs: thread_each::KNOBS,
    sendfile: &[SendfileMode::Blocking, SendfileMode::NonBlocking, SendfileMode::Off],
    applications: "the thread of the client",
    moves: Moves::Never(
        "its thread waits in a call for the client, and keeps the state on its stack",
    ),
    obstacle: crate::engine::runs_everywhere,
    plan: thread_each::plan,
    start,
};

fn start(start: Start) -> io::Result<Box<dyn Engine>> {
    thread_each::start(SPEC.name, start, conversation::serve)
}
