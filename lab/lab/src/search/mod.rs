//! Searches for the highest rate that a server sustains (`mat`), and for the configuration that
//! sustains the most (`grid`, `blocks`, `tune`).
//!
//! Nothing here starts or measures a server: that is the part of a [`Measure`], which may be a
//! simulation. Given the same seed and the same observations, a search requests the same runs; so a
//! search that was interrupted is resumed by giving it the recorded observations again
//! ([`Recorder`]).

mod blocks;
mod grid;
mod mat;
mod recorder;
mod results;
#[cfg(test)]
pub(crate) mod simulated;
mod subject;
mod tune;
mod workbench;

pub use blocks::{Blocks, CandidateState, Progress, Runs};
pub use grid::{Dimension, Grid};
pub use mat::{Found, LimitParameters, LimitSearch, lead_for, mat};
pub use recorder::{Context, Live, Measured, Recorder};
pub use results::{conclude, surface, tuning};
pub use subject::{Subject, Wanted, Written};
pub(crate) use tune::FREE_CPUS;
pub use tune::{Certainty, Method, Plan, Rival, Tuned, tune};
pub use workbench::{WARM_UPS, Workbench, setting_of};

use crate::record::{Figures, Purpose};
use crate::template::Values;
use crate::void::Void;
use load::find_limit::{Conditions, Judged, Kept, Violation};
use std::fmt;

/// A kind of file counts in judging fairness once it was requested this often.
const KIND_REQUESTS_MIN: u64 = load::outcome::SPREAD_REQUESTS_MIN;

/// The quantiles that [`Figures`] have, by name: no other quantile can be a condition here.
const QUANTILES: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99.9")];

/// A configuration that might be the best.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Candidate {
    /// What reports call it.
    pub name: String,
    /// All its knobs.
    pub knobs: Values,
}

/// One run that a search wants.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRequest {
    /// Requests a second.
    pub rate: f64,
    /// The search that it is for.
    pub purpose: Purpose,
    /// Its block: candidates in the same block are measured alternately.
    pub block: u32,
    /// How often this rate had been void before, in this search.
    pub attempt: u32,
    /// The seed of the arrivals.
    pub seed: u64,
    /// Whether sessions are to be evenly spaced.
    pub is_even: bool,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// What clients observed; none if there was no load.
    pub figures: Option<Figures>,
    /// Why the run says nothing, if it does not.
    pub void: Vec<Void>,
    /// Seconds that the run took, the server's start and end included.
    pub took_s: f64,
}

/// Why a search ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The user asked for it.
    Interrupted,
    /// No run can be made or written down now, whatever is measured, and why: once the cause is
    /// fixed the search can go on.
    Unable(String),
    /// The search cannot go on, and why.
    Failed(String),
}

/// The message of a search or a study that can go on once the cause of its end is fixed.
pub fn unable(why: &str) -> String {
    format!("no more runs can be made: {why}: fix that, then continue with --resume")
}

/// Makes the runs of a search.
pub trait Measure {
    /// Makes one run of a candidate.
    ///
    /// # Errors
    /// When the search is to end.
    fn measure(&mut self, candidate: &Candidate, request: &RunRequest)
    -> Result<Observation, Stop>;

    /// Receives what a search of a candidate's limit has found.
    ///
    /// # Errors
    /// When the search is to end.
    fn limit_found(&mut self, _candidate: &Candidate, _found: &Found) -> Result<(), Stop> {
        Ok(())
    }
}

/// Whether a run held, and the conditions that it broke. A server that ended, or served something
/// wrong, had to serve more than it sustains; other reasons for a void run say nothing about it. A
/// run that broke conditions by the generator's own lag only is void, too, and has them.
pub fn judge(conditions: &Conditions, observation: &Observation) -> (Judged, Vec<Breach>) {
    let faults = faults(observation);
    if !faults.is_empty() {
        return (Judged::Broke, faults);
    }
    let Some(figures) = observation.figures.as_ref().filter(|_| observation.void.is_empty()) else {
        return (Judged::Void, Vec::new());
    };
    let (of_lag, broken): (Vec<_>, Vec<_>) =
        violations(conditions, figures).into_iter().partition(|violation| violation.is_own_lag);
    let (judged, violations) = match (broken.is_empty(), of_lag.is_empty()) {
        (false, _) => (Judged::Broke, broken),
        (true, false) => (Judged::Void, of_lag),
        (true, true) => (Judged::Held, Vec::new()),
    };
    (judged, violations.into_iter().map(Breach::Condition).collect())
}

