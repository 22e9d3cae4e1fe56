//! The search for the highest rate of sessions that a server bears under conditions: the maximum
//! achievable throughput of Hashemian (ICPE 2013), with the conditions said.
//!
//! Doubles the rate until a condition breaks, halves the gap until it is small, then tries both
//! ends again, in turn, to say how sure the answer is. What a trial is, is the caller's business.

mod conditions;
#[cfg(test)]
mod tests;

pub use conditions::{Conditions, Violation};

use crate::outcome::Outcome;

/// The gap between what holds and what fails, relative to what holds, at which the search ends.
const GAP: f64 = 0.05;
/// How often each end is tried, the first time included.
const CONFIRMATIONS: u32 = 3;
/// A search that has not ended by then never will.
const TRIALS_MAX: usize = 40;
/// Nobody asks for less, in sessions per second.
const RATE_MIN: f64 = 0.1;

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
    /// The lowest rate above it at which one broke; none if the generator gave out first.
    pub broke: Option<Rung>,
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

/// Makes trials until the limit is known. `first_rate` is where to begin, in sessions per second.
///
/// # Errors
/// What kept a trial from being made.
pub fn search(
    conditions: &Conditions,
    first_rate: f64,
    trial: &mut dyn FnMut(f64) -> Result<Outcome, String>,
    seen: &mut dyn FnMut(&Trial),
) -> Result<Limit, String> {
    let mut search = Search { conditions, trial, seen, trials: Vec::new() };
    let mut rate = Some(first_rate.max(RATE_MIN));
    while let Some(next) = rate.filter(|_| search.trials.len() < TRIALS_MAX) {
        search.make(next)?;
        rate = search.next_rate();
    }
    Ok(search.limit())
}

struct Search<'a> {
    conditions: &'a Conditions,
    trial: &'a mut dyn FnMut(f64) -> Result<Outcome, String>,
    seen: &'a mut dyn FnMut(&Trial),
    trials: Vec<Trial>,
}

impl Search<'_> {
    /// Where to look next; none once it is known. Also after an end has not stood its test.
    fn next_rate(&self) -> Option<f64> {
        let is_unsure = |rate: f64| self.rung(rate).trials < CONFIRMATIONS;
        match (self.highest_held(), self.lowest_broken()) {
            (Some(low), Some(high)) if high > low * (1.0 + GAP) => Some((low * high).sqrt()),
            (Some(low), Some(high)) => [low, high].into_iter().find(|rate| is_unsure(*rate)),
            (Some(low), None) => match self.lowest_void_above(low) {
                None => Some(low * 2.0),
                Some(void) if void > low * (1.0 + GAP) => Some((low * void).sqrt()),
                Some(_) => is_unsure(low).then_some(low),
            },
            (None, _) => {
                let lowest = self.trials.iter().map(|trial| trial.rate).reduce(f64::min)?;
                (lowest / 2.0 >= RATE_MIN).then_some(lowest / 2.0)
            }
        }
    }

    fn make(&mut self, rate: f64) -> Result<(), String> {
        let outcome = (self.trial)(rate)?;
        let trial = Trial {
            rate,
            replies_per_s: outcome.throughput(),
            p99_us: outcome.measures.times.corrected.value_at_quantile(0.99),
            served_share: outcome.served_share().min(outcome.kept_up_share()),
            violations: self.conditions.violations(&outcome),
            void: outcome.void.clone(),
        };
        (self.seen)(&trial);
        self.trials.push(trial);
        Ok(())
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

    /// The lowest rate above `rate` at which the generator gave out.
    fn lowest_void_above(&self, rate: f64) -> Option<f64> {
        let void = self.trials.iter().filter(|trial| !trial.void.is_empty());
        void.map(|trial| trial.rate).filter(|void| *void > rate).reduce(f64::min)
    }

    fn limit(self) -> Limit {
        let held = self.highest_held().map(|rate| self.rung(rate));
        let broke = self.lowest_broken().map(|rate| self.rung(rate));
        Limit { held, broke, trials: self.trials }
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
    /// The conditions that broke at the lowest broken rate, the worst first, each once.
    #[must_use]
    pub fn causes(&self) -> Vec<&Violation> {
        let Some(broke) = self.broke else { return Vec::new() };
        let mut causes: Vec<&Violation> = Vec::new();
        let at_broken = self.trials.iter().filter(|trial| trial.rate == broke.rate);
        for violation in at_broken.flat_map(|trial| &trial.violations) {
            if !causes.iter().any(|cause| cause.condition == violation.condition) {
                causes.push(violation);
            }
        }
        causes
    }

    /// Whether the generator gave out before the server did.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.held.is_some() && self.broke.is_none()
    }
}
