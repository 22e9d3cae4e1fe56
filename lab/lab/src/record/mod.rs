//! What the lab writes down: one record for each run, and a header for all of them.
//!
//! A study, a tuning and a comparison are written in the same form, a [`Folder`] of JSON lines,
//! so that one report can show each of them. Nothing is measured or judged here. Names of
//! quantities end in their units.

mod claim;
mod folder;
mod folder_error;
mod participants;
mod purpose;
mod resume;
mod skipped;

pub use claim::{Claim, ClaimMeasure, ClaimSide};
pub use folder::{Folder, Opened};
pub use folder_error::FolderError;
pub use participants::Participants;
pub use purpose::Purpose;
pub use skipped::{Absent, Skipped};

use crate::observe::{Disturbed, interference_in};
use crate::template::Values;
use crate::void::Void;
use load::outcome::{Outcome, SPREAD_REQUESTS_MIN, file_kind_name, may_be_chance};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fmt, fs};
use xxhash_rust::xxh3::xxh3_128;

/// The `format` of every header.
pub const FORMAT: &str = "ropewalk-study";

/// The version that is written. It grows when a field that readers rely on changes its meaning or
/// goes; fields may be added without. In version 1 the reasons of void runs were texts, which is
/// enough for a report, but does not say whether a generator gave out: a search decides by that.
/// Before version 3 a testbed was called a domain, and before version 4 purposes were texts.
pub const VERSION: u32 = 4;

/// What was requested, once for a folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The command that made it.
    pub kind: Kind,
    /// Short, for file names.
    pub name: String,
    /// The title, for people.
    pub title: String,
    /// The paper and the figure or table that asked the question first; empty if none did.
    pub source: String,
    /// What is to be learned.
    pub question: String,
    /// What the source found, in a sentence; empty if unknown.
    pub expected: String,
    /// What of that can be judged by the figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
    /// The definition as it was read, TOML.
    pub definition: String,
    /// The servers that take part.
    pub servers: Vec<Server>,
    /// The servers and testbeds that should take part and do not.
    pub skipped: Vec<Skipped>,
    /// What clients request.
    pub workloads: Vec<Described>,
    /// Where servers run: processors, memory, network.
    #[serde(alias = "domains")]
    pub testbeds: Vec<Described>,
    /// What is to be measured, in a study of servers: a point without a valid run is missing.
    pub planned: Vec<Planned>,
    /// Whether servers are loaded together, within the same windows.
    pub together: bool,
    /// How often each point is to be measured.
    pub repetitions: u32,
    /// The confidence of intervals: 0.95.
    pub confidence: f64,
    /// A difference of two servers that counts as none, such as 0.02; 0 where any counts.
    pub margin: f64,
    /// Seconds that the runs were estimated to take in all.
    pub estimated_s: f64,
    /// Seconds that the runs may take; none: no bound.
    pub budget_s: Option<f64>,
    /// The seed of the order of the runs and of their arrivals.
    pub seed: u64,
    /// The server that does the least that any can do; empty if it is absent.
    pub floor: String,
    /// When the records were begun, in microseconds since 1970.
    pub started_unix_us: u64,
}

/// The command that made a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `ropewalk study`: curves.
    #[default]
    Study,
    /// `ropewalk tune`: the surface of one server's configurations.
    Tune,
    /// `ropewalk compare`: two servers.
    Compare,
    /// `ropewalk study` of the cache by itself: [`CacheRun`]s.
    Cache,
}

/// One measurement of the cache by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheRun {
    /// Its repetition, from 0: measurements of one block are pairs.
    pub block: u32,
    /// How often it had been void before.
    pub attempt: u32,
    /// What was measured.
    pub cell: crate::cache_study::Cell,
    /// Why the measurement says nothing about the cache; empty if it says something.
    pub void: Vec<Void>,
    /// The measured numbers.
    pub numbers: crate::cache_study::Numbers,
}

