//! A study from its first run to its last: sweeps of rates, searches for the limit, runs at a given
//! utilisation. What has been measured is on disk before the next run begins.

use super::ceiling::estimated_ceiling_s;
use super::definition::{Definition, OfferedPlan, SATURATING_CLIENTS};
use super::schedule::{ATTEMPTS_MAX, Next, Schedule};
use super::stage::{Cell, Made, Stage};
use super::utilisation::{self, Gauge, Step};
use crate::error::Error;
use crate::observe::INTERFERENCE_REPORTED;
use crate::record::{Figures, Folder, Offered, Opened, Point, Purpose, Run, Search};
use crate::search::{
    Candidate, Found, LimitParameters, Measure, Observation, RunRequest, Stop, lead_for, mat,
    unable,
};
use crate::testbed::Testbed;
use crate::void::VOID_ESTIMATED;
use crate::warm_up::{WARM_UPS_ESTIMATED, run_s};
use crate::watch::Watch;
use crate::workload::Workload;
use command::estimate::minutes;
use load::find_limit::Rules;
use statistics::Generator;

/// Seconds that a run is estimated to take beside what any run takes where the testbed bounds
/// memory or has a network: it is made and undone, the page cache filled, and late replies are
/// awaited.
pub(super) const STAGING_S: f64 = 1.5;

/// How closely a limit is found.
const MAT_GAP: f64 = 0.02;

/// The load that shows what a server can sustain at most.
const SATURATING: Offered = Offered::Connections(SATURATING_CLIENTS);

/// How a study ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All was measured.
    Complete,
    /// The budget is spent; a resumed study with another budget could measure what is missing.
    BudgetSpent,
    /// The study was interrupted and can be resumed.
    Interrupted,
}

/// A study under way.
pub struct Study<'a, W> {
    stage: &'a Stage<'a>,
    make: Box<Make<'a>>,
    folder: &'a Folder,
    watch: W,
    runs: Vec<Run>,
    searches: Vec<Search>,
    /// When the budget began.
    began_us: u64,
    /// When this process began to make runs.
    runs_began_us: u64,
    /// Runs of this process, used to reckon what remains.
    made: u32,
    /// Searches of this process, used to reckon what remains.
    found: u32,
    tally: Tally,
}

/// How much a study has found of what it was to find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Points, limits, or rates of a utilisation.
    pub wanted: usize,
    /// Points, limits or rates of which nothing is known, because every run was void or no rate was
    /// found.
    pub unknown: usize,
}

/// Makes runs with a seed, or returns why none can be made now.
type Make<'a> = dyn FnMut(&[Cell], Offered, u64) -> Result<Made, String> + 'a;

/// What came of looking for the rate of a utilisation.
enum RateSought {
    /// At this rate it is reached.
    Reached(f64),
    /// It is reached at no rate that was tried, and why, in words.
    NotReached(String),
}

/// One run that is wanted.
#[derive(Clone, Copy, Debug)]
struct Wanted<'p> {
    cell: Cell,
    offered: Offered,
    block: u32,
    attempt: u32,
    purpose: &'p Purpose,
    seed: u64,
}

impl<'a, W: Watch> Study<'a, W> {
    /// A study that begins, or goes on with what the folder holds. The time since `began_us` counts
    /// against the budget.
    pub fn new(
        stage: &'a Stage<'a>,
        folder: &'a Folder,
        opened: Opened,
        began_us: u64,
        watch: W,
    ) -> Self {
        Self {
            stage,
            make: Box::new(|cells, offered, seed| stage.run(cells, offered, seed)),
            folder,
            watch,
            runs: opened.runs,
            searches: opened.searches,
            began_us,
            runs_began_us: os::clock::now(),
            made: 0,
            found: 0,
            tally: Tally::default(),
        }
    }

    /// Measures all that is not measured yet.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the records cannot be written, or runs can no longer be made: what
    /// was measured until then is on record.
    pub fn run(&mut self) -> Result<End, Error> {
        match self.measure() {
            Err(Stop::Interrupted) => Ok(self.end().unwrap_or(End::Interrupted)),
            Err(Stop::Unable(why)) => Err(Error::Stopped(why)),
            Err(Stop::Failed(why)) => Err(Error::Failed(why)),
            Ok(end) => Ok(end),
        }
    }

