//! The maximum achievable throughput (MAT) of one configuration: a bracket around the highest rate
//! that it sustains under conditions.
//!
//! Rates grow until one breaks; the gap is halved on the log scale until it is small; then both
//! ends are tried until it is decided with confidence whether they hold. A void run is made again
//! and counted; a rate that stays void ends the gap from above. Only where the generator was the
//! cause is it reported as the limit.

use super::{Breach, Candidate, Measure, Observation, RunRequest, Stop, has_not_served, judge};
use crate::record::{Figures, Point, Purpose, Search};
use crate::void::{Void, generator_gave_out, in_words};
use load::find_limit::{Bracket, Conditions, Judged, Rules};

/// A search that has not ended after this many trials never will.
const TRIALS_MAX: usize = 40;
/// How often in a row a run at a rate is made again because others disturbed it, before that counts
/// as a void run of that rate: disturbances that come and go are not there all the time.
const DISTURBED_MAX: usize = 4;
/// A configuration under which the server failed to start, or to serve, this often is given up.
const STARTS_MAX: u32 = 2;

/// The parameters of a search for one limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitParameters {
    /// The rates.
    pub rules: Rules,
    /// The conditions under which a rate counts as sustained.
    pub conditions: Conditions,
    /// What the runs are for, in the records.
    pub purpose: Purpose,
    /// The block they belong to.
    pub block: u32,
    /// The seed of the arrivals.
    pub seed: u64,
}

/// What a search has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// What the runs were for.
    pub purpose: Purpose,
    /// The block they belong to.
    pub block: u32,
    /// The conditions, as typed.
    pub conditions: String,
    /// The highest rate that held, requests a second.
    pub held_per_s: Option<f64>,
    /// The lowest rate above it that did not hold; none if all held, or if rates between could not
    /// be judged and the generator was not the cause: then the limit may be anywhere above what
    /// held.
    pub broke_per_s: Option<f64>,
    /// The conditions that broke there.
    pub broken: Vec<String>,
    /// Throughput of each run at the rate that held.
    pub throughputs_per_s: Vec<f64>,
    /// Whether the generator reached its limit before a rate broke.
    pub generator_bound: bool,
    /// Runs, void ones included.
    pub runs: u32,
    /// Void runs.
    pub void_runs: u32,
    /// Why the server did not start, if it never did.
    pub failed: Option<String>,
}

impl Found {
    /// The best guess at the limit: the middle of the gap on the log scale; what held, where
    /// nothing broke; none if nothing held.
    pub fn estimate_per_s(&self) -> Option<f64> {
        let held = self.held_per_s?;
        Some(self.broke_per_s.map_or(held, |broke| (held * broke).sqrt()))
    }

    /// The record of the search, which was of the server, setting, workload and testbed of `point`.
    pub(crate) fn record(&self, point: &Point) -> Search {
        Search {
            purpose: self.purpose.clone(),
            block: self.block,
            server: point.server.clone(),
            setting: point.setting.clone(),
            workload: point.workload.clone(),
            testbed: point.testbed.clone(),
            conditions: self.conditions.clone(),
            held_per_s: self.held_per_s.unwrap_or(0.0),
            broke_per_s: self.broke_per_s,
            broken: self.reasons(),
            throughputs_per_s: self.throughputs_per_s.clone(),
            generator_bound: self.generator_bound,
        }
    }

    /// Whether the limit is known: otherwise the server sustains what held, and maybe any higher
    /// rate.
    pub fn is_limit(&self) -> bool {
        self.broke_per_s.is_some() || self.generator_bound
    }

    /// Why a higher rate is not sustained: the conditions that broke, or why the server did not
    /// start.
    pub fn reasons(&self) -> Vec<String> {
        self.broken.iter().chain(&self.failed).cloned().collect()
    }
}

/// One trial of a search.
struct Trial {
    rate: f64,
    judged: Judged,
    throughput_per_s: f64,
    breaches: Vec<Breach>,
    /// Whether the generator could not keep up, or was late by most of the times that broke.
    generator_gave_out: bool,
    /// Whether other processes disturbed the trial.
    is_disturbed: bool,
}

