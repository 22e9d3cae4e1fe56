//! The search for the highest rate of sessions that a server bears under conditions: the maximum
//! achievable throughput of Hashemian (ICPE 2013), with the conditions said.
//!
//! Doubles the rate until a condition breaks, halves the gap until it is small, then tries the
//! lower end and then the upper again, to say how sure the answer is. A rate at which the generator
//! gives out ends the gap as one that breaks does. What a trial is, is the caller's business.

mod conditions;
#[cfg(test)]
mod tests;

pub use conditions::{Conditions, Violation};

use crate::outcome::{EXIT_SUCCESS, EXIT_TARGET_ERRORS, EXIT_VOID, Outcome};

/// The gap between what holds and what fails, relative to what holds, at which the search ends.
const GAP: f64 = 0.05;
/// How often each end is tried, the first time included.
const CONFIRMATIONS: u32 = 3;
/// How often a rate is tried until the generator counts as giving out there: once may be chance.
const VOID_TRIALS: u32 = 2;
/// How often an end is tried at most, void trials included.
const TRIALS_OF_END_MAX: u32 = 2 * CONFIRMATIONS;
/// A search that has not ended by then never will.
const TRIALS_MAX: usize = 40;
/// Where a search begins, and below what it does not go, in sessions per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The rate of the first trial, if it is not too low.
    pub first: f64,
    /// The lowest rate of which a trial says anything: a few sessions in its window.
    pub min: f64,
}

/// One run at one rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Sessions per second.
    pub rate: f64,
    /// Replies per second.
    pub replies_per_s: f64,
    /// The 99th percentile of corrected times, in microseconds.
    pub p99_us: u64,
    /// Replies of what was due.
    pub served_share: f64,
    /// The conditions that broke, the worst first.
    pub violations: Vec<Violation>,
    /// Why the trial says nothing about the server, if so.
    pub void: Vec<String>,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The highest rate at which all conditions held; none if they never did.
    pub held: Option<Rung>,
    /// The lowest rate above it at which one broke; none if none did.
    pub broke: Option<Rung>,
    /// The lowest rate above what held, and below what broke, at which the generator gave out:
    /// void whenever tried.
    pub gave_out: Option<f64>,
    /// Whether the search was broken off.
    pub interrupted: bool,
    /// All trials, in order.
    pub trials: Vec<Trial>,
}

/// A rate and how often it went as it did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rung {
    /// Sessions per second.
    pub rate: f64,
    /// Replies per second, the mean of its trials.
    pub replies_per_s: f64,
    /// Trials that held.
    pub held: u32,
    /// Trials.
    pub trials: u32,
}

/// Makes trials until the limit is known. A `trial` without an outcome was broken off, and then
/// the search is too.
///
/// # Errors
/// What kept a trial from being made.
pub fn search(
    conditions: &Conditions,
    rates: Rates,
    trial: &mut dyn FnMut(f64) -> Result<Option<Outcome>, String>,
    seen: &mut dyn FnMut(&Trial),
) -> Result<Limit, String> {
    let mut search = Search { conditions, rate_min: rates.min, trials: Vec::new() };
    let mut rate = Some(rates.first.max(rates.min));
    while let Some(next) = rate.filter(|_| search.trials.len() < TRIALS_MAX) {
        let Some(outcome) = trial(next)? else { return Ok(search.limit(true)) };
        seen(search.add(next, &outcome));
        rate = search.next_rate();
    }
    Ok(search.limit(false))
}

struct Search<'a> {
    conditions: &'a Conditions,
    rate_min: f64,
    trials: Vec<Trial>,
}