/// A server that takes part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// The name by which a [`Point`] refers to it.
    pub name: String,
    /// Its architecture in a line.
    pub description: String,
    /// Its version, as it reports it.
    pub version: String,
    /// The program that was started, of a server that the lab found itself: Ropewalk.
    #[serde(skip_serializing_if = "Program::is_unknown")]
    pub program: Program,
    /// Versions that the server had when the study was resumed, if others: `participants.jsonl` has
    /// them.
    #[serde(skip)]
    pub later_versions: Vec<String>,
    /// The configuration files of each setting that ran, by the setting's name.
    pub configurations: BTreeMap<String, String>,
}

impl Server {
    /// All its versions, in words.
    pub fn versions(&self) -> String {
        let first = self.version_and_program();
        let all = [&first].into_iter().chain(&self.later_versions);
        all.map(String::as_str).collect::<Vec<_>>().join(", then ")
    }

    /// Its version, with its program where that is known.
    fn version_and_program(&self) -> String {
        match self.program.is_unknown() {
            true => self.version.clone(),
            false => format!("{} ({})", self.version, self.program),
        }
    }
}

/// A program that servers were started from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Program {
    /// Its path.
    pub path: String,
    /// XXH3 of its file: 128 bits, in hexadecimal.
    pub xxh3: String,
}

impl Program {
    /// The program at a path; unknown if it cannot be read.
    pub fn read(path: &Path) -> Self {
        let Ok(bytes) = fs::read(path) else { return Self::default() };
        Self { path: path.display().to_string(), xxh3: format!("{:032x}", xxh3_128(&bytes)) }
    }

    /// Whether nothing is known of it.
    pub fn is_unknown(&self) -> bool {
        self.path.is_empty()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}, XXH3 {}", self.path, self.xxh3)
    }
}

/// A workload or a testbed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Described {
    /// The name by which a [`Point`] refers to it.
    pub name: String,
    /// Its description, a sentence.
    pub about: String,
    /// Numbers that describe it: `files`, `bytes`, `mean_body_bytes`, `requests_per_session`,
    /// `cpus`, `memory_bytes` and the like.
    pub numbers: BTreeMap<String, f64>,
}

/// A server that is to be measured with a workload in a testbed, named as in [`Point`]. The
/// definition says how much is offered there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Planned {
    /// The server's name.
    pub server: String,
    /// Its setting.
    pub setting: String,
    /// The workload's name.
    pub workload: String,
    /// The testbed's name.
    #[serde(alias = "domain")]
    pub testbed: String,
}

impl From<Point> for Planned {
    fn from(point: Point) -> Self {
        let Point { server, setting, workload, testbed, .. } = point;
        Self { server, setting, workload, testbed }
    }
}

/// Rates are equal if they differ by less than this part: their text may have been rounded when it
/// was read.
const ROUNDING: f64 = 1e-9;

/// What one run is to measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The server's name.
    pub server: String,
    /// The name of the choice of its knobs.
    pub setting: String,
    /// The knobs of the setting, all of them.
    #[serde(default)]
    pub knobs: Values,
    /// The workload's name.
    pub workload: String,
    /// The testbed's name.
    #[serde(alias = "domain")]
    pub testbed: String,
    /// How much is requested.
    pub offered: Offered,
}

impl Point {
    /// Whether two points are the same, though one of them may have been read from a file.
    pub fn is_same(&self, other: &Self) -> bool {
        self.offered.is_near(other.offered)
            && (&self.server, &self.setting, &self.knobs)
                == (&other.server, &other.setting, &other.knobs)
            && (&self.workload, &self.testbed) == (&other.workload, &other.testbed)
    }
}

/// How much is requested of a server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offered {
    /// Open or partly open: requests a second on average over sessions.
    RequestsPerS(f64),
    /// Closed: the number of clients, each of which waits for its reply.
    Connections(u64),
}

impl Offered {
    /// Requests a second, of an open load.
    pub fn requests_per_s(self) -> Option<f64> {
        match self {
            Self::RequestsPerS(rate) => Some(rate),
            Self::Connections(_) => None,
        }
    }

    fn is_near(self, other: Self) -> bool {
        match (self, other) {
            (Self::RequestsPerS(a), Self::RequestsPerS(b)) => (a - b).abs() <= ROUNDING * b.abs(),
            _ => self == other,
        }
    }
}

impl Default for Offered {
    fn default() -> Self {
        Self::Connections(1)
    }
}

