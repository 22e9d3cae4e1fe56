//! The engines of kernel threads and of processes with their knobs set: the tests of every engine
//! hold for each setting.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use server::Server;
use testkit::{side_by_side, wait_until};

use crate::harness::connect;
use crate::knobs::{every_case_holds, with_knobs};
use crate::overload::{counter, is_answered, misbehave};
use crate::processes::{children, kill};
use crate::serving::get;

const NONBLOCKING: &str = "socket.sendfile=nonblocking";

/// Threads on demand, or before; Apache's worker model, in which a thread stays with its
/// connection, and its event model with hardly any threads; a process for each connection, or many
/// in a row.
const ROOMY: &[(&str, &[&str])] = &[
    ("threads", &["spawn=0", "accepts_per_wake=1"]),
    ("threads", &["spawn=2", "stack_kib=64"]),
    ("thread-pool", &["park_idle=0", "threads=64"]),
    ("thread-pool", &["threads=2", "queue=1"]),
    ("processes", &["preforked=0"]),
    ("processes", &["preforked=1", "spare_min=1", "spare_max=1", "connections_per_process=1"]),
];

/// Fewer of them than clients: a connection that rests between two requests may be closed for
/// another.
const NARROW: &[(&str, &[&str])] = &[
    ("threads", &["spawn=0"]),
    ("thread-pool", &["park_idle=0", "threads=2", "yield_ms=1"]),
    ("processes", &["processes_max=3", "connections_per_process=5"]),
];

#[test]
fn every_case_holds_with_each_kind_of_threads() {
    let all: Vec<_> = ROOMY.iter().chain(NARROW).collect();
    side_by_side(&all, |(engine, knobs)| every_case_holds(engine, &[knobs]));
}

#[test]
fn bytes_are_right_with_each_kind_of_threads() {
    side_by_side(ROOMY, |(engine, knobs)| with_knobs(engine, knobs, &[], misbehave));
    let waiting = [("threads", &[][..]), ("thread-pool", &["park_idle=0", "threads=64"])];
    side_by_side(&waiting, |(engine, knobs)| {
        with_knobs(engine, knobs, &[NONBLOCKING], misbehave);
    });
}

/// The sockets of these threads do not block, so poll(2) waits for the client: for its request, and
/// for it to read.
#[test]
fn deadlines_are_kept_by_threads_that_wait_with_poll() {
    let variants = [("threads", &[][..]), ("thread-pool", &["park_idle=0"]), ("thread-pool", &[])];
    side_by_side(&variants, |(engine, knobs)| {
        let times = ["timeouts.idle_ms=300", "timeouts.write_ms=500", NONBLOCKING];
        with_knobs(engine, knobs, &times, |server| {
            let (mut idle, mut stalled) = (connect(server), connect(server));
            assert!(is_answered(&mut idle));
            stalled.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            stalled.read_exact(&mut [0; 16]).unwrap();
            assert_eq!(os::uninterrupted(|| idle.read(&mut [0; 16])).unwrap(), 0, "{engine}");
            wait_until(|| counter(server, |c| c.connections_expired.get()) == 2);
            assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
        });
    });
}

/// In the worker model, a thread for a new connection is taken from a connection that rests.
#[test]
fn a_thread_with_a_resting_connection_yields_to_a_waiting_one() {
    for more in [&[][..], &[NONBLOCKING]] {
        with_knobs("thread-pool", &["park_idle=0", "threads=2", "yield_ms=1"], more, |server| {
            let mut resting: Vec<TcpStream> = (0..2).map(|_| connect(server)).collect();
            assert!(resting.iter_mut().all(is_answered));
            assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
            assert!(counter(server, |c| c.connections_evicted.get()) >= 1);
        });
    }
}

#[test]
fn as_many_are_served_at_once_as_there_are_threads_or_processes() {
    let two: [(&str, &[&str], &[&str]); 2] =
        [("threads", &[], &["limits.connections_max=2"]), ("processes", &["processes_max=2"], &[])];
    for (engine, knobs, set) in two {
        with_knobs(engine, knobs, set, |server| {
            let mut busy: Vec<TcpStream> = (0..2).map(|_| connect(server)).collect();
            for stream in &mut busy {
                stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                stream.read_exact(&mut [0; 16]).unwrap();
            }
            let mut next = connect(server);
            next.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            wait_until(|| counter(server, |c| c.accept_pauses.get()) > 0);
            assert_eq!(counter(server, |c| c.connections_open.get()), 2, "{engine}");
            drop(busy);
            next.read_exact(&mut [0; 15]).unwrap();
        });
    }
}

/// What a process has counted and logged stays when it is killed; lines that it had not logged are
/// counted as lost.
#[test]
fn a_killed_process_loses_its_connection_only_and_no_line_silently() {
    for preforked in ["preforked=0", "preforked=5"] {
        let log = std::env::temp_dir().join(format!("ropewalk-killed-{}", std::process::id()));
        let path = format!("log.path={}", log.display());
        with_knobs("processes", &[preforked], &["log.access=json", &path], |server| {
            let mut streams: Vec<TcpStream> = (0..6).map(|_| connect(server)).collect();
            for round in 0..20 {
                assert!(streams.iter_mut().all(is_answered), "{round}");
            }
            // A response is counted shortly after its client has received it.
            wait_until(|| counter(server, |c| c.requests.get()) == 120);
            let serving = serving(server, 6);
            serving[..2].iter().for_each(|pid| kill(*pid));
            wait_until(|| counter(server, |c| c.connections_open.get()) == 4);
            let answered = streams.iter_mut().map(is_answered).filter(|is| *is).count();
            assert_eq!(answered, 4);
            assert!(get(server, "/").ends_with("<h1>Rope</h1>"), "others take their places");
            wait_until(|| counter(server, |c| c.requests.get()) == 120 + 4 + 1);
        });
        let lines = fs::read_to_string(&log).map_or(0, |text| text.lines().count());
        let _ = fs::remove_file(&log); // the engine is not under test
        // Each of the two killed processes lost at most the lines of the requests that it had
        // answered.
        assert!(lines == 0 || (125 - 40..=125).contains(&lines), "{lines} lines");
    }
}

/// The processes that have a connection, of which there must be `count`.
fn serving(server: &Server, count: usize) -> Vec<u32> {
    let masters: Vec<u32> = server.worker_processes().into_iter().flat_map(children).collect();
    let sockets = |pid: &u32| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("socket:")).collect::<BTreeSet<_>>()
    };
    let common: BTreeSet<_> = masters.iter().flat_map(&sockets).collect();
    let all = masters.iter().flat_map(|pid| children(*pid));
    let serving: Vec<u32> = all.filter(|pid| !sockets(pid).is_subset(&common)).collect();
    assert_eq!(serving.len(), count);
    serving
}
