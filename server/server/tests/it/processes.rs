//! Worker processes: what is lost when one dies, and what is not.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use os::memory::proportional_bytes;
use server::Server;
use server::config::WorkerProgram;
use testkit::{thread_folders, wait_until};

use crate::harness::{config, connect, site, start, take_head};
use crate::overload::is_answered;
use crate::serving::get;

/// The engines that consist of processes.
const ENGINES: [&str; 3] = ["event-loop-copies", "event-loop-shared-listener", "processes"];

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

pub(crate) fn kill(pid: u32) {
    assert!(try_to_kill(pid), "process {pid} is there");
}

/// Sends SIGKILL to a process. Returns whether the process still existed.
pub(crate) fn try_to_kill(pid: u32) -> bool {
    let kill = format!("kill -s KILL {pid} 2>/dev/null");
    Command::new("sh").args(["-c", &kill]).status().unwrap().success()
}

fn requests(server: &Server) -> u64 {
    server.counters().iter().map(|counters| counters.requests.get()).sum()
}

fn open(server: &Server) -> u64 {
    server.counters().iter().map(|counters| counters.connections_open.get()).sum()
}

#[test]
fn a_killed_process_loses_its_connections_only_and_is_replaced() {
    for engine in ENGINES {
        let directory = site();
        let name = format!("engine.name={engine}");
        let log = format!("log.path={}", directory.path().join("access.log").display());
        // The clients send requests one after the other, which takes long on a busy machine.
        let slow = ["timeouts.head_ms=600000", "timeouts.idle_ms=600000"];
        let set = [&name, "engine.processes=2", "log.access=json", &log, slow[0], slow[1]];
        let server = start(&directory, &set);
        let before: BTreeSet<u32> = server.worker_processes().into_iter().collect();
        assert_eq!(before.len(), 2, "{engine}");
        let mut streams: Vec<TcpStream> = (0..32).map(|_| connect(&server)).collect();
        assert!(streams.iter_mut().all(is_answered), "{engine}");
        wait_until(|| (requests(&server), open(&server)) == (32, 32));

        let killed = *before.first().unwrap();
        kill(killed);
        wait_until(|| {
            let now: BTreeSet<u32> = server.worker_processes().into_iter().collect();
            now.len() == 2 && !now.contains(&killed)
        });
        assert_eq!(requests(&server), 32, "{engine}: its counts stay");
        let left = open(&server);
        // Where all processes wait at the same listeners, one that gets no CPU may have accepted
        // nothing.
        let may_be_idle = engine.contains("shared") || engine.contains("copies");
        assert!(left < 32 || may_be_idle, "{engine}: its connections are gone");
        let served =
            streams.iter_mut().map(is_answered).filter(|answered| *answered).count() as u64;
        assert_eq!(served, left, "{engine}: those of the other process are served");
        for _ in 0..8 {
            assert!(get(&server, "/").ends_with("<h1>Rope</h1>"), "{engine}");
        }
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!(summary.requests, 32 + left + 8, "{engine}");
        assert_eq!(summary.connections, 32 + 8, "{engine}");
        let lines = fs::read_to_string(directory.path().join("access.log")).unwrap();
        let lines = lines.lines().count() as u64;
        assert_eq!(lines + summary.log_lines_dropped, summary.requests, "{engine}");
    }
}

/// Clients connect one after the other. The kernel wakes the first of the waiting processes, which
/// stays the first: it gets nearly all connections. With a gate it rests beyond its mark and goes
/// to the end of the queue, and the other process gets new connections, up to its own mark at
/// least.
#[test]
fn a_process_beyond_its_mark_leaves_new_connections_to_the_other() {
    const CLIENTS: u64 = 60;
    const EACH_MAX: u64 = 64;
    const EIGHTHS: u64 = 2;
    let directory = site();
    let accepted = |eighths: u64| -> Vec<u64> {
        let gate = format!("engine.knobs.accept_gate_eighths={eighths}");
        let all = format!("limits.connections_max={}", 2 * EACH_MAX);
        let set = [
            "engine.name=event-loop-shared-listener",
            "engine.processes=2",
            "engine.knobs.accepts_per_wake=1",
            "engine.knobs.requeue_every=0",
            &gate,
            &all,
        ];
        let server = start(&directory, &set);
        let streams: Vec<TcpStream> = (0..CLIENTS)
            .map(|_| {
                let mut stream = connect(&server);
                assert!(is_answered(&mut stream));
                stream
            })
            .collect();
        let each = server.counters().iter().map(|c| c.connections_accepted.get()).collect();
        drop(streams);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
        each
    };
    let mark = EACH_MAX * EIGHTHS / 8;
    // A process that gets no CPU while the other rests accepts nothing.
    testkit::undisturbed(|| {
        let (gated, open) = (accepted(EIGHTHS), accepted(8));
        println!("accepted with a gate {gated:?}, without one {open:?}");
        assert_eq!(gated.iter().sum::<u64>(), CLIENTS, "{gated:?}");
        match gated.iter().all(|accepted| *accepted >= mark) {
            true => Ok(()),
            false => Err(format!("{gated:?}")),
        }
    });
}