/// One run, void or not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// The number of the run, counted from 1 within a folder.
    pub number: u64,
    /// What was to be measured.
    pub point: Point,
    /// The number of this repetition of its point, from 0: runs of one block follow each other
    /// closely, so that the runs of two servers in the same block are a pair.
    pub block: u32,
    /// How often this repetition had been void before.
    pub attempt: u32,
    /// What the run was for.
    #[serde(deserialize_with = "Purpose::from_record")]
    pub purpose: Purpose,
    /// The seed of the arrivals.
    pub seed: u64,
    /// When its window began, in microseconds since 1970.
    pub started_unix_us: u64,
    /// Seconds of load before the window.
    pub warm_up_s: f64,
    /// Seconds of the window.
    pub window_s: f64,
    /// Seconds that all of it took, the server's start and end included.
    pub took_s: f64,
    /// Why the run says nothing about the server, if it does not.
    pub void: Vec<Void>,
    /// What the clients observed; none if the load could not be run at all.
    pub figures: Option<Figures>,
    /// What was observed beside the clients, by name: see `docs/lab/testbeds.md`.
    pub observed: BTreeMap<String, f64>,
    /// What could not be observed, and why.
    pub not_available: Vec<String>,
    /// The file in the folder with the whole outcome of `ropewalk load`, histograms included.
    pub outcome_file: String,
}

impl Run {
    /// Processor time of the server for each request it served, in microseconds.
    pub fn cpu_us_per_request(&self) -> Option<f64> {
        let observed = |name: &str| self.observed.get(name).copied();
        observed("cpu_us_per_request").or_else(|| {
            let replies = self.figures.as_ref()?.throughput_per_s * self.window_s;
            (replies > 0.0).then_some(observed("cpu_us")? / replies)
        })
    }

    /// What other processes disturbed worst on the CPUs of the run, and how much of what it needed
    /// they took; none where that was not observed.
    pub fn interference(&self) -> Option<(Disturbed, f64)> {
        interference_in(&self.observed)
    }

    /// The part of this many processors that the server itself used, 0 to 1, without other programs
    /// on them.
    pub fn utilisation(&self, cpus: Option<f64>) -> Option<f64> {
        let observed = self.observed.get("cpu_utilisation").copied();
        // The observation begins before the window and ends after it; the rate is the window's.
        let rate = self.figures.as_ref()?.throughput_per_s;
        observed.or_else(|| Some(self.cpu_us_per_request()? * rate / 1e6 / cpus?))
    }
}

/// What the clients observed, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Requests due within the window.
    pub requests_due: u64,
    /// Requests due, a second.
    pub offered_per_s: f64,
    /// Good replies, a second.
    pub throughput_per_s: f64,
    /// Good replies within the latency target, a second.
    pub goodput_per_s: f64,
    /// Bytes of bodies, a second.
    pub body_bytes_per_s: f64,
    /// Part of the requests due that were served, 0 to 1.
    pub served_share: f64,
    /// Part of the requests due with which the server kept up, 0 to 1.
    pub kept_up_share: f64,
    /// Part of the requests issued that failed, 0 to 1.
    pub error_share: f64,
    /// Failed requests by kind, for the kinds that occurred.
    pub errors: BTreeMap<String, u64>,
    /// Response times from when a request should have been sent, by name: `mean`, `p50`, `p90`,
    /// `p95`, `p99`, `p99.9`, `max`; in microseconds. Empty if there was no good reply.
    pub times_us: BTreeMap<String, f64>,
    /// The names of the times above that are mostly the generator's own lag.
    pub mostly_own_lag: BTreeSet<String>,
    /// How far apart the timeouts of kinds of file lie, in percentage points.
    pub spread_points: Option<f64>,
    /// Requests issued and good replies by kind of file, for the kinds that were requested.
    pub served_by_kind: BTreeMap<String, (u64, u64)>,
    /// How late the generator itself was at the 99th percentile, in microseconds.
    pub lag_p99_us: f64,
    /// Processor time of the generator, microseconds a request served.
    pub client_cpu_us_per_request: f64,
    /// Connections that rested beside the load.
    pub idle_connections: u64,
    /// Connections that rested beside the load and that the server had closed at the end.
    pub idle_closed: u64,
    /// How busy the generator's threads were within the window, 0 to 1. A late generator makes a
    /// run void; in a closed run nothing is ever late, and this figure alone shows whether the
    /// generator was the limit.
    pub client_busy_share: f64,
}

