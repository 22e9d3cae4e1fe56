//! The search for the highest rate of sessions that a server bears under conditions: the maximum
//! achievable throughput of Hashemian (ICPE 2013), with the conditions said.
//!
//! Doubles the rate until a condition breaks, halves the gap until it is small, then tries the
//! lower end and then the upper again, to say how sure the answer is. A rate at which the generator
//! gives out, or is not let, ends the gap as one that breaks does. What a trial is, is the caller's
//! business.

mod bracket;
mod conditions;
#[cfg(test)]
mod tests;

pub use bracket::{Bracket, Judged, Rules, Tally};
pub use conditions::{Conditions, Kept, Violation};

use crate::outcome::{EXIT_INTERRUPTED, EXIT_SUCCESS, EXIT_TARGET_ERRORS, EXIT_VOID, Outcome};
use crate::void::Void;

/// The gap between what holds and what fails, relative to what holds, at which the search ends.
const GAP: f64 = 0.02;
/// How often each end is tried, the first time included, if it does the same each time.
const CONFIRMATIONS: u32 = 3;
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
    /// Requests asked each second: those that would have been due, had every reply come at once.
    pub asked_per_s: f64,
    /// Replies per second.
    pub replies_per_s: f64,
    /// The 99th percentile of corrected times, in microseconds.
    pub p99_us: u64,
    /// Replies of what was due.
    pub served_share: f64,
    /// The conditions that broke, the worst first.
    pub violations: Vec<Violation>,
    /// Why the trial says nothing about the server, if so.
    pub void: Vec<Void>,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The highest rate at which all conditions held; none if they never did.
    pub held: Option<Rung>,
    /// The lowest rate above it at which one broke; none if none did.
    pub broke: Option<Rung>,
    /// The lowest rate above what held, and below what broke, that was void whenever tried: the
    /// generator gave out, or [others were in its way](Limit::is_disturbed).
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
    /// Requests asked each second, the mean of its trials.
    pub asked_per_s: f64,
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
    let rules = Rules {
        first: rates.first,
        min: rates.min,
        growth: 2.0,
        gap: GAP,
        lead: CONFIRMATIONS,
        end_trials_max: TRIALS_OF_END_MAX,
        first_again: false,
    };
    let mut search = Search { conditions, bracket: Bracket::new(rules), trials: Vec::new() };
    while let Some(rate) = search.bracket.next_rate().filter(|_| search.trials.len() < TRIALS_MAX) {
        let Some(outcome) = trial(rate)? else { return Ok(search.limit(true)) };
        seen(search.add(rate, &outcome));
    }
    Ok(search.limit(false))
}

struct Search<'a> {
    conditions: &'a Conditions,
    bracket: Bracket,
    trials: Vec<Trial>,
}

impl Search<'_> {
    fn add(&mut self, rate: f64, outcome: &Outcome) -> &Trial {
        let trial = Trial {
            rate,
            asked_per_s: outcome.asked_rate().unwrap_or(0.0),
            replies_per_s: outcome.throughput(),
            p99_us: outcome.measures.times.corrected.value_at_quantile(0.99),
            served_share: outcome.served_share().min(outcome.kept_up_share()),
            violations: self.conditions.violations(outcome),
            void: outcome.void.clone(),
        };
        let judged = match (trial.void.is_empty(), trial.violations.is_empty()) {
            (false, _) => Judged::Void,
            (true, true) => Judged::Held,
            (true, false) => Judged::Broke,
        };
        self.bracket.add(rate, judged);
        self.trials.push(trial);
        &self.trials[self.trials.len() - 1]
    }

    fn rung(&self, rate: f64) -> Rung {
        let same = |trial: &&Trial| trial.rate == rate && trial.void.is_empty();
        let Tally { held, trials } = self.bracket.tally(rate);
        let mean = |of: fn(&Trial) -> f64| {
            let sum: f64 = self.trials.iter().filter(same).map(of).sum();
            sum / f64::from(trials.max(1))
        };
        let (asked_per_s, replies_per_s) =
            (mean(|trial| trial.asked_per_s), mean(|trial| trial.replies_per_s));
        Rung { rate, asked_per_s, replies_per_s, held, trials }
    }

    fn limit(self, interrupted: bool) -> Limit {
        let held = self.bracket.highest_held().map(|rate| self.rung(rate));
        let broke = self.bracket.lowest_broken().map(|rate| self.rung(rate));
        let gave_out = self.bracket.gave_out();
        Limit { held, broke, gave_out, interrupted, trials: self.trials }
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

    /// The trials of the rate that was void whenever tried.
    pub(crate) fn void_trials(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| Some(trial.rate) == self.gave_out)
    }

    /// Whether it was void because others were in the generator's way. How late that made it says
    /// nothing of what it can do.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        self.void_trials().any(|trial| trial.void.iter().any(Void::is_interference))
    }

    /// Whether more than what held may be borne: no rate above it is known to break, or the
    /// generator gave out below the one that is.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.held.is_some() && (self.broke.is_none() || self.gave_out.is_some())
    }

    /// 0 for a limit, 1 for a server that bears nothing, 3 where that is not known, 4 if the search
    /// was broken off.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match (self.held, self.broke) {
            _ if self.interrupted => EXIT_INTERRUPTED,
            (Some(_), Some(_)) if !self.is_lower_bound() => EXIT_SUCCESS,
            (None, Some(_)) => EXIT_TARGET_ERRORS,
            _ => EXIT_VOID,
        }
    }
}
