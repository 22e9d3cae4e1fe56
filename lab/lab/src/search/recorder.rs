//! Records what a search measures, and replays the recorded observations.
//!
//! A search that was interrupted is begun anew over the runs of its folder: as long as recorded
//! runs are left, they are its observations; then it goes on measuring. Nothing else of its state
//! is kept. If a requested run differs from the recorded one, options or program have changed, and
//! the search ends.

use super::{Candidate, Found, Measure, Observation, RunRequest, Stop, unable};
use crate::record::{Figures, Folder, Offered, Opened, Point, Run, Search};
use crate::void::Void;
use std::collections::{BTreeMap, VecDeque};

/// Rates are equal if they differ by less than this part: their text may have been rounded.
const ROUNDING: f64 = 1e-9;

/// Makes real runs.
pub trait Live {
    /// Makes one run.
    ///
    /// # Errors
    /// When the search is to end.
    fn run(&mut self, candidate: &Candidate, request: &RunRequest) -> Result<Measured, Stop>;
}

/// The result of a real run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// What clients observed; none if there was no load.
    pub figures: Option<Figures>,
    /// Why the run says nothing, if it does not.
    pub void: Vec<Void>,
    /// What was observed beside the clients.
    pub observed: BTreeMap<String, f64>,
    /// What could not be observed.
    pub not_available: Vec<String>,
    /// When its window began, in microseconds since 1970.
    pub started_unix_us: u64,
    /// The whole outcome.
    pub outcome_json: Option<String>,
}

/// The properties that all runs have in common.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The server's name.
    pub server: String,
    /// The workload's name.
    pub workload: String,
    /// The testbed's name.
    pub testbed: String,
    /// Seconds of load before the window.
    pub warm_up_s: f64,
    /// Seconds of the window.
    pub window_s: f64,
}

/// Measures with `live`, unless the folder has the run.
pub struct Recorder<'f, L> {
    folder: &'f Folder,
    context: Context,
    live: L,
    past: VecDeque<Run>,
    searches: VecDeque<Search>,
    number: u64,
}

impl<'f, L: Live> Recorder<'f, L> {
    /// A recorder that goes on with what the folder holds.
    pub fn new(folder: &'f Folder, opened: &Opened, context: Context, live: L) -> Self {
        let past: VecDeque<Run> = opened.runs.iter().cloned().collect();
        let searches = opened.searches.iter().cloned().collect();
        Self { folder, context, live, past, searches, number: 0 }
    }

    fn point(&self, candidate: &Candidate, offered: Offered) -> Point {
        Point {
            server: self.context.server.clone(),
            setting: candidate.name.clone(),
            knobs: candidate.knobs.clone(),
            workload: self.context.workload.clone(),
            testbed: self.context.testbed.clone(),
            offered,
        }
    }

    fn replay(&self, run: Run, point: &Point, request: &RunRequest) -> Result<Observation, Stop> {
        let is_same = run.point.setting == point.setting
            && run.point.knobs == point.knobs
            && (&run.purpose, run.block) == (&request.purpose, request.block)
            && run.point.offered.requests_per_s().is_some_and(|rate| is_near(rate, request.rate));
        if is_same {
            return Ok(observation(run));
        }
        let (number, path) = (run.number, self.folder.path().display());
        Err(Stop::Failed(format!(
            "{path}: run {number} is of `{}`, where `{}` would be measured now: resume with the \
             options and the program that began it, or choose another directory",
            run.point.setting, point.setting
        )))
    }

