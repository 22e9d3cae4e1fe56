//! A disk that does not answer holds up neither the end of a server nor the end of a start: a
//! signal ends both in bounded time.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use testkit::stalled_disk::{Gate, StalledFile};
use testkit::{StalledDisk, Temporary, comes_true, install_script, skip, wait_until};

use crate::ctl::take_response;
use crate::killed::{TRIES, while_they_start};
use crate::processes::children;
use crate::server_process::{ROPEWALK, ServerProcess, for_each_engine, serve};
use crate::upgrade::LARGE_BYTES;

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

/// All workers that there are after some changes have the same seconds, and with them a program
/// that does not end when it is told to: a server that waited for one after the other would take
/// half a minute.
#[test]
fn all_that_hangs_at_a_stop_hangs_at_the_same_time() {
    const ENGINES: [&str; 4] = ["event-loop", "threads", "thread-pool", "event-loop-helpers"];
    let tree = Temporary::new();
    tree.file("site/index.html", "<h1>Rope</h1>");
    for name in ENGINES {
        tree.file(&format!("site/{name}"), "cold".repeat(5000));
    }
    let disk = match StalledDisk::new(tree.path()) {
        Ok(disk) => disk,
        Err(why) => return skip("a stop of several generations on a disk that hangs", &why),
    };
    let site = disk.root().join("site");
    let beside = Temporary::new();
    fs::create_dir(beside.path().join("bin")).unwrap();
    let script =
        "#!/bin/sh\ntrap '' TERM\necho $$ > \"$QUERY_STRING\"\nwhile :; do sleep 60; done\n";
    install_script(script, &beside.path().join("bin/stays"));
    let runtime = beside.path().join("run");
    let mut command = Command::new(ROPEWALK);
    command.env("RUNTIME_DIRECTORY", &runtime);
    serve(&mut command, &site).arg("--cgi-bin").arg(beside.path().join("bin"));
    command.args(["--engine", ENGINES[0], "--set", "timeouts.drain_ms=0"]);
    let mut server = ServerProcess::start(&mut command);
    assert_eq!(server.status("/"), 200);
    let told = beside.path().join("told");
    let mut clients = vec![begin(&server, &format!("/cgi-bin/stays?{}", told.display()))];
    assert!(comes_true(|| told.exists()));
    // Their attributes are in memory; their bytes are not.
    assert!(ENGINES.iter().all(|name| site.join(name).exists()));
    disk.gate().close();
    for (index, name) in ENGINES.iter().enumerate() {
        if index > 0 {
            let mut ctl = Command::new(ROPEWALK);
            let ctl = ctl.env("RUNTIME_DIRECTORY", &runtime).arg("ctl");
            let (status, _, err) =
                testkit::finished(ctl.args(["change", &format!("engine.name={name}")]));
            assert_eq!(status, 0, "{name}: {err}");
        }
        clients.push(begin(&server, &format!("/{name}")));
        assert!(comes_true(|| waiting_threads(server.pid()) > index), "{name}");
    }
    os::signals::send("TERM", &[server.pid()]);
    let has_ended = comes_true(|| !server.is_running());
    disk.gate().open();
    assert!(has_ended);
}

#[test]
fn former_workers_that_hang_are_told_of() {
    let Some(disk) = disk() else { return };
    let site = disk.root().join("site");
    let beside = Temporary::new();
    let runtime = beside.path().join("run");
    let mut command = Command::new(ROPEWALK);
    serve(command.env("RUNTIME_DIRECTORY", &runtime), &site);
    let mut server = ServerProcess::start(command.args(["--set", "timeouts.drain_ms=0"]));
    assert_eq!(server.status("/"), 200);
    fs::metadata(site.join("cold.txt")).unwrap();
    disk.gate().close();
    let waits = begin(&server, "/cold.txt");
    disk.gate().await_visitor(PATIENCE);
    let mut ctl = Command::new(ROPEWALK);
    ctl.env("RUNTIME_DIRECTORY", &runtime).args(["ctl", "change", "engine.name=threads"]);
    assert_eq!(testkit::finished(&mut ctl).0, 0);
    let told = "ropewalk: 1 sets of former workers have not ended ";
    server.wait_for_line(|line| line.starts_with(told));
    disk.gate().open();
    drop(waits);
    assert!(server.is_running());
    server.stop();
}

/// The threads of a process that wait for a disk.
fn waiting_threads(pid: u32) -> usize {
    let state = |folder: PathBuf| fs::read_to_string(folder.join("status")).unwrap_or_default();
    let states = testkit::thread_folders(pid).into_iter().map(state);
    states.filter(|state| state.contains("\nState:\tD")).count()
}

