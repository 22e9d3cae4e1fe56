//! `ropewalk trace record` from the outside: how it ends, and what it leaves behind.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use testkit::Temporary;

use crate::{ropewalk, run};

/// Starts to record a command that does not end by itself.
fn started(folder: &Temporary) -> Child {
    let out = folder.path().join("trace");
    let mut command = ropewalk(&["trace", "record", "--out", out.to_str().unwrap()]);
    command.arg("--scratch").arg(folder.path()).args(["--", "sleep", "600"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What is in the folder of records, once something is, and that folder.
fn first_chunk(folder: &Path) -> (PathBuf, String) {
    let look = || {
        let entries = std::fs::read_dir(folder).ok()?;
        let paths = entries.map(|entry| entry.unwrap().path());
        let records = paths.filter(|path| path.to_string_lossy().contains("ropewalk-trace-"));
        let records = records.last()?;
        let names = std::fs::read_dir(&records).ok()?;
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        Some((records, names.filter(|name| name.ends_with("-0.0")).last()?))
    };
    (0..2400).find_map(|_| look().or_else(|| rest(25))).expect("something is recorded")
}

fn rest<T>(ms: u64) -> Option<T> {
    thread::sleep(Duration::from_millis(ms));
    None
}

fn signal(name: &str, pid: u32) {
    let status = std::process::Command::new("sh")
        .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn an_interrupt_ends_the_command_and_the_trace_is_whole() {
    let folder = Temporary::new();
    let child = started(&folder);
    first_chunk(folder.path());
    signal("INT", child.id());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("\n1 processes, "), "{said}");
    assert!(said.contains("the command ended with signal: 15"), "{said}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "the trace only: {left:?}");
}

#[test]
fn a_recorder_that_is_killed_leaves_nothing_behind() {
    let folder = Temporary::new();
    let mut child = started(&folder);
    let (records, chunk) = first_chunk(folder.path());
    let pid = chunk.split('-').next().unwrap().to_owned();
    signal("KILL", child.id());
    child.wait().unwrap();
    let until = |done: &dyn Fn() -> bool| (0..800).any(|_| done() || rest::<()>(25).is_some());
    assert!(until(&|| !records.exists()), "{}", records.display());
    // Who is dead has no arguments, also while nobody has waited for it.
    let arguments = Path::new("/proc").join(pid).join("cmdline");
    assert!(until(&|| std::fs::read(&arguments).unwrap_or_default().is_empty()));
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let (status, _, said) = run(&["trace", "record", "--out", "x", "--recipe", "nonsense"]);
    assert_eq!((status, said.lines().count()), (2, 1), "{said}");
    assert!(said.contains("no recipe nonsense: there are nginx, "), "{said}");
    let (status, _, said) = run(&["trace", "record", "--out", "x"]);
    assert_eq!(status, 2, "{said}");
}