/// By what a run is judged to have broken.
#[derive(Clone, Debug, PartialEq)]
pub enum Breach {
    /// A condition that broke.
    Condition(Violation),
    /// What the server did, which breaks any conditions.
    Fault(Void),
}

impl Breach {
    /// How far beyond what is allowed it is, as a factor.
    pub(crate) fn excess(&self) -> f64 {
        match self {
            Self::Condition(violation) => violation.excess,
            Self::Fault(_) => f64::INFINITY,
        }
    }

    /// Whether both are of one condition, or faults of one kind.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Condition(one), Self::Condition(other)) => one.condition == other.condition,
            (Self::Fault(one), Self::Fault(other)) => one.kind() == other.kind(),
            _ => false,
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition(Violation { condition, found, .. }) => {
                write!(out, "{condition}: {found}")
            }
            Self::Fault(why) => why.fmt(out),
        }
    }
}

/// Whether there was no load and the server was the reason. Documents written before reasons had
/// variants do not tell it from other reasons.
fn has_not_served(observation: &Observation) -> bool {
    let is_servers = |why: &Void| matches!(why, Void::NoLoad(_) | Void::Other(_));
    observation.figures.is_none() && observation.void.iter().any(is_servers)
}

/// What a server did under the load of a run that breaks any conditions.
fn faults(observation: &Observation) -> Vec<Breach> {
    // Where there was no load nothing has failed at this rate.
    let is_judged = observation.figures.is_some();
    let faults = observation.void.iter().filter(|why| is_judged && why.is_fault());
    faults.cloned().map(Breach::Fault).collect()
}

/// The conditions that a run broke, the worst first. Its spread is the larger of two: how far apart
/// the timeouts of kinds of file lie, and how far behind the rest the worst served kind is.
pub fn violations(conditions: &Conditions, figures: &Figures) -> Vec<Violation> {
    let behind = match figures.fares_alike() {
        true => Some(0.0),
        false => least_served(&figures.served_by_kind).map(|(_, behind)| behind),
    };
    let timeouts = figures.unfair_points().map(|points| points / 100.0);
    conditions.broken(&Kept {
        served_share: figures.served_share.min(figures.kept_up_share),
        error_share: figures.error_share,
        spread: behind.into_iter().chain(timeouts).reduce(f64::max),
        quantile_us: &|quantile| {
            figures.times_us.get(quantile_name(quantile)?).map(|time| *time as u64)
        },
        is_own_lag: &|quantile| {
            quantile_name(quantile).is_some_and(|name| figures.mostly_own_lag.contains(name))
        },
    })
}

/// Whether all conditions can be judged from [`Figures`].
///
/// # Errors
/// The condition that cannot be judged.
pub fn check_conditions(conditions: &Conditions) -> Result<(), String> {
    let unknown =
        conditions.quantiles.iter().find(|(quantile, _)| quantile_name(*quantile).is_none());
    match unknown {
        None => Ok(()),
        Some((quantile, _)) => {
            let names = QUANTILES.map(|(_, name)| name).join(", ");
            Err(format!("p{}: a run keeps only the percentiles {names}", quantile * 100.0))
        }
    }
}

fn quantile_name(quantile: f64) -> Option<&'static str> {
    QUANTILES.iter().find(|(known, _)| (known - quantile).abs() < 1e-9).map(|(_, name)| *name)
}

/// Requests issued and good replies, by kind of file.
type ServedByKind = std::collections::BTreeMap<String, (u64, u64)>;

/// The kind of file that fared worst of those that were requested often, and how far its served
/// share lies below that of all.
fn least_served(kinds: &ServedByKind) -> Option<(&str, f64)> {
    let (requests, replies) =
        kinds.values().fold((0, 0), |sum, kind| (sum.0 + kind.0, sum.1 + kind.1));
    let share = |requests: u64, replies: u64| replies as f64 / requests.max(1) as f64;
    let all = share(requests, replies);
    let common = kinds.iter().filter(|(_, kind)| kind.0 >= KIND_REQUESTS_MIN);
    let behind = common.map(|(name, kind)| (name.as_str(), all - share(kind.0, kind.1)));
    behind.max_by(|a, b| a.1.total_cmp(&b.1))
}
