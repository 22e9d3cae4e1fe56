//! Changes of the architecture in a storm: from every engine to every engine and to itself, while
//! two thousand clients check every byte. No connection is closed, reset or cut short because of a
//! change, each request is in the log once, and nothing of the former engines is left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use engines::EngineSpec;
use server::Server;
use server::config::Config;
use site::fields::HeaderRule;
use testkit::{Temporary, circuit};

use crate::storm::{CLIENTS, config, files, storm_on};
use crate::swarm::{Requests, Swarm};

/// The files of the access log, to which configurations write in turn.
const LOGS: [&str; 2] = ["even.log", "odd.log"];

/// The time between two changes.
const PAUSE: Duration = Duration::from_millis(50);

/// From each engine to each. Those that are processes take a while to start, and cannot move their
/// connections.
#[test]
fn no_client_notices_that_the_architecture_changes() {
    let _alone = crate::alone();
    let engines = crate::under_test::engines();
    change_in_a_storm(&engines.iter().map(|spec| (spec.name, &[][..])).collect::<Vec<_>>());
}

/// From each kind of an engine to each: other ways to wait, to accept, and to divide the work.
#[test]
fn no_client_notices_that_knobs_change() {
    let _alone = crate::alone();
    let all: [(&str, &[&str]); 8] = [
        ("event-loop", &["events=poll"]),
        ("event-loop-per-core", &["workers=3"]),
        ("event-loop-helpers", &["workers=2", "helpers=1"]),
        ("thread-pool", &["threads=8"]),
        ("thread-pool", &["threads=300", "park_idle=0"]),
        ("fibers", &["threads_per_cluster=2"]),
        ("tasks", &["stealing=1"]),
        ("rings", &["direct=1"]),
    ];
    let engines = crate::under_test::engines();
    let is_under_test = |name: &str| engines.iter().any(|spec| spec.name == name);
    let all: Vec<_> = all.into_iter().filter(|(name, _)| is_under_test(name)).collect();
    change_in_a_storm(&all);
}

/// The workers stay, and go by other rules from one request to the next. The log is another, too.
#[test]
fn no_client_notices_that_rules_and_logs_change() {
    const CHANGES: usize = 15;
    let _alone = crate::alone();
    os::limits::raise_descriptor_limit().unwrap();
    for spec in crate::under_test::engines() {
        let (directory, files) = files();
        let before = crate::Open::now();
        let logs = LOGS.iter().zip(["combined", "json"]);
        let configs = logs.map(|(value, form)| {
            let log = directory.path().join(value);
            let set = [
                format!("log.access={form}"),
                format!("log.path={}", log.display()),
                // However unevenly clients come to processes, each has room for them.
                "limits.connections_max=auto".into(),
            ];
            let mut config = config_of(&directory, &(spec.name, &[]), &set);
            let (path, value) = ("/**".into(), (*value).into());
            let rule = HeaderRule { path, name: "X-Rules".into(), value, ..HeaderRule::default() };
            config.settings.hosts[0].headers = vec![rule];
            config
        });
        let configs: Vec<Config> = configs.collect();
        let server = Server::start(&configs[0]).unwrap();
        if spec.name == "processes" {
            server.stop_gracefully(Duration::from_secs(1)).unwrap(); // it closes clients for others
            continue;
        }
        let swarm = Swarm::new(server.addresses()[0], &files, CLIENTS, 0xC4A6E);
        let tally = storm_on(server, swarm, spec.name, |server| {
            for change in 1..=CHANGES {
                thread::sleep(PAUSE);
                server.change(&configs[change % 2]).unwrap();
            }
        });
        println!("{}: {tally:?}", spec.name);
        assert_eq!((tally.dismissed, tally.told), (0, 0), "{}: no connection is closed", spec.name);
        check_logs(&directory, &tally.requests);
        before.assert_as_before(spec.name);
    }
}

