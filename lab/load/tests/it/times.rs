//! The meaning of the reported times. Only lower bounds are exact: a busy machine makes any time
//! longer.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Mutex;

use load::measures::Interval;
use load::plan::{ConnectionUse, Model};
use load::run::Watch;
use load::void::Void;
use os::socket::{ListenOptions, accept, listen, local_addr};
use testkit::scripted::{Action, Reply, Scripted};
use testkit::sockets::{SYN_SENT, TcpSocket, tcp_sockets};
use testkit::{undisturbed, wait_until};

use crate::setup::{
    MS, closed, errors, get, lifted, log, millis, open, plan, run_to_end, run_watched, scripted,
    send,
};

/// How much longer than it should a run may take on a machine whose CPUs are busy. It tells a run
/// that ends late from one that does not end.
const SLACK_US: u64 = 60_000 * MS;

fn reply() -> Reply {
    Reply::ok(b"hello")
}

/// The head, 100 ms, the body.
fn halves() -> [Action; 3] {
    let body = Action::Send(reply().body);
    [Action::Send(reply().head().into_bytes()), Action::Wait(millis(100)), body]
}

#[test]
fn first_byte_and_whole_reply() {
    undisturbed(|| {
        let server = scripted(&halves());
        let log = log(&[&[get("/a"), get("/b"), get("/c")]]);
        let outcome = run_to_end(&plan(server.address(), log));
        assert_eq!(errors(&outcome), []);
        let times = &outcome.measures.times;
        let whole = &times.uncorrected;
        // The histogram's buckets are within a thousandth.
        assert!(whole.min() >= 99_900 && times.corrected.min() >= 99_900, "{}", whole.min());
        assert!(times.session.min() >= 3 * 99_900);
        // A client that is kept from its CPU sees a head late, and less time before the body.
        let of_body = whole.mean() - times.first_byte.mean();
        let is_apart = of_body >= 99_000.0 && times.first_byte.min() < whole.min();
        if is_apart { Ok(()) } else { Err(format!("the body took {of_body} us")) }
    });
}

/// The time before the first byte contains the server's processing.
#[test]
fn a_slow_first_byte() {
    let server = scripted(&[Action::Wait(millis(80)), send(&reply())]);
    let outcome = run_to_end(&plan(server.address(), log(&[&[get("/a"), get("/b")]])));
    let times = &outcome.measures.times;
    assert!(times.first_byte.min() >= 79_900, "{}", times.first_byte.min());
    assert!(times.uncorrected.min() >= times.first_byte.min());
}

/// The time of a request begins before the request leaves: where both have only one CPU, the server
/// works while the client, which has just sent, waits for its turn.
#[test]
fn a_client_that_loses_its_cpu_gains_no_time() {
    let on_one_cpu = || {
        os::affinity::pin_thread(&os::affinity::allowed_cpus()[..1]).unwrap();
        let server = Scripted::start(os::clock::now, |asked| {
            while os::clock::now() < asked.at_us + 10 * MS {}
            vec![send(&reply())]
        });
        let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
        plan.sessions_max = Some(20);
        run_to_end(&plan)
    };
    let outcome = std::thread::scope(|scope| scope.spawn(on_one_cpu).join().unwrap());
    assert_eq!(errors(&outcome), []);
    let times = &outcome.measures.times;
    assert!(times.first_byte.min() >= 9_990, "{}", times.first_byte.min());
}

