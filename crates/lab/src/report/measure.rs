//! The quantities a report shows, and where a run has them. A run may lack any of them.
//!
//! Not what the lab observes in all: what has no place in a table or a figure stays in the records.

use super::number;
use crate::record::Run;

/// A quantity of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Measure {
    /// Good replies a second.
    Throughput,
    /// Good replies within the latency target, a second.
    Goodput,
    /// Part of the requests due that failed.
    ErrorShare,
    /// Part of the requests due with which the server kept up.
    KeptUpShare,
    /// The server's processor time, microseconds a request served.
    CpuPerRequest,
    /// Part of the domain's processors that the server used.
    Utilisation,
    /// The server's memory, bytes.
    Memory,
    /// Mean response time, microseconds.
    MeanTime,
    /// Its median.
    P50,
    /// Its 99th percentile.
    P99,
    /// Its 99.9th percentile.
    P999,
    /// How far apart the timeouts of kinds of file lie, percentage points.
    Spread,
}

impl Measure {
    /// All, in the order of a table.
    pub(crate) const ALL: [Self; 12] = [
        Self::Throughput,
        Self::Goodput,
        Self::ErrorShare,
        Self::KeptUpShare,
        Self::CpuPerRequest,
        Self::Utilisation,
        Self::Memory,
        Self::MeanTime,
        Self::P50,
        Self::P99,
        Self::P999,
        Self::Spread,
    ];

    /// For the heads of columns that programs read.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Throughput => "throughput_per_s",
            Self::Goodput => "goodput_per_s",
            Self::ErrorShare => "error_share",
            Self::KeptUpShare => "kept_up_share",
            Self::CpuPerRequest => "cpu_us_per_request",
            Self::Utilisation => "cpu_utilisation",
            Self::Memory => "memory_bytes",
            Self::MeanTime => "mean_us",
            Self::P50 => "p50_us",
            Self::P99 => "p99_us",
            Self::P999 => "p99.9_us",
            Self::Spread => "spread_points",
        }
    }

    /// As people read it.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::ErrorShare | Self::KeptUpShare | Self::Utilisation => number::percent(value),
            Self::Memory => number::memory(value),
            Self::MeanTime | Self::P50 | Self::P99 | Self::P999 => number::figure(value / 1e3),
            _ => number::figure(value),
        }
    }

    /// What `run` has of it; `cpus` is the number of processors of its domain, if known.
    pub(crate) fn of(self, run: &Run, cpus: Option<f64>) -> Option<f64> {
        let figures = run.figures.as_ref()?;
        let time = |name: &str| figures.times_us.get(name).copied();
        let value = match self {
            Self::Throughput => Some(figures.throughput_per_s),
            Self::Goodput => Some(figures.goodput_per_s),
            Self::ErrorShare => Some(figures.error_share),
            Self::KeptUpShare => Some(figures.kept_up_share),
            Self::CpuPerRequest => cpu_us_per_request(run),
            Self::Utilisation => utilisation(run, cpus),
            Self::Memory => observed(run, &MEMORY),
            Self::MeanTime => time("mean"),
            Self::P50 => time("p50"),
            Self::P99 => time("p99"),
            Self::P999 => time("p99.9"),
            Self::Spread => figures.spread_points,
        };
        value.filter(|value| value.is_finite())
    }
}

/// What the server itself holds, shared pages counted once; else what is resident.
const MEMORY: [&str; 3] = ["memory_bytes", "proportional_bytes", "resident_bytes"];

fn observed(run: &Run, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| run.observed.get(*name).copied())
}

fn cpu_us_per_request(run: &Run) -> Option<f64> {
    let told = observed(run, &["cpu_us_per_request"]);
    told.or_else(|| {
        let replies = run.figures.as_ref()?.throughput_per_s * run.window_s;
        (replies > 0.0).then_some(observed(run, &["cpu_us"])? / replies)
    })
}

fn utilisation(run: &Run, cpus: Option<f64>) -> Option<f64> {
    let told = observed(run, &["cpu_utilisation"]);
    // What is observed begins before the window and ends after it; the rate is the window's.
    let rate = run.figures.as_ref()?.throughput_per_s;
    told.or_else(|| Some(cpu_us_per_request(run)? * rate / 1e6 / cpus?))
}
