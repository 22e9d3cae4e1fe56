//! The outcome of a run: its setting, its measurements, whether they can be trusted, and the
//! figures by which a run is judged. The module `report` shows them.

use serde::{Deserialize, Serialize};
use statistics::homogeneity_p_value;

use crate::measures::{FILE_KINDS, FileRow, Measures, OTHER, SINGLE};
use crate::void::{self, Void};

/// The exit status of a run without errors.
pub const EXIT_SUCCESS: u8 = 0;
/// The exit status of a run in which the target failed at least one request.
pub const EXIT_TARGET_ERRORS: u8 = 1;
/// The exit status where there was no run, and neither target nor generator is to blame.
pub const EXIT_FAILURE: u8 = 1;
/// The exit status of a run that says nothing about the target.
pub const EXIT_VOID: u8 = 3;
/// The exit status of an interrupted run, whose measurements are not the ones that were asked for.
pub const EXIT_INTERRUPTED: u8 = 4;

/// A kind of file with fewer requests is left out of the spread: a single timeout would be more
/// than 1 % of them.
pub const SPREAD_REQUESTS_MIN: u64 = 100;

/// The probability at which kinds of file that fare alike are taken for different.
const SPREAD_BY_CHANCE: f64 = 0.01;

/// A run of one generator, or of several merged.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Outcome {
    /// The setting of the run.
    pub setting: Setting,
    /// Length of the measured window, in microseconds.
    pub window_us: u64,
    /// When the window began, in microseconds since 1970.
    pub started_unix_us: u64,
    /// Length of an interval of the series, in microseconds.
    pub interval_us: u64,
    /// CPU time of the generator's threads within the window, in microseconds: user, system.
    #[serde(skip)] // two fields of a document: `report::json` reads them
    pub cpu_us: (u64, u64),
    /// How long the generator's threads were ready to run within the window while other threads ran
    /// on their CPUs, in microseconds; none where the kernel does not count it.
    pub run_delay_us: Option<u64>,
    /// How often the generator's threads waited for an event within the window, and were woken.
    #[serde(default)]
    pub wake_ups: u64,
    /// An upper bound on the processor time that processes other than generator and server used on
    /// the CPUs of the generator's threads within the window, in microseconds; none where that
    /// cannot be known.
    pub others_us: Option<u64>,
    /// What the server had of its own CPUs; none where it is not on this machine, may not be
    /// inspected, or was not inspected because the run is not judged by it.
    pub server_cpu: Option<ServerCpu>,
    /// The measurements.
    #[serde(skip)] // no field of its own in a document: `report::json` reads them
    pub measures: Measures,
    /// Why the run says nothing about the server; empty if it is valid.
    #[serde(rename = "void_reasons", default)]
    pub void: Vec<Void>,
    /// The first wrong reply: the request, the server, what was expected and what came.
    pub first_bad: Option<String>,
    /// The first reply that could not be parsed: the request, the server, and why.
    pub first_refused: Option<String>,
    /// Whether the run was interrupted.
    pub interrupted: bool,
}

/// The processor time and the waiting of a server on this machine within the window, in
/// microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ServerCpu {
    /// How long its threads were ready to run while other threads ran on their CPUs; none where
    /// that cannot be known, because threads have ended.
    pub run_delay_us: Option<u64>,
    /// An upper bound on the processor time that processes other than server and generator used on
    /// these CPUs, beyond what others use on any machine.
    pub others_us: u64,
    /// Processor time that the server used.
    pub used_us: u64,
}

impl ServerCpu {
    /// Of the time in which the server's threads wanted to run, an upper bound on the part in which
    /// processes other than the generator made them wait for a CPU, 0 to 1; none where that cannot
    /// be known.
    #[must_use]
    pub fn run_delay_share(&self) -> Option<f64> {
        Some(delayed_share(self.run_delay_us?, self.others_us, self.used_us))
    }

    /// The one of two measurements that shows more disturbance: generators may have measured the
    /// same server, and of two servers the one worse off decides.
    pub(crate) fn worse(self, other: Self) -> Self {
        let share = |one: &Self| one.run_delay_share().unwrap_or(-1.0);
        let order = share(&self).total_cmp(&share(&other)).then_with(|| self.cmp(&other));
        if order.is_lt() { other } else { self }
    }
}

