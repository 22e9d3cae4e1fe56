//! Processes that are killed at a step of a change or of an upgrade: what is left of them, and who
//! serves on.

use std::fs::{self, DirEntry};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use os::guard::Guard;
use testkit::server_process::{ServerProcess, serve};
use testkit::{comes_true, install_script, thread_folders, wait_until};

use crate::ctl::{Place, ROPEWALK, answer, ask};
use crate::processes::{children, is_running, is_stopped};
use crate::upgrade::{LARGE_BYTES, PATIENT, Upgradable};

/// Former and new engines of which the new one has processes, and how far below the server those
/// are that are caught: worker processes, or the managers that these fork.
const CHANGES: [(&str, &str, usize); 4] = [
    ("event-loop", "event-loop-copies", 1),
    ("event-loop-copies", "event-loop-shared-listener", 1),
    ("threads", "event-loop-shared-cache", 2),
    ("event-loop-copies", "event-loop-shared-cache", 2),
];

/// How often processes are started until some are caught before they serve.
pub(crate) const TRIES: u32 = 100;

/// A server that can be changed.
struct Changing {
    place: Place,
    server: ServerProcess,
    engine: &'static str,
}

impl Changing {
    fn start(engine: &'static str) -> Self {
        let place = Place::new();
        let mut command = place.command_of(ROPEWALK.as_ref());
        let served = serve(&mut command, place.path("a").as_ref());
        let server = ServerProcess::start(served.args(["--engine", engine]));
        Self { place, server, engine }
    }

    fn change(&self, engine: &str) -> Outcome {
        self.place.ctl(&["change", &format!("engine.name={engine}")])
    }

    /// Changes the engine, and waits until nothing is left of the former workers.
    fn change_in_full(&self, engine: &str) {
        assert_eq!(self.change(engine).0, 0);
        self.wait_until_left();
    }

    /// Waits until of former workers nothing is left that the server would keep for others.
    fn wait_until_left(&self) {
        wait_until(|| {
            let (status, out, err) = self.place.ctl(&["status"]);
            assert_eq!((status, &*err), (0, ""));
            !out.contains("former workers")
        });
    }

    /// Does something while the first processes of a change are stopped, none of which serves.
    /// Returns what `ropewalk ctl` says of that change, and a client that was at rest before it.
    fn while_they_start(
        &self,
        engine: &str,
        depth: usize,
        act: impl Fn(&[u32]),
    ) -> (Outcome, TcpStream) {
        for _ in 0..TRIES {
            let count = children(self.server.pid()).len();
            let mut resting = self.server.connect();
            assert_eq!(ask(&mut resting, "/"), 200);
            let ask = || self.change(engine);
            match while_they_start(self.server.pid(), depth, ask, &act) {
                Ok(outcome) => return (outcome, resting),
                Err(outcome) => assert_eq!(outcome.0, 0),
            }
            self.wait_until_left();
            self.change_in_full(self.engine);
            assert_eq!(children(self.server.pid()).len(), count);
        }
        panic!("each time the processes served already");
    }
}

/// What `ropewalk ctl` ends with: its status, and what it says.
pub(crate) type Outcome = (i32, String, String);

/// Does something while the first processes are stopped that a server starts, so far below it, when
/// `ask` is called, if none of them serves yet; else nothing, which is the error.
pub(crate) fn while_they_start(
    server: u32,
    depth: usize,
    ask: impl FnOnce() -> Outcome + Send,
    act: impl FnOnce(&[u32]),
) -> Result<Outcome, Outcome> {
    let before = children(server);
    let started = || {
        let found = children_now(server).into_iter().filter(|pid| !before.contains(pid)).collect();
        (1..depth)
            .fold(found, |found: Vec<u32>, _| found.into_iter().flat_map(children_now).collect())
    };
    thread::scope(|scope| {
        let asked = scope.spawn(ask);
        while started().is_empty() && !asked.is_finished() {}
        let caught = started();
        os::signals::send("STOP", &caught);
        let list: Vec<String> = caught.iter().map(u32::to_string).collect();
        let _guard = Guard::new("kill -s KILL \"$@\"", list).unwrap();
        wait_until(|| caught.iter().all(|pid| is_stopped(*pid) || !is_running(*pid)));
        let is_in_time = !caught.is_empty() && caught.iter().all(|pid| has_not_begun(*pid));
        match is_in_time {
            true => act(&caught),
            false => os::signals::send("CONT", &caught),
        }
        let outcome = asked.join().unwrap();
        if is_in_time { Ok(outcome) } else { Err(outcome) }
    })
}

/// Whether a process is stopped, and has nothing yet by which it could wait for clients.
fn has_not_begun(pid: u32) -> bool {
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let is_set =
        |it: DirEntry| fs::read_link(it.path()).unwrap().ends_with("anon_inode:[eventpoll]");
    is_stopped(pid) && !descriptors().any(is_set)
}

