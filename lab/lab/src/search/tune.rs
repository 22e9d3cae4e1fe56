//! The search for the best configuration of a server.
//!
//! *Halving*: all candidates for one block, the best third of them until they have two, the best
//! third of those until they have four, down to three candidates (successive halving, Jamieson and
//! Talwalkar 2016). *Grid*, as in the papers: all candidates for three blocks. Then the remaining
//! candidates race: blocks of their own until for each pair with the leader the interval of the
//! ratio says which is better, or that they are a tie (racing, Maron and Moore 1994; the intervals
//! hold at all looks at once). Where not all neighbours of the winner took part, because the
//! candidates were a sample or lie beside the grid, these neighbours then challenge it, one knob at
//! a time, each time in a race. All possible races share the confidence, and the pairs of a race
//! share its part.
//!
//! The base takes part in the first race; the gain of tuning is the product of the factors by which
//! each winner sustains more than the one before it, from the blocks of the races alone.

use super::blocks::{Blocks, CandidateState, Runs};
use super::grid::Grid;
use super::mat::{Found, lead_for};
use super::{Candidate, Stop};
use crate::record::Purpose;
use command::estimate::minutes;
use statistics::{Interval, Verdict, verdict};

/// Candidates that race.
const FINALISTS: usize = 3;
/// One in this many of a rung's candidates is kept.
const KEPT_PART: usize = 3;
/// Blocks of a grid.
const GRID_BLOCKS: u32 = 3;
/// Blocks of a race before anything is decided, and when it ends undecided.
const RACE_BLOCKS: (u32, u32) = (3, 20);
/// How often the neighbours of a winner are tried.
pub(super) const ROUNDS_MAX: u32 = 5;
/// Runs that one limit takes, as estimated in advance.
const RUNS_PER_LIMIT: f64 = 4.5;
/// If this share of the runs is void, that is the reason why nothing is clear, and no budget helps.
pub(super) const MUCH_VOID: f64 = 0.25;
/// The advice where other processes disturb the runs.
pub(crate) const FREE_CPUS: &str = "stop what else runs on the CPUs, or choose others \
                                    (--server-cpus, --client-cpus)";
/// Blocks that a race is estimated to take.
const RACE_BLOCKS_ESTIMATED: f64 = 8.0;
/// Runs for the first limit, found from far away, and for the last, found with confidence.
const RUNS_OF_ENDS: f64 = 24.0;
/// Runs of a budget that are kept for the last limit: in nine of ten noisy worlds it takes fewer,
/// and in half of them half as many.
const RUNS_KEPT_FOR_LAST: f64 = 26.0;
/// A first look at each candidate takes at most this times the runs estimated, in 199 of 200 noisy
/// worlds.
const RESERVE: f64 = 1.2;
/// The part of a budget that is left for neighbours, where not all configurations are candidates:
/// steps from a good one come nearer to the best than more drawn at random (with a quarter, races
/// that go on to their last block left no time for any).
const PART_FOR_NEIGHBOURS: f64 = 0.6;

/// How candidates are thinned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Every combination, equally often.
    Grid,
    /// Few runs for many, many for few.
    Halving,
}

/// The plan of a search.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The method of the search.
    pub method: Method,
    /// The configurations that may be tried.
    pub grid: Grid,
    /// Seconds that a run is estimated to take, until the first have shown how long they do.
    pub run_s: f64,
    /// Seconds that the search may take; none: no bound.
    pub budget_s: Option<f64>,
    /// The confidence with which the winner is to be right.
    pub confidence: f64,
    /// A difference smaller than this does not matter: 0.02 is 2 %.
    pub margin: f64,
    /// Where the first search begins, requests a second.
    pub first_per_s: f64,
    /// Seeds every choice.
    pub seed: u64,
}

/// A candidate that the winner raced with.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Its number among the candidates.
    pub candidate: usize,
    /// The factor by which the winner sustains more.
    pub ratio: Interval,
    /// The verdict that follows from the ratio.
    pub verdict: Verdict,
}

