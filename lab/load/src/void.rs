//! Reasons why a run says nothing about the server. Programs decide by the variant; people read its
//! `Display`.

use serde::{Deserialize, Serialize};

use crate::error_kind::ErrorKind;
use crate::measures::Times;
use crate::outcome::Outcome;

/// Lateness at the 99th percentile that makes no run void by itself. A thread that wakes up on a
/// CPU where another is running may have to wait for the rest of that one's slice, 3 ms on two to
/// four CPUs (the kernel's `base_slice_ns`), and that happens on machines that are not overloaded.
const LAG_ALLOWED_US: u64 = 4_000;

/// The part of a reported time that may be the generator's own lateness: a time that is mostly
/// lateness says more about the generator than about the server.
const OWN_PART_MAX: f64 = 0.5;

/// Of the time in which the threads of generator or server want to run, the largest part in which
/// others may make them wait for a CPU. A machine's own activity is a few hundredths, all of which
/// is counted as waiting, which it need not have caused; more than a quarter is another program's
/// work.
pub const RUN_DELAY_MAX: f64 = 0.25;

/// The part of CPUs that others use on any machine: the kernel's own threads and daemons. A
/// server's waiting for that much does not count, although for a server that seldom runs it may be
/// half of the time that it wants to run.
pub const OTHERS_ANYWHERE: f64 = 0.01;

/// Waiting for less than this part of the window does not make a run void: a thread that sleeps
/// most of the time waits a little whenever it wakes, and the lag shows how late that made it.
const RUN_DELAY_MIN: f64 = 0.02;

/// Bounds beyond which a run that is otherwise valid is void.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The bound on the generator's own lag at the 99th percentile, in microseconds; none: half of
    /// the 99th percentile that is reported, and never less than 4 ms.
    pub lag_us: Option<u64>,
    /// Of the time in which the threads of generator or server want to run, the largest part in
    /// which others may make them wait for a CPU, 0 to 1.
    pub run_delay_share: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { lag_us: None, run_delay_share: RUN_DELAY_MAX }
    }
}

/// A reason why a run is void.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Void {
    /// The generator's own lag exceeds the bound; in microseconds.
    #[error(
        "generator saturated: its own lag is {:.3} ms at the 99th percentile, more than the {:.3} \
         ms allowed",
        ms(*.p99_us),
        ms(*.bound_us)
    )]
    Late {
        /// Its 99th percentile.
        p99_us: u64,
        /// The bound.
        bound_us: u64,
    },
    /// The generator was kept from its CPUs.
    #[error(
        "interference: other processes made the generator's threads wait for a CPU for \
         {waited_percent} % of the time in which they wanted to run, more than the \
         {bound_percent} % allowed"
    )]
    Starved {
        /// Of the time in which its threads wanted to run, the part in which others made them wait,
        /// in percent.
        waited_percent: u32,
        /// The bound.
        bound_percent: u32,
    },
    /// A server on this machine was kept from its CPUs.
    #[error(
        "interference: other processes made the server's threads wait for a CPU for \
         {waited_percent} % of the time in which they wanted to run, more than the \
         {bound_percent} % allowed"
    )]
    ServerStarved {
        /// Of the time in which its threads wanted to run, the part in which others made them wait,
        /// in percent.
        waited_percent: u32,
        /// The bound.
        bound_percent: u32,
    },
    /// The generator was so late that requests were given up when the run had to end.
    #[error(
        "generator saturated: {requests} requests or more were so late that they were given up"
    )]
    Overdue {
        /// A lower bound on the number of such requests.
        requests: u64,
    },
    /// A condition breaks by a time that is mostly the generator's own lag: whether the server
    /// keeps it is not known.
    #[error(
        "generator saturated: a condition breaks by the {:.3} ms at the {}th percentile, which are \
         mostly its own lag",
        ms(*.reported_us),
        f64::from(*.thousandths) / 1000.0
    )]
    OwnLag {
        /// The percentile, in thousandths of a percent.
        thousandths: u32,
        /// The time that is reported there, in microseconds.
        reported_us: u64,
    },
    /// The generator itself failed requests: it had no port or no descriptor left.
    #[error("the generator itself failed: {kind}, {times} times")]
    Failed {
        /// The error, which names what the generator lacked.
        kind: ErrorKind,
        /// How often the error occurred.
        times: u64,
    },
    /// No request was due within the measured window.
    #[error("no request was due within the measured window")]
    NothingDue,
    /// A reason in words, from a document written before reasons had variants.
    #[serde(untagged)]
    #[error("{0}")]
    Other(String),
}

