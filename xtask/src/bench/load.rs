//! `cargo xtask bench load`: the cost of the load generator, beside wrk on the same server.
//!
//! Many connections that each wait for their answer drive Ropewalk itself, at its default setting
//! on one processor, from another processor, one client at a time. The client is measured: the
//! processor time of its process, as the kernel accounts for it. Times are not judged here; only
//! the numbers of requests that client and server have counted must agree. Each client has a server
//! of its own, so that the server's count of requests is that client's.

use super::load_run::LoadRun;
use super::options::{Defaults, Named, Options};
use super::rounds::{order, progress};
use super::stage::{self, Stage};
use super::table::{CONFIDENCE, estimate, markdown};
use lab::RunningServer;
use lab::http::Connection;
use lab::wrk;
use serde_json::{Value, json};
use statistics::{Estimate, median_estimate, paired_ratio};
use std::fs;
use std::time::Duration;
use testkit::tools::WRK;

const CONNECTIONS: usize = 64;

/// Share of a window for warming up.
const WARM_UP: f64 = 0.2;

/// The number of requests sent in advance, to check that the server serves.
const PROBES: u64 = 1;

/// The only row.
#[derive(Debug, PartialEq)]
pub(crate) struct Row;

impl Named for Row {
    fn name(&self) -> &'static str {
        "closed"
    }
}

