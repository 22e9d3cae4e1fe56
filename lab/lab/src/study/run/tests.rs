//! Studies of servers that are formulas, and which limit is worth its time.

use super::*;
use crate::install::{Installed, SourceTree};
use crate::observe::Disturbed;
use crate::record::{Described, Header};
use crate::server_description::ServerDescription;
use crate::study::Participant;
use crate::template::Values;
use crate::testbed::{Testbed, Topology};
use crate::trial::LoadSetup;
use crate::workload::{Tools, Workload};
use std::cell::Cell as Counter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXPERIMENT: &str = r#"
title = "t"
servers = ["nginx", "floor"]
repetitions = 2
window = "100ms"
confidence = 0.8
workloads = ["1KB"]
[offered]
mat = true
"#;

/// What each server sustains, a little more or less by the seed of a run.
const CAPACITIES: [f64; 2] = [1000.0, 3000.0];

/// A watch that interrupts the study when the runs that it counts down are used up.
struct Patience<'a>(&'a Counter<usize>);

impl Watch for Patience<'_> {
    fn report(&mut self, _line: &str) {}

    fn is_interrupted(&mut self) -> bool {
        self.0.get() == 0
    }
}

/// A folder of records.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("study-run-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        drop(Folder::create(&path, &Header::default()).expect("a new folder"));
        Self(path)
    }

    /// Goes on until `runs` runs are made; every `void_each`th is void.
    fn go_on(&self, text: &str, runs: usize, void_each: u64) -> (End, Opened) {
        let left = Counter::new(runs);
        let (end, opened) = self.try_to(text, &left, |cell, offered, seed| {
            Ok((pretended(cell, offered, seed, void_each), Ok(())))
        });
        (end.expect("it is written"), opened)
    }

    /// Goes on until no runs are left, or `make` makes none.
    fn try_to(
        &self,
        text: &str,
        left: &Counter<usize>,
        make: impl Fn(Cell, Offered, u64) -> Result<(Run, Result<(), String>), String>,
    ) -> (Result<End, Error>, Opened) {
        let definition = Definition::parse("x", text, None).expect("it is right");
        let tools = Tools { program: PathBuf::new(), scratch: PathBuf::new() };
        let load_setup =
            LoadSetup { tools, generators: Vec::new(), lag_bound: None, interference_bound: 1.0 };
        let source_tree = SourceTree::find(false);
        let stage = stage(&definition, &load_setup, &source_tree);
        let (folder, opened) = Folder::resume(&self.0).expect("it is whole");
        let mut study = Study::new(&stage, &folder, opened, 0, Patience(left));
        study.make = Box::new(|cells, offered, seed| {
            left.set(left.get() - 1);
            let mut made = Made { runs: Vec::new(), left: Ok(()) };
            for &cell in cells {
                let (run, left) = make(cell, offered, seed)?;
                let run = Run { point: stage.point(cell, offered), ..run };
                made.runs.push((run, None));
                made.left = made.left.and(left.map_err(|why| stopped(&why)));
            }
            Ok(made)
        });
        let end = study.run();
        (end, Folder::read(&self.0).expect("it is whole"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stage<'a>(
    definition: &'a Definition,
    load_setup: &'a LoadSetup,
    source_tree: &'a SourceTree,
) -> Stage<'a> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
    let participants = ["nginx", "floor"].map(|name| {
        let description =
            ServerDescription::read(&folder.join(format!("{name}.toml"))).expect("it is shipped");
        let setting = description.settings[0].clone();
        Participant { installed: Installed { description, version: "1".into() }, setting }
    });
    let workload = Workload {
        described: Described::default(),
        root: PathBuf::new(),
        log: PathBuf::new(),
        requests: Arc::default(),
        filling_us: 0,
        prime: PathBuf::new(),
        ready_path: String::new(),
        load: Default::default(),
        values: Values::new(),
        client: Default::default(),
        wrk_script: None,
    };
    Stage {
        definition,
        load_setup,
        source_tree,
        participants: participants.to_vec(),
        workloads: vec![workload],
        testbeds: vec![Testbed::default()],
        accessed: Vec::new(),
        machine: Topology::of_this_machine(),
    }
}

/// A function of what is requested and the seed, as if arrivals were all that differs.
fn pretended(cell: Cell, offered: Offered, seed: u64, void_each: u64) -> Run {
    let drawn = Generator::new(seed).next_u64();
    let noise = 0.98 + 0.04 * (drawn as f64 / u64::MAX as f64);
    let capacity = CAPACITIES[cell.participant] * noise;
    let asked = offered.requests_per_s().unwrap_or(f64::INFINITY);
    let figures = Figures {
        throughput_per_s: asked.min(capacity),
        served_share: (capacity / asked).min(1.0),
        kept_up_share: 1.0,
        ..Figures::default()
    };
    let is_void = drawn.is_multiple_of(void_each);
    let void = if is_void { vec!["late".into()] } else { Vec::new() };
    Run { figures: Some(figures), void, seed, ..Run::default() }
}

/// What the runs were requested for, without the counter that says in which process.
fn requested(runs: &[Run]) -> Vec<String> {
    let asked = runs.iter().map(|run| {
        let Run { point, purpose, block, attempt, seed, .. } = run;
        format!("{} {:?} {purpose} {block} {attempt} {seed}", point.server, point.offered)
    });
    asked.collect()
}

/// Limits are equal wherever and however often the searches are interrupted.
#[test]
fn limits_are_the_same_however_often_it_is_resumed() {
    let whole = Scratch::new("whole");
    let (end, expected) = whole.go_on(EXPERIMENT, usize::MAX, 10);
    assert_eq!((end, expected.searches.len()), (End::Complete, 4));
    assert!(expected.runs.iter().any(|run| !run.void.is_empty()), "some are void");
    for runs in [1, 5, expected.runs.len() - 1] {
        let scratch = Scratch::new("parts");
        let mut times = 0;
        let opened = loop {
            let (end, opened) = scratch.go_on(EXPERIMENT, runs, 10);
            times += 1;
            assert!(
                opened.runs.len() <= expected.runs.len(),
                "{runs} at once: a run is made twice"
            );
            match end {
                End::Complete => break opened,
                _ => assert_eq!(opened.runs.len(), times * runs, "each start goes on"),
            }
        };
        assert_eq!(requested(&opened.runs), requested(&expected.runs), "{runs} at once");
        assert_eq!(opened.searches, expected.searches, "{runs} at once");
    }
}

/// A rule that stops when enough trials agree counts each of them as an independent trial.
#[test]
fn no_two_trials_of_a_server_meet_the_same_arrivals() {
    let scratch = Scratch::new("trials");
    let (_, opened) = scratch.go_on(EXPERIMENT, usize::MAX, 5);
    for server in ["nginx", "floor"] {
        let trials = opened.runs.iter().filter(|run| run.point.server == server);
        let mut seeds: Vec<u64> = trials.map(|run| run.seed).collect();
        let made = seeds.len();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), made, "{server}");
    }
}

