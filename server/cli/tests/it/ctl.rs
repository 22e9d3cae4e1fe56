//! `ropewalk ctl`: a server that runs is asked, and changes.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use testkit::server_process::{ServerProcess, serve};
use testkit::{Temporary, install_script, wait_until};

use crate::processes::{children, is_running};

pub(crate) const ROPEWALK: &str = env!("CARGO_BIN_EXE_ropewalk");

/// A folder for control sockets, and sites.
pub(crate) struct Place(Temporary);

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(Temporary::new());
        place.0.file("a/index.html", "of a");
        place.0.file("b/index.html", "of b");
        place
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn runtime(&self) -> String {
        self.path("run")
    }

    /// The command, with the control sockets in this folder.
    fn command(&self) -> Command {
        self.command_of(Path::new(ROPEWALK))
    }

    /// The command as another program.
    pub(crate) fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("RUNTIME_DIRECTORY", self.runtime());
        command
    }

    fn serve(&self, arguments: &[&str]) -> ServerProcess {
        let mut command = self.command();
        ServerProcess::start(serve(&mut command, &self.0.path().join("a")).args(arguments))
    }

    /// A server by a configuration file.
    pub(crate) fn serve_by(&self, file: &str) -> ServerProcess {
        ServerProcess::start(self.command().args(["serve", "--config", &self.path(file)]))
    }

    pub(crate) fn ctl(&self, words: &[&str]) -> (i32, String, String) {
        testkit::finished(self.command().arg("ctl").args(words))
    }
}

#[test]
fn a_server_changes_while_a_client_is_connected() {
    let place = Place::new();
    let server = place.serve(&[]);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "/"), 200);
    let (status, out, err) = place.ctl(&["status"]);
    assert_eq!((status, &*err), (0, ""));
    assert!(out.starts_with("serving ") && out.contains("\n1 connections open, "), "{out}");
    assert_eq!(place.ctl(&["change", "limits.fields_max=50"]).0, 0);
    for engine in ["threads", "fibers", "event-loop"] {
        let (status, out, err) = place.ctl(&["change", &format!("engine.name={engine}")]);
        assert_eq!((status, &*err), (0, ""), "{engine}");
        assert!(out.contains(&format!(" with {engine} (")), "{out}");
        assert_eq!(ask(&mut client, "/"), 200);
    }
    let (status, out, _) = place.ctl(&["reload"]);
    assert_eq!(status, 0);
    let told = "no longer changed: limits.fields_max=50, engine.name=event-loop\n";
    assert!(out.contains(" with event-loop-per-core (") && out.ends_with(told), "{out}");
    assert_eq!(ask(&mut client, "/"), 200);
    let said = "stopped after 5 requests on 1 connections\n";
    assert_eq!(place.ctl(&["drain"]), (0, said.into(), String::new()));
    let lines = server.wait_for_end();
    assert!(lines.contains(&format!("ropewalk: {}", said.trim_end())), "{lines:?}");
    assert!(!Path::new(&place.runtime()).exists(), "nothing is left");
}

#[test]
fn a_server_that_is_told_to_drain_answers_when_it_has() {
    let place = Place::new();
    fs::write(place.path("a/large"), vec![b'x'; 8 << 20]).unwrap();
    let server = place.serve(&["--set", "timeouts.drain_ms=600000"]);
    let mut slow = server.connect();
    slow.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let outcome = thread::scope(|scope| {
        let asked = scope.spawn(|| place.ctl(&["drain"]));
        server.wait_for_line(|line| line.contains("stopping: "));
        assert_eq!(answer(&mut slow).0, 200);
        drop(slow);
        asked.join().unwrap()
    });
    let said = "stopped after 1 requests on 1 connections\n";
    assert_eq!(outcome, (0, said.into(), String::new()));
    server.wait_for_end();
}

