//! The maximum achievable throughput (MAT) of one configuration: a bracket around the highest rate
//! that it bears under conditions.
//!
//! Rates grow until one breaks; the gap is halved on the log scale until it is small; then both
//! ends are tried until it is decided with confidence whether they hold. A void run is made again
//! and counted; a rate that stays void ends the gap from above, and the generator is the limit.

use super::{Asked, Candidate, Measure, Seen, Stop, judge};
use crate::record::Figures;
use load::find_limit::{Bracket, Conditions, Judged, Rules, Violation};

/// A climb that has not ended by then never will.
const TRIALS_MAX: usize = 40;
/// A configuration under which the server did not start so often is given up.
const STARTS_MAX: u32 = 2;

/// How one limit is sought.
#[derive(Clone, Debug, PartialEq)]
pub struct Hunt {
    /// The rates.
    pub rules: Rules,
    /// What must hold.
    pub conditions: Conditions,
    /// What the runs are for, in the records.
    pub purpose: String,
    /// The block they belong to.
    pub block: u32,
    /// Seeds their arrivals.
    pub seed: u64,
}

/// What a climb has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What the runs were for.
    pub purpose: String,
    /// The block they belong to.
    pub block: u32,
    /// The conditions, as typed.
    pub conditions: String,
    /// The highest rate that held, requests a second.
    pub held_per_s: Option<f64>,
    /// The lowest rate above it that did not.
    pub broke_per_s: Option<f64>,
    /// The conditions that broke there.
    pub broken: Vec<String>,
    /// Throughput of each run at the rate that held.
    pub throughputs_per_s: Vec<f64>,
    /// The generator gave out before a rate broke.
    pub generator_bound: bool,
    /// Runs, void ones included.
    pub runs: u32,
    /// Void runs.
    pub void_runs: u32,
    /// Why the server did not start, if it never did.
    pub failed: Option<String>,
}

impl Found {
    /// The best guess at the limit: the middle of the gap on the log scale. What held, where
    /// nothing broke; none if nothing held.
    pub fn estimate_per_s(&self) -> Option<f64> {
        let held = self.held_per_s?;
        Some(self.broke_per_s.map_or(held, |broke| (held * broke).sqrt()))
    }
}

/// One trial of a climb.
struct Trial {
    rate: f64,
    judged: Judged,
    throughput_per_s: f64,
    violations: Vec<Violation>,
}

/// A search for one limit, a run at a time, so that those of several candidates can alternate.
pub struct Climb {
    hunt: Hunt,
    bracket: Bracket,
    trials: Vec<Trial>,
    failures: Vec<String>,
}

impl Climb {
    /// Before its first run.
    pub fn new(hunt: Hunt) -> Self {
        let bracket = Bracket::new(hunt.rules);
        Self { hunt, bracket, trials: Vec::new(), failures: Vec::new() }
    }

    /// The run to make next; none once the limit is known.
    pub fn next(&self) -> Option<Asked> {
        if self.has_failed() || self.trials.len() >= TRIALS_MAX {
            return None;
        }
        let rate = self.bracket.next_rate()?;
        let void = |trial: &&Trial| trial.rate == rate && trial.judged == Judged::Void;
        Some(Asked {
            rate,
            purpose: self.hunt.purpose.clone(),
            block: self.hunt.block,
            attempt: self.trials.iter().filter(void).count() as u32,
            seed: statistics::Generator::new(self.hunt.seed ^ self.trials.len() as u64).next_u64(),
        })
    }

    /// Takes what the run has shown, and says what it means.
    pub fn learn(&mut self, rate: f64, seen: &Seen) -> Judged {
        let (judged, violations) = judge(&self.hunt.conditions, seen);
        let throughput = |figures: &Figures| figures.throughput_per_s;
        let throughput_per_s = seen.figures.as_ref().map_or(0.0, throughput);
        self.bracket.add(rate, judged);
        self.trials.push(Trial { rate, judged, throughput_per_s, violations });
        if seen.figures.is_none() {
            self.failures.push(seen.void.join("; "));
        }
        judged
    }

    fn has_failed(&self) -> bool {
        self.failures.len() as u32 >= STARTS_MAX && self.failures.len() == self.trials.len()
    }

    /// What is known so far.
    pub fn found(&self) -> Found {
        let held_per_s = self.bracket.highest_held();
        let broke_per_s = self.bracket.lowest_broken();
        let at = |rate: Option<f64>, judged| {
            let same = move |trial: &&Trial| Some(trial.rate) == rate && trial.judged == judged;
            self.trials.iter().filter(same)
        };
        let void = |trial: &&Trial| trial.judged == Judged::Void;
        Found {
            purpose: self.hunt.purpose.clone(),
            block: self.hunt.block,
            conditions: self.hunt.conditions.to_string(),
            held_per_s,
            broke_per_s,
            broken: worst(at(broke_per_s, Judged::Broke).flat_map(|trial| &trial.violations)),
            throughputs_per_s: at(held_per_s, Judged::Held)
                .map(|trial| trial.throughput_per_s)
                .collect(),
            generator_bound: self.bracket.gave_out().is_some() && !self.has_failed(),
            runs: self.trials.len() as u32,
            void_runs: self.trials.iter().filter(void).count() as u32,
            failed: self.failures.last().filter(|_| self.has_failed()).cloned(),
        }
    }
}