/// The confidence with which the results of the races hold, however often they were judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Certainty {
    /// The confidence of the interval of a rival, by itself.
    pub of_rival: f64,
    /// The confidence of the interval of the gain.
    pub of_gain: f64,
    /// Races that were run.
    pub races: u32,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// All candidates, the base first.
    pub candidates: Vec<Candidate>,
    /// The state of each.
    pub candidate_states: Vec<CandidateState>,
    /// The winner's number.
    pub winner: usize,
    /// The candidates that the winner raced with last, the best first, and then those that
    /// challenged it in vain.
    pub rivals: Vec<Rival>,
    /// The factor by which the winner sustains more than the base; none if it is the base.
    pub gain: Option<Interval>,
    /// The confidence of these results.
    pub certainty: Certainty,
    /// What the winner sustained in its last measurement.
    pub last_look: Found,
    /// Whether that was decided with confidence: otherwise the budget had run out.
    pub is_confirmed: bool,
    /// How many runs were made.
    pub runs: Runs,
    /// Whether the budget ended the search before its confidence did.
    pub budget_ended: bool,
    /// Whether neighbours won as often as they may challenge, and those of the last winner were not
    /// tried.
    pub rounds_ended: bool,
}

impl Tuned {
    /// Rivals of which it is not known whether the winner is better, or as good: while there are
    /// any, the best is not known.
    pub fn undecided(&self) -> impl Iterator<Item = &Rival> {
        self.rivals.iter().filter(|rival| rival.verdict == Verdict::CannotTell)
    }

    /// Whether the best is known: the winner was measured, and is better than, or tied with, all
    /// that raced with it.
    pub fn is_decided(&self) -> bool {
        let is_known = !self.candidate_states[self.winner].estimates_per_s.is_empty();
        is_known && self.undecided().next().is_none()
    }
}

impl Plan {
    /// The candidates to begin with: as many as the budget allows.
    pub fn candidates(&self) -> Vec<Candidate> {
        self.candidates_if(self.run_s)
    }

    fn candidates_if(&self, run_s: f64) -> Vec<Candidate> {
        match self.method {
            Method::Grid => self.grid.all(),
            Method::Halving => self.grid.sample(self.initial(run_s), self.seed),
        }
    }

    /// Seconds that the whole search is estimated to take, the budget if that is less. Neighbours
    /// of the best of a sample take what it has left.
    pub fn expected_s(&self) -> f64 {
        let candidates = self.candidates().len();
        let all = self.estimated_runs(candidates) * self.run_s;
        let is_sample = candidates < self.grid.size();
        self.budget_s.map_or(all, |budget| if is_sample { budget } else { all.min(budget) })
    }

    /// Seconds that a search of all configurations is estimated to take, whatever the budget.
    pub fn needed_s(&self) -> f64 {
        self.estimated_runs(self.grid.size()) * self.run_s
    }

    /// Seconds that a first look at as few candidates as possible is estimated to take: in less
    /// time nothing may be found.
    pub fn least_s(&self) -> f64 {
        least_runs(self.least()) * self.run_s
    }

    /// The smallest number of candidates with which a search begins.
    pub fn least(&self) -> usize {
        self.grid.size().min(FINALISTS + 1)
    }

    /// Runs that this many candidates are estimated to take.
    pub fn estimated_runs(&self, candidates: usize) -> f64 {
        self.runs_from(0, candidates) + RUNS_OF_ENDS / 2.0
    }

    /// Runs that this many candidates are estimated to take, without those for the first limit, and
    /// without those of the first `done` rungs, or blocks of a grid, which are done.
    fn runs_from(&self, done: u32, candidates: usize) -> f64 {
        let mut limits = 0.0;
        let mut left = candidates;
        match self.method {
            Method::Grid => limits += left as f64 * f64::from(GRID_BLOCKS - done),
            Method::Halving => {
                for blocks in rungs().skip(done as usize) {
                    if left <= FINALISTS {
                        break;
                    }
                    limits += left as f64 * f64::from(blocks);
                    left = kept(left);
                }
            }
        }
        limits += candidates.min(FINALISTS + 1) as f64 * RACE_BLOCKS_ESTIMATED;
        limits * RUNS_PER_LIMIT + RUNS_OF_ENDS / 2.0
    }

