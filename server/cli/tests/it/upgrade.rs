//! `ropewalk ctl upgrade`: another process serves in the place of one that runs.

use std::fs;
use std::io::ErrorKind::WouldBlock;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use os::guard::Guard;
use os::process::Identity;
use testkit::server_process::{ServerProcess, serve};
use testkit::sockets::{SYN_RECEIVED, TcpSocket, has_other_side, tcp_sockets};
use testkit::{comes_true, install, install_script, wait_until};

use crate::ctl::{Place, ROPEWALK, answer, answer_to, ask};
use crate::processes::{is_running, is_stopped};

/// A file that no socket takes at once.
pub(crate) const LARGE_BYTES: usize = 8 << 20;

/// Arguments of a server whose clients have all time when it ends.
pub(crate) const PATIENT: [&str; 2] = ["--set", "timeouts.drain_ms=600000"];

/// A server by a copy of the program, which can be replaced.
pub(crate) struct Upgradable {
    pub(crate) place: Place,
    pub(crate) server: ServerProcess,
}

/// A server that serves in the place of another. It ends with a test that fails.
pub(crate) struct Follower {
    pub(crate) process: u32,
    identity: Option<Identity>,
    _guard: Guard,
}

impl Drop for Follower {
    fn drop(&mut self) {
        // Another process may have its number by now.
        let is_it = || self.identity.is_some() && Identity::of(self.process) == self.identity;
        if thread::panicking() && is_it() {
            os::signals::send("KILL", &[self.process]);
        }
    }
}

impl Follower {
    /// Has another process serve in the place of the server of that place.
    fn of(place: &Place) -> Self {
        let (status, out, err) = place.ctl(&["upgrade"]);
        assert_eq!((status, &*err), (0, ""), "{out}");
        assert!(out.starts_with("serving "), "{out}");
        let line = out.lines().find_map(|line| line.strip_prefix("it is the process "));
        let process: u32 = line.expect("its number").parse().unwrap();
        let guard = Guard::new("kill -s KILL \"$1\"", [process.to_string()]).unwrap();
        Self { process, identity: Identity::of(process), _guard: guard }
    }
}

impl Upgradable {
    pub(crate) fn start(arguments: &[&str], more: impl Fn(&mut Command)) -> Self {
        let place = Place::new();
        fs::write(place.path("a/large"), vec![b'x'; LARGE_BYTES]).unwrap();
        let program = PathBuf::from(place.path("ropewalk"));
        install(ROPEWALK.as_ref(), &program);
        let mut command = place.command_of(&program);
        more(&mut command);
        let served = serve(&mut command, place.path("a").as_ref());
        let server = ServerProcess::start(served.args(arguments));
        Self { place, server }
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.place.path("ropewalk").into()
    }

    /// Has another process serve.
    pub(crate) fn upgrade(&self) -> Follower {
        Follower::of(&self.place)
    }

    fn waits_for_end(&mut self) {
        assert!(comes_true(|| !self.server.is_running()), "the former server has not ended");
    }

    /// Ends the server that follows.
    fn drain(self) -> Vec<String> {
        assert_eq!(self.place.ctl(&["drain"]).0, 0);
        self.server.wait_for_end()
    }
}

/// Whether a request on a new connection is answered, and on one that is kept until an answer says
/// that it is the last.
fn keep_asking(address: SocketAddr, has_ended: &AtomicBool) -> u32 {
    let mut answers = 0;
    loop {
        let mut client = TcpStream::connect(address).unwrap();
        for _ in 0..10 {
            client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"of a") {
                let mut some = [0; 512];
                let count = client.read(&mut some).unwrap();
                assert_ne!(count, 0, "closed after {}", answer.escape_ascii());
                answer.extend_from_slice(&some[..count]);
            }
            answers += 1;
            let text = String::from_utf8(answer).unwrap();
            assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
            if text.contains("\r\nConnection: close\r\n") {
                break;
            }
        }
        if has_ended.load(Ordering::Relaxed) {
            return answers;
        }
    }
}

