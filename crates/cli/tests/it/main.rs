//! The command from the outside: its output, its exit status, and signals; real clients, other
//! servers, and machines that are short of resources.

mod beside_others;
mod cache_study;
mod clients;
mod compare;
mod differential;
mod error_log;
mod experiments;
mod fileset;
mod httperf_logs;
mod hung_readers;
mod lab;
mod limits;
mod load;
mod log;
mod machine;
mod memory;
mod other_programs;
mod printing;
mod processes;
mod report;
mod server_process;
mod servers;
mod serving;
mod shared_cpus;
mod study;
mod tune;
mod where_it_runs;

use std::process::Command;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The command, in the root of the repository.
fn ropewalk(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk"));
    command.args(arguments).current_dir(REPOSITORY);
    command
}

/// Runs the command to its end; returns exit status, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    testkit::finished(&mut ropewalk(arguments))
}