#[test]
fn requests_that_come_at_once_are_carried_out_one_after_the_other() {
    let place = Place::new();
    let server = place.serve(&[]);
    let settings = ["engine.name=threads", "limits.fields_max=50", "limits.head_bytes_max=9000"];
    let ctl = |setting: &str| place.ctl(&["change", setting]);
    thread::scope(|scope| {
        let change = |setting| scope.spawn(move || ctl(setting));
        for asked in settings.map(change) {
            let (status, _, err) = asked.join().unwrap();
            assert_eq!((status, &*err), (0, ""));
        }
    });
    let (_, out, _) = place.ctl(&["status"]);
    assert!(out.contains(" with threads ("), "{out}");
    let (status, out, _) = place.ctl(&["reload"]);
    assert_eq!(status, 0);
    let told = out.lines().last().unwrap();
    assert!(settings.iter().all(|setting| told.contains(setting)), "{out}");
    server.stop();
}

#[test]
fn a_mistake_is_told_with_its_place_and_nothing_changes() {
    let place = Place::new();
    let write = |text: &str| fs::write(place.path("r.toml"), text).unwrap();
    let text = "listen = [\"127.0.0.1:0\"]\n[[host]]\nroot = \"a\"\n";
    write(text);
    let server = place.serve_by("r.toml");
    let check_refused = |words: &[&str], expected: &str| {
        let (status, out, err) = place.ctl(words);
        assert_eq!((status, &*out), (2, ""), "{words:?}");
        assert!(err.contains(expected) && err.lines().count() == 1, "{err}");
        assert_eq!(server.fetch("/").body, b"of a", "{words:?}");
    };
    write(&format!("{text}rot = 1\n"));
    check_refused(&["reload"], "r.toml:4:1: unknown key \"rot\"");
    check_refused(&["change", "engine.name=nothing"], "r.toml:4:1");
    write(text);
    check_refused(&["change", "engine.name=nothing"], "unknown engine \"nothing\"");
    check_refused(&["change", "limits.fields_max=0"], "--set limits.fields_max=0: ");
    os::signals::send("HUP", &[server.pid()]);
    server.wait_for_line(|line| line.starts_with("ropewalk: SIGHUP: serving "));
    write(&format!("{text}rot = 1\n"));
    os::signals::send("HUP", &[server.pid()]);
    server.wait_for_line(|line| line.contains("SIGHUP: ") && line.contains(":4:1: unknown key"));
    assert_eq!(server.fetch("/").body, b"of a");
    server.stop();
}

/// The same path has another content in the other root, and entries of the first are in the cache.
#[test]
fn what_is_configured_anew_holds_from_then_on() {
    let place = Place::new();
    let write = |root: &str, more: &str| {
        let text = format!("{more}[[host]]\nroot = \"{root}\"\n[timeouts]\ndrain_ms = 500\n");
        fs::write(place.path("r.toml"), text).unwrap();
    };
    write("a", "listen = [\"127.0.0.1:0\"]\n");
    let server = place.serve_by("r.toml");
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(server.fetch("/").body, b"of a");
        assert_eq!(ask(&mut client, "/nothing"), 404);
    }
    write("b", "listen = [\"127.0.0.1:0\"]\n[log]\naccess = \"combined\"\npath = \"log\"\n");
    assert_eq!(place.ctl(&["reload"]).0, 0);
    assert_eq!(server.fetch("/").body, b"of b", "at the same port");
    assert_eq!(ask(&mut client, "/after"), 404, "the connection is kept");
    wait_until(|| fs::read_to_string(place.path("log")).is_ok_and(|log| log.contains("/after")));

    let other = free_address();
    write("a", &format!("listen = [\"{other}\"]\n"));
    let (status, out, err) = place.ctl(&["reload"]);
    assert_eq!((status, &*err), (0, ""));
    assert!(out.contains(&other.to_string()), "{out}");
    assert_eq!(ask(&mut TcpStream::connect(other).unwrap(), "/"), 200);
    let line = format!("ropewalk: no longer listening at {}", server.address());
    server.wait_for_line(|printed| printed == line);
    wait_until(|| TcpStream::connect(server.address()).is_err());
    server.stop();
}