    /// How many candidates to begin with, if a run takes `run_s` seconds.
    fn initial(&self, run_s: f64) -> usize {
        let size = self.grid.size();
        let Some(budget_s) = self.budget_s else { return size };
        let runs = |part: f64| budget_s * part / run_s;
        if self.estimated_runs(size) <= runs(1.0) {
            return size;
        }
        let fits = |count| self.estimated_runs(count) <= runs(1.0 - PART_FOR_NEIGHBOURS);
        most_fitting(self.least(), size, fits)
    }
}

/// Runs for the first limit and one of each candidate, and what nearly all searches need beyond
/// that.
fn least_runs(candidates: usize) -> f64 {
    RESERVE * (RUNS_OF_ENDS / 2.0 + candidates as f64 * RUNS_PER_LIMIT)
}

/// The largest number, from `least` on and below `end`, that fits; `least` if none does. Where a
/// number does not fit, no greater one does: a grid may have too many points to try each number in
/// turn.
fn most_fitting(least: usize, end: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut most, mut end) = (least, end);
    while end.saturating_sub(most) > 1 {
        let middle = most + (end - most) / 2;
        if fits(middle) {
            most = middle;
        } else {
            end = middle;
        }
    }
    most
}

/// Blocks of each rung of a halving: 1, 2, 4 and 8 blocks in all, as the field shrinks to a third.
/// Measurements of earlier rungs count.
fn rungs() -> impl Iterator<Item = u32> {
    [1, 1, 2, 4].into_iter().chain(std::iter::repeat(8))
}

fn kept(field: usize) -> usize {
    field.div_ceil(KEPT_PART).max(FINALISTS)
}

/// Finds the best configuration. `blocks` have no candidates yet.
///
/// # Errors
/// When the search was interrupted, or no candidate sustains any rate.
pub fn tune(blocks: &mut Blocks<'_>, plan: &Plan) -> Result<Tuned, Stop> {
    blocks.set_budget(plan.budget_s);
    let mut search = Search {
        blocks,
        plan,
        level_per_s: 0.0,
        budget_ended: false,
        rounds_ended: false,
        races: 0,
        races_max: 1,
        is_sample: false,
    };
    let field = search.enter_candidates()?;
    let finalists = match plan.method {
        Method::Grid => search.grid(&field)?,
        Method::Halving => search.halve(&field)?,
    };
    if finalists.iter().any(|&one| !search.unknown_neighbours(one).is_empty()) {
        search.races_max += ROUNDS_MAX;
    }
    let race = search.race(&finalists, &Purpose::Race)?;
    let gain = race.gain_over(0);
    let (race, gain) = search.challenges(race, gain)?;
    search.is_sample = false;
    search.tuned(race, gain)
}

/// The outcome of a race.
struct Race {
    winner: usize,
    rivals: Vec<Rival>,
    /// Its first block.
    from: u32,
    /// The confidence of each pair.
    confidence: f64,
}

impl Race {
    /// The factor by which the winner sustains more than another candidate; unknown if that did not
    /// race.
    fn gain_over(&self, other: usize) -> Gain {
        let rival = self.rivals.iter().find(|rival| rival.candidate == other);
        let itself = Interval { low: 1.0, high: 1.0 };
        match rival {
            _ if self.winner == other => Gain { ratio: itself, confidence: 1.0 },
            Some(rival) => Gain { ratio: rival.ratio, confidence: self.confidence },
            None => UNKNOWN,
        }
    }

    /// Whether the winner was found better than another candidate.
    fn is_won_against(&self, other: usize) -> bool {
        let over = self.rivals.iter().find(|rival| rival.candidate == other);
        over.is_some_and(|rival| rival.verdict == Verdict::Higher)
    }
}

/// A gain, and the confidence in it.
#[derive(Clone, Copy)]
struct Gain {
    ratio: Interval,
    confidence: f64,
}

/// An interval of all values, which is certain.
const UNKNOWN: Gain = Gain { ratio: Interval { low: 0.0, high: f64::INFINITY }, confidence: 1.0 };

impl Gain {
    /// The gain of both together; the confidence is lower, as each may be wrong.
    fn times(self, other: Self) -> Self {
        let (a, b) = (self.ratio, other.ratio);
        let ratio = Interval { low: a.low * b.low, high: a.high * b.high };
        Self { ratio, confidence: self.confidence + other.confidence - 1.0 }
    }
}