#[test]
fn no_client_notices_that_another_process_serves() {
    let names: Vec<&str> = engines::ENGINES.iter().map(|spec| spec.name).collect();
    testkit::side_by_side(&names, |name| {
        if (engines::find(name).unwrap().obstacle)().is_some() {
            return;
        }
        let settings = [PATIENT[0], PATIENT[1], "--set", "socket.defer_accept_s=60"];
        let arguments = [&["--engine", name], &settings[..]].concat();
        let mut upgradable = Upgradable::start(&arguments, |_| {});
        let (server, address) = (upgradable.server.pid(), upgradable.server.address());
        let mut resting = upgradable.server.connect();
        assert_eq!(ask(&mut resting, "/"), 200);
        // The kernel keeps it in the handshake until its first bytes come.
        let mut silent = upgradable.server.connect();
        let port = silent.local_addr().unwrap().port();
        let is_it = |it: &TcpSocket| it.remote_port == port && it.state == SYN_RECEIVED;
        wait_until(|| tcp_sockets().iter().any(is_it));
        let mut slow = upgradable.server.connect();
        slow.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let has_ended = AtomicBool::new(false);
        let follower = thread::scope(|scope| {
            let asking = scope.spawn(|| keep_asking(address, &has_ended));
            let follower = upgradable.upgrade();
            assert_eq!((ask(&mut resting, "/"), ask(&mut silent, "/")), (200, 200), "{name}");
            has_ended.store(true, Ordering::Relaxed);
            assert!(asking.join().unwrap() > 0);
            follower
        });
        let (status, is_last) = answer(&mut slow);
        assert_eq!(status, 200, "{name}: a download goes on");
        assert!(is_last || ask(&mut slow, "/") == 200, "{name}");
        upgradable.waits_for_end();
        assert_ne!(follower.process, server);
        assert_eq!(ask(&mut TcpStream::connect(address).unwrap(), "/"), 200, "{name}");
        let (status, out, _) = upgradable.place.ctl(&["status"]);
        assert!(status == 0 && out.contains(" requests, "), "{out}");
        let lines = upgradable.drain();
        let has = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(has("another process serves") && has("stopping: "), "{name}: {lines:?}");
    });
}

/// Runs a test with a server of each engine whose connections move.
fn for_each_that_moves(arguments: &[&str], test: impl Fn(&str, Upgradable) + Sync) {
    let engines = engines::ENGINES.iter().filter(|spec| spec.moves.are_taken());
    let names: Vec<&str> = engines.map(|spec| spec.name).collect();
    testkit::side_by_side(&names, |name| {
        if (engines::find(name).unwrap().obstacle)().is_none() {
            let arguments = [&["--engine", name], &PATIENT[..], arguments].concat();
            test(name, Upgradable::start(&arguments, |_| {}));
        }
    });
}

/// They are with the process that serves now, and not only answered: the former one is killed.
#[test]
fn connections_at_rest_outlive_the_former_server() {
    for_each_that_moves(&[], |name, mut upgradable| {
        let mut slow = upgradable.server.connect();
        slow.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut resting = [(); 3].map(|()| upgradable.server.connect());
        resting.iter_mut().for_each(|client| assert_eq!(ask(client, "/"), 200));
        let _follower = upgradable.upgrade();
        let has_all = || upgradable.place.ctl(&["status"]).1.contains("\n3 connections open, ");
        assert!(comes_true(has_all), "{name}: {}", upgradable.place.ctl(&["status"]).1);
        assert!(upgradable.server.is_running(), "{name}: it has a download");
        os::signals::send("KILL", &[upgradable.server.pid()]);
        upgradable.waits_for_end();
        resting.iter_mut().for_each(|client| assert_eq!(ask(client, "/"), 200, "{name}"));
        assert_eq!(upgradable.place.ctl(&["drain"]).0, 0, "{name}");
    });
}

