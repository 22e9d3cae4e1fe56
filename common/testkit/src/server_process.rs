//! `ropewalk serve`, started by any command that becomes it, on a free port, ended with its owner.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::response::Response;
use crate::{Client, Delivery, DocumentRoot, Suite, comes_true, runner, thread_folders};
use os::guard::Guard;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// How long a client waits for an answer until the server counts as stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running `ropewalk serve`. It is killed when dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    address: SocketAddr,
    /// The lines that the server has printed after its first.
    lines: Arc<Mutex<Vec<String>>>,
    /// The thread that appends to `lines` until the server has ended.
    reader: Option<JoinHandle<()>>,
    /// Ends the server if the tests are killed.
    guard: Option<Guard>,
}

impl ServerProcess {
    /// Starts a server of a directory from `program`, with further arguments.
    ///
    /// # Panics
    /// When it does not start; as all functions here when what they wait for does not come.
    pub fn for_directory(program: &Path, directory: &Path, arguments: &[&str]) -> Self {
        Self::start(serve(&mut Command::new(program), directory).args(arguments))
    }

    /// Starts `command`, which must end up as `ropewalk serve` in the same process.
    pub fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
        let child = command.current_dir(REPOSITORY).spawn().unwrap();
        // From here on the process ends with its owner, even if the start fails.
        let nowhere = SocketAddr::from(([0; 4], 0));
        let lines = Arc::default();
        let mut server = Self { child, address: nowhere, lines, reader: None, guard: None };
        let guard = Guard::new("kill -s KILL \"$1\"", [server.child.id().to_string()]);
        server.guard = Some(guard.unwrap_or_else(|why| panic!("no guard for the server: {why}")));
        let mut errors = BufReader::new(server.child.stderr.take().unwrap());
        server.address = address(&mut errors);
        let lines = Arc::clone(&server.lines);
        server.reader = Some(thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
        }));
        server
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address that it listens at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// A new connection, which waits for an answer for as long as a server may take.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answer to a GET over a new connection.
    pub fn fetch(&self, path: &str) -> Response {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let client = Client { address: self.address, timeout: PATIENCE };
        client.fetch(request.as_bytes()).unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    /// The status of the answer to a GET over a new connection.
    pub fn status(&self, path: &str) -> u16 {
        self.fetch(path).status
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The number of the server's open descriptors.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// How often the server's workers have gone to sleep: its threads that are named after one of
    /// these engines. A thread that ends while they are looked at is none of them.
    pub fn worker_sleeps(&self, engines: &[&str]) -> u64 {
        let read = |task: &Path, file: &str| std::fs::read_to_string(task.join(file)).ok();
        let is_worker =
            |name: &str| engines.iter().any(|e| name.starts_with(&e[..e.len().min(10)]));
        let threads = thread_folders(self.child.id()).into_iter();
        let workers = threads.filter(|task| read(task, "comm").is_some_and(|n| is_worker(&n)));
        let sleeps = workers.filter_map(|task| {
            let status = read(&task, "status")?;
            let line = status.lines().find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"));
            Some(line.unwrap().trim().parse::<u64>().unwrap())
        });
        sleeps.sum()
    }

    /// The number of the server's threads that do not preempt other threads when they wake
    /// (SCHED_BATCH).
    pub fn patient_threads(&self) -> usize {
        let threads = thread_folders(self.child.id());
        let stats =
            threads.iter().filter_map(|thread| std::fs::read_to_string(thread.join("stat")).ok());
        // The policy: 3 is SCHED_BATCH.
        stats.filter(|stat| fields(stat, 41).next() == Some("3")).count()
    }

    /// Waits until the server has printed a line that `is_it` accepts.
    #[track_caller]
    pub fn wait_for_line(&self, is_it: impl Fn(&str) -> bool) {
        let is_printed = || self.lines.lock().unwrap().iter().any(|line| is_it(line));
        assert!(comes_true(is_printed), "{:?}", self.lines.lock().unwrap());
    }

    /// The processor time that the server has used, in milliseconds.
    pub fn cpu_ms(&self) -> u64 {
        os::accounting::process(self.child.id()).unwrap().used_us / 1000
    }

    /// Stops the server in order; returns the lines that it printed after its first.
    pub fn stop(self) -> Vec<String> {
        os::signals::send("TERM", &[self.child.id()]);
        self.wait_for_end()
    }

    /// Waits until the server has ended in order; returns the lines that it printed after its
    /// first.
    pub fn wait_for_end(self) -> Vec<String> {
        let (status, lines) = self.end();
        assert!(status.success(), "{status}: {lines:?}");
        lines
    }

    /// Waits until the server has ended, in order or not; returns how, and the lines that it
    /// printed after its first.
    pub fn end(mut self) -> (ExitStatus, Vec<String>) {
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let lines = mem::take(&mut *self.lines.lock().unwrap());
        (status, lines)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The server has ended unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Last, because until here the guard must end the server if the tests are killed.
        self.guard = None;
    }
}

/// Adds the arguments of every test server: it listens on a free port of this machine, and does not
/// wait long for connections that a test has left open.
pub fn serve<'c>(command: &'c mut Command, directory: &Path) -> &'c mut Command {
    let always = ["--listen", "127.0.0.1:0", "--set", "timeouts.drain_ms=500"];
    command.arg("serve").arg(directory).args(always)
}

