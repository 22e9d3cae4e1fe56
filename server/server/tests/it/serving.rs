//! Servers on sockets of this machine: what they answer, what they log, and what they refuse to
//! start with.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use server::config::Arguments;
use server::{Server, StartError};
use testkit::comes_true;

use crate::harness::{config, connect, site, start};
use crate::under_test::load;

/// Sends one request on a connection of its own and returns the whole response.
pub(crate) fn get(server: &Server, path: &str) -> String {
    try_get(server, path).unwrap()
}

/// Sends one request for `path` on a connection of its own and returns the whole response, or the
/// error that cut it off.
pub(crate) fn try_get(server: &Server, path: &str) -> io::Result<String> {
    request(connect(server), path, "")
}

/// Sends one request for `path` with further fields, the last on the connection, and returns the
/// whole response, or the error that cut it off.
pub(crate) fn request(mut stream: TcpStream, path: &str, fields: &str) -> io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

#[test]
fn every_engine_serves_and_counts() {
    let directory = site();
    crate::for_each_engine(|spec| {
        let server = start(&directory, &[&format!("engine.name={}", spec.name)]);
        assert!(server.description().contains(spec.name), "{}", server.description());
        let response = get(&server, "/");
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.ends_with("<h1>Rope</h1>"), "{response}");
        assert!(get(&server, "/none").starts_with("HTTP/1.1 404 "));
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!((summary.requests, summary.connections, summary.aborted), (2, 2, false));
    });
}

