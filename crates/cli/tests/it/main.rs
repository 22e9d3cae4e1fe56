//! The command from the outside: what it prints, its exit status, and signals; real clients, other
//! servers, and machines that are short of something.

mod accessibility;
mod beside_others;
mod browser;
mod cache_study;
mod clients;
mod compare;
mod differential;
mod experiments;
mod fileset;
mod httperf_logs;
mod hung_readers;
mod lab;
mod limits;
mod load;
mod log;
mod machine;
mod peers;
mod printing;
mod processes;
mod report;
mod server_process;
mod serving;
mod shared_cpus;
mod simulate;
mod study;
mod trace;
mod trace_record;
mod tune;
mod where_it_runs;

use std::process::{Command, Output};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The command, in the root of the repository.
fn ropewalk(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk"));
    command.args(arguments).current_dir(REPOSITORY);
    command
}

/// Runs to the end: exit status, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = ropewalk(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}
