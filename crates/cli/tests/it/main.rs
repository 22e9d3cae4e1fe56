//! The command from the outside: what it prints, its exit status, and signals; real clients, other
//! servers, and machines that are short of something.

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

/// The signals, of these, that a process started from here would not ignore because this one does:
/// under nohup(1), or in the background of a script, some are ignored.
fn heeded<'n>(signals: &[(&'n str, u32)]) -> Vec<&'n str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let heeded = signals.iter().filter(|(_, number)| ignored >> (number - 1) & 1 == 0);
    heeded.map(|(name, _)| *name).collect()
}

/// What ends a process that does nothing about it.
const ENDINGS: [(&str, u32); 4] = [("HUP", 1), ("INT", 2), ("KILL", 9), ("TERM", 15)];

/// Runs to the end: exit status, standard output, standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = ropewalk(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}
