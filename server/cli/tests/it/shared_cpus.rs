//! On a machine with other busy processes, workers leave the CPUs that these use.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use os::cpu_list;
use testkit::{Temporary, comes_true, thread_folders};

use crate::machine::skip;
use crate::processes::children;
use crate::server_process::{ServerProcess, served};

/// Engines each of whose workers is bound to a CPU.
const ENGINES: [&str; 8] = [
    "event-loop",
    "event-loop-per-core",
    "event-loop-copies",
    "event-loop-shared-listener",
    "event-loop-shared-cache",
    "event-loop-helpers",
    "fibers",
    "rings",
];

const BODY: &str = "<h1>Rope</h1>";

/// How many threads of the server, in all of its processes, are bound to one CPU.
fn bound(server: &ServerProcess) -> usize {
    let mut processes = vec![server.pid()];
    let mut index = 0;
    while let Some(pid) = processes.get(index) {
        processes.extend(children(*pid));
        index += 1;
    }
    processes.into_iter().flat_map(thread_folders).filter(|thread| is_bound(thread)).count()
}

fn is_bound(thread: &Path) -> bool {
    let status = fs::read_to_string(thread.join("status")).unwrap_or_default(); // it may have ended
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.is_some_and(|list| list.trim().parse::<usize>().is_ok())
}

/// Sends enough requests at once to keep a worker busy for a while. Returns whether all were
/// answered.
fn request_many(stream: &mut TcpStream) -> bool {
    const COUNT: usize = 64;
    let (request, status) = ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK");
    if stream.write_all(request.repeat(COUNT).as_bytes()).is_err() {
        return false;
    }
    let (mut answers, mut buffer) = (String::new(), [0; 1 << 16]);
    while answers.matches(status).count() < COUNT || !answers.ends_with(BODY) {
        match os::uninterrupted(|| stream.read(&mut buffer)) {
            Ok(count @ 1..) => answers.push_str(&String::from_utf8_lossy(&buffer[..count])),
            _ => return false,
        }
    }
    true
}

/// Checks that the workers of an engine are no longer bound to CPUs after others spin on all CPUs
/// while clients send requests.
fn check(engine: &str, cpus: &[usize]) {
    let directory = Temporary::new();
    directory.file("index.html", BODY);
    let server = served(directory.path(), &["--engine", engine]);
    // If other processes keep the CPUs busy already, the workers may be unbound now, and are bound
    // again later.
    assert!(comes_true(|| bound(&server) > 0), "{engine}: its workers are bound");
    let is_over = AtomicBool::new(false);
    let is_on = || !is_over.load(Ordering::Relaxed);
    let have_left = thread::scope(|scope| {
        for cpu in cpus {
            scope.spawn(move || {
                os::affinity::pin_thread(&[*cpu]).unwrap();
                while is_on() {
                    std::hint::spin_loop();
                }
            });
        }
        for _ in 0..8 * cpus.len() {
            // Each client connects anew each time, because a worker without a connection has no
            // work during which to leave.
            scope.spawn(|| while is_on() && request_many(&mut server.connect()) {});
        }
        let have_left = comes_true(|| bound(&server) == 0);
        is_over.store(true, Ordering::Relaxed);
        have_left
    });
    assert!(have_left, "{engine}: {} threads are bound still", bound(&server));
    server.stop();
}

#[test]
fn workers_leave_cpus_that_others_use() {
    let cpus = os::affinity::allowed_cpus();
    if cpus.len() < 2 {
        return skip("workers that leave CPUs", "there is one CPU only");
    }
    for engine in ENGINES {
        check(engine, &cpus[..2]);
    }
}

/// By `taskset`, or by a container's cpuset: the rule of `--engine auto` chooses again, and its
/// clients stay.
#[test]
fn the_rule_follows_the_cpus_that_the_server_may_use() {
    let cpus = os::affinity::allowed_cpus();
    if cpus.len() < 2 {
        return skip("CPUs that are taken from a server", "there is one CPU only");
    }
    let directory = Temporary::new();
    directory.file("index.html", BODY);
    let server = served(directory.path(), &[]);
    let mut client = server.connect();
    assert!(request_many(&mut client));
    for (allowed, expected) in
        [(&cpus[..1], " with event-loop (1 worker "), (&cpus, " with event-loop-per-core (")]
    {
        for thread in os::accounting::threads(server.pid()) {
            let _ = os::affinity::pin_other(thread, allowed); // unless it has just ended
        }
        let line = format!("ropewalk: this process may use CPUs {} now", cpu_list::show(allowed));
        server.wait_for_line(|printed| printed == line);
        server.wait_for_line(|printed| printed.contains(expected));
        assert!(request_many(&mut client), "{line}");
    }
    server.stop();
}