impl Void {
    /// Whether the generator itself gave out.
    #[must_use]
    pub fn is_of_generator(&self) -> bool {
        match self {
            Self::Late { .. }
            | Self::Overdue { .. }
            | Self::OwnLag { .. }
            | Self::Failed { .. } => true,
            Self::Starved { .. }
            | Self::ServerStarved { .. }
            | Self::NothingDue
            | Self::Other(_) => false,
        }
    }

    /// Whether other processes were in the way of generator or server: a repetition of the run may
    /// be valid a moment later.
    #[must_use]
    pub fn is_interference(&self) -> bool {
        matches!(self, Self::Starved { .. } | Self::ServerStarved { .. })
    }

    /// This reason without its numbers, for comparing kinds of reasons.
    #[must_use]
    pub fn kind(&self) -> Self {
        match self {
            Self::Late { .. } => Self::Late { p99_us: 0, bound_us: 0 },
            Self::Starved { .. } => Self::Starved { waited_percent: 0, bound_percent: 0 },
            Self::ServerStarved { .. } => {
                Self::ServerStarved { waited_percent: 0, bound_percent: 0 }
            }
            Self::Overdue { .. } => Self::Overdue { requests: 0 },
            Self::OwnLag { thousandths, .. } => {
                Self::OwnLag { thousandths: *thousandths, reported_us: 0 }
            }
            Self::Failed { kind, .. } => Self::Failed { kind: *kind, times: 0 },
            Self::NothingDue => Self::NothingDue,
            Self::Other(words) => Self::Other(words.clone()),
        }
    }
}

/// The reasons why `outcome` says nothing about the server; empty if it is valid.
pub(crate) fn reasons(outcome: &Outcome, bounds: Bounds) -> Vec<Void> {
    let (measures, mut reasons) = (&outcome.measures, Vec::new());
    reasons.extend(late(outcome, bounds));
    reasons.extend(starved(generator_delay(outcome), bounds, |waited_percent, bound_percent| {
        Void::Starved { waited_percent, bound_percent }
    }));
    reasons.extend(starved(server_delay(outcome), bounds, |waited_percent, bound_percent| {
        Void::ServerStarved { waited_percent, bound_percent }
    }));
    if measures.counts.requests_overdue > 0 {
        reasons.push(Void::Overdue { requests: measures.counts.requests_overdue });
    }
    let own = |kind: &ErrorKind| kind.is_own() && measures.errors.get(*kind) > 0;
    for kind in ErrorKind::ALL.into_iter().filter(own) {
        reasons.push(Void::Failed { kind, times: measures.errors.get(kind) });
    }
    if measures.counts.requests == 0 && measures.errors.total() == 0 && !outcome.interrupted {
        reasons.push(Void::NothingDue);
    }
    reasons
}

fn late(outcome: &Outcome, bounds: Bounds) -> Option<Void> {
    let (p99_us, bound_us) = judged_lag_us(outcome, bounds.lag_us);
    (p99_us > bound_us).then_some(Void::Late { p99_us, bound_us })
}

/// The generator's lag at the 99th percentile, and the bound on it, in microseconds. A bound that
/// the user typed applies to the lag of all events that can be late; otherwise the lag is the part
/// of it in the reported 99th percentile, and the bound depends on that percentile.
pub(crate) fn judged_lag_us(outcome: &Outcome, typed_us: Option<u64>) -> (u64, u64) {
    let Times { corrected, lag, .. } = &outcome.measures.times;
    match typed_us {
        Some(bound_us) => (lag.value_at_quantile(0.99), bound_us),
        None => {
            let reported_us = corrected.value_at_quantile(0.99) as f64;
            (own_part_us(outcome, 0.99), ((reported_us * OWN_PART_MAX) as u64).max(LAG_ALLOWED_US))
        }
    }
}

