//! The experiments that are shipped: each can be read in all its sizes, and its servers are there
//! and can be set so. None is run.

use std::collections::BTreeSet;
use std::path::Path;

use lab::Peer;
use lab::study::{Definition, Experiment};

use crate::REPOSITORY;
use crate::server_process::ROPEWALK;

#[test]
fn every_experiment_can_be_read_in_all_its_sizes() {
    let peers = lab::catalogue(Path::new(ROPEWALK), None).unwrap();
    let folder = std::fs::read_dir(Path::new(REPOSITORY).join("experiments")).unwrap();
    let paths: Vec<_> = folder.map(|entry| entry.unwrap().path()).filter(|p| p.is_file()).collect();
    assert!(paths.len() >= 46, "{}", paths.len());
    let faults: Vec<String> = paths.iter().flat_map(|path| faults(path, &peers)).collect();
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

/// What is wrong with an experiment, a line each.
fn faults(path: &Path, peers: &[Peer]) -> Vec<String> {
    let sizes = sizes(&std::fs::read_to_string(path).unwrap());
    let of = |what: String| format!("{}: {what}", path.display());
    let mut faults = Vec::new();
    if !sizes.contains("paper") {
        faults.push(of("it has no size of the paper".into()));
    }
    for size in std::iter::once(None).chain(sizes.iter().map(|size| Some(size.as_str()))) {
        match Experiment::read(path, size) {
            Err(why) => faults.push(format!("{why} (size {size:?})")),
            Ok(Experiment::Servers(definition)) => {
                faults.extend(wrong_in(&definition, peers).into_iter().map(of));
            }
            Ok(Experiment::Cache(one)) => {
                faults.extend(unsaid(&one.source, &one.question, &one.expected).map(of));
            }
        }
    }
    faults
}

/// The names in `[sizes.NAME]` and `[sizes.NAME.…]`.
fn sizes(text: &str) -> BTreeSet<String> {
    let heads = text.lines().filter_map(|line| line.trim_start_matches('[').strip_prefix("sizes."));
    heads.filter_map(|head| head.split(['.', ']']).next()).map(str::to_owned).collect()
}

fn wrong_in(definition: &Definition, peers: &[Peer]) -> Vec<String> {
    let mut wrong = Vec::new();
    for spec in &definition.servers {
        let name = spec.peer_name().unwrap_or_default();
        match peers.iter().find(|peer| peer.name == name) {
            None => wrong.push(format!("no server is called {name:?}")),
            Some(peer) => wrong.extend(spec.setting(peer).err()),
        }
    }
    wrong.extend(definition.check_servers(peers).err());
    let Definition { source, question, expected, .. } = definition;
    wrong.extend(unsaid(source, question, expected));
    // Both are added for each run: arrivals by the load that is offered.
    let doubled = definition.workloads.iter().filter(|one| one.load.contains("--arrivals"));
    wrong.extend(doubled.map(|one| format!("workload {}: --arrivals is the study's", one.name)));
    wrong
}

fn unsaid(source: &str, question: &str, expected: &str) -> impl Iterator<Item = String> {
    let texts = [("source", source), ("question", question), ("expected", expected)];
    let missing = texts.map(|(what, text)| text.is_empty().then(|| format!("{what}: it is empty")));
    missing.into_iter().flatten()
}
