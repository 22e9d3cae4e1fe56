//! Studies that search, that run out of their budget, and whose servers are installed meanwhile;
//! from the outside, with one engine and windows too short to measure speed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use lab::record::{Offered, Program, Purpose, Run};
use testkit::tools::WRK;
use testkit::{Busy, has};

use crate::lab::{FullDisk, Lab, await_no_server, text};
use crate::server_process::ropewalk_server;
use crate::{ropewalk, run, start_until};

const STUDY: &str = r#"
title = "one engine"
servers = ["ropewalk:event-loop"]
repetitions = 1
window = "100ms"
confidence = 0.7
interference_bound = "100%"
[offered]
rates = [400]
[[workloads]]
name = "one file"
files = "--single 1000"
log = "--single 1000 --lengths 1 --requests 100"
load = "--connection keep --lag-bound 60s --timeout 1s"
"#;

fn experiment(lab: &Lab, from: &str, to: &str) -> PathBuf {
    let path = lab.path("experiment.toml");
    assert!(STUDY.contains(from), "{from}");
    fs::write(&path, STUDY.replacen(from, to, 1)).unwrap();
    path
}

/// Makes a folder of servers of which none is installed.
fn none_installed(lab: &Lab) -> PathBuf {
    let descriptions = lab
        .own_server(r#"command = ["PROGRAM", "serve", "{root}", "--listen", "{listen}:{port}"]"#);
    let own = fs::read_to_string(descriptions.join("own.toml")).unwrap();
    let own = own.replace(text(&ropewalk_server()), text(&lab.path("program")));
    fs::write(descriptions.join("own.toml"), own).unwrap();
    descriptions
}

/// Begins a study, and returns it once it has made `runs` runs.
fn under_way(lab: &Lab, runs: usize, options: &[&str]) -> Child {
    let (scratch, records) = (lab.path("scratch"), lab.path("records"));
    let places = ["--scratch", text(&scratch), "-o", text(&records)];
    let mut command = ropewalk(&[&["study"], options, &places[..]].concat());
    let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
    start_until(command, &records.join("runs.jsonl"), runs)
}

/// Kills a study as soon as it has made `runs` runs, and returns the recorded runs.
fn kill_after(lab: &Lab, runs: usize, options: &[&str]) -> Vec<Run> {
    let mut child = under_way(lab, runs, options);
    child.kill().unwrap();
    child.wait().unwrap();
    await_no_server(&lab.path("scratch"));
    lab.records().runs
}

#[test]
fn the_server_may_be_any_file_and_the_record_has_its_path_and_hash() {
    let lab = Lab::new();
    let program = lab.path("ours");
    fs::copy(ropewalk_server(), &program).unwrap();
    let (study, descriptions) = (experiment(&lab, "", ""), none_installed(&lab));
    let servers = ["--servers", text(&descriptions), "--ropewalk", text(&program)];
    let (status, out, err) = lab.run(&[&["study", text(&study)], &servers[..]].concat());
    assert_eq!(status, 0, "{out}{err}");
    let programs = lab.records().header.servers.into_iter().map(|server| server.program);
    let used = Program::read(&program);
    assert_eq!((&*used.path, used.xxh3.len()), (text(&program), 32));
    assert_eq!(programs.collect::<Vec<_>>(), [used]);
}

/// What was measured is kept, and the rest can be measured once there is room.
#[test]
fn a_full_disk_ends_a_study_that_can_go_on() {
    let lab = Lab::new();
    let path = experiment(&lab, "repetitions = 1", "repetitions = 50");
    let descriptions = none_installed(&lab);
    let options = [text(&path), "--servers", text(&descriptions)];
    let child = under_way(&lab, 1, &options);
    let disk = FullDisk::under(&lab.path("records").join("runs.jsonl"));
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    let last = err.lines().last().unwrap();
    assert_eq!(output.status.code(), Some(4), "{err}");
    let expected = "runs.jsonl: No space left on device";
    assert!(last.contains(expected) && last.contains("--resume"), "{err}");
    disk.make_room();
    let made = lab.records().runs.len();
    let (status, out, err) =
        lab.run(&[&["study"], &options[..], &["--resume", "--budget=4500ms"]].concat());
    assert_eq!(status, 4, "{out}{err}");
    assert!(out.contains(&format!("Going on after {made} runs.")), "{out}");
}

/// A resumed search does not repeat trials made before the study was killed.
#[test]
fn a_study_that_is_killed_within_a_search_goes_on_with_it() {
    let lab = Lab::new();
    let path = experiment(&lab, "", "");
    let descriptions = none_installed(&lab);
    let options = [text(&path), "--mat", "--servers", text(&descriptions)];
    let before = kill_after(&lab, 3, &options);
    assert!(lab.records().searches.is_empty(), "it is under way: {before:?}");
    let runs = lab.path("records").join("runs.jsonl");
    let half = fs::read_to_string(&runs).unwrap() + "{\"number\": 9";
    fs::write(runs, half).unwrap();
    let (status, out, err) = lab.run(&[&["study"], &options[..], &["--resume"]].concat());
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("runs.jsonl: the last line is not whole and is left out"), "{out}");
    let opened = lab.records();
    assert_eq!(opened.runs[..before.len()], before[..], "what was measured stays");
    let asked: BTreeSet<_> = opened.runs.iter().map(|run| (run.attempt, run.seed)).collect();
    assert_eq!(asked.len(), opened.runs.len(), "nothing is asked twice: {:?}", opened.runs);
    let limit = Purpose::Limit { block: 0 };
    let found: Vec<_> =
        opened.searches.iter().map(|search| (&search.purpose, search.block)).collect();
    assert_eq!(found, [(&limit, 0)]);
    assert!(opened.runs.iter().all(|run| run.purpose == limit), "{:?}", opened.runs);
    let again = lab.run(&[&["study"], &options[..], &["--resume"]].concat());
    let after = lab.records();
    assert_eq!((again.0, after.runs.len(), after.searches.len()), (0, opened.runs.len(), 1));
    assert!(page(&lab).contains("one file"));
}

