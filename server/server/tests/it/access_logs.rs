//! Other access logs while the workers stay: the next request is logged as it is configured.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use testkit::{Temporary, wait_until};

use crate::changes::{ask, workers_of};
use crate::for_each_engine;
use crate::harness::{Running, config, connect, take_head};
use crate::overload::{self, large};
use crate::under_test::engines;

/// The files, with combined lines and with JSON.
const FILES: [&str; 2] = ["one.log", "two.log"];

/// Form, file, and size of buffers.
const STEPS: [[&str; 3]; 7] = [
    ["off", "-", "16 KiB"],
    ["combined", "one.log", "16 KiB"],
    ["json", "two.log", "16 KiB"],
    ["json", "two.log", "4 KiB"],
    ["combined", "one.log", "4 KiB"],
    ["off", "-", "16 KiB"],
    ["json", "two.log", "16 KiB"],
];

/// A request that a line is expected of: its target, and its client.
type Asked = (String, SocketAddr);

#[test]
fn another_access_log_is_written_while_the_workers_stay() {
    for_each_engine(|spec| change_logs(&[&format!("engine.name={}", spec.name)]));
    if engines().iter().any(|spec| spec.name == "rings") {
        change_logs(&["engine.name=rings", "engine.knobs.direct=1"]);
    }
}

/// Takes all steps, on a connection that is kept and on others.
fn change_logs(kind: &[&str]) {
    let directory = Temporary::new();
    directory.file("site/index.html", "site");
    let config = |[access, file, buffer]: [&str; 3]| {
        let file = if file == "-" { file.into() } else { directory.path().join(file) };
        let set = [
            format!("log.access={access}"),
            format!("log.path={}", file.display()),
            format!("log.buffer_bytes={buffer}"),
            "host.header=[{ path = \"/**\", name = \"X-Site\", value = \"site\" }]".into(),
            "partitions.cpus=[\"0\"]".into(),
        ];
        config(&directory, &[kind, &set.each_ref().map(String::as_str)].concat())
    };
    let mut server = Running::start(&config(STEPS[0]));
    let workers = workers_of(&server);
    let mut kept = connect(&server);
    let mut asked: [Vec<Asked>; 2] = Default::default();
    for (number, step) in STEPS.into_iter().enumerate() {
        server.change(&config(step)).unwrap();
        assert_eq!(workers_of(&server), workers, "{kind:?}: {step:?}");
        let mut new = connect(&server);
        for (client, name) in [(&mut kept, "kept"), (&mut new, "new")] {
            let target = format!("/?{name}-{number}");
            assert!(matches!(ask(client, &target), Some((_, false))), "{kind:?}: {target}");
            if let Some(file) = FILES.iter().position(|file| *file == step[1]) {
                asked[file].push((target, client.local_addr().unwrap()));
            }
        }
    }
    drop(kept);
    let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
    assert_eq!(summary.log_lines_dropped, 0, "{kind:?}");
    check(&directory, &asked, kind);
}

/// Each request is in the file of its step, in the form of its step, and nothing else.
fn check(directory: &Temporary, asked: &[Vec<Asked>; 2], kind: &[&str]) {
    let read = |file| fs::read_to_string(directory.path().join(file)).unwrap();
    let texts = FILES.map(read);
    let of_json = |(target, peer): &Asked| {
        [format!("\"target\":\"{target}\""), format!("\"peer\":\"{peer}\"")]
    };
    let of_combined = |(target, peer): &Asked| {
        [format!("\"GET {target} HTTP/1.1\" 200 "), format!("{} - - [", peer.ip())]
    };
    let parts = [
        asked[0].iter().map(of_combined).collect::<Vec<_>>(),
        asked[1].iter().map(of_json).collect(),
    ];
    for (text, parts) in texts.iter().zip(parts) {
        let is_in = |parts: &[String; 2]| {
            let has_all = |line: &&str| parts.iter().all(|part| line.contains(part));
            text.lines().filter(has_all).count() == 1
        };
        assert!(parts.iter().all(is_in), "{kind:?}: {parts:#?} in\n{text}\nof {texts:#?}");
        assert_eq!(text.lines().count(), parts.len(), "{kind:?}: {text}");
    }
}

/// Workers that leave have lines as they were configured, however long after the change.
#[test]
fn a_download_that_ends_after_the_form_has_changed_is_in_its_log() {
    let directory = overload::site();
    directory.file("site/index.html", "");
    for engines in [["threads-direct", "event-loop"], ["processes", "event-loop-copies"]] {
        let of = |engine: &str, access: &str, file: &str| {
            let set = [
                format!("engine.name={engine}"),
                format!("log.access={access}"),
                format!("log.path={}", directory.path().join(file).display()),
                "timeouts.drain_ms=600000".into(),
            ];
            config(&directory, &set.each_ref().map(String::as_str))
        };
        let mut server = Running::start(&of(engines[0], "combined", FILES[0]));
        let mut client = connect(&server);
        client.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        take_head(&mut client);
        server.change(&of(engines[1], "combined", FILES[0])).unwrap();
        server.change(&of(engines[1], "json", FILES[1])).unwrap();
        let later_us = os::clock::now() + 1_500_000;
        wait_until(|| {
            server.do_housekeeping();
            os::clock::now() > later_us
        });
        client.read_exact(&mut vec![0; large().len()]).unwrap();
        drop(client);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
        let read = |file| fs::read_to_string(directory.path().join(file)).unwrap();
        let [combined, json] = FILES.map(read);
        assert_eq!(combined.lines().filter(|line| line.contains("/large.bin")).count(), 1);
        assert_eq!(json, "", "{engines:?}");
        FILES.iter().for_each(|file| fs::remove_file(directory.path().join(file)).unwrap());
    }
}
