//! Changes of the configuration while clients ask: each answer is of one site, and a client that
//! connects after a change is answered by the new one.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use server::config::{CacheScope, Config, WorkerProgram};
use testkit::{Temporary, circuit, comes_true, wait_until};

use crate::for_each_engine;
use crate::harness::{Running, config, connect, take_head};
use crate::open_files::is_open;
use crate::overload::{self, counter, large};
use crate::processes::children;
use crate::under_test::engines;

const NAMES: [&str; 2] = ["former", "next"];

/// Paths that are answered with a file of the site, from a route over its error pages as well.
const PATHS: [&str; 3] = ["/", "/d/page.html", "/missing"];

/// A site of which every file and every answer says the name.
fn site_of(name: &str) -> Temporary {
    let directory = Temporary::new();
    for file in ["index.html", "d/page.html", "none.html"] {
        directory.file(&format!("site/{file}"), name);
    }
    directory
}

fn config_of(directory: &Temporary, name: &str, engine: &str) -> Config {
    let set = [
        format!("engine.name={engine}"),
        format!("host.header=[{{ path = \"/**\", name = \"X-Site\", value = \"{name}\" }}]"),
        "host.error_pages={ 404 = \"/none.html\" }".into(),
        "timeouts.drain_ms=600000".into(),
    ];
    config(directory, &set.each_ref().map(String::as_str))
}

/// A request and its answer: the name of the site in its head and in its body, and whether it is
/// the last; none if the server has closed the connection before.
pub(crate) fn ask(client: &mut TcpStream, path: &str) -> Option<([String; 2], bool)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
    client.write_all(request.as_bytes()).ok()?;
    if client.peek(&mut [0]).ok()? == 0 {
        return None;
    }
    let head = String::from_utf8(take_head(client)).unwrap();
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}{head}")).trim().to_owned()
    };
    let mut body = vec![0; field("Content-Length:").parse().unwrap()];
    client.read_exact(&mut body).unwrap();
    let is_last = head.contains("\r\nConnection: close\r\n");
    Some(([field("X-Site:"), String::from_utf8(body).unwrap()], is_last))
}