    fn measure(&mut self) -> Result<End, Stop> {
        match self.stage.definition.offered.clone() {
            OfferedPlan::Rates(rates) => {
                self.sweep(&rates.into_iter().map(Offered::RequestsPerS).collect::<Vec<_>>())
            }
            OfferedPlan::Connections(counts) => {
                self.sweep(&counts.into_iter().map(Offered::Connections).collect::<Vec<_>>())
            }
            OfferedPlan::Mat => self.limits(),
            OfferedPlan::Utilisations(shares) => self.utilisations(&shares),
        }
    }

    /// What the study has found, once it is at its end.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Every cell at every load; cells that differ only in the server together, if they are to be.
    fn sweep(&mut self, offered: &[Offered]) -> Result<End, Stop> {
        let cells = self.stage.cells();
        let is_together = self.stage.definition.together;
        let groups: Vec<&[Cell]> = cells
            .chunk_by(|one, next| {
                is_together && (one.workload, one.testbed) == (next.workload, next.testbed)
            })
            .collect();
        let loads = groups
            .into_iter()
            .flat_map(|cells| offered.iter().map(move |&load| (cells.to_vec(), load)));
        self.measure_all(&loads.collect::<Vec<_>>())
    }

    /// Measures cells with a load each, several at a time where they are loaded together.
    fn measure_all(&mut self, loads: &[(Vec<Cell>, Offered)]) -> Result<End, Stop> {
        let mut schedule = self.schedule(loads);
        self.runs.iter().for_each(|run| schedule.learn(run));
        while let Some(next) = schedule.next() {
            if let Some(end) = self.end() {
                return Ok(end);
            }
            let (cells, offered) = &loads[next.point];
            let Next { block, attempt, .. } = next;
            let seed = self.seed(block, attempt);
            let (cell, purpose) = (cells[0], &Purpose::Point);
            let wanted = Wanted { cell, offered: *offered, block, attempt, purpose, seed };
            let runs = self.make_runs(cells, &wanted)?;
            schedule.learn(&runs[0]);
            let left_s = f64::from(schedule.runs_left()) * self.seconds_of_a_run();
            let left_s = self.within_budget(left_s);
            runs.iter().for_each(|run| self.report(run, left_s));
        }
        self.tally.wanted += loads.iter().map(|(cells, _)| cells.len()).sum::<usize>();
        for point in schedule.empty_points() {
            let (cells, offered) = &loads[point];
            self.tally.unknown += cells.len();
            for &cell in cells {
                let point = self.stage.point(cell, *offered);
                self.watch.note(&format!("{}: every run was void", describe(&point)));
            }
        }
        Ok(End::Complete)
    }

    /// The schedule; of cells that are loaded together the first stands for all.
    fn schedule(&self, loads: &[(Vec<Cell>, Offered)]) -> Schedule {
        let definition = self.stage.definition;
        let points = loads.iter().map(|(cells, offered)| self.stage.point(cells[0], *offered));
        Schedule::new(
            points.collect(),
            definition.repetitions,
            definition.budget_s.is_some(),
            definition.seed,
            definition.confidence,
        )
    }

    /// Finds the most that each cell sustains, in blocks of randomised order; with a budget, after
    /// the first blocks, where the interval is widest.
    fn limits(&mut self) -> Result<End, Stop> {
        let cells = self.stage.cells();
        let loads: Vec<_> =
            cells.into_iter().map(|cell| (vec![cell], Offered::default())).collect();
        let mut schedule = self.schedule(&loads);
        learn_limits(&mut schedule, &self.searches);
        while let Some(next) = schedule.next() {
            if let Some(end) = self.end() {
                return Ok(end);
            }
            self.limit(loads[next.point].0[0], next.block)?;
            learn_limits(&mut schedule, &self.searches[self.searches.len() - 1..]);
        }
        let limits = self.searches.iter().filter(|search| is_limit(search));
        self.tally.wanted = limits.clone().count();
        self.tally.unknown = limits.filter(|search| search.limit_per_s().is_none()).count();
        Ok(End::Complete)
    }

