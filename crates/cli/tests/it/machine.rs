//! What the machine offers to tests: programs that may be absent.
//!
//! What is absent is said where nobody can miss it, and counted; where `CI=true` it must be there.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Says that a check is left out and what it needs. Written around the capture of the test
/// harness, which would swallow it in a run that passes.
///
/// # Panics
/// In CI, which installs everything.
pub(crate) fn skip(check: &str, needs: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let line = format!("\nskipped (number {count}): {check}: needs {needs}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    assert!(!in_ci(), "CI must have it: {line}");
}

pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

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