/// Of all requests whose paths are refused those are reported that come while it is on.
#[test]
fn the_error_log_is_turned_off_and_on_while_the_workers_stay() {
    for engine in ["event-loop", "event-loop-copies", "processes"] {
        let place = Place::new();
        for name in ["one", "two", "three"] {
            symlink("/etc/hostname", place.path(&format!("a/{name}"))).unwrap();
        }
        let (mut server, set) = (place.serve(&["--engine", engine]), "log.errors=");
        let workers = children(server.pid());
        let is_refused = |server: &ServerProcess, name: &str| {
            assert_eq!(server.status(&format!("/{name}")), 404, "{engine}: {name}");
        };
        is_refused(&server, "one");
        server.wait_for_line(|line| line.contains("/a/one\": "));
        assert_eq!(place.ctl(&["change", &format!("{set}off")]).0, 0);
        is_refused(&server, "two");
        assert_eq!(place.ctl(&["change", &format!("{set}stderr")]).0, 0);
        is_refused(&server, "three");
        server.wait_for_line(|line| line.contains("/a/three\": "));
        assert_eq!(children(server.pid()), workers, "{engine}");
        assert!(server.is_running());
        let lines = server.stop();
        assert!(!lines.iter().any(|line| line.contains("/a/two")), "{engine}: {lines:#?}");
    }
}

/// The log is opened before it is known whether all else can be.
#[test]
fn a_change_that_is_refused_leaves_no_file_behind() {
    let place = Place::new();
    let write = |listen: &str, log: &str| {
        let log = format!("[log]\naccess = \"combined\"\npath = \"{log}\"\n");
        let text = format!("listen = [\"{listen}\"]\n[[host]]\nroot = \"a\"\n{log}");
        fs::write(place.path("r.toml"), text).unwrap();
    };
    write("127.0.0.1:0", "log");
    let server = place.serve_by("r.toml");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fs::write(place.path("empty"), "").unwrap();
    for (log, stays) in [("other", false), ("empty", true)] {
        write(&address, log);
        let (status, _, err) = place.ctl(&["reload"]);
        assert_eq!(status, 1, "{err}");
        assert!(err.contains(&address), "{err}");
        assert_eq!(fs::exists(place.path(log)).unwrap(), stays, "{log}");
    }
    assert_eq!(server.status("/"), 200);
    server.stop();
    assert_eq!(fs::read_to_string(place.path("log")).unwrap().lines().count(), 1);
}

