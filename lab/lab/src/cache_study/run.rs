//! Runs a study of the cache from its first cell to its last. Each result is on disk before the
//! next measurement begins.

use std::path::Path;

use command::estimate::minutes;
use os::clock;

use super::bench::Bench;
use super::cell::Cell;
use super::definition::Definition;
use super::design::Design;
use super::numbers::Numbers;
use crate::error::Error;
use crate::observe::{Disturbed, INTERFERENCE_REPORTED};
use crate::record::{CacheRun, Figures, Folder, Point, Run};
use crate::search::unable;
use crate::study::{End, Schedule, Tally};
use crate::void::{Void, in_words};
use crate::watch::Watch;

/// The estimated time of a load or a request, in seconds, with its part of the preparation and
/// removal of stores.
const OPERATION_S: f64 = 0.6e-6;

/// The estimated time of a study, in seconds; at most its budget.
pub fn estimate_s(definition: &Definition) -> f64 {
    let design = &definition.design;
    let operations: u64 = design.cells().iter().map(|cell| design.operations(cell)).sum();
    let all = operations as f64 * OPERATION_S * f64::from(definition.repetitions);
    definition.budget_s.map_or(all, |budget| all.min(budget))
}

/// A study under way.
pub struct Study<'a, W> {
    definition: &'a Definition,
    program: &'a Path,
    folder: &'a Folder,
    watch: W,
    schedule: Schedule,
    cells: Vec<Cell>,
    began_us: u64,
    /// The number of measurements made by this process, to estimate the remaining time.
    made: u32,
}

impl<'a, W: Watch> Study<'a, W> {
    /// Begins a study, or continues one after the measurements in `before`. Its cells are measured
    /// by [`program`](super::program()).
    pub fn new(
        definition: &'a Definition,
        program: &'a Path,
        folder: &'a Folder,
        before: &[CacheRun],
        watch: W,
    ) -> Self {
        let cells = definition.design.cells();
        let mut schedule = Schedule::new(
            cells.iter().map(point).collect(),
            definition.repetitions,
            definition.budget_s.is_some(),
            definition.seed,
            definition.confidence,
        );
        before.iter().for_each(|one| schedule.learn(&as_run(one)));
        let began_us = clock::now();
        Self { definition, program, folder, watch, schedule, cells, began_us, made: 0 }
    }

    /// Measures all cells that are not measured yet.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the program cannot be started or ends, or the records cannot be
    /// written; [`Error::Failed`] when a store answers wrong values. What was measured until then
    /// is on record.
    pub fn run(&mut self) -> Result<End, Error> {
        let stopped = |why: String| Error::Stopped(unable(&why));
        let Definition { design, seed, .. } = self.definition;
        let mut bench = Bench::start(self.program, design, *seed).map_err(stopped)?;
        while let Some(next) = self.schedule.next() {
            if let Some(end) = self.end() {
                return Ok(end);
            }
            let cell = self.cells[next.point].clone();
            let numbers = bench.measure(&cell)?;
            let void = disturbed(&numbers, self.definition.interference_bound);
            let (block, attempt) = (next.block, next.attempt);
            let void = void.into_iter().collect();
            let run = CacheRun { block, attempt, cell, void, numbers };
            self.schedule.learn(&as_run(&run));
            self.made += 1;
            self.report_progress(&run);
            self.folder.add_cache(&run).map_err(stopped)?;
        }
        Ok(End::Complete)
    }

    fn end(&mut self) -> Option<End> {
        if self.watch.is_interrupted() {
            return Some(End::Interrupted);
        }
        let budget_s = self.definition.budget_s?;
        (self.spent_s() + self.seconds_of_one() > budget_s).then_some(End::BudgetSpent)
    }

    /// How much of what the study was to find it has found, once it is at its end.
    pub fn tally(&self) -> Tally {
        Tally { wanted: self.cells.len(), unknown: self.schedule.empty_points().count() }
    }

    fn report_progress(&mut self, CacheRun { cell, numbers, void, .. }: &CacheRun) {
        let all_s = f64::from(self.schedule.runs_left()) * self.seconds_of_one();
        let budget_s = self.definition.budget_s;
        let left_s = budget_s.map_or(all_s, |budget| all_s.min(budget - self.spent_s()).max(0.0));
        let left = minutes(left_s);
        let Numbers { cpu_ns, hit_percent, .. } = numbers;
        let others = match void.as_slice() {
            [] => others_text(numbers),
            void => format!(", void: {}", in_words(void)),
        };
        self.watch.report(&format!(
            "{cell}: {cpu_ns:.0} ns of CPU a request, {hit_percent:.1} % hits{others}; about \
             {left} remain"
        ));
    }

    fn spent_s(&self) -> f64 {
        (clock::now() - self.began_us) as f64 / 1e6
    }

    fn seconds_of_one(&self) -> f64 {
        if self.made == 0 {
            return estimated_one_s(self.definition);
        }
        self.spent_s() / f64::from(self.made)
    }
}

/// Why a measurement says nothing about the cache: others had more of the CPUs than `bound`, which
/// lengthens what is timed by the clock, and takes from the threads what they have in common.
fn disturbed(numbers: &Numbers, bound: f64) -> Option<Void> {
    let share = numbers.others_share.filter(|share| *share > bound)?;
    Some(Void::Interference { disturbed: Disturbed::SharedCpus, share, bound })
}

