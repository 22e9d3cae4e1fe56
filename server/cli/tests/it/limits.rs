//! Few descriptors and many clients: the server turns clients away or makes them wait, and never
//! ends, spins or forgets its connections.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use testkit::{Temporary, at_a_time, comes_true, side_by_side, undisturbed};

use crate::ctl::{Place, ask};
use crate::machine::skip;
use crate::processes::children;
use crate::server_process::{ROPEWALK, ServerProcess, request_status, serve, served};

/// A length above what the kernel's buffers between a server and a client that does not read can
/// hold.
const LARGE_LEN: usize = 30_000_000;

fn site() -> Temporary {
    let directory = Temporary::new();
    directory.file("index.html", "<h1>Rope</h1>");
    directory.file("large.bin", large());
    directory
}

/// The content of the large file.
fn large() -> &'static [u8] {
    static LARGE: OnceLock<Vec<u8>> = OnceLock::new();
    LARGE.get_or_init(|| (0..LARGE_LEN).map(|at| (at % 251) as u8).collect())
}

/// By default the server takes no more connections than descriptors allow. With this setting it
/// reaches the kernel's limit.
const TOO_MANY: &str = "limits.connections_max=100000";
const AS_MANY_AS_FIT: &str = "limits.connections_max=auto";

/// A server with a limit of `descriptors`, which it may not raise.
fn start(descriptors: usize, site: &Temporary, engine: &str, setting: &str) -> ServerProcess {
    let mut shell = Command::new("sh");
    let limited = format!("ulimit -n {descriptors}; exec \"$@\"");
    shell.args(["-c", &limited, "sh", ROPEWALK]);
    ServerProcess::start(
        serve(&mut shell, site.path()).args(["--engine", engine, "--set", setting]),
    )
}

/// Opens connections that each request the page and stay open; returns how many were answered.
fn crowd(server: &ServerProcess, count: usize) -> usize {
    let mut streams = Vec::new();
    let mut answered = 0;
    for _ in 0..count {
        let mut stream = server.connect();
        match request_status(&mut stream, "/") {
            Some(200) => answered += 1,
            None | Some(503) => {}
            Some(status) => panic!("{status}"),
        }
        streams.push(stream);
    }
    answered
}

/// Opens more connections than there are descriptors; returns how many were answered. Checks that
/// the server serves again once they are closed.
fn survives_a_crowd(descriptors: usize, clients: usize, engine: &str, setting: &str) -> usize {
    let site = Temporary::new();
    site.file("index.html", "<h1>Rope</h1>");
    let mut server = start(descriptors, &site, engine, setting);
    let answered = crowd(&server, clients);
    assert!(server.is_running(), "{engine}, {setting}");
    // The server may notice their end before or after the next connection.
    assert!(comes_true(|| server.status("/") == 200), "{engine}, {setting}");
    server.stop();
    answered
}

/// Resting connections are closed for new ones, so that all clients are served.
#[test]
fn all_clients_are_served_in_turn() {
    const CLIENTS: usize = 2000;
    if os::limits::raise_descriptor_limit().is_ok_and(|limit| limit < CLIENTS as u64 + 100) {
        return skip("2000 clients", "there are too few descriptors: raise ulimit -Hn");
    }
    let check = |descriptors: usize, clients: usize, engine: &str| {
        println!("{engine} with {descriptors}"); // shown if one of them waits in vain
        let answered = survives_a_crowd(descriptors, clients, engine, AS_MANY_AS_FIT);
        let all = answered * 100 >= clients * 99; // some reach a worker that is busy closing
        assert!(all, "{engine}: {answered} of {clients} with {descriptors}");
    };
    side_by_side(&names(), |engine| check(64, 300, engine));
    names().into_iter().for_each(|engine| check(1024, CLIENTS, engine));
}

/// Where resting connections of another loop take all places, that loop gives one up: with two
/// partitions every second client comes to the partition that has no connection.
#[test]
fn a_loop_with_resting_connections_makes_room_for_another() {
    let site = site();
    side_by_side(&names(), |engine| {
        println!("{engine}"); // shown if a client waits in vain
        let mut command = Command::new(ROPEWALK);
        let few = ["--partitions", "2", "--set", "limits.connections_max=2"];
        let server = ServerProcess::start(
            serve(&mut command, site.path()).args(["--engine", engine]).args(few),
        );
        assert_eq!(crowd(&server, 16), 16, "{engine}");
        server.stop();
    });
}

