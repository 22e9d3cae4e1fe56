//! Each shipped server starts, serves the files, and stops without leaving a process behind; under
//! bounds too.
//!
//! Conformance is not tested here: `differential.rs` compares it.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use lab::http::{self, Connection};
use lab::testbed::{Affinity, Place};
use lab::trial::Target;
use lab::{
    Found, Installed, Launch, RunningServer, ServerDescription, SourceTree, StartError, Values,
};
use os::affinity::allowed_cpus_of;
use serde_json::Value;
use testkit::{NEEDS_ROOT, Temporary, finished, wait_until};

use crate::machine::skip;
use crate::server_process::ropewalk_server;
use crate::{REPOSITORY, run};

/// The files that are served. The floor identifies files by the numbers in their names.
const FILES: [(&str, usize); 4] =
    [("0.txt", 0), ("1.txt", 1 << 20), ("folder/2.txt", 5000), ("folder/3.txt", 70_000)];

/// The folder that is served. Its name has a space, as users' folders may.
const SITE: &str = "My site";

/// The index of a folder, which each log of real users requests. The floor serves only the files of
/// its list.
const INDEX: (&str, &str) = ("folder/index.html", "the index of a folder");

/// Servers that Debian lacks: the first takes minutes to build, and the second needs sources that
/// Debian lacks.
const NOT_IN_DEBIAN: [&str; 2] = ["static-web-server", "gofasthttp"];

/// The variable that names servers that must be installed although Debian lacks them.
const MUST_BE_THERE: &str = "ROPEWALK_TEST_SERVERS";

/// What the server says of its engines.
pub(crate) fn engines() -> Vec<Value> {
    let (status, out, _) = finished(Command::new(ropewalk_server()).args(["engines", "--json"]));
    assert_eq!(status, 0);
    serde_json::from_str(&out).unwrap()
}

/// Starting is mostly waiting.
const THREADS: usize = 4;

#[test]
fn every_server_serves_what_is_there_and_stops() {
    let stage = Stage::create();
    // Ropewalk and its engines have their own test.
    let descriptions: Vec<ServerDescription> =
        shipped().into_iter().filter(|it| !it.name.starts_with("ropewalk")).collect();
    let found = Found::detect(&descriptions, &[], &SourceTree::find(true)).unwrap();
    let wanted = std::env::var(MUST_BE_THERE).unwrap_or_default();
    for absent in found.skipped {
        assert!(wanted.split(',').all(|name| name != absent.name), "{absent:?}");
        let why = format!("{}: {}", absent.reason, absent.command);
        let name = absent.name.as_str();
        if NOT_IN_DEBIAN.contains(&name) {
            testkit::leave_out(name, &why);
        } else {
            skip(name, &why);
        }
    }
    stage.try_all(&found.installed);
}

#[test]
fn every_engine_is_a_server() {
    let engines = engines();
    let names = engines.iter().map(|engine| engine["name"].as_str().unwrap());
    let descriptions = lab::catalogue(Ok(&ropewalk_server()), None).unwrap();
    let ours: Vec<ServerDescription> = descriptions
        .into_iter()
        .filter(|description| description.name.starts_with("ropewalk"))
        .collect();
    let names: Vec<&str> = names.collect();
    let of_template = |template: &str| {
        let engines = names.iter().map(|name| format!("{template}:{name}"));
        std::iter::once(template.to_owned()).chain(engines).collect::<Vec<_>>()
    };
    let templates = ["ropewalk", "ropewalk-fastcgi", "ropewalk-proxy"];
    let expected: Vec<String> = templates.into_iter().flat_map(of_template).collect();
    assert_eq!(
        ours.iter().map(|description| description.name.clone()).collect::<Vec<_>>(),
        expected
    );
    for (description, engine) in ours[1..].iter().zip(&engines) {
        for knob in engine["knobs"].as_array().unwrap() {
            let name = knob["name"].as_str().unwrap();
            let turned = &description.knobs[&format!("engine.knobs.{name}")];
            let grid = turned.grid();
            assert!((2..=12).contains(&grid.len()), "{}: {turned:?}: {grid:?}", description.name);
        }
    }
    let found = Found::detect(&ours, &[], &SourceTree::find(false)).unwrap();
    for absent in found.skipped {
        if absent.reason.starts_with("the application behind it: ") {
            skip(&absent.name, &format!("{}: {}", absent.reason, absent.command));
            continue;
        }
        // Rings may be absent, with a message, where the kernel does not permit them; no other
        // engine may.
        assert!(absent.name.ends_with(":rings"), "{absent:?}");
        assert!(!absent.reason.is_empty() && absent.command == "ropewalk doctor", "{absent:?}");
    }
    Stage::create().try_all(&found.installed);
}

