//! What tests of programs share: running one to its end, and the signals that it heeds.

use std::process::{Command, Output, Stdio};

/// Signals that end a process that does not handle them.
pub const ENDINGS: [(&str, u32); 4] = [("HUP", 1), ("INT", 2), ("KILL", 9), ("TERM", 15)];

/// Returns the signals of this list that a process started from here heeds: under nohup(1), or in
/// the background of a script, this process ignores some, and its children inherit that.
///
/// # Panics
/// When /proc cannot be read.
pub fn heeded<'n>(signals: &[(&'n str, u32)]) -> Vec<&'n str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let heeded = signals.iter().filter(|(_, number)| ignored >> (number - 1) & 1 == 0);
    heeded.map(|(name, _)| *name).collect()
}

/// Runs a command to its end, without standard input; returns exit status, standard output and
/// standard error.
///
/// # Panics
/// When it cannot be started, a signal ends it, or its output is not UTF-8.
pub fn finished(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a command to its end, without standard input; returns whether its exit status was 0,
/// standard output and standard error.
///
/// # Panics
/// When it cannot be started.
pub fn succeeded(command: &mut Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.success(), text(stdout), text(stderr))
}