/// Names from before 0.1 are accepted, in an experiment and on the command line, and a line gives
/// the present name of each.
#[test]
fn an_experiment_with_former_names_is_read_with_a_line_for_each() {
    let lab = Lab::new();
    let testbed = "[[domains]]\nname = \"one CPU\"\ncpus = 1\n[[workloads]]";
    let path = experiment(&lab, "[[workloads]]", testbed);
    let descriptions = none_installed(&lab);
    let own = descriptions.join("own.toml");
    fs::write(&own, fs::read_to_string(&own).unwrap() + "# {peers_dir}\n").unwrap();
    let options = ["--dry-run", "--peers", text(&descriptions)];
    let server = "\"ropewalk:event-loop-helpers,engine.knobs.loops=2,\
                  engine.knobs.events_per_wait=7\"";
    let study = fs::read_to_string(&path).unwrap();
    fs::write(&path, study.replace("\"ropewalk:event-loop\"", server)).unwrap();
    let (status, out, err) = lab.run_with_floor(&[&["study", text(&path)], &options[..]].concat());
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("1 testbed"), "{out}");
    assert!(err.contains(": `engine.knobs.loops` is called `engine.knobs.workers` now; "), "{err}");
    assert!(err.contains(": engine.knobs.events_per_wait has no effect any more: "), "{err}");
    for (file, before, now) in [
        (None, "--peers", "--servers"),
        (Some(&path), "domains", "testbeds"),
        (Some(&own), "{peers_dir}", "{servers_dir}"),
    ] {
        let place = file.map_or(String::new(), |file| format!("{}: ", file.display()));
        let line = format!("ropewalk: {place}`{before}` is called `{now}` now; ");
        assert_eq!(err.lines().filter(|it| it.starts_with(&line)).count(), 1, "{err}");
    }
    assert_eq!(err.lines().count(), 5, "{err}");
}

