//! Equal loads by httperf, wrk and h2load, and by `ropewalk load`: their counts are equal.

use std::process::Command;
use std::time::Duration;

use testkit::Temporary;
use testkit::scripted::{Action, ReceivedRequest, Reply, Scripted};
use testkit::undisturbed;

use super::{Scene, body_bytes, lengths, load};
use testkit::tools::{H2LOAD, HTTPERF, WRK};

use crate::machine::{has, run};
use crate::run as ropewalk;

/// The time that the slow server takes for a request.
const DELAY_MS: f64 = 20.0;
/// By how much a client may measure more, on a machine with other load.
const ERROR_MS: f64 = 20.0;
/// The delay and the error for httperf, which polls without rest: beside other load it gets a CPU
/// in turns, and notices each reply up to a turn late, in every attempt. Turns are short compared
/// with these times.
const HTTPERF_MS: f64 = 200.0;

/// The counts of sessions, requests and replies in httperf's text.
#[derive(Debug, PartialEq)]
struct Counts {
    connections: u64,
    requests: u64,
    replies: u64,
    /// Completed sessions, and all sessions.
    sessions: (u64, u64),
    /// Mean length of a body, rounded down.
    content: u64,
    /// Replies by the first digit of the status.
    status: Vec<u64>,
    errors: u64,
    lengths: Vec<u64>,
}

/// The word after `label`, which occurs once in `text`.
#[track_caller]
fn word<'t>(text: &'t str, label: &str) -> &'t str {
    let found = text.split_once(label).unwrap_or_else(|| panic!("no {label:?} in\n{text}"));
    found.1.split_whitespace().next().unwrap()
}

#[track_caller]
fn number<N: std::str::FromStr>(text: &str, label: &str) -> N {
    let word = word(text, label);
    word.parse().unwrap_or_else(|_| panic!("{label:?} is {word:?} in\n{text}"))
}

/// The line that begins with `label`, without it.
#[track_caller]
fn line<'t>(text: &'t str, label: &str) -> &'t str {
    let found = text.lines().find_map(|line| line.strip_prefix(label));
    found.unwrap_or_else(|| panic!("no {label:?} in\n{text}"))
}

impl Counts {
    fn parse(text: &str) -> Self {
        let total = line(text, "Total: ");
        let rate = line(text, "Session rate [sess/s]:");
        let (_, sessions) = rate.rsplit_once('(').unwrap();
        let (completed, all) = sessions.trim_end_matches(')').split_once('/').unwrap();
        let numbers = |list: &str| list.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let status = line(text, "Reply status:").split_whitespace();
        let status = status.map(|one| one.split_once('=').unwrap().1.parse().unwrap()).collect();
        Self {
            connections: number(total, "connections "),
            requests: number(total, "requests "),
            replies: number(total, "replies "),
            sessions: (completed.parse().unwrap(), all.parse().unwrap()),
            content: number::<f64>(line(text, "Reply size [B]:"), "content ") as u64,
            status,
            errors: number(text, "Errors: total "),
            lengths: numbers(line(text, "Session length histogram:")),
        }
    }
}

/// The report of `ropewalk load` in httperf's form.
fn our_httperf(arguments: &[&str]) -> String {
    let (status, out, error) = ropewalk(
        &[
            &["load", "--httperf", "-", "--lag-bound", "60s", "--run-delay-bound", "100%"],
            arguments,
        ]
        .concat(),
    );
    assert_eq!(status, 0, "{error}");
    out
}

#[test]
fn httperf_counts_the_same_sessions() {
    if !has(&HTTPERF) {
        return;
    }
    let scene = Scene::new();
    let (log, sessions) = (scene.path("sessions.log"), scene.log.sessions());
    let mut httperf = Command::new("httperf");
    httperf.args(["--server=127.0.0.1", "--timeout=20", "--rate=200"]);
    httperf.arg(format!("--port={}", scene.server.address().port()));
    httperf.arg(format!("--wsesslog={sessions},0,{log}"));
    let (ok, out, error) = run(&mut httperf);
    assert!(ok, "{error}");
    let theirs = Counts::parse(&out);
    let url = scene.server.url("");
    let text = our_httperf(&[&url, "--log", &log, "--rate", "200", "--json", &scene.path("json")]);
    assert_eq!(Counts::parse(&text), theirs, "{text}\n{out}");
    // Both counts are right.
    let (requests, sessions) = (scene.log.requests() as u64, sessions as u64);
    let expected = Counts {
        connections: sessions,
        requests,
        replies: requests,
        sessions: (sessions, sessions),
        content: body_bytes(&scene.log) / requests,
        status: vec![0, requests, 0, 0, 0],
        errors: 0,
        lengths: lengths(&scene.log),
    };
    assert_eq!(theirs, expected);
    let json = super::read_json(scene.path("json").as_ref()).unwrap();
    assert_eq!(json["counts"]["body_bytes"], body_bytes(&scene.log));
}

/// The server may count more, by the requests that were under way at the end.
#[test]
fn wrk_and_we_count_what_the_server_counts() {
    const CONNECTIONS: u64 = 8;
    let connections = CONNECTIONS.to_string();
    let of_server = |scene: Scene| {
        let stopped = scene.server.stop().pop().unwrap();
        number::<u64>(&stopped, "stopped after ")
    };
    let agree = |client: u64, server: u64, out: &str| {
        let more = server.checked_sub(client);
        assert!(client > 0 && more.is_some_and(|n| n <= CONNECTIONS), "{server}, but\n{out}");
    };
    let scene = Scene::new();
    let url = scene.server.url("/dir00000/class1_1");
    let arguments = [&*url, "--connections", &connections, "--duration", "700ms"];
    let (status, out, json) = load(&scene.directory, &arguments);
    assert_eq!(status, 0, "{out}");
    assert_eq!(json["counts"]["connections"], CONNECTIONS, "{out}");
    agree(json["counts"]["requests"].as_u64().unwrap(), of_server(scene), &out);
    if !has(&WRK) {
        return;
    }
    let scene = Scene::new();
    let mut wrk = Command::new("wrk");
    wrk.args(["--threads=1", "--duration=1s", "--connections", &connections]);
    let (ok, out, error) = run(wrk.arg(scene.server.url("/dir00000/class1_1")));
    assert!(ok, "{error}");
    let (requests, _) = out.split_once(" requests in ").unwrap();
    let requests = requests.split_whitespace().next_back().unwrap().parse().unwrap();
    agree(requests, of_server(scene), &out);
}

