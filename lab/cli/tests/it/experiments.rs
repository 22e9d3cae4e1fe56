//! The shipped experiments: each can be read in all its sizes, and its servers exist and accept its
//! settings. None is run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::study::{Definition, Experiment, Participant, Selection, estimated_run_s, estimates_s};
use lab::workload::WorkloadSpec;
use lab::{Installed, ServerDescription, ServerSpec};
use testkit::Temporary;

use crate::REPOSITORY;
use crate::server_process::{ROPEWALK_LAB, ropewalk_server};

#[test]
fn every_experiment_can_be_read_in_all_its_sizes() {
    let descriptions = lab::catalogue(Ok(&ropewalk_server()), None).unwrap();
    let folder = std::fs::read_dir(Path::new(REPOSITORY).join("experiments")).unwrap();
    let paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).filter(|p| p.is_file()).collect();
    assert!(paths.len() >= 46, "{}", paths.len());
    let faults: Vec<String> = paths.iter().flat_map(|path| faults(path, &descriptions)).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// What they expect is left to the reader of a report; docs/lab/report.md says why of each.
#[test]
fn expectations_have_claims_but_for_these() {
    let folder = std::fs::read_dir(Path::new(REPOSITORY).join("experiments")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut without: Vec<String> = paths.filter_map(|path| name_without_claims(&path)).collect();
    without.sort();
    let expected = [
        "geneves-2012-fig-4-scaling",
        "geneves-2012-table-3-copies",
        "hashemian-2013-affinity-shared-cpus",
        "ourselves-load",
        "radhakrishnan-2019-fig-3-16-uknot-tuning-2gb",
        "radhakrishnan-2019-section-5-2-blocking-cluster",
        "radhakrishnan-2019-section-5-2-fewer-system-calls",
        "radhakrishnan-2019-section-5-2-latency-target",
    ];
    assert_eq!(without, expected);
}

/// A claim is decided by as many repetitions as an interval takes: those of a form that is shipped,
/// or those that the study itself asks for.
#[test]
fn every_claim_can_be_decided_as_shipped_or_with_the_option_that_is_named() {
    let mut can_decide: BTreeMap<String, bool> = BTreeMap::new();
    for (_, _, mut form) in forms_of_servers() {
        if form.claims.iter().all(|claim| !claim.left_out.is_empty()) {
            continue;
        }
        let can = can_decide.entry(form.name.clone()).or_default();
        match form.repetitions_missed() {
            None => *can = true,
            Some(least) => {
                form.repeat(least);
                assert_eq!((least, form.repetitions_missed()), (6, None), "{}", form.name);
            }
        }
    }
    let by_option = can_decide.values().filter(|can| !**can).count();
    assert_eq!((can_decide.len() - by_option, by_option), (26, 22), "{can_decide:?}");
}

/// The index says of each experiment how long it takes, in the first form and in the papers' size.
#[test]
fn the_index_of_the_papers_has_the_times_that_are_printed() {
    let descriptions = lab::catalogue(Ok(&ropewalk_server()), None).unwrap();
    let index = Path::new(REPOSITORY).join("docs/lab/papers.md");
    let index = std::fs::read_to_string(index).unwrap();
    let mut faults = Vec::new();
    for (line, number) in index.lines().zip(1..) {
        let Some((file, said)) = said_of_study(line) else { continue };
        let path = Path::new(REPOSITORY).join(file);
        let times = said.split("; ").next().unwrap().split(" | ").next().unwrap();
        let paper = said.split("paper: ").nth(1).and_then(|rest| rest.split([';', '|']).next());
        for (size, said) in [(None, Some(times)), (Some("paper"), paper)] {
            let estimates = match Experiment::read(&path, size).unwrap() {
                Experiment::Servers(definition) => estimates_of(&definition, &descriptions),
                Experiment::Cache(definition) => [lab::cache_study::estimate_s(&definition); 2],
            };
            if !said.is_some_and(|said| is_time_of(said, estimates)) {
                let [least, most] = estimates.map(command::estimate::minutes);
                faults.push(format!("{number}: {file} ({size:?}): {said:?}: {least} to {most}"));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// The experiment that a row of the index runs in its first form, and what the row says after that.
fn said_of_study(row: &str) -> Option<(&str, &str)> {
    let (_, command) = row.split_once("`ropewalk study ")?;
    let (file, said) = command.split_once("`<br>")?;
    (!file.contains(' ')).then_some((file, said))
}

/// Whether a time such as `9 min` or `1.5 h` is one of these seconds, rounded.
fn is_time_of(said: &str, [least, most]: [f64; 2]) -> bool {
    let Some((number, unit)) = said.trim().split_once(' ') else { return false };
    let unit_s = match unit {
        "min" => 60.0,
        "h" => 3600.0,
        _ => return false,
    };
    let step = if number.contains('.') { 0.05 } else { 0.5 } * unit_s;
    let within = |number: f64| (least - step..=most + step).contains(&(number * unit_s));
    number.parse().is_ok_and(within)
}

fn name_without_claims(path: &Path) -> Option<String> {
    let has_claims = match Experiment::read(path, None).unwrap() {
        Experiment::Servers(definition) => !definition.claims.is_empty(),
        Experiment::Cache(definition) => !definition.claims.is_empty(),
    };
    (!has_claims).then(|| path.file_stem().unwrap().to_string_lossy().into_owned())
}

/// The faults of an experiment, one line for each.
fn faults(path: &Path, descriptions: &[ServerDescription]) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let sizes = sizes(&text);
    let of = |what: String| format!("{}: {what}", path.display());
    let mut faults = Vec::new();
    if !sizes.contains("paper") {
        faults.push(of("it has no size of the paper".into()));
    }
    for size in std::iter::once(None).chain(sizes.iter().map(|size| Some(size.as_str()))) {
        match Experiment::read(path, size) {
            Err(why) => faults.push(format!("{why} (size {size:?})")),
            Ok(Experiment::Servers(definition)) => {
                faults.extend(faults_of_definition(&definition, descriptions).into_iter().map(of));
                if size.is_none() {
                    let estimates = estimates_of(&definition, descriptions);
                    faults.extend(fault_of_head(&text, estimates).map(of));
                }
            }
            Ok(Experiment::Cache(one)) => {
                if size.is_none() {
                    let seconds = lab::cache_study::estimate_s(&one);
                    faults.extend(fault_of_head(&text, [seconds; 2]).map(of));
                }
                faults.extend(empty_texts(&one.source, &one.question, &one.expected).map(of));
            }
        }
    }
    faults
}

/// The seconds that the program prints where all servers are installed.
fn estimates_of(definition: &Definition, descriptions: &[ServerDescription]) -> [f64; 2] {
    let participants = definition.servers.iter().filter_map(|spec| {
        let is_it = |one: &&ServerDescription| Some(one.name.as_str()) == spec.name();
        let description = descriptions.iter().find(is_it)?.clone();
        let setting = spec.setting(&description).ok()?;
        Some(Participant { installed: Installed { description, version: String::new() }, setting })
    });
    let selection = Selection { participants: participants.collect(), skipped: Vec::new() };
    estimates_s(definition, selection.cells(definition), estimated_run_s(definition))
}

/// What is wrong with the beginning of a file, which says how many minutes the experiment takes:
/// what the program prints.
fn fault_of_head(text: &str, estimates: [f64; 2]) -> Option<String> {
    let said = text.strip_prefix("# About ").and_then(|rest| rest.split(' ').next());
    let said = said.and_then(|word| if word == "a" { Some(1.0) } else { word.parse().ok() });
    let [least, most] = estimates.map(|seconds| f64::max(1.0, (seconds / 60.0).round()));
    let is_right = said.is_some_and(|minutes: f64| (least..=most).contains(&minutes));
    (!is_right).then(|| format!("its first line says {said:?} minutes, not {least} to {most}"))
}

/// The names in `[sizes.NAME]` and `[sizes.NAME.…]`.
fn sizes(text: &str) -> BTreeSet<String> {
    let heads = text.lines().filter_map(|line| line.trim_start_matches('[').strip_prefix("sizes."));
    heads.filter_map(|head| head.split(['.', ']']).next()).map(str::to_owned).collect()
}

fn faults_of_definition(
    definition: &Definition,
    descriptions: &[ServerDescription],
) -> Vec<String> {
    let mut wrong = Vec::new();
    for spec in &definition.servers {
        let name = spec.name().unwrap_or_default();
        match descriptions.iter().find(|description| description.name == name) {
            None => wrong.push(format!("no server is called {name:?}")),
            Some(description) => wrong.extend(spec.setting(description).err()),
        }
    }
    wrong.extend(definition.check_servers(descriptions).err());
    let Definition { source, question, expected, .. } = definition;
    wrong.extend(empty_texts(source, question, expected));
    // The study adds the arrivals of each run itself, by the offered load.
    let doubled = definition.workloads.iter().filter(|one| one.load.arrivals.is_some());
    wrong.extend(doubled.map(|one| format!("workload {}: --arrivals is the study's", one.name)));
    wrong
}

fn empty_texts(source: &str, question: &str, expected: &str) -> impl Iterator<Item = String> {
    let texts = [("source", source), ("question", question), ("expected", expected)];
    let missing = texts.map(|(what, text)| text.is_empty().then(|| format!("{what}: it is empty")));
    missing.into_iter().flatten()
}

/// A session that pauses keeps its connection: a server with the default bound on connections would
/// be limited by that bound.
#[test]
fn where_sessions_pause_every_server_has_enough_connections() {
    let descriptions = lab::catalogue(Ok(&ropewalk_server()), None).unwrap();
    let faults = in_every_size(|definition| {
        let pauses = definition.workloads.iter().any(has_pauses);
        let servers = definition.servers.iter().filter(|_| pauses);
        servers.filter_map(|spec| short_of_connections(spec, &descriptions)).collect()
    });
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// "4 GB" are memory for all requested files, and "2 GB" for four fifths of them.
#[test]
fn memory_is_short_in_the_papers_size_where_it_should_be_and_nowhere_else() {
    const NAME: &str = "zipf-sessions";
    let accessed = bytes_of(&WorkloadSpec::preset(NAME).unwrap().log.unwrap().to_arguments());
    let faults = in_every_size(|definition| {
        let asks = definition.workloads.iter().any(|one| one.name == NAME);
        let testbeds = definition.testbeds.iter().filter(|_| asks);
        let shares = testbeds.filter_map(|testbed| {
            let limit = testbed.memory?.limit_bytes?;
            Some((&testbed.name, limit as f64 / accessed))
        });
        let wrong = shares.filter(|(name, share)| match name.as_str() {
            "2 GB" => !(0.75..0.85).contains(share),
            _ => *share < 1.1,
        });
        wrong.map(|(name, share)| format!("{name}: memory for {share:.2} of it")).collect()
    });
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// Applies `find` to all experiments of servers in every size; returns a line for each result, with
/// the file and the size.
fn in_every_size(find: impl Fn(&Definition) -> Vec<String>) -> Vec<String> {
    let mut all = Vec::new();
    for (path, size, definition) in forms_of_servers() {
        let of = |what: String| format!("{} (size {size:?}): {what}", path.display());
        all.extend(find(&definition).into_iter().map(of));
    }
    all
}

/// All experiments of servers in every size: the file, the size, and what it says.
fn forms_of_servers() -> Vec<(PathBuf, Option<String>, Definition)> {
    let folder = std::fs::read_dir(Path::new(REPOSITORY).join("experiments")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut all = Vec::new();
    for path in paths {
        let sizes = sizes(&std::fs::read_to_string(&path).unwrap());
        for size in std::iter::once(None).chain(sizes.into_iter().map(Some)) {
            if let Experiment::Servers(one) = Experiment::read(&path, size.as_deref()).unwrap() {
                all.push((path.clone(), size, *one));
            }
        }
    }
    all
}

fn has_pauses(workload: &WorkloadSpec) -> bool {
    let preset = workload.log.as_ref().and_then(|log| log.preset.as_deref());
    let is_paused = matches!(preset, Some("radhakrishnan" | "geneves"));
    is_paused && workload.load.think_max.is_none()
}

/// Returns a line if a server has the default bound on connections, or more user threads than
/// connections.
fn short_of_connections(spec: &ServerSpec, descriptions: &[ServerDescription]) -> Option<String> {
    let name = spec.name()?;
    let description = descriptions.iter().find(|description| description.name == name)?;
    let bounds = ["limits.connections_max", "max_conns", "max_connections"];
    let bound = bounds.into_iter().find(|bound| description.knobs.contains_key(*bound))?;
    let knobs = spec.setting(description).ok()?.knobs;
    let number = |knob: &str| knobs.get(knob).and_then(|value| value.parse::<u64>().ok());
    let Some(connections) = number(bound) else {
        // For lighttpd the bound is that of each process.
        return (name != "lighttpd").then(|| format!("{spec}: {bound} is not given"));
    };
    // The sizes of the paper have four partitions.
    let fibers = number("engine.knobs.prespawned").unwrap_or(0) * 4;
    (fibers > connections).then(|| format!("{spec}: {fibers} user threads"))
}

/// The bytes of all files that a log requests.
fn bytes_of(log: &[String]) -> f64 {
    let folder = Temporary::new();
    let path = folder.path().join("sessions.log");
    let mut generate = Command::new(ROPEWALK_LAB);
    generate.args(["log", "generate"]).args(log).arg("--output").arg(&path);
    assert!(generate.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    let described =
        Command::new(ROPEWALK_LAB).args(["log", "describe", "--json"]).arg(path).output();
    let json: serde_json::Value = serde_json::from_slice(&described.unwrap().stdout).unwrap();
    json["bytes"]["files_bytes"].as_f64().unwrap()
}