/// Programs are those of the site that is asked, and what they write is logged as configured.
#[test]
fn programs_are_those_of_the_site_that_is_configured_now() {
    let place = Place::new();
    for root in ["a", "b"] {
        let folder = place.path(&format!("{root}/cgi-bin"));
        fs::create_dir(&folder).unwrap();
        let script = format!(
            "#!/bin/sh\necho 'complaint from {root}' >&2\n\
             printf 'Content-Type: text/plain\\n\\n{root}'\n"
        );
        install_script(&script, Path::new(&format!("{folder}/who")));
        symlink("who", format!("{folder}/link")).unwrap();
    }
    let host = |root: &str, more: &str| {
        format!(
            "[[host]]\nroot = \"{root}\"\n{more}\n\
             [[host.route]]\npath = \"/cgi-bin/**\"\ncgi = true\n"
        )
    };
    let write = |hosts: &[String]| {
        let text = format!("listen = [\"127.0.0.1:0\"]\n{}", hosts.concat());
        fs::write(place.path("r.toml"), text).unwrap();
    };
    write(&[host("a", "")]);
    let server = place.serve_by("r.toml");
    let reload = || assert_eq!(place.ctl(&["reload"]).0, 0);
    let said = |path: &str| {
        let answer = server.fetch(path);
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    assert_eq!(said("/cgi-bin/who"), (200, "a".into()));
    write(&[host("b", "")]);
    reload();
    assert_eq!(said("/cgi-bin/who"), (200, "b".into()), "of the other root");

    let [claimed, default] = ["names = [\"other\"]", "default = true"];
    write(&[host("a", claimed), host("b", default)]);
    reload();
    assert_eq!(said("/cgi-bin/who"), (200, "b".into()), "of the second host");
    write(&[host("b", default), host("a", claimed)]);
    reload();
    assert_eq!(said("/cgi-bin/who"), (200, "b".into()), "of the same host, which is the first now");

    assert_eq!(said("/cgi-bin/link"), (200, "b".into()));
    write(&[host("b", "symlinks = \"never\"")]);
    reload();
    assert_ne!(said("/cgi-bin/link").0, 200, "links are not followed any more");

    write(&[host("b", ""), "[log]\nerrors = \"off\"\n".into()]);
    reload();
    assert_eq!(said("/cgi-bin/who?silent"), (200, "b".into()));
    write(&[host("b", "")]);
    reload();
    assert_eq!(said("/cgi-bin/who?told"), (200, "b".into()));
    server.wait_for_line(|line| line.contains("/cgi-bin/who?told: complaint from b"));
    let lines = server.stop();
    assert!(!lines.iter().any(|line| line.contains("/cgi-bin/who?silent: ")), "{lines:?}");
}

/// The status of the whole answer to a request on this connection, which goes on.
pub(crate) fn ask(client: &mut TcpStream, path: &str) -> u16 {
    answer_to(client, path).0
}

/// Asks, and waits for the answer: its status, and whether it says that it is the last.
pub(crate) fn answer_to(client: &mut TcpStream, path: &str) -> (u16, bool) {
    write!(client, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    answer(client)
}

/// The status of a whole answer, and whether it says that it is the last.
pub(crate) fn answer(client: &mut TcpStream) -> (u16, bool) {
    let head = take_response(client);
    (head[9..12].parse().unwrap(), head.contains("\r\nConnection: close\r\n"))
}

/// Reads a whole response, or its rest from a place in its head on. Returns what it has read of the
/// head.
pub(crate) fn take_response(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let of_field = |line: &str| line.strip_prefix("Content-Length: ")?.parse().ok();
    let length = head.lines().find_map(of_field).expect("a length");
    client.read_exact(&mut vec![0; length]).unwrap();
    head
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn of_several_servers_one_is_chosen() {
    let place = Place::new();
    let servers = [place.serve(&[]), place.serve(&["--engine", "tasks"])];
    let (status, _, err) = place.ctl(&["status"]);
    assert_eq!(status, 2);
    assert!(err.contains("several servers run, ") && err.contains("choose one (--pid)"), "{err}");
    let pid = servers[1].pid().to_string();
    let (status, out, _) = place.ctl(&["--pid", &pid, "status"]);
    assert!(status == 0 && out.contains(" with tasks ("), "{out}");
    let socket = place.path(&format!("run/{pid}.control"));
    assert_eq!(place.ctl(&["--socket", &socket, "status"]).0, 0);
    servers.into_iter().for_each(|server| drop(server.stop()));
    let (status, _, err) = place.ctl(&["status"]);
    assert!(status == 1 && err.contains("no server of this user runs here"), "{err}");
}

/// A start that fails wherever it is takes back what it has opened.
#[test]
fn a_change_that_finds_no_descriptors_changes_nothing() {
    let mut refused = 0;
    for limit in [40, 48, 56] {
        let place = Place::new();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh", ROPEWALK]);
        command.env("RUNTIME_DIRECTORY", place.runtime());
        let site = place.path("a");
        // Engines take descriptors for each CPU.
        let cpus = format!("partitions.cpus=[\"{}\"]", os::affinity::allowed_cpus()[0]);
        let served = serve(&mut command, site.as_ref());
        // However long the clients take.
        let drain = "timeouts.drain_ms=600000";
        let server = ServerProcess::start(served.args(["--set", &cpus, "--set", drain]));
        let change = |engine: &str| {
            let (status, out, err) = place.ctl(&["change", &format!("engine.name={engine}")]);
            let is_refused = status == 1 && err.contains("Too many open files");
            assert!(status == 0 || is_refused, "{engine} with {limit}: {out}{err}");
            is_refused
        };
        let mut clients = [server.connect(), server.connect()];
        let mut round = || {
            for spec in engines::ENGINES {
                let former = children(server.pid());
                let is_refused = change(spec.name);
                refused += usize::from(is_refused);
                for client in &mut clients {
                    if answer_to(client, "/") == (200, true) {
                        *client = server.connect();
                    }
                }
                assert_eq!(server.status("/"), 200, "{}", spec.name);
                // What they have shared is used again when they have ended.
                wait_until(|| is_refused || former.iter().all(|pid| !is_running(*pid)));
            }
        };
        round();
        // What ended processes have shared is kept, to be used again.
        let before = server.descriptors();
        round();
        wait_until(|| server.descriptors() <= before);
        server.stop();
    }
    assert!(refused > 0, "there were enough");
}

/// A signal ends the server by what is configured then.
#[test]
fn connections_have_the_time_of_the_last_change() {
    let place = Place::new();
    let server = place.serve(&[]);
    assert_eq!(place.ctl(&["change", "timeouts.drain_ms=1234"]).0, 0);
    os::signals::send("TERM", &[server.pid()]);
    let lines = server.wait_for_end();
    let told = "stopping: connections have 1.234 s to finish";
    assert!(lines.iter().any(|line| line.contains(told)), "{lines:?}");
}

/// A program that a client has started would have the rights of the server's user.
#[test]
fn a_program_of_the_server_may_not_control_it() {
    let place = Place::new();
    fs::create_dir(place.path("cgi")).unwrap();
    let run = place.runtime();
    let ask = format!("RUNTIME_DIRECTORY={run} '{ROPEWALK}' ctl drain 2>&1");
    let script = format!("#!/bin/sh\necho 'Content-Type: text/plain'\necho\n{ask}; echo $?\n");
    install_script(&script, Path::new(&place.path("cgi/ask")));
    let server = place.serve(&["--cgi-bin", &place.path("cgi")]);
    let said = String::from_utf8(server.fetch("/cgi-bin/ask").body).unwrap();
    assert!(said.contains("a process of the server may not control it\n1\n"), "{said}");
    assert_eq!(server.status("/"), 200);
    server.stop();
}

/// The process that has connected is gone when its connection is used.
#[test]
fn nor_may_what_such_a_program_leaves() {
    if !testkit::has(&testkit::tools::PYTHON) {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("cgi")).unwrap();
    let server = place.serve(&["--cgi-bin", &place.path("cgi")]);
    let socket = format!("{}/{}.control", place.runtime(), server.pid());
    let script = include_str!("left_over.py").replace("SOCKET", &socket);
    install_script(&script, Path::new(&place.path("cgi/ask")));
    let said = String::from_utf8(server.fetch("/cgi-bin/ask").body).unwrap();
    assert!(said.contains(" may not control it"), "{said}");
    assert_eq!(server.status("/"), 200);
    server.stop();
}

/// Processes outside of a server's PID namespace have no numbers in it.
#[test]
fn who_cannot_be_seen_may_not_control_a_server_of_the_same_user() {
    if !testkit::has(&testkit::tools::UNSHARE) {
        return;
    }
    if !testkit::is_root() {
        return testkit::skip("a PID namespace", testkit::NEEDS_ROOT);
    }
    let place = Place::new();
    let mut command = place.command_of(Path::new("unshare"));
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", ROPEWALK]);
    let server = ServerProcess::start(serve(&mut command, place.path("a").as_ref()));
    let socket = format!("{}/1.control", place.runtime());
    let (status, _, err) = place.ctl(&["--socket", &socket, "status"]);
    assert_eq!(status, 1, "{err}");
    assert!(err.contains("a process that /proc does not show may not control it"), "{err}");
    assert_eq!(server.status("/"), 200);
}

/// As `ProtectProc=invisible` of a service does it: a service manager has `ropewalk ctl` started as
/// the user of the service, by a process of root, which the server cannot see.
#[test]
fn root_and_the_user_may_ask_where_proc_hides_others() {
    if !testkit::has(&testkit::tools::UNSHARE) || !testkit::has(&testkit::tools::SETPRIV) {
        return;
    }
    if !testkit::is_root() {
        return testkit::skip("a /proc that hides others", testkit::NEEDS_ROOT);
    }
    let place = Place::new();
    fs::create_dir(place.runtime()).unwrap();
    fs::set_permissions(place.runtime(), fs::Permissions::from_mode(0o700)).unwrap();
    chown(place.runtime(), Some(65534), Some(65534)).unwrap();
    let mut command = place.command_of(Path::new("unshare"));
    let hide = "mount -t proc -o hidepid=invisible proc /proc && exec \"$@\"";
    let as_user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", ROPEWALK];
    command.args(["--mount", "sh", "-c", hide, "sh"]).args(as_user);
    let server = ServerProcess::start(serve(&mut command, place.path("a").as_ref()));
    let socket = format!("{}/{}.control", place.runtime(), server.pid());
    let status = ["ctl", "--socket", &socket, "status"];
    assert_eq!(testkit::finished(place.command().args(status)).0, 0, "root");
    let mut command = place.command_of(Path::new(as_user[0]));
    let (status, _, err) = testkit::finished(command.args(&as_user[1..]).args(status));
    assert_eq!((status, &*err), (0, ""));
    server.stop();
}

#[test]
fn without_a_private_folder_there_is_no_control_socket() {
    let place = Place::new();
    fs::create_dir(place.runtime()).unwrap();
    fs::set_permissions(place.runtime(), fs::Permissions::from_mode(0o755)).unwrap();
    let server = place.serve(&[]);
    let why = " must be a directory of this user with mode 0700";
    server.wait_for_line(|line| line.contains("no control socket: ") && line.contains(why));
    assert_eq!(place.ctl(&["status"]).0, 1);
    assert_eq!(server.status("/"), 200);
    server.stop();
}

/// In a folder that any user can make, as one in `/tmp`, any user may pretend to be a server.
#[test]
fn a_socket_in_a_folder_of_others_is_not_asked() {
    let place = Place::new();
    fs::create_dir(place.runtime()).unwrap();
    let impostor = UnixListener::bind(format!("{}/1.control", place.runtime())).unwrap();
    thread::spawn(move || {
        while let Ok((mut client, _)) = impostor.accept() {
            let _ = client.write_all(b"serving whatever you like\n\x000");
        }
    });
    let check_not_asked = |command: &mut Command| {
        let (status, out, err) = testkit::finished(command.args(["ctl", "reload"]));
        assert_eq!((status, &*out), (1, ""), "{err}");
        assert!(err.contains("/run is not asked: ") && err.lines().count() == 1, "{err}");
    };
    for mode in [0o770, 0o702] {
        fs::set_permissions(place.runtime(), fs::Permissions::from_mode(mode)).unwrap();
        check_not_asked(&mut place.command());
    }
    fs::set_permissions(place.runtime(), fs::Permissions::from_mode(0o777)).unwrap();
    let link = place.path("link/run");
    fs::create_dir(place.path("link")).unwrap();
    symlink(place.runtime(), &link).unwrap();
    check_not_asked(place.command().env("RUNTIME_DIRECTORY", link));
    if !testkit::has(&testkit::tools::SETPRIV) {
        return;
    }
    if !testkit::is_root() {
        return testkit::skip("a folder of another user", testkit::NEEDS_ROOT);
    }
    fs::set_permissions(place.runtime(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = place.command_of(Path::new("setpriv"));
    check_not_asked(command.args(["--reuid", "65534", "--clear-groups", ROPEWALK]));
}

/// A service has a folder of its user, which root may ask for as well.
#[test]
fn root_asks_the_servers_of_others() {
    if !testkit::is_root() {
        return testkit::skip("a folder of another user", testkit::NEEDS_ROOT);
    }
    let place = Place::new();
    let server = place.serve(&[]);
    chown(place.runtime(), Some(65534), None).unwrap();
    assert_eq!(place.ctl(&["status"]).0, 0);
    server.stop();
}

#[test]
fn what_a_server_answers_does_not_set_the_terminal() {
    let place = Place::new();
    let socket = place.path("socket");
    let server = UnixListener::bind(&socket).unwrap();
    let answering = thread::spawn(move || {
        for status in ["0", "1"] {
            let (mut client, _) = server.accept().unwrap();
            client.read_to_end(&mut Vec::new()).unwrap();
            write!(client, "one\x1b[2J\ntwo\r\n\0{status}").unwrap();
        }
    });
    let [done, failed] = [0, 1].map(|_| place.ctl(&["--socket", &socket, "status"]));
    answering.join().unwrap();
    assert_eq!(done, (0, "one\\u{1b}[2J\ntwo\n".into(), String::new()));
    assert_eq!(failed.0, 1);
    assert!(failed.2.contains("one\\u{1b}[2J\n"), "{failed:?}");
}