/// Its client need not ask again.
#[test]
fn what_comes_to_rest_at_the_former_server_goes_to_the_follower() {
    // No deadline wakes a thread.
    let idle = ["--set", "timeouts.idle_ms=36000000", "--set", "timeouts.write_ms=36000000"];
    for_each_that_moves(&idle, |name, mut upgradable| {
        let mut clients = [(); 3].map(|()| upgradable.server.connect());
        for client in &mut clients {
            client.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        }
        let _follower = upgradable.upgrade();
        clients.iter_mut().for_each(|client| assert_eq!(answer(client), (200, false), "{name}"));
        let status = || upgradable.place.ctl(&["status"]).1;
        let has_all = comes_true(|| status().contains("\n3 connections open, "));
        assert!(has_all, "{name}: {}", status());
        upgradable.waits_for_end();
        clients.iter_mut().for_each(|client| assert_eq!(ask(client, "/"), 200, "{name}"));
        assert_eq!(upgradable.place.ctl(&["drain"]).0, 0, "{name}");
    });
}

/// A second time as well, and with listeners that a configuration has added in between.
#[test]
fn whoever_follows_can_be_followed() {
    let mut upgradable = Upgradable::start(&["--engine", "event-loop"], |_| {});
    let address = upgradable.server.address();
    let first = upgradable.upgrade();
    upgradable.waits_for_end();
    let workers = ["change", "engine.name=event-loop-per-core", "engine.knobs.workers=3"];
    assert_eq!(upgradable.place.ctl(&workers).0, 0);
    let second = upgradable.upgrade();
    let has_ended = || !fs::exists(format!("/proc/{}/fd/0", first.process)).unwrap_or(false);
    wait_until(has_ended);
    assert_ne!(first.process, second.process);
    for _ in 0..20 {
        assert_eq!(ask(&mut TcpStream::connect(address).unwrap(), "/"), 200);
    }
    upgradable.drain();
}

