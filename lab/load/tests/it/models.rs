//! When sessions begin: closed and open runs, shares, windows, interruption.

use load::error_kind::ErrorKind;
use load::measures::{Interval, Measures};
use load::outcome::Setting;
use load::plan::{ConnectionUse, Expected, ExpectedBody, Model, Plan, Process, Start, Verify};
use load::run::{Watch, run};
use load::run_error::RunError;
use load::schedule::Schedule;
use testkit::scripted::{Action, Reply, Scripted};
use testkit::{comes_true, undisturbed};

use crate::setup::{
    MS, SECOND, Watcher, closed, errors, get, log, millis, open, plan, run_from, run_to_end,
    scripted, send,
};

fn reply() -> Reply {
    Reply::ok(b"hello")
}

fn slow(ms: u64) -> Scripted {
    scripted(&[Action::Wait(millis(ms)), send(&reply())])
}

fn endless(clients: u64) -> Model {
    Model::Closed { clients, endless: true }
}

/// Interrupts a run when a condition has come true.
struct Until<F>(F);

impl<F: FnMut() -> bool> Watch for Until<F> {
    fn on_interval(&mut self, _seconds: f64, _interval: &Interval) {}

    fn wants_to_stop(&mut self) -> bool {
        self.0()
    }
}

/// At most N requests are under way, and exactly N when the server is slower than the generator.
#[test]
fn a_closed_run_has_so_many_under_way() {
    for (model, connection_use) in [
        (closed(5), ConnectionUse::Session),
        (closed(5), ConnectionUse::Request),
        (endless(5), ConnectionUse::Keep),
    ] {
        let server = slow(20);
        let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
        (plan.model, plan.connection_use, plan.threads) = (model, connection_use, 2);
        (plan.sessions_max, plan.duration_us) = (None, Some(600 * SECOND));
        // The run lasts until all clients have had a CPU, even on a busy machine.
        let mut all_were = Until(|| server.under_way_max() >= 5 && server.requests().len() >= 50);
        let outcome = run(&plan, Setting::default(), &mut all_were).unwrap();
        assert_eq!(errors(&outcome), []);
        assert_eq!(server.under_way_max(), 5, "{connection_use:?}");
        assert!(outcome.measures.counts.requests >= 50);
    }
}

/// An endless session begins anew on its connection; such sessions are never over.
#[test]
fn endless_sessions() {
    undisturbed(|| {
        let server = scripted(&[send(&reply())]);
        let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b").pause_ms(5)]]));
        (plan.model, plan.sessions_max, plan.duration_us) = (endless(2), None, Some(300 * MS));
        let outcome = run_to_end(&plan);
        let counts = &outcome.measures.counts;
        // Clients that are kept from their CPU may even begin after the window.
        let begun = (server.connections().len(), counts.sessions_started);
        if begun != (2, 2) || counts.sessions_unfinished != 2 || counts.replies < 6 {
            return Err(format!("{begun:?} {counts:?}"));
        }
        for connection in 0..2 {
            let seen = server.requests();
            let asked = seen.iter().filter(|asked| asked.connection == connection);
            let turns: Vec<&str> = asked.map(|asked| &*asked.target).collect();
            let mut expected = ["/a", "/b"].into_iter().cycle();
            assert!(turns.iter().all(|target| Some(*target) == expected.next()), "{turns:?}");
        }
        Ok(())
    });
}

/// A client of a closed run pauses before it connects again to a server that refuses connections.
#[test]
fn a_closed_run_rests_after_failures() {
    let server = scripted(&[Action::Reset]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.model, plan.sessions_max, plan.duration_us) = (endless(1), None, Some(300 * MS));
    undisturbed(|| {
        let tries = run_to_end(&plan).measures.counts.requests;
        assert!(tries <= 31, "{tries}");
        // A client that is kept from its CPU makes few.
        if tries >= 2 { Ok(()) } else { Err(format!("{tries} tries")) }
    });
}

