//! Many connections that each wait for their answer: the cost of a request for the client.
//!
//! Each client has a server of its own, so that the server's count of requests is that client's.

use super::others::{self, Count, Sessions};
use super::{Row, Section, cells, middle_cell, ratio_cell};
use crate::bench::load_run::LoadRun;
use crate::bench::rounds::{order, progress};
use crate::bench::stage::{self, FILE, Stage};
use lab::RunningServer;
use lab::http::Connection;
use lab::wrk;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::tools::{H2LOAD, HTTPERF, WRK};

const CONNECTIONS: usize = 64;

/// httperf has no windows, so it gets as many requests as it answers in one at this rate.
const HTTPERF_REQUESTS_PER_S: f64 = 30_000.0;

/// Share of a window for warming up.
const WARM_UP: f64 = 0.2;

/// The number of requests sent in advance, to check that the server serves.
const PROBES: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// `ropewalk load` with this `--verify`.
    Ours(&'static str),
    Wrk,
    H2load,
    Httperf,
}

#[derive(Debug)]
struct Entrant {
    kind: Kind,
    server: RunningServer,
    /// The counts of each round.
    windows: Vec<Count>,
    /// Requests counted in all windows, including those of warming up.
    counted: u64,
    /// The number of windows.
    runs: u64,
    complaints: Vec<String>,
}

/// Runs the row.
pub(super) fn run(stage: &Stage<'_, Row>) -> Result<Section, String> {
    let mut entrants = Vec::new();
    for kind in kinds(stage) {
        entrants.push(Entrant::new(kind, stage.server()?));
    }
    for round in 0..stage.options.rounds {
        progress(&format!("closed: round {}", round + 1));
        for index in order(round, entrants.len()) {
            entrants[index].round(stage)?;
        }
    }
    let wrk = entrants.iter().find(|entrant| entrant.kind == Kind::Wrk);
    let wrk: Option<Vec<f64>> = wrk.map(Entrant::cpu_us);
    let mut section = Section {
        table: vec![cells([
            "client",
            "requests/s",
            "client CPU µs/request",
            "over wrk",
            "server counted more by",
        ])],
        notes: Vec::new(),
        samples: entrants.iter().map(Entrant::json).collect(),
    };
    for entrant in entrants {
        entrant.conclude(wrk.as_deref(), &mut section)?;
    }
    Ok(section)
}

fn kinds(stage: &Stage<'_, Row>) -> Vec<Kind> {
    let ours = ["none", "length", "bytes"].into_iter();
    let ours = ours.filter(|verify| stage.options.wants(verify)).map(Kind::Ours);
    let others = [(WRK, Kind::Wrk), (H2LOAD, Kind::H2load), (HTTPERF, Kind::Httperf)];
    let others = others.into_iter().filter(|(tool, _)| stage.has(*tool)).map(|(_, kind)| kind);
    ours.chain(others).collect()
}

impl Entrant {
    fn new(kind: Kind, server: RunningServer) -> Self {
        Self { kind, server, windows: Vec::new(), counted: 0, runs: 0, complaints: Vec::new() }
    }

    fn name(&self) -> String {
        match self.kind {
            Kind::Ours(verify) => format!("ropewalk load --verify {verify}"),
            Kind::Wrk => "wrk -t 1".into(),
            Kind::H2load => "h2load --h1 -t 1 -m 1".into(),
            Kind::Httperf => "httperf --wsess".into(),
        }
    }

    /// Warms up and measures.
    fn round(&mut self, stage: &Stage<'_, Row>) -> Result<(), String> {
        let window = stage.options.window;
        self.window(stage, window.mul_f64(WARM_UP).max(Duration::from_millis(100)))?;
        let count = self.window(stage, window)?;
        self.windows.push(count);
        Ok(())
    }

    fn window(&mut self, stage: &Stage<'_, Row>, window: Duration) -> Result<Count, String> {
        let (count, complaint) = self.load(stage, window)?;
        self.counted += count.requests;
        self.runs += 1;
        self.complaints.extend(complaint);
        Ok(count)
    }