    /// Finds one limit: the search begins at half of what the cell sustains when 64 clients send as
    /// fast as they are served.
    fn limit(&mut self, cell: Cell, block: u32) -> Result<(), Stop> {
        let purpose = Purpose::Limit { block };
        let definition = self.stage.definition;
        let point = self.stage.point(cell, Offered::default());
        let first = self.saturated(cell, block, &purpose)?;
        let parameters = LimitParameters {
            rules: rules(first.map_or(100.0, |rate| rate * 0.5), definition.confidence),
            conditions: definition.conditions.clone(),
            purpose,
            block,
            // The seeds of its trials lie around it: they must not be those of another block.
            seed: Generator::new(self.seed(block, 0)).next_u64(),
        };
        let candidate = Candidate { name: point.setting.clone(), knobs: point.knobs.clone() };
        let mut measure = Probe { study: self, cell };
        let found = mat(&mut measure, &candidate, &parameters)?;
        self.write_down(&point, &found)
    }

    fn write_down(&mut self, point: &Point, found: &Found) -> Result<(), Stop> {
        let search = found.record(point);
        let result = sustained(&search);
        self.folder.add_search(&search).map_err(|why| stopped(&why))?;
        self.searches.push(search);
        self.found += 1;
        let all = self.stage.cells().len() * self.stage.definition.repetitions as usize;
        let left = all.saturating_sub(self.searches.len());
        let left_s = left as f64 * seconds_since(self.runs_began_us) / f64::from(self.found);
        let left = minutes(self.within_budget(left_s));
        self.watch.report(&format!("{} {result}; about {left} remain", describe_cell(point)));
        Ok(())
    }

    /// Makes runs at the rates at which each server uses these shares of its CPUs. The rates are
    /// found first, once, and are on record as the first run that came near; the repetitions are at
    /// the same rate, so that they can be compared.
    fn utilisations(&mut self, shares: &[f64]) -> Result<End, Stop> {
        let mut loads = Vec::new();
        for cell in self.stage.cells() {
            for &share in shares {
                let what = describe_cell(&self.stage.point(cell, Offered::default()));
                let percent = 100.0 * share;
                match self.rate_at(cell, share)? {
                    RateSought::Reached(rate) => {
                        let line = format!("{what}: {rate:.0} requests/s take {percent:.0} % CPU");
                        self.watch.note(&line);
                        loads.push((vec![cell], Offered::RequestsPerS(rate)));
                    }
                    RateSought::NotReached(why) => {
                        self.tally.wanted += 1;
                        self.tally.unknown += 1;
                        self.watch.note(&format!(
                            "{what}: no rate was found that takes {percent:.0} % CPU: {why}"
                        ));
                    }
                }
            }
        }
        self.measure_all(&loads)
    }

    /// Looks for the rate at which this share of the CPUs is used.
    fn rate_at(&mut self, cell: Cell, share: f64) -> Result<RateSought, Stop> {
        let purpose = &Purpose::Utilisation(share);
        let testbed = &self.stage.testbeds[cell.testbed];
        let cpus = testbed.server_cpus(&self.stage.machine) as f64;
        let gauge = Gauge::of_cpus(Some(cpus), testbed.client_cpus.map(|cpus| cpus as f64));
        loop {
            let runs: Vec<&Run> = self.runs_for(cell, purpose).collect();
            let (offered, attempt) = match utilisation::next(&runs, share, gauge, SATURATING) {
                Step::Try(offered, attempt) => (offered, attempt),
                Step::Reached(rate) => return Ok(RateSought::Reached(rate)),
                Step::NotReached(why) => return Ok(RateSought::NotReached(why)),
            };
            // No two of these runs have the same arrivals.
            let seed = self.seed(0, runs.len() as u32);
            if self.end().is_some() {
                return Err(Stop::Interrupted);
            }
            let offered = rounded(offered);
            let wanted = Wanted { cell, offered, block: 0, attempt, purpose, seed };
            self.make_run(&wanted)?;
        }
    }

    /// The rate that 64 clients get at most; none if all attempts were void.
    fn saturated(
        &mut self,
        cell: Cell,
        block: u32,
        purpose: &Purpose,
    ) -> Result<Option<f64>, Stop> {
        for attempt in 0..ATTEMPTS_MAX {
            let seed = self.seed(block, attempt);
            let wanted = Wanted { cell, offered: SATURATING, block, attempt, purpose, seed };
            let run = self.run_once(&wanted)?;
            if let (Some(figures), true) = (&run.figures, run.void.is_empty()) {
                return Ok(Some(figures.throughput_per_s));
            }
        }
        Ok(None)
    }

