//! Candidates measured against each other in blocks.
//!
//! In a block every candidate's limit is found once, and the runs of all of them alternate, in a
//! new random order: what slows the machine for a while slows all of them. So the estimates of a
//! block are pairs, and two candidates are compared by their ratios. Which candidates take part in
//! which block, and when there are enough blocks, is decided in `tune`.

use super::mat::{Found, LimitParameters, LimitSearch};
use super::{Candidate, Measure, ServedByKind, Stop, least_served};
use crate::record::{Figures, Purpose, fare_alike};
use crate::void::{Void, generator_gave_out};
use load::find_limit::{Conditions, Judged, Rules};
use statistics::{Generator, Interval, anytime_interval, ratio_of_logs};
use std::collections::{BTreeMap, BTreeSet};

/// Where more runs were made than were estimated, this part of them is estimated to come.
const OVERDUE_PARTS: f64 = 4.0;

/// A limit is not sought below what was expected by more than this factor.
const DEPTH: f64 = 32.0;

/// What is known of a candidate.
#[derive(Clone, Debug, Default)]
pub struct CandidateState {
    /// Its estimated limit in each block it took part in, requests a second.
    pub estimates_per_s: BTreeMap<u32, f64>,
    /// The blocks in which every rate broke: the lowest of these rates stands for the limit, which
    /// is not above it. If such blocks were left out, the blocks in which the candidate fared well
    /// would decide.
    pub bounds: BTreeSet<u32>,
    /// Why it can no longer win.
    pub out: Option<String>,
    /// Whether the generator, not the server, was the limit in some block.
    pub generator_bound: bool,
    /// Runs, void ones included.
    pub runs: u32,
    pub(super) served_by_kind: ServedByKind,
}

/// How many runs were made, and how many of them say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// All.
    pub made: u32,
    /// Runs that were void.
    pub void: u32,
    /// Void runs that others disturbed.
    pub disturbed: u32,
    /// Runs in which the generator reached its limit.
    pub generator_gave_out: u32,
}

impl Runs {
    fn count(&mut self, judged: Judged, void: &[Void]) {
        self.made += 1;
        if judged == Judged::Void {
            self.void += 1;
            self.disturbed += u32::from(void.iter().any(Void::is_interference));
            self.generator_gave_out += u32::from(generator_gave_out(void));
        }
    }
}

/// The progress of a search, after each run.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress<'a> {
    /// The stage of the search.
    pub stage: &'a Purpose,
    /// Runs so far, void ones included.
    pub runs: u32,
    /// Void ones.
    pub void_runs: u32,
    /// Seconds that these took.
    pub spent_s: f64,
    /// Seconds that the rest is estimated to take if runs take as long as these did: a run at
    /// least.
    pub left_s: f64,
    /// The candidate of the last run.
    pub candidate: &'a str,
    /// The rate of the last run.
    pub rate: f64,
    /// The judgement of the last run.
    pub judged: Judged,
    /// The best candidate so far and its estimated limit.
    pub best: Option<(&'a str, f64)>,
}

/// How closely the limit of the winner is found at the end, which is reported; races average over
/// blocks.
const LAST_GAP: f64 = 0.02;

/// The candidates, and what is known of each.
pub struct Blocks<'m> {
    measure: &'m mut dyn Measure,
    watch: &'m mut dyn FnMut(&Progress<'_>),
    /// The conditions under which a rate counts as sustained.
    conditions: Conditions,
    /// How closely a limit is found, relative.
    gap: f64,
    seed: u64,
    candidates: Vec<Candidate>,
    candidate_states: Vec<CandidateState>,
    blocks: u32,
    runs: Runs,
    spent_s: f64,
    /// Seconds that all runs may take; none: no bound.
    budget_s: Option<f64>,
    forecast: RunForecast,
}

/// How long the search is estimated to go on.
#[derive(Clone, Copy, Default)]
struct RunForecast {
    /// The number of runs when it was estimated.
    from: f64,
    /// The number of the last run.
    runs: f64,
}

/// The outcome of a step of a search.
enum Step {
    /// The step made a run.
    Made,
    /// The limit is known: no run is needed.
    AtItsEnd,
    /// The budget has no time for another run.
    NoTime,
}