/// Each process of a pool has a cache: together they may take as much memory as one cache.
#[test]
fn the_caches_of_a_pool_are_one_cache_in_size() {
    const PROCESSES: usize = 8;
    const FILES: usize = 300;
    const FILE_BYTES: usize = 16 << 10;
    const CACHE_BYTES: u64 = 4 << 20;
    let directory = site();
    let name = |number: usize| format!("{number}.txt");
    (0..FILES).for_each(|i| drop(directory.file(&format!("site/{}", name(i)), [b'x'; FILE_BYTES])));
    let set = [
        "engine.name=processes",
        "cache.bytes_max=4 MiB",
        "engine.knobs.preforked=8",
        "engine.knobs.processes_max=8",
        // The clients send requests one after the other, which takes long on a busy machine.
        "timeouts.head_ms=600000",
        "timeouts.idle_ms=600000",
    ];
    let server = start(&directory, &set);
    let mut streams: Vec<TcpStream> = (0..PROCESSES).map(|_| connect(&server)).collect();
    assert!(streams.iter_mut().all(is_answered));
    let master = server.worker_processes()[0];
    let processes = descendants(master);
    assert!(processes.len() >= PROCESSES, "{processes:?}");
    let bytes = || processes.iter().map(|pid| proportional_bytes(*pid).unwrap()).sum::<u64>();
    let before = bytes();
    for stream in &mut streams {
        (0..FILES).for_each(|number| take(stream, &name(number), FILE_BYTES));
    }
    let grown = bytes() - before;
    // A mebibyte each for other memory, part of which is shared with other processes of this
    // program.
    let bound = CACHE_BYTES + PROCESSES as u64 * (1 << 20);
    assert!((CACHE_BYTES / 2..bound).contains(&grown), "{grown} bytes, bound {bound}");
    drop(streams);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

/// Requests a file of `bytes` bytes, and reads the whole response.
fn take(stream: &mut TcpStream, name: &str, bytes: usize) {
    let request = format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    take_head(stream);
    stream.read_exact(&mut vec![0; bytes]).unwrap();
}

/// The children of a process, those of its threads included.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let threads = thread_folders(pid).into_iter();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.join("children")).ok());
    let pids = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    pids.collect()
}

/// The processes that `pid` has started, and all that their descendants have started.
fn descendants(pid: u32) -> Vec<u32> {
    let with_its_own = |child| std::iter::once(child).chain(descendants(child));
    children(pid).into_iter().flat_map(with_its_own).collect()
}