struct Search<'c, 'm> {
    blocks: &'c mut Blocks<'m>,
    plan: &'c Plan,
    /// About what the base sustains, requests a second.
    level_per_s: f64,
    budget_ended: bool,
    rounds_ended: bool,
    /// Races so far, and how many are possible: they share the confidence.
    races: u32,
    races_max: u32,
    /// Whether the candidates are a sample: then the remaining time is for neighbours of the best
    /// of them.
    is_sample: bool,
}

impl Search<'_, '_> {
    /// Enters the candidates. The first that sustains anything shows about what they sustain, and
    /// how many of the others there is time for.
    fn enter_candidates(&mut self) -> Result<Vec<usize>, Stop> {
        let (mut field, mut broken) = (Vec::new(), None::<String>);
        let candidates = self.plan.candidates();
        self.is_sample = candidates.len() < self.plan.grid.size();
        self.expect_runs(self.plan.estimated_runs(candidates.len()));
        for candidate in candidates {
            if !field.is_empty() && !self.affords(1) {
                return Err(Stop::Failed(match broken {
                    None => format!("the budget has ended: {}", self.no_valid_run()),
                    Some(why) => format!(
                        "the budget ended before a configuration kept the conditions at any rate: \
                         {why}"
                    ),
                }));
            }
            let number = self.blocks.add(candidate);
            field.push(number);
            let found = self.blocks.find_first_limit(number, self.plan.first_per_s)?;
            let Some(found) = found else {
                return Err(self.too_short(self.plan.least()));
            };
            if let Some(level) = found.estimate_per_s() {
                self.level_per_s = level;
                let mut others = self.plan.candidates_if(self.run_s());
                others.retain(|other| self.blocks.candidates().iter().all(|known| known != other));
                field.extend(others.into_iter().map(|other| self.blocks.add(other)));
                self.is_sample = field.len() < self.plan.grid.size();
                return Ok(field);
            }
            broken = found.failed.or(found.broken.into_iter().next());
        }
        Err(Stop::Failed(match broken {
            None => self.no_valid_run(),
            Some(why) => format!("no configuration keeps the conditions at any rate: {why}"),
        }))
    }

    /// The message where every run was void.
    fn no_valid_run(&self) -> String {
        let Runs { made, disturbed, .. } = self.blocks.runs();
        let why = match disturbed {
            0 => String::new(),
            _ => format!(": other processes disturbed {disturbed} of {made}; {FREE_CPUS}"),
        };
        format!("no configuration could be measured, because the runs were void{why}")
    }

    /// Seconds that a run takes.
    fn run_s(&self) -> f64 {
        match self.blocks.runs().made {
            0 => self.plan.run_s,
            _ => self.blocks.run_s(),
        }
    }

    /// Updates how many runs are estimated to come.
    fn expect_runs(&mut self, runs: f64) {
        let runs = if self.is_sample { f64::INFINITY } else { runs };
        self.blocks.expect_runs(runs);
    }

    fn grid(&mut self, field: &[usize]) -> Result<Vec<usize>, Stop> {
        for block in 0..GRID_BLOCKS {
            let able = self.able(field);
            if !self.affords(able.len()) {
                if block == 0 {
                    return Err(self.grid_is_too_large(able.len()));
                }
                self.budget_ended = true;
                break;
            }
            self.expect_runs(self.plan.runs_from(block, able.len()));
            if !self.blocks.block(&able, self.level_per_s, &Purpose::Grid)? {
                self.budget_ended = true;
                break;
            }
        }
        self.finalists(field, FINALISTS)
    }

    /// The message where runs take so much longer than was estimated that a block of all does not
    /// fit.
    fn grid_is_too_large(&self, able: usize) -> Stop {
        let run_s = self.run_s();
        let needed_s = self.blocks.spent_s() + self.plan.runs_from(0, able) * run_s;
        Stop::Failed(format!(
            "a run takes {run_s:.1} s here, so that a grid of {able} configurations needs about \
             {}: a larger budget, fewer knobs or values, or halving",
            minutes(needed_s)
        ))
    }