impl<'m> Blocks<'m> {
    /// A search without candidates yet.
    pub fn new(
        measure: &'m mut dyn Measure,
        watch: &'m mut dyn FnMut(&Progress<'_>),
        conditions: Conditions,
        (gap, seed): (f64, u64),
    ) -> Self {
        Self {
            measure,
            watch,
            conditions,
            gap,
            seed,
            candidates: Vec::new(),
            candidate_states: Vec::new(),
            blocks: 0,
            runs: Runs::default(),
            spent_s: 0.0,
            budget_s: None,
            forecast: RunForecast::default(),
        }
    }

    /// Bounds the seconds of all runs: from now on no run is begun that would not end within them.
    pub fn set_budget(&mut self, budget_s: Option<f64>) {
        self.budget_s = budget_s;
    }

    /// Records how many runs are estimated to come, but no more than the budget allows.
    pub fn expect_runs(&mut self, runs: f64) {
        let from = f64::from(self.runs.made);
        self.forecast = RunForecast { from, runs: from + runs };
    }

    /// Adds a candidate; its number counts from 0.
    pub fn add(&mut self, candidate: Candidate) -> usize {
        self.candidates.push(candidate);
        self.candidate_states.push(CandidateState::default());
        self.candidates.len() - 1
    }

    /// All candidates.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// What is known of each.
    pub fn candidate_states(&self) -> &[CandidateState] {
        &self.candidate_states
    }

    /// Blocks so far.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Runs so far.
    pub fn runs(&self) -> Runs {
        self.runs
    }

    /// Seconds that the runs so far took, by their records and not by the clock: a search that is
    /// resumed must decide as it did before.
    pub fn spent_s(&self) -> f64 {
        self.spent_s
    }

    /// Finds the limits of all of `field` once, beginning near where they are expected: at their
    /// own estimates so far, else at `level_per_s`. False if the budget ended before all were
    /// found: then the limits that were found do not count, as they have nothing to be compared
    /// with.
    ///
    /// # Errors
    /// When the search is to end.
    pub fn block(
        &mut self,
        field: &[usize],
        level_per_s: f64,
        stage: &Purpose,
    ) -> Result<bool, Stop> {
        self.blocks += 1;
        let mut generator = Generator::new(self.seed ^ u64::from(self.blocks));
        let mut searches: Vec<(usize, LimitSearch)> = Vec::new();
        for &candidate in field {
            let level = self.candidate_states[candidate].level_per_s().unwrap_or(level_per_s);
            let rules = self.rules(level, &mut generator);
            searches.push((candidate, self.search(rules, stage, generator.next_u64())));
        }
        let mut is_at_work = true;
        while is_at_work {
            is_at_work = false;
            generator.shuffle(&mut searches);
            for (candidate, search) in &mut searches {
                match self.step(*candidate, search)? {
                    Step::Made => is_at_work = true,
                    Step::AtItsEnd => (),
                    Step::NoTime => return Ok(false),
                }
            }
        }
        searches.sort_by_key(|(candidate, _)| *candidate);
        searches
            .iter()
            .try_for_each(|(candidate, search)| self.record_limit(*candidate, &search.found()))?;
        Ok(true)
    }

    /// Finds the limit of one candidate from far away; none if the budget ended before.
    ///
    /// # Errors
    /// When the search is to end.
    pub fn find_first_limit(
        &mut self,
        candidate: usize,
        first: f64,
    ) -> Result<Option<Found>, Stop> {
        self.blocks += 1;
        let rules = Rules { min: 1.0, growth: 2.0, gap: 0.1, ..self.rules_from(first) };
        let (found, is_whole) = self.alone(candidate, rules, &Purpose::Level)?;
        Ok(is_whole.then_some(found))
    }

    /// Decides with confidence which rate a candidate sustains, from where it is expected; and
    /// whether the budget lasted until then.
    ///
    /// # Errors
    /// When the search is to end.
    pub fn confirm(&mut self, candidate: usize, lead: u32) -> Result<(Found, bool), Stop> {
        self.blocks += 1;
        let level = self.candidate_states[candidate].level_per_s();
        let first = level.unwrap_or(1.0) / (1.0 + self.gap);
        let gap = LAST_GAP.min(self.gap);
        let rules = Rules { lead, end_trials_max: 3 * lead, gap, ..self.rules_from(first) };
        self.alone(candidate, rules, &Purpose::Confirmation)
    }

    /// Runs one search to its end, or to that of the budget; and whether it reached its own.
    fn alone(
        &mut self,
        candidate: usize,
        rules: Rules,
        stage: &Purpose,
    ) -> Result<(Found, bool), Stop> {
        let seed = Generator::new(self.seed ^ u64::from(self.blocks)).next_u64();
        let mut search = self.search(rules, stage, seed);
        loop {
            match self.step(candidate, &mut search)? {
                Step::Made => (),
                Step::AtItsEnd => break,
                Step::NoTime => return Ok((search.found(), false)),
            }
        }
        let found = search.found();
        self.measure.limit_found(&self.candidates[candidate], &found)?;
        Ok((found, true))
    }

    /// Checks again, after further runs, whether a candidate drops a kind of file; if so it is out.
    pub fn is_fair(&mut self, candidate: usize) -> bool {
        let state = &mut self.candidate_states[candidate];
        if state.out.is_none() {
            state.out = state.unfairness(self.conditions.spread_max);
        }
        state.out.is_none()
    }

    /// The candidates of `field` that can still win, the best first: by the geometric means of
    /// their estimates in the blocks from `from_block` on in which all of them took part; last the
    /// candidates without an estimate since.
    pub fn ranking(&self, field: &[usize], from_block: u32) -> Vec<usize> {
        let able = field.iter().copied().filter(|&one| self.candidate_states[one].out.is_none());
        let (mut ranked, unknown): (Vec<usize>, Vec<usize>) = able.partition(|&one| {
            self.candidate_states[one].estimates_per_s.range(from_block..).next().is_some()
        });
        let common = self.common_blocks(&ranked, from_block);
        let score = |one: usize| {
            let estimates = &self.candidate_states[one].estimates_per_s;
            common.iter().map(|block| estimates[block].ln()).sum::<f64>()
        };
        ranked.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
        ranked.extend(unknown);
        ranked
    }

    /// The factor by which `a` sustains more than `b`, from the blocks from `from_block` on; the
    /// interval holds with that confidence however often it is computed on the way.
    pub fn ratio(&self, a: usize, b: usize, from_block: u32, confidence: f64) -> Interval {
        let logs = self.log_ratios(a, b, from_block);
        ratio_of_logs(anytime_interval(&logs, confidence))
    }

    /// The logarithms of the ratios of two candidates, block by block, without blocks in which
    /// neither held any rate.
    pub fn log_ratios(&self, a: usize, b: usize, from_block: u32) -> Vec<f64> {
        let (of_a, of_b) = (&self.candidate_states[a], &self.candidate_states[b]);
        let mut blocks = self.common_blocks(&[a, b], from_block);
        blocks.retain(|block| !(of_a.bounds.contains(block) && of_b.bounds.contains(block)));
        let (of_a, of_b) = (&of_a.estimates_per_s, &of_b.estimates_per_s);
        blocks.iter().map(|block| (of_a[block] / of_b[block]).ln()).collect()
    }

    /// The geometric mean of a candidate's estimates.
    pub fn mean_per_s(&self, candidate: usize) -> Option<f64> {
        geometric_mean(self.candidate_states[candidate].estimates_per_s.values())
    }

    fn common_blocks(&self, field: &[usize], from_block: u32) -> Vec<u32> {
        let blocks = from_block..=self.blocks;
        let took_part = |block: &u32| {
            field.iter().all(|&one| self.candidate_states[one].estimates_per_s.contains_key(block))
        };
        blocks.filter(took_part).collect()
    }

    /// One run of a search.
    fn step(&mut self, candidate: usize, search: &mut LimitSearch) -> Result<Step, Stop> {
        let Some(request) = search.next() else { return Ok(Step::AtItsEnd) };
        if !self.has_time() {
            return Ok(Step::NoTime);
        }
        let observation = self.measure.measure(&self.candidates[candidate], &request)?;
        let judged = search.record_run(request.rate, &observation);
        self.runs.count(judged, &observation.void);
        self.spent_s += observation.took_s;
        self.candidate_states[candidate].runs += 1;
        if let (Judged::Held, Some(figures)) = (judged, &observation.figures) {
            self.candidate_states[candidate].pool(figures);
        }
        let (best, left_s) = (self.best(), self.left_s());
        (self.watch)(&Progress {
            stage: &request.purpose,
            runs: self.runs.made,
            void_runs: self.runs.void,
            spent_s: self.spent_s,
            left_s,
            candidate: &self.candidates[candidate].name,
            rate: request.rate,
            judged,
            best: best.map(|(one, limit)| (&*self.candidates[one].name, limit)),
        });
        Ok(Step::Made)
    }

    /// Whether a run that takes as long as those before it ends within the budget.
    fn has_time(&self) -> bool {
        let is_first = self.runs.made == 0;
        is_first || self.budget_s.is_none_or(|all| self.spent_s + self.run_s() <= all)
    }

    /// Seconds that a run has taken on average; not a number before the first.
    pub fn run_s(&self) -> f64 {
        self.spent_s / f64::from(self.runs.made)
    }

    fn left_s(&self) -> f64 {
        let run_s = self.run_s();
        let runs = f64::from(self.runs.made);
        // A search that takes longer than was estimated goes on for a while.
        let further = (runs - self.forecast.from) / OVERDUE_PARTS;
        let estimated_s = (self.forecast.runs - runs).max(further) * run_s;
        let budget_s = self.budget_s.map_or(f64::INFINITY, |budget| budget - self.spent_s);
        estimated_s.min(budget_s).max(run_s)
    }

    /// The candidate with the highest mean of those with the most blocks: they were kept because
    /// they were the best.
    fn best(&self) -> Option<(usize, f64)> {
        let able =
            (0..self.candidates.len()).filter(|&one| self.candidate_states[one].out.is_none());
        let known = able.filter_map(|one| Some((one, self.mean_per_s(one)?)));
        let blocks = |one: usize| self.candidate_states[one].estimates_per_s.len();
        known.max_by(|a, b| (blocks(a.0), a.1).partial_cmp(&(blocks(b.0), b.1)).expect("numbers"))
    }

    fn record_limit(&mut self, candidate: usize, found: &Found) -> Result<(), Stop> {
        let spread_max = self.conditions.spread_max;
        let state = &mut self.candidate_states[candidate];
        state.generator_bound |= found.generator_bound;
        let estimate = found.estimate_per_s().filter(|_| found.is_limit());
        if let Some(estimate) = estimate {
            state.estimates_per_s.insert(found.block, estimate);
        } else if let Some(why) = &found.failed {
            state.out = Some(why.clone());
        } else if let (None, Some(broke)) = (found.held_per_s, found.broke_per_s) {
            if state.estimates_per_s.is_empty() {
                let broken = found.broken.first().map_or("", String::as_str);
                state.out = Some(format!("no rate holds: {broken}"));
            } else if !found.generator_bound {
                state.estimates_per_s.insert(found.block, broke);
                state.bounds.insert(found.block);
            }
        }
        // Where runs were void and so the limit was not observed, the block says nothing of it.
        if state.out.is_none() {
            state.out = state.unfairness(spread_max);
        }
        self.measure.limit_found(&self.candidates[candidate], found)
    }

    fn search(&self, rules: Rules, stage: &Purpose, seed: u64) -> LimitSearch {
        let conditions = self.conditions.clone();
        LimitSearch::new(LimitParameters {
            rules,
            conditions,
            purpose: stage.clone(),
            block: self.blocks,
            seed,
        })
    }

    /// Begins a little below the level, by a random part of the gap: if all candidates were tried
    /// at the same rates, those that are nearly alike would look the same.
    fn rules(&self, level_per_s: f64, generator: &mut Generator) -> Rules {
        let gap = 1.0 + self.gap;
        self.rules_from(level_per_s / gap * gap.powf(generator.unit() - 0.5))
    }

    fn rules_from(&self, first: f64) -> Rules {
        Rules {
            first,
            min: (first / DEPTH).max(1.0),
            growth: (1.0 + self.gap) * (1.0 + self.gap),
            gap: self.gap,
            lead: 1,
            end_trials_max: 1,
            first_again: true,
        }
    }
}

