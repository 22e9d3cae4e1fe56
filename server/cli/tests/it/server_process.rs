//! `ropewalk serve` of this package.

use std::path::Path;

use testkit::side_by_side;

pub(crate) use testkit::server_process::{
    ServerProcess, conforms, request_status, serve, take_until,
};

pub(crate) const ROPEWALK: &str = env!("CARGO_BIN_EXE_ropewalk");

/// Arguments with which processes that get hardly any CPU have the time to end in order, however
/// busy the machine is. Nothing waits for that long unless a connection has a request under way.
pub(crate) const TIME_TO_END: [&str; 2] = ["--set", "timeouts.drain_ms=60000"];

/// Starts a server of a directory with further arguments.
pub(crate) fn served(directory: &Path, arguments: &[&str]) -> ServerProcess {
    ServerProcess::for_directory(Path::new(ROPEWALK), directory, arguments)
}

/// Runs the test for each engine that runs on this machine, and for one in several processes.
pub(crate) fn for_each_engine(test: impl Fn(&[&str]) + Sync) {
    let can_run = |spec: &&engines::EngineSpec| (spec.obstacle)().is_none();
    let names: Vec<&str> = engines::ENGINES.iter().filter(can_run).map(|it| it.name).collect();
    side_by_side(&[&names[..], &["several processes"]].concat(), |name| match *name {
        "several processes" => test(&["--engine", "event-loop", "--set", "engine.processes=3"]),
        name => test(&["--engine", name]),
    });
}