    /// Makes a run for a search, or returns the run on record, if the search requested it before it
    /// was interrupted. What a search requests is a function of its runs, so that it comes to where
    /// it was.
    fn run_once(&mut self, wanted: &Wanted<'_>) -> Result<Run, Stop> {
        if let Some(run) = self.made_before(wanted) {
            return Ok(run.clone());
        }
        if self.end().is_some() {
            return Err(Stop::Interrupted);
        }
        self.make_run(wanted)
    }

    fn made_before(&self, wanted: &Wanted<'_>) -> Option<&Run> {
        let point = self.stage.point(wanted.cell, wanted.offered);
        self.runs.iter().find(|run| {
            (&run.purpose, run.block) == (wanted.purpose, wanted.block)
                && (run.attempt, run.seed) == (wanted.attempt, wanted.seed)
                && run.point.is_same(&point)
        })
    }

    /// All points of a block have the same arrivals, which makes them pairs; what was void is made
    /// again with others.
    fn seed(&self, block: u32, attempt: u32) -> u64 {
        let further = u64::from(block).wrapping_add(u64::from(attempt) << 32);
        self.stage.definition.seed.wrapping_add(further)
    }

    /// Makes one run and writes it down.
    fn make_run(&mut self, wanted: &Wanted<'_>) -> Result<Run, Stop> {
        Ok(self.make_runs(&[wanted.cell], wanted)?.remove(0))
    }

    /// Makes a run of each cell, as is wanted of the first, and writes them down.
    fn make_runs(&mut self, cells: &[Cell], wanted: &Wanted<'_>) -> Result<Vec<Run>, Stop> {
        let &Wanted { offered, block, attempt, purpose, seed, .. } = wanted;
        // If the run were recorded as void, its point would be given up for a failure that it did
        // not cause.
        let Made { runs: made, left } =
            (self.make)(cells, offered, seed).map_err(|why| stopped(&why))?;
        let mut runs = Vec::new();
        // The first, by which the schedule goes on, comes last: if this is interrupted, all are
        // made again.
        for (run, outcome_json) in made.into_iter().rev() {
            let number = self.runs.last().map_or(0, |run| run.number) + 1;
            let purpose = purpose.clone();
            let run = Run { number, block, attempt, purpose, ..run };
            let run =
                self.folder.add_run(&run, outcome_json.as_deref()).map_err(|why| stopped(&why))?;
            let run = as_read_again(run).map_err(Stop::Failed)?;
            self.runs.push(run.clone());
            runs.insert(0, run);
        }
        self.made += 1;
        left?;
        Ok(runs)
    }

    fn runs_for(&self, cell: Cell, purpose: &Purpose) -> impl Iterator<Item = &Run> {
        let point = self.stage.point(cell, Offered::default());
        self.runs.iter().filter(move |run| {
            run.purpose == *purpose
                && (&run.point.server, &run.point.setting) == (&point.server, &point.setting)
                && (&run.point.workload, &run.point.testbed) == (&point.workload, &point.testbed)
        })
    }

    fn end(&mut self) -> Option<End> {
        if self.watch.is_interrupted() {
            return Some(End::Interrupted);
        }
        let budget_s = self.stage.definition.budget_s?;
        (self.spent_s() + self.seconds_of_a_run() > budget_s).then_some(End::BudgetSpent)
    }

    /// The given seconds, or what is left of the budget if that is less.
    fn within_budget(&self, seconds: f64) -> f64 {
        let budget_s = self.stage.definition.budget_s;
        budget_s.map_or(seconds, |budget| seconds.min(budget - self.spent_s()).max(0.0))
    }

    fn spent_s(&self) -> f64 {
        seconds_since(self.began_us)
    }

    /// Seconds that a run takes: as the runs of this process did, or as estimated before there are
    /// any.
    fn seconds_of_a_run(&self) -> f64 {
        if self.made == 0 {
            self.stage.estimated_run_s()
        } else {
            seconds_since(self.runs_began_us) / f64::from(self.made)
        }
    }

    fn report(&mut self, run: &Run, left_s: f64) {
        let what = describe(&run.point);
        let observation = match (&run.figures, run.void.as_slice()) {
            (_, [why, ..]) => format!("void: {why}"),
            (Some(figures), []) => figures_text(figures) + &interference_text(run),
            (None, []) => "nothing".into(),
        };
        self.watch.report(&format!("{what}: {observation}; about {} remain", minutes(left_s)));
    }
}