/// What other processes did meanwhile, if it is worth a word.
fn others_text(numbers: &Numbers) -> String {
    let share = numbers.others_share.filter(|share| *share > INTERFERENCE_REPORTED);
    share.map_or_else(String::new, |share| format!(", {}", Disturbed::SharedCpus.describe(share)))
}

/// The estimated time of one measurement, in seconds.
pub(super) fn estimated_one_s(definition: &Definition) -> f64 {
    mean_operations(&definition.design, &definition.design.cells()) * OPERATION_S
}

fn mean_operations(design: &Design, cells: &[Cell]) -> f64 {
    cells.iter().map(|cell| design.operations(cell)).sum::<u64>() as f64 / cells.len() as f64
}

/// The point that stands for a cell: the schedule of a study distinguishes points by their names.
fn point(cell: &Cell) -> Point {
    Point { server: cell.to_string(), ..Point::default() }
}

/// A cell's numbers as a run: the schedule repeats the points whose throughput, here the inverse of
/// a request's processor time, is least certain.
fn as_run(CacheRun { cell, numbers, void, .. }: &CacheRun) -> Run {
    let figures = Figures { throughput_per_s: 1e9 / numbers.cpu_ns.max(0.1), ..Figures::default() };
    Run { point: point(cell), figures: Some(figures), void: void.clone(), ..Run::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Header;
    use testkit::{Temporary, install_script};

    struct Unwatched;
    impl Watch for Unwatched {
        fn report(&mut self, _line: &str) {}

        fn is_interrupted(&mut self) -> bool {
            false
        }
    }

    /// What would come out again is no reason to go on.
    #[test]
    fn only_what_can_be_mended_from_outside_stops_a_study() {
        let text = "title = 't'\nrepetitions = 1\n[cache]\nkeys = 4096\nrequests = 4000\n\
                    alpha = 1.0\nalphas = [1.0]\ncached = 10\ncached_percents = [10]\n\
                    threads = [1]";
        let ended = |script: &str| {
            let own = Temporary::new();
            let program = own.path().join("program");
            install_script(&format!("#!/bin/sh\n{script}\n"), &program);
            let definition = Definition::parse("x", text, None).expect("it is right");
            let folder = Folder::create(&own.path().join("records"), &Header::default());
            let folder = folder.expect("a new folder");
            Study::new(&definition, &program, &folder, &[], Unwatched).run()
        };
        let wrong = r#"read line; echo '{"Err":"a wrong value"}'; read line"#;
        assert_eq!(ended(wrong), Err(Error::Failed("a wrong value".into())));
        let Err(Error::Stopped(why)) = ended("read line; exit 3") else { panic!("it has ended") };
        assert!(why.contains("has ended: exit status: 3") && why.contains("--resume"), "{why}");
    }

    /// Beside others that come and go, each cell is measured again until it is undisturbed; beside
    /// others that stay nothing is known, and everything is on record.
    #[test]
    fn what_others_disturb_is_void_and_made_again() {
        let text = "title = 't'\nrepetitions = 1\n[cache]\nkeys = 4096\nrequests = 4000\n\
                    alpha = 1.0\nalphas = [1.0]\ncached = 10\ncached_percents = [10]\n\
                    threads = [1]";
        let made = |script: &str| {
            let own = Temporary::new();
            let program = own.path().join("program");
            install_script(
                &format!("#!/bin/sh\nn=0\nwhile read line; do\n{script}\ndone\n"),
                &program,
            );
            let definition = Definition::parse("x", text, None).expect("it is right");
            let folder = Folder::create(&own.path().join("records"), &Header::default());
            let folder = folder.expect("a new folder");
            let mut study = Study::new(&definition, &program, &folder, &[], Unwatched);
            assert_eq!(study.run(), Ok(End::Complete));
            let tally = study.tally();
            drop(study);
            (Folder::read(&own.path().join("records")).expect("it is whole").cache, tally)
        };
        let cells = Definition::parse("x", text, None).expect("it is right").design.cells().len();
        let comes_and_goes =
            "n=$((1 - n)); echo '{\"Ok\":{\"cpu_ns\":7.5,\"others_share\":0.'$((n * 4))'}}'";
        let (runs, tally) = made(comes_and_goes);
        let is_void = |run: &&CacheRun| run.void.iter().any(Void::is_interference);
        assert_eq!((runs.len(), runs.iter().filter(is_void).count()), (2 * cells, cells));
        assert!(runs.iter().all(|run| run.attempt == u32::from(!is_void(&run))), "{runs:?}");
        assert_eq!(tally, Tally { wanted: cells, unknown: 0 });
        let (runs, tally) = made("echo '{\"Ok\":{\"cpu_ns\":7.5,\"others_share\":0.4}}'");
        assert!(runs.iter().all(|run| is_void(&run)) && runs.len() > cells, "{}", runs.len());
        assert_eq!(tally, Tally { wanted: cells, unknown: cells });
    }

    #[test]
    fn the_line_of_a_measurement_mentions_others() {
        let check = |others_share: Option<f64>, expected: &str| {
            let numbers = Numbers { others_share, ..Numbers::default() };
            assert_eq!(others_text(&numbers), expected);
        };
        check(Some(0.03), ", other processes used 3 % of the CPUs");
        check(Some(0.01), "");
        check(None, "");
    }
}