    fn record(
        &mut self,
        candidate: &Candidate,
        point: Point,
        request: &RunRequest,
    ) -> Result<Observation, Stop> {
        let begun_us = os::clock::now();
        let measured = self.live.run(candidate, request)?;
        let took_s = (os::clock::now() - begun_us) as f64 / 1e6;
        let run = Run {
            number: self.number,
            point,
            block: request.block,
            attempt: request.attempt,
            purpose: request.purpose.clone(),
            seed: request.seed,
            started_unix_us: measured.started_unix_us,
            warm_up_s: self.context.warm_up_s,
            window_s: self.context.window_s,
            took_s,
            void: measured.void,
            figures: measured.figures,
            observed: measured.observed,
            not_available: measured.not_available,
            outcome_file: String::new(),
        };
        let outcome = measured.outcome_json.as_deref();
        let full = |why: String| Stop::Unable(unable(&why));
        let run = self.folder.add_run(&run, outcome).map_err(full)?;
        // Decisions use the run as it will be read again, to the last digit.
        let text = serde_json::to_string(&run).expect("it was just written");
        let run: Run = serde_json::from_str(&text).map_err(|why| Stop::Failed(why.to_string()))?;
        Ok(observation(run))
    }
}

impl<L: Live> Measure for Recorder<'_, L> {
    fn measure(
        &mut self,
        candidate: &Candidate,
        request: &RunRequest,
    ) -> Result<Observation, Stop> {
        self.number += 1;
        let point = self.point(candidate, Offered::RequestsPerS(request.rate));
        match self.past.pop_front() {
            Some(run) => self.replay(run, &point, request),
            None => self.record(candidate, point, request),
        }
    }

    fn limit_found(&mut self, candidate: &Candidate, found: &Found) -> Result<(), Stop> {
        // One search is on record for each, in their order; the last few may not have been written.
        if self.searches.pop_front().is_some() {
            return Ok(());
        }
        let search = found.record(&self.point(candidate, Offered::default()));
        self.folder.add_search(&search).map_err(|why| Stop::Unable(unable(&why)))
    }
}

