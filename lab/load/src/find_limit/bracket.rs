//! Narrows down the highest rate that holds among the rates tried, and chooses the next rate to
//! try.
//!
//! This module knows nothing of servers or conditions: a trial held, broke, or says nothing.

/// How often a rate is tried until the generator counts as giving out there: once may be chance.
pub(super) const VOID_TRIALS: u32 = 2;
/// The largest step between two rates while only one end is known.
const STEP_MAX: f64 = 2.0;
/// A gap may be this much wider than asked for, so that rounding costs no trial.
const ROUNDING: f64 = 1e-9;

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// All conditions held.
    Held,
    /// A condition broke.
    Broke,
    /// The trial says nothing: the generator itself could not keep up, for example.
    Void,
}

/// How a limit is sought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The rate of the first trial.
    pub first: f64,
    /// The lowest rate that is tried.
    pub min: f64,
    /// The first step up or down, as a factor above 1; the following ones are squares of the one
    /// before, up to 2.
    pub growth: f64,
    /// The gap between the rate that holds and the rate that breaks, relative to the former, at
    /// which the search ends.
    pub gap: f64,
    /// Both ends are tried until one outcome is this many trials ahead of the other. If a rate has
    /// the same outcome in 4 of 5 trials, a lead of 1 is right in 80 %, 2 in 94 %, 3 in 98.5 % of
    /// cases (Wald's sequential test).
    pub lead: u32,
    /// How often an end is tried at most, void trials included.
    pub end_trials_max: u32,
    /// Whether the first rate, if it breaks, is tried again until one outcome is 2 ahead (3 times
    /// at most): if the rate was expected to hold, a stall may have broken it.
    pub first_again: bool,
}

/// The trials so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Bracket {
    rules: Rules,
    trials: Vec<(f64, Judged)>,
}

/// How often a rate held, and in how many trials that say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Trials that held.
    pub held: u32,
    /// Trials that held or broke.
    pub trials: u32,
}

impl Tally {
    /// Whether most trials held.
    #[must_use]
    pub fn holds(&self) -> bool {
        2 * self.held > self.trials
    }

    fn lead(&self) -> u32 {
        (2 * self.held).abs_diff(self.trials)
    }
}

impl Bracket {
    /// A bracket without trials.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, trials: Vec::new() }
    }

    /// Adds the result of a trial at `rate`.
    pub fn add(&mut self, rate: f64, judged: Judged) {
        self.trials.push((rate, judged));
    }

    /// How many trials there were.
    #[must_use]
    pub fn trials(&self) -> usize {
        self.trials.len()
    }

    /// The rate to try next; none once the limit is known. An end whose repetition had another
    /// result makes further rates necessary.
    #[must_use]
    pub fn next_rate(&self) -> Option<f64> {
        let min = self.rules.min;
        let Some(&(last, _)) = self.trials.last() else { return Some(self.rules.first.max(min)) };
        if self.is_doubtful(last) {
            return Some(last);
        }
        let Some(low) = self.highest_held() else {
            let lowest = self.trials.iter().map(|trial| trial.0).reduce(f64::min)?;
            return (lowest > min).then(|| (lowest / self.step()).max(min));
        };
        let broken = self.lowest_broken();
        match [broken, self.gave_out()].into_iter().flatten().reduce(f64::min) {
            None => Some(low * self.step()),
            Some(high) if high > low * (1.0 + self.rules.gap + ROUNDING) => {
                Some((low * high).sqrt())
            }
            Some(_) => {
                let mut ends = [Some(low), broken].into_iter().flatten();
                ends.find(|rate| self.is_unsure(*rate))
            }
        }
    }

    /// The highest rate that held in most of its trials, if each lower rate did, too.
    #[must_use]
    pub fn highest_held(&self) -> Option<f64> {
        let broken = self.lowest_broken().unwrap_or(f64::INFINITY);
        self.judged().filter(|rate| *rate < broken && self.tally(*rate).holds()).reduce(f64::max)
    }

    /// The lowest rate that did not hold in most of its trials.
    #[must_use]
    pub fn lowest_broken(&self) -> Option<f64> {
        self.judged().filter(|rate| !self.tally(*rate).holds()).reduce(f64::min)
    }

    /// The lowest rate that was void whenever tried, above the highest held and below the lowest
    /// broken.
    #[must_use]
    pub fn gave_out(&self) -> Option<f64> {
        let low = self.highest_held().unwrap_or(0.0);
        let high = self.lowest_broken().unwrap_or(f64::INFINITY);
        let rates = self.trials.iter().map(|trial| trial.0);
        let between = rates.filter(|rate| low < *rate && *rate < high);
        let is_void = |rate: &f64| self.tally(*rate).trials == 0 && !self.is_doubtful(*rate);
        between.filter(is_void).reduce(f64::min)
    }

    /// The trials at exactly that rate.
    #[must_use]
    pub fn tally(&self, rate: f64) -> Tally {
        let same = self.trials.iter().filter(|trial| trial.0 == rate);
        let (mut held, mut trials) = (0, 0);
        for (_, judged) in same {
            held += u32::from(*judged == Judged::Held);
            trials += u32::from(*judged != Judged::Void);
        }
        Tally { held, trials }
    }

    /// Whether a rate has been void, or has broken although it should hold, but not often enough
    /// yet to count.
    fn is_doubtful(&self, rate: f64) -> bool {
        let tally = self.tally(rate);
        let is_first = self.trials.first().is_some_and(|first| first.0 == rate);
        let may_be_stall = self.rules.first_again && is_first && tally.held < tally.trials;
        match tally.trials {
            0 => self.trials_at(rate) < VOID_TRIALS,
            // Void trials count, so that the repetitions end.
            _ => may_be_stall && tally.lead() < 2 && self.trials_at(rate) < 3,
        }
    }

    /// Whether an end is to be tried again.
    fn is_unsure(&self, rate: f64) -> bool {
        self.tally(rate).lead() < self.rules.lead
            && self.trials_at(rate) < self.rules.end_trials_max
    }

    /// How many trials of a rate there were, void ones included.
    fn trials_at(&self, rate: f64) -> u32 {
        self.trials.iter().filter(|trial| trial.0 == rate).count() as u32
    }

    /// The rates of trials that say something about the server.
    fn judged(&self) -> impl Iterator<Item = f64> {
        self.trials.iter().filter(|trial| trial.1 != Judged::Void).map(|trial| trial.0)
    }

    /// The factor by which to go up or down while only one end is known.
    fn step(&self) -> f64 {
        let mut rates: Vec<f64> = self.trials.iter().map(|trial| trial.0).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let squares = rates.len().saturating_sub(1);
        let step = (0..squares).fold(self.rules.growth, |step, _| (step * step).min(STEP_MAX));
        step.min(STEP_MAX)
    }
}