/// Of the time in which threads wanted to run, the part in which others made them wait, 0 to 1. The
/// threads waited `waited_us` and ran `ran_us`, the others ran `others_us`. Threads wait for each
/// other too, so they waited for the others no longer than these ran.
#[must_use]
pub fn delayed_share(waited_us: u64, others_us: u64, ran_us: u64) -> f64 {
    let delayed_us = waited_us.min(others_us);
    share(delayed_us, delayed_us.saturating_add(ran_us))
}

/// The setting of a run, as far as a reader of the report needs it. Generators of one run agree in
/// all fields but `command`, `log`, `share`, `starts_apart_us`, `threads` and `descriptors_max`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Setting {
    /// The command line.
    pub command: String,
    /// The URLs of the servers.
    pub targets: Vec<String>,
    /// How sessions arrived.
    pub arrivals: Arrivals,
    /// Sessions per second offered: the schedule as typed; empty if the run is closed.
    pub rate: String,
    /// Connections of a closed run, of all generators.
    pub connections: Option<u64>,
    /// Connections, of all generators, that rest beside the load.
    pub idle: u64,
    /// Which requests share a connection: `session`, `request`, `keep`.
    pub connection_use: String,
    /// How replies are verified: `none`, `length`, `bytes`.
    pub verify: String,
    /// Whole-reply timeout in microseconds.
    pub timeout_us: u64,
    /// Connect timeout in microseconds.
    pub connect_timeout_us: u64,
    /// Latency target of goodput in microseconds.
    pub latency_target_us: Option<u64>,
    /// Length of the measured window as asked for, in microseconds; none: until all sessions have
    /// ended.
    pub duration_us: Option<u64>,
    /// Bound on the 99th percentile of the generator's own lag, in microseconds; none: half of the
    /// 99th percentile reported.
    pub lag_bound_us: Option<u64>,
    /// Of the time in which the threads of generator or server want to run, the largest part in
    /// which others may make them wait for a CPU, 0 to 1.
    pub run_delay_bound: f64,
    /// The seed of arrivals.
    pub seed: u64,
    /// The request log's path, as the generator with the first share knows it.
    pub log: Option<String>,
    /// Whether the log has requests with methods other than GET, whose replies are not verified.
    pub log_beyond_get: bool,
    /// A hash of all inputs in which generators of one run must agree and which have no field here:
    /// the requests of the log and their times, the fields sent, `--speed`, `--sessions` and the
    /// like.
    pub digest: String,
    /// The numbers of the generators whose outcomes are merged here, from 0, in ascending order.
    pub share: Vec<u32>,
    /// How many generators the run has; 0 means one.
    pub generators: u32,
    /// How much later the last of the merged generators began than the first, in microseconds.
    pub starts_apart_us: u64,
    /// Threads of all merged generators.
    pub threads: u32,
    /// The open-file limit that was in force, for hints; the lowest one of the merged generators.
    pub descriptors_max: u64,
}

/// How sessions come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Each client begins its next session when its last is over.
    #[default]
    Closed,
    /// Evenly spaced.
    Constant,
    /// Independently of each other.
    Poisson,
    /// At the times of a log.
    Trace,
}

/// How differently the kinds of file fared: fairness in one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The largest timeout percentage less the smallest, in percentage points.
    pub points: f64,
    /// The kind of file with the largest timeout percentage, and that percentage.
    pub largest: (usize, f64),
    /// The kind of file with the smallest timeout percentage, and that percentage.
    pub smallest: (usize, f64),
    /// How many kinds were compared.
    pub kinds: usize,
    /// How many kinds were requested, but fewer than [`SPREAD_REQUESTS_MIN`] times.
    pub left_out: usize,
    /// Whether chance explains the spread: kinds that fare alike may lie as far apart where some
    /// are rare.
    pub is_chance: bool,
}

impl Spread {
    /// The percentage points that count against a server: 0 where chance explains them.
    #[must_use]
    pub fn beyond_chance(&self) -> f64 {
        if self.is_chance { 0.0 } else { self.points }
    }
}