/// A run that was void because of its arrivals would be void again.
#[test]
fn a_run_is_made_again_with_other_arrivals_and_pairs_share_theirs() {
    let text = EXPERIMENT.replace("mat = true", "rates = [100]");
    let scratch = Scratch::new("void");
    let (_, opened) = scratch.go_on(&text, usize::MAX, 1);
    let mut seeds: Vec<_> =
        opened.runs.iter().map(|run| (run.block, run.attempt, run.seed)).collect();
    assert_eq!(seeds.len(), 12, "two servers, two blocks, three attempts");
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 6, "the same for both servers");
    seeds.sort_unstable_by_key(|(_, _, seed)| *seed);
    seeds.dedup_by_key(|(_, _, seed)| *seed);
    assert_eq!(seeds.len(), 6, "{seeds:?}");
}

/// A full disk is no property of the servers that were to run then.
#[test]
fn what_no_server_is_to_blame_for_ends_a_study_that_can_go_on() {
    let text = EXPERIMENT.replace("mat = true", "rates = [100]");
    let scratch = Scratch::new("surroundings");
    let left = Counter::new(usize::MAX);
    let made = Counter::new(0);
    let (end, opened) = scratch.try_to(&text, &left, |cell, offered, seed| {
        made.set(made.get() + 1);
        match made.get() {
            1 => Ok((pretended(cell, offered, seed, u64::MAX), Ok(()))),
            _ => Err("no room".into()),
        }
    });
    let Err(Error::Stopped(why)) = end else { panic!("it cannot go on: {end:?}") };
    assert!(why.contains("no room") && why.contains("--resume"), "{why}");
    assert_eq!((opened.runs.len(), made.get()), (1, 2), "nothing is given up for it");
    let (end, opened) = scratch.try_to(&text, &left, |cell, offered, seed| {
        Ok((pretended(cell, offered, seed, u64::MAX), Err("it is another machine now".into())))
    });
    let Err(Error::Stopped(why)) = end else { panic!("it may not go on: {end:?}") };
    assert!(why.contains("another machine"), "{why}");
    assert_eq!(opened.runs.len(), 2, "what was measured before is on record");
    let (end, opened) = scratch.go_on(&text, usize::MAX, u64::MAX);
    assert_eq!((end, opened.runs.len()), (End::Complete, 4));
}