/// Nor may those of the server before that, as long as it drains.
#[test]
fn programs_of_a_former_server_may_not_control_the_next() {
    let place = Place::new();
    let program = PathBuf::from(place.path("ropewalk"));
    install(ROPEWALK.as_ref(), &program);
    fs::create_dir(place.path("cgi")).unwrap();
    let gate = place.path("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let ask = format!("RUNTIME_DIRECTORY='{}' '{ROPEWALK}' ctl drain 2>&1", place.runtime());
    let head = "#!/bin/sh\necho 'Content-Type: text/plain'\necho\n";
    let script = format!("{head}echo >'{gate}.reached'\nread line <'{gate}'\n{ask}\n");
    install_script(&script, &PathBuf::from(place.path("cgi/ask")));
    let mut command = place.command_of(&program);
    let served = serve(&mut command, place.path("a").as_ref());
    let cgi = place.path("cgi");
    let more = ["--cgi-bin", &cgi, "--set", "timeouts.drain_ms=600000"];
    let mut server = ServerProcess::start(served.args(more));
    let mut client = server.connect();
    client.write_all(b"GET /cgi-bin/ask HTTP/1.0\r\n\r\n").unwrap();
    wait_until(|| fs::exists(format!("{gate}.reached")).unwrap());
    let followers = [Follower::of(&place), Follower::of(&place)];
    assert!(server.is_running(), "the program runs");
    fs::write(&gate, "ask\n").unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert!(said.contains("a process of the server may not control it"), "{said}");
    assert!(comes_true(|| !server.is_running()), "the former server has not ended");
    let (status, out, err) = place.ctl(&["drain"]);
    assert!(out.starts_with("stopped after "), "{status}: {out}{err}");
    drop(followers);
    server.wait_for_end();
}

#[test]
fn a_program_that_does_not_serve_changes_nothing() {
    let upgradable = Upgradable::start(&[], |_| {});
    let check = |script: &str, expected: &str| {
        install_script(script, &upgradable.program());
        let (status, out, err) = upgradable.place.ctl(&["upgrade"]);
        assert_eq!((status, &*out), (1, ""), "{script}");
        assert!(err.contains(expected), "{script}: {err}");
        assert_eq!(upgradable.server.status("/"), 200, "{script}");
    };
    check("#!/bin/sh\necho 'no such library' >&2\nexit 127\n", "no such library\n");
    check("#!/bin/sh\nexit 3\n", "the new program has ended: exit status: 3\n");
    check("#!/bin/sh\nkill -s KILL $$\n", "the new program has ended: signal: 9 (SIGKILL)\n");
    check("#!/bin/sh\nexec sleep 600\n", "ropewalk does not serve in time\n");
    fs::remove_file(upgradable.program()).unwrap();
    let (status, _, err) = upgradable.place.ctl(&["upgrade"]);
    assert!(status == 1 && err.contains("cannot start ") && err.contains("No such file"), "{err}");
    assert_eq!(upgradable.server.status("/"), 200);
    upgradable.server.stop();
}

/// A signal that ends the server is for what it has started as well, and for no client that it
/// serves.
#[test]
fn a_signal_during_an_upgrade_ends_both_in_order() {
    let upgradable = Upgradable::start(&PATIENT, |_| {});
    let mut slow = upgradable.server.connect();
    slow.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let told = upgradable.place.path("told");
    let script = format!("#!/bin/sh\necho $$ > {told}\nexec sleep 600\n");
    install_script(&script, &upgradable.program());
    let Upgradable { place, server } = upgradable;
    let (lines, outcome) = thread::scope(|scope| {
        let asked = scope.spawn(|| place.ctl(&["upgrade"]));
        let is_told = || fs::read_to_string(&told).is_ok_and(|told| told.ends_with('\n'));
        wait_until(is_told);
        os::signals::send("TERM", &[server.pid()]);
        server.wait_for_line(|line| line.contains("stopping: "));
        assert_eq!(answer(&mut slow).0, 200, "a download goes on");
        let (status, lines) = server.end();
        assert!(status.success(), "{lines:?}");
        (lines, asked.join().unwrap())
    });
    assert_eq!((outcome.0, &*outcome.2), (1, "ropewalk: the server ends\n"), "{lines:?}");
    let process = fs::read_to_string(&told).unwrap().trim().parse().unwrap();
    wait_until(|| !is_running(process));
}

#[test]
fn a_mistake_in_the_configuration_is_told() {
    let place = Place::new();
    let program = PathBuf::from(place.path("ropewalk"));
    install(ROPEWALK.as_ref(), &program);
    let text = "listen = [\"127.0.0.1:0\"]\n[[host]]\nroot = \"a\"\n";
    let file = place.path("r.toml");
    fs::write(&file, text).unwrap();
    let server =
        ServerProcess::start(place.command_of(&program).args(["serve", "--config", &file]));
    for (mistake, expected) in [
        ("rot = 1\n", "r.toml:4:1: unknown key \"rot\""),
        ("[limits]\nconnections_max = 100000000\n", "limits.connections_max"),
    ] {
        fs::write(&file, format!("{text}{mistake}")).unwrap();
        let (status, out, err) = place.ctl(&["upgrade"]);
        assert_eq!((status, &*out), (2, ""), "{err}");
        assert!(err.contains(expected) && err.lines().count() == 1, "{err}");
        assert_eq!(server.status("/"), 200);
    }
    server.stop();
}

#[test]
fn the_service_manager_learns_which_process_serves() {
    let place = Place::new();
    let path = place.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let told = || {
        let mut text = [0; 256];
        let count = manager.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..count]).into_owned()
    };
    let upgradable = Upgradable::start(&[], |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    assert_eq!(told(), "READY=1");
    let follower = upgradable.upgrade();
    assert_eq!(told(), format!("MAINPID={}\nREADY=1", follower.process));
    upgradable.drain();
}