fn observation(run: Run) -> Observation {
    Observation { figures: run.figures, void: run.void, took_s: run.took_s }
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * b.abs()
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Simulated, World};
    use super::super::{LimitParameters, lead_for, mat};
    use super::*;
    use crate::record::{Header, Purpose};
    use load::find_limit::{Conditions, Rules};
    use std::path::PathBuf;

    impl Live for Simulated {
        fn run(&mut self, candidate: &Candidate, request: &RunRequest) -> Result<Measured, Stop> {
            let Observation { figures, void, .. } = self.measure(candidate, request)?;
            Ok(Measured { figures, void, ..Measured::default() })
        }
    }

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("recorder-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    fn parameters() -> LimitParameters {
        let rules = Rules {
            first: 100.0,
            min: 1.0,
            growth: 2.0,
            gap: 0.05,
            lead: lead_for(0.95),
            end_trials_max: 9,
            first_again: false,
        };
        let (conditions, purpose) = (Conditions::default(), Purpose::Race);
        LimitParameters { rules, conditions, purpose, block: 1, seed: 3 }
    }

    /// The noise of a simulated server depends on how many runs it has made, so the runs that were
    /// made before the interruption are made again, unrecorded.
    fn noisy(skip: u32, ends_above: f64) -> Simulated {
        let world = World { ends_above, ..World::noisy(vec![1000.0], 0.03) };
        let mut server = Simulated::new(world, 9);
        for _ in 0..skip {
            let request = RunRequest {
                rate: 1.0,
                purpose: Purpose::Point,
                block: 0,
                attempt: 0,
                seed: 0,
                is_even: false,
            };
            server.measure(&Candidate::default(), &request).expect("it is a formula");
        }
        server
    }

    #[test]
    fn wherever_it_is_broken_off_the_answer_is_the_same() {
        resumed("resume", f64::INFINITY);
    }

    /// The reason why a run broke is read from its record.
    #[test]
    fn a_search_for_the_limit_of_a_server_that_ends_is_resumed() {
        resumed("ended", 700.0);
    }

    fn resumed(name: &str, ends_above: f64) {
        let noisy = |skip| noisy(skip, ends_above);
        let whole = mat(&mut noisy(0), &Candidate::default(), &parameters()).expect("it ends");
        for runs_max in [1, 4, whole.runs - 1] {
            let path = scratch(name);
            let folder = Folder::create(&path, &Header::default()).expect("a new folder");
            let mut server = noisy(0);
            server.runs_max = runs_max;
            let mut recorder =
                Recorder::new(&folder, &Opened::default(), Context::default(), server);
            let stopped = mat(&mut recorder, &Candidate::default(), &parameters());
            assert_eq!(stopped, Err(Stop::Interrupted));
            drop(folder);
            let (folder, opened) = Folder::resume(&path).expect("it is whole");
            assert_eq!(opened.runs.len() as u32, runs_max);
            let mut recorder = Recorder::new(&folder, &opened, Context::default(), noisy(runs_max));
            let resumed = mat(&mut recorder, &Candidate::default(), &parameters());
            assert_eq!(resumed, Ok(whole.clone()));
            let opened = Folder::read(&path).expect("it is whole");
            assert_eq!((opened.runs.len() as u32, opened.searches.len()), (whole.runs, 1));
            std::fs::remove_dir_all(&path).expect("it is ours");
        }
    }

    #[test]
    fn why_a_server_did_not_start_is_on_record() {
        let path = scratch("failed");
        let folder = Folder::create(&path, &Header::default()).expect("a new folder");
        let server = Simulated::new(World { broken: vec![0], ..World::quiet(vec![1000.0]) }, 1);
        let mut recorder = Recorder::new(&folder, &Opened::default(), Context::default(), server);
        mat(&mut recorder, &Candidate::default(), &parameters()).expect("it ends");
        let search = Folder::read(&path).expect("it is whole").searches.remove(0);
        assert_eq!((search.held_per_s, search.reason()), (0.0, "it does not start"));
        std::fs::remove_dir_all(&path).expect("it is ours");
    }

    /// If the failure were on record, it would count against the configuration whenever the search
    /// is resumed.
    #[test]
    fn what_no_configuration_is_to_blame_for_is_not_on_record() {
        struct Full;
        impl Live for Full {
            fn run(&mut self, _: &Candidate, _: &RunRequest) -> Result<Measured, Stop> {
                Err(Stop::Unable(unable("no room")))
            }
        }
        let path = scratch("full");
        let folder = Folder::create(&path, &Header::default()).expect("a new folder");
        let mut recorder = Recorder::new(&folder, &Opened::default(), Context::default(), Full);
        let stop =
            mat(&mut recorder, &Candidate::default(), &parameters()).expect_err("no run is made");
        let Stop::Unable(why) = stop else { panic!("{stop:?}") };
        assert!(why.contains("no room") && why.contains("--resume"), "{why}");
        let opened = Folder::read(&path).expect("it is whole");
        assert_eq!((opened.runs.len(), opened.searches.len()), (0, 0));
        std::fs::remove_dir_all(&path).expect("it is ours");
    }

    #[test]
    fn another_search_does_not_take_these_runs_for_its_own() {
        let path = scratch("other");
        let folder = Folder::create(&path, &Header::default()).expect("a new folder");
        let context = Context::default();
        let mut recorder =
            Recorder::new(&folder, &Opened::default(), context, noisy(0, f64::INFINITY));
        mat(&mut recorder, &Candidate::default(), &parameters()).expect("it ends");
        let opened = Folder::read(&path).expect("it is whole");
        let mut recorder =
            Recorder::new(&folder, &opened, Context::default(), noisy(0, f64::INFINITY));
        let other = Candidate { name: "b".into(), ..Candidate::default() };
        let Err(Stop::Failed(why)) = mat(&mut recorder, &other, &parameters()) else {
            panic!("another")
        };
        assert!(why.contains("run 1 is of ``, where `b` would be measured now"), "{why}");
        std::fs::remove_dir_all(&path).expect("it is ours");
    }
}
