//! A disk that does not answer holds up neither the end of a server nor the end of a start: a
//! signal ends both in bounded time.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use testkit::{StalledDisk, Temporary, comes_true, skip};

use crate::processes::children;
use crate::server_process::{ROPEWALK, ServerProcess, for_each_engine, serve};

/// How long a request may take to reach the disk.
const PATIENCE: Duration = Duration::from_secs(20);

/// The line of a server that ends although workers still wait.
const LEFT: &str = "still wait";

/// A disk with a site of a page that will be in memory, and of a file that will not.
fn disk() -> Option<StalledDisk> {
    let tree = Temporary::new();
    tree.file("site/index.html", "<h1>Rope</h1>");
    tree.file("site/cold.txt", "cold".repeat(5000));
    let disk = StalledDisk::new(tree.path());
    disk.map_err(|why| skip("servers on a disk that does not answer", &why)).ok()
}

#[test]
fn a_stop_ends_while_the_disk_hangs() {
    if disk().is_none() {
        return;
    }
    for_each_engine(|arguments| {
        let Some(disk) = disk() else { return };
        let site = disk.root().join("site");
        let mut command = Command::new(ROPEWALK);
        let mut server = ServerProcess::start(serve(&mut command, &site).args(arguments));
        assert_eq!(server.status("/"), 200, "{arguments:?}");
        // The attributes of the file are in memory; its bytes are not.
        fs::metadata(site.join("cold.txt")).unwrap();
        disk.gate().close();
        let mut waits = server.connect();
        waits.write_all(b"GET /cold.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        disk.gate().await_visitor(PATIENCE);
        os::signals::send("TERM", &[server.pid()]);
        let has_ended = comes_true(|| !server.is_running());
        disk.gate().open();
        assert!(has_ended, "{arguments:?}: it waits for the disk");
        let (status, lines) = server.end();
        // Worker processes are killed, which ends what they wait for; threads cannot be.
        let says = |words: &str| lines.iter().any(|line| line.contains(words));
        let is_as_said = match status.code() {
            Some(0) => says("connections cut off") && !says(LEFT),
            Some(1) => says(LEFT),
            _ => false,
        };
        assert!(is_as_said, "{arguments:?}: {status}: {lines:?}");
    });
}

/// Worker processes whose supervisor was killed end by themselves.
#[test]
fn an_orphan_ends_while_the_disk_hangs() {
    let Some(disk) = disk() else { return };
    let site = disk.root().join("site");
    let arguments =
        ["--engine", "event-loop", "--set", "engine.processes=1", "--set", "timeouts.drain_ms=0"];
    let mut command = Command::new(ROPEWALK);
    let server = ServerProcess::start(serve(&mut command, &site).args(arguments));
    assert_eq!(server.status("/"), 200);
    let workers = children(server.pid());
    assert!(!workers.is_empty());
    fs::metadata(site.join("cold.txt")).unwrap();
    disk.gate().close();
    let mut waits = server.connect();
    waits.write_all(b"GET /cold.txt HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    disk.gate().await_visitor(PATIENCE);
    os::signals::send("KILL", &[server.pid()]);
    let have_ended = comes_true(|| workers.iter().all(|pid| has_ended(*pid)));
    disk.gate().open();
    assert!(have_ended, "they wait for the disk");
}

/// Whether a process is not there any more, or has ended and nobody has asked for its status.
fn has_ended(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("\nState:\tZ")
}

/// Starts a server whose start waits for the disk.
fn start_on_a_closed_disk(disk: &StalledDisk) -> Child {
    let site = disk.root().join("site");
    // The root itself is in memory; what is in it is not.
    fs::metadata(&site).unwrap();
    disk.gate().close();
    let mut command = Command::new(ROPEWALK);
    let command = serve(&mut command, &site).stdin(Stdio::null()).stderr(Stdio::piped());
    let child = command.args(["--engine", "event-loop"]).spawn().unwrap();
    disk.gate().await_visitor(PATIENCE);
    child
}

#[test]
fn a_start_ends_while_the_disk_hangs() {
    for name in ["TERM", "INT", "QUIT"] {
        let Some(disk) = disk() else { return };
        let mut child = start_on_a_closed_disk(&disk);
        os::signals::send(name, &[child.id()]);
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| sender.send(line).unwrap());
        });
        let first = lines.recv_timeout(PATIENCE).unwrap_or_default();
        // A thread that the kernel holds in a call ends with the call.
        disk.gate().open();
        let has_ended = comes_true(|| child.try_wait().unwrap().is_some());
        let _ = child.kill();
        reader.join().unwrap();
        assert!(first.contains("before it served"), "{name}: {first:?}");
        assert!(has_ended, "{name}: it serves");
        assert_eq!(child.wait().unwrap().code(), Some(1), "{name}");
        assert_eq!(lines.try_iter().collect::<Vec<_>>(), [""; 0], "{name}");
    }
}

/// A log that is rotated while the server starts is reopened all the same.
#[test]
fn signals_during_a_start_are_obeyed_after_it() {
    let Some(disk) = disk() else { return };
    let mut child = start_on_a_closed_disk(&disk);
    for name in ["HUP", "USR1"] {
        os::signals::send(name, &[child.id()]);
    }
    let status = format!("/proc/{}/status", child.id());
    let taken = || fs::read_to_string(&status).unwrap().contains("\nShdPnd:\t0000000000000000\n");
    let are_taken = comes_true(taken);
    disk.gate().open();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let serves = lines.next().unwrap_or_default();
    os::signals::send("TERM", &[child.id()]);
    let obeyed: Vec<String> = lines.filter(|line| line.contains(": SIG")).collect();
    assert!(child.wait().unwrap().success());
    assert!(are_taken && serves.contains("http://"), "{are_taken}: {serves:?}");
    assert_eq!(obeyed.len(), 2, "{obeyed:?}");
}