/// Begins a request on a connection of its own.
fn begin(server: &ServerProcess, target: &str) -> TcpStream {
    let mut client = server.connect();
    write!(client, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    client
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

/// Whether a process is not there any more, or has ended and its parent has not asked for its
/// status.
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

/// A site and a server by a configuration, with a download that no socket takes at once.
struct Changing {
    place: Temporary,
    server: ServerProcess,
    download: TcpStream,
}

impl Changing {
    fn start(more: &str) -> Self {
        let place = Temporary::new();
        place.file("site/large", vec![b'x'; LARGE_BYTES]);
        place.file("site/index.html", "of a");
        let file = place.file("r.toml", Self::configuration("site", more));
        let mut command = Command::new(ROPEWALK);
        command.env("RUNTIME_DIRECTORY", place.path().join("run")).args(["serve", "--config"]);
        let server = ServerProcess::start(command.arg(file));
        let download = begin(&server, "/large");
        Self { place, server, download }
    }

    fn configuration(root: &str, more: &str) -> String {
        format!("listen = [\"127.0.0.1:0\"]\n[[host]]\nroot = {root:?}\n{more}")
    }

    /// Has it reload a configuration for which it has to pass the gate of this disk, and stop
    /// meanwhile. The disk is dropped before the server, which cannot end while the gate is closed.
    fn stops_in_order<Disk>(mut self, disk: Disk, gate: fn(&Disk) -> &Gate) {
        let gate = gate(&disk);
        gate.close();
        os::signals::send("HUP", &[self.server.pid()]);
        gate.await_visitor(PATIENCE);
        os::signals::send("TERM", &[self.server.pid()]);
        self.server.wait_for_line(|line| line.contains("stopping: "));
        let head = take_response(&mut self.download);
        let length = format!("\r\nContent-Length: {LARGE_BYTES}\r\n");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(&length), "{head}");
        self.server.wait_for_line(|line| line.contains("stopped after "));
        // A thread that the kernel holds in a call ends with the call.
        gate.open();
        let (status, lines) = self.server.end();
        drop(disk);
        assert!(status.success(), "{lines:?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_read_holds_up_no_stop() {
    let changing = Changing::start("");
    let (image, file) = (changing.place.path().join("copy"), changing.place.path().join("r.toml"));
    fs::copy(&file, &image).unwrap();
    let stalled = match StalledFile::new(&image, &file) {
        Ok(stalled) => stalled,
        Err(why) => return skip("a reload whose configuration hangs", &why),
    };
    changing.stops_in_order(stalled, StalledFile::gate);
}

#[test]
fn a_site_that_cannot_be_read_holds_up_no_stop() {
    let changing = Changing::start("");
    let Some(disk) = disk() else { return };
    let site = disk.root().join("site");
    let text = Changing::configuration(site.to_str().unwrap(), "");
    fs::write(changing.place.path().join("r.toml"), text).unwrap();
    changing.stops_in_order(disk, StalledDisk::gate);
}

/// While a worker process does not start, clients have the time that they have at a stop; after
/// that the log has what was served.
#[test]
fn a_stop_during_a_change_that_hangs_loses_no_line() {
    let more =
        "[timeouts]\ndrain_ms = 300\n[log]\naccess = \"combined\"\npath = \"log\"\n".to_owned();
    let Changing { place, server, download: _download } = Changing::start(&more);
    // One process: none is ready before another.
    let change = |processes: u32| {
        let mut ctl = Command::new(ROPEWALK);
        ctl.env("RUNTIME_DIRECTORY", place.path().join("run"));
        ctl.args(["ctl", "change", "engine.name=event-loop"]);
        testkit::finished(ctl.arg(format!("engine.processes={processes}")))
    };
    let stop = |_: &[u32]| {
        for _ in 0..3 {
            assert_eq!(server.status("/"), 200, "it serves as before");
        }
        os::signals::send("TERM", &[server.pid()]);
        server.wait_for_line(|line| line.contains("the change still waits"));
    };
    let is_caught = (0..TRIES).any(|_| {
        let ask = || change(1);
        let is_caught = while_they_start(server.pid(), 1, ask, stop).is_ok();
        if !is_caught {
            assert_eq!(change(0).0, 0);
            wait_until(|| children(server.pid()).is_empty());
        }
        is_caught
    });
    assert!(is_caught, "each time the processes served already");
    let (status, lines) = server.end();
    assert_eq!(status.code(), Some(1), "{lines:?}");
    let log = fs::read_to_string(place.path().join("log")).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}{lines:?}");
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