/// Sessions go on starting at their times though no reply comes.
#[test]
fn an_open_run_does_not_wait() {
    let server = scripted(&[Action::Stall]);
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
    (plan.model, plan.sessions_max, plan.duration_us) = (open(100.0), None, Some(500 * MS));
    plan.timeout_us = SECOND;
    let outcome = run_to_end(&plan);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.sessions_due, counts.sessions_started, counts.requests), (50, 50, 50));
    assert_eq!(outcome.measures.errors.total(), 50);
    assert_eq!(counts.sessions_failed, 50);
    // The server may see the last ones only after the client has given up.
    assert!(comes_true(|| server.under_way_max() == 50), "{}", server.under_way_max());
}

/// Sessions start when they are due: never before, and over the whole run at the rate asked for.
#[test]
fn an_open_run_keeps_its_times() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.model, plan.sessions_max, plan.threads) = (open(100.0), Some(60), 2);
    let (start_us, start) = start_in(&mut plan, 200);
    assert_eq!(errors(&run_from(start, &plan)), []);
    let seen = server.requests();
    assert_eq!(seen.len(), 60);
    for (k, asked) in (0_u64..).zip(&seen) {
        let due_us = start_us + k * 10 * MS;
        assert!(asked.at_us + 2 >= due_us, "session {k}: {} before {due_us}", asked.at_us);
    }
}

/// Has the run wait to be told its start, and returns the time in `ms` milliseconds: by the clock
/// of the run, and since 1970.
pub(crate) fn start_in(plan: &mut Plan, ms: u64) -> (u64, u64) {
    let (seconds, nanoseconds) = os::clock::unix_time();
    let now_us = os::clock::now();
    let unix_us = seconds as u64 * SECOND + u64::from(nanoseconds) / 1_000;
    plan.start = Start::WhenNotified;
    (now_us + ms * MS, unix_us + ms * MS)
}

#[test]
fn a_start_that_is_over() {
    let server = scripted(&[]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.start = Start::At(1_000_000);
    let why = run(&plan, Setting::default(), &mut Watcher::default()).unwrap_err();
    assert!(matches!(why, RunError::TooLate { late_us: 1_000_000.. }), "{why:?}");
    assert!(why.to_string().starts_with("--start-at: that was "), "{why}");
}

#[test]
fn no_more_sessions_than_asked_for() {
    for model in [closed(1), closed(7), closed(30), open(1_000.0)] {
        for threads in [1, 3] {
            let server = scripted(&[send(&reply())]);
            let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
            (plan.model, plan.threads) = (model.clone(), threads);
            (plan.sessions_max, plan.duration_us) = (Some(20), Some(60 * SECOND));
            let outcome = run_to_end(&plan);
            let counts = &outcome.measures.counts;
            assert_eq!((counts.sessions_completed, counts.replies), (20, 40), "{model:?}");
            assert_eq!(server.requests().len(), 40);
            assert_eq!(outcome.measures.lengths[2].completed, 20);
        }
    }
}

/// The requests reach the server after the think times.
#[test]
fn pauses_are_kept() {
    let server = scripted(&[send(&reply())]);
    let steps = [get("/a").pause_ms(50), get("/b").pause_ms(0), get("/c").pause_ms(120), get("/d")];
    let outcome = run_to_end(&plan(server.address(), log(&[&steps])));
    assert_eq!(errors(&outcome), []);
    let at: Vec<u64> = server.requests().iter().map(|asked| asked.at_us).collect();
    assert!(at[1] - at[0] >= 50 * MS, "{at:?}");
    assert!(at[3] - at[2] >= 120 * MS, "{at:?}");
    assert!(outcome.measures.times.session.min() >= 169 * MS);
}

/// Requests due before the window are made and not counted.
#[test]
fn a_warm_up_is_left_out() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.model, plan.sessions_max) = (open(100.0), None);
    (plan.warm_up_us, plan.duration_us) = (300 * MS, Some(200 * MS));
    let outcome = run_to_end(&plan);
    let counts = &outcome.measures.counts;
    assert_eq!(server.requests().len(), 50);
    assert_eq!((counts.sessions_due, counts.requests, counts.replies), (20, 20, 20));
    assert_eq!((counts.connections, counts.status[2]), (20, 20));
    assert_eq!(counts.bytes_sent, 20 * server.requests()[0].head.len() as u64);
    assert_eq!(counts.head_bytes, 20 * reply().head().len() as u64);
    assert_eq!(outcome.measures.times.lag.len(), 20);
    assert_eq!(outcome.window_us, 200 * MS);
}

