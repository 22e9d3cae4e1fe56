//! Which threads work for a request that an application answers: none but those that work for a
//! file, unless the engine says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use engines::EngineSpec;
use testkit::Temporary;
use testkit::scripted::{Reply, Scripted};
use testkit::server_process::take_until;

use crate::processes::children;
use crate::server_process::{ROPEWALK, ServerProcess};

const REQUESTS: u64 = 200;

const BODY: &str = "the answer";

/// How often threads have given up their CPU, of a process and of all that descend from it.
fn switches(process: u32) -> BTreeMap<PathBuf, u64> {
    let of_thread = |thread: PathBuf| {
        let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
        let counts = status.lines().filter_map(|it| it.split_once("voluntary_ctxt_switches:"));
        let count = counts.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum();
        (thread, count)
    };
    let own = testkit::thread_folders(process).into_iter().map(of_thread);
    own.chain(children(process).into_iter().flat_map(switches)).collect()
}

/// The threads that run with each request for a path: each comes when the one before is answered.
fn at_work(server: &ServerProcess, client: &mut TcpStream, path: &str) -> BTreeSet<PathBuf> {
    let mut ask = |count| {
        for _ in 0..count {
            client.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
            take_until(client, BODY.as_bytes());
        }
    };
    ask(REQUESTS / 10); // connections are made, and files are looked for
    let before = switches(server.pid());
    ask(REQUESTS);
    let is_at_work = |(thread, count): (PathBuf, u64)| {
        let earlier = before.get(&thread).copied().unwrap_or_default();
        (count.saturating_sub(earlier) >= REQUESTS / 2).then_some(thread)
    };
    switches(server.pid()).into_iter().filter_map(is_at_work).collect()
}

/// The threads at work for a file, and for what an application answers.
fn threads(spec: &EngineSpec, more: &[&str]) -> [BTreeSet<PathBuf>; 2] {
    let site = Temporary::new();
    site.file("file", BODY);
    let application = Scripted::always(os::clock::now, &Reply::ok(BODY.as_bytes()));
    let route = format!(
        "host.route=[{{ path = \"/app/**\", proxy = [\"http://{}\"] }}]",
        application.address()
    );
    let settings = [&route, "partitions.cpus=[\"0\"]"].into_iter().chain(more.iter().copied());
    let mut arguments = vec!["--engine", spec.name];
    settings.for_each(|it| arguments.extend(["--set", it]));
    let program = ROPEWALK.as_ref();
    let server = ServerProcess::for_directory(program, site.path(), &arguments);
    let mut client = server.connect();
    let found = ["/file", "/app/x"].map(|path| at_work(&server, &mut client, path));
    client.shutdown(std::net::Shutdown::Write).unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    server.stop();
    found
}

#[test]
fn no_request_is_handed_to_another_thread_for_an_application() {
    for spec in engines::ENGINES {
        if (spec.obstacle)().is_some() {
            continue;
        }
        // Else any thread of the pool may have the next request.
        let pool: &[&str] =
            if spec.name == "thread-pool" { &["engine.knobs.threads=1"] } else { &[] };
        let [file, application] = threads(spec, pool);
        assert!(!file.is_empty(), "{}", spec.name);
        // Of `staged` requests go from thread to thread anyway, and to one of its own for this.
        let is_handed_on = !application.is_subset(&file);
        assert_eq!(is_handed_on, spec.name == "staged", "{}: {file:?}, {application:?}", spec.name);
    }
}

/// With a gateway there is one more.
#[test]
fn a_gateway_is_another_thread() {
    let spec = engines::find("event-loop").unwrap();
    let [file, application] = threads(spec, &["engine.knobs.gateway=1"]);
    assert!(!application.is_subset(&file), "{file:?}, {application:?}");
}