/// A server that a program of a follower starts has the follower's variable.
#[test]
fn what_another_server_was_given_is_not_taken() {
    let own = std::process::id();
    let upgradable = Upgradable::start(&[], |command| {
        command.env("ROPEWALK_UPGRADE", format!("1 {own} 0 1 1"));
    });
    let mut client = upgradable.server.connect();
    assert_eq!(ask(&mut client, "/"), 200);
    upgradable.upgrade();
    assert_eq!(ask(&mut client, "/"), 200);
    upgradable.drain();
}

/// The form of what it is given is another.
#[test]
fn a_server_of_another_version_cannot_be_followed() {
    let place = Place::new();
    let mut command = place.command_of(ROPEWALK.as_ref());
    serve(&mut command, place.path("a").as_ref()).env("ROPEWALK_UPGRADE", "0 1 3 4");
    let said = "ropewalk: cannot come in a server's place: it is of another version, and has to be \
                stopped and started\n";
    assert_eq!(testkit::finished(&mut command), (1, String::new(), said.into()));
}

/// Whichever of the two is killed, the other goes on with what it has.
#[test]
fn either_process_may_be_killed() {
    for is_former in [true, false] {
        let mut upgradable = Upgradable::start(&[], |_| {});
        let mut slow = upgradable.server.connect();
        slow.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let mut resting = upgradable.server.connect();
        assert_eq!(ask(&mut resting, "/"), 200);
        let follower = upgradable.upgrade();
        assert_eq!(ask(&mut resting, "/"), 200);
        match is_former {
            true => {
                os::signals::send("KILL", &[upgradable.server.pid()]);
                upgradable.waits_for_end();
                assert_eq!(ask(&mut resting, "/"), 200);
                assert_eq!(upgradable.place.ctl(&["drain"]).0, 0);
            }
            false => {
                os::signals::send("KILL", &[follower.process]);
                assert_eq!(answer(&mut slow).0, 200);
                drop(slow);
                upgradable.waits_for_end();
            }
        }
    }
}

/// It has come to rest when the follower was there already, and no other process has it then.
/// (Where connections that leave are no longer taken, and where workers are processes, it is
/// closed.)
#[test]
fn what_a_follower_that_is_killed_has_not_received_is_answered_by_the_former_server() {
    for engine in ["event-loop", "event-loop-helpers", "threads", "thread-pool", "fibers", "tasks"]
    {
        let mut upgradable =
            Upgradable::start(&[&["--engine", engine], &PATIENT[..]].concat(), |_| {});
        let begin = |server: &ServerProcess| {
            let mut client = server.connect();
            client.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            client.peek(&mut [0]).unwrap(); // an unread request would go to the other
            client
        };
        let slow = begin(&upgradable.server);
        let mut clients = [(); 3].map(|()| begin(&upgradable.server));
        let follower = upgradable.upgrade();
        os::signals::send("STOP", &[follower.process]);
        wait_until(|| is_stopped(follower.process));
        clients.iter_mut().for_each(|client| assert_eq!(answer(client), (200, false), "{engine}"));
        let server = upgradable.server.pid();
        wait_until(|| !clients.iter().any(|client| has_other_side(server, client)));
        os::signals::send("KILL", &[follower.process]);
        for client in &mut clients {
            assert_eq!(answer_to(client, "/"), (200, true), "{engine}");
        }
        drop(slow);
        upgradable.waits_for_end();
    }
}

/// A connection that comes to rest at the former server when the other takes none any more, because
/// it has changed, or has been followed itself, is told to end with its next response.
#[test]
fn what_the_follower_takes_no_more_is_told_to_end() {
    for words in [&["change", "engine.name=threads-direct"][..], &["upgrade"]] {
        let mut upgradable = Upgradable::start(&PATIENT, |_| {});
        let mut slow = upgradable.server.connect();
        slow.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        let first = upgradable.upgrade();
        let _second = match words {
            ["upgrade"] => Some(upgradable.upgrade()),
            _ => {
                assert_eq!(upgradable.place.ctl(words).0, 0);
                None
            }
        };
        let has_ended = || !fs::exists(format!("/proc/{}/fd/0", first.process)).unwrap_or(false);
        wait_until(|| words != ["upgrade"] || has_ended());
        assert_eq!(answer(&mut slow).0, 200, "{words:?}");
        assert_eq!(answer_to(&mut slow, "/"), (200, true), "{words:?}");
        upgradable.waits_for_end();
        upgradable.drain();
    }
}