impl Search<'_> {
    /// Where to look next; none once it is known. Also after an end has not stood its test.
    fn next_rate(&self) -> Option<f64> {
        if let Some(doubtful) = self.trials.last().filter(|last| self.is_doubtful(last.rate)) {
            return Some(doubtful.rate);
        }
        let Some(low) = self.highest_held() else {
            let lowest = self.trials.iter().map(|trial| trial.rate).reduce(f64::min)?;
            return (lowest / 2.0 >= self.rate_min).then_some(lowest / 2.0);
        };
        let broken = self.lowest_broken();
        match [broken, self.gave_out()].into_iter().flatten().reduce(f64::min) {
            None => Some(low * 2.0),
            Some(high) if high > low * (1.0 + GAP) => Some((low * high).sqrt()),
            Some(_) => {
                let mut ends = [Some(low), broken].into_iter().flatten();
                ends.find(|rate| self.is_unsure(*rate))
            }
        }
    }

    /// Whether a rate has been void, but not yet often enough for that to say anything.
    fn is_doubtful(&self, rate: f64) -> bool {
        self.rung(rate).trials == 0 && self.trials_at(rate) < VOID_TRIALS
    }

    /// Whether an end is to be tried again.
    fn is_unsure(&self, rate: f64) -> bool {
        self.rung(rate).trials < CONFIRMATIONS && self.trials_at(rate) < TRIALS_OF_END_MAX
    }

    /// How many trials of a rate there were, void ones included.
    fn trials_at(&self, rate: f64) -> u32 {
        self.trials.iter().filter(|trial| trial.rate == rate).count() as u32
    }

    fn add(&mut self, rate: f64, outcome: &Outcome) -> &Trial {
        self.trials.push(Trial {
            rate,
            replies_per_s: outcome.throughput(),
            p99_us: outcome.measures.times.corrected.value_at_quantile(0.99),
            served_share: outcome.served_share().min(outcome.kept_up_share()),
            violations: self.conditions.violations(outcome),
            void: outcome.void.clone(),
        });
        &self.trials[self.trials.len() - 1]
    }

    fn rung(&self, rate: f64) -> Rung {
        rung(&self.trials, rate)
    }

    /// The highest rate that held in most of its trials, with none below that did not.
    fn highest_held(&self) -> Option<f64> {
        let broken = self.lowest_broken().unwrap_or(f64::INFINITY);
        let rates = self.judged().map(|trial| trial.rate);
        rates.filter(|rate| *rate < broken && self.rung(*rate).holds()).reduce(f64::max)
    }

    fn lowest_broken(&self) -> Option<f64> {
        let rates = self.judged().map(|trial| trial.rate);
        rates.filter(|rate| !self.rung(*rate).holds()).reduce(f64::min)
    }

    /// Trials that say something about the server.
    fn judged(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| trial.void.is_empty())
    }

    /// The lowest rate, above what held and below what broke, that was void whenever tried.
    fn gave_out(&self) -> Option<f64> {
        let low = self.highest_held().unwrap_or(0.0);
        let high = self.lowest_broken().unwrap_or(f64::INFINITY);
        let rates = self.trials.iter().map(|trial| trial.rate);
        let between = rates.filter(|rate| low < *rate && *rate < high);
        let is_void = |rate: &f64| self.rung(*rate).trials == 0 && !self.is_doubtful(*rate);
        between.filter(is_void).reduce(f64::min)
    }

    fn limit(self, interrupted: bool) -> Limit {
        let held = self.highest_held().map(|rate| self.rung(rate));
        let broke = self.lowest_broken().map(|rate| self.rung(rate));
        Limit { held, broke, gave_out: self.gave_out(), interrupted, trials: self.trials }
    }
}

/// The trials at exactly that rate.
fn rung(trials: &[Trial], rate: f64) -> Rung {
    let same = |trial: &&Trial| trial.rate == rate && trial.void.is_empty();
    let (mut held, mut count, mut sum) = (0, 0, 0.0);
    for trial in trials.iter().filter(same) {
        held += u32::from(trial.violations.is_empty());
        count += 1;
        sum += trial.replies_per_s;
    }
    Rung { rate, replies_per_s: sum / f64::from(count.max(1)), held, trials: count }
}

impl Rung {
    /// Whether most trials held.
    fn holds(&self) -> bool {
        2 * self.held > self.trials
    }
}

impl Limit {
    /// The conditions that broke at the lowest broken rate, each as it broke worst, the worst
    /// first. Which of them broke first in time is not known.
    #[must_use]
    pub fn causes(&self) -> Vec<&Violation> {
        let Some(broke) = self.broke else { return Vec::new() };
        let at_broken = self.trials.iter().filter(|trial| trial.rate == broke.rate);
        let judged = at_broken.filter(|trial| trial.void.is_empty());
        let mut all: Vec<&Violation> = judged.flat_map(|trial| &trial.violations).collect();
        all.sort_by(|a, b| b.excess.total_cmp(&a.excess));
        let mut causes: Vec<&Violation> = Vec::new();
        for violation in all {
            if !causes.iter().any(|cause| cause.condition == violation.condition) {
                causes.push(violation);
            }
        }
        causes
    }

    /// Whether more than what held may be borne: no rate above it is known to break, or the
    /// generator gave out below the one that is.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.held.is_some() && (self.broke.is_none() || self.gave_out.is_some())
    }

    /// 0 for a limit, 1 for a server that bears nothing, 3 where that is not known.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match (self.held, self.broke) {
            (Some(_), Some(_)) if !self.is_lower_bound() => EXIT_SUCCESS,
            (None, Some(_)) if !self.interrupted => EXIT_TARGET_ERRORS,
            _ => EXIT_VOID,
        }
    }
}
