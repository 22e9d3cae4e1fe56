//! The outcome of a run: what was asked for, what was measured, whether it can be trusted.

use crate::measures::Measures;

/// A run of one generator, or of several merged.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the run was.
    pub setting: Setting,
    /// Length of the measured window, in microseconds.
    pub window_us: u64,
    /// When the window began, in microseconds since 1970.
    pub started_unix_us: u64,
    /// Length of an interval of the series, in microseconds.
    pub interval_us: u64,
    /// CPU time of the generator over the whole run, in microseconds: user, system.
    pub cpu_us: (u64, u64),
    /// What was measured.
    pub measures: Measures,
    /// Why the run says nothing about the server, if so: one line each.
    pub void: Vec<String>,
    /// The first wrong reply: what, where, expected and got.
    pub first_bad: Option<String>,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// What a run was, as far as its reader needs it. Generators of one run agree in all of it but
/// `command`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// The command line.
    pub command: String,
    /// Where to.
    pub targets: Vec<String>,
    /// `closed`, `constant`, `poisson`, `trace`.
    pub arrivals: String,
    /// Sessions per second offered, by the schedule as typed; empty if closed.
    pub rate: String,
    /// Connections of a closed run, of all generators.
    pub connections: Option<u64>,
    /// How the requests are made: `session`, `request`, `keep`.
    pub connection_use: String,
    /// `none`, `length`, `bytes`.
    pub verify: String,
    /// Whole-reply timeout in microseconds.
    pub timeout_us: u64,
    /// Connect timeout in microseconds.
    pub connect_timeout_us: u64,
    /// Latency target of goodput in microseconds.
    pub latency_target_us: Option<u64>,
    /// Bound on the 99th percentile of the generator's own lag, in microseconds.
    pub lag_bound_us: u64,
    /// The seed of arrivals.
    pub seed: u64,
    /// The request log's path.
    pub log: Option<String>,
    /// How many generators the run has and which ones this outcome holds.
    pub share: Vec<u32>,
    /// How many generators the run has.
    pub generators: u32,
    /// Threads, of all generators held.
    pub threads: u32,
    /// The open-file limit that was in force, for hints.
    pub descriptors_max: u64,
}
