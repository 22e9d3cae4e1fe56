//! `ropewalk load` from the outside: a file set and a log of it, replayed against `ropewalk serve`;
//! its messages when something is wrong, and its exit status.
//!
//! No test judges speed. The machine may be busy, so the bounds on the generator's own lag and on
//! interference are lifted in all tests that do not test them.

mod find_limit;
mod generators;
mod idle;
mod outputs;
mod side_by_side;
mod usage;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testkit::scripted::{Action, ReceivedRequest, Reply, Scripted};
use testkit::{Busy, Temporary, skip};
use workload::fileset;
use workload::request_log::{RequestLog, Template, wsesslog};

use crate::server_process::{ROPEWALK_LAB, served};
use crate::{ropewalk, run};
use testkit::ServerProcess;

/// The rate at which the log is replayed, in sessions a second, and a bound on lag that no run
/// exceeds.
const REPLAY: [&str; 4] = ["--rate", "200", "--lag-bound", "60s"];

/// A file set, a server of it, and a log of requests for its files.
struct Scene {
    directory: Temporary,
    server: ServerProcess,
    log: RequestLog,
}

impl Scene {
    fn new() -> Self {
        Self::changed(|_, _| ())
    }

    /// A scene whose file set `change` changes before the server starts.
    fn changed(change: impl FnOnce(&Path, &RequestLog)) -> Self {
        let directory = Temporary::new();
        let site = directory.path().join("site");
        let log = directory.path().join("sessions.log");
        let log = log.to_str().unwrap();
        succeeds(&["fileset", site.to_str().unwrap(), "--directories", "1"]);
        let generate = ["log", "generate", "--directories", "1", "--sessions", "100"];
        let pauses = ["--think", "0.01", "--active-think", "0.005", "--output", log];
        succeeds(&[&generate[..], &pauses].concat());
        let log = wsesslog::read(&fs::read(log).unwrap(), 0).unwrap();
        change(&site, &log);
        let server = served(&site, &[]);
        Self { directory, server, log }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// Replays the log; returns exit status, standard output and the JSON.
    fn replay(&self, arguments: &[&str]) -> (i32, String, Value) {
        let (log, url) = (self.path("sessions.log"), self.server.url(""));
        load(&self.directory, &[&[&*url, "--log", &log][..], &REPLAY, arguments].concat())
    }
}

/// Runs with `--json`; returns exit status, standard output and the JSON.
fn load(directory: &Temporary, arguments: &[&str]) -> (i32, String, Value) {
    let json = directory.path().join("outcome.json");
    let path = json.to_str().unwrap();
    let lifted = ["load", "--json", path, "--run-delay-bound", "100%"];
    let (status, out, error) = run(&[&lifted[..], arguments].concat());
    let read = read_json(&json).unwrap_or_else(|| panic!("{arguments:?}: {status} {error}"));
    fs::remove_file(json).unwrap();
    (status, out, read)
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_reader(File::open(path).ok()?).ok()
}

fn succeeds(arguments: &[&str]) {
    let (status, _, error) = run(arguments);
    assert_eq!((status, &*error), (0, ""), "{arguments:?}");
}

/// Checks that the command ends with `status` and prints a single line that contains all of
/// `parts`.
#[track_caller]
fn refuses(status: i32, arguments: &[&str], parts: &[&str]) {
    let (got, out, error) = run(&[&["load"], arguments].concat());
    assert_eq!((got, &*out), (status, ""), "{arguments:?}: {error}");
    assert!(error.starts_with("ropewalk: ") && error.lines().count() == 1, "{error:?}");
    parts.iter().for_each(|part| assert!(error.contains(part), "{part}: {error}"));
}

/// All sessions, requests in order.
fn sessions(log: &RequestLog) -> impl Iterator<Item = Vec<&Template>> {
    let template = |index: usize| &log.templates()[index];
    let session = move |index| log.session(index).iter().map(move |of| template(of.template()));
    (0..log.sessions()).map(move |index| session(index).collect())
}

/// Length of the reply to a request.
fn reply_bytes(template: &Template) -> u64 {
    fileset::File::locate(&template.uri).unwrap().bytes()
}

fn body_bytes(log: &RequestLog) -> u64 {
    sessions(log).flatten().map(reply_bytes).sum()
}

/// The number of sessions of each length, from 0.
fn lengths(log: &RequestLog) -> Vec<u64> {
    let mut counts = Vec::new();
    for session in sessions(log) {
        counts.resize(counts.len().max(session.len() + 1), 0);
        counts[session.len()] += 1;
    }
    counts
}

/// The path with the most requests, and their number.
fn most_popular(log: &RequestLog) -> (String, u64) {
    let path = |template: &Template| String::from_utf8(template.uri.to_vec()).unwrap();
    let all: Vec<String> = sessions(log).flatten().map(path).collect();
    let count = |path: &String| all.iter().filter(|other| *other == path).count() as u64;
    let popular = all.iter().max_by_key(|path| count(path)).unwrap();
    (popular.clone(), count(popular))
}

/// The text with all white space as single spaces: long lines are wrapped for people.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An address of this machine at which nothing listens.
fn unused_address() -> String {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!("http://{address}/")
}

#[test]
fn every_request_of_a_log_is_served_and_verified() {
    let scene = Scene::new();
    let (status, out, json) = scene.replay(&["--verify", "bytes"]);
    assert_eq!(status, 0, "{out}");
    let (sessions, requests) = (scene.log.sessions(), scene.log.requests());
    assert!(out.contains(&format!("{requests} due: {requests} served (100.00 %)")), "{out}");
    let counts = &json["counts"];
    assert_eq!(counts["sessions_completed"], sessions);
    assert_eq!((&counts["requests"], &counts["replies"]), (&requests.into(), &requests.into()));
    assert_eq!(counts["connections"], sessions);
    assert_eq!(counts["body_bytes"], body_bytes(&scene.log));
    assert_eq!(counts["status"][2], requests);
    assert_eq!(json["times"]["corrected"]["count"], requests);
    assert_eq!(json["times"]["session"]["count"], sessions);
    assert_eq!(json["replies_per_session"], Value::from(lengths(&scene.log)));
    assert!(json["errors"].as_object().unwrap().values().all(|count| count == 0));
    assert_eq!(json["setting"]["verify"], "bytes");
    assert_eq!(json["interrupted"], false);
    let stopped = scene.server.stop().pop().unwrap();
    let served = format!("stopped after {requests} requests on {sessions} connections");
    assert!(stopped.ends_with(&served), "{stopped}");
}

/// Time that other processes take would be measured as the server's.
#[test]
fn a_run_beside_busy_loops_is_void_and_says_why() {
    if os::process::run_delay_of_thread().is_none() {
        return skip("a run beside busy loops", "the kernel keeps no schedstat");
    }
    let directory = Temporary::new();
    directory.file("site/index.html", "<h1>Rope</h1>");
    let server = served(&directory.path().join("site"), &[]);
    let bound_to = |cpu| move || os::affinity::pin_thread(&[cpu]).unwrap();
    let cpus = os::affinity::allowed_cpus();
    let _loops = Busy::after([&*cpus, &*cpus].concat().into_iter().map(bound_to));
    let (status, out, error) = run(&["load", &server.url("/"), "-c", "8", "--duration", "1s"]);
    assert_eq!(status, 3, "{out}{error}");
    assert!(
        unwrapped(&out).contains("other processes made the generator's threads wait for a CPU for"),
        "{out}"
    );
}

/// A name may have several addresses, of which the first that accepts is used.
#[test]
fn localhost_is_found_whatever_address_the_server_has() {
    let server = Scripted::always(os::clock::now, &Reply::ok(b"rope"));
    let url = format!("http://localhost:{}/", server.address().port());
    let (status, out, _) = load(&Temporary::new(), &[&url, "--sessions", "5"]);
    assert!(status == 0 && out.contains("5 due: 5 served"), "{out}");
}

#[test]
fn a_wrong_byte_ends_the_run_and_is_shown() {
    const OFFSET: u64 = 57;
    let (mut path, mut right) = (String::new(), [0]);
    let scene = Scene::changed(|site, log| {
        path = most_popular(log).0;
        let name = site.join(path.trim_start_matches('/'));
        let file = OpenOptions::new().read(true).write(true).open(name).unwrap();
        file.read_exact_at(&mut right, OFFSET).unwrap();
        file.write_all_at(&[right[0] ^ 1], OFFSET).unwrap();
    });
    let (status, out, json) = scene.replay(&["--verify", "bytes"]);
    assert_eq!(status, 1, "{out}");
    let bad = json["first_bad"].as_str().unwrap();
    let differs = format!("byte {OFFSET} is {:#04x} instead of {:#04x}", right[0] ^ 1, right[0]);
    assert!(bad.contains(&path) && bad.contains(&differs), "{bad}");
    assert_eq!(bad.lines().count(), 1, "{bad}");
    assert!(unwrapped(&out).contains(bad), "{out}");
    assert!(json["errors"]["bad_bytes"].as_u64() >= Some(1), "{out}");
    let due = &json["figures"]["requests_due"];
    assert!(due.as_u64() < Some(scene.log.requests() as u64), "{due}: the run went on");
}

#[test]
fn a_wrong_byte_goes_unnoticed_where_only_lengths_are_verified() {
    let scene = Scene::changed(|site, log| {
        let path = most_popular(log).0;
        let name = site.join(path.trim_start_matches('/'));
        let file = OpenOptions::new().write(true).open(name).unwrap();
        file.write_all_at(b"\0", 57).unwrap();
    });
    let (status, out, json) = scene.replay(&["--verify", "length"]);
    assert_eq!((status, &json["first_bad"]), (0, &Value::Null), "{out}");
}

#[test]
fn a_missing_file_is_a_bad_status() {
    let mut missing = 0;
    let scene = Scene::changed(|site, log| {
        let (path, count) = most_popular(log);
        fs::remove_file(site.join(path.trim_start_matches('/'))).unwrap();
        missing = count;
    });
    let (status, out, json) = scene.replay(&["--verify", "bytes"]);
    assert_eq!((status, &json["errors"]["bad_status"]), (1, &missing.into()), "{out}");
    assert_eq!(json["counts"]["status"][4], missing, "{out}");
    assert_eq!(json["counts"]["requests"], scene.log.requests(), "sessions go on");
    assert!(unwrapped(&out).contains(&format!("bad_status {missing} ")), "{out}");
}

#[test]
fn a_server_that_is_not_there_is_refused_and_explained() {
    let directory = Temporary::new();
    let closed = ["--connections", "2", "--sessions", "10"];
    let open = ["--rate", "100", "--sessions", "10", "--lag-bound", "60s"];
    for arguments in [&closed[..], &open] {
        let (status, out, json) = load(&directory, &[&[&*unused_address()], arguments].concat());
        assert_eq!((status, &json["errors"]["refused"]), (1, &10.into()), "{out}");
        assert_eq!(json["counts"]["replies"], 0, "{out}");
        let explained = "refused 10 nothing listens there, or its backlog was full";
        assert!(unwrapped(&out).contains(explained), "{out}");
    }
}

#[test]
fn a_generator_that_is_late_makes_the_run_void() {
    let scene = Scene::new();
    let url = scene.server.url("/dir00000/class0_1");
    let arguments = [&url, "--rate", "200", "--duration", "300ms", "--lag-bound", "1us"];
    let (status, out, json) = load(&scene.directory, &arguments);
    assert_eq!(status, 3, "{out}");
    assert!(out.contains("\nVOID: THIS RUN SAYS NOTHING ABOUT THE SERVER\n"), "{out}");
    let reasons = json["void"].as_array().unwrap();
    assert_eq!(reasons.len(), 1, "{out}");
    let reason = reasons[0].as_str().unwrap();
    assert!(
        reason.starts_with("generator saturated: its own lag is") && reason.contains("0.001 ms"),
        "{reason}"
    );
    assert!(unwrapped(&out).contains(reason), "{out}");
    assert_eq!(json["figures"]["exit_code"], 3);
    // With --quiet nothing but the status shows the result.
    let quiet = [&["load", "--quiet", "--run-delay-bound", "100%"], &arguments[..]].concat();
    assert_eq!(run(&quiet), (3, String::new(), String::new()));
}

/// All clients have connected, or failed to, long before the first reply comes.
#[test]
fn without_descriptors_the_run_is_void_and_the_limit_is_named() {
    const DESCRIPTORS: u64 = 64;
    const CLIENTS: u64 = 200;
    let directory = Temporary::new();
    let reply = Reply::ok(b"rope").bytes();
    let script = move |_: &ReceivedRequest| {
        vec![Action::Wait(Duration::from_secs(2)), Action::Send(reply.clone())]
    };
    let server = Scripted::start(os::clock::now, script);
    let json = directory.path().join("outcome.json");
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -n {DESCRIPTORS}; exec \"$@\"");
    shell.args(["-c", &limited, "sh", ROPEWALK_LAB, "load", "--json"]).arg(&json);
    let clients = CLIENTS.to_string();
    shell.args(["--connections", &clients, "--sessions", &clients]);
    let output = shell.arg(format!("http://{}/", server.address())).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{out}");
    let json = read_json(&json).unwrap();
    let failed = json["errors"]["out_of_descriptors"].as_u64().unwrap();
    let served = json["counts"]["replies"].as_u64().unwrap();
    assert!(0 < served && served < DESCRIPTORS, "{out}");
    assert_eq!(served + failed, CLIENTS, "{out}");
    let hint = format!("raise the limit with `ulimit -n` (it was {DESCRIPTORS})");
    assert!(unwrapped(&out).contains(&hint), "{out}");
    assert!(out.contains("VOID: THIS RUN SAYS NOTHING ABOUT THE SERVER"), "{out}");
    assert_eq!(json["setting"]["descriptors_max"], DESCRIPTORS);
}