/// What the application uses is not taken for the server's, and it ends with its server.
#[test]
fn an_application_is_apart_from_its_server() {
    let front = shipped().into_iter().find(|description| description.name == "nginx-proxy");
    let front = front.unwrap();
    let Ok(installed) = front.install(&SourceTree::find(false)) else {
        return skip("an application behind a server", &front.package);
    };
    let stage = Stage::create();
    let launch = Launch { workers: 1, ..stage.launch() };
    let server = RunningServer::start(&installed, &front.settings[0], &launch).unwrap();
    stage.compare(&server, Connection::KeepAlive).unwrap();
    let target = Target::of_server(&server);
    let application = target.applications()[0];
    wait_until(|| server.group().processes().len() == 2 && application.processes().len() == 2);
    assert!(application.cpu_ns() > 0 && server.group().cpu_ns() > 0);
    let (of_server, behind) = (server.group().processes(), application.processes());
    assert!(!of_server.iter().any(|pid| behind.contains(pid)), "{of_server:?} {behind:?}");
    server.stop();
    wait_until(|| !behind.iter().any(|pid| is_running(*pid)));
}

/// An application that does not listen is named, with what it printed.
#[test]
fn an_application_that_does_not_listen_is_named() {
    let text = EXAMPLE.replace("/nonexistent/example", "true").replace(
        "stop =",
        "application = { detect = ['true'], command = ['sh', '-c', 'echo no room; exit 1'] }\n\
         stop =",
    );
    let description = ServerDescription::parse(&text).unwrap();
    let installed = description.install(&SourceTree::find(false)).unwrap();
    let (stage, setting) = (Stage::create(), &description.settings[0]);
    let why = RunningServer::start(&installed, setting, &stage.launch()).unwrap_err();
    let expected =
        "it does not serve (the application behind it does not listen): it ended: no room";
    assert_eq!(why.to_string(), expected);
}

#[test]
fn servers_are_listed_with_what_is_missing() {
    let own = Temporary::new();
    own.file("example.toml", EXAMPLE);
    let folder = own.path().display().to_string();
    let (status, out, error) = run(&["servers", "--servers", &folder, "--json"]);
    assert_eq!((status, error.as_str()), (0, ""));
    let (status, same, notice) = run(&["peers", "--peers", &folder, "--json"]);
    assert_eq!((status, notice.lines().count()), (0, 2), "{notice}");
    let descriptions: Value = serde_json::from_str(&out).unwrap();
    let descriptions = descriptions.as_array().unwrap();
    let same: Vec<Value> = serde_json::from_str(&same).unwrap();
    let names = |all: &[Value]| all.iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&same), names(descriptions));
    assert!(descriptions.len() > 12 + engines().len(), "{out}");
    for description in descriptions {
        let is_known = description["version"].is_string();
        let helps =
            description["skipped"]["command"].as_str().is_some_and(|command| command.len() > 5);
        assert!(is_known != helps, "{description}");
        let grids = description["knobs"].as_array().unwrap().iter().map(|knob| &knob["grid"]);
        assert!(
            grids.into_iter().all(|grid| !grid.as_array().unwrap().is_empty()),
            "{description}"
        );
    }
    let (status, out, _) = run(&["servers", "example", "--servers", &folder]);
    assert_eq!(status, 0);
    assert!(out.starts_with("example: not available: /nonexistent/example: No such file"), "{out}");
    assert!(out.contains("\n  fix: make example\n"), "{out}");
    assert!(out.ends_with("\n    threads = \"{workers}\"  (1, 2, 3)  threads\n"), "{out}");
    own.file("broken.toml", EXAMPLE);
    let (status, _, error) = run(&["servers", "--servers", &folder]);
    let expected = "broken.toml: it is named \"example\", but its file is not\n";
    assert!(status == 2 && error.ends_with(expected), "{error}");
    let (status, _, error) = run(&["servers", "ngnix"]);
    let expected = "ropewalk: there is no server \"ngnix\" (did you mean \"nginx\"?): see `ropewalk \
                    servers`\n";
    assert_eq!((status, &*error), (2, expected));
}

