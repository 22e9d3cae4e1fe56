//! `ropewalk serve` as a process: its output, its signals, its end.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::server_process::ROPEWALK;
use crate::{REPOSITORY, ropewalk};

/// A server of `examples/site` on a free port.
struct Serving {
    child: Child,
    errors: Lines<BufReader<ChildStderr>>,
    address: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut command = ropewalk(&["serve", "examples/site", "--listen", "127.0.0.1:0"]);
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = errors.next().expect("a start line").unwrap();
        let (_, rest) = line
            .split_once("ropewalk: serving examples/site at http://")
            .unwrap_or_else(|| panic!("{line}"));
        let address = rest.split(' ').next().unwrap().to_string();
        assert!(rest.contains(" with event-loop"), "{line}");
        let port = address.rsplit(':').next().unwrap();
        let hint = errors.next().expect("a hint").unwrap();
        let expected = "ropewalk: only this machine can connect: --listen";
        assert_eq!(hint, format!("{expected} :{port} lets others"));
        Self { child, errors, address }
    }

    /// The next line on standard error.
    fn line(&mut self) -> String {
        self.errors.next().expect("a line").unwrap()
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = self.connect();
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = Vec::new();
        stream.read_to_end(&mut response).unwrap();
        String::from_utf8_lossy(&response).into_owned()
    }

    /// Waits for the end; returns the exit status and the output on standard output.
    fn wait_for_end(&mut self) -> (i32, String) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (self.child.wait().unwrap().code().unwrap(), out)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill(); // the server has ended unless the test failed
    }
}

#[test]
fn it_serves_logs_and_stops() {
    let mut serving = Serving::start(&["--log", "combined"]);
    assert!(serving.get("/").starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(serving.get("/no%20such").starts_with("HTTP/1.1 404 "));
    serving.signal("TERM");
    assert_eq!(serving.line(), "ropewalk: stopping: connections have 10 s to finish");
    assert_eq!(serving.line(), "ropewalk: stopped after 2 requests on 2 connections");
    let (status, out) = serving.wait_for_end();
    assert_eq!(status, 0);
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_by_key(|line| line.contains(" 404 "));
    assert_eq!(lines.len(), 2, "{out}");
    assert!(lines[0].contains("] \"GET / HTTP/1.1\" 200 "), "{out}");
    assert!(lines[1].contains("] \"GET /no%20such HTTP/1.1\" 404 "), "{out}");
}

#[test]
fn a_hang_up_is_answered_and_survived() {
    let mut serving = Serving::start(&[]);
    serving.signal("HUP");
    let line = serving.line();
    assert!(line.starts_with("ropewalk: SIGHUP: serving examples/site at "), "{line}");
    serving.signal("USR1");
    assert_eq!(serving.line(), "ropewalk: SIGUSR1: there is no access log to reopen");
    assert!(serving.get("/").starts_with("HTTP/1.1 200 OK\r\n"));
    serving.signal("INT");
    assert_eq!(serving.wait_for_end().0, 0);
}

/// The reasons for the engine are for experts: they are printed when asked for.
#[test]
fn it_says_why_when_asked() {
    let reasons = |serving: &mut Serving| {
        for _ in 0..3 {
            let reason = serving.line();
            assert!(reason.starts_with("ropewalk: auto: "), "{reason}");
        }
    };
    for flag in ["-v", "--verbose"] {
        reasons(&mut Serving::start(&[flag]));
    }
    let mut serving = Serving::start(&[]);
    serving.signal("USR2");
    let line = serving.line();
    assert!(line.starts_with("ropewalk: serving examples/site at http://"), "{line}");
    reasons(&mut serving);
    serving.signal("TERM");
    assert_eq!(serving.wait_for_end().0, 0);
}

/// Where a server listens that was passed its sockets is for others to change.
#[test]
fn a_passed_socket_is_served_without_advice() {
    const SCRIPT: &str = "exec 3<&0; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$0\" \"$@\"";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", SCRIPT, ROPEWALK, "serve", "examples/site"]).current_dir(REPOSITORY);
    shell.stdin(OwnedFd::from(listener)).stderr(Stdio::piped());
    let mut child = shell.stdout(Stdio::piped()).spawn().unwrap();
    let errors = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut serving = Serving { child, errors, address: address.to_string() };
    let line = serving.line();
    let expected = format!("ropewalk: serving examples/site at http://{address} with ");
    assert!(line.starts_with(&expected), "{line}");
    assert!(serving.get("/").starts_with("HTTP/1.1 200 OK\r\n"));
    serving.signal("TERM");
    assert_eq!(serving.line(), "ropewalk: stopping: connections have 10 s to finish");
    assert_eq!(serving.wait_for_end().0, 0);
}

#[test]
fn a_second_signal_cuts_off() {
    let mut serving = Serving::start(&["--set", "timeouts.drain_ms=3600000"]);
    let mut busy = serving.connect();
    // A head that never ends is a request under way.
    busy.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n").unwrap();
    let mut large = serving.connect();
    large.write_all(LARGE_REQUESTS.repeat(200).as_bytes()).unwrap();
    serving.signal("TERM");
    assert_eq!(serving.line(), "ropewalk: stopping: connections have 3600 s to finish");
    serving.signal("TERM");
    assert!(serving.line().starts_with("ropewalk: stopped after "));
    assert_eq!(serving.wait_for_end().0, 0);
}

/// A request whose repetitions get more than the kernel's buffers hold.
const LARGE_REQUESTS: &str = "GET /downloads/strands.csv HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn a_port_in_use_is_one_line_and_status_1() {
    let first = Serving::start(&[]);
    let (_, port) = first.address.rsplit_once(':').unwrap();
    let output = ropewalk(&["serve", "examples/site", "--port", port]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "ropewalk: cannot listen on {}: another program listens there: stop it, or choose another \
         --port or --listen\n",
        first.address
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    first.signal("TERM");
}

/// The project's limit is 6 MB resident at start. Most of it are pages of the program that the
/// kernel maps along with the pages in use; the server's own memory is far less.
#[test]
fn it_starts_small() {
    let serving = Serving::start(&[]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    };
    // A debug build has three times as much code, and as many more addresses that are resolved at
    // start.
    let (resident_max, own_max) =
        if cfg!(debug_assertions) { (20_000, 2500) } else { (6000, 1500) };
    let (resident, own) = (kib("VmRSS:"), kib("RssAnon:"));
    assert!(resident < resident_max, "{resident} KiB are resident in {REPOSITORY}");
    assert!(own < own_max, "{own} KiB are the server's own in {REPOSITORY}");
    serving.signal("TERM");
}