impl Figures {
    /// How far apart the timeouts of kinds of file lie, in percentage points, as far as it counts
    /// against a server: 0 where kinds that are all served alike may well lie as far apart.
    pub fn unfair_points(&self) -> Option<f64> {
        let is_known = !self.served_by_kind.is_empty();
        self.spread_points.map(|points| if is_known && self.fares_alike() { 0.0 } else { points })
    }

    /// Whether all kinds of file that were requested often are served alike, but for chance.
    pub fn fares_alike(&self) -> bool {
        fare_alike(&self.served_by_kind)
    }
}

/// Whether all kinds of file that were requested often are served alike, but for chance; each kind
/// has the requests issued and the good replies.
pub(crate) fn fare_alike(served_by_kind: &BTreeMap<String, (u64, u64)>) -> bool {
    let often = served_by_kind.values().filter(|kind| kind.0 >= SPREAD_REQUESTS_MIN);
    let failed = often.map(|&(requests, replies)| (requests.saturating_sub(replies), requests));
    may_be_chance(&failed.collect::<Vec<_>>())
}

/// A generator that is busier than this in a closed run was the limit, or nearly so. In an open run
/// it says nothing: the generator waits awake so as not to be late.
pub const CLIENT_BUSY_MAX: f64 = 0.95;

impl Figures {
    /// The figures of an outcome.
    pub fn from_outcome(outcome: &Outcome) -> Self {
        let measures = &outcome.measures;
        let times = &measures.times;
        let errors = measures.errors.iter().filter(|&(_, count)| count > 0);
        let (user_us, system_us) = outcome.cpu_us;
        let served = measures.counts.replies_in_window.max(1) as f64;
        Self {
            requests_due: outcome.requests_due(),
            offered_per_s: outcome.offered_rate(),
            throughput_per_s: outcome.throughput(),
            goodput_per_s: outcome.goodput(),
            body_bytes_per_s: outcome.body_rate(),
            served_share: outcome.served_share(),
            kept_up_share: outcome.kept_up_share(),
            error_share: outcome.error_share(),
            errors: errors.map(|(kind, count)| (kind.name().to_owned(), count)).collect(),
            times_us: quantiles(&times.corrected),
            mostly_own_lag: mostly_own_lag(outcome),
            spread_points: outcome.fairness_spread().map(|spread| spread.points),
            served_by_kind: served_by_kind(outcome),
            lag_p99_us: times.lag.value_at_quantile(0.99) as f64,
            client_cpu_us_per_request: (user_us + system_us) as f64 / served,
            idle_connections: measures.counts.idle_connections,
            idle_closed: measures.counts.idle_closed,
            client_busy_share: (user_us + system_us) as f64
                / (outcome.window_us.max(1) * u64::from(outcome.setting.threads.max(1))) as f64,
        }
    }
}

fn served_by_kind(outcome: &Outcome) -> BTreeMap<String, (u64, u64)> {
    let rows = outcome.measures.files.iter().enumerate().filter(|(_, row)| row.requests > 0);
    rows.map(|(kind, row)| (file_kind_name(kind), (row.requests, row.replies))).collect()
}

fn quantiles(times: &hdrhistogram::Histogram<u64>) -> BTreeMap<String, f64> {
    if times.is_empty() {
        return BTreeMap::new();
    }
    let at = |(name, share): (&str, f64)| (name.to_owned(), times.value_at_quantile(share) as f64);
    let mean = ("mean".to_owned(), times.mean());
    QUANTILES.into_iter().map(at).chain([mean]).collect()
}

fn mostly_own_lag(outcome: &Outcome) -> BTreeSet<String> {
    let own = QUANTILES.into_iter().filter(|(_, share)| outcome.is_mostly_own_lag(*share));
    own.map(|(name, _)| name.to_owned()).collect()
}