fn geometric_mean<'r>(rates: impl Iterator<Item = &'r f64>) -> Option<f64> {
    let logs: Vec<f64> = rates.map(|rate| rate.ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

impl CandidateState {
    /// The rate at which its limit is expected, from the blocks in which it held a rate.
    fn level_per_s(&self) -> Option<f64> {
        let held = self.estimates_per_s.iter().filter(|(block, _)| !self.bounds.contains(block));
        geometric_mean(held.map(|(_, rate)| rate))
    }

    /// In a short run few files of a rare kind are requested; in all runs that held there are
    /// enough.
    fn pool(&mut self, figures: &Figures) {
        for (kind, (requests, replies)) in &figures.served_by_kind {
            let sum = self.served_by_kind.entry(kind.clone()).or_default();
            *sum = (sum.0 + requests, sum.1 + replies);
        }
    }

    /// Why it is unfair, if a kind of file was dropped in the runs that held, and not by chance.
    fn unfairness(&self, spread_max: f64) -> Option<String> {
        if fare_alike(&self.served_by_kind) {
            return None;
        }
        let (kind, behind) = least_served(&self.served_by_kind)?;
        let points = behind * 100.0;
        (behind > spread_max).then(|| {
            format!("unfair: {kind} is served {points:.1} percentage points less than all")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Observation, RunRequest};
    use super::*;

    /// The first candidate sustains 1,000 requests a second in even blocks and none in odd ones,
    /// the second nothing after the first block, all others 900.
    struct Moody;

    impl Measure for Moody {
        fn measure(
            &mut self,
            candidate: &Candidate,
            request: &RunRequest,
        ) -> Result<Observation, Stop> {
            let sustains = match (candidate.name.as_str(), request.block) {
                ("moody", block) if block % 2 == 1 && block > 1 => 0.0,
                ("moody", _) => 1000.0,
                ("broken", block) if block > 1 => 0.0,
                _ => 900.0,
            };
            let served_share = f64::min(sustains / request.rate, 1.0);
            let figures = Figures { served_share, kept_up_share: 1.0, ..Figures::default() };
            Ok(Observation { figures: Some(figures), ..Observation::default() })
        }
    }

    fn with_blocks<T>(names: &[&str], count: u32, look: impl FnOnce(&Blocks<'_>) -> T) -> T {
        let (mut measure, mut watch) = (Moody, |_: &Progress<'_>| ());
        let mut blocks = Blocks::new(&mut measure, &mut watch, Conditions::default(), (0.04, 1));
        let field: Vec<usize> = names
            .iter()
            .map(|&name| blocks.add(Candidate { name: name.into(), ..Candidate::default() }))
            .collect();
        for _ in 0..count {
            assert!(
                blocks.block(&field, 900.0, &Purpose::Race).expect("it ends"),
                "there is no budget"
            );
        }
        look(&blocks)
    }

    #[test]
    fn blocks_in_which_nothing_held_count_against_a_candidate() {
        with_blocks(&["moody", "calm"], 21, |blocks| {
            assert_eq!(blocks.ranking(&[0, 1], 2), [1, 0]);
            let ratio = blocks.ratio(1, 0, 2, 0.95);
            assert!(ratio.low > 1.0, "{ratio:?}");
        });
    }

    /// Candidates are not ranked in the order in which they were named.
    #[test]
    fn a_candidate_that_holds_nothing_any_more_is_last() {
        with_blocks(&["broken", "calm"], 3, |blocks| {
            assert_eq!(blocks.ranking(&[0, 1], 2), [1, 0]);
            let logs = blocks.log_ratios(1, 0, 2);
            assert!(logs.len() == 2 && logs.iter().all(|&log| log > 1.0), "{logs:?}");
            assert!(blocks.candidate_states[0].level_per_s().is_some_and(|level| level > 800.0));
        });
    }

    #[test]
    fn of_two_that_hold_nothing_the_ratio_is_not_known() {
        with_blocks(&["broken", "broken"], 3, |blocks| {
            assert!(blocks.log_ratios(0, 1, 2).is_empty());
        });
    }

    /// The conditions allow five in a hundred requests to fail; of a rare kind three more did.
    #[test]
    fn a_kind_that_is_behind_by_chance_is_not_dropped() {
        let kinds = |large: (u64, u64)| [("small".into(), (10_000, 9500)), ("large".into(), large)];
        let unfairness = |large| {
            let served_by_kind = kinds(large).into();
            CandidateState { served_by_kind, ..CandidateState::default() }.unfairness(0.02)
        };
        assert_eq!(unfairness((120, 111)), None);
        assert!(
            unfairness((1200, 1110))
                .is_some_and(|why| why.starts_with("unfair: large is served 2."))
        );
    }
}