/// An upper bound on how much of the reported time at `quantile` is the generator's own lateness.
/// Requests within a session have no intended time and are never late, so the times above the
/// quantile of all are a larger part of the times that can be late.
fn own_part_us(outcome: &Outcome, quantile: f64) -> u64 {
    let Times { corrected, lag, .. } = &outcome.measures.times;
    let can_be_late = (lag.len() as f64 / corrected.len().max(1) as f64).min(1.0);
    let of_these = 1.0 - (1.0 - quantile) / can_be_late;
    if of_these < 0.0 || lag.is_empty() { 0 } else { lag.value_at_quantile(of_these) }
}

/// Of the time in which the generator wanted to run, the part in which it waited for others; none
/// if that was too little of the window to affect requests.
pub(crate) fn generator_delay(outcome: &Outcome) -> Option<f64> {
    let waited_us = outcome.run_delay_us?.min(outcome.others_us?);
    outcome.run_delay_share().filter(|_| is_noticed(waited_us, outcome))
}

/// Of the time in which a server on this machine wanted to run, the part in which it waited for
/// others; none if that was too little of the window to affect requests.
pub(crate) fn server_delay(outcome: &Outcome) -> Option<f64> {
    let had = outcome.server_cpu?;
    let waited_us = had.run_delay_us?.min(had.others_us);
    had.run_delay_share().filter(|_| is_noticed(waited_us, outcome))
}

/// How many of the server's CPUs others used, where it is not known how long the server waited for
/// them and that may have affected requests.
pub(crate) fn server_cpus_in_use(outcome: &Outcome) -> Option<f64> {
    let others_us = outcome.server_cpu.filter(|had| had.run_delay_us.is_none())?.others_us;
    let is_told = is_noticed(others_us, outcome);
    is_told.then(|| others_us as f64 / outcome.window_us.max(1) as f64)
}

fn is_noticed(waited_us: u64, outcome: &Outcome) -> bool {
    waited_us as f64 > RUN_DELAY_MIN * outcome.window_us as f64
}

fn starved(delay: Option<f64>, bounds: Bounds, void: fn(u32, u32) -> Void) -> Option<Void> {
    let bound = bounds.run_delay_share;
    let percent = |share: f64| (share * 100.0).round() as u32;
    delay.filter(|share| *share > bound).map(|share| void(percent(share), percent(bound)))
}

/// Whether the reported time at `quantile` is mostly the generator's own lateness.
pub(crate) fn is_mostly_own(outcome: &Outcome, quantile: f64) -> bool {
    let corrected = &outcome.measures.times.corrected;
    let reported_us = corrected.value_at_quantile(quantile) as f64;
    !corrected.is_empty() && own_part_us(outcome, quantile) as f64 > reported_us * OWN_PART_MAX
}

fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