/// The supervisor holds the listener, so that connections that wait at it are served by the next
/// process.
#[test]
fn connections_at_the_listener_of_a_killed_process_are_served() {
    let directory = site();
    let server = start(&directory, &["engine.name=event-loop-copies", "engine.processes=1"]);
    let pid = server.worker_processes()[0];
    let stop = format!("kill -s STOP {pid}");
    assert!(Command::new("sh").args(["-c", &stop]).status().unwrap().success());
    // The process first finishes what it was doing: it may still accept.
    wait_until(|| {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        state.rsplit(')').next().unwrap().starts_with(" T")
    });
    let mut waiting: Vec<TcpStream> = (0..8).map(|_| connect(&server)).collect();
    waiting.iter_mut().for_each(|stream| stream.write_all(GET).unwrap());
    kill(pid);
    for stream in &mut waiting {
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_place_whose_processes_die_again_and_again_is_a_failure() {
    let directory = site();
    let server = start(&directory, &["engine.name=event-loop", "engine.processes=1"]);
    wait_until(|| {
        server.worker_processes().into_iter().for_each(|pid| {
            try_to_kill(pid);
        });
        server.failure().is_some()
    });
    assert_eq!(server.worker_processes(), [0_u32; 0]);
    let failure = server.failure().unwrap().to_string();
    assert!(failure.starts_with("worker process 0 (pid "), "{failure}");
    assert!(failure.ends_with("5 times within 10 s: not replaced any more"), "{failure}");
    let error = server.stop_gracefully(Duration::from_secs(10)).unwrap_err();
    assert!(error.contains(&failure), "{error}");
}

#[test]
fn a_process_that_cannot_start_says_why() {
    let directory = site();
    let check = |program: &str, arguments: &[&str], expected: &str| {
        let mut config = config(&directory, &["engine.processes=2"]);
        let arguments = arguments.iter().map(ToString::to_string).collect();
        config.worker_program = WorkerProgram { path: program.into(), arguments };
        let error = Server::start(&config).err().unwrap().to_string();
        assert_eq!(error, expected);
    };
    check("/bin/false", &[], "worker process 0: ended with status 1");
    check("/bin/sh", &["-c", "kill -s KILL $$"], "worker process 0: ended by signal 9");
    check(
        "/no/such/program",
        &[],
        "worker process 0: it cannot be started: No such file or directory (os error 2)",
    );
}

#[test]
fn every_engine_runs_in_processes_of_any_number() {
    crate::for_each_engine(|spec| {
        let directory = site();
        let name = format!("engine.name={}", spec.name);
        let server = start(&directory, &[&name, "engine.processes=2"]);
        assert_eq!(server.worker_processes().len(), 2, "{}", spec.name);
        assert!(server.description().contains(" in 2 processes "), "{}", server.description());
        for _ in 0..20 {
            assert!(get(&server, "/").ends_with("<h1>Rope</h1>"), "{}", spec.name);
        }
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!((summary.requests, summary.connections), (20, 20), "{}", spec.name);
    });
}

#[test]
fn a_rotated_log_of_several_processes_loses_no_line() {
    for engine in ENGINES {
        let directory = site();
        let (log, moved) =
            (directory.path().join("access.log"), directory.path().join("access.log.1"));
        let (name, path) = (format!("engine.name={engine}"), format!("log.path={}", log.display()));
        let server =
            start(&directory, &[&name, "engine.processes=2", "log.access=combined", &path]);
        let lines = |path| fs::read_to_string(path).map_or(0, |text| text.lines().count());
        (0..16).for_each(|_| drop(get(&server, "/")));
        wait_until(|| lines(&log) == 16);
        fs::rename(&log, &moved).unwrap();
        server.log_reopener().unwrap().reopen();
        // Each process opens the file for itself.
        wait_until(|| {
            get(&server, "/");
            lines(&log) > 8
        });
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        let written = lines(&log) + lines(&moved);
        assert_eq!((written as u64, summary.log_lines_dropped), (summary.requests, 0), "{engine}");
    }
}

/// The replacement of a process that died has the configuration that the server was started with.
#[test]
fn a_configuration_that_changes_meanwhile_changes_nothing() {
    let directory = site();
    let other = directory.file("other/index.html", "<h1>Other</h1>");
    let file = directory.path().join("ropewalk.toml");
    let root = |root: &std::path::Path| format!("[[host]]\nroot = {:?}\n", root.display());
    fs::write(&file, root(&directory.path().join("site"))).unwrap();
    let arguments = server::config::Arguments {
        config: Some(file.clone()),
        listen: vec!["127.0.0.1:0".into()],
        set: vec!["engine.processes=1".into()],
        ..Default::default()
    };
    let server = Server::start(&crate::under_test::load(&arguments).unwrap()).unwrap();
    fs::write(&file, root(other.parent().unwrap())).unwrap();
    let pid = server.worker_processes()[0];
    kill(pid);
    wait_until(|| server.worker_processes().first().is_some_and(|now| *now != pid));
    assert!(get(&server, "/").ends_with("<h1>Rope</h1>"));
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

#[test]
fn copies_with_ports_of_their_own_have_consecutive_ones() {
    let directory = site();
    let ports = |port: u16| {
        let listen = format!("listen=[\"127.0.0.1:{port}\"]");
        let set = ["engine.name=event-loop-copies", "engine.knobs.processes=3"];
        let config = config(&directory, &[set[0], set[1], "engine.knobs.ports=1", &listen]);
        Server::start(&config)
    };
    // Another program may have one of the ports: then other ports are tried.
    let server = (0..50).find_map(|attempt| ports(20_011 + attempt * 97).ok()).unwrap();
    let addresses = server.addresses();
    assert_eq!(addresses.len(), 3);
    for (copy, address) in addresses.iter().enumerate() {
        assert_eq!(address.port(), addresses[0].port() + copy as u16);
        let mut stream = TcpStream::connect(address).unwrap();
        assert!(is_answered(&mut stream), "{address}");
    }
    let each = || server.counters().iter().map(|c| c.requests.get()).collect::<Vec<u64>>();
    wait_until(|| each() == [1, 1, 1]);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}