/// Checks that a server of `root` that `command` becomes passes the cases of the default profile.
/// `permissions_hold`: whether file permissions apply to the user that it runs as.
pub fn conforms(mut command: Command, root: &DocumentRoot, permissions_hold: bool) {
    let suite = Suite::load().unwrap();
    let profile = &suite.profiles["default"];
    let server = ServerProcess::start(serve(&mut command, &root.site()));
    let client = Client::new(server.address());
    let report = runner::run(suite, profile, &client, permissions_hold, Delivery::Whole);
    report.assert_passed("the default profile");
    assert!(report.ran > 200, "only {} cases ran", report.ran);
    server.stop();
}

/// The address in the start line; warnings may come before it.
fn address(errors: &mut BufReader<ChildStderr>) -> SocketAddr {
    let mut before = String::new();
    for line in errors.lines().map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once(" at http://") {
            let address = rest.split(' ').next().and_then(|address| address.parse().ok());
            return address.unwrap_or_else(|| panic!("{line}"));
        }
        before.push_str(&line);
    }
    panic!("no start line: {before:?}");
}

/// Sends a request for `path` and reads the head of the answer: its status, or none if the server
/// closed the connection instead.
pub fn request_status(stream: &mut TcpStream, path: &str) -> Option<u16> {
    let mut head = [0; 12];
    // If the write fails, the read fails too, so its result need not be checked.
    let _ = write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    match stream.read_exact(&mut head) {
        Ok(()) => std::str::from_utf8(&head[9..]).ok()?.parse().ok(),
        Err(why) if why.kind() == ErrorKind::WouldBlock => panic!("no answer, no close"),
        Err(_) => None,
    }
}

/// Reads until the bytes received end with `end`.
pub fn take_until(stream: &mut TcpStream, end: &[u8]) {
    let mut came = Vec::new();
    while !came.ends_with(end) {
        let mut some = [0; 4096];
        let length = os::uninterrupted(|| stream.read(&mut some)).unwrap();
        assert!(length > 0, "the server has closed: {}", String::from_utf8_lossy(&came));
        came.extend_from_slice(&some[..length]);
    }
}

/// The fields of a process or thread from number `first` on (proc_pid_stat(5)). The second field is
/// a name in parentheses, which may contain blanks.
fn fields(stat: &str, first: usize) -> impl Iterator<Item = &str> {
    let (_, from_third) = stat.rsplit_once(')').unwrap();
    from_third.split_whitespace().skip(first - 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_command_that_does_not_become_a_server_is_not_left_behind() {
        let directory = crate::Temporary::new();
        let pid = directory.path().join("pid");
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ >\"$1\"; exec sleep 60 2>/dev/null", "sh"]).arg(&pid);
        let outcome = catch_unwind(AssertUnwindSafe(|| ServerProcess::start(&mut shell)));
        assert!(outcome.is_err(), "it has printed nothing");
        let pid = std::fs::read_to_string(pid).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "{pid}");
    }
}