/// Whether a reply is in time depends on the corrected time, which is the user's wait.
#[test]
fn goodput_is_judged_by_the_corrected_time() {
    let server = scripted(&[Action::Wait(millis(60)), send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
    plan.latency_target_us = Some(50 * MS);
    let counts = run_to_end(&plan).measures.counts;
    assert_eq!((counts.replies, counts.replies_in_time), (2, 0));
    plan.latency_target_us = Some(60_000 * MS);
    let counts = run_to_end(&plan).measures.counts;
    assert_eq!((counts.replies, counts.replies_in_time), (2, 2));
}

/// Whether this machine has sent a first packet to `address` that is not answered yet.
fn is_knocking(address: SocketAddr) -> bool {
    let is_knock =
        |socket: &TcpSocket| socket.remote_port == address.port() && socket.state == SYN_SENT;
    tcp_sockets().iter().any(is_knock)
}

/// Waiting for the connection is part of the corrected time and not of the uncorrected one.
///
/// The kernel drops the first packet of a connection while the server's queue is full; the
/// client's kernel sends another a second later.
#[test]
fn connecting_is_the_clients_wait() {
    let options = ListenOptions { backlog: 0, ..Default::default() };
    let listener = listen("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let address = local_addr(listener.as_fd()).unwrap();
    let _filler = os::socket::connect_blocking(address).unwrap();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| is_knocking(address));
            std::thread::sleep(millis(300));
            // Accepting one connection makes room in the queue.
            let _first = accept(listener.as_fd()).unwrap();
            let (second, _) = loop {
                match accept(listener.as_fd()) {
                    Ok(accepted) => break accepted,
                    Err(_) => std::thread::sleep(millis(5)),
                }
            };
            let mut request = [0; 1024];
            while os::send::recv(second.as_fd(), &mut request).is_err() {
                std::thread::sleep(millis(5));
            }
            os::send::send(second.as_fd(), &reply().bytes(), false).unwrap();
            // The client is the first to close.
            while os::send::recv(second.as_fd(), &mut request).is_err() {
                std::thread::sleep(millis(5));
            }
        });
        run_to_end(&plan(address, log(&[&[get("/a")]])))
    });
    assert_eq!(errors(&outcome), []);
    let times = &outcome.measures.times;
    assert!(times.connect.min() >= 299_000, "{}", times.connect.min());
    assert!(times.corrected.min() >= times.connect.min(), "{}", times.corrected.min());
    let difference = times.corrected.min() - times.uncorrected.min();
    assert!(difference >= 299_000, "{difference}");
    assert!(times.first_byte.max() <= times.uncorrected.max());
}

#[test]
fn connecting_is_timed_once_for_each_connection() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
    (plan.sessions_max, plan.model) = (Some(10), closed(2));
    assert_eq!(run_to_end(&plan).measures.times.connect.len(), 10);
    plan.connection_use = ConnectionUse::Keep;
    assert_eq!(run_to_end(&plan).measures.times.connect.len(), 2);
}

/// Only events with an intended time can be late: starts of sessions of open runs, and ends of
/// pauses.
#[test]
fn lag_is_recorded_for_what_is_timed() {
    let server = scripted(&[send(&reply())]);
    let steps = [get("/a").pause_ms(2), get("/b"), get("/c").pause_ms(2), get("/d")];
    let check = |model: Model, expected: u64| {
        let mut plan = plan(server.address(), log(&[&steps]));
        (plan.model, plan.sessions_max) = (model, Some(10));
        let outcome = run_to_end(&plan);
        assert_eq!(outcome.measures.times.lag.len(), expected);
        assert_eq!(outcome.void, []);
    };
    check(open(200.0), 10 * 3);
    check(closed(2), 10 * 2);
}

/// The results of a late generator say nothing about the server. The generator is certainly late
/// where a session begins each microsecond, because no connection is made in so short a time.
#[test]
fn a_run_that_lags_is_void() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.model, plan.sessions_max, plan.bounds.lag_us) = (open(1e6), Some(100), Some(0));
    let outcome = run_to_end(&plan);
    assert_eq!(outcome.void.len(), 1, "{:?}", outcome.void);
    assert!(matches!(outcome.void[0], Void::Late { bound_us: 0, .. }), "{:?}", outcome.void);
    plan.bounds = lifted();
    assert_eq!(run_to_end(&plan).void, []);
}

/// With the bound on the lag lifted, requests that were never sent in time do not count as kept up
/// with: otherwise a search for the highest rate would not end.
#[test]
fn requests_that_a_late_generator_sends_after_the_window_were_not_kept_up_with() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.model = open(1e6);
    (plan.duration_us, plan.sessions_max) = (Some(20 * MS), None);
    plan.connection_use = ConnectionUse::Keep;
    let outcome = run_to_end(&plan);
    assert_eq!((errors(&outcome), outcome.served_share()), (vec![], 1.0));
    let counts = &outcome.measures.counts;
    assert!(outcome.kept_up_share() < 0.9, "{counts:?}");
}