/// A server of which every rate breaks is known and measured; one whose runs were all void is not.
#[test]
fn servers_that_sustain_nothing_are_measured() {
    let tally_of = |is_void: bool| {
        let scratch = Scratch::new("nothing");
        let (folder, _) = Folder::resume(&scratch.0).expect("it is whole");
        let definition = Definition::parse("x", EXPERIMENT, None).expect("it is right");
        let tools = Tools { program: PathBuf::new(), scratch: PathBuf::new() };
        let load_setup =
            LoadSetup { tools, generators: Vec::new(), lag_bound: None, interference_bound: 1.0 };
        let source_tree = SourceTree::find(false);
        let stage = stage(&definition, &load_setup, &source_tree);
        let left = Counter::new(1);
        let mut study = Study::new(&stage, &folder, Opened::default(), 0, Patience(&left));
        study.make = Box::new(|cells, offered, _| {
            let point = stage.point(cells[0], offered);
            let figures = Some(Figures { served_share: 0.5, ..Figures::default() });
            let void = if is_void { vec!["late".into()] } else { Vec::new() };
            let run = Run { point, figures, void, ..Run::default() };
            Ok(Made { runs: vec![(run, None)], left: Ok(()) })
        });
        assert_eq!(study.run(), Ok(End::Complete));
        study.tally()
    };
    assert_eq!(tally_of(false), Tally { wanted: 4, unknown: 0 });
    assert_eq!(tally_of(true), Tally { wanted: 4, unknown: 4 });
}

/// A budget is no promise of all that could be measured with another.
#[test]
fn no_more_is_said_to_remain_than_the_budget_has_left() {
    struct Lines<'a>(&'a std::cell::RefCell<Vec<String>>);
    impl Watch for Lines<'_> {
        fn report(&mut self, line: &str) {
            self.0.borrow_mut().push(line.to_owned());
        }

        fn is_interrupted(&mut self) -> bool {
            !self.0.borrow().is_empty()
        }
    }
    let text = EXPERIMENT.replace("mat = true", "rates = [100]");
    let text = text.replace("repetitions = 2", "repetitions = 100000000\nbudget = \"10m\"");
    let scratch = Scratch::new("remaining");
    let (folder, _) = Folder::resume(&scratch.0).expect("it is whole");
    let definition = Definition::parse("x", &text, None).expect("it is right");
    let tools = Tools { program: PathBuf::new(), scratch: PathBuf::new() };
    let load_setup =
        LoadSetup { tools, generators: Vec::new(), lag_bound: None, interference_bound: 1.0 };
    let source_tree = SourceTree::find(false);
    let stage = stage(&definition, &load_setup, &source_tree);
    let told = Default::default();
    let now_us = os::clock::now();
    let mut study = Study::new(&stage, &folder, Opened::default(), now_us, Lines(&told));
    study.make = Box::new(|cells, offered, seed| {
        let point = stage.point(cells[0], offered);
        let run = Run { point, ..pretended(cells[0], offered, seed, 0) };
        Ok(Made { runs: vec![(run, None)], left: Ok(()) })
    });
    assert_eq!(study.run(), Ok(End::Interrupted));
    assert!(told.borrow()[0].ends_with("about 10 min remain"), "{:?}", told.borrow());
}

#[test]
fn the_line_of_a_run_mentions_interference() {
    let check = |share: f64, expected: &str| {
        let mut run = Run::default();
        run.observed.insert(Disturbed::SharedCpus.name().into(), share);
        assert_eq!(interference_text(&run), expected);
    };
    check(0.03, ", other processes used 3 % of the CPUs");
    check(0.01, "");
    assert_eq!(interference_text(&Run::default()), "");
}

/// Servers that are loaded together have their runs together, however often that is interrupted;
/// where one is void all are made again.
#[test]
fn servers_that_are_loaded_together_have_the_same_blocks_and_attempts() {
    let text = EXPERIMENT.replace("mat = true", "connections = [8, 16]");
    let text = text.replace("repetitions = 2", "repetitions = 3\ntogether = true");
    let whole = Scratch::new("together").go_on(&text, 1000, 0);
    assert_eq!((whole.0, whole.1.runs.len()), (End::Complete, 2 * 2 * 3));
    for pair in whole.1.runs.chunks(2) {
        let [one, other] = pair else { panic!("they come in pairs") };
        assert_eq!((one.block, one.attempt, one.seed), (other.block, other.attempt, other.seed));
        assert_eq!(one.point.offered, other.point.offered);
        // The schedule goes on by the first server, which is written last.
        assert_eq!([&*one.point.server, &*other.point.server], ["floor", "nginx"]);
    }
    let scratch = Scratch::new("together-resumed");
    while scratch.go_on(&text, 2, 0).0 != End::Complete {}
    let (_, resumed) = scratch.go_on(&text, 1, 0);
    assert_eq!(requested(&resumed.runs), requested(&whole.1.runs));
    let (end, voided) = Scratch::new("together-void").go_on(&text, 1000, 2);
    assert!(end == End::Complete && voided.runs.iter().any(|run| run.attempt > 0));
}

