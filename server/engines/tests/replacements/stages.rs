//! Failures of stages: what is lost with each, how it is replaced, and how all stages end when it
//! is not.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engines::find;
use testkit::wait_until;

use crate::bench::{Bench, LARGE_BYTES, Setup, WHY, is_answered, is_closed, request};

/// The indices of the threads of the five stages, with one thread each.
const READ_POLL: usize = 1;
const WRITE_POLL: usize = 2;
const WRITE: usize = 4;
const STAGES: usize = 5;

/// The engine, with one thread that can be made to fail.
fn start(faulty: usize, set: &[(&str, u64)]) -> Bench {
    start_before(None, faulty, set)
}

/// The engine in front of an application.
fn start_before(application: Option<SocketAddr>, faulty: usize, set: &[(&str, u64)]) -> Bench {
    let setup = Setup { connections_max: 100, first_cpu: None, faulty: Some(faulty), application };
    Bench::new(find("staged").unwrap(), set, &setup)
}

/// A connection that rests, and one whose client takes no more bytes for the moment.
fn clients(bench: &Bench) -> (BufReader<TcpStream>, BufReader<TcpStream>) {
    let (resting, mut blocked) = (bench.resting(), bench.connect());
    assert_eq!(request(&mut blocked, "large"), LARGE_BYTES);
    // The connection moves between stages until the sockets on both sides are full. On a busy
    // machine it may rest between two moves.
    let (mut before, mut looks_alike) = (None, 0);
    wait_until(|| {
        std::thread::sleep(Duration::from_millis(120));
        let line = bench.engine.status().into_iter().find(|l| l.starts_with("write-poll: "));
        let is_alike = line == before && !line.as_ref().unwrap().contains(" 0 taken");
        looks_alike = if is_alike { looks_alike + 1 } else { 0 };
        before = line;
        looks_alike == 3
    });
    (resting, blocked)
}

fn has_noticed(bench: &Bench, expected: &str) -> bool {
    bench.notices(|notice| notice == expected) > 0
}

#[test]
fn a_stage_that_fails_is_replaced_and_only_what_was_in_its_hands_is_lost() {
    for stage in 0..STAGES {
        let bench = start(stage, &[]);
        let (mut resting, mut blocked) = clients(&bench);
        bench.fail(1);
        wait_until(|| {
            has_noticed(&bench, &format!("staged-{stage} failed and was replaced: {WHY}"))
        });
        match stage {
            READ_POLL => {
                wait_until(|| has_noticed(&bench, "1 connections ended with the read-poll stage"));
            }
            WRITE_POLL => {
                wait_until(|| has_noticed(&bench, "1 connections ended with a stage that failed"));
            }
            _ => {}
        }
        if stage == READ_POLL {
            assert!(is_closed(&mut resting), "{stage}");
        } else {
            assert!(is_answered(&mut resting), "{stage}");
        }
        assert_eq!(is_closed(&mut blocked), stage == WRITE_POLL, "{stage}");
        if stage != WRITE_POLL {
            assert!(is_answered(&mut blocked), "{stage}: it rests now");
        }
        assert!(is_answered(&mut bench.connect()), "{stage}: a new client");
        drop((resting, blocked));
        wait_until(|| bench.open() == 0);
        assert_eq!(bench.engine.failure(), None, "{stage}");
        bench.stop().unwrap();
    }
}

#[test]
fn a_stage_that_fails_again_and_again_ends_everything_at_once() {
    for stage in 0..STAGES {
        let bench = start(stage, &[]);
        let (mut resting, mut blocked) = clients(&bench);
        bench.fail(5);
        // The engine ends without an order.
        wait_until(|| bench.engine.is_finished());
        let failure = format!("staged-{stage}: {WHY}");
        assert_eq!(bench.engine.failure(), Some(&*failure));
        assert!(is_closed(&mut resting) && is_closed(&mut blocked), "{stage}");
        assert!(TcpStream::connect(bench.address).is_err(), "{stage}: its listener is open");
        assert_eq!(bench.open(), 0, "{stage}");
        assert_eq!(bench.stop().unwrap_err().to_string(), failure);
    }
}