    /// The message where the budget ended before this many configurations were measured once.
    fn too_short(&self, candidates: usize) -> Stop {
        let Runs { made, disturbed, .. } = self.blocks.runs();
        // Where runs are void a longer budget does not help.
        if f64::from(disturbed) >= MUCH_VOID * f64::from(made) && disturbed > 0 {
            return Stop::Failed(format!(
                "the budget has ended before {candidates} configurations had been looked at once, \
                 because other processes disturbed {disturbed} of {made} runs: {FREE_CPUS}"
            ));
        }
        let run_s = self.run_s();
        let spent_s = self.blocks.spent_s();
        let needed_s = (least_runs(candidates) * run_s).max(1.5 * spent_s);
        Stop::Failed(format!(
            "a run takes {run_s:.1} s here, and the budget has ended before {candidates} \
             configurations had been looked at once: that needs about {}, or shorter windows",
            minutes(needed_s)
        ))
    }

    fn halve(&mut self, field: &[usize]) -> Result<Vec<usize>, Stop> {
        let mut field = field.to_vec();
        for (rung, blocks) in (0..).zip(rungs()) {
            if field.len() <= FINALISTS + 1 {
                break;
            }
            self.expect_runs(self.plan.runs_from(rung, field.len()));
            for _ in 0..blocks {
                let able = self.able(&field);
                // Without a first block nothing is known.
                let is_begun = rung == 0 || self.affords(able.len());
                let stage = Purpose::Rung(rung + 1);
                if !is_begun || !self.blocks.block(&able, self.level_per_s, &stage)? {
                    self.budget_ended = true;
                    break;
                }
            }
            if !self.is_anything_known() {
                return Err(self.too_short(field.len()));
            }
            field = self.finalists(&field, kept(field.len()))?;
        }
        Ok(field)
    }

    /// The best of a field, and the base.
    fn finalists(&self, field: &[usize], count: usize) -> Result<Vec<usize>, Stop> {
        let mut best = self.blocks.ranking(field, 1);
        best.truncate(count);
        if best.is_empty() {
            let why = self.blocks.candidate_states().iter().find_map(|state| state.out.clone());
            let why = why.unwrap_or_default();
            return Err(Stop::Failed(format!("every configuration is out, the first: {why}")));
        }
        if !best.contains(&0) && self.blocks.candidate_states()[0].out.is_none() {
            best.push(0);
        }
        Ok(best)
    }

    /// Measures blocks until the leader is better than, or tied with, each of the others. Only
    /// these blocks count: the earlier ones are what the finalists were chosen by.
    fn race(&mut self, finalists: &[usize], stage: &Purpose) -> Result<Race, Stop> {
        let from = self.blocks.blocks() + 1;
        let mut racing = self.able(finalists);
        let mut beaten: Vec<usize> = Vec::new();
        // The true best is lost only if one of the others is found better than it.
        let pairs = finalists.len().saturating_sub(1).max(1) as f64;
        let races = f64::from(self.races_max);
        let confidence = 1.0 - (1.0 - self.plan.confidence) / races / pairs;
        self.races += 1;
        let mut blocks = 0;
        while racing.len() > 1 && blocks < RACE_BLOCKS.1 {
            if blocks > 0 && !self.affords(racing.len()) {
                self.budget_ended = true;
                break;
            }
            let left = (RACE_BLOCKS_ESTIMATED - f64::from(blocks)).max(1.0) * racing.len() as f64;
            self.expect_runs(left * RUNS_PER_LIMIT + RUNS_OF_ENDS / 2.0);
            if !self.blocks.block(&racing, self.level_per_s, stage)? {
                self.budget_ended = true;
                break;
            }
            blocks += 1;
            racing = self.able(&racing);
            if blocks >= RACE_BLOCKS.0 {
                let leader = self.leader(&racing, from)?;
                let (out, left): (Vec<usize>, Vec<usize>) = racing.iter().partition(|&&other| {
                    self.rival(leader, other, from, confidence).verdict == Verdict::Higher
                        && other != leader
                });
                beaten.extend(out);
                racing = left;
                let is_tied = |&&other: &&usize| {
                    other != leader
                        && self.rival(leader, other, from, confidence).verdict != Verdict::Tie
                };
                if racing.iter().find(is_tied).is_none() {
                    break;
                }
            }
        }
        if !self.is_anything_known() {
            return Err(self.too_short(racing.len()));
        }
        let winner = self.leader(&racing, from)?;
        let others = self.blocks.ranking(&racing, from).into_iter().chain(beaten);
        let others = others.filter(|&other| other != winner);
        let rivals = others.map(|other| self.rival(winner, other, from, confidence)).collect();
        Ok(Race { winner, rivals, from, confidence })
    }