/// A search for one limit, a run at a time, so that the runs of several candidates can alternate.
pub struct LimitSearch {
    parameters: LimitParameters,
    bracket: Bracket,
    trials: Vec<Trial>,
    failures: Vec<String>,
}

impl LimitSearch {
    /// A search before its first run.
    pub fn new(parameters: LimitParameters) -> Self {
        let bracket = Bracket::new(parameters.rules);
        Self { parameters, bracket, trials: Vec::new(), failures: Vec::new() }
    }

    /// The run to make next; none once the limit is known.
    pub fn next(&self) -> Option<RunRequest> {
        if self.has_failed() || self.trials.len() >= TRIALS_MAX {
            return None;
        }
        let rate = self.bracket.next_rate()?;
        let void = |trial: &&Trial| trial.rate == rate && trial.judged == Judged::Void;
        Some(RunRequest {
            rate,
            purpose: self.parameters.purpose.clone(),
            block: self.parameters.block,
            attempt: self.trials.iter().filter(void).count() as u32,
            seed: statistics::Generator::new(self.parameters.seed ^ self.trials.len() as u64)
                .next_u64(),
            is_even: self.parameters.conditions.are_of_rates(),
        })
    }

    /// Records what a run has shown, and returns how it is judged.
    pub fn record_run(&mut self, rate: f64, observation: &Observation) -> Judged {
        let (judged, breaches) = judge(&self.parameters.conditions, observation);
        let throughput = |figures: &Figures| figures.throughput_per_s;
        let throughput_per_s = observation.figures.as_ref().map_or(0.0, throughput);
        let is_own_lag = judged == Judged::Void && !breaches.is_empty();
        let generator_gave_out = is_own_lag || generator_gave_out(&observation.void);
        let is_disturbed =
            judged == Judged::Void && observation.void.iter().any(Void::is_interference);
        // Otherwise it says nothing about the rate, not even that the rate cannot be judged.
        if !is_disturbed || self.disturbed_in_a_row(rate) >= DISTURBED_MAX {
            self.bracket.add(rate, judged);
        }
        self.trials.push(Trial {
            rate,
            judged,
            throughput_per_s,
            breaches,
            generator_gave_out,
            is_disturbed,
        });
        if has_not_served(observation) {
            self.failures.push(in_words(&observation.void));
        }
        judged
    }

    /// How many of the last runs others disturbed, if they were at this rate.
    fn disturbed_in_a_row(&self, rate: f64) -> usize {
        let last = self.trials.iter().rev();
        last.take_while(|trial| trial.rate == rate && trial.is_disturbed).count()
    }

    fn has_failed(&self) -> bool {
        self.failures.len() as u32 >= STARTS_MAX && self.failures.len() == self.trials.len()
    }

    /// Whether no higher rate could be judged because the generator reached its limit each time.
    fn is_generator_bound(&self) -> bool {
        let Some(rate) = self.bracket.gave_out() else { return false };
        let mut there = self.trials.iter().filter(|trial| trial.rate == rate);
        there.all(|trial| trial.generator_gave_out)
    }

    /// What is known so far.
    pub fn found(&self) -> Found {
        let held_per_s = self.bracket.highest_held();
        let generator_bound = self.is_generator_bound();
        let is_known = held_per_s.is_none() || generator_bound || self.bracket.gave_out().is_none();
        let broke_per_s = self.bracket.lowest_broken().filter(|_| is_known);
        let at = |rate: Option<f64>, judged| {
            let same = move |trial: &&Trial| Some(trial.rate) == rate && trial.judged == judged;
            self.trials.iter().filter(same)
        };
        let void = |trial: &&Trial| trial.judged == Judged::Void;
        Found {
            purpose: self.parameters.purpose.clone(),
            block: self.parameters.block,
            conditions: self.parameters.conditions.to_string(),
            held_per_s,
            broke_per_s,
            broken: worst(at(broke_per_s, Judged::Broke).flat_map(|trial| &trial.breaches)),
            throughputs_per_s: at(held_per_s, Judged::Held)
                .map(|trial| trial.throughput_per_s)
                .collect(),
            generator_bound,
            runs: self.trials.len() as u32,
            void_runs: self.trials.iter().filter(void).count() as u32,
            failed: self.failures.last().filter(|_| self.has_failed()).cloned(),
        }
    }
}