#[test]
fn h2load_counts_the_same_bytes() {
    const REQUESTS: u64 = 1000;
    if !has(&H2LOAD) {
        return;
    }
    let scene = Scene::new();
    let url = scene.server.url("/dir00000/class1_3");
    let requests = REQUESTS.to_string();
    let load_it = ["--h1", "--clients=8", "--requests", &requests];
    let (ok, out, error) = run(Command::new("h2load").args(load_it).arg(&url));
    assert!(ok, "{error}");
    assert!(out.contains(&format!("{REQUESTS} done, {REQUESTS} succeeded, 0 failed")), "{out}");
    let traffic = line(&out, "traffic: ");
    let data = traffic.rsplit_once('(').unwrap().1.strip_suffix(") data").unwrap();

    let arguments = [&*url, "--connections", "8", "--sessions", &requests, "--verify", "bytes"];
    let (status, out, json) = load(&scene.directory, &arguments);
    assert_eq!(status, 0, "{out}");
    let counts = &json["counts"];
    assert_eq!((&counts["requests"], &counts["replies"]), (&REQUESTS.into(), &REQUESTS.into()));
    assert_eq!(counts["body_bytes"], data.parse::<u64>().unwrap(), "{traffic}\n{out}");
    assert_eq!(counts["body_bytes"], REQUESTS * 4 * 1024);
}

/// A server that answers each request after a delay.
fn slow_server(delay_ms: f64) -> Scripted {
    let reply = Reply::ok(b"rope").bytes();
    let delay = Duration::from_millis(delay_ms as u64);
    let script = move |_: &ReceivedRequest| vec![Action::Wait(delay), Action::Send(reply.clone())];
    Scripted::start(os::clock::now, script)
}

/// Checks a time: no reply can have come sooner than the delay. If it came much later, the machine
/// was busy, which the error reports.
#[track_caller]
fn is_the_delay(ms: f64, delay_ms: f64, error_ms: f64, out: &str) -> Result<(), String> {
    assert!(ms >= delay_ms, "{ms} ms in\n{out}");
    if ms <= delay_ms + error_ms { Ok(()) } else { Err(format!("{ms} ms in\n{out}")) }
}

#[test]
fn our_median_is_the_delay_of_the_server_closed_and_open() {
    let (directory, server) = (Temporary::new(), slow_server(DELAY_MS));
    let url = format!("http://{}/", server.address());
    let closed = ["--connections", "4", "--duration", "700ms"];
    let open = ["--rate", "50", "--duration", "700ms", "--lag-bound", "60s"];
    for arguments in [&closed[..], &open] {
        let arguments = [&[&*url], arguments].concat();
        undisturbed(|| {
            let (status, out, json) = load(&directory, &arguments);
            assert_eq!(status, 0, "{out}");
            let mut names = ["corrected", "uncorrected", "first_byte"].into_iter();
            names.try_for_each(|name| {
                let median = json["times"][name]["p50_ms"].as_f64().unwrap();
                is_the_delay(median, DELAY_MS, ERROR_MS, &out)
            })
        });
    }
}

#[test]
fn wrk_measures_the_same_median() {
    if !has(&WRK) {
        return;
    }
    let server = slow_server(DELAY_MS);
    let mut wrk = Command::new("wrk");
    wrk.args(["--threads=1", "--duration=1s", "--connections=4", "--latency"]);
    wrk.arg(format!("http://{}/", server.address()));
    undisturbed(|| {
        let (ok, out, error) = run(&mut wrk);
        assert!(ok, "{error}");
        let median = word(&out, " 50% ").strip_suffix("ms").ok_or_else(|| out.clone())?;
        is_the_delay(median.parse().unwrap(), DELAY_MS, ERROR_MS, &out)
    });
}

/// httperf reports medians of connections only; each connection has one request here.
#[test]
fn httperf_measures_the_same_median() {
    if !has(&HTTPERF) {
        return;
    }
    let server = slow_server(HTTPERF_MS);
    let address = server.address();
    let median = |out: &str| number::<f64>(line(out, "Connection time [ms]: min"), "median ");
    let mut httperf = Command::new("httperf");
    httperf.args(["--server=127.0.0.1", "--timeout=20", "--rate=50", "--num-conns=40"]);
    httperf.arg(format!("--port={}", address.port()));
    let url = format!("http://{address}/");
    // Every reply that the machine has delayed raises a mean, so means have no upper bound.
    let check = |out: &str, error_ms: f64| {
        let response: f64 = number(line(out, "Reply time [ms]:"), "response ");
        assert!(response >= HTTPERF_MS, "{out}");
        is_the_delay(median(out), HTTPERF_MS, error_ms, out)
    };
    undisturbed(|| {
        let (ok, out, error) = run(&mut httperf);
        assert!(ok, "{error}");
        check(&out, HTTPERF_MS)
    });
    let arguments = [&url, "--rate", "50", "--sessions", "40", "--connection", "request"];
    undisturbed(|| check(&our_httperf(&arguments), ERROR_MS));
}