    /// Whether a block of any candidates came to its end.
    fn is_anything_known(&self) -> bool {
        self.blocks
            .candidate_states()
            .iter()
            .any(|state| state.out.is_some() || !state.estimates_per_s.is_empty())
    }

    fn leader(&self, racing: &[usize], from: u32) -> Result<usize, Stop> {
        let first = self.blocks.ranking(racing, from).first().copied();
        first.ok_or_else(|| Stop::Failed("every configuration that raced is out".into()))
    }

    fn rival(&self, winner: usize, candidate: usize, from: u32, confidence: f64) -> Rival {
        let ratio = self.blocks.ratio(winner, candidate, from, confidence);
        Rival { candidate, ratio, verdict: verdict(ratio, self.plan.margin) }
    }

    /// Lets neighbours challenge the winner until none is found better or the budget has run out.
    /// Should the winner prove unfair meanwhile, the next of its race takes its place, and the best
    /// of the challengers then challenges that one.
    fn challenges(&mut self, mut race: Race, mut gain: Gain) -> Result<(Race, Gain), Stop> {
        let mut more: Option<usize> = None;
        for round in 1..=ROUNDS_MAX {
            let before = race.winner;
            let Some(next) = self.challenge(before, more, round)? else { return Ok((race, gain)) };
            if !self.blocks.is_fair(before) {
                more = Some(next.winner);
                (race, gain) = match self.is_any_left(&race) {
                    true => self.without_winner(race)?,
                    false => (next, UNKNOWN),
                };
            } else if next.is_won_against(before) {
                more = None;
                gain = gain.times(next.gain_over(before));
                race = next;
            } else {
                return Ok((self.challenged(race, &next), gain));
            }
        }
        // A search that the budget ended reports that instead.
        self.rounds_ended = !self.budget_ended && !self.unknown_neighbours(race.winner).is_empty();
        Ok((race, gain))
    }

    /// The race whose winner was challenged in the next one, and was not found worse. The result
    /// against the challengers is reported together with that against its rivals.
    fn challenged(&self, mut race: Race, next: &Race) -> Race {
        let challengers = next.rivals.iter().map(|rival| rival.candidate).chain([next.winner]);
        let challengers = challengers.filter(|&one| one != race.winner);
        let challengers: Vec<Rival> = challengers
            .map(|one| self.rival(race.winner, one, next.from, next.confidence))
            .collect();
        race.rivals.retain(|rival| challengers.iter().all(|one| one.candidate != rival.candidate));
        race.rivals.extend(challengers);
        // The lower confidence of the two is reported, which holds for all of them.
        race.confidence = race.confidence.min(next.confidence);
        race
    }

    /// Measures the neighbours of the winner that were not measured yet, and `more`, against the
    /// winner: a block for all, then a race of the best two. None if there are none or the budget
    /// has run out.
    fn challenge(
        &mut self,
        winner: usize,
        more: Option<usize>,
        round: u32,
    ) -> Result<Option<Race>, Stop> {
        let neighbours = self.unknown_neighbours(winner);
        let mut field: Vec<usize> = more.into_iter().filter(|&one| one != winner).collect();
        let count = field.len() + neighbours.len();
        if count == 0 {
            return Ok(None);
        }
        let race = 3 * f64::from(RACE_BLOCKS.0) as usize;
        if !self.affords(count + 1 + race) {
            self.budget_ended = true;
            return Ok(None);
        }
        field.push(winner);
        field.extend(neighbours.into_iter().map(|neighbour| self.blocks.add(neighbour)));
        let from = self.blocks.blocks() + 1;
        if !self.blocks.block(&field, self.level_per_s, &Purpose::Neighbours(round))? {
            self.budget_ended = true;
            return Ok(None);
        }
        let mut challengers = self.blocks.ranking(&field, from);
        challengers.retain(|&one| one != winner);
        challengers.truncate(2);
        if challengers.is_empty() {
            return Ok(None);
        }
        challengers.push(winner);
        self.race(&challengers, &Purpose::Challenge(round)).map(Some)
    }

