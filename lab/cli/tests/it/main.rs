//! The command from the outside: its output, its exit status, and signals; real clients and other
//! servers.

mod beside_others;
mod cache_study;
mod compare;
mod differential;
mod documentation;
mod experiments;
mod fileset;
mod httperf_logs;
mod lab;
mod load;
mod log;
mod machine;
mod printing;
mod report;
mod server_process;
mod servers;
mod study;
mod terminal;
mod tune;

use std::process::Command;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The command, in the root of the repository. The server is beside it, built as the tests are.
fn ropewalk(arguments: &[&str]) -> Command {
    server_process::ropewalk_server();
    let mut command = Command::new(server_process::ROPEWALK_LAB);
    command.args(arguments).current_dir(REPOSITORY);
    command
}

/// Runs the command to its end; returns exit status, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    testkit::finished(&mut ropewalk(arguments))
}
