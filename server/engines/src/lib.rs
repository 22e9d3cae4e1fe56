//! Every concurrency architecture as an engine. All but one drive the same
//! [`session::Connection`]s, so that two of them differ in concurrency and in what goes with it:
//! how files are sent (`sendfile` in the row) and which workers share a cache. The exception is
//! `threads-direct`, the control for what that state machine costs.
//!
//! [`ENGINES`] is the one table that lists them; help, documentation, tests and benchmarks are
//! driven by it. An engine is one file, or a folder with a `mod.rs`, with a fixed outline: its row
//! (`SPEC`), `plan` (how many workers, whose listeners), `start`. Its head comment names the
//! architecture, its essential mechanism, and what the engine leaves out, which is mostly what a
//! related engine has. Code that two or more engines share is in `parts`: no engine imports
//! another.
//!
//! Terms that all engines use: a *partition* is a set of CPUs with its own workers, listeners and
//! cache. A *worker* is what a thread answers requests with: clock, cache, log and counters. A
//! *job* is work on the file system, which may block ([`jobs`]). To *rest* is to be idle between
//! two requests, to *drain* to finish the response under way and close.

mod engine;
mod event_loop;
mod event_loop_copies;
mod event_loop_helpers;
mod event_loop_per_core;
mod event_loop_shared_cache;
mod event_loop_shared_listener;
mod fibers;
mod former_knobs;
#[cfg(test)]
mod idle;
pub mod jobs;
mod knobs;
mod lock;
mod open_files;
mod orders;
mod parts;
mod processes;
mod rings;
mod staged;
mod tasks;
mod thread_pool;
mod threads;
mod threads_direct;

pub use engine::{
    BACKLOG_MAX, ConnectionLimit, Engine, EngineSpec, Handed, Heir, MakeWorker, Moves,
    PartitionStart, Plan, Processes, SendfileMode, Start, StartHelper, Wakeups, WorkerStart,
    no_helper_processes,
};
pub use event_loop_helpers::run_helper_process;
pub use former_knobs::{FORMER_KNOBS, FormerKnob, Now};
pub use knobs::{Knob, KnobValues, Values};
pub use open_files::{Caretaker, OpenFiles};
pub use orders::{Order, Orders};
pub use parts::failures::{Failures, Replacement};

/// The engines, the default first.
pub static ENGINES: &[EngineSpec] = &[
    event_loop_per_core::SPEC,
    event_loop::SPEC,
    event_loop_helpers::SPEC,
    threads::SPEC,
    threads_direct::SPEC,
    thread_pool::SPEC,
    event_loop_copies::SPEC,
    event_loop_shared_listener::SPEC,
    event_loop_shared_cache::SPEC,
    processes::SPEC,
    staged::SPEC,
    fibers::SPEC,
    tasks::SPEC,
    rings::SPEC,
];

/// Finds the engine of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static EngineSpec> {
    ENGINES.iter().find(|spec| spec.name == name)
}