    /// The neighbours of a candidate that are no candidates yet.
    fn unknown_neighbours(&self, of: usize) -> Vec<Candidate> {
        let known = self.blocks.candidates();
        let mut neighbours = self.plan.grid.neighbours(&known[of]);
        neighbours.retain(|neighbour| known.iter().all(|one| one.knobs != neighbour.knobs));
        neighbours
    }

    fn able(&self, field: &[usize]) -> Vec<usize> {
        let candidate_states = self.blocks.candidate_states();
        field.iter().copied().filter(|&one| candidate_states[one].out.is_none()).collect()
    }

    /// Whether there is time for this many limits, and for the last one.
    fn affords(&self, limits: usize) -> bool {
        let runs = (limits as f64) * RUNS_PER_LIMIT + RUNS_KEPT_FOR_LAST;
        let needed = self.blocks.spent_s() + runs * self.run_s();
        self.plan.budget_s.is_none_or(|budget| needed <= budget)
    }

    /// Confirms the winner; should the further runs show that it is unfair, the next one.
    fn tuned(&mut self, mut race: Race, mut gain: Gain) -> Result<Tuned, Stop> {
        let lead = lead_for(self.plan.confidence);
        let mut looked: Option<(Found, bool)> = None;
        self.expect_runs(RUNS_OF_ENDS / 2.0);
        let (last_look, is_confirmed) = loop {
            if !self.blocks.is_fair(race.winner) {
                (race, gain) = self.without_winner(race)?;
                looked = None;
            } else if let Some(last_look) = looked {
                break last_look;
            } else {
                let last_look = self.blocks.confirm(race.winner, lead)?;
                self.budget_ended |= !last_look.1;
                looked = Some(last_look);
            }
        };
        Ok(Tuned {
            candidates: self.blocks.candidates().to_vec(),
            candidate_states: self.blocks.candidate_states().to_vec(),
            winner: race.winner,
            gain: (race.winner != 0).then_some(gain.ratio),
            certainty: Certainty {
                of_rival: race.confidence,
                of_gain: gain.confidence,
                races: self.races,
            },
            rivals: race.rivals,
            last_look,
            is_confirmed,
            runs: self.blocks.runs(),
            budget_ended: self.budget_ended,
            rounds_ended: self.rounds_ended,
        })
    }

    fn is_any_left(&self, race: &Race) -> bool {
        let candidate_states = self.blocks.candidate_states();
        race.rivals.iter().any(|rival| candidate_states[rival.candidate].out.is_none())
    }

    /// The outcome of a race as if its winner, which is out, had not taken part, and the gain then.
    /// Fails if all finalists are out.
    fn without_winner(&self, race: Race) -> Result<(Race, Gain), Stop> {
        let Race { rivals, from, confidence, .. } = race;
        let candidate_states = self.blocks.candidate_states();
        let is_able = |rival: &Rival| candidate_states[rival.candidate].out.is_none();
        let mut left: Vec<Rival> = rivals.into_iter().filter(is_able).collect();
        // The nearer to the winner, the better. Candidates that were beaten early have fewer blocks
        // than the others, so that blocks common to all would say nothing.
        left.sort_by(|a, b| middle(a.ratio).total_cmp(&middle(b.ratio)));
        let mut places = left.into_iter().map(|rival| rival.candidate);
        let all_out = || Stop::Failed("all finalists are unfair".into());
        let winner = places.next().ok_or_else(all_out)?;
        let rivals = places.map(|other| self.rival(winner, other, from, confidence)).collect();
        // Only the blocks of the race: the earlier blocks are those by which the winner was chosen.
        let ratio = self.blocks.ratio(winner, 0, from, confidence);
        Ok((Race { winner, rivals, from, confidence }, Gain { ratio, confidence }))
    }
}

/// The middle of a ratio's interval, on the log scale; not a number where nothing is known of it.
fn middle(ratio: Interval) -> f64 {
    (ratio.low * ratio.high).sqrt()
}

#[cfg(test)]
mod tests;
