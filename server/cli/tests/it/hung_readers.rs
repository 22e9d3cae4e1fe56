//! If nothing reads the access log or standard error, requests are answered all the same, and the
//! server ends when it is stopped.

use std::fs::{File, OpenOptions, read_to_string};
use std::io::{BufRead, BufReader, ErrorKind, PipeReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::sockets::{CLOSE_WAIT, ESTABLISHED, TcpSocket, tcp_sockets};
use testkit::{Temporary, comes_true, wait_until};

use crate::ctl::take_response;
use crate::ropewalk;
use crate::server_process::for_each_engine;

/// How long a client waits for an answer until the server counts as stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// A drain time in ms that no server reaches.
const FOR_EVER: &str = "3600000";

/// A number of requests whose log lines are more than a pipe and the buffers before it hold.
const REQUESTS: usize = 300;
const LINE_BYTES: usize = 4000;

/// A server whose standard output is never read, and whose standard error is read as far as a test
/// chooses.
struct Unread {
    /// Its control socket is here.
    place: Temporary,
    child: Child,
    address: SocketAddr,
    errors: BufReader<PipeReader>,
}

impl Unread {
    fn start(engine: &[&str], drain_ms: &str) -> Self {
        let (errors, errors_end) = std::io::pipe().unwrap();
        let drain = format!("timeouts.drain_ms={drain_ms}");
        let mut command = ropewalk(&["serve", "examples/site", "--listen", "127.0.0.1:0"]);
        command.args(engine).args(["--log", "combined", "--set", &drain]);
        command.args(["--set", "log.queue_buffers_max=4"]);
        let place = Temporary::new();
        command.env("RUNTIME_DIRECTORY", place.path().join("run"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.stderr(errors_end).spawn().unwrap();
        drop(command);
        let nowhere = SocketAddr::from(([0; 4], 0));
        let errors = BufReader::new(errors);
        let mut server = Self { place, child, address: nowhere, errors };
        let line = server.line_with(" at http://");
        let (_, rest) = line.split_once(" at http://").unwrap();
        server.address = rest.split(' ').next().unwrap().parse().unwrap();
        server
    }

    /// The next line on standard error that contains `part`.
    fn line_with(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.errors.read_line(&mut line).unwrap() > 0, "no line with {part:?}");
            if line.contains(part) {
                return line;
            }
        }
    }

    /// Checks that requests with long lines in the log, sent one after the other on a few
    /// connections, are all answered.
    fn answers(&self, what: &[&str]) {
        let target = format!("/?{}", "x".repeat(LINE_BYTES));
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        for _ in 0..3 {
            let mut stream = TcpStream::connect(self.address).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            for number in 0..REQUESTS / 3 {
                stream.write_all(request.as_bytes()).unwrap();
                let mut status = [0; 15];
                let read = stream.read_exact(&mut status);
                read.unwrap_or_else(|why| panic!("{what:?}: request {number}: {why}"));
                assert_eq!(&status, b"HTTP/1.1 200 OK", "{what:?}");
                take_response(&mut stream);
            }
        }
    }

    /// Writes to standard error until it is full.
    fn fill_errors(&self) {
        // The pipe is opened anew, because the server's own open file description must stay
        // blocking.
        let path = format!("/proc/self/fd/{}", self.errors.get_ref().as_raw_fd());
        let mut end = os::files::open_appending(Path::new(&path)).unwrap();
        let refused = loop {
            if let Err(why) = end.write(&[b'.'; 512]) {
                break why.kind();
            }
        };
        assert_eq!(refused, ErrorKind::WouldBlock);
    }

    /// Fills both outputs.
    fn hang_both(&self, what: &[&str]) {
        self.answers(what);
        self.fill_errors();
    }

    /// Waits until the server has closed its connections, whose clients have gone.
    fn closes_all(&self, what: &[&str]) {
        let is_open = |socket: &TcpSocket| {
            socket.local_port == self.address.port()
                && [ESTABLISHED, CLOSE_WAIT].contains(&socket.state)
        };
        let are_closed = || !tcp_sockets().iter().any(is_open);
        assert!(comes_true(are_closed), "{what:?}: connections are still open");
    }

    fn signal(&self, name: &str) {
        os::signals::send(name, &[self.child.id()]);
    }

    /// Sends the beginning of a request, for which a server that stops waits.
    fn begin_request(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
        stream
    }

    fn ends(&mut self, what: &[&str]) {
        let ended = comes_true(|| self.child.try_wait().unwrap().is_some());
        assert!(ended, "{what:?}: it does not end");
    }

    fn ends_within_ms(&mut self, bound_ms: u64, what: &[&str]) {
        let begin_us = os::clock::now();
        self.ends(what);
        let taken_ms = (os::clock::now() - begin_us) / 1000;
        assert!(taken_ms < bound_ms, "{what:?}: it ended after {taken_ms} ms");
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill(); // the server has ended unless the test failed
        let _ = self.child.wait();
    }
}

#[test]
fn a_log_without_a_reader_holds_up_no_response_and_no_end() {
    for_each_engine(|engine| {
        // The drain time is long enough for processes that get hardly any CPU to end.
        let mut server = Unread::start(engine, "4000");
        server.answers(engine);
        server.closes_all(engine);
        server.signal("TERM");
        let line = server.line_with("stopped after");
        assert!(line.contains(" log lines dropped"), "{engine:?}: {line}");
        assert!(!line.contains("cut off"), "{engine:?}: {line}");
        server.ends(engine);
    });
}

/// Lines that were on their way are lost, and later ones are not.
#[test]
fn another_log_takes_the_place_of_one_without_a_reader() {
    for_each_engine(|engine| {
        let mut server = Unread::start(engine, "4000");
        server.answers(engine);
        let log = server.place.path().join("log");
        let mut ctl = ropewalk(&["ctl", "change", &format!("log.path={}", log.display())]);
        ctl.env("RUNTIME_DIRECTORY", server.place.path().join("run"));
        let (status, _, errors) = testkit::finished(&mut ctl);
        assert_eq!((status, &*errors), (0, ""), "{engine:?}");
        let asked = "GET /later HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let mut client = TcpStream::connect(server.address).unwrap();
        client.write_all(asked.as_bytes()).unwrap();
        client.read_to_end(&mut Vec::new()).unwrap();
        let is_there = || read_to_string(&log).unwrap().contains("\"GET /later HTTP/1.1\" 404 ");
        assert!(comes_true(is_there), "{engine:?}");
        server.signal("TERM");
        server.ends(engine);
    });
}

#[test]
fn a_second_signal_waits_for_no_log() {
    for_each_engine(|engine| {
        let mut server = Unread::start(engine, FOR_EVER);
        server.answers(engine);
        server.signal("TERM");
        server.line_with("stopping");
        server.signal("TERM");
        server.ends(engine);
    });
}

#[test]
fn standard_error_without_a_reader_holds_up_no_response_and_no_end() {
    for_each_engine(|engine| {
        let mut server = Unread::start(engine, "700");
        server.fill_errors();
        for _ in 0..3 {
            server.signal("USR2"); // the status: several lines
            server.answers(engine);
        }
        server.signal("TERM");
        server.ends(engine);
    });
}

#[test]
fn a_second_signal_waits_for_no_standard_error() {
    for_each_engine(|engine| {
        let mut server = Unread::start(engine, FOR_EVER);
        server.fill_errors();
        let _busy = server.begin_request();
        server.signal("TERM");
        wait_until(|| TcpStream::connect(server.address).is_err());
        server.signal("TERM");
        server.ends(engine);
    });
}

/// Each of the outputs has half a second beyond the time for connections. The bound is far above
/// that, because the machine may be busy, and far below any wait for a reader.
#[test]
fn a_stop_ends_while_both_outputs_hang() {
    const DRAIN_MS: u64 = 500;
    for_each_engine(|engine| {
        let mut server = Unread::start(engine, &DRAIN_MS.to_string());
        let _busy = server.begin_request();
        server.hang_both(engine);
        server.signal("TERM");
        server.ends_within_ms(DRAIN_MS + 10_000, engine);
    });
}

#[test]
fn a_second_signal_ends_a_stop_while_both_outputs_hang() {
    for_each_engine(|engine| {
        let mut server = Unread::start(engine, FOR_EVER);
        let _busy = server.begin_request();
        server.hang_both(engine);
        server.signal("TERM");
        wait_until(|| TcpStream::connect(server.address).is_err());
        server.signal("TERM");
        server.ends_within_ms(10_000, engine);
    });
}

#[test]
fn a_fifo_without_a_reader_is_one_line_and_status_1() {
    let directory = Temporary::new();
    let path = directory.path().join("log");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let set = format!("log.path={}", path.display());
    for_each_engine(|engine| {
        let mut command = ropewalk(&["serve", "examples/site", "--listen", "127.0.0.1:0"]);
        let log = ["--log", "json", "--set", &set];
        let output = command.args(engine).args(log).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{engine:?}");
        let expected = format!(
            "ropewalk: cannot open the access log {path:?}: it is a FIFO; start its reader first\n"
        );
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected, "{engine:?}");
    });
}

#[test]
fn a_fifo_with_a_reader_is_a_log() {
    let directory = Temporary::new();
    let path = directory.path().join("log");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Opened for reading and writing, so that opening does not wait for the server.
    let reader = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let set = format!("log.path={}", path.display());
    let mut command = ropewalk(&["serve", "examples/site", "--listen", "127.0.0.1:0"]);
    command.args(["--log", "combined", "--set", &set, "--engine", "event-loop"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let address = line.split_once(" at http://").unwrap().1.split(' ').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert!(first_line(&reader).contains("\"GET / HTTP/1.1\" 200 "));
    os::signals::send("TERM", &[child.id()]);
    assert!(child.wait().unwrap().success());
}

fn first_line(file: &File) -> String {
    let mut line = String::new();
    BufReader::new(file).read_line(&mut line).unwrap();
    line
}