fn names() -> Vec<&'static str> {
    engines::ENGINES.iter().map(|spec| spec.name).collect()
}

/// At the kernel's limit opening a file may fail too, so an answer may be 503.
#[test]
fn the_limit_of_the_kernel_is_survived() {
    side_by_side(&names(), |engine| {
        let answered = survives_a_crowd(64, 90, engine, TOO_MANY);
        assert!(answered >= 30, "{engine}: {answered} of 90");
    });
}

/// Otherwise the first clients would wait while the kernel makes room. `FDSize` is the number of
/// descriptors for which the table has room (proc_pid_status(5)).
#[test]
fn there_is_room_in_the_descriptor_table_from_the_beginning() {
    let site = Temporary::new();
    let room = |pid: u32| -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        size.unwrap().trim().parse().unwrap()
    };
    for (setting, processes) in [(AS_MANY_AS_FIT, 1), ("engine.processes=1", 2)] {
        let server = start(1000, &site, "threads", setting);
        let all = children(server.pid()).into_iter().chain([server.pid()]);
        let rooms: Vec<u64> = all.map(room).collect();
        assert_eq!(rooms.len(), processes, "{setting}");
        assert!(rooms[0] >= 900, "workers, {setting}: {rooms:?}");
        server.stop();
    }
}

/// In an engine of several processes each has a limit of its own, so that seventy clients do not
/// exhaust it; such engines use the loop of `event-loop`.
#[test]
fn downloads_go_on_while_there_is_no_descriptor_left() {
    let site = site();
    let is_one_process = |name: &&str| {
        let spec = engines::find(name).unwrap();
        (spec.plan)(&spec.default_knobs(), 2).processes.is_none()
    };
    let names: Vec<&str> = names().into_iter().filter(is_one_process).collect();
    // The bytes under way of each download take memory of the kernel, so few engines are tested at
    // a time.
    at_a_time(2, &names, |engine| {
        let mut server = start(64, &site, engine, TOO_MANY);
        // The file is fetched once before: an engine whose helpers open files side by side would
        // refuse some of the clients that come at once.
        assert_eq!(server.status("/large.bin"), 200, "{engine}");
        let mut downloads: Vec<Download> = (0..70).map(|_| Download::start(&server)).collect();
        let are_used = comes_true(|| server.descriptors() >= 60);
        assert!(are_used, "{engine}: only {} descriptors are in use", server.descriptors());
        let begun = || downloads.iter().filter(|download| download.has_begun(engine)).count();
        let have_begun = comes_true(|| begun() >= 30);
        assert!(have_begun, "{engine}: only {} of 70 have begun", begun());
        thread::sleep(Duration::from_millis(500)); // until buffers are full
        undisturbed(|| {
            // On a busy machine they may become full in this second.
            let before_ms = server.cpu_ms();
            thread::sleep(Duration::from_secs(1));
            let used_ms = server.cpu_ms() - before_ms;
            let told = || format!("{engine}: {used_ms} ms of a second, with nothing to do");
            (used_ms < 300).then_some(()).ok_or_else(told)
        });
        // Which clients were accepted depends on which of several workers had the CPU first.
        downloads.retain(|download| download.has_begun(engine));
        for download in &mut downloads[..3] {
            download.finish(engine);
        }
        drop(downloads);
        assert!(server.is_running(), "{engine}");
        // Until the workers have noticed that these connections are closed, other clients may be
        // turned away.
        let is_served = (0..100).any(|_| {
            let status = server.status("/");
            if status == 503 {
                thread::sleep(Duration::from_millis(100));
            }
            status == 200
        });
        assert!(is_served, "{engine}");
        server.stop();
    });
}