/// Each condition as it broke worst, the worst first, in words.
fn worst<'v>(violations: impl Iterator<Item = &'v Violation>) -> Vec<String> {
    let mut all: Vec<&Violation> = violations.collect();
    all.sort_by(|a, b| b.excess.total_cmp(&a.excess));
    let mut seen = Vec::new();
    all.retain(|violation| {
        let is_new = !seen.contains(&&violation.condition);
        seen.push(&violation.condition);
        is_new
    });
    all.iter().map(|broken| format!("{}: {}", broken.condition, broken.found)).collect()
}

/// How far one outcome must be ahead, so that a rate which does the same in 4 of 5 runs is judged
/// rightly with that confidence: see [`Rules::lead`].
pub fn lead_for(confidence: f64) -> u32 {
    // A little less, so that a confidence of 4 in 5 is one.
    let odds = confidence / (1.0 - confidence) * (1.0 - 1e-9);
    let mut lead = 1;
    while 4_f64.powi(lead as i32) < odds && lead < 10 {
        lead += 1;
    }
    lead
}

/// Finds the limit of one candidate.
///
/// # Errors
/// When the search is to end.
pub fn mat(measure: &mut dyn Measure, candidate: &Candidate, hunt: &Hunt) -> Result<Found, Stop> {
    let mut climb = Climb::new(hunt.clone());
    while let Some(asked) = climb.next() {
        let seen = measure.measure(candidate, &asked)?;
        climb.learn(asked.rate, &seen);
    }
    let found = climb.found();
    measure.found(candidate, &found)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Simulated, World};
    use super::*;

    fn hunt(first: f64, seed: u64) -> Hunt {
        let rules = Rules {
            first,
            min: 1.0,
            growth: 2.0,
            gap: 0.05,
            lead: lead_for(0.95),
            end_trials_max: 9,
            first_again: false,
        };
        let conditions = Conditions::default();
        Hunt { rules, conditions, purpose: "mat".into(), block: 0, seed }
    }

    #[test]
    fn confidence_costs_runs() {
        assert_eq!([0.7, 0.8, 0.9, 0.95, 0.99].map(lead_for), [1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_quiet_server_is_bracketed() {
        for first in [10.0, 900.0, 60_000.0] {
            let mut server = Simulated::new(World::quiet(vec![1000.0]), 1);
            let found = mat(&mut server, &Candidate::default(), &hunt(first, 1)).expect("it ends");
            let (held, broke) = (found.held_per_s.expect("so"), found.broke_per_s.expect("so"));
            // A hundredth of what is offered may be left unserved.
            assert!(held <= 1000.0 / 0.99 && broke > 1000.0 / 0.99, "{found:?}");
            assert!(broke / held < 1.05 + 1e-6 && found.broken[0].starts_with("served=99%: "));
            assert_eq!((found.throughputs_per_s.len(), found.void_runs), (3, 0));
        }
    }

    /// Each run's capacity differs by 3 %, one in fifty stalls: the estimate stays close.
    #[test]
    fn a_noisy_server_is_bracketed() {
        let close = (0..200).filter(|&seed| {
            let world = World { noise: 0.03, stalls: 0.02, ..World::quiet(vec![1000.0]) };
            let mut server = Simulated::new(world, seed);
            let found = mat(&mut server, &Candidate::default(), &hunt(50.0, seed)).expect("so");
            let estimate = found.estimate_per_s().expect("something holds");
            (930.0..1070.0).contains(&estimate)
        });
        let close = close.count();
        assert!(close >= 190, "{close} of 200");
    }

    #[test]
    fn a_generator_that_gives_out_is_said() {
        let world = World { generator: 300.0, ..World::quiet(vec![1000.0]) };
        let mut server = Simulated::new(world, 1);
        let found = mat(&mut server, &Candidate::default(), &hunt(100.0, 1)).expect("it ends");
        assert!(found.generator_bound && found.broke_per_s.is_none(), "{found:?}");
        assert!(found.held_per_s.is_some_and(|held| (285.0..=300.0).contains(&held)));
        assert!(found.void_runs >= 2);
    }

    /// It gets twice as many replies out by leaving one in five large files unanswered.
    #[test]
    fn an_unfair_server_bears_nothing() {
        let world = World { unfair: vec![0], window_s: 60.0, ..World::quiet(vec![1000.0]) };
        let mut server = Simulated::new(world, 1);
        // Below it a kind of file is asked for too rarely to be judged in one run.
        let mut hunt = hunt(500.0, 1);
        hunt.rules.min = 200.0;
        let found = mat(&mut server, &Candidate::default(), &hunt).expect("it ends");
        assert_eq!(found.held_per_s, None);
        assert!(found.broken[0].contains("spread=2%"), "{found:?}");
    }

    #[test]
    fn what_does_not_start_is_given_up() {
        let world = World { broken: vec![0], ..World::quiet(vec![1000.0]) };
        let mut server = Simulated::new(world, 1);
        let found = mat(&mut server, &Candidate::default(), &hunt(500.0, 1)).expect("it ends");
        assert_eq!((found.runs, found.failed.as_deref()), (2, Some("it does not start")));
    }
}