/// A wrong byte is reported even if it came before the window.
#[test]
fn a_wrong_byte_in_the_warm_up_ends_the_run() {
    let server = scripted(&[send(&Reply::ok(b"wrong"))]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    let body = ExpectedBody::Stored(b"right"[..].into());
    plan.expected = vec![Expected { bytes: Some(5), body, kind: 0 }].into();
    (plan.verify, plan.warm_up_us) = (Verify::Bytes, 10 * SECOND);
    let outcome = run_to_end(&plan);
    assert_eq!(errors(&outcome), [(ErrorKind::BadBytes, 1)]);
    assert!(outcome.first_bad.is_some());
    assert_eq!(outcome.exit_code(), 1);
}

/// Rates are over the time that the run took, not over the time that it might have taken.
#[test]
fn a_run_whose_sessions_are_over_is_over() {
    let server = scripted(&[send(&Reply::ok(b"x"))]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.sessions_max, plan.duration_us) = (Some(20), Some(600 * SECOND));
    let outcome = run_to_end(&plan);
    assert_eq!(outcome.measures.counts.replies, 20);
    assert!(outcome.window_us < 300 * SECOND, "{}", outcome.window_us);
}

/// A reply is awaited when the window has ended; the next request of the session is not sent.
#[test]
fn the_last_replies_are_awaited() {
    let server = slow(300);
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
    (plan.model, plan.sessions_max, plan.duration_us) = (open(50.0), None, Some(200 * MS));
    let outcome = run_to_end(&plan);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.requests, counts.replies), (10, 10));
    assert_eq!((counts.sessions_completed, counts.sessions_unfinished), (0, 10));
    assert_eq!(server.requests().len(), 10);
}

#[test]
fn an_interrupted_run_returns_what_it_has() {
    for model in [endless(3), open(200.0)] {
        let server = slow(5);
        let mut plan = plan(server.address(), log(&[&[get("/a").pause_ms(5), get("/b")]]));
        (plan.model, plan.sessions_max, plan.duration_us) = (model, None, Some(600 * SECOND));
        plan.interval_us = 50 * MS;
        let stop_at_us = Some(os::clock::now() + 400 * MS);
        let mut watcher = Watcher { stop_at_us, ..Watcher::default() };
        let outcome = run(&plan, Setting::default(), &mut watcher).unwrap();
        assert!(outcome.interrupted && outcome.first_bad.is_none());
        assert_eq!(errors(&outcome), []);
        let counts = &outcome.measures.counts;
        assert!(counts.replies > 0 && counts.replies <= counts.requests, "{counts:?}");
        let under_way = outcome.measures.series.last().unwrap().in_flight;
        assert_eq!(counts.requests, counts.replies + under_way);
        let ended = counts.sessions_completed + counts.sessions_unfinished;
        assert_eq!(counts.sessions_started, ended);
        assert!((300 * MS..600 * SECOND).contains(&outcome.window_us), "{}", outcome.window_us);
        assert!(watcher.intervals.len() >= 2);
    }
}

