//! What the machine offers to tests: programs that may be absent.
//!
//! What is absent is said where nobody can miss it, and counted; where `CI=true` it must be there.

use std::process::{Command, Output, Stdio};

pub(crate) use testkit::{in_ci, skip};

/// Whether `program` can be run at all; if not, says so.
pub(crate) fn has(program: &str, package: &str) -> bool {
    let mut probe = Command::new(program);
    let present = probe.arg("--version").stdin(Stdio::null()).output().is_ok();
    if !present {
        skip(program, &format!("apt-get install {package}"));
    }
    present
}

/// Runs to the end: standard output and standard error, and whether the exit status was 0.
pub(crate) fn run(command: &mut Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.success(), text(stdout), text(stderr))
}
