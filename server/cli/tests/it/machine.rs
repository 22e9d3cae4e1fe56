//! The programs and privileges that tests need and that a machine may lack.
//!
//! A missing one is reported prominently, and counted; where `CI=true` it must not be missing.

use std::process::{Command, Output, Stdio};

pub(crate) use testkit::{has, skip};

/// Runs the command to its end; returns whether the exit status was 0, standard output and standard
/// error.
pub(crate) fn run(command: &mut Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.success(), text(stdout), text(stderr))
}
