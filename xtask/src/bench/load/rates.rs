//! Requests at a fixed rate: whether the rate is kept, and how late the generator is.

use super::{Row, Section, cells, middle_cell};
use crate::bench::load_run::LoadRun;
use crate::bench::rounds::progress;
use crate::bench::stage::{self, Stage};
use lab::RunningServer;
use serde_json::json;
use std::time::Duration;

/// The rate of requests, per second.
const RATE: u64 = 50_000;
const QUICK_RATE: u64 = 5000;

/// The number of requests of a session in the partly open row.
const REQUESTS_PER_SESSION: usize = 7;
const THINK: &str = "0.343";
const QUICK_THINK: &str = "0.05";

/// The time for opening connections, including those that are needed while the server is held up;
/// longer than a session, so that as many end in the window as begin.
const WARM_UP: Duration = Duration::from_millis(3000);
const QUICK_WARM_UP: Duration = Duration::from_millis(500);

/// Addresses to connect from. Each has 28,000 ports, and a used port rests for a minute: with few
/// addresses the kernel searches long for a free port.
const SOURCES: std::ops::Range<u8> = 2..66;

/// The value of `--source`.
pub(super) fn sources() -> String {
    SOURCES.map(|last| format!("127.0.1.{last}")).collect::<Vec<_>>().join(",")
}

/// The row of independent requests.
pub(super) fn open(stage: &Stage<'_, Row>) -> Result<Section, String> {
    let rate = rate(stage);
    let warm_up = if stage.options.quick { QUICK_WARM_UP } else { WARM_UP };
    rounds(stage, rate, warm_up, |server| format!("{} --rate {rate}", stage::file_url(server)))
}

/// The row of sessions with think times.
pub(super) fn partly_open(stage: &Stage<'_, Row>) -> Result<Section, String> {
    let rate = rate(stage);
    let (think, warm_up) = match stage.options.quick {
        true => (QUICK_THINK, QUICK_WARM_UP),
        false => (THINK, WARM_UP),
    };
    let log = stage.log(REQUESTS_PER_SESSION, think)?;
    rounds(stage, rate, warm_up, |server| {
        let url = stage::server_url(server);
        format!("{url} --log {log} --request-rate {rate} --source {}", sources())
    })
}

fn rate(stage: &Stage<'_, Row>) -> u64 {
    if stage.options.quick { QUICK_RATE } else { RATE }
}

/// The samples of a row; each vector has one entry for each round.
#[derive(Debug, Default)]
struct Samples {
    sent_per_s: Vec<f64>,
    replies_per_s: Vec<f64>,
    lag_p50_us: Vec<f64>,
    lag_p99_us: Vec<f64>,
    lag_max_us: Vec<f64>,
    cpu_share: Vec<f64>,
    connections: Vec<f64>,
    complaints: Vec<String>,
}

fn rounds(
    stage: &Stage<'_, Row>,
    rate: u64,
    warm_up: Duration,
    arguments: impl Fn(&RunningServer) -> String,
) -> Result<Section, String> {
    let server = stage.server()?;
    let window = stage.options.window;
    let times = format!("--warm-up {}ms --duration {}ms", warm_up.as_millis(), window.as_millis());
    let mut samples = Samples::default();
    for round in 0..stage.options.rounds {
        progress(&format!("round {}", round + 1));
        let arguments = format!("{} {times}", arguments(&server));
        samples.add(&LoadRun::new(stage, &arguments, warm_up + window)?, warm_up + window);
    }
    Ok(samples.section(rate))
}

impl Samples {
    /// Adds a run in which requests were sent during `sending`.
    fn add(&mut self, run: &LoadRun, sending: Duration) {
        let lag_us = |percentile| run.time_ms("lag", percentile) * 1000.0;
        self.sent_per_s.push(run.per_second("requests"));
        self.replies_per_s.push(run.per_second("replies"));
        self.lag_p50_us.push(lag_us("p50_ms"));
        self.lag_p99_us.push(lag_us("p99_ms"));
        self.lag_max_us.push(lag_us("max_ms"));
        self.cpu_share.push(run.cpu.as_secs_f64() / sending.as_secs_f64());
        self.connections.push(run.connections_open() as f64);
        self.complaints.extend(run.complaint());
    }

    fn section(self, rate: u64) -> Section {
        let off_percent: Vec<f64> =
            self.sent_per_s.iter().map(|it| (it / rate as f64 - 1.0) * 100.0).collect();
        let largest = |samples: &[f64]| samples.iter().copied().fold(0.0, f64::max);
        let percent: Vec<f64> = self.cpu_share.iter().map(|share| share * 100.0).collect();
        let row = vec![
            rate.to_string(),
            middle_cell(&self.sent_per_s),
            middle_cell(&off_percent),
            middle_cell(&self.replies_per_s),
            middle_cell(&self.lag_p50_us),
            middle_cell(&self.lag_p99_us),
            format!("{:.0}", largest(&self.lag_max_us)),
            middle_cell(&percent),
            format!("{:.0}", largest(&self.connections)),
        ];
        let head = cells([
            "offered/s",
            "sent/s",
            "off by %",
            "replies/s",
            "lag p50 µs",
            "lag p99 µs",
            "lag max µs",
            "client CPU %",
            "connections open",
        ]);
        let (runs, complaints) = (self.replies_per_s.len(), self.complaints.len());
        let note = |first| format!("{complaints} of {runs} runs with errors or void: {first}");
        let samples = json!({
            "offered_per_s": rate,
            "sent_per_s": self.sent_per_s,
            "replies_per_s": self.replies_per_s,
            "lag_p50_us": self.lag_p50_us,
            "lag_p99_us": self.lag_p99_us,
            "lag_max_us": self.lag_max_us,
            "cpu_share": self.cpu_share,
            "connections_open_max": self.connections,
        });
        let notes = self.complaints.first().map(note).into_iter().collect();
        Section { table: vec![head, row], notes, samples }
    }
}
