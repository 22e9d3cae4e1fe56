//! The search for the highest rate of sessions that a server sustains under conditions: the maximum
//! achievable throughput of Hashemian (ICPE 2013), with its conditions stated.
//!
//! The search doubles the rate until a condition breaks, halves the gap until it is small, and then
//! tries the lower end and the upper end again, to tell how sure the answer is. A rate at which the
//! generator gives out, or is disturbed, bounds the gap as a rate at which a condition breaks does.
//! `search` leaves to its caller what a trial is; those of the load generator are [`Trials`].

mod bracket;
mod conditions;
#[cfg(test)]
mod tests;
mod trials;

pub use bracket::{Bracket, Judged, Rules, Tally};
pub use conditions::{Amount, Condition, Conditions, Kept, Violation};
pub use trials::Trials;

use crate::outcome::{EXIT_INTERRUPTED, EXIT_SUCCESS, EXIT_TARGET_ERRORS, EXIT_VOID, Outcome};
use crate::run_error::RunError;
use crate::void::Void;

/// The gap between what holds and what fails, relative to what holds, at which the search ends.
const GAP: f64 = 0.02;
/// How often each end is tried, the first time included, if the result is equal each time.
const CONFIRMATIONS: u32 = 3;
/// How often an end is tried at most, void trials included.
const TRIALS_OF_END_MAX: u32 = 2 * CONFIRMATIONS;
/// The most trials of a search: one that has not ended by then never will.
const TRIALS_MAX: usize = 40;

/// The rate of the first trial, as a part of what the server gave in a closed run. It should hold:
/// the search goes up from it.
const FIRST_SHARE: f64 = 1.0 / 8.0;
/// Trials that bracket a limit that is less than a factor of 2 from the first rate.
const BRACKETING_MIN: usize = 2;
/// Trials that bracket a limit of up to twice the rate of the closed run: an eighth, a quarter, a
/// half and the whole of that rate hold, and the double breaks. If the whole breaks, it is a trial
/// less.
const BRACKETING_USUAL: usize = 5;
/// Trials that make a gap of a factor of 2 a gap of 2 %: each makes a factor its square root.
const HALVINGS: usize = 6;
/// Trials that confirm both ends, each of which has been tried once.
const CONFIRMING: usize = 2 * (CONFIRMATIONS as usize - 1);
/// How many trials a search takes from its first rate on, if no trial is void and each repetition
/// has the result of the first trial.
pub const TRIALS_USUAL: usize = BRACKETING_USUAL + HALVINGS + CONFIRMING;
/// How many trials a search takes at least, wherever it begins.
pub const TRIALS_MIN: usize = BRACKETING_MIN + HALVINGS + CONFIRMING;

/// The rate at which a search begins, and the lowest rate that it tries, in sessions per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    /// The rate of the first trial, if it is not too low.
    first: f64,
    /// The lowest rate whose trial says anything: a few sessions fall into its window.
    min: f64,
}

/// One run at one rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Sessions per second.
    pub rate: f64,
    /// Requests asked each second: the requests that would have been due, had every reply come at
    /// once.
    pub asked_per_s: f64,
    /// Replies per second.
    pub replies_per_s: f64,
    /// The 99th percentile of corrected times, in microseconds.
    pub p99_us: u64,
    /// Whether that is mostly the generator's own lag.
    pub p99_is_own_lag: bool,
    /// The part of the requests due that got a reply, 0 to 1.
    pub served_share: f64,
    /// The conditions that broke, the worst first.
    pub violations: Vec<Violation>,
    /// Why the trial says nothing about the server; empty if it says something.
    pub void: Vec<Void>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The highest rate at which all conditions held; none if they never did.
    pub held: Option<Rung>,
    /// The lowest rate above `held` at which a condition broke; none if none broke.
    pub broke: Option<Rung>,
    /// The lowest rate above `held`, and below `broke`, that was void whenever tried: the generator
    /// gave out, or [other processes were in its way](Limit::is_disturbed).
    pub gave_out: Option<f64>,
    /// Whether the search was interrupted.
    pub interrupted: bool,
    /// All trials, in order.
    pub trials: Vec<Trial>,
}

/// A rate and the results of its trials.
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
    /// Trials that held or broke.
    pub trials: u32,
}

/// Makes trials until the limit is known. A `trial` without an outcome was interrupted, which ends
/// the search.
///
/// # Errors
/// Why a trial could not be made.
fn search(
    conditions: &Conditions,
    rates: Rates,
    trial: &mut dyn FnMut(f64) -> Result<Option<Outcome>, RunError>,
    seen: &mut dyn FnMut(&Trial),
) -> Result<Limit, RunError> {
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
        let broken = self.conditions.violations(outcome);
        // A typed bound on the lag allows it up to there; the violations are marked.
        let is_allowed = outcome.setting.lag_bound_us.is_some();
        let (of_lag, violations): (Vec<_>, Vec<_>) =
            broken.into_iter().partition(|violation| violation.is_own_lag && !is_allowed);
        let mut void = outcome.void.clone();
        if void.is_empty() && violations.is_empty() {
            void.extend(of_lag.first().and_then(Violation::own_lag));
        }
        let trial = Trial {
            rate,
            asked_per_s: outcome.asked_rate().unwrap_or(0.0),
            replies_per_s: outcome.throughput(),
            p99_us: outcome.measures.times.corrected.value_at_quantile(0.99),
            served_share: outcome.served_share().min(outcome.kept_up_share()),
            p99_is_own_lag: outcome.is_mostly_own_lag(0.99),
            violations,
            void,
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
    /// The conditions that broke at the lowest broken rate, each with its worst violation, the
    /// worst first. Which of them broke first in time is not known.
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

    /// The trials of the rate [`gave_out`](Self::gave_out).
    pub(crate) fn void_trials(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| Some(trial.rate) == self.gave_out)
    }

    /// Whether these trials were void because other processes were in the generator's way. How late
    /// that made the generator says nothing about what it can do.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        self.void_trials().any(|trial| trial.void.iter().any(Void::is_interference))
    }

    /// Whether the server may sustain more than the rate that held: no rate above it is known to
    /// break, or the generator gave out below the rate that broke.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.held.is_some() && (self.broke.is_none() || self.gave_out.is_some())
    }

    /// The exit status: 0 for a limit, 1 for a server that sustains nothing, 3 where that is not
    /// known, 4 if the search was interrupted.
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
