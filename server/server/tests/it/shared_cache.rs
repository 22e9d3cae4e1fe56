//! Processes that share a cache in memory: what one has looked up, the others find there, and when
//! one is killed, the rest is not affected.

use std::cell::Cell;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use os::{accounting, listening};
use server::Server;
use testkit::{Temporary, comes_true, wait_until};

use crate::harness::{connect, start};
use crate::processes::{kill, try_to_kill};
use crate::serving::get;

const ENGINE: &str = "event-loop-shared-cache";

/// The number of files of the site: from those that are in the shared memory to those that are sent
/// from a descriptor.
const FILES: usize = 96;

fn len_of(file: usize) -> usize {
    [300, 3_000, 30_000, 300_000][file % 4]
}

fn content(file: usize) -> &'static [u8] {
    static ALL: [OnceLock<Vec<u8>>; FILES] = [const { OnceLock::new() }; FILES];
    let make = || (0..len_of(file)).map(|at| ((at * 7 + file * 31) % 251) as u8).collect();
    ALL[file].get_or_init(make)
}

/// Runs `test` on a server with three processes.
fn with(settings: &[&str], test: impl Fn(&Temporary, &Server)) {
    if !crate::engines().iter().any(|spec| spec.name == ENGINE) {
        return;
    }
    let directory = Temporary::new();
    for file in 0..FILES {
        directory.file(&format!("site/{file}.bin"), content(file));
    }
    let engine = format!("engine.name={ENGINE}");
    let mut all = vec![engine.as_str(), "engine.knobs.processes=3", "partitions.cpus=[\"0\"]"];
    all.extend_from_slice(settings);
    let server = start(&directory, &all);
    test(&directory, &server);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

/// The serving processes: the server starts one, which forks them, and they have its listener.
fn processes(server: &Server) -> Vec<u32> {
    let sockets = listening::sockets(Path::new("/proc/self/net"), server.addresses()[0].port());
    let grandparent = |pid| parent_of(pid).and_then(parent_of);
    let is_one = |pid: &u32| {
        let is_ours = grandparent(*pid) == Some(std::process::id());
        is_ours && !listening::held_by_process(*pid, &sockets).is_empty()
    };
    accounting::processes().map(|process| process.pid).filter(is_one).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    accounting::process(pid).map(|process| process.parent)
}

/// Whether the process `pid` is alive. A dead one may still exist until its parent has waited for
/// it.
fn is_alive(pid: u32) -> bool {
    accounting::process(pid).is_some_and(|process| !process.has_ended)
}

fn sum(server: &Server, field: impl Fn(&session::Counters) -> u64) -> u64 {
    server.counters().iter().map(|counters| field(counters)).sum()
}

#[test]
fn an_entry_of_one_process_is_known_to_all() {
    with(&["cache.revalidate_ms=3600000"], |_, server| {
        let busy = || server.counters().iter().filter(|c| c.requests.get() > 0).count();
        // Connections that stay open occupy one process after the other.
        let mut streams = Vec::new();
        while busy() < 3 {
            assert!(streams.len() < 500, "one process serves all");
            for _ in 0..4 {
                streams.push(connect(server));
            }
            for stream in &mut streams {
                let request = b"GET /0.bin HTTP/1.1\r\nHost: h\r\n\r\n";
                stream.write_all(request).unwrap();
            }
            for stream in &mut streams {
                assert_eq!(read_body(stream).unwrap(), content(0));
            }
        }
        // A file that is sent from memory: only the first process has looked it up.
        let misses = sum(server, |counters| counters.cache_misses.get());
        // Two processes may have begun at the same moment.
        assert!((1..=3).contains(&misses), "{misses} looks at one file");
    });
}

/// Reads one response of an open connection, and returns its body.
fn read_body(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut len = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            len = value.trim().parse().ok();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; len.expect("a length")];
    reader.read_exact(&mut body)?;
    Ok(body)
}

#[test]
fn a_killed_process_loses_its_connections_and_nothing_else() {
    // Bodies of up to 30,000 bytes are in the shared memory, which is too small for all of them, so
    // that entries come and go; and entries are checked again all the time.
    let settings = ["cache.revalidate_ms=1", "cache.bytes_max=1000000"];
    with(&settings, |_, server| kill_under_load(server));
}