/// The server's use of resources during the warm-up is no part of a window: no observation that is
/// divided by the window's replies may include it.
#[test]
fn what_is_observed_is_observed_after_the_load_has_warmed_up() {
    let lab = Lab::new();
    let path = experiment(&lab, "--connection keep", "--connection keep --warm-up 1s");
    let descriptions = none_installed(&lab);
    let (status, out, err) = lab.run(&["study", text(&path), "--servers", text(&descriptions)]);
    assert_eq!(status, 0, "{out}{err}");
    let runs = lab.records().runs;
    let observed: Vec<(f64, f64)> = runs
        .iter()
        .filter_map(|run| Some((run.observed.get("elapsed_us")? / 1e6, run.took_s)))
        .collect();
    assert!(!observed.is_empty(), "{runs:?}");
    // The warm-up takes a second of each run.
    assert!(observed.iter().all(|(seen_s, took_s)| seen_s + 1.0 < *took_s), "{observed:?}");
}

/// The runs that are not void: what is void on a busy machine is made again.
fn good_runs(lab: &Lab) -> Vec<Run> {
    lab.records().runs.into_iter().filter(|run| run.void.is_empty()).collect()
}

/// One file without a script, and several with one.
#[test]
fn wrk_loads_servers_in_place_of_the_generator() {
    if !has(&WRK) {
        return;
    }
    let lab = Lab::new();
    let path = experiment(&lab, "rates = [400]", "connections = [8]");
    // In a shorter window a server that is kept from its CPU may not answer at all.
    let study = fs::read_to_string(&path).unwrap().replace("100ms", "500ms");
    let own = "load = \"--connection keep --lag-bound 60s --timeout 1s\"";
    let one = study.replace(own, "load = \"--connection keep\"\nclient = \"wrk\"");
    let several = r#"
[[workloads]]
name = "several files"
files = "--directories 1"
log = "--preset spec99 --directories 1 --classes 1,0,0,0 --lengths 1 --requests 100"
load = "--connection request"
client = "wrk"
"#;
    fs::write(&path, one + several).unwrap();
    let descriptions = none_installed(&lab);
    let arguments = ["study", text(&path), "--servers", text(&descriptions)];
    let (status, out, err) = lab.run(&arguments);
    assert_eq!(status, 0, "{out}{err}");
    let runs = good_runs(&lab);
    let names: BTreeSet<_> = runs.iter().map(|run| run.point.workload.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["one file", "several files"]));
    for run in &runs {
        let figures = run.figures.as_ref().unwrap();
        assert!(figures.throughput_per_s > 0.0 && figures.errors.is_empty(), "{run:?}");
        assert!(figures.body_bytes_per_s > 0.0 && figures.times_us.is_empty(), "{run:?}");
        assert!(run.observed["cpu_us_per_request"] > 0.0, "{run:?}");
        let outcome = fs::read_to_string(lab.path("records").join(&run.outcome_file)).unwrap();
        let outcome: serde_json::Value = serde_json::from_str(&outcome).unwrap();
        let command = outcome["setting"]["command"].as_str().unwrap();
        assert!(command.starts_with("wrk -t "), "{outcome}");
        assert_eq!(command.contains("Connection: close"), run.point.workload == "several files");
    }
    assert!(page(&lab).contains("wrk is the client"));
    let sessions = fs::read_to_string(&path).unwrap().replace("--lengths 1", "--lengths 3");
    fs::write(&path, sessions).unwrap();
    let (status, out, err) = lab.run(&arguments);
    assert_eq!(status, 2, "{out}{err}");
    assert!(err.contains("workload one file: `client`: wrk knows no sessions"), "{err}");
}