/// The children of a process, found fast.
fn children_now(pid: u32) -> Vec<u32> {
    let of = |thread: PathBuf| fs::read_to_string(thread.join("children")).unwrap_or_default();
    let lists: String = thread_folders(pid).into_iter().map(of).collect();
    lists.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn nothing_is_left_of_a_server_that_is_killed_while_it_changes() {
    for (former, engine, depth) in CHANGES {
        let changing = Changing::start(former);
        let server = &changing.server;
        let ((status, ..), _) = changing.while_they_start(engine, depth, |caught| {
            let all = [caught, &children(server.pid())].concat();
            os::signals::send("KILL", &[server.pid()]);
            os::signals::send("CONT", caught);
            let have_ended = comes_true(|| !all.iter().any(|pid| is_running(*pid)));
            assert!(have_ended, "{former} to {engine}: {all:?}");
            let is_free = || TcpListener::bind(server.address()).is_ok();
            assert!(comes_true(is_free), "{former} to {engine}: a process listens");
        });
        assert_eq!(status, 1, "{former} to {engine}: no server has answered");
    }
}

#[test]
fn a_process_that_is_killed_while_it_starts_is_a_change_that_fails() {
    for (former, engine, depth) in CHANGES {
        let changing = Changing::start(former);
        let server = &changing.server;
        let count = children(server.pid()).len();
        // What a change leaves for the next one is there.
        [engine, former].iter().for_each(|name| changing.change_in_full(name));
        assert_eq!(children(server.pid()).len(), count, "{former} to {engine}");
        assert_eq!(server.status("/"), 200);
        let descriptors = server.descriptors();
        let kill = |caught: &[u32]| os::signals::send("KILL", caught);
        let (outcome, mut resting) = changing.while_they_start(engine, depth, kill);
        let (status, out, err) = outcome;
        assert_eq!((status, &*out), (1, ""), "{former} to {engine}: {err}");
        assert!(err.contains("signal 9"), "{former} to {engine}: {err}");
        assert_eq!(ask(&mut resting, "/"), 200, "{former} to {engine}");
        drop(resting);
        assert_eq!(server.status("/"), 200, "{former} to {engine}");
        let is_as_before = || server.descriptors() <= descriptors;
        let is_as_before = comes_true(is_as_before);
        let now = server.descriptors();
        assert!(is_as_before, "{former} to {engine}: {now} descriptors, {descriptors} before");
        assert_eq!(children(server.pid()).len(), count, "{former} to {engine}");
        assert_eq!(changing.change(engine).0, 0, "{former} to {engine}");
    }
}

#[test]
fn nothing_is_left_of_a_server_that_is_killed_before_the_next_program_begins() {
    let upgradable = Upgradable::start(&[], |_| {});
    let (gate, told) = (upgradable.place.path("gate"), upgradable.place.path("told"));
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let script =
        format!("#!/bin/sh\necho $$ >{told}\nread line <{gate}\nexec '{ROPEWALK}' \"$@\"\n");
    install_script(&script, &upgradable.program());
    let Upgradable { place, mut server } = upgradable;
    let successor = thread::scope(|scope| {
        let asked = scope.spawn(|| place.ctl(&["upgrade"]));
        let process =
            || -> Option<u32> { fs::read_to_string(&told).ok()?.strip_suffix('\n')?.parse().ok() };
        wait_until(|| process().is_some());
        os::signals::send("KILL", &[server.pid()]);
        assert_eq!(asked.join().unwrap().0, 1, "no server has answered");
        process().unwrap()
    });
    let _guard = Guard::new("kill -s KILL \"$1\"", [successor.to_string()]).unwrap();
    wait_until(|| !server.is_running());
    fs::write(&gate, "go on\n").unwrap();
    let has_ended = comes_true(|| !is_running(successor));
    os::signals::send("KILL", &[successor]);
    assert!(has_ended, "it serves without a predecessor");
    assert!(TcpListener::bind(server.address()).is_ok(), "a process listens");
}

/// Does something while the first processes of a successor are stopped, none of which serves: it
/// has the listeners then, and is not ready. Returns the server, the processes that it had before,
/// and what `ropewalk ctl` says of the upgrade.
fn while_a_successor_starts(act: impl Fn(u32, &[u32], &[u32])) -> (Upgradable, Vec<u32>, Outcome) {
    for _ in 0..TRIES {
        let upgradable = Upgradable::start(&["--engine", "event-loop-copies"], |_| {});
        let (place, server) = (&upgradable.place, upgradable.server.pid());
        let before = children(server);
        let upgrade = || place.ctl(&["upgrade"]);
        let outcome = while_they_start(server, 2, upgrade, |caught| {
            let all = children(server).into_iter();
            let successor: Vec<u32> = all.filter(|pid| !before.contains(pid)).collect();
            act(server, &successor, caught);
        });
        match outcome {
            Ok(outcome) => return (upgradable, before, outcome),
            Err(_) => assert_eq!(place.ctl(&["drain"]).0, 0),
        }
    }
    panic!("each time the processes served already");
}

#[test]
fn a_successor_that_is_killed_changes_nothing() {
    let (upgradable, before, (status, out, err)) =
        while_a_successor_starts(|_, successor, caught| {
            os::signals::send("KILL", successor);
            os::signals::send("CONT", caught);
            wait_until(|| !caught.iter().any(|pid| is_running(*pid)));
        });
    assert_eq!((status, &*out), (1, ""), "{err}");
    assert_eq!(err, "ropewalk: the new program has ended: signal: 9 (SIGKILL)\n");
    assert_eq!(upgradable.server.status("/"), 200);
    wait_until(|| children(upgradable.server.pid()) == before);
    upgradable.server.stop();
}

#[test]
fn nothing_is_left_of_a_server_that_is_killed_while_the_next_one_starts() {
    let (mut upgradable, _, (status, ..)) =
        while_a_successor_starts(|server, successor, caught| {
            let all = [successor, caught, &children(server)].concat();
            os::signals::send("KILL", &[server]);
            os::signals::send("CONT", caught);
            let have_ended = comes_true(|| !all.iter().any(|pid| is_running(*pid)));
            os::signals::send("KILL", successor);
            assert!(have_ended, "the next one serves without a predecessor");
        });
    assert_eq!(status, 1, "no server has answered");
    assert!(!upgradable.server.is_running());
    assert!(TcpListener::bind(upgradable.server.address()).is_ok(), "a process listens");
}

/// Downloads that end while the process which is to take their connections is stopped: these are on
/// their way when the process is killed that has given them.
struct OnTheWay {
    clients: Vec<TcpStream>,
    /// A download that has not ended.
    slow: TcpStream,
}

impl OnTheWay {
    const COUNT: usize = 8;

    fn begin(server: &ServerProcess) -> Self {
        let begin = || {
            let mut client = server.connect();
            client.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            client.peek(&mut [0]).unwrap();
            client
        };
        Self { clients: (0..Self::COUNT).map(|_| begin()).collect(), slow: begin() }
    }

    /// Has `giver` give the connections to `taker`, which does not take them before `giver` is
    /// killed. Checks that those are answered, and only the other one is lost.
    fn check(mut self, giver: u32, taker: u32, name: &str) {
        let sockets = || {
            let descriptors = fs::read_dir(format!("/proc/{giver}/fd")).unwrap().flatten();
            let links = descriptors.filter_map(|it| fs::read_link(it.path()).ok());
            links.filter(|it| it.to_string_lossy().starts_with("socket:")).count()
        };
        os::signals::send("STOP", &[taker]);
        let _guard = Guard::new("kill -s KILL \"$1\"", [taker.to_string()]).unwrap();
        wait_until(|| is_stopped(taker));
        let before = sockets();
        self.clients.iter_mut().for_each(|client| assert_eq!(answer(client).0, 200, "{name}"));
        let are_sent = comes_true(|| sockets() + Self::COUNT <= before);
        os::signals::send("KILL", &[giver]);
        os::signals::send("CONT", &[taker]);
        assert!(are_sent, "{name}: {} sockets of {before}", sockets());
        self.clients.iter_mut().for_each(|client| assert_eq!(ask(client, "/"), 200, "{name}"));
        let mut rest = Vec::new();
        let _ = self.slow.read_to_end(&mut rest); // its end, or a reset
        assert!(rest.len() < LARGE_BYTES, "{name}");
    }
}

#[test]
fn what_a_process_that_is_killed_has_given_is_answered() {
    for engine in ["event-loop-copies", "event-loop-shared-listener"] {
        let place = Place::new();
        fs::write(place.path("a/large"), vec![b'x'; LARGE_BYTES]).unwrap();
        let mut command = place.command_of(ROPEWALK.as_ref());
        let served = serve(&mut command, place.path("a").as_ref());
        let more = ["--engine", engine, "--set", "engine.processes=1"];
        let server = ServerProcess::start(served.args(more).args(PATIENT));
        let on_the_way = OnTheWay::begin(&server);
        let &[giver] = &children(server.pid())[..] else { panic!("one process") };
        let (status, _, err) = place.ctl(&["change", "engine.name=event-loop"]);
        assert_eq!((status, &*err), (0, ""), "{engine}");
        on_the_way.check(giver, server.pid(), engine);
        server.wait_for_line(|line| line.contains("its connections are cut off"));
    }
}

#[test]
fn what_a_former_server_that_is_killed_has_given_is_answered() {
    let upgradable = Upgradable::start(&PATIENT, |_| {});
    let on_the_way = OnTheWay::begin(&upgradable.server);
    let follower = upgradable.upgrade();
    on_the_way.check(upgradable.server.pid(), follower.process, "upgrade");
    assert_eq!(upgradable.place.ctl(&["drain"]).0, 0);
    wait_until(|| !is_running(follower.process));
}
