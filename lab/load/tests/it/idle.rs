//! Connections that rest beside the load, and generators that wait for a start time.

use std::sync::{Mutex, mpsc};

use load::outcome::{EXIT_INTERRUPTED, Setting};
use load::plan::Start;
use load::run::{Watch, run};
use load::run_error::{Before, RunError};
use testkit::scripted::{Action, ReceivedRequest, Reply, Scripted};
use testkit::{comes_true, wait_until};

use crate::setup::{
    MS, Watcher, closed, get, log, millis, plan, run_to_end, scripted, send, target,
};

fn reply() -> Reply {
    Reply::ok(b"rope")
}

#[test]
fn they_have_asked_once_and_rest() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
    (plan.idle, plan.sessions_max) = (70, Some(10));
    let counts = run_to_end(&plan).measures.counts;
    assert_eq!((counts.idle_connections, counts.idle_closed), (70, 0));
    // Neither their requests nor their replies count in the load.
    assert_eq!((counts.requests, counts.connections), (20, 10));
    assert_eq!(server.connections().len(), 80);
    let seen = server.requests();
    for connection in 0..70 {
        let asked = seen.iter().filter(|asked| asked.connection == connection);
        assert_eq!(asked.map(|asked| asked.request).collect::<Vec<_>>(), [0], "{connection}");
    }
    let last_idle_us = seen.iter().filter(|asked| asked.connection < 70).map(|asked| asked.at_us);
    let first_us = seen.iter().filter(|asked| asked.connection >= 70).map(|asked| asked.at_us);
    assert!(last_idle_us.max() <= first_us.min(), "all rest before the load begins");
}

#[test]
fn connections_that_the_server_closes_are_counted() {
    let (release, released) = mpsc::channel();
    let released = Mutex::new(released);
    let script = move |asked: &ReceivedRequest| match asked.connection {
        n if n < 20 && n % 4 == 0 => vec![send(&reply()), Action::Wait(millis(20)), Action::Close],
        // The load continues until after the server has closed them.
        20 => {
            let _: Result<(), _> = released.lock().unwrap().recv();
            vec![Action::Wait(millis(50)), send(&reply())]
        }
        _ => vec![send(&reply())],
    };
    let server = &Scripted::start(os::clock::now, script);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.idle = 20;
    let counts = std::thread::scope(|scope| {
        scope.spawn(move || {
            wait_until(|| server.connections().len() == 21 && server.open() == 16);
            release.send(()).unwrap();
        });
        run_to_end(&plan).measures.counts
    });
    assert_eq!((counts.idle_connections, counts.idle_closed, counts.replies), (20, 5, 1));
}

#[test]
fn each_generator_holds_its_share() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.idle, plan.model, plan.sessions_max) = (5, closed(2), Some(2));
    let held = [0, 1].map(|index| {
        plan.share = (index, 2);
        run_to_end(&plan).measures.counts.idle_connections
    });
    assert_eq!(held, [3, 2]);
}

#[test]
fn a_server_that_does_not_keep_them_is_reported() {
    let closing = Reply { fields: vec!["Connection: close".into()], ..reply() };
    let server = scripted(&[send(&closing)]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.idle = 3;
    let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err();
    let expected = "--idle 3: connection 1 of them: the server does not keep it open after a reply";
    assert_eq!(why, RunError::Server(expected.into()));
}

/// The reason is that of a reply within the load.
#[test]
fn a_reply_that_is_refused_is_reported_with_its_reason() {
    let check = |reply: &[u8], expected: &str| {
        let server = scripted(&[Action::Send(reply.to_vec())]);
        let mut plan = plan(server.address(), log(&[&[get("/a")]]));
        plan.idle = 1;
        let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err().to_string();
        assert_eq!(
            why,
            format!("--idle 1: connection 1 of them: the reply is not HTTP: {expected}")
        );
    };
    check(b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", "a folded field line (RFC 9112, section 5.2)");
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n";
    check(chunks.as_bytes(), "invalid chunk size");
}

/// Wants to stop from the first.
struct Impatient;

impl Watch for Impatient {
    fn on_interval(&mut self, _seconds: f64, _interval: &load::measures::Interval) {}

    fn wants_to_stop(&mut self) -> bool {
        true
    }
}

#[test]
fn a_run_whose_server_lets_them_wait_can_be_interrupted() {
    let silent = scripted(&[]);
    let mut plan = plan(silent.address(), log(&[&[get("/a")]]));
    (plan.idle, plan.timeout_us) = (3, u64::MAX);
    let why = run(&plan, Setting::default(), &mut Impatient).unwrap_err();
    assert_eq!(why, RunError::Interrupted(Before::Idle));
    assert_eq!(why.exit_code(), EXIT_INTERRUPTED);
}

/// A server that refuses connections is at fault; where the generator has no address to connect
/// from, it is not.
#[test]
fn who_is_at_fault_for_a_connection_that_cannot_be_opened() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.idle = 1;
    plan.sources = vec![[192, 0, 2, 1].into()]; // no machine has it (RFC 5737)
    let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err();
    assert!(matches!(why, RunError::Generator(_)), "{why}");
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    (plan.sources, plan.targets) = (Vec::new(), vec![target(unused)]);
    let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err();
    assert!(matches!(why, RunError::Server(_)), "{why}");
}

/// Threads that may not run where they should are the generator's.
#[test]
fn a_generator_that_cannot_begin_blames_no_server() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.cpus = vec![1023]; // no machine has it
    let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err();
    assert!(matches!(why, RunError::Generator(_)), "{why:?}");
    assert_eq!(server.requests().len(), 0);
}

/// Starts the run soon, notes how many requests had come by then, and how many connections are open
/// after the run.
struct Starter<'s> {
    server: &'s Scripted,
    asked_before: usize,
    start_us: u64,
    open_after: usize,
}

impl Watch for Starter<'_> {
    fn on_interval(&mut self, _seconds: f64, _interval: &load::measures::Interval) {}

    fn wants_to_stop(&mut self) -> bool {
        false
    }

    fn on_ready(&mut self) -> Result<u64, RunError> {
        let (seconds, nanoseconds) = os::clock::unix_time();
        self.asked_before = self.server.requests().len();
        self.start_us = os::clock::now() + 50 * MS;
        Ok(seconds as u64 * 1_000_000 + u64::from(nanoseconds) / 1_000 + 50 * MS)
    }

    fn on_measured(&mut self) {
        // The server sees the end of the load's own connection, and of no other.
        let _ = comes_true(|| self.server.open() <= 4);
        std::thread::sleep(millis(50));
        self.open_after = self.server.open();
    }
}

#[test]
fn a_generator_that_waits_for_a_start_time_is_ready_by_then() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.idle, plan.start) = (4, Start::WhenNotified);
    let mut starter = Starter { server: &server, asked_before: 0, start_us: 0, open_after: 0 };
    run(&plan, Setting::default(), &mut starter).unwrap();
    assert_eq!(
        starter.asked_before, 4,
        "the idle connections are open before the generator is ready"
    );
    assert_eq!(starter.open_after, 4, "and until the caller has inspected the server");
    let seen = server.requests();
    assert_eq!(seen.len(), 5);
    assert!(seen[4].at_us + 2 >= starter.start_us, "{} before {}", seen[4].at_us, starter.start_us);
    let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err();
    assert_eq!(why, RunError::NoStart("no start time was given".into()));
}