/// Two servers within the same windows: each has its own clients and its own account.
#[test]
fn servers_are_loaded_together() {
    let lab = Lab::new();
    let path = experiment(&lab, "rates = [400]", "connections = [4]");
    let study = fs::read_to_string(&path).unwrap().replace("100ms", "500ms");
    let two = r#"servers = ["ropewalk:event-loop", "ropewalk:threads"]"#;
    let study = study.replace(r#"servers = ["ropewalk:event-loop"]"#, two);
    fs::write(&path, study.replace("repetitions = 1", "repetitions = 2\ntogether = true")).unwrap();
    let descriptions = none_installed(&lab);
    let arguments = ["study", text(&path), "--servers", text(&descriptions)];
    let (status, out, err) = lab.run(&arguments);
    assert_eq!(status, 0, "{out}{err}");
    let runs = good_runs(&lab);
    assert_eq!(runs.len(), 4);
    for pair in runs.chunks(2) {
        let [one, other] = pair else { panic!("they come in pairs") };
        assert_ne!(one.point.server, other.point.server);
        assert_eq!((one.block, one.seed), (other.block, other.seed));
        let apart_us = one.started_unix_us.abs_diff(other.started_unix_us);
        assert_eq!(apart_us, 0, "their windows begin at one moment");
        for run in pair {
            assert!(run.figures.as_ref().unwrap().throughput_per_s > 0.0, "{run:?}");
            assert!(run.observed["cpu_us_per_request"] > 0.0, "{run:?}");
            let shares = |name: &str| run.observed.keys().any(|key| key.contains(name));
            assert!(shares("foreign_"), "what others used is known: {run:?}");
            let are_delayed = shares("server_delayed") || shares("generator_delayed");
            assert!(!are_delayed, "they wait for each other: {run:?}");
        }
    }
    let page = page(&lab);
    assert!(page.contains("has the lowest median processor time"), "two blocks decide nothing");
    assert!(page.contains("say nothing of what a server can do by itself"));
}

/// The window is shorter than a session here, and has the full rate nevertheless.
#[test]
fn sessions_that_pause_are_under_way_when_the_window_begins() {
    let lab = Lab::new();
    let path = experiment(&lab, "rates = [400]", "rates = [1200]");
    let study = fs::read_to_string(&path).unwrap();
    let pausing = "--lengths 4 --think constant:0.2 --active-think constant:0.2 --requests 100";
    fs::write(&path, study.replace("--lengths 1 --requests 100", pausing)).unwrap();
    let descriptions = none_installed(&lab);
    let arguments = ["study", text(&path), "--servers", text(&descriptions)];
    let (status, out, err) = lab.run(&arguments);
    assert_eq!(status, 0, "{out}{err}");
    let told = "its sessions pause, so each run begins 0.6 s before its window";
    assert!(out.contains(told), "{out}");
    let run = &lab.records().runs[0];
    let outcome = fs::read_to_string(lab.path("records").join(&run.outcome_file)).unwrap();
    let outcome: serde_json::Value = serde_json::from_str(&outcome).unwrap();
    let asked_per_s = outcome["figures"]["asked_per_s"].as_f64().unwrap();
    // Without the earlier start the rate would be a quarter; 30 sessions begin in a window, at
    // random.
    assert!(asked_per_s > 600.0, "{outcome}");
    assert!(run.warm_up_s > 0.6, "{}", run.warm_up_s);
    let short = study.replace("--lengths 1 --requests 100", pausing);
    let short = short.replace("--connection keep", "--connection keep --warm-up 200ms");
    fs::write(&path, short).unwrap();
    let (status, out, err) = lab.run(&arguments);
    assert_eq!(status, 2, "{out}{err}");
    let why = "`load`: --warm-up 200ms: sessions pause, so that a window of 100ms behind it sees \
               53 % of the rate: give 600ms, or cut the pauses with --think-max";
    assert!(err.contains(why), "{err}");
}

/// Processor time that other processes take would distort the server's measurement.
#[test]
fn beside_busy_loops_every_run_is_void_and_says_why() {
    let lab = Lab::new();
    let path = experiment(&lab, "interference_bound = \"100%\"\n", "");
    let study = fs::read_to_string(&path).unwrap();
    fs::write(&path, study.replace("100ms", "500ms")).unwrap();
    let descriptions = none_installed(&lab);
    let bound_to = |cpu| move || os::affinity::pin_thread(&[cpu]).unwrap();
    let loops = Busy::after(os::affinity::allowed_cpus().into_iter().map(bound_to));
    let (status, out, err) = lab.run(&["study", text(&path), "--servers", text(&descriptions)]);
    drop(loops);
    assert_eq!(status, 1, "{out}{err}");
    let runs = lab.records().runs;
    let is_void = |run: &Run| run.void.iter().any(lab::Void::is_interference);
    assert!(!runs.is_empty() && runs.iter().all(is_void), "{runs:?}");
    let page = page(&lab);
    assert!(page.contains("were void and take no part: interference: "), "{page}");
}

/// The rate is searched once, and the repetitions are made at that rate, if one is found.
#[test]
fn a_study_at_a_utilisation() {
    let lab = Lab::new();
    let path = experiment(&lab, "rates = [400]", "utilisations = [0.25]");
    let descriptions = none_installed(&lab);
    let arguments = ["study", text(&path), "--servers", text(&descriptions)];
    let (first, out, err) = lab.run(&arguments);
    let said = format!("{out}{err}");
    let is_found = !said.contains("no rate was found that takes 25 % CPU");
    // Where other tests take the CPUs, a rate may be found that is too much for the generator.
    let is_void = said.contains("every run was void");
    assert_eq!(first == 1, !is_found || is_void, "{said}");
    let runs = lab.records().runs;
    let (looking, repetitions): (Vec<&Run>, Vec<&Run>) =
        runs.iter().partition(|run| run.purpose == Purpose::Utilisation(0.25));
    assert!(matches!(looking[0].point.offered, Offered::Connections(64)), "{looking:?}");
    assert!(looking.len() > 1, "{looking:?}");
    let seeds: BTreeSet<u64> = looking.iter().map(|run| run.seed).collect();
    assert_eq!(seeds.len(), looking.len(), "no two meet the same arrivals");
    if is_found {
        assert!(!repetitions.is_empty(), "{err}");
        let found = looking.last().unwrap().point.offered;
        assert!(repetitions.iter().all(|run| run.point.offered == found), "{repetitions:?}");
    } else {
        assert!(repetitions.is_empty(), "{repetitions:?}");
    }
    if !is_void {
        let (status, _, err) = lab.run(&[&arguments[..], &["--resume"]].concat());
        assert_eq!((status, lab.records().runs.len()), (first, runs.len()), "{err}");
    }
}

/// Servers are started in folders of their own, so a relative path must be made absolute.
#[test]
fn a_scratch_folder_may_be_a_relative_path() {
    let lab = Lab::new();
    let (path, descriptions) = (experiment(&lab, "", ""), none_installed(&lab));
    let arguments =
        ["study", text(&path), "--servers", text(&descriptions), "--scratch=here", "-o=there"];
    let mut command = ropewalk(&arguments);
    let output = command.current_dir(path.parent().unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(lab.path("here").exists() && lab.path("there").join("runs.jsonl").exists());
}

/// The report distinguishes what was measured from what was not, even where a server never answers.
#[test]
fn a_study_says_how_much_could_not_be_measured() {
    let lab = Lab::new();
    let descriptions = none_installed(&lab);
    let program = lab.path("program");
    let script = "#!/bin/sh\ncase $1 in --version) echo own 1;; *) exit 1;; esac\n";
    testkit::install_script(script, &program);
    let path = experiment(&lab, "servers = [", "servers = [\"own\", ");
    let arguments = ["study", text(&path), "--servers", text(&descriptions)];
    let (status, out, err) = lab.run(&arguments);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("1 of 2 are measured, the others could not be: "), "{out}{err}");
}

/// Runs of two workloads are no repetitions of each other.
#[test]
fn a_study_whose_log_has_grown_does_not_go_on() {
    let lab = Lab::new();
    let (root, log) = (lab.path("root"), lab.path("log"));
    fs::create_dir(&root).unwrap();
    fs::write(root.join("a"), [0; 500]).unwrap();
    fs::write(&log, "/a\n").unwrap();
    let own = format!("root = {:?}\nlog_file = {:?}\n", text(&root), text(&log));
    let path = experiment(&lab, "files = \"--single 1000\"\n", &own);
    let made = "log = \"--single 1000 --lengths 1 --requests 100\"\n";
    fs::write(&path, fs::read_to_string(&path).unwrap().replace(made, "")).unwrap();
    let descriptions = none_installed(&lab);
    let arguments = ["study", text(&path), "--servers", text(&descriptions)];
    let (status, out, err) = lab.run(&arguments);
    assert_eq!(status, 0, "{out}{err}");
    assert!(lab.records().header.workloads[0].numbers["mean_body_bytes"] == 500.0);
    fs::write(&log, "/a\n/a\n").unwrap();
    let (status, out, err) = lab.run(&[&arguments[..], &["--resume"]].concat());
    assert_eq!(status, 1, "{out}{err}");
    assert!(err.contains(": workload one file: requests: 1 then, 2 now: "), "{err}");
}

/// The runs that find the ceiling take longer than this budget: the study itself comes first, and
/// the ceiling is measured once there is time for it.
#[test]
fn a_budget_that_does_not_hold_the_ceiling_is_for_the_study() {
    let lab = Lab::new();
    let path = experiment(&lab, "repetitions = 1", "repetitions = 2");
    let (status, out, err) = lab.run_with_floor(&["study", text(&path), "--budget", "4500ms"]);
    assert!(status == 4 || status == 0, "{out}{err}");
    assert!(out.contains("ceiling is not known: the budget does not hold "), "{out}");
    let opened = lab.records();
    assert!(opened.ceilings.is_empty() && !opened.runs.is_empty(), "{out}{err}");
    let planned: Vec<_> = opened.header.planned.iter().map(|one| &*one.server).collect();
    assert_eq!(planned, ["ropewalk:event-loop"], "what is missing can be told");
    let again = ["study", text(&path), "--budget", "1h", "--resume"];
    let (status, out, err) = lab.run_with_floor(&again);
    assert_eq!(status, 0, "{out}{err}");
    let opened = lab.records();
    assert_eq!(opened.ceilings.len(), 1);
    let good = opened.runs.iter().filter(|run| run.void.is_empty());
    assert_eq!(good.map(|run| run.block).collect::<Vec<_>>(), [0, 1]);
}

/// A server that is installed as advised appears in the report.
#[test]
fn a_server_that_is_installed_later_takes_part() {
    let lab = Lab::new();
    let descriptions = none_installed(&lab);
    let path = experiment(&lab, "servers = [", "servers = [\"own\", ");
    let claim = "[[claims]]\ntext = \"It serves more\"\nservers = [\"own\"]\n";
    fs::write(&path, fs::read_to_string(&path).unwrap() + claim).unwrap();
    let arguments = ["study", text(&path), "--servers", text(&descriptions)];
    let (status, out, err) = lab.run(&arguments);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("skipped own: "), "{out}");
    assert!(page(&lab).contains("own took no part: "));
    let left_open = "It serves more (throughput more than 1 times): not decided: own: ";
    assert!(page(&lab).contains(left_open), "{}", page(&lab));
    symlink(ropewalk_server(), lab.path("program")).unwrap();
    let (status, out, err) = lab.run(&[&arguments[..], &["--resume"]].concat());
    assert_eq!(status, 0, "{out}{err}");
    let opened = lab.records();
    assert_eq!(opened.runs.iter().filter(|run| run.point.server == "own").count(), 1, "{out}{err}");
    let header = opened.header;
    assert!(header.skipped.is_empty(), "{:?}", header.skipped);
    let names: Vec<&str> = header.servers.iter().map(|server| &*server.name).collect();
    assert_eq!(names, ["ropewalk:event-loop", "own"]);
    assert_eq!(header.servers[0].configurations.len(), 1, "{:?}", header.servers[0]);
    let own = &header.servers[1];
    assert!(own.configurations["usual"].contains(" serve ") && !own.version.is_empty(), "{own:?}");
    assert!(!page(&lab).contains("own took no part: "));
    assert_eq!(header.claims[0].servers[0].settings, [("own".to_owned(), "usual".to_owned())]);
    assert!(!page(&lab).contains(left_open), "{}", page(&lab));
}

fn page(lab: &Lab) -> String {
    let (status, page, err) =
        run(&["report", text(&lab.path("records")), "--format=markdown", "-o-"]);
    assert_eq!(status, 0, "{err}");
    page
}
