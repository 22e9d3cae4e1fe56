//! Short sessions, a connection each: how many one processor can drive.
//!
//! Ropewalk's sessions run closed with a few connections, so that only the machine bounds them.
//! httperf knows only rates, so the highest rate is searched that it sustains without an error,
//! below its limit of about 1,020 connections; it then takes its turn in the rounds at that rate.

use super::others::{self, Count, Sessions};
use super::{Row, Section, cells, middle_cell, ratio_cell};
use crate::bench::load_run::LoadRun;
use crate::bench::rounds::{order, progress};
use crate::bench::stage::{self, FILE, Stage};
use lab::RunningServer;
use serde_json::json;
use std::thread;
use std::time::Duration;
use testkit::tools::HTTPERF;

const REQUESTS_PER_SESSION: usize = 7;

const CONNECTIONS: [usize; 2] = [8, 64];

/// The range of httperf's search, in sessions per second.
const RATE_MIN: f64 = 100.0;
const RATE_MAX: f64 = 1e6;
const CLOSENESS: f64 = 1.05;
const QUICK_CLOSENESS: f64 = 1.5;

const TRIES: usize = 2;

/// A rate is sustained if the run takes at most this share more than it should, and a moment for
/// the last sessions to end.
const OVERTIME_MAX: f64 = 0.02;
const LAST_SESSIONS_S: f64 = 0.05;

#[derive(Debug)]
enum Kind {
    Ours(usize),
    /// httperf at this rate.
    Httperf(f64),
}

#[derive(Debug)]
struct Entrant {
    kind: Kind,
    sessions_per_s: Vec<f64>,
    /// Processor time of the client for each session.
    cpu_us: Vec<f64>,
    /// The part of its processor that the client used.
    cpu_share: Vec<f64>,
    complaints: Vec<String>,
}

/// Runs the row.
pub(super) fn run(stage: &Stage<'_, Row>) -> Result<Section, String> {
    let log = stage.log(REQUESTS_PER_SESSION, "0")?;
    let server = stage.server()?;
    let mut entrants: Vec<Entrant> =
        CONNECTIONS.iter().map(|&connections| Entrant::new(Kind::Ours(connections))).collect();
    let mut notes = Vec::new();
    if stage.has(HTTPERF) {
        match highest_rate(stage, &server)? {
            Some(rate) => entrants.push(Entrant::new(Kind::Httperf(rate))),
            None => notes.push(format!("httperf does not sustain {RATE_MIN} sessions/s")),
        }
    }
    for round in 0..stage.options.rounds {
        progress(&format!("sessions: round {}", round + 1));
        for index in order(round, entrants.len()) {
            entrants[index].round(stage, &server, &log)?;
        }
    }
    Ok(section(&entrants, notes))
}

fn section(entrants: &[Entrant], mut notes: Vec<String>) -> Section {
    let httperf = entrants.iter().find(|entrant| matches!(entrant.kind, Kind::Httperf(_)));
    let mut table = vec![cells([
        "client",
        "sessions/s",
        "over httperf",
        "client CPU µs/session",
        "client CPU %",
    ])];
    for entrant in entrants {
        let over = match (&entrant.kind, httperf) {
            (Kind::Ours(_), Some(theirs)) => {
                ratio_cell(&entrant.sessions_per_s, &theirs.sessions_per_s)
            }
            _ => "–".into(),
        };
        let (rate, cost) = (middle_cell(&entrant.sessions_per_s), middle_cell(&entrant.cpu_us));
        let percent: Vec<f64> = entrant.cpu_share.iter().map(|share| share * 100.0).collect();
        table.push(vec![entrant.name(), rate, over, cost, middle_cell(&percent)]);
        if let Some(first) = entrant.complaints.first() {
            let count = entrant.complaints.len();
            notes.push(format!("{}: {count} runs with errors: {first}", entrant.name()));
        }
    }
    if httperf.is_some() {
        notes.push("httperf waits by asking again and again, so it uses a whole processor".into());
    }
    let samples = entrants.iter().map(|entrant| {
        json!({
            "client": entrant.name(),
            "sessions_per_s": entrant.sessions_per_s,
            "cpu_us_per_session": entrant.cpu_us,
            "cpu_share": entrant.cpu_share,
        })
    });
    let samples = samples.collect();
    Section { table, notes, samples }
}