fn search(server: &str, block: u32, held_per_s: f64) -> Search {
    let (purpose, server) = (Purpose::Limit { block }, server.to_owned());
    Search { purpose, block, server, held_per_s, ..Search::default() }
}

/// After two blocks of all, a budget goes to the server whose limits differ most.
#[test]
fn limits_are_searched_where_the_interval_is_widest() {
    let points = ["calm", "noisy", "even"];
    let points = points.map(|server| Point { server: server.into(), ..Point::default() });
    for (by_width, of_noisy) in [(true, 5), (false, 2)] {
        let mut schedule = Schedule::new(points.to_vec(), 9, by_width, 1, 0.95);
        let mut made: Vec<usize> = Vec::new();
        while made.len() < 11 {
            let next = schedule.next().expect("there are more");
            let differing = if next.point == 1 { 600.0 } else { 1.0 };
            let held = 1000.0 + differing * f64::from(next.block % 2);
            let found = search(&points[next.point].server, next.block, held);
            // Searches for another purpose, and of servers that are absent here, are not limits.
            let other = Search { purpose: Purpose::Level, ..found.clone() };
            learn_limits(&mut schedule, &[other, search("gone", 0, 1.0), found]);
            made.push(next.point);
        }
        made[..6].sort_unstable();
        assert_eq!(made[..6], [0, 0, 1, 1, 2, 2], "two blocks of all");
        let count = made[6..].iter().filter(|&&point| point == 1).count();
        assert!(count == of_noisy || !by_width && count < of_noisy, "{made:?}");
    }
}

#[test]
fn a_search_that_found_nothing_does_not_sustain_0() {
    let found = |held_per_s, why: Option<&str>| {
        let broken = why.map(str::to_owned).into_iter().collect();
        sustained(&Search { held_per_s, broken, ..Search::default() })
    };
    assert_eq!(found(1234.5, Some("p99=50ms: 60 ms")), "sustains 1234 requests/s");
    assert_eq!(found(0.0, Some("it ended:\nno such file")), "held no rate: it ended:");
    assert_eq!(found(0.0, None), "held no rate: every run was void");
}

/// What an estimate includes: for each repetition and cell the server's start and end, three
/// windows of warming up, and the window; six windows of the floor for the ceiling of each testbed;
/// a bound on memory, which fills the page cache; and room for a quarter of the runs to be void.
#[test]
fn an_estimate_has_everything_that_takes_time() {
    let check = |changes: &[(&str, &str)], cells: usize, expected: [f64; 2]| {
        let mut text = EXPERIMENT.replace("mat = true", "connections = [8]");
        for (from, to) in changes {
            text = text.replace(from, to);
        }
        let definition = Definition::parse("x", &text, None).expect("it is right");
        let found = estimates_s(&definition, cells, estimated_run_s(&definition));
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
        assert!(found.iter().zip(&expected).all(is_near), "{changes:?}: {found:?}");
    };
    let ceiling =
        estimated_ceiling_s(&Definition::parse("x", EXPERIMENT, None).expect("it is right"));
    // Starting takes a second, and warming up has a least length.
    let run = 1.0 + 3.0 * 0.25 + 0.1;
    let both = |seconds: f64| [seconds, 1.25 * seconds];
    check(&[], 2, both(2.0 * 2.0 * run + ceiling));
    check(&[("repetitions = 2", "repetitions = 6")], 2, both(6.0 * 2.0 * run + ceiling));
    check(&[("connections = [8]", "connections = [8, 16]")], 2, both(8.0 * run + ceiling));
    let bounded = "[offered]\nconnections = [8]\n[[testbeds]]\nname = \"t\"\ncpus = 1\nmemory = { disk_io = \"none\" }";
    check(&[("[offered]\nconnections = [8]", bounded)], 2, both(4.0 * (run + STAGING_S) + ceiling));
    // Servers that are loaded together share the window, and not what comes before it.
    let together = ("repetitions = 2", "repetitions = 2\ntogether = true");
    check(&[together], 2, both(2.0 * (2.0 * run - 0.1) + ceiling));
    check(&[("repetitions = 2", "repetitions = 2\nbudget = \"5s\"")], 2, [5.0, 5.0]);
}