/// No connection at rest waits for an answer of a dead process.
#[test]
fn clients_of_a_killed_process_learn_of_it() {
    with(&[], |_, server| {
        let mut streams: Vec<TcpStream> = (0..60).map(|_| connect(server)).collect();
        for stream in &mut streams {
            stream.write_all(b"GET /3.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            assert!(read_body(stream).unwrap() == content(3));
        }
        for pid in processes(server) {
            kill(pid);
        }
        for stream in &mut streams {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let end = os::uninterrupted(|| stream.read(&mut [0]));
            let is_end = match &end {
                Ok(count) => *count == 0,
                Err(why) => why.kind() == io::ErrorKind::ConnectionReset,
            };
            assert!(is_end, "{end:?}");
        }
        wait_until(|| processes(server).len() == 3);
    });
}

/// Kills processes while clients check each byte that they receive.
fn kill_under_load(server: &Server) {
    let is_over = AtomicBool::new(false);
    let (good, lost) = (AtomicU64::new(0), AtomicU64::new(0));
    let address = server.addresses()[0];
    let killed = thread::scope(|scope| {
        for client in 0..4 {
            let (is_over, good, lost) = (&is_over, &good, &lost);
            scope.spawn(move || load(address, client, is_over, good, lost));
        }
        let is_enough = |killed: usize| killed >= 20 && good.load(Ordering::Relaxed) > 1000;
        let killed = kill_one_after_the_other(server, 40, is_enough);
        is_over.store(true, Ordering::Relaxed);
        killed
    });
    let (good, lost) = (good.into_inner(), lost.into_inner());
    println!("{killed} killed, {good} responses, {lost} connections lost");
    assert!(killed >= 20 && good > 1000, "too little: {killed} killed, {good} responses");
    assert!(server.failure().is_none());
    // All places have a process again.
    wait_until(|| processes(server).len() == 3);
    for file in 0..FILES {
        let response = get_bytes(server, file);
        assert!(response.ends_with(content(file)), "{file}");
    }
}

fn get_bytes(server: &Server, file: usize) -> Vec<u8> {
    let mut stream = connect(server);
    let request = format!("GET /{file}.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    response
}

/// Requests all files again and again, on connections that stay open until they are lost. A
/// response is right to the byte, or the connection ends.
fn load(
    address: SocketAddr,
    client: usize,
    is_over: &AtomicBool,
    good: &AtomicU64,
    lost: &AtomicU64,
) {
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let mut stream = connect();
    let mut file = client;
    while !is_over.load(Ordering::Relaxed) {
        // Each client requests all files, in an order of its own.
        file = (file * 13 + [1, 5, 7, 11][client]) % FILES;
        let request = format!("GET /{file}.bin HTTP/1.1\r\nHost: h\r\n\r\n");
        let body = stream.write_all(request.as_bytes()).and_then(|()| read_body(&mut stream));
        match body {
            Ok(body) => {
                assert_eq!(body.len(), len_of(file));
                assert!(body == content(file), "wrong bytes of {file}");
                good.fetch_add(1, Ordering::Relaxed);
            }
            Err(why) => {
                let kind = why.kind();
                assert!(kind != io::ErrorKind::WouldBlock, "no answer: {why}");
                lost.fetch_add(1, Ordering::Relaxed);
                stream = connect();
            }
        }
    }
}

/// Kills processes, one after the other, `count` times and on a busy machine more often, until the
/// number of those killed is enough. Returns it.
fn kill_one_after_the_other(
    server: &Server,
    count: usize,
    is_enough: impl Fn(usize) -> bool,
) -> usize {
    let mut killed = 0;
    for round in 0..20 * count {
        if round >= count && is_enough(killed) {
            break;
        }
        let living = processes(server);
        if let Some(pid) = living.get(round % living.len().max(1)) {
            killed += usize::from(try_to_kill(*pid));
        }
        thread::sleep(Duration::from_millis(60 + (round as u64 * 37) % 80));
    }
    killed
}

/// The worker processes end with their parent process, and both are replaced.
#[test]
fn the_parent_of_the_processes_may_be_killed_too() {
    with(&[], |_, server| {
        for _ in 0..3 {
            let before = processes(server);
            assert_eq!(before.len(), 3);
            let manager = server.worker_processes()[0];
            assert!(before.iter().all(|pid| parent_of(*pid) == Some(manager)));
            kill(manager);
            wait_until(|| {
                let now = processes(server);
                now.len() == 3 && now.iter().all(|pid| !before.contains(pid))
            });
            wait_until(|| before.iter().all(|pid| !is_alive(*pid)));
            for file in 0..FILES {
                assert!(get_bytes(server, file).ends_with(content(file)), "{file}");
            }
        }
    });
}

/// A process that keeps a file open as long as it serves it notices a change all the same.
#[test]
fn a_change_is_noticed_by_all_processes() {
    with(&["cache.revalidate_ms=200"], |directory, server| {
        let mut streams: Vec<TcpStream> = (0..24).map(|_| connect(server)).collect();
        for version in 0..4_u8 {
            directory.file("site/0.bin", [version; 500]);
            directory.file("site/3.bin", vec![version; 200_000 + usize::from(version)]);
            for (path, len) in [("/0.bin", 500), ("/3.bin", 200_000 + usize::from(version))] {
                for stream in &mut streams {
                    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
                    let is_current = || {
                        stream.write_all(request.as_bytes()).unwrap();
                        read_body(stream).unwrap() == vec![version; len]
                    };
                    assert!(comes_true(is_current), "version {version} of {path}");
                }
            }
        }
    });
}

/// Workers that have the same cache have the same shared memory.
#[test]
fn caches_may_be_of_workers_partitions_or_processes() {
    for scope in ["worker", "partition", "process"] {
        let scope = format!("cache.scope={scope}");
        with(&[&scope], |_, server| {
            for file in (0..FILES).cycle().take(3 * FILES) {
                assert!(get_bytes(server, file).ends_with(content(file)), "{scope}: {file}");
            }
        });
    }
}

#[test]
fn each_response_of_each_process_is_a_line() {
    let logs = Temporary::new();
    let log = logs.path().join("access.log");
    let path = format!("log.path={}", log.display());
    let asked = Cell::new(0);
    with(&["log.access=json", &path], |_, server| {
        for file in 0..FILES {
            assert!(get_bytes(server, file).ends_with(content(file)), "{file}");
            asked.set(asked.get() + 1);
        }
    });
    let lines = fs::read_to_string(log).map_or(0, |text| text.lines().count());
    assert_eq!(lines, asked.get());
}

#[test]
fn no_process_is_left_when_the_server_has_stopped() {
    if !crate::engines().iter().any(|spec| spec.name == ENGINE) {
        return;
    }
    let directory = Temporary::new();
    directory.file("site/index.html", "here");
    let engine = format!("engine.name={ENGINE}");
    let server = start(&directory, &[&engine, "engine.knobs.processes=4"]);
    assert!(get(&server, "/").ends_with("here"));
    let before = processes(&server);
    assert_eq!(before.len(), 4);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
    for pid in before {
        assert_ne!(parent_of(pid).and_then(parent_of), Some(std::process::id()), "{pid} is left");
    }
}