/// A worker without requests must let go of the files that others have pushed out of the cache, and
/// then sleep.
#[test]
fn workers_that_sleep_hold_no_files_that_have_left_the_cache() {
    const CACHED: usize = 64;
    const OTHERS: usize = 300;
    let site = Temporary::new();
    (0..CACHED + OTHERS).for_each(|number| drop(site.file(&format!("{number}.txt"), "rope")));
    let settings = [
        "engine.name=event-loop-per-core",
        "engine.knobs.workers=2",
        "cache.small_body_bytes_max=0",
        "cache.policy=lru",
        &format!("cache.descriptors_max={CACHED}"),
        // Short timers, so that those of closed connections soon stop waking workers.
        "timeouts.idle_ms=1000",
        "timeouts.head_ms=1000",
    ];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let server = served(site.path(), &settings.collect::<Vec<_>>());
    let bound = server.descriptors() + CACHED;
    for _ in 0..30 {
        get_all(&server, 0..CACHED); // often enough for both workers to open the files
    }
    thread::sleep(Duration::from_millis(2000)); // until both sleep; the next lines wake one
    get_all(&server, CACHED..CACHED + OTHERS);
    thread::sleep(Duration::from_millis(2500));
    let are_closed = comes_true(|| server.descriptors() <= bound);
    assert!(are_closed, "{} descriptors are open instead of {bound}", server.descriptors());
    let names: Vec<&str> = engines::ENGINES.iter().map(|spec| spec.name).collect();
    undisturbed(|| {
        // On a busy machine the last timers may fire late.
        let before = server.worker_sleeps(&names);
        assert!(before > 0);
        thread::sleep(Duration::from_millis(1500));
        let more = server.worker_sleeps(&names) - before;
        let told = || format!("workers woke up {more} times without a reason");
        (more == 0).then_some(()).ok_or_else(told)
    });
    server.stop();
}

/// Former workers that still have clients have no need of what they have kept open.
#[test]
fn files_of_former_workers_are_closed_when_others_have_caches_of_their_own() {
    const CACHED: usize = 80;
    let site = Temporary::new();
    (0..2 * CACHED).for_each(|number| drop(site.file(&format!("{number}.txt"), "rope")));
    let place = Place::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 200; exec \"$@\"", "sh", ROPEWALK]);
    serve(shell.env("RUNTIME_DIRECTORY", place.runtime()), site.path());
    let settings = [
        "engine.name=threads-direct",
        "cache.small_body_bytes_max=0",
        &format!("cache.descriptors_max={CACHED}"),
        "limits.connections_max=60",
        "timeouts.drain_ms=600000",
        "timeouts.idle_ms=600000",
    ];
    shell.args(settings.iter().flat_map(|setting| ["--set", setting]));
    let server = ServerProcess::start(&mut shell);
    get_all(&server, 0..CACHED);
    let mut resting: Vec<TcpStream> = (0..50).map(|_| server.connect()).collect();
    resting.iter_mut().for_each(|client| assert_eq!(ask(client, "/0.txt"), 200));
    let before = server.descriptors();
    let (status, _, err) = place.ctl(&["change", "engine.name=event-loop", "cache.policy=lru"]);
    assert_eq!((status, &*err), (0, ""));
    let are_closed = comes_true(|| server.descriptors() + CACHED / 2 <= before);
    assert!(are_closed, "{} are open, {before} were", server.descriptors());
    get_all(&server, CACHED..2 * CACHED);
    assert!(server.descriptors() <= before + CACHED / 2);
    resting.iter_mut().for_each(|client| assert_eq!(ask(client, "/0.txt"), 200));
    drop(resting);
    server.stop();
}

/// Gets files by number over one connection, or over several if the client is so slow that it is
/// closed meanwhile.
fn get_all(server: &ServerProcess, numbers: std::ops::Range<usize>) {
    let mut stream = server.connect();
    for number in numbers {
        let is_there = (0..20).any(|_| {
            let is_there = is_got(&mut stream, number);
            if !is_there {
                stream = server.connect();
            }
            is_there
        });
        assert!(is_there, "{number}");
    }
}

/// Gets a file by number. Returns false if the connection was closed instead.
fn is_got(stream: &mut TcpStream, number: usize) -> bool {
    let request = format!("GET /{number}.txt HTTP/1.1\r\nHost: h\r\n\r\n");
    // If the write fails, the read fails too, so its result need not be checked.
    let _ = stream.write_all(request.as_bytes());
    let mut came = Vec::new();
    while !came.ends_with(b"\r\n\r\nrope") {
        let mut some = [0; 4096];
        match os::uninterrupted(|| stream.read(&mut some)) {
            Ok(length) if length > 0 => came.extend_from_slice(&some[..length]),
            Err(why) if why.kind() == ErrorKind::WouldBlock => panic!("no answer, no close"),
            _ => {
                assert!(came.is_empty(), "closed in the middle of an answer");
                return false;
            }
        }
    }
    true
}

