//! The server from the outside: configuration texts, and servers on sockets of this machine.

mod applications;
mod config;
mod conformance;
mod documentation;
mod downloads;
mod far_ahead;
mod fibers;
mod freshness;
mod handed_out;
mod helper_processes;
mod in_memory;
mod kernel_threads;
mod knobs;
mod listing;
mod modes;
mod open_files;
mod overload;
mod processes;
mod rings;
mod serving;
mod shared_cache;
mod staged;
mod stopping;
mod tasks;
mod under_test;
mod uploads;

use engines::EngineSpec;
use under_test::{engines, knobs};

/// Runs `test` for every engine under test, several at a time.
fn for_each_engine(test: impl Fn(&'static EngineSpec) + Sync) {
    let names: Vec<&str> = engines().iter().map(|spec| spec.name).collect();
    testkit::side_by_side(&names, |name| test(engines::find(name).expect("it was just listed")));
}