/// The description of a server that is never installed.
const EXAMPLE: &str = r#"
    name = "example"
    description = "nothing at all"
    package = "make example"
    detect = { command = ["/nonexistent/example"], version_after = "" }
    settings = [{ name = "usual", about = "as it is" }]
    knobs = { threads = { about = "threads", default = "{workers}", from = 1, to = 3, step = 1 } }
    start = { command = ["/nonexistent/example", "{port}", "{threads}"] }
    stop = { signal = "TERM" }
"#;

#[test]
fn a_server_keeps_to_its_processors_and_its_memory() {
    const BYTES_MAX: u64 = 300 << 20;
    let stage = Stage::create();
    let nginx = shipped().into_iter().find(|description| description.name == "nginx").unwrap();
    let Ok(installed) = nginx.install(&SourceTree::find(false)) else {
        return skip("bounds of a server", &format!("nginx is not there: {}", nginx.package));
    };
    let cpus = os::affinity::allowed_cpus();
    for cpus in [&cpus[..1], &cpus[..]] {
        let launch = Launch {
            cpus: cpus.to_vec(),
            workers: cpus.len() + 1,
            memory_bytes_max: Some(BYTES_MAX),
            ..stage.launch()
        };
        let server = match RunningServer::start(&installed, &nginx.settings[0], &launch) {
            Err(why @ StartError::NotStarted(_)) => {
                let why = why.to_string();
                return skip(
                    "a bound on memory",
                    if testkit::is_root() { &why } else { NEEDS_ROOT },
                );
            }
            started => started.unwrap(),
        };
        // The server answers as soon as its first worker does, so others may start later.
        let count = || server.group().processes().len();
        wait_until(|| count() == 1 + launch.workers);
        for pid in server.group().processes() {
            assert_eq!(allowed_cpus_of(pid).unwrap(), cpus, "of process {pid}");
            let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
            let memory = groups.lines().find(|line| line.contains(":memory:"));
            let memory = memory.or_else(|| groups.lines().find(|line| line.starts_with("0::")));
            assert!(memory.unwrap().contains("/ropewalk-"), "{groups}");
        }
    }
}

/// The servers of the repository, with enough time to start beside other tests.
fn shipped() -> Vec<ServerDescription> {
    let mut descriptions =
        ServerDescription::read_all(&Path::new(REPOSITORY).join("servers")).unwrap();
    descriptions.iter_mut().for_each(|description| description.ready.within_ms *= 5);
    descriptions
}

/// Files to serve, and a folder in which servers may work.
pub(crate) struct Stage {
    root: Temporary,
    scratch: Temporary,
}

impl Stage {
    pub(crate) fn create() -> Self {
        let stage = Self { root: Temporary::new(), scratch: Temporary::new() };
        for (name, len) in FILES {
            stage.root.file(&format!("{SITE}/{name}"), content(len));
        }
        stage.root.file(&format!("{SITE}/{}", INDEX.0), INDEX.1);
        let paths = FILES.map(|(name, _)| format!("/{name}")).join("\n");
        stage.scratch.file(&format!("{SITE}/paths"), paths);
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stage.scratch.file(&format!("{SITE}/head"), head);
        stage
    }