/// A run that waits for a start time need not get one: Ctrl-C ends it.
#[test]
fn a_run_that_waits_for_its_start_time_can_be_interrupted() {
    for signal in ["INT", "TERM"] {
        let mut command = ropewalk(&["load", "http://127.0.0.1:1/", "--start-at", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        child.stdin.as_mut().unwrap().write_all(b"17").unwrap(); // less than a line
        let kill = format!("kill -s {signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(4), "{error}");
        assert!(error.contains("--start-at -: interrupted before"), "{error}");
    }
}

/// A server that does not answer on connections that are to rest does not hold an interrupt up.
#[test]
fn a_run_that_waits_for_its_idle_connections_can_be_interrupted() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let mut command = ropewalk(&["load", &url, "--idle", "2", "--timeout", "1000s"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let _connection = silent.accept().unwrap(); // the signals are blocked by now
    let kill = format!("kill -s INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{error}");
    assert!(error.contains("--idle: interrupted before"), "{error}");
}

/// The caller that gave the start time may inspect the server before the idle connections are
/// closed.
#[test]
fn a_run_that_was_given_its_start_time_ends_when_it_is_released() {
    let scene = Scene::new();
    let json = PathBuf::from(scene.path("outcome.json"));
    let mut command = ropewalk(&["load", &scene.server.url("/dir00000/class0_1"), "-q"]);
    command.args(["--start-at", "-", "--connections", "1", "--duration", "50ms", "--idle", "3"]);
    command.arg("--json").arg(&json).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let (seconds, _) = os::clock::unix_time();
    child.stdin.as_mut().unwrap().write_all(format!("{seconds}\n").as_bytes()).unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "measured");
    std::thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none() && !json.exists(), "it keeps its idle connections");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().code().is_some());
    assert_eq!(read_json(&json).unwrap()["counts"]["idle_connections"], 3);
}

/// A run that SIGINT interrupts shows what it has: a shell sends the same signal at Ctrl-C.
#[test]
fn an_interrupted_run_shows_what_it_has() {
    let scene = Scene::new();
    let url = scene.server.url("/dir00000/class0_1");
    let json = PathBuf::from(scene.path("outcome.json"));
    let mut command = ropewalk(&["load", &url, "--rate", "50", "--duration", "100s"]);
    command.args(["--interval", "100ms", "--lag-bound", "60s"]);
    command.args(["--run-delay-bound", "100%", "--json"]).arg(&json);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    for _ in 0..3 {
        progress.read_line(&mut line).unwrap(); // the run is under way
    }
    let interrupted_us = os::clock::now();
    let kill = format!("kill -s INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    progress.read_to_string(&mut line).unwrap();
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let status = child.wait().unwrap();
    let took_us = os::clock::now() - interrupted_us;
    assert!(took_us < 50_000_000, "{took_us} us of the 100 s that it would have gone on");
    assert_eq!(status.code(), Some(4), "{line}{out}");
    assert!(out.contains("Interrupted: these are the results so far."), "{out}");
    let json = read_json(&json).unwrap();
    assert_eq!(json["interrupted"], true);
    let replies = json["counts"]["replies"].as_u64().unwrap();
    assert!((1..50 * 100).contains(&replies), "{out}");
    assert_eq!(json["times"]["corrected"]["count"], replies);
    let window_us = json["window_us"].as_u64().unwrap();
    assert!((200_000..100_000_000).contains(&window_us), "{window_us}");
}