fn change_in_a_storm(kinds: &[(&str, &[&str])]) {
    os::limits::raise_descriptor_limit().unwrap();
    let (directory, files) = files();
    let before = crate::Open::now();
    // Another backlog at each step, so that no workers stay.
    let configs = [1000, 1001].map(|backlog| {
        let kinds = kinds.iter().zip(LOGS.iter().cycle());
        let configs = kinds.map(|(kind, log)| {
            let path = format!("log.path={}", directory.path().join(log).display());
            let backlog = format!("socket.backlog={backlog}");
            config_of(&directory, kind, &["log.access=combined".into(), path, backlog])
        });
        configs.collect::<Vec<Config>>()
    });
    let Some(first) = configs[0].first() else { return };
    let server = Server::start(first).unwrap();
    let swarm = Swarm::new(server.addresses()[0], &files, CLIENTS, 0xC4A6E);
    let tally = storm_on(server, swarm, "changes", |server| {
        let steps = circuit(configs[0].len()).into_iter().chain([0]).enumerate();
        for (step, index) in steps.skip(1) {
            thread::sleep(PAUSE);
            server.change(&configs[step % 2][index]).unwrap();
        }
    });
    println!("{tally:?}");
    check_logs(&directory, &tally.requests);
    before.assert_as_before("after the storm");
}

/// Each request that was answered is in one of the logs once, and none is there twice.
fn check_logs(directory: &Temporary, requests: &Requests) {
    let logs = LOGS.map(|log| fs::read_to_string(directory.path().join(log)).unwrap_or_default());
    let mut lines: Vec<Vec<&str>> = vec![Vec::new(); requests.sent() as usize];
    for line in logs.iter().flat_map(|log| log.lines()) {
        // The other requests have no path: their heads are not complete.
        if let Some((_, query)) = line.split_once('?') {
            let number = query.split([' ', '"']).next().and_then(|number| number.parse().ok());
            let number: usize = number.unwrap_or_else(|| panic!("no number: {line}"));
            lines[number].push(line);
        }
    }
    let wrong = |(number, (is_answered, lines)): (usize, (bool, &Vec<&str>))| {
        let is_right = lines.len() == 1 || lines.is_empty() && !is_answered;
        (!is_right).then(|| format!("{number}, answered: {is_answered}: {lines:?}"))
    };
    let all = requests.are_answered().zip(&lines).enumerate();
    let wrong: Vec<String> = all.filter_map(wrong).collect();
    let some = &wrong[..wrong.len().min(10)];
    assert!(wrong.is_empty(), "{} requests are not in the log once: {some:#?}", wrong.len());
}

/// What a process has of the system, in numbers.
#[derive(Debug)]
struct Holdings {
    descriptors: usize,
    threads: usize,
    /// Mappings without stacks, each of which has an inaccessible page beside it: the C library
    /// keeps those of some threads that have ended.
    mappings: usize,
    resident_kib: usize,
}

impl Holdings {
    fn count() -> Self {
        Self::of(std::process::id())
    }

    fn of(process: u32) -> Self {
        let folder = Path::new("/proc").join(process.to_string());
        let read = |file| fs::read_to_string(folder.join(file)).unwrap();
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let maps = read("maps");
        let is_guard = |line: &&str| line.split(' ').nth(1) == Some("---p");
        let guarded = 2 * maps.lines().filter(is_guard).count();
        Self {
            descriptors: fs::read_dir(folder.join("fd")).unwrap().count(),
            threads: testkit::thread_folders(process).len(),
            mappings: maps.lines().count() - guarded,
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
        }
    }

    /// What a process has, with all that descend from it.
    fn of_all(process: u32) -> Self {
        let processes = os::accounting::processes();
        let children = processes.filter(|it| it.parent == process && !it.has_ended);
        children.map(|it| Self::of_all(it.pid)).fold(Self::of(process), |all, one| Self {
            descriptors: all.descriptors + one.descriptors,
            threads: all.threads + one.threads,
            mappings: all.mappings + one.mappings,
            resident_kib: all.resident_kib + one.resident_kib,
        })
    }

    /// Whether it is no more than `before`, but for what is kept to be used again: freed memory,
    /// and the memory that ended processes have shared, of as many as there were at a time.
    fn is_no_more_than(&self, before: &Self) -> bool {
        self.descriptors <= before.descriptors + 16
            && self.threads <= before.threads
            && self.mappings <= before.mappings + 16
            && self.resident_kib <= before.resident_kib + 8192
    }
}