/// The defaults of `cargo xtask bench load`.
pub(crate) const DEFAULTS: Defaults<Row> = Defaults {
    rows: &[Row],
    quick_rows: &["closed"],
    only_option: "--clients",
    rounds: 7,
    quick_rounds: 1,
    window: Duration::from_secs(2),
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// `ropewalk load` with this `--verify`.
    Ours(&'static str),
    Wrk,
}

/// The counts of a client in a window, and its use of resources.
#[derive(Debug)]
struct Count {
    /// Good answers.
    requests: u64,
    /// How long the run took, by the client's own clock.
    seconds: f64,
    cpu: Duration,
    /// What went wrong, if anything did.
    complaint: Option<String>,
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

/// Runs the benchmark and prints its table.
pub(crate) fn run(options: &Options<Row>) -> Result<(), String> {
    os::limits::raise_descriptor_limit().map_err(|why| why.to_string())?;
    let stage = Stage::new(options)?;
    let (version, kernel) = (stage.version(), os::process::kernel_release());
    println!("Ropewalk {version}. Kernel {kernel}. Intervals are of 95 %.");
    let entrants = measure(&stage)?;
    let samples: Vec<Value> = entrants.iter().map(Entrant::json).collect();
    let notes: Vec<String> = entrants.iter().filter_map(Entrant::note).collect();
    let table = markdown(&table(entrants)?);
    println!("\n### Closed: 1 KiB, keep-alive, {CONNECTIONS} connections\n\n{table}");
    for note in &notes {
        println!("- {}.", note.trim().replace('\n', " / "));
    }
    if !WRK.is_there() {
        println!("\nSkipped: {}", WRK.is_missing());
    }
    let Some(path) = &options.json else { return Ok(()) };
    let document =
        json!({ "kernel": kernel, "version": version, "samples": samples, "notes": notes });
    fs::write(path, format!("{document:#}\n")).map_err(|why| format!("{}: {why}", path.display()))
}

/// Runs all clients in alternating rounds.
fn measure(stage: &Stage<'_>) -> Result<Vec<Entrant>, String> {
    let mut entrants = Vec::new();
    for kind in kinds(stage.options) {
        entrants.push(Entrant::new(kind, stage.server()?));
    }
    for round in 0..stage.options.rounds {
        progress(&format!("round {}", round + 1));
        for index in order(round, entrants.len()) {
            entrants[index].round(stage)?;
        }
    }
    Ok(entrants)
}

fn kinds(options: &Options<Row>) -> Vec<Kind> {
    let ours = ["none", "length", "bytes"].into_iter();
    let ours = ours.filter(|verify| options.wants(verify)).map(Kind::Ours);
    let has_wrk = options.wants(WRK.name) && WRK.is_there();
    ours.chain(has_wrk.then_some(Kind::Wrk)).collect()
}

/// The table's rows; the first is the head.
fn table(entrants: Vec<Entrant>) -> Result<Vec<Vec<String>>, String> {
    let wrk = entrants.iter().find(|entrant| entrant.kind == Kind::Wrk);
    let wrk: Option<Vec<f64>> = wrk.map(Entrant::cpu_us);
    let head =
        ["client", "requests/s", "client CPU µs/request", "over wrk", "server counted more by"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for entrant in entrants {
        rows.push(entrant.conclude(wrk.as_deref())?);
    }
    Ok(rows)
}

impl Entrant {
    fn new(kind: Kind, server: RunningServer) -> Self {
        Self { kind, server, windows: Vec::new(), counted: 0, runs: 0, complaints: Vec::new() }
    }

    fn name(&self) -> String {
        match self.kind {
            Kind::Ours(verify) => format!("ropewalk load --verify {verify}"),
            Kind::Wrk => "wrk -t 1".into(),
        }
    }

    /// Warms up and measures.
    fn round(&mut self, stage: &Stage<'_>) -> Result<(), String> {
        let window = stage.options.window;
        self.window(stage, window.mul_f64(WARM_UP).max(Duration::from_millis(100)))?;
        let count = self.window(stage, window)?;
        self.windows.push(count);
        Ok(())
    }

    fn window(&mut self, stage: &Stage<'_>, window: Duration) -> Result<Count, String> {
        let url = stage::file_url(&self.server);
        let count = match self.kind {
            Kind::Ours(verify) => run_ours(stage, &url, verify, window)?,
            Kind::Wrk => run_wrk(stage.client_cpu, &url, window)?,
        };
        self.counted += count.requests;
        self.runs += 1;
        self.complaints.extend(count.complaint.clone());
        Ok(count)
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

    fn note(&self) -> Option<String> {
        let first = self.complaints.first()?;
        let (name, faulty) = (self.name(), self.complaints.len());
        Some(format!("{name}: {faulty} of {} runs with errors: {first}", self.runs))
    }

    /// The client's row of the table, with what the server counted.
    fn conclude(self, wrk: Option<&[f64]>) -> Result<Vec<String>, String> {
        let (name, cpu_us, counted) = (self.name(), self.cpu_us(), self.counted);
        let under_way_max = self.runs * CONNECTIONS as u64;
        let over_wrk = match wrk {
            Some(wrk) if self.kind != Kind::Wrk => estimate(paired_ratio(&cpu_us, wrk, CONFIDENCE)),
            _ => "–".into(),
        };
        let rate = middle(&self.requests_per_s());
        let rate = rate.map_or("–".into(), |rate| format!("{:.0}", rate.median));
        let more = stage::count_requests(self.server)?.checked_sub(PROBES + counted);
        // Only the server counts answers that were on their way when a client stopped.
        let more = more.filter(|more| *more <= under_way_max).ok_or_else(|| {
            format!("{name} counted {counted} requests, which is not what the server counted")
        })?;
        let more = format!("{more} of {counted}");
        Ok(vec![name, rate, estimate(middle(&cpu_us)), over_wrk, more])
    }
}

/// The median of the samples that are numbers, with its interval.
fn middle(samples: &[f64]) -> Option<Estimate> {
    let clean: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    median_estimate(&clean, CONFIDENCE)
}

fn run_ours(stage: &Stage<'_>, url: &str, verify: &str, window: Duration) -> Result<Count, String> {
    let ms = window.as_millis();
    let arguments =
        format!("{url} --connections {CONNECTIONS} --verify {verify} --duration {ms}ms");
    let run = LoadRun::new(stage, &arguments, window)?;
    let (requests, seconds, complaint) = (run.count("replies"), run.seconds(), run.complaint());
    Ok(Count { requests, seconds, cpu: run.cpu, complaint })
}

fn run_wrk(cpu: usize, url: &str, window: Duration) -> Result<Count, String> {
    let load = wrk::Load {
        url,
        connections: CONNECTIONS,
        connection: Connection::KeepAlive,
        script: None,
        cpus: &[cpu],
        duration: window,
    };
    let outcome = wrk::run(&load)?;
    let wrk::Outcome { requests, seconds, cpu, .. } = outcome;
    let errors = outcome.not_successful + outcome.read_errors + outcome.other_errors;
    let complaint = (errors > 0).then(|| format!("{errors} errors"));
    Ok(Count { requests, seconds, cpu, complaint })
}