/// Each value may be 16 KiB long, and nothing bounds how many there are.
#[test]
fn fields_of_more_than_64_kib_are_sent_whole() {
    const RULES: usize = 5;
    let directory = site();
    let value = "v".repeat(site::check::FIELD_BYTES_MAX);
    let rule = |index| {
        format!("[[host.header]]\npath = \"/**\"\nname = \"X-{index}\"\nvalue = \"{value}\"\n")
    };
    let root = directory.path().join("site");
    let host = format!("[[host]]\nroot = {root:?}\n");
    let rules = std::iter::once(host).chain((0..RULES).map(rule));
    let rules = directory.file("rules.toml", rules.collect::<String>());
    crate::for_each_engine(|spec| {
        let set = [format!("engine.name={}", spec.name)];
        let arguments = Arguments {
            config: Some(rules.clone()),
            listen: vec!["127.0.0.1:0".into()],
            set: set.into(),
            ..Arguments::default()
        };
        let server = Server::start(&load(&arguments).unwrap()).unwrap();
        for (path, body) in [("/", "<h1>Rope</h1>"), ("/none", "")] {
            let response = get(&server, path);
            assert!(response.ends_with(body), "{path}: {} bytes", response.len());
            let fields = response.split("\r\n").filter(|line| line.ends_with(&value)).count();
            assert_eq!(fields, RULES, "{path}");
        }
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn the_description_says_what_where_and_how() {
    let directory = site();
    directory.file("site/cgi/x", "");
    let root = directory.path().join("site").display().to_string();
    let check = |routes: &str, what: &str| {
        let routes = format!("host.route=[{routes}]");
        let set = ["engine.name=event-loop", "partitions.cpus=[\"0\"]", &routes];
        let server = start(&directory, &set);
        let address = server.addresses()[0];
        let expected =
            format!("serving {what} at http://{address} with event-loop (1 worker on CPUs 0)");
        assert_eq!(server.description(), expected);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    };
    check("", &root);
    check("{ path = \"/**\" }", &root);
    let all = "path = \"/**\", proxy = [\"http://127.0.0.1:1\", \"unix:/run/b\"]";
    let servers = "http://127.0.0.1:1, unix:/run/b";
    check(&format!("{{ {all} }}"), &format!("the application {servers}"));
    check(&format!("{{ {all}, methods = [\"GET\"] }}"), &format!("{root} (/** by {servers})"));
    check(&format!("{{ {all} }}, {{ {all} }}"), &format!("{root} (2 routes to applications)"));
    let php = "path = \"**.php\", fastcgi = \"127.0.0.1:9000\"";
    check(&format!("{{ {php} }}"), &format!("{root} (**.php by 127.0.0.1:9000)"));
    let cgi = format!("path = \"/x/**\", cgi = \"{root}/cgi\"");
    check(&format!("{{ {cgi} }}"), &format!("{root} (/x/** by programs in {root}/cgi)"));
    check("{ path = \"/x/**\", cgi = true }", &format!("{root} (/x/** by programs in it)"));
}

#[test]
fn a_directory_of_programs_that_is_not_there_is_named() {
    let route = "host.route=[{ path = \"/x/**\", cgi = \"/no/such\" }]";
    let why = Server::start(&config(&site(), &[route])).err().unwrap().to_string();
    assert!(
        why.starts_with("cannot use a directory of CGI programs: \"/no/such\": No such"),
        "{why}"
    );
}

#[test]
fn a_rule_that_chooses_says_why_and_says_it_again() {
    let directory = site();
    let server = start(&directory, &["partitions.cpus=[\"0\"]"]);
    assert!(server.description().contains(" with event-loop ("), "{}", server.description());
    let reasons = server.explanations();
    let [partitions, engine, files] = reasons.as_slice() else { panic!("three reasons") };
    assert_eq!(partitions, "auto: 1 partition, as configured");
    assert!(engine.starts_with("auto: 1 MB of files fit in "), "{engine}");
    assert!(files.starts_with("auto: one listener; "), "{files}");
    get(&server, "/");
    let status = server.status();
    assert_eq!(status[0], server.description());
    assert_eq!(status[1..4], reasons);
    assert!(status[5].starts_with("1 requests, "), "{status:?}");
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
    let named = start(&directory, &["engine.name=event-loop"]);
    assert!(named.explanations().is_empty());
    named.stop_gracefully(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_second_server_on_the_port_is_one_clear_line() {
    let directory = site();
    for engine in ["event-loop", "event-loop-per-core"] {
        let engine = format!("engine.name={engine}");
        let first = start(&directory, &[&engine]);
        let address = first.addresses()[0];
        let second = config(&directory, &[&engine, &format!("listen=[\"{address}\"]")]);
        let error = Server::start(&second).err().unwrap();
        let advice = "another program listens there: stop it, or choose another --port or --listen";
        assert_eq!(error.to_string(), format!("cannot listen on {address}: {advice}"));
        let StartError::Listen { address: at, why } = error else { panic!("{error:?}") };
        assert_eq!((at, why.kind()), (address, io::ErrorKind::AddrInUse));
        first.stop_gracefully(Duration::from_secs(10)).unwrap();
    }
}

#[test]
fn an_address_of_another_machine_is_one_clear_line() {
    let directory = site();
    let config = config(&directory, &["listen=[\"192.0.2.1:8080\"]"]); // RFC 5737
    let error = Server::start(&config).err().unwrap().to_string();
    assert_eq!(error, "cannot listen on 192.0.2.1:8080: this machine has no such address");
}

#[test]
fn everywhere_is_both_protocols_on_one_port() {
    let directory = site();
    let server = start(&directory, &["listen=[\":0\"]"]);
    let ports: Vec<u16> = server.addresses().iter().map(SocketAddr::port).collect();
    assert!(ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    let stream = TcpStream::connect(("127.0.0.1", ports[0]));
    assert!(stream.is_ok());
    assert!(server.description().contains(" and every other address with "));
    assert_eq!(server.hints(), [""; 0]);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

#[test]
fn localhost_is_an_address_of_this_machine_only() {
    let directory = site();
    let arguments = Arguments {
        directory: Some(directory.path().join("site")),
        listen: vec!["localhost:0".into()],
        ..Arguments::default()
    };
    let server = Server::start(&load(&arguments).unwrap()).unwrap();
    assert!(get(&server, "/").ends_with("<h1>Rope</h1>"));
    let addresses = server.addresses();
    assert!(addresses.iter().any(SocketAddr::is_ipv4), "{addresses:?}");
    assert!(addresses.iter().all(|at| at.ip().is_loopback()), "{addresses:?}");
    assert!(addresses.iter().all(|at| at.port() == addresses[0].port()), "{addresses:?}");
    assert!(addresses.iter().all(|at| TcpStream::connect(at).is_ok()));
    let hint = "only this machine can connect: --listen";
    assert_eq!(server.hints(), [format!("{hint} :{} lets others", addresses[0].port())]);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

#[test]
fn a_root_without_a_start_page_is_reported() {
    let directory = site();
    fs::remove_file(directory.path().join("site/index.html")).unwrap();
    let root = directory.path().join("site").display().to_string();
    let server = start(&directory, &[]);
    let line = format!("nothing at /: {root} is empty: put an index.html there");
    assert_eq!(server.hints()[1..], [line]);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

#[test]
fn wrong_engines_and_partitions_say_where() {
    let directory = site();
    let check = |set: &str, expected: &str| {
        let error = server::check(&config(&directory, &[set])).unwrap_err();
        assert_eq!(error.to_string(), format!("--set {set}: {expected}"));
    };
    check(
        "engine.name=event-lop",
        "unknown engine \"event-lop\" (did you mean \"event-loop\"?): see `ropewalk engines`",
    );
    check(
        "partitions.cpus=[\"8000\"]",
        &format!(
            "CPU 8000 is not among those this process may use: {}",
            os::cpu_list::show(&os::affinity::allowed_cpus())
        ),
    );
    let error = server::check(&config(&directory, &["engine.knobs.speed=11"])).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("--set engine.knobs.speed=11: "), "{error}");
    assert!(error.contains("no knob \"speed\""), "{error}");
}

#[test]
fn knobs_with_names_take_those_only() {
    let directory = site();
    let check = |value: &str, expected: &str| {
        let set = format!("engine.knobs.events={value}");
        let error = server::check(&config(&directory, &["engine.name=event-loop", &set]));
        assert_eq!(error.unwrap_err().to_string(), format!("--set {set}: event-loop: {expected}"));
    };
    let names = "epoll, epoll-level, poll or select";
    check("pol", &format!("events = \"pol\" is not {names} (did you mean \"poll\"?)"));
    check("kqueue", &format!("events = \"kqueue\" is not {names}"));
    check("1", &format!("events = 1 is not {names}"));
    let good = config(&directory, &["engine.name=event-loop", "engine.knobs.events=poll"]);
    server::check(&good).unwrap();
    assert!(good.show().contains("\"events\" = \"poll\""), "{}", good.show());
}

#[test]
fn each_response_is_a_line_and_a_rotated_log_loses_none() {
    let directory = site();
    let log = directory.path().join("access.log");
    let path = format!("log.path={}", log.display());
    let server = start(&directory, &["log.access=json", &path]);
    for request in 0..3 {
        get(&server, &format!("/?{request}"));
    }
    wait_for_lines(&log, 3);
    let moved = directory.path().join("access.log.1");
    fs::rename(&log, &moved).unwrap();
    server.log_reopener().unwrap().reopen();
    get(&server, "/?3");
    let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
    assert_eq!((summary.requests, summary.log_lines_dropped), (4, 0));
    let old = fs::read_to_string(moved).unwrap();
    let new = fs::read_to_string(log).unwrap();
    assert_eq!((old.lines().count(), new.lines().count()), (3, 1));
    for (request, line) in old.lines().chain(new.lines()).enumerate() {
        let expected = format!("\"method\":\"GET\",\"target\":\"/?{request}\"");
        let found = old.contains(&expected) || new.contains(&expected);
        assert!(found, "{line}");
    }
}

/// Waits until workers have handed lines over, which takes them a quarter of a second at most.
fn wait_for_lines(log: &std::path::Path, lines: usize) {
    let are_there = || fs::read_to_string(log).unwrap().lines().count() == lines;
    assert!(comes_true(are_there), "the log has no {lines} lines after twenty seconds");
}