/// A client that has requested the large file and reads it on demand.
struct Download(TcpStream);

impl Download {
    fn start(server: &ServerProcess) -> Self {
        let mut stream = server.connect();
        let request = b"GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        Self(stream)
    }

    /// Whether the response has begun. Other clients wait in a queue or were turned away, but no
    /// connection ends without a response.
    fn has_begun(&self, engine: &str) -> bool {
        let mut start = [0; 15];
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut start);
        self.0.set_nonblocking(false).unwrap();
        assert_ne!(peeked.as_ref().ok(), Some(&0), "{engine}: an end in place of an answer");
        peeked.is_ok() && start == *b"HTTP/1.1 200 OK"
    }

    fn finish(&mut self, engine: &str) {
        let mut response = Vec::with_capacity(LARGE_LEN + 1000);
        self.0.read_to_end(&mut response).unwrap();
        let head = String::from_utf8_lossy(&response[..response.len().min(200)]);
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{engine}: {head}");
        let body = &response[response.len() - LARGE_LEN..];
        assert!(body == large(), "{engine}: a wrong byte");
    }
}

/// Under a tiny limit, too, there is a descriptor for each file that is to be opened: the cache has
/// fewer, and the threads that open files take turns.
#[test]
fn no_client_is_told_to_try_again_under_a_tiny_limit() {
    const FILES: usize = 300;
    let site = Temporary::new();
    for number in 0..FILES {
        // Files too large for the cache's memory: each needs an open file, and a search for
        // variants.
        site.file(&format!("{number}.txt"), "x".repeat(40_000));
    }
    let can_run = |spec: &&engines::EngineSpec| (spec.obstacle)().is_none();
    let names: Vec<&str> = engines::ENGINES.iter().filter(can_run).map(|it| it.name).collect();
    at_a_time(3, &names, |engine| {
        let server = start(64, &site, engine, AS_MANY_AS_FIT);
        thread::scope(|scope| {
            for client in 0..6 {
                let server = &server;
                scope.spawn(move || {
                    for number in 0..FILES {
                        let path = format!("/{}.txt", (number * 7 + client * 50) % FILES);
                        assert_eq!(server.status(&path), 200, "{engine}: {path}");
                    }
                });
            }
        });
        server.stop();
    });
}

/// Memory that one thread of an engine frees is available to the others. (Arenas of glibc beside
/// the first are mappings of up to 64 MiB, most of which cannot be touched yet.)
#[test]
#[cfg(target_env = "gnu")]
fn threads_share_the_arenas_of_the_allocator() {
    let site = Temporary::new();
    (0..100).for_each(|number| drop(site.file(&format!("{number}.txt"), "x".repeat(20_000))));
    side_by_side(&["threads", "tasks", "staged", "thread-pool"], |engine| {
        let server = start(1024, &site, engine, AS_MANY_AS_FIT);
        thread::scope(|scope| {
            for client in 0..8 {
                let server = &server;
                scope.spawn(move || {
                    for number in 0..20 {
                        let path = format!("/{}.txt", (number * 5 + client) % 100);
                        assert_eq!(server.status(&path), 200);
                    }
                });
            }
        });
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
        let arenas = maps.lines().filter(|line| is_reserve_of_arena(line)).count();
        assert!(arenas <= 1, "{engine}: {arenas} arenas beside the first\n{maps}");
        server.stop();
    });
}

/// Whether a line of `maps` is the reserve of an arena: 32 to 64 MiB without any permission.
#[cfg(target_env = "gnu")]
fn is_reserve_of_arena(line: &str) -> bool {
    let mut fields = line.split(' ');
    let range = fields.next().and_then(|range| range.split_once('-')).unwrap();
    let [start, end] = [range.0, range.1].map(|text| u64::from_str_radix(text, 16).unwrap());
    let mib = (end - start) >> 20;
    fields.next() == Some("---p") && (32..64).contains(&mib) && end % (64 << 20) == 0
}
