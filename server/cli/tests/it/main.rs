//! The command from the outside: its output, its exit status, and signals; real clients, and
//! machines that are short of resources.

mod cgi;
mod clients;
mod ctl;
mod error_log;
mod generated;
mod hand_overs;
mod hung_disks;
mod hung_readers;
mod killed;
mod leaving;
mod limits;
mod machine;
mod memory;
mod moving_servers;
mod other_programs;
mod paused;
mod printing;
mod processes;
mod server_process;
mod serving;
mod shared_cpus;
mod terminal;
mod tutorial;
mod upgrade;
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