/// Whether chance may explain the differences between groups, each given by its failures and its
/// total.
#[must_use]
pub fn may_be_chance(groups: &[(u64, u64)]) -> bool {
    homogeneity_p_value(groups).is_none_or(|p| p >= SPREAD_BY_CHANCE)
}

impl Outcome {
    /// Merges the outcomes of the generators of one run. The result does not depend on their order.
    ///
    /// # Errors
    /// One line, if the outcomes are not of one run, or if a generator's share occurs twice.
    pub fn merge(outcomes: Vec<Self>) -> Result<Self, String> {
        crate::merge::merge(outcomes)
    }

    /// The numbers of the generators, from 0, whose outcomes are not merged here.
    #[must_use]
    pub fn missing_shares(&self) -> Vec<u32> {
        let share = &self.setting.share;
        // An outcome that names no share is a whole run.
        let of = if share.is_empty() { 0 } else { self.setting.generators };
        (0..of).filter(|index| !share.contains(index)).collect()
    }

    /// One line for each missing share, numbered from 1 as on the command line.
    pub fn incomplete(&self) -> impl Iterator<Item = String> + '_ {
        let of = self.setting.generators;
        let line = move |index| format!("incomplete: share {} of {of} is missing", index + 1);
        self.missing_shares().into_iter().map(line)
    }

    /// Requests whose fate is known: replies, errors, and requests that would have been due in the
    /// window but were never issued, because an earlier request of their session failed.
    #[must_use]
    pub fn requests_due(&self) -> u64 {
        let counts = &self.measures.counts;
        counts
            .replies
            .saturating_add(self.measures.errors.total())
            .saturating_add(counts.requests_abandoned)
    }

    /// The part of the requests due that got a good reply, 0 to 1; 0 if none was due.
    #[must_use]
    pub fn served_share(&self) -> f64 {
        share(self.measures.counts.replies, self.requests_due())
    }

    /// The part of the requests issued that failed, 0 to 1.
    #[must_use]
    pub fn error_share(&self) -> f64 {
        let errors = self.measures.errors.total();
        share(errors, self.measures.counts.replies.saturating_add(errors))
    }

    /// The part of the requests due that failed, 0 to 1.
    #[must_use]
    pub fn failed_share(&self) -> f64 {
        share(self.measures.errors.total(), self.requests_due())
    }

    /// The part of the good replies that came within the latency target, 0 to 1.
    #[must_use]
    pub fn in_time_share(&self) -> f64 {
        share(self.measures.counts.replies_in_time, self.measures.counts.replies)
    }

    /// When an interval of the series begins, from the window's begin, and how long it is, in
    /// microseconds. An interval ends with the window, whole or not, and later ones begin there.
    #[must_use]
    pub fn interval_span_us(&self, index: usize) -> (u64, u64) {
        let (index, interval_us) = (index as u64, self.interval_us.max(1));
        let within = self.window_us.div_ceil(interval_us);
        if index < within {
            let start_us = index * interval_us;
            return (start_us, interval_us.min(self.window_us - start_us));
        }
        (self.window_us + (index - within) * interval_us, interval_us)
    }

    /// Length of the measured window in seconds.
    #[must_use]
    pub fn window_s(&self) -> f64 {
        self.window_us as f64 / 1e6
    }

    /// Requests due each second.
    #[must_use]
    pub fn offered_rate(&self) -> f64 {
        self.per_second(self.requests_due())
    }

    /// Good replies each second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        self.per_second(self.measures.counts.replies_in_window)
    }

    /// Requests asked each second: the requests that would have been due, had every reply come at
    /// once; none where that is not known, as in closed runs.
    #[must_use]
    pub fn asked_rate(&self) -> Option<f64> {
        let asked = self.measures.backlog.asked_in_window();
        (asked > 0).then(|| self.per_second(asked))
    }

    /// The part of the requests asked in the window that the server kept up with, 0 to 1: a growing
    /// number of sessions under way counts against it, even if all of them are served in the end.
    #[must_use]
    pub fn kept_up_share(&self) -> f64 {
        // The counts of an interrupted run do not reach the end of the window.
        if self.interrupted || self.first_bad.is_some() {
            return 1.0;
        }
        let is_random = self.setting.arrivals != Arrivals::Constant;
        let sessions = self.measures.counts.sessions_due;
        let reply_us = self.measures.times.corrected.value_at_quantile(0.9);
        let reply_share = reply_us as f64 / self.window_us.max(1) as f64;
        1.0 - self.measures.backlog.share_left(sessions, is_random, reply_share)
    }

    /// Bytes of bodies per second, of the replies that throughput counts.
    #[must_use]
    pub fn body_rate(&self) -> f64 {
        self.per_second(self.measures.counts.body_bytes_in_window)
    }

    /// Good replies within the latency target each second; all good replies if there is none.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        // Without a target every reply is in time.
        self.throughput() * self.in_time_share()
    }

    /// Of the time in which the generator's threads wanted to run, an upper bound on the part in
    /// which processes other than the server made them wait for a CPU, 0 to 1; none where that
    /// cannot be known.
    #[must_use]
    pub fn run_delay_share(&self) -> Option<f64> {
        let ran_us = self.cpu_us.0.saturating_add(self.cpu_us.1);
        Some(delayed_share(self.run_delay_us?, self.others_us?, ran_us))
    }

    /// Whether the corrected time at a quantile is mostly the generator's own lateness.
    #[must_use]
    pub fn is_mostly_own_lag(&self, quantile: f64) -> bool {
        void::is_mostly_own(self, quantile)
    }

    /// `count` per second of the window.
    #[must_use]
    pub fn per_second(&self, count: u64) -> f64 {
        if self.window_us == 0 { 0.0 } else { count as f64 / self.window_s() }
    }

    /// How differently the kinds of file fared; none if no kind was requested often enough.
    #[must_use]
    pub fn fairness_spread(&self) -> Option<Spread> {
        let kinds = self.measures.files.iter().enumerate().filter(|(kind, _)| *kind != OTHER);
        spread(kinds.filter(|(_, row)| row.requests > 0))
    }

    /// The exit status: 0 for success, 1 if the target failed a request, 3 if the run says nothing
    /// about the target, 4 if the run was interrupted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.first_bad.is_some() {
            EXIT_TARGET_ERRORS
        } else if !self.void.is_empty() {
            EXIT_VOID
        } else if self.measures.errors.total() > 0 {
            EXIT_TARGET_ERRORS
        } else if self.interrupted {
            EXIT_INTERRUPTED
        } else {
            EXIT_SUCCESS
        }
    }
}