/// The quantiles of response times that are recorded.
const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The result of a search for the highest rate: the maximum achievable throughput (MAT).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Search {
    /// What the runs that it consists of were for.
    #[serde(deserialize_with = "Purpose::from_record")]
    pub purpose: Purpose,
    /// The block of the runs that it consists of, see [`Run::block`].
    pub block: u32,
    /// The server's name.
    pub server: String,
    /// The setting's name.
    pub setting: String,
    /// The workload's name.
    pub workload: String,
    /// The testbed's name.
    #[serde(alias = "domain")]
    pub testbed: String,
    /// The conditions under which a rate counts as held, as typed.
    pub conditions: String,
    /// The highest rate that was held, requests a second; 0 if none was.
    pub held_per_s: f64,
    /// The lowest rate above it that was not held; none if all were held.
    pub broke_per_s: Option<f64>,
    /// The conditions that broke there, worst first; why the server did not start, if it never did.
    pub broken: Vec<String>,
    /// Throughput at the held rate, of each trial that held.
    pub throughputs_per_s: Vec<f64>,
    /// Whether the generator, not the server, was the limit.
    pub generator_bound: bool,
}

impl Search {
    /// Why no higher rate was held, in a line: what broke first, or why nothing could be judged.
    pub fn reason(&self) -> &str {
        let broke_first = self.broken.first().and_then(|why| why.lines().next());
        broke_first.unwrap_or("every run was void")
    }

    /// Whether a higher rate than the held one may be sustained: the generator gave out, or nothing
    /// broke.
    pub fn is_bound(&self) -> bool {
        self.generator_bound || self.broke_per_s.is_none()
    }

    /// Where the limit is: what held, if that is a lower bound; 0 if every rate broke. None if
    /// nothing held and the server is not certain to be the cause.
    pub fn limit_per_s(&self) -> Option<f64> {
        match (self.held_per_s, self.broke_per_s) {
            (held, _) if self.is_bound() => (held > 0.0).then_some(held),
            (held, broke) => Some((held * broke?).sqrt()),
        }
    }
}

/// The result of a tuning, once it is at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tuning {
    /// The name of the setting that won.
    pub winner: String,
    /// The settings that the winner raced with last, the best first.
    pub rivals: Vec<Rival>,
}

impl Tuning {
    /// Whether the winner is better than, or tied with, all that raced with it last: otherwise it
    /// is not known which is best.
    pub fn is_decided(&self) -> bool {
        self.rivals.iter().all(|rival| rival.outcome != RaceOutcome::Open)
    }
}

/// A setting that the winner of a tuning raced with last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rival {
    /// The setting's name.
    pub setting: String,
    /// How the winner did against it.
    pub outcome: RaceOutcome,
}

/// How the winner of a tuning did against a setting that raced with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RaceOutcome {
    /// The winner sustains more.
    Better,
    /// The winner sustains less; it won because the setting that was ahead of it turned out unfair.
    Worse,
    /// The winner and its rival differ by less than matters.
    Tie,
    /// The difference is not clear.
    #[default]
    Open,
}

/// The path's own ceiling between the hosts, measured beside the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Bulk throughput of one long transfer per client, bytes a second.
    pub bytes_per_s: f64,
    /// Requests of one byte, answered by a server that parses nothing, a second.
    pub requests_per_s: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a kind that is requested rarely a few more or fewer fail by chance.
    #[test]
    fn chance_is_not_held_against_a_server() {
        let unfair_points = |kinds: &[(&str, (u64, u64))]| {
            let kinds = kinds.iter().map(|&(name, counts)| (name.to_owned(), counts));
            let spread_points = Some(6.0);
            let served_by_kind = kinds.collect();
            Figures { spread_points, served_by_kind, ..Figures::default() }.unfair_points()
        };
        let often = ("class0_1", (10_000, 9600));
        assert_eq!(unfair_points(&[often, ("class3_8", (110, 99))]), Some(0.0));
        assert_eq!(unfair_points(&[often, ("class3_8", (110, 60))]), Some(6.0));
        assert_eq!(
            unfair_points(&[often, ("class3_8", (40, 0))]),
            Some(0.0),
            "requested too rarely"
        );
        assert_eq!(unfair_points(&[]), Some(6.0), "nothing more is known");
    }
}
