//! The command from the outside: its output, its exit status, and signals; real clients, other
//! servers, and machines that are short of resources.

mod accessibility;
mod beside_others;
mod browser;
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
mod printing;
mod processes;
mod report;
mod server_process;
mod servers;
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

/// Returns the signals of this list that a process started from here heeds: under nohup(1), or in
/// the background of a script, this process ignores some, and its children inherit that.
fn heeded<'n>(signals: &[(&'n str, u32)]) -> Vec<&'n str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let heeded = signals.iter().filter(|(_, number)| ignored >> (number - 1) & 1 == 0);
    heeded.map(|(name, _)| *name).collect()
}

/// Signals that end a process that does not handle them.
const ENDINGS: [(&str, u32); 4] = [("HUP", 1), ("INT", 2), ("KILL", 9), ("TERM", 15)];

/// Runs the command to its end; returns exit status, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = ropewalk(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}