    pub(crate) fn launch(&self) -> Launch {
        let scratch = self.scratch.path().join(SITE);
        let path = |name: &str| scratch.join(name).display().to_string();
        let cpus = os::affinity::allowed_cpus();
        Launch {
            source_tree: SourceTree::find(false),
            root: self.root.path().join(SITE),
            scratch: scratch.clone(),
            workers: cpus.len(),
            cpus,
            memory_bytes_max: None,
            ready_path: format!("/{}", FILES[0].0),
            workload: Values::from([
                ("path_list".to_owned(), path("paths")),
                ("head_file".to_owned(), path("head")),
                ("connection".to_owned(), "keep-alive".to_owned()),
            ]),
            place: Place::default(),
            affinity: Affinity::default(),
        }
    }

    fn try_all(&self, descriptions: &[Installed]) {
        let waiting = Mutex::new(descriptions.iter());
        let failures = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    loop {
                        let next = waiting.lock().unwrap().next();
                        let Some(installed) = next else { return };
                        if let Err(why) = self.try_one(installed) {
                            let name = &installed.description.name;
                            failures.lock().unwrap().push(format!("{name}: {why}"));
                        }
                    }
                });
            }
        });
        let failures = failures.into_inner().unwrap();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    fn try_one(&self, installed: &Installed) -> Result<(), String> {
        let server =
            RunningServer::start(installed, &installed.description.settings[0], &self.launch())?;
        for connection in [Connection::KeepAlive, Connection::Close] {
            self.compare(&server, connection)?;
        }
        if installed.description.name != "floor" {
            for path in ["/folder/", "/folder/index.html"] {
                let index = http::connect(server.address())
                    .and_then(|mut stream| http::get(&mut stream, path, Connection::Close));
                let index = index.map_err(|why| format!("{path}: {why}"))?;
                if index.status != 200 || index.body != INDEX.1.as_bytes() {
                    return Err(format!("{path}: status {}", index.status));
                }
            }
            let mut stream = http::connect(server.address()).map_err(|why| why.to_string())?;
            http::send_get(&mut stream, "/absent.txt", Connection::Close)
                .map_err(|why| why.to_string())?;
            let mut head = [0; 12];
            std::io::Read::read_exact(&mut stream, &mut head).map_err(|why| why.to_string())?;
            if &head != b"HTTP/1.1 404" {
                return Err(format!("no 404: {}", String::from_utf8_lossy(&head)));
            }
        }
        let processes = server.group().processes();
        let printed = server.stop();
        let left: Vec<&u32> = processes.iter().filter(|pid| is_running(**pid)).collect();
        if processes.is_empty() || !left.is_empty() {
            return Err(format!("of {processes:?} it leaves {left:?}: {printed}"));
        }
        Ok(())
    }

    /// Checks that each file is served unchanged.
    fn compare(&self, server: &RunningServer, connection: Connection) -> Result<(), String> {
        let mut kept = None;
        for (name, len) in FILES {
            let explain = |why: std::io::Error| format!("{name}, {connection:?}: {why}");
            let mut stream = match kept.take() {
                Some(stream) => stream,
                None => http::connect(server.address()).map_err(explain)?,
            };
            let path = format!("/{name}");
            let response = http::get(&mut stream, &path, connection).map_err(explain)?;
            if response.status != 200 || response.body != content(len) {
                let (status, found) = (response.status, response.body.len());
                return Err(format!("{name}: status {status}, {found} bytes for {len}"));
            }
            kept = (connection == Connection::KeepAlive).then_some(stream);
        }
        Ok(())
    }
}

/// Makes bytes whose pattern does not repeat with any power of two.
fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

/// Whether a process runs: false if it has ended, even if it is still listed.
fn is_running(pid: u32) -> bool {
    os::accounting::process(pid).is_some_and(|process| !process.has_ended)
}
