//! The staged engine with its knobs set: the tests of every engine hold however its threads are
//! pooled and its files are sent; and SEDA's controllers, observed in its status.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use server::Server;
use server::config::Arguments;
use testkit::{Temporary, comes_true, side_by_side};

use crate::harness::{connect, take_head};
use crate::overload::{downloads_under_way_finish, misbehave, site};
use crate::serving::get;
use crate::under_test::load;

/// Several threads in each stage; one pool for both; sends that wait for their client, for a
/// bounded time; and several of these together.
const VARIANTS: &[&[&str]] = &[
    &["engine.knobs.read_threads=3", "engine.knobs.write_threads=3", "engine.knobs.part_min=1"],
    &["engine.knobs.pools=1", "engine.knobs.batch=1"],
    &["socket.sendfile=blocking", "engine.knobs.write_threads=2"],
    &["socket.sendfile=blocking", "engine.knobs.pools=1", "engine.knobs.read_threads=2"],
];

/// Whether this engine is among those under test.
fn is_wanted() -> bool {
    crate::engines().iter().any(|spec| spec.name == "staged")
}

/// Runs `test` with each of these settings, and no others, if the engine is under test.
fn with_each(variants: &[&[&str]], test: impl Fn(&Server) + Sync) {
    if is_wanted() {
        let directory = site();
        side_by_side(variants, |settings| with(&directory, settings, &test));
    }
}

fn with(directory: &Temporary, settings: &[&str], test: impl Fn(&Server)) {
    let set = settings.iter().chain(&["engine.name=staged", "partitions.cpus=[\"0\"]"]);
    let arguments = Arguments {
        directory: Some(directory.path().join("site")),
        listen: vec!["127.0.0.1:0".into()],
        set: set.map(ToString::to_string).collect(),
        ..Arguments::default()
    };
    let server = Server::start(&load(&arguments).unwrap()).unwrap();
    test(&server);
    let summary = server.stop_gracefully(Duration::from_secs(20)).unwrap();
    assert!(!summary.aborted, "{settings:?}: connections were cut off");
}

#[test]
fn every_case_holds_however_threads_are_pooled() {
    side_by_side(if is_wanted() { VARIANTS } else { &[] }, |settings| {
        let ran = crate::conformance::run_with("staged", settings, |name| name == "default");
        assert!(ran > 200, "only {ran} cases ran");
    });
}

#[test]
fn bytes_are_right_however_threads_are_pooled() {
    with_each(VARIANTS, misbehave);
}

#[test]
fn responses_under_way_finish_wherever_they_are() {
    with_each(VARIANTS, |server| {
        downloads_under_way_finish(server);
        assert!(figure(server, "write-poll: ", " taken") > 0, "{:#?}", server.status());
    });
}

#[test]
fn the_status_shows_what_went_through_each_queue_and_which_threads_take_it() {
    let check = |settings: &[&str], expected: &[(&str, u64)]| {
        with_each(&[settings], |server| {
            (0..5).for_each(|_| drop(get(server, "/")));
            for (queue, threads) in expected {
                let status = server.status();
                assert!(figure(server, queue, " taken") >= 5, "{queue}: {status:#?}");
                assert_eq!(figure(server, queue, " threads"), *threads, "{status:#?}");
                assert_eq!(figure(server, queue, " at once"), 9, "{status:#?}");
            }
        });
    };
    let batch = "engine.knobs.batch=9";
    check(&[batch, "engine.knobs.write_threads=4"], &[("read: ", 1), ("write: ", 4)]);
    check(
        &[batch, "engine.knobs.pools=1", "engine.knobs.read_threads=2"],
        &[("read and write: ", 3)],
    );
}

#[test]
fn a_stage_with_a_long_queue_gets_threads_that_end_when_it_is_short() {
    let settings = [
        "engine.knobs.thread_controller=1",
        "engine.knobs.thread_period_ms=10",
        "engine.knobs.thread_queue_len=2",
        "engine.knobs.thread_idle_ms=100",
        "engine.knobs.file_chunk_kib=16",
        "engine.knobs.batch=1",
    ];
    with_each(&[&settings], |server| {
        under_load(server, 8, || {
            figure(server, "thread controller: ", " added") > 0
                && figure(server, "write: ", " threads") > 1
        });
        let all_ended = || {
            figure(server, "thread controller: ", " added")
                == figure(server, "thread controller: ", " ended")
        };
        assert!(comes_true(all_ended), "{:#?}", server.status());
        assert_eq!(figure(server, "write: ", " threads"), 1, "{:#?}", server.status());
        assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
    });
}

#[test]
fn batches_become_smaller_while_that_costs_nothing() {
    let settings = [
        "engine.knobs.batch_controller=1",
        "engine.knobs.batch_period_ms=20",
        "engine.knobs.file_chunk_kib=16",
    ];
    with_each(&[&settings], |server| {
        assert_eq!(figure(server, "write: ", " at once"), 64);
        under_load(server, 4, || {
            figure(server, "batching controller: ", " changes") > 2
                && figure(server, "write: ", " at once") < 64
        });
    });
}

#[test]
fn late_responses_lower_the_rate_of_accepting_and_new_connections_wait() {
    let settings = ["engine.knobs.response_target_ms=1", "engine.knobs.admission_period_ms=20"];
    with_each(&[&settings], |server| {
        // Until at most one token a second is added.
        under_load(server, 4, || figure(server, "admission controller: ", " lowered") > 12);
        assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
        // More clients at once than a full bucket has tokens for.
        let clients: Vec<TcpStream> = (0..12).map(|_| connect(server)).collect();
        let made_to_wait = || figure(server, "admission controller: ", " rests") > 0;
        assert!(comes_true(made_to_wait), "{:#?}", server.status());
        // The last of them may have to wait for long, but the end of the server does not.
        drop(clients);
    });
}

/// Downloads with pauses, so that the server is blocked, on `connections` connections until
/// `is_enough`.
fn under_load(server: &Server, connections: usize, is_enough: impl Fn() -> bool) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..connections {
            let (mut stream, is_over) = (connect(server), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    download(&mut stream);
                }
            });
        }
        let came_true = comes_true(&is_enough);
        let status = server.status();
        is_over.store(true, Ordering::Relaxed);
        assert!(came_true, "it has not come true: {status:#?}");
    });
}

fn download(stream: &mut TcpStream) {
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    take_head(stream);
    let mut piece = vec![0; 2_000_000];
    for index in 0..10 {
        if index == 1 {
            thread::sleep(Duration::from_millis(10));
        }
        stream.read_exact(&mut piece).unwrap();
    }
}

/// Returns the number in front of `what` in the status line that begins with `line`.
fn figure(server: &Server, line: &str, what: &str) -> u64 {
    let status = server.status();
    let found = status.iter().find_map(|text| text.strip_prefix(line)?.split_once(what));
    let (before, _) = found.unwrap_or_else(|| panic!("no {line}… {what}: {status:#?}"));
    let number = before.rsplit([' ', '(']).next().unwrap_or_default();
    number.parse().unwrap_or_else(|_| panic!("{number:?} in {line}: {status:#?}"))
}