impl Entrant {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            sessions_per_s: Vec::new(),
            cpu_us: Vec::new(),
            cpu_share: Vec::new(),
            complaints: Vec::new(),
        }
    }

    fn name(&self) -> String {
        match self.kind {
            Kind::Ours(connections) => format!("ropewalk load --connections {connections}"),
            Kind::Httperf(rate) => format!("httperf --rate {rate:.0}"),
        }
    }

    fn round(
        &mut self,
        stage: &Stage<'_, Row>,
        server: &RunningServer,
        log: &str,
    ) -> Result<(), String> {
        let (count, complaint) = match self.kind {
            Kind::Ours(connections) => ours(stage, server, log, connections)?,
            Kind::Httperf(rate) => {
                let count = run_httperf(stage, server, rate, stage.options.window)?;
                (count, (count.errors > 0).then(|| format!("{} errors", count.errors)))
            }
        };
        self.sessions_per_s.push(count.sessions as f64 / count.seconds);
        self.cpu_us.push(count.cpu.as_secs_f64() * 1e6 / count.sessions as f64);
        self.cpu_share.push(count.cpu.as_secs_f64() / count.seconds);
        self.complaints.extend(complaint);
        Ok(())
    }
}

fn ours(
    stage: &Stage<'_, Row>,
    server: &RunningServer,
    log: &str,
    connections: usize,
) -> Result<(Count, Option<String>), String> {
    let (url, window) = (stage::server_url(server), stage.options.window);
    let ms = window.as_millis();
    let arguments = format!("{url} --log {log} --connections {connections} --duration {ms}ms");
    let run = LoadRun::new(stage, &arguments, window)?;
    let count = Count {
        requests: run.count("replies"),
        seconds: run.seconds(),
        errors: run.errors(),
        sessions: run.count("sessions_completed"),
        cpu: run.cpu,
    };
    Ok((count, run.complaint()))
}

/// Runs httperf with the sessions of one window, at a rate.
fn run_httperf(
    stage: &Stage<'_, Row>,
    server: &RunningServer,
    rate: f64,
    window: Duration,
) -> Result<Count, String> {
    let sessions = (rate * window.as_secs_f64()).max(1.0) as u64;
    let load = Sessions { sessions, requests: REQUESTS_PER_SESSION as u64, rate: Some(rate) };
    others::httperf(stage.client_cpu, server.address(), FILE, load)
}

/// Doubles the rate until httperf fails, then halves the gap. None: it fails at once.
fn highest_rate(stage: &Stage<'_, Row>, server: &RunningServer) -> Result<Option<f64>, String> {
    let closeness = if stage.options.quick { QUICK_CLOSENESS } else { CLOSENESS };
    let mut sustained = None;
    let (mut rate, mut failed) = (RATE_MIN, None);
    while rate < RATE_MAX {
        progress(&format!("sessions: httperf at {rate:.0}/s"));
        match sustains(stage, server, rate)? {
            true => sustained = Some(rate),
            false => failed = Some(rate),
        }
        rate = match (sustained, failed) {
            (Some(low), None) => low * 2.0,
            (Some(low), Some(high)) if high / low > closeness => (low * high).sqrt(),
            _ => break,
        };
    }
    Ok(sustained)
}

/// Tries twice, since one failure may be due to other load on the machine.
fn sustains(stage: &Stage<'_, Row>, server: &RunningServer, rate: f64) -> Result<bool, String> {
    for _ in 0..TRIES {
        let count = run_httperf(stage, server, rate, stage.options.window / 2)?;
        if is_sustained(&count, rate) {
            return Ok(true);
        }
        // Remains of the failed try must not disturb the next one.
        thread::sleep(Duration::from_millis(100));
    }
    Ok(false)
}

fn is_sustained(count: &Count, rate: f64) -> bool {
    let due_s = count.sessions as f64 / rate;
    count.errors == 0 && count.seconds <= due_s * (1.0 + OVERTIME_MAX) + LAST_SESSIONS_S
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_sustained_without_errors_and_in_time() {
        let check = |seconds, errors, expected| {
            let count = Count { sessions: 2000, errors, seconds, ..Count::default() };
            assert_eq!(is_sustained(&count, 1000.0), expected, "{seconds} {errors}");
        };
        check(2.0, 0, true);
        check(2.08, 0, true);
        check(2.1, 0, false);
        check(2.0, 1, false);
    }
}