#[test]
fn where_a_stage_has_other_threads_they_serve_on() {
    let bench = start(WRITE, &[("write_threads", 2)]);
    let (mut resting, mut blocked) = clients(&bench);
    bench.fail(5);
    wait_until(|| bench.engine.failure().is_some());
    assert!(is_answered(&mut resting));
    assert!(!is_closed(&mut blocked));
    assert!(is_answered(&mut bench.connect()));
    assert!(!bench.engine.is_finished());
    drop((resting, blocked));
    assert_eq!(bench.stop().unwrap_err().to_string(), format!("staged-{WRITE}: {WHY}"));
}

/// A client whose request is with an application, and the application's end of the call.
fn call(bench: &Bench, application: &TcpListener) -> (BufReader<TcpStream>, TcpStream) {
    let mut client = bench.connect();
    client.get_mut().write_all(b"GET /app/ HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (mut call, _) = application.accept().unwrap();
    assert_ne!(call.read(&mut [0; 4096]).unwrap(), 0);
    (client, call)
}

/// Has the thread that calls applications fail `times` times while one call is out. Returns what is
/// left, and a connection that has rested meanwhile.
fn fail_while_calling(times: usize) -> (Bench, BufReader<TcpStream>, TcpListener) {
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = application.local_addr().unwrap();
    // Of the workers only those can fail that the engine makes by itself, as for this stage.
    let bench = start_before(Some(address), usize::MAX, &[("application_threads", 1)]);
    let resting = bench.resting();
    let (mut client, mut call) = call(&bench, &application);
    bench.fail(times);
    assert!(is_closed(&mut client));
    assert!(!matches!(call.read(&mut [0]), Ok(1..)), "the application is told");
    (bench, resting, application)
}

#[test]
fn a_thread_that_calls_applications_is_replaced_and_only_its_calls_are_lost() {
    let (bench, mut resting, application) = fail_while_calling(1);
    let reason = format!("staged-{STAGES} failed and was replaced: {WHY}");
    wait_until(|| has_noticed(&bench, &reason));
    wait_until(|| has_noticed(&bench, "1 connections ended with a stage that failed"));
    assert!(is_answered(&mut resting) && is_answered(&mut bench.connect()));
    drop((call(&bench, &application), resting));
    wait_until(|| bench.open() == 0);
    bench.stop().unwrap();
}

#[test]
fn a_thread_that_calls_applications_and_fails_again_and_again_ends_everything() {
    let (bench, mut resting, _) = fail_while_calling(5);
    wait_until(|| bench.engine.is_finished());
    assert!(is_closed(&mut resting));
    assert_eq!(bench.open(), 0);
    let failure = format!("staged-{STAGES}: {WHY}");
    assert_eq!(bench.stop().unwrap_err().to_string(), failure);
}

/// The thread controller adds another if the queue is still long.
#[test]
fn an_added_thread_that_fails_is_reported_and_not_missed() {
    let batches = [("batch", 1), ("file_chunk_kib", 16)];
    let controller = [("thread_controller", 1), ("thread_period_ms", 10), ("thread_queue_len", 1)];
    let bench = start(usize::MAX, &[&batches[..], &controller].concat());
    let is_over = AtomicBool::new(false);
    bench.faults.store(1, Ordering::Relaxed); // the first added thread fails
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let (mut client, is_over) = (bench.connect(), &is_over);
            scope.spawn(move || {
                for _ in 0..100 {
                    assert_eq!(request(&mut client, "large"), LARGE_BYTES);
                    if is_closed(&mut client) || is_over.load(Ordering::Relaxed) {
                        return; // a lost connection is not used again
                    }
                }
            });
        }
        let failed = |name: &str| format!("a thread that was added to {name} failed: {WHY}");
        wait_until(|| {
            has_noticed(&bench, &failed("write")) || has_noticed(&bench, &failed("read"))
        });
        let is_second = |line: &String| {
            let added = line.strip_prefix("thread controller: ").and_then(|l| l.split_once(' '));
            added.is_some_and(|(added, _)| added.parse::<u64>().unwrap() > 1)
        };
        wait_until(|| bench.engine.status().iter().any(is_second));
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(bench.engine.failure(), None);
    bench.stop().unwrap();
}