/// The load is twice the server's capacity, in sessions of several requests: each session that has
/// begun holds back its later requests, so that few are under way at a time.
#[test]
fn a_server_that_sessions_overload_does_not_keep_up() {
    undisturbed(|| {
        let at_a_time = Mutex::new(());
        let server = Scripted::start(os::clock::now, move |_| {
            let _turn = at_a_time.lock().unwrap();
            std::thread::sleep(millis(5));
            vec![send(&reply())]
        });
        let session = ["/a", "/b", "/c", "/d", "/e"].map(get);
        let mut plan = plan(server.address(), log(&[&session]));
        plan.model = open(2.0 * 200.0 / 5.0);
        (plan.duration_us, plan.sessions_max) = (Some(1_000 * MS), None);
        let outcome = run_to_end(&plan);
        let counts = &outcome.measures.counts;
        assert_eq!(errors(&outcome), []);
        assert!(outcome.kept_up_share() < 0.75, "{counts:?}");
        // There are fewer if the generator was kept from its CPU for most of the window.
        if counts.sessions_under_way_end > 10 { Ok(()) } else { Err(format!("{counts:?}")) }
    });
}

/// Interrupts a run at this time, whatever it has done.
struct Limit(u64);

impl Watch for Limit {
    fn on_interval(&mut self, _seconds: f64, _interval: &Interval) {}

    fn wants_to_stop(&mut self) -> bool {
        os::clock::now() >= self.0
    }
}

/// A thousand sessions are due each microsecond: most have not begun when the run has to end, at
/// its window and a timeout.
#[test]
fn overdue_requests_are_given_up_and_the_run_is_void() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.model, plan.sessions_max) = (open(1e9), None);
    (plan.duration_us, plan.timeout_us) = (Some(20 * MS), 200 * MS);
    (plan.connection_use, plan.interval_us) = (ConnectionUse::Keep, 10 * MS);
    let ends_us = 220 * MS;
    // A run that does not end by itself is interrupted, and fails.
    let stop_at_us = os::clock::now() + ends_us + SLACK_US;
    let outcome = run_watched(&plan, &mut Limit(stop_at_us));
    assert!(!outcome.interrupted, "the run did not end");
    let lasted_us = outcome.measures.series.len() as u64 * plan.interval_us;
    assert!(lasted_us <= ends_us + SLACK_US, "{lasted_us} us");
    let counts = &outcome.measures.counts;
    assert!(counts.requests_overdue >= 1_000_000, "{counts:?}");
    assert_eq!(counts.requests_abandoned, counts.requests_overdue);
    assert_eq!(counts.sessions_due, counts.sessions_started + counts.requests_overdue);
    assert!(outcome.served_share() < 0.5, "{counts:?}");
    let overdue = Void::Overdue { requests: counts.requests_overdue };
    assert!(outcome.void.contains(&overdue), "{:?}", outcome.void);
}

#[test]
fn a_run_without_requests_is_void() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.sessions_max = Some(0);
    assert_eq!(run_to_end(&plan).void.len(), 1);
}

/// A reply that comes after the window does not count in the window's last interval.
#[test]
fn an_interval_of_the_series_ends_with_the_window() {
    // A generator that is kept from its CPU sends nothing within the window.
    undisturbed(|| {
        let server = scripted(&[Action::Wait(millis(300)), send(&reply())]);
        let mut plan = plan(server.address(), log(&[&[get("/a")]]));
        (plan.model, plan.sessions_max) = (closed(1), Some(1));
        (plan.duration_us, plan.interval_us) = (Some(150 * MS), 60_000 * MS);
        let outcome = run_to_end(&plan);
        let series = outcome.measures.series.iter().map(|one| (one.requests, one.replies));
        let series: Vec<_> = series.collect();
        if series == [(1, 0), (0, 1)] { Ok(()) } else { Err(format!("{series:?}")) }
    });
}
