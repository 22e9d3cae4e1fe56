//! Plans, logs and runs for the tests, and the checks that every run must pass.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use load::error_kind::ErrorKind;
use load::measures::{Interval, Measures};
use load::outcome::{Outcome, Setting};
use load::plan::{ConnectionUse, Expected, Model, Plan, Process, Start, Target, Verify};
use load::run::{Watch, run};
use load::run_error::RunError;
use load::schedule::Schedule;
use load::void::Bounds;
use testkit::scripted::{Action, ReceivedRequest, Reply, Scripted};
use workload::request_log::{RequestLog, Template};

pub(crate) const MS: u64 = 1_000;
pub(crate) const SECOND: u64 = 1_000_000;

/// A request of a log.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    template: Template,
    joins: bool,
    pause_us: u64,
}

pub(crate) fn get(uri: &str) -> Step {
    Step { template: Template::get(uri.as_bytes()), joins: false, pause_us: 0 }
}

impl Step {
    pub(crate) fn method(mut self, method: &str) -> Self {
        self.template.method = method.into();
        self
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.template.body = body.into();
        self
    }

    /// Puts the request into the burst of the request before it.
    pub(crate) fn joined(mut self) -> Self {
        self.joins = true;
        self
    }

    pub(crate) fn pause_ms(mut self, pause_ms: u64) -> Self {
        self.pause_us = pause_ms * MS;
        self
    }
}

/// A log of these sessions.
pub(crate) fn log(sessions: &[&[Step]]) -> RequestLog {
    let mut builder = RequestLog::builder();
    for session in sessions {
        for step in *session {
            builder.push(step.template.clone(), step.joins, step.pause_us);
        }
        builder.end_session();
    }
    builder.finish().unwrap()
}

/// A plan of one client and one session of `log`, without verification, with timeouts that only a
/// stuck run reaches.
pub(crate) fn plan(server: SocketAddr, log: RequestLog) -> Plan {
    let expected = vec![Expected::other(None); log.templates().len()];
    Plan {
        targets: vec![target(server)],
        sources: Vec::new(),
        log: Arc::new(log),
        expected: expected.into(),
        model: closed(1),
        connection_use: ConnectionUse::Session,
        verify: Verify::None,
        timeout_us: 60 * SECOND,
        connect_timeout_us: 60 * SECOND,
        latency_target_us: None,
        bounds: lifted(),
        warm_up_us: 0,
        duration_us: None,
        sessions_max: Some(1),
        interval_us: SECOND,
        threads: 1,
        cpus: Vec::new(),
        share: (0, 1),
        idle: 0,
        start: Start::Now,
        rest_us: 0,
        seed: 1,
        notes: Vec::new(),
    }
}

/// Bounds that no machine exceeds, however busy.
pub(crate) fn lifted() -> Bounds {
    Bounds { lag_us: Some(60 * SECOND), run_delay_share: 1.0 }
}

pub(crate) fn target(server: SocketAddr) -> Target {
    let fields = format!(" HTTP/1.1\r\nHost: {server}\r\n").into_bytes();
    Target { address: server, url: format!("http://{server}/"), fields }
}

/// Clients that end after the last session.
pub(crate) fn closed(clients: u64) -> Model {
    Model::Closed { clients, endless: false }
}

/// Evenly spaced sessions.
pub(crate) fn open(sessions_per_second: f64) -> Model {
    Model::Open(Process::Constant(Schedule::constant(sessions_per_second).unwrap()))
}

pub(crate) fn send(reply: &Reply) -> Action {
    Action::Send(reply.bytes())
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A server that performs the same actions for every request.
pub(crate) fn scripted(actions: &[Action]) -> Scripted {
    let actions = actions.to_vec();
    Scripted::start(os::clock::now, move |_| actions.clone())
}

/// A server whose actions depend on the request's target.
pub(crate) fn scripted_by_target(script: fn(&str) -> Vec<Action>) -> Scripted {
    Scripted::start(os::clock::now, move |asked| script(&asked.target))
}

/// Records intervals, and can interrupt a run.
#[derive(Default)]
pub(crate) struct Watcher {
    /// When to interrupt the run, by its clock: not before replies came in two intervals, which
    /// takes a busy machine longer.
    pub(crate) stop_at_us: Option<u64>,
    /// The start of a run that waits to be told, in microseconds since 1970.
    pub(crate) start_unix_us: Option<u64>,
    /// Ended intervals.
    pub(crate) intervals: Vec<Interval>,
}

impl Watch for Watcher {
    fn on_interval(&mut self, _seconds: f64, interval: &Interval) {
        self.intervals.push(interval.clone());
    }

    fn wants_to_stop(&mut self) -> bool {
        let answered = self.intervals.iter().filter(|interval| interval.replies > 0).count();
        self.stop_at_us.is_some_and(|at_us| os::clock::now() >= at_us) && answered >= 2
    }

    fn on_ready(&mut self) -> Result<u64, RunError> {
        self.start_unix_us.ok_or_else(|| RunError::NoStart("no start time was given".into()))
    }
}

/// Runs `plan` to its end, and checks what must hold for every run.
#[track_caller]
pub(crate) fn run_to_end(plan: &Plan) -> Outcome {
    run_watched(plan, &mut Watcher::default())
}

/// Runs `plan`, which waits to be told its start, from `start_unix_us` to its end, and checks what
/// must hold for every run. A generator that is late for its start is no error.
#[track_caller]
pub(crate) fn run_from(start_unix_us: u64, plan: &Plan) -> Outcome {
    let start_unix_us = Some(start_unix_us);
    run_watched(plan, &mut Watcher { start_unix_us, ..Watcher::default() })
}

/// Runs `plan` under `watcher`, and checks what must hold for every run.
#[track_caller]
pub(crate) fn run_watched(plan: &Plan, watcher: &mut dyn Watch) -> Outcome {
    let outcome = run(plan, Setting::default(), watcher).unwrap();
    if outcome.first_bad.is_none() {
        check_sums(&outcome.measures);
    }
    outcome
}

/// Checks the sums of a run that has ended by itself: no request is under way, so each has a
/// result.
#[track_caller]
fn check_sums(measures: &Measures) {
    let counts = &measures.counts;
    let errors = measures.errors.total();
    assert_eq!(counts.requests, counts.replies + errors, "{counts:?} {:?}", measures.errors);
    assert_eq!(measures.times.corrected.len(), counts.replies);
    assert_eq!(measures.times.uncorrected.len(), counts.replies);
    assert_eq!(measures.times.first_byte.len(), counts.replies);
    let ended = counts.sessions_completed + counts.sessions_failed + counts.sessions_unfinished;
    assert_eq!(counts.sessions_started, ended, "{counts:?}");
    let sum = |of: fn(&Interval) -> u64| measures.series.iter().map(of).sum::<u64>();
    assert_eq!(sum(|interval| interval.requests), counts.requests);
    assert_eq!(sum(|interval| interval.replies), counts.replies);
    assert_eq!(sum(|interval| interval.errors), errors);
    assert!(counts.connections <= counts.connections_tried, "{counts:?}");
}

/// The kinds of errors that occurred, with their counts.
pub(crate) fn errors(outcome: &Outcome) -> Vec<(ErrorKind, u64)> {
    outcome.measures.errors.iter().collect()
}

/// The targets of the requests, in order.
pub(crate) fn targets(seen: &[ReceivedRequest]) -> Vec<String> {
    seen.iter().map(|asked| asked.target.clone()).collect()
}