#[cfg(test)]
impl From<&str> for Void {
    fn from(words: &str) -> Self {
        Self::Other(words.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::ServerCpu;
    use crate::report::sample;

    fn with(corrected_us: u64, lag_us: u64) -> Outcome {
        let mut outcome = sample::empty();
        outcome.measures.counts.requests = 100;
        outcome.measures.times.corrected.record_n(corrected_us, 100).unwrap();
        outcome.measures.times.lag.record_n(lag_us, 100).unwrap();
        outcome
    }

    #[track_caller]
    fn check_late(corrected_us: u64, lag_us: u64, bound_us: Option<u64>, expected: bool) {
        let bounds = Bounds { lag_us: bound_us, ..Bounds::default() };
        let reasons = reasons(&with(corrected_us, lag_us), bounds);
        let is_late = matches!(reasons[..], [Void::Late { .. }]);
        assert_eq!((is_late, reasons.is_empty()), (expected, !expected), "{reasons:?}");
    }

    /// A lag of half the reported time is too much, however short that is; the same lag is
    /// negligible beside the times of an overloaded server.
    #[test]
    fn lag_is_judged_by_what_is_reported() {
        check_late(13_400, 8_100, None, true);
        check_late(13_400, 6_000, None, false);
        check_late(2_000_000, 12_000, None, false);
        check_late(2_000_000, 1_100_000, None, true);
        // Less than a slice of the scheduler.
        check_late(300, 250, None, false);
        check_late(5_000, 3_900, None, false);
        // A typed bound applies.
        check_late(13_400, 8_100, Some(10_000), false);
        check_late(2_000_000, 12_000, Some(10_000), true);
    }

    /// Only the first of five requests can be late: the lag that one in a hundred of all requests
    /// exceeds is exceeded by one in twenty of these.
    #[test]
    fn lag_of_some_is_no_lag_of_all() {
        let of = |late_of_first: u64, bound_us: Option<u64>| {
            let mut outcome = sample::empty();
            outcome.measures.counts.requests = 500;
            outcome.measures.times.corrected.record_n(9_000, 500).unwrap();
            outcome.measures.times.lag.record_n(10, 100 - late_of_first).unwrap();
            outcome.measures.times.lag.record_n(8_000, late_of_first).unwrap();
            reasons(&outcome, Bounds { lag_us: bound_us, ..Bounds::default() })
        };
        assert_eq!(of(3, None), []);
        assert!(matches!(of(8, None)[..], [Void::Late { p99_us: 8_000.., .. }]));
        assert!(matches!(of(3, Some(5_000))[..], [Void::Late { p99_us: 8_000.., .. }]), "typed");
    }

    #[test]
    fn times_that_are_mostly_the_generators_own_are_known() {
        let mut outcome = with(13_400, 8_100);
        assert!(is_mostly_own(&outcome, 0.99) && is_mostly_own(&outcome, 0.5));
        assert!(!is_mostly_own(&with(13_400, 6_000), 0.99));
        // Of ten requests nine have no intended time: the 99th percentile of all is the 90th of the
        // requests that can be late.
        outcome.measures.times.corrected.record_n(1_000, 900).unwrap();
        assert!(is_mostly_own(&outcome, 0.99) && !is_mostly_own(&outcome, 0.5));
        assert!(!is_mostly_own(&sample::empty(), 0.99));
    }

    #[test]
    fn a_generator_that_waited_for_cpus_was_starved() {
        let of = |run_delay_us, bound| {
            let mut outcome = with(1_000, 10);
            (outcome.cpu_us, outcome.run_delay_us) = ((200_000, 200_000), run_delay_us);
            outcome.others_us = Some(600_000);
            reasons(&outcome, Bounds { run_delay_share: bound, ..Bounds::default() })
        };
        let starved = Void::Starved { waited_percent: 60, bound_percent: 50 };
        assert_eq!(of(Some(600_000), 0.5), [starved]);
        assert_eq!(of(Some(300_000), 0.5), []);
        assert_eq!(of(Some(300_000), 0.1).len(), 1);
        assert_eq!(of(None, 0.1), [], "the kernel does not say");
        // The generator waited for the server, and others used next to nothing.
        let mut beside_a_server = with(1_000, 10);
        beside_a_server.cpu_us = (400_000, 0);
        (beside_a_server.run_delay_us, beside_a_server.others_us) = (Some(600_000), Some(30_000));
        assert_eq!(reasons(&beside_a_server, Bounds::default()), []);
        // The generator wanted to run for a hundredth of the window.
        let mut idle = with(1_000, 10);
        idle.cpu_us = (5_000, 5_000);
        (idle.run_delay_us, idle.others_us) = (Some(15_000), Some(900_000));
        assert_eq!(reasons(&idle, Bounds::default()), []);
    }

    #[test]
    fn a_server_that_waited_for_cpus_was_starved() {
        let of = |run_delay_us, others_us, bound| {
            let mut outcome = with(1_000, 10);
            outcome.server_cpu = Some(ServerCpu { run_delay_us, others_us, used_us: 400_000 });
            let reasons = reasons(&outcome, Bounds { run_delay_share: bound, ..Bounds::default() });
            (reasons, server_delay(&outcome), server_cpus_in_use(&outcome))
        };
        let starved = Void::ServerStarved { waited_percent: 60, bound_percent: 25 };
        assert!(starved.is_interference() && !starved.is_of_generator());
        assert_eq!(of(Some(600_000), 700_000, 0.25), (vec![starved], Some(0.6), None));
        assert_eq!(
            of(Some(600_000), 700_000, 0.7),
            (vec![], Some(0.6), None),
            "the share is reported"
        );
        // The server waited for the generator, or its threads for each other.
        assert_eq!(of(Some(600_000), 20_000, 0.25), (vec![], None, None));
        assert_eq!(of(Some(15_000), 700_000, 0.0), (vec![], None, None), "next to nothing");
        assert_eq!(
            of(None, 700_000, 0.25),
            (vec![], None, Some(0.7)),
            "the server's waiting is not known"
        );
        assert_eq!(of(None, 15_000, 0.25), (vec![], None, None));
    }
}