/// The intervals that were shown are the intervals of the result, as long as all threads run: a
/// thread that has ended adds nothing to the intervals that the others still show.
#[test]
fn intervals_are_shown_as_they_end() {
    let server = scripted(&[send(&reply())]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    (plan.model, plan.sessions_max, plan.threads) = (open(200.0), None, 2);
    (plan.duration_us, plan.interval_us) = (Some(500 * MS), 100 * MS);
    let replies = |intervals: &[Interval]| {
        intervals.iter().map(|interval| interval.replies).collect::<Vec<_>>()
    };
    undisturbed(|| {
        let mut watcher = Watcher::default();
        let outcome = run(&plan, Setting::default(), &mut watcher).unwrap();
        let series = &outcome.measures.series;
        assert_eq!(replies(series).iter().sum::<u64>(), 100);
        let shown = &watcher.intervals[..watcher.intervals.len().min(4)];
        let expected = &series[..series.len().min(shown.len())];
        // A thread that is kept from its CPU until the window is over ends with long intervals.
        let are_shown = !shown.is_empty() && replies(shown) == replies(expected);
        if series.len() >= 4 && are_shown {
            return Ok(());
        }
        Err(format!("{:?} of {:?}", replies(&watcher.intervals), replies(series)))
    });
}

/// The targets that a server was asked for, sorted.
fn requested_targets(server: &Scripted) -> Vec<String> {
    let mut asked: Vec<_> = server.requests().into_iter().map(|asked| asked.target).collect();
    asked.sort();
    asked
}

/// Two generators together send the requests that one sends.
#[test]
fn shares_make_up_the_whole() {
    let uris: Vec<String> = (0..30).map(|k| format!("/{k}")).collect();
    let sessions: Vec<_> = uris.iter().map(|uri| [get(uri), get("/more")]).collect();
    let sessions: Vec<_> = sessions.iter().map(|session| &session[..]).collect();
    for model in [closed(3), open(400.0)] {
        let server = scripted(&[send(&reply())]);
        let mut plan = plan(server.address(), log(&sessions));
        (plan.model, plan.sessions_max) = (model, Some(41));
        let whole = run_to_end(&plan).measures.counts;
        let expected = requested_targets(&server);
        assert_eq!(expected.len(), 82);

        let server = scripted(&[send(&reply())]);
        plan.targets[0].address = server.address();
        let mut sum = Measures::default();
        for (index, threads) in [(0, 1), (1, 2)] {
            (plan.share, plan.threads) = ((index, 2), threads);
            sum.merge(&run_to_end(&plan).measures);
        }
        assert_eq!(requested_targets(&server), expected);
        let sessions = |counts: &load::measures::Counts| {
            (counts.sessions_started, counts.sessions_completed, counts.requests, counts.bytes_sent)
        };
        assert_eq!(sessions(&sum.counts), sessions(&whole));
    }
}

/// Several threads are one generator: the clients of a closed run are divided among them.
#[test]
fn clients_are_divided_among_generators_and_threads() {
    for (index, share) in [(0, 4), (1, 3), (2, 3)] {
        let server = slow(30);
        let mut plan = plan(server.address(), log(&[&[get("/a")]]));
        (plan.model, plan.share, plan.threads) = (endless(10), (index, 3), 2);
        (plan.sessions_max, plan.duration_us) = (None, Some(600 * SECOND));
        // The run lasts until all clients have had a CPU, even on a busy machine.
        let mut all_were =
            Until(|| server.under_way_max() >= share && server.requests().len() >= 5 * share);
        let outcome = run(&plan, Setting::default(), &mut all_were).unwrap();
        assert_eq!(errors(&outcome), []);
        assert_eq!(server.under_way_max(), share, "generator {index}");
    }
}

/// Such a run is refused before it starts, whichever option determines its length.
#[test]
fn a_series_needs_no_more_memory_than_there_may_be() {
    let year = b"#@ start=0\n/a\n\n#@ start=31536000\n/b\n";
    let log = workload::request_log::wsesslog::read(year, 0).unwrap();
    let mut plan = plan("127.0.0.1:1".parse().unwrap(), log);
    let check = |plan: &Plan, refused: Option<&str>| {
        let found = plan.check().err();
        match refused {
            None => assert_eq!(found, None),
            Some(part) => assert!(found.as_ref().unwrap().contains(part), "{found:?}"),
        }
    };
    (plan.interval_us, plan.sessions_max) = (1_000 * MS, Some(2));
    plan.model = Model::Open(Process::Trace(1.0));
    check(&plan, Some("31536000 intervals in all threads"));
    plan.model = Model::Open(Process::Trace(1000.0));
    check(&plan, None);
    plan.duration_us = Some(31_536_000_000 * MS);
    check(&plan, Some("31536000 intervals in all threads"));
    plan.duration_us = None;
    // A user that replays a long log slowly interrupts the run, so its length is not checked.
    plan.model = Model::Open(Process::Constant(Schedule::constant(0.001).unwrap()));
    plan.sessions_max = Some(100_001);
    check(&plan, None);
    (plan.model, plan.warm_up_us) = (Model::Open(Process::Trace(1.0)), 31_535_999_000 * MS);
    plan.sessions_max = Some(2);
    check(&plan, None);
}
