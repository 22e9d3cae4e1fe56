//! The command from the outside: its output, its exit status, and signals.

mod simulate;
mod trace;
mod trace_record;
mod tutorial;

use std::process::Command;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The command, in the root of the repository.
fn ropewalk_sim(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk-sim"));
    command.args(arguments).current_dir(REPOSITORY);
    command
}

/// Runs the command to its end; returns exit status, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    testkit::finished(&mut ropewalk_sim(arguments))
}