/// Asks again and again on connections that are kept, until the test has ended.
fn keep_asking(address: SocketAddr, has_ended: &AtomicBool) {
    let mut client = TcpStream::connect(address).unwrap();
    for path in PATHS.iter().cycle() {
        let answer = ask(&mut client, path);
        if let Some(([head, body], _)) = &answer {
            assert_eq!(head, body, "{path}: an answer of two sites");
        }
        if answer.is_none_or(|(_, is_last)| is_last) {
            client = TcpStream::connect(address).unwrap();
        }
        if has_ended.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Connections on their way to a worker process that is killed come to the next process of its
/// place, and a client that is lost sees the end of the connection.
#[test]
fn no_client_waits_for_a_process_that_was_killed() {
    // Few: descriptors from 1024 on are too many for another test of this program.
    const CLIENTS: usize = 40;
    let site = site_of("site");
    for spec in engines().iter().filter(|spec| spec.moves.are_taken()) {
        let threads = config_of(&site, "site", "event-loop");
        let mut processes = config_of(&site, "site", spec.name);
        processes.settings.engine.processes = 2;
        let mut server = Running::start(&threads);
        let connect = || TcpStream::connect(server.addresses()[0]).unwrap();
        let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // Others have sent nothing yet.
            if number % 2 == 0 {
                assert!(ask(client, "/").is_some());
            }
        }
        server.change(&processes).unwrap();
        let victim = server.worker_processes()[0];
        os::signals::send("KILL", &[victim]);
        let answered = clients.iter_mut().filter_map(|client| ask(client, "/")).count();
        println!("{}: {answered} of {CLIENTS} are answered", spec.name);
        assert!(answered >= CLIENTS / 2, "{}: {answered} are answered", spec.name);
        // And all that are left come back.
        server.change(&threads).unwrap();
        let left = clients.iter_mut().filter_map(|client| ask(client, "/"));
        assert_eq!(left.filter(|(_, is_last)| !is_last).count(), answered, "{}", spec.name);
    }
}

/// The workers do not change with it, so that no client has to go anywhere.
#[test]
fn the_next_request_of_a_kept_connection_is_answered_by_the_next_site() {
    let sites = NAMES.map(site_of);
    for_each_engine(|spec| {
        let configs = [0, 1].map(|which| {
            let mut config = config_of(&sites[which], NAMES[which], spec.name);
            config.settings.timeouts.drain_ms = 1;
            config
        });
        let mut server = Running::start(&configs[0]);
        let processes = server.worker_processes();
        let mut client = TcpStream::connect(server.addresses()[0]).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        for step in 0..20 {
            for path in PATHS {
                let (names, is_last) = ask(&mut client, path).expect("it is still open");
                assert_eq!(names, [NAMES[step % 2]; 2], "{}: {path} at step {step}", spec.name);
                assert!(!is_last, "{}: the connection ends", spec.name);
            }
            server.change(&configs[(step + 1) % 2]).unwrap();
            server.do_housekeeping();
        }
        assert_eq!(server.worker_processes(), processes, "{}", spec.name);
    });
}

/// The workers have not heard of it: those of another process would have to be replaced.
#[test]
fn a_site_without_its_root_changes_nothing() {
    let directory = site_of("former");
    for_each_engine(|spec| {
        let former = config_of(&directory, "former", spec.name);
        let mut next = config_of(&directory, "next", spec.name);
        next.settings.hosts[0].root = directory.path().join("none");
        let mut server = Running::start(&former);
        let processes = server.worker_processes();
        let mut client = TcpStream::connect(server.addresses()[0]).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        ask(&mut client, "/").expect("it was just opened");
        let why = server.change(&next).unwrap_err().to_string();
        assert!(why.contains("/none"), "{}: {why}", spec.name);
        let (names, is_last) = ask(&mut client, "/").expect("it is still open");
        assert_eq!((names, is_last), (["former"; 2].map(String::from), false), "{}", spec.name);
        assert_eq!(server.worker_processes(), processes, "{}", spec.name);
    });
}

/// One process is ready while another is still to fail: no client may have come to the first.
#[test]
fn a_process_that_fails_to_start_costs_no_client() {
    const CLIENTS: usize = 20;
    let site = site_of("site");
    for_each_engine(|spec| {
        let name = spec.name;
        let flags = Temporary::new();
        let flag = |name: &str| flags.path().join(name);
        let mut next = config_of(&site, "next", name);
        next.settings.engine.processes = 2;
        let worker = next.worker_program.path.clone();
        let script = "if [ $3 = 1 ]; then : >$0/begins; n=0; \
                      until [ -e $0/ends ] || [ $n = 3000 ]; do sleep 0.01; n=$((n+1)); done; \
                      exit 3; fi; worker=$1; shift 2; exec $worker \"$@\"";
        let arguments =
            ["-c", script, flags.path().to_str().unwrap(), worker.to_str().unwrap(), ""];
        let arguments = arguments.map(String::from).into();
        next.worker_program = WorkerProgram { path: "/bin/sh".into(), arguments };
        let mut server = Running::start(&config_of(&site, "former", "event-loop"));
        let address = server.addresses()[0];
        thread::scope(|scope| {
            let changes = scope.spawn(|| server.change(&next).unwrap_err().to_string());
            wait_until(|| flag("begins").exists());
            let mut answers = Vec::new();
            let mut clients = Vec::new();
            for _ in 0..CLIENTS {
                clients.push(TcpStream::connect(address).unwrap());
                answers.extend(clients.iter_mut().map(|client| ask(client, "/")));
                thread::sleep(Duration::from_millis(5));
            }
            fs::write(flag("ends"), "").unwrap();
            let why = changes.join().unwrap();
            assert!(why.contains("worker process 1: ended with status 3"), "{name}: {why}");
            answers.extend(clients.iter_mut().map(|client| ask(client, "/")));
            for answer in answers {
                let (names, _) = answer.expect("it is still open");
                assert_eq!(names[0], "former", "{name}");
            }
        });
    });
}

/// Its file system could not be unmounted otherwise. Most processes have answered nothing since.
#[test]
fn no_process_keeps_the_root_of_a_former_site_open() {
    for_each_engine(|spec| {
        let sites = NAMES.map(site_of);
        let configs = [0, 1].map(|which| {
            let mut config = config_of(&sites[which], NAMES[which], spec.name);
            // Each has a cache, and what goes with it.
            config.settings.cache.scope = CacheScope::Worker;
            config
        });
        let mut server = Running::start(&configs[0]);
        let mut client = connect(&server);
        ask(&mut client, "/").expect("it was just opened");
        let former = &configs[0].settings.hosts[0].root;
        assert!(is_open(&server, former), "{}", spec.name);
        server.change(&configs[1]).unwrap();
        let is_closed = comes_true(|| {
            server.do_housekeeping();
            !is_open(&server, former)
        });
        assert!(is_closed, "{}", spec.name);
    });
}

/// Engines, and how far below the worker process those are that are killed: it, those that it has
/// forked, or those that these have.
const KILLED: [(&str, usize); 6] = [
    ("event-loop-shared-listener", 0),
    ("event-loop-shared-cache", 0),
    ("event-loop-shared-cache", 1),
    ("processes", 0),
    ("processes", 1),
    ("processes", 2),
];

/// A process that comes in the place of another begins with what holds then.
#[test]
fn a_process_that_is_replaced_goes_by_the_last_site() {
    testkit::side_by_side(&KILLED, |(engine, depth)| {
        let sites = NAMES.map(site_of);
        let configs = [0, 1].map(|which| {
            let mut config = config_of(&sites[which], NAMES[which], engine);
            config.settings.engine.processes = u64::from(*engine == "event-loop-shared-listener");
            config
        });
        let mut server = Running::start(&configs[0]);
        // No client has asked for what was there in between.
        [1, 0, 1].iter().for_each(|which| server.change(&configs[*which]).unwrap());
        let below = |found: &[u32]| -> Vec<u32> {
            found.iter().flat_map(|process| children(*process)).collect()
        };
        let mut killed = Vec::new();
        wait_until(|| {
            killed = (0..*depth).fold(server.worker_processes(), |found, _| below(&found));
            !killed.is_empty()
        });
        let left = [&killed[..], &below(&killed), &below(&below(&killed))].concat();
        os::signals::send("KILL", &killed);
        let has_ended =
            |process: &u32| os::accounting::process(*process).is_none_or(|it| it.has_ended);
        wait_until(|| left.iter().all(has_ended));
        for step in 1..4 {
            let mut client = connect(&server);
            let (names, _) = ask(&mut client, "/").expect("it was just opened");
            assert_eq!(names, [NAMES[step % 2]; 2], "{engine}: step {step}");
            server.change(&configs[(step + 1) % 2]).unwrap();
        }
        let former = &configs[1].settings.hosts[0].root;
        assert!(comes_true(|| !is_open(&server, former)), "{engine}: {depth}");
    });
}

/// What tells the workers of a server from others that come in their place.
pub(crate) fn workers_of(server: &Running) -> Vec<usize> {
    let processes = server.worker_processes();
    let counters = server.counters();
    match processes.is_empty() {
        true => counters.iter().take(1).map(|counters| Arc::as_ptr(counters) as usize).collect(),
        false => processes.into_iter().map(|process| process as usize).collect(),
    }
}

/// Who is served already stays, and others wait for a place, or get one.
#[test]
fn another_limit_of_connections_holds_while_the_workers_stay() {
    let directory = overload::site();
    for_each_engine(|spec| {
        let config = |places: &str| {
            let places = format!("limits.connections_max={places}");
            let engine = format!("engine.name={}", spec.name);
            // What has to move to other workers may take its time.
            let more = ["partitions.cpus=[\"0\"]", "timeouts.drain_ms=600000"];
            config(&directory, &[&engine, &places, more[0], more[1]])
        };
        if let "processes" | "event-loop-shared-cache" = spec.name {
            return; // each process has its share of them from the start
        }
        let mut server = Running::start(&config("4"));
        let workers = workers_of(&server);
        let begin = |server: &Running| {
            let mut client = connect(server);
            client.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            take_head(&mut client);
            client
        };
        let mut served = [(); 2].map(|()| begin(&server));
        server.change(&config("2")).unwrap();
        let mut waiting = connect(&server);
        waiting.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        wait_until(|| counter(&server, |c| c.accept_pauses.get()) > 0);
        server.change(&config("3")).unwrap();
        let head = String::from_utf8(take_head(&mut waiting)).unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{}: {head}", spec.name);
        assert_eq!(workers_of(&server), workers, "{}", spec.name);
        // There is room for more than there was from the start.
        server.change(&config("auto")).unwrap();
        let _more = [(); 4].map(|()| begin(&server));
        for client in &mut served {
            let mut content = vec![0; large().len()];
            client.read_exact(&mut content).unwrap();
            assert!(content == large(), "{}", spec.name);
        }
    });
}

#[test]
fn nothing_of_a_former_site_answers_for_the_next() {
    let sites = NAMES.map(site_of);
    let configs = |engine: &str| [0, 1].map(|which| config_of(&sites[which], NAMES[which], engine));
    let configs: Vec<_> = engines().iter().map(|spec| configs(spec.name)).collect();
    let Some([first, _]) = configs.first() else { return };
    let mut server = Running::start(first);
    let address = server.addresses()[0];
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| keep_asking(address, &has_ended));
        }
        for (step, engine) in circuit(configs.len()).into_iter().enumerate() {
            let which = step % 2;
            server.change(&configs[engine][which]).unwrap();
            for path in PATHS {
                let mut client = TcpStream::connect(address).unwrap();
                let (names, _) = ask(&mut client, path).expect("it was just opened");
                assert_eq!(names, [NAMES[which]; 2], "{path} at step {step}");
            }
        }
        has_ended.store(true, Ordering::Relaxed);
    });
}