    fn load(
        &self,
        stage: &Stage<'_, Row>,
        window: Duration,
    ) -> Result<(Count, Option<String>), String> {
        let (cpu, url) = (stage.client_cpu, stage::file_url(&self.server));
        let count = match self.kind {
            Kind::Ours(verify) => {
                let ms = window.as_millis();
                let arguments = format!(
                    "{url} --connections {CONNECTIONS} --verify {verify} --duration {ms}ms"
                );
                let run = LoadRun::new(stage, &arguments, window)?;
                let (requests, seconds) = (run.count("replies"), run.seconds());
                let count =
                    Count { requests, seconds, errors: run.errors(), sessions: 0, cpu: run.cpu };
                return Ok((count, run.complaint()));
            }
            Kind::Wrk => run_wrk(cpu, &url, window)?,
            Kind::H2load => others::h2load(cpu, &url, CONNECTIONS, window)?,
            Kind::Httperf => {
                let requests = HTTPERF_REQUESTS_PER_S * window.as_secs_f64();
                let requests = (requests / CONNECTIONS as f64).max(1.0) as u64;
                let load = Sessions { sessions: CONNECTIONS as u64, requests, rate: None };
                others::httperf(cpu, self.server.address(), FILE, load)?
            }
        };
        let complaint = (count.errors > 0).then(|| format!("{} errors", count.errors));
        Ok((count, complaint))
    }

    fn cpu_us(&self) -> Vec<f64> {
        let cost = |count: &Count| count.cpu.as_secs_f64() * 1e6 / count.requests as f64;
        self.windows.iter().map(cost).collect()
    }

    fn requests_per_s(&self) -> Vec<f64> {
        self.windows.iter().map(|count| count.requests as f64 / count.seconds).collect()
    }

    fn json(&self) -> Value {
        json!({
            "client": self.name(),
            "cpu_us": self.cpu_us(),
            "requests_per_s": self.requests_per_s(),
        })
    }

    /// Adds the client's row to the table, with what the server counted.
    fn conclude(self, wrk: Option<&[f64]>, section: &mut Section) -> Result<(), String> {
        let (name, cpu_us, counted) = (self.name(), self.cpu_us(), self.counted);
        let under_way_max = self.runs * CONNECTIONS as u64;
        let over_wrk = match wrk {
            Some(wrk) if self.kind != Kind::Wrk => ratio_cell(&cpu_us, wrk),
            _ => "–".into(),
        };
        let rate = super::middle(&self.requests_per_s());
        let rate = rate.map_or("–".into(), |rate| format!("{:.0}", rate.median));
        if let Some(first) = self.complaints.first() {
            let runs = self.complaints.len();
            section
                .notes
                .push(format!("{name}: {runs} of {} runs with errors: {first}", self.runs));
        }
        let more = stage::count_requests(self.server)?.checked_sub(PROBES + counted);
        // Only the server counts answers that were on their way when a client stopped.
        let more = more.filter(|more| *more <= under_way_max).ok_or_else(|| {
            format!("{name} counted {counted} requests, which is not what the server counted")
        })?;
        let more = format!("{more} of {counted}");
        section.table.push(vec![name, rate, middle_cell(&cpu_us), over_wrk, more]);
        Ok(())
    }
}

fn run_wrk(cpu: usize, url: &str, window: Duration) -> Result<Count, String> {
    let load = wrk::Load {
        url,
        connections: CONNECTIONS,
        connection: Connection::KeepAlive,
        script: None,
        cpu,
        duration: window,
    };
    let outcome = wrk::run(&load)?;
    Ok(Count {
        requests: outcome.requests,
        seconds: outcome.seconds,
        errors: outcome.not_successful + outcome.read_errors + outcome.other_errors,
        sessions: 0,
        cpu: outcome.cpu,
    })
}