/// The name of a row of [`Measures::files`].
#[must_use]
pub fn file_kind_name(kind: usize) -> String {
    match kind {
        SINGLE => "single".into(),
        OTHER => "other".into(),
        _ => format!("class{}_{}", kind / 9, kind % 9),
    }
}

/// The name of a row of [`Measures::classes`].
#[must_use]
pub fn file_class_name(class: usize) -> String {
    match class {
        4 => "single".into(),
        5 => "other".into(),
        _ => format!("class{class}"),
    }
}

/// The row of [`Measures::files`] with that name.
#[must_use]
pub fn file_kind_of_name(name: &str) -> Option<usize> {
    (0..FILE_KINDS).find(|kind| file_kind_name(*kind) == name)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn spread<'m>(rows: impl Iterator<Item = (usize, &'m FileRow)>) -> Option<Spread> {
    let (mut compared, mut counts, mut left_out) = (Vec::new(), Vec::new(), 0);
    for (kind, row) in rows {
        if row.requests < SPREAD_REQUESTS_MIN {
            left_out += 1;
        } else {
            compared.push((kind, row.timeout_percent()));
            counts.push((row.timeouts, row.requests));
        }
    }
    // Of equal percentages the first kind is taken, so that equal numbers give equal words.
    let first = *compared.first()?;
    let (mut largest, mut smallest) = (first, first);
    for &candidate in &compared {
        if candidate.1 > largest.1 {
            largest = candidate;
        }
        if candidate.1 < smallest.1 {
            smallest = candidate;
        }
    }
    let points = largest.1 - smallest.1;
    let (kinds, is_chance) = (compared.len(), may_be_chance(&counts));
    Some(Spread { points, largest, smallest, kinds, left_out, is_chance })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_kind::ErrorKind;
    use crate::report::sample;

    #[test]
    fn rates_are_over_the_window() {
        let mut outcome = sample::empty();
        outcome.window_us = 2_000_000;
        outcome.measures.counts.replies = 90;
        outcome.measures.counts.replies_in_window = 88;
        outcome.measures.counts.replies_in_time = 45;
        outcome.measures.counts.requests_abandoned = 4;
        outcome.measures.errors.set(ErrorKind::Reset, 6);
        assert_eq!(outcome.requests_due(), 100);
        assert_eq!((outcome.served_share(), outcome.failed_share()), (0.9, 0.06));
        assert_eq!(outcome.error_share(), 0.0625);
        assert_eq!((outcome.offered_rate(), outcome.throughput()), (50.0, 44.0));
        assert_eq!((outcome.goodput(), outcome.in_time_share()), (22.0, 0.5));
    }

    #[test]
    fn an_interval_ends_with_the_window() {
        let mut outcome = sample::empty();
        (outcome.window_us, outcome.interval_us) = (2_500, 1_000);
        let spans: Vec<_> = (0..5).map(|index| outcome.interval_span_us(index)).collect();
        let expected = [(0, 1_000), (1_000, 1_000), (2_000, 500), (2_500, 1_000), (3_500, 1_000)];
        assert_eq!(spans, expected);
        outcome.window_us = 2_000;
        assert_eq!(outcome.interval_span_us(2), (2_000, 1_000));
    }

    #[test]
    fn a_run_in_which_nothing_happened_divides_by_nothing() {
        let mut outcome = sample::empty();
        outcome.window_us = 0;
        let figures = [
            outcome.served_share(),
            outcome.error_share(),
            outcome.failed_share(),
            outcome.in_time_share(),
            outcome.offered_rate(),
            outcome.throughput(),
        ];
        assert_eq!(figures, [0.0; 6]);
        assert_eq!(outcome.fairness_spread(), None);
    }

    #[test]
    fn the_exit_status_tells_success_errors_and_void() {
        let mut outcome = sample::empty();
        assert_eq!(outcome.exit_code(), 0);
        outcome.measures.errors.add(ErrorKind::BadStatus);
        assert_eq!(outcome.exit_code(), 1);
        outcome.void.push("late".into());
        assert_eq!(outcome.exit_code(), 3);
    }

    #[test]
    fn the_spread_compares_kinds_with_enough_requests() {
        let row = |requests, timeouts| FileRow { requests, timeouts, ..FileRow::default() };
        let mut outcome = sample::empty();
        let files = &mut outcome.measures.files;
        files[0] = row(1000, 10);
        files[1] = row(100, 0);
        files[35] = row(200, 7);
        files[34] = row(99, 99); // too few
        files[OTHER] = row(1000, 1000); // no kind of file
        let spread = outcome.fairness_spread().unwrap();
        assert_eq!((spread.points, spread.largest, spread.smallest), (3.5, (35, 3.5), (1, 0.0)));
        assert_eq!((spread.kinds, spread.left_out), (3, 1));
    }

    #[test]
    fn rare_kinds_that_differ_by_chance_are_not_held_against_a_server() {
        let beyond_chance = |rare_timeouts| {
            let row = |requests, timeouts| FileRow { requests, timeouts, ..FileRow::default() };
            let mut outcome = sample::empty();
            outcome.measures.files[0] = row(10_000, 400);
            outcome.measures.files[30] = row(100, rare_timeouts);
            outcome.fairness_spread().unwrap().beyond_chance()
        };
        assert_eq!((beyond_chance(0), beyond_chance(8), beyond_chance(30)), (0.0, 0.0, 26.0));
    }

    #[test]
    fn names_of_files_read_back() {
        for kind in 0..FILE_KINDS {
            assert_eq!(file_kind_of_name(&file_kind_name(kind)), Some(kind));
        }
        assert_eq!(file_kind_name(13), "class1_4");
    }
}