/// Each breach as it was worst, the worst first, in words.
fn worst<'v>(breaches: impl Iterator<Item = &'v Breach>) -> Vec<String> {
    let mut all: Vec<&Breach> = breaches.collect();
    all.sort_by(|a, b| b.excess().total_cmp(&a.excess()));
    let mut seen: Vec<&Breach> = Vec::new();
    for breach in all {
        if !seen.iter().any(|known| known.is_like(breach)) {
            seen.push(breach);
        }
    }
    seen.iter().map(ToString::to_string).collect()
}

/// How far one outcome must be ahead, so that a rate that does the same in 4 of 5 runs is judged
/// rightly with that confidence: see [`Rules::lead`].
pub fn lead_for(confidence: f64) -> u32 {
    // A little less, so that a confidence of 4 in 5 gives a lead of one.
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
pub fn mat(
    measure: &mut dyn Measure,
    candidate: &Candidate,
    parameters: &LimitParameters,
) -> Result<Found, Stop> {
    let mut search = LimitSearch::new(parameters.clone());
    while let Some(request) = search.next() {
        let observation = measure.measure(candidate, &request)?;
        search.record_run(request.rate, &observation);
    }
    let found = search.found();
    measure.limit_found(candidate, &found)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{LATE, QUEUE_PER_S, Queue, Simulated, World};
    use super::*;
    use crate::observe::Disturbed;

    fn parameters(first: f64, seed: u64) -> LimitParameters {
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
        LimitParameters { rules, conditions, purpose: Purpose::Race, block: 0, seed }
    }

    /// The limit is the capacity with long and short sessions, and wherever the search begins.
    #[test]
    fn the_limit_of_a_queue_is_its_capacity() {
        for length in [1, 3, 5, 8] {
            for first in [20.0, 125.0, 240.0, 1000.0] {
                let parameters = LimitParameters {
                    rules: Rules { gap: 0.02, ..parameters(first, 1).rules },
                    ..parameters(first, 1)
                };
                let found =
                    mat(&mut Queue { length, window_s: 5.0 }, &Candidate::default(), &parameters);
                let found = found.expect("it ends");
                let (held, guess) = (found.held_per_s.expect("so"), found.estimate_per_s());
                for per_s in [held, guess.expect("so")] {
                    assert!((per_s / QUEUE_PER_S - 1.0).abs() <= 0.02, "{length}: {found:?}");
                }
            }
        }
    }

    #[test]
    fn confidence_costs_runs() {
        assert_eq!([0.7, 0.8, 0.9, 0.95, 0.99].map(lead_for), [1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_quiet_server_is_bracketed() {
        for first in [10.0, 900.0, 60_000.0] {
            let mut server = Simulated::new(World::quiet(vec![1000.0]), 1);
            let found =
                mat(&mut server, &Candidate::default(), &parameters(first, 1)).expect("it ends");
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
            let found =
                mat(&mut server, &Candidate::default(), &parameters(50.0, seed)).expect("so");
            let estimate = found.estimate_per_s().expect("something holds");
            (930.0..1070.0).contains(&estimate)
        });
        let close = close.count();
        assert!(close >= 190, "{close} of 200");
    }

    /// A server that ends under load is no weakness of the generator, and the search goes on below
    /// that rate.
    #[test]
    fn a_server_that_ends_under_load_breaks() {
        let world = World { ends_above: 700.0, ..World::quiet(vec![1000.0]) };
        let mut server = Simulated::new(world, 1);
        let found =
            mat(&mut server, &Candidate::default(), &parameters(100.0, 1)).expect("it ends");
        let (held, broke) = (found.held_per_s.expect("so"), found.broke_per_s.expect("so"));
        assert!(held <= 700.0 && 700.0 < broke && broke / held < 1.05 + 1e-6, "{found:?}");
        assert!(!found.generator_bound && found.void_runs == 0, "{found:?}");
        assert_eq!(found.broken, ["the server has ended"]);
    }

    /// Some rates are void whatever is requested: the generator is not the cause.
    #[test]
    fn what_is_void_for_another_reason_is_no_limit_of_the_generator() {
        let late = LATE;
        let read = Void::Conditions("4096 bytes were read from the disk".into());
        let wrong = Void::WrongReply("/a at byte 3".into());
        let check = |reasons: [&Void; 2], expected: (Judged, bool)| {
            let mut search = LimitSearch::new(parameters(500.0, 1));
            let figures = Figures { served_share: 1.0, kept_up_share: 1.0, ..Figures::default() };
            let mut judged = search.record_run(
                400.0,
                &Observation { figures: Some(figures), ..Observation::default() },
            );
            for why in reasons {
                let figures = Some(Figures::default());
                let void = vec![why.clone()];
                judged = search
                    .record_run(500.0, &Observation { figures, void, ..Observation::default() });
            }
            assert_eq!((judged, search.found().generator_bound), expected, "{reasons:?}");
        };
        check([&late, &late], (Judged::Void, true));
        check([&read, &read], (Judged::Void, false));
        check([&late, &read], (Judged::Void, false));
        check([&late, &wrong], (Judged::Broke, false));
    }

    /// The middle of what held and what broke says nothing where nearly all between was void.
    #[test]
    fn what_cannot_be_judged_leaves_a_lower_bound() {
        let figures = |served_share| {
            let figures = Figures { served_share, kept_up_share: 1.0, ..Figures::default() };
            Observation { figures: Some(figures), ..Observation::default() }
        };
        let void = |why: &Void| Observation { void: vec![why.clone()], ..figures(1.0) };
        let found = |why: &Void| {
            let mut search = LimitSearch::new(parameters(400.0, 1));
            search.record_run(400.0, &figures(1.0));
            search.record_run(800.0, &figures(0.5));
            assert_eq!([0, 1].map(|_| search.record_run(560.0, &void(why))), [Judged::Void; 2]);
            search.found()
        };
        let read = found(&Void::Conditions("4096 bytes were read from the disk".into()));
        assert_eq!((read.estimate_per_s(), read.broke_per_s), (Some(400.0), None));
        assert!(!read.generator_bound && read.broken.is_empty(), "{read:?}");
        let late = found(&LATE);
        assert!(late.generator_bound && late.broke_per_s == Some(800.0), "{late:?}");
    }

    /// A rate is judged by the runs that were not disturbed, and where all were disturbed nothing
    /// is known of it.
    #[test]
    fn runs_that_others_disturbed_are_made_again_and_say_nothing() {
        let disturbed = || {
            let (disturbed, bound) = (Disturbed::ServerCpus, 0.05);
            vec![Void::Interference { disturbed, share: 0.4, bound }, LATE]
        };
        let capacity_seen = |is_disturbed: &dyn Fn(usize) -> bool| {
            let mut search = LimitSearch::new(parameters(100.0, 1));
            let mut runs = 0;
            while let Some(request) = search.next() {
                let served_share = (1000.0 / request.rate).min(1.0);
                // Beside a foreign load the server seems to sustain half of that.
                let halved = Figures { served_share: served_share / 2.0, ..Figures::default() };
                let quiet = Figures { served_share, kept_up_share: 1.0, ..Figures::default() };
                let observation = match is_disturbed(runs) {
                    true => Observation {
                        figures: Some(halved),
                        void: disturbed(),
                        ..Observation::default()
                    },
                    false => Observation { figures: Some(quiet), ..Observation::default() },
                };
                search.record_run(request.rate, &observation);
                runs += 1;
            }
            search.found()
        };
        let comes_and_goes = capacity_seen(&|run| run % 6 >= 2);
        let estimate = comes_and_goes.estimate_per_s().expect("something held");
        assert!(
            comes_and_goes.is_limit() && (950.0..1070.0).contains(&estimate),
            "{comes_and_goes:?}"
        );
        let stays = capacity_seen(&|run| run >= 3);
        assert!(!stays.is_limit() && !stays.generator_bound, "{stays:?}");
        let always = capacity_seen(&|_| true);
        assert_eq!((always.held_per_s, always.is_limit()), (None, false), "{always:?}");
    }

    #[test]
    fn a_generator_that_gives_out_is_said() {
        let world = World { generator: 300.0, ..World::quiet(vec![1000.0]) };
        let mut server = Simulated::new(world, 1);
        let found =
            mat(&mut server, &Candidate::default(), &parameters(100.0, 1)).expect("it ends");
        assert!(found.generator_bound && found.broke_per_s.is_none(), "{found:?}");
        assert!(found.held_per_s.is_some_and(|held| (285.0..=300.0).contains(&held)));
        assert!(found.void_runs >= 2);
    }

    /// An unfair server gets twice as many replies out by leaving one in five large files
    /// unanswered.
    #[test]
    fn an_unfair_server_sustains_nothing() {
        let world = World { unfair: vec![0], window_s: 60.0, ..World::quiet(vec![1000.0]) };
        let mut server = Simulated::new(world, 1);
        // Below this rate a kind of file is requested too rarely to be judged in one run.
        let mut parameters = parameters(500.0, 1);
        parameters.rules.min = 200.0;
        let found = mat(&mut server, &Candidate::default(), &parameters).expect("it ends");
        assert_eq!(found.held_per_s, None);
        assert!(found.broken[0].contains("spread=2%"), "{found:?}");
    }

    /// A p99 of 2 ms that is mostly lag does not say that the server takes more than 1 ms.
    #[test]
    fn what_breaks_by_the_generators_own_lag_is_not_the_servers_limit() {
        let conditions = "p99=1ms".parse().expect("right");
        let mut search = LimitSearch::new(LimitParameters { conditions, ..parameters(100.0, 1) });
        while let Some(asked) = search.next() {
            let is_late = asked.rate > 400.0;
            let figures = Figures {
                served_share: 1.0,
                kept_up_share: 1.0,
                times_us: [("p99".to_owned(), if is_late { 2000.0 } else { 500.0 })].into(),
                mostly_own_lag: is_late.then(|| "p99".to_owned()).into_iter().collect(),
                ..Figures::default()
            };
            let judged = search.record_run(
                asked.rate,
                &Observation { figures: Some(figures), ..Observation::default() },
            );
            assert_eq!(judged, if is_late { Judged::Void } else { Judged::Held });
        }
        let found = search.found();
        assert!(found.generator_bound && found.broke_per_s.is_none(), "{found:?}");
        assert!(found.held_per_s.is_some_and(|held| (375.0..=400.0).contains(&held)), "{found:?}");
    }

    /// What the generator did says nothing about the server, however often it happens.
    #[test]
    fn a_generator_that_makes_no_load_gives_nothing_up() {
        let mut search = LimitSearch::new(parameters(400.0, 1));
        let mut begun = 0;
        while let Some(asked) = search.next() {
            begun += 1;
            let served_share = (1000.0 / asked.rate).min(1.0);
            let figures = Figures { served_share, kept_up_share: 1.0, ..Figures::default() };
            let why = Void::Generator("it cannot start a thread".into());
            search.record_run(
                asked.rate,
                &match begun {
                    1..=2 => Observation { void: vec![why], ..Observation::default() },
                    _ => Observation { figures: Some(figures), ..Observation::default() },
                },
            );
        }
        let found = search.found();
        assert_eq!((found.failed.as_deref(), found.void_runs), (None, 2));
        assert!(!found.generator_bound && found.held_per_s.is_some(), "{found:?}");
    }

    #[test]
    fn what_does_not_start_is_given_up() {
        let world = World { broken: vec![0], ..World::quiet(vec![1000.0]) };
        let mut server = Simulated::new(world, 1);
        let found =
            mat(&mut server, &Candidate::default(), &parameters(500.0, 1)).expect("it ends");
        assert_eq!((found.runs, found.failed.as_deref()), (2, Some("it does not start")));
        assert_eq!(found.reasons(), ["it does not start"]);
    }
}