/// Makes the runs of a search as runs of a study.
struct Probe<'s, 'a, W> {
    study: &'s mut Study<'a, W>,
    cell: Cell,
}

impl<W: Watch> Measure for Probe<'_, '_, W> {
    fn measure(&mut self, _candidate: &Candidate, asked: &RunRequest) -> Result<Observation, Stop> {
        let run = self.study.run_once(&Wanted {
            cell: self.cell,
            offered: Offered::RequestsPerS(asked.rate),
            block: asked.block,
            attempt: asked.attempt,
            purpose: &asked.purpose,
            seed: asked.seed,
        })?;
        Ok(Observation { figures: run.figures, void: run.void, took_s: run.took_s })
    }
}

/// Rules of a search that begins where the server is known to be at ease.
fn rules(first: f64, confidence: f64) -> Rules {
    let lead = lead_for(confidence);
    Rules {
        first: first.max(1.0),
        min: 1.0,
        growth: 1.2,
        gap: MAT_GAP,
        lead,
        end_trials_max: 3 * lead,
        first_again: true,
    }
}

/// Seconds that a study is estimated to take if a run takes `run_s`, void runs not counted; at most
/// its budget.
pub fn estimate_s(definition: &Definition, cells: usize, run_s: f64) -> f64 {
    let repetitions = f64::from(definition.repetitions);
    let runs = match &definition.offered {
        OfferedPlan::Rates(rates) => repetitions * rates.len() as f64,
        OfferedPlan::Connections(counts) => repetitions * counts.len() as f64,
        // A search from half of the limit, and both ends tried until they are decided.
        OfferedPlan::Mat => repetitions * (7.0 + 2.0 * f64::from(lead_for(definition.confidence))),
        OfferedPlan::Utilisations(shares) => (repetitions + 3.0) * shares.len() as f64,
    };
    let testbeds = definition.testbeds.len();
    let windows = if definition.together { definition.workloads.len() * testbeds } else { cells };
    // Servers that share a window are started and warmed up one after another.
    let further = cells.saturating_sub(windows) as f64 * readying_s(definition);
    let ceilings = estimated_ceiling_s(definition) * testbeds as f64;
    let all = runs * (windows as f64 * run_s + further) + ceilings;
    definition.budget_s.map_or(all, |budget| all.min(budget))
}

/// The seconds of [`estimate_s`], and those with as many void runs made again as are usual on a
/// busy machine. Servers that come as source are built before, which
/// [`Lab::built_first`](crate::Lab::built_first) says, and files of workloads have an estimate of
/// their own: [`Tools::making_s`](crate::workload::Tools::making_s).
pub fn estimates_s(definition: &Definition, cells: usize, run_s: f64) -> [f64; 2] {
    let least = estimate_s(definition, cells, run_s);
    let most = least * (1.0 + VOID_ESTIMATED);
    [least, definition.budget_s.map_or(most, |budget| most.min(budget))]
}

/// Seconds that a server's start and end and warming up are estimated to take.
fn readying_s(definition: &Definition) -> f64 {
    run_s(definition.window_s, WARM_UPS_ESTIMATED) - definition.window_s
}

/// Seconds that a run is estimated to take with everything around it, if nothing is known of the
/// sessions: the testbed, the server's start and end, warming up, and the window.
pub fn estimated_run_s(definition: &Definition) -> f64 {
    let is_staged = |testbed: &&Testbed| testbed.memory.is_some() || testbed.network.is_some();
    let staged = definition.testbeds.iter().filter(is_staged).count() as f64;
    let testbeds = definition.testbeds.len().max(1) as f64;
    STAGING_S * staged / testbeds + run_s(definition.window_s, WARM_UPS_ESTIMATED)
}