#[test]
fn nothing_is_left_of_a_thousand_changes() {
    let _alone = crate::alone();
    let (directory, _) = files();
    let engines = crate::under_test::engines();
    let configs = engines.iter().map(|spec| config_of(&directory, &(spec.name, &[]), &[]));
    let configs: Vec<Config> = configs.collect();
    let Some(first) = configs.first() else { return };
    let mut server = Server::start(first).unwrap();
    let mut round = || {
        circuit(configs.len()).into_iter().for_each(|it| server.change(&configs[it]).unwrap());
        server.change(first).unwrap();
        // The last of the former workers end.
        for _ in 0..20 {
            thread::sleep(PAUSE);
            server.do_housekeeping();
        }
        Holdings::count()
    };
    let after_one = round();
    let after_all = (0..5).map(|_| round()).last().expect("there were some");
    println!("{after_all:?}, {after_one:?} before");
    assert!(after_all.is_no_more_than(&after_one));
    server.stop_gracefully(Duration::from_secs(1)).unwrap();
}

/// The workers stay, so that what a reload takes is soon free again: the roots and the cache of the
/// former site, and what waits for them.
#[test]
fn nothing_is_left_of_many_reloads() {
    const RELOADS: usize = 150;
    let _alone = crate::alone();
    let directory = Temporary::new();
    for (site, byte) in [("site", b'0'), ("other", b'1')] {
        directory.file(&format!("{site}/large"), vec![byte; 100_000]);
    }
    for spec in crate::under_test::engines() {
        let configs = ["site", "other"].map(|site| {
            let mut config = config_of(&directory, &(spec.name, &[]), &[]);
            config.settings.engine.processes = u64::from(is_multiplied(spec));
            config.settings.hosts[0].root = directory.path().join(site);
            config
        });
        let mut server = Server::start(&configs[0]).unwrap();
        let worker = server.worker_processes().first().copied();
        let holdings = || worker.map_or_else(Holdings::count, Holdings::of_all);
        let mut client = TcpStream::connect(server.addresses()[0]).unwrap();
        let mut reload = |server: &mut Server, times: usize| {
            for reload in 0..times {
                server.change(&configs[reload % 2]).unwrap();
                let byte = ask_for_large(&mut client);
                assert_eq!(byte, b"01"[reload % 2], "{}: reload {reload}", spec.name);
            }
        };
        reload(&mut server, 20);
        for _ in 0..20 {
            thread::sleep(PAUSE);
            server.do_housekeeping();
        }
        let mut before = holdings();
        before.threads += 4; // a runtime has some for jobs, as many as it needs at a time
        reload(&mut server, RELOADS);
        let is_as_before = testkit::comes_true(|| {
            server.do_housekeeping();
            holdings().is_no_more_than(&before)
        });
        println!("{}: {:?}, {before:?} before", spec.name, holdings());
        assert!(is_as_before, "{}", spec.name);
        server.stop_gracefully(Duration::from_secs(1)).unwrap();
    }
}

/// Whether the engine has as many worker processes as are configured.
fn is_multiplied(spec: &EngineSpec) -> bool {
    matches!(spec.name, "event-loop-copies" | "event-loop-shared-listener")
}

/// Asks for a file that is sent from an open descriptor. Returns the byte that it is full of.
fn ask_for_large(client: &mut TcpStream) -> u8 {
    client.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    let mut body = vec![0; 100_000];
    client.read_exact(&mut body).unwrap();
    assert!(body.iter().all(|byte| *byte == body[0]));
    body[0]
}

fn config_of(directory: &Temporary, (name, knobs): &(&str, &[&str]), further: &[String]) -> Config {
    let knobs = knobs.iter().map(|knob| format!("engine.knobs.{knob}"));
    // What cannot be moved may take its time as well.
    let fixed = [format!("engine.name={name}"), "timeouts.drain_ms=600000".into()];
    let set: Vec<String> = fixed.into_iter().chain(knobs).chain(further.to_vec()).collect();
    config(directory, &set)
}