/// A follower that may have fewer descriptors than there are clients at rest takes as many as it
/// has room for. The others wait, or are served by the former server.
#[test]
fn what_the_follower_has_no_room_for_waits() {
    for engine in ["event-loop", "threads", "event-loop-copies"] {
        let settings = ["--engine", engine, "--set", "timeouts.idle_ms=600000"];
        let mut upgradable = Upgradable::start(&[&settings[..], &PATIENT].concat(), |_| {});
        let mut clients: Vec<TcpStream> = (0..90).map(|_| upgradable.server.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(ask(client, "/"), 200, "{engine}"));
        let script = format!("#!/bin/sh\nulimit -n 64\nexec '{ROPEWALK}' \"$@\"\n");
        install_script(&script, &upgradable.program());
        let _follower = upgradable.upgrade();
        // Threads give all at once, which may wait in the socket.
        let stays = engine == "threads" || upgradable.server.is_running();
        assert!(stays, "{engine}: it has what waits");
        for client in &mut clients {
            client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            client.set_nonblocking(true).unwrap();
        }
        // Each that is closed makes room for another.
        wait_until(|| {
            clients.retain_mut(|client| {
                let is_silent = client.peek(&mut [0]).is_err_and(|why| why.kind() == WouldBlock);
                if !is_silent {
                    client.set_nonblocking(false).unwrap();
                    assert_eq!(answer(client).0, 200, "{engine}");
                }
                is_silent
            });
            clients.is_empty()
        });
        upgradable.waits_for_end();
        upgradable.drain();
    }
}

/// What 64 clients of `wrk` lose while the server gets another architecture, refuses a
/// configuration with a mistake, reads its configuration anew, and is followed by another process,
/// twice.
#[test]
fn clients_of_wrk_lose_nothing() {
    if !testkit::has(&testkit::tools::WRK) {
        return;
    }
    let place = Place::new();
    let write = |more: &str| {
        let text = format!("listen = [\"127.0.0.1:0\"]\n[[host]]\nroot = \"a\"\n{more}");
        fs::write(place.path("r.toml"), text).unwrap();
    };
    write("");
    let mut server = place.serve_by("r.toml");
    let mut wrk = Command::new("wrk");
    wrk.args(["-t1", "-c64", "-d6s", "--timeout", "60s", &server.url("/")]);
    let wrk = wrk.stdout(Stdio::piped()).spawn().unwrap();
    let done = |words: &[&str]| assert_eq!(place.ctl(words).0, 0, "{words:?}");
    let mut followers = Vec::new();
    for _ in 0..2 {
        for engine in ["fibers", "event-loop-copies", "threads", "rings"] {
            let engine = format!("engine.name={engine}");
            assert!(place.ctl(&["change", &engine]).0 <= 1, "it may be absent");
        }
        write("rot = 1\n");
        assert_eq!(place.ctl(&["reload"]).0, 2);
        write("header = [{ path = \"/**\", name = \"X-Read\", value = \"anew\" }]\n");
        done(&["reload"]);
        followers.push(Follower::of(&place));
    }
    let printed = wrk.wait_with_output().unwrap().stdout;
    let printed = String::from_utf8_lossy(&printed);
    assert!(printed.contains(" requests in ") && !printed.contains("Socket errors"), "{printed}");
    assert!(!printed.contains("Non-2xx"), "{printed}");
    assert!(comes_true(|| !server.is_running()), "it was followed");
    done(&["drain"]);
}