impl Stage<'_> {
    /// Seconds that a run is estimated to take with everything around it.
    pub fn estimated_run_s(&self) -> f64 {
        let before_s = self.workloads.iter().map(|workload| match self.filling_s(workload) {
            Some(seconds) => seconds,
            None => workload.load.warm_up_us().unwrap_or(0) as f64 / 1e6,
        });
        let before_s = before_s.sum::<f64>() / self.workloads.len() as f64;
        estimated_run_s(self.definition) + before_s
    }

    /// Seconds that the whole study is estimated to take.
    pub fn estimate_s(&self) -> f64 {
        estimate_s(self.definition, self.cells().len(), self.estimated_run_s())
    }

    /// The estimate of [`estimates_s`], with the pauses of sessions.
    pub fn estimates_s(&self) -> [f64; 2] {
        estimates_s(self.definition, self.cells().len(), self.estimated_run_s())
    }

    /// The workloads whose sessions pause, each with how many seconds before its window a run of it
    /// begins for that reason.
    pub fn fillings(&self) -> impl Iterator<Item = (&str, f64)> {
        let filling = |workload| Some((workload, self.filling_s(workload)?));
        let fillings = self.workloads.iter().filter_map(filling);
        fillings.map(|(workload, seconds)| (workload.described.name.as_str(), seconds))
    }

    fn filling_s(&self, workload: &Workload) -> Option<f64> {
        let is_asked = workload.load.warm_up.is_none() && self.definition.is_open();
        (is_asked && workload.filling_us > 0).then(|| workload.filling_us as f64 / 1e6)
    }
}

/// Why no run can be made or written down now, whichever the server.
fn stopped(why: &str) -> Stop {
    Stop::Unable(unable(why))
}

fn seconds_since(began_us: u64) -> f64 {
    (os::clock::now() - began_us) as f64 / 1e6
}

/// A rate that is equal when it is read back from its text, to the last digit.
fn rounded(offered: Offered) -> Offered {
    match offered {
        Offered::RequestsPerS(rate) => {
            Offered::RequestsPerS((rate * 1000.0).round().max(1.0) / 1000.0)
        }
        clients @ Offered::Connections(_) => clients,
    }
}

/// The run as it will be read when the study is resumed, to the last digit: decisions use this.
fn as_read_again(run: Run) -> Result<Run, String> {
    let text = serde_json::to_string(&run).expect("it was just written");
    let read: Run = serde_json::from_str(&text).map_err(|why| why.to_string())?;
    Ok(Run { point: run.point, ..read })
}

fn is_limit(search: &Search) -> bool {
    matches!(search.purpose, Purpose::Limit { .. })
}

/// Enters the known limits into the schedule, which treats them as the repetitions of a point.
fn learn_limits(schedule: &mut Schedule, searches: &[Search]) {
    for search in searches.iter().filter(|search| is_limit(search)) {
        let point = schedule.points().iter().find(|point| is_for_point(search, point)).cloned();
        let Some(point) = point else { continue };
        let figures = Figures { throughput_per_s: search.held_per_s, ..Figures::default() };
        schedule.learn(&Run { point, figures: Some(figures), ..Run::default() });
    }
}

/// The result of a search, in words.
fn sustained(search: &Search) -> String {
    match search.held_per_s {
        held if held > 0.0 => format!("sustains {held:.0} requests/s"),
        _ => format!("held no rate: {}", search.reason()),
    }
}

fn is_for_point(search: &Search, point: &Point) -> bool {
    (&search.server, &search.setting) == (&point.server, &point.setting)
        && (&search.workload, &search.testbed) == (&point.workload, &point.testbed)
}

/// A point in a few words.
pub fn describe(point: &Point) -> String {
    let load = match point.offered {
        Offered::RequestsPerS(rate) => format!(" at {rate:.0} requests/s"),
        Offered::Connections(count) => format!(" with {count} clients"),
    };
    describe_cell(point) + &load
}

/// A point in a few words without what is offered: its server, setting, workload and testbed.
fn describe_cell(point: &Point) -> String {
    let Point { server, setting, workload, testbed, .. } = point;
    format!("{server}/{setting}, {workload}, {testbed}")
}

/// What other processes did meanwhile, if it is worth a word.
fn interference_text(run: &Run) -> String {
    let worst = run.interference().filter(|(_, share)| *share > INTERFERENCE_REPORTED);
    worst.map_or_else(String::new, |(disturbed, share)| format!(", {}", disturbed.describe(share)))
}

fn figures_text(figures: &Figures) -> String {
    let p99 = figures
        .times_us
        .get("p99")
        .map_or_else(String::new, |us| format!(", p99 {:.1} ms", us / 1000.0));
    format!("{:.0} replies/s{p99}", figures.throughput_per_s)
}

#[cfg(test)]
mod tests;
