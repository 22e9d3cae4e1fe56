//! The ceiling of the path between clients and servers, which no server can exceed: how many bytes
//! a second, and how many requests, pass it when the server does the least any can, on all the CPUs
//! of the testbed.
//!
//! The ceiling is that of the path, not of files: the testbed's bounds on memory and on the disk do
//! not apply, because the floor answers from memory.

use super::definition::Definition;
use super::run::STAGING_S;
use super::stage::{Cell, Made, Participant, Stage};
use crate::error::Error;
use crate::record::{Ceiling, Figures, Offered};
use crate::search::Stop;
use crate::testbed::{Accessed, Testbed};
use crate::void::in_words;
use crate::warm_up::{WARM_UPS_ESTIMATED, run_s};
use crate::workload::{FileSetOptions, LogOptions, WorkloadSpec, connections};
use load::plan::ConnectionUse;
use statistics::median;

/// Windows of each kind; their median counts.
const WINDOWS: u64 = 3;

/// Seconds of a window at least and at most; in between it is the study's own. A shorter window
/// misses long transfers, and a longer one shows nothing new.
const WINDOW_S: (f64, f64) = (0.5, 2.0);

/// Clients for small requests: as many as other runs have at their limit, and at least this many
/// for each CPU of the server, so that none of its threads, to which the kernel deals them, has too
/// few.
const CLIENTS: (u64, u64) = (64, 32);

/// Clients for long transfers, and clients for each CPU of the server. What is under way when a
/// window ends counts for nothing, so there are fewer than for small requests.
const BULK_CLIENTS: (u64, u64) = (8, 4);

/// Bodies of long transfers, longest first. A fast path needs long ones, or requests are measured;
/// on a slow path long ones measure nothing, because few end within a window.
const BULK_BYTES: [u64; 3] = [1_000_000, 100_000, 10_000];

/// With this many bodies for each client, what is under way when a window ends, half a body of each
/// on average, is one part in a hundred.
const BODIES_MIN: f64 = 50.0;

/// Why a ceiling was not measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoCeiling {
    /// The study ends before it.
    #[error("the study ends")]
    Ended(Stop),
    /// There was no time for it.
    #[error("the budget does not hold that and a run")]
    NoTime,
    /// It cannot be measured here.
    #[error("{0}")]
    Unknown(String),
}

/// Measures the ceiling of a testbed with the floor; `goes_on` is called before each run.
///
/// # Errors
/// Why it is not known.
pub(super) fn ceiling(
    stage: &Stage<'_>,
    floor: &Participant,
    testbed: usize,
    goes_on: &mut dyn FnMut() -> Result<(), NoCeiling>,
) -> Result<Ceiling, NoCeiling> {
    let specs = [1].into_iter().chain(BULK_BYTES).map(one_file);
    let workloads = specs.map(|spec| stage.load_setup.tools.prepare(&spec));
    let workloads = workloads.collect::<Result<Vec<_>, Error>>();
    let workloads = workloads.map_err(|why| NoCeiling::Unknown(why.to_string()))?;
    let accessed = workloads.iter().map(|workload| Accessed::of_folder(&workload.root));
    let accessed = accessed.collect::<Result<Vec<_>, String>>().map_err(NoCeiling::Unknown)?;
    let window_s = window_s(stage.definition);
    let definition = Definition { window_s, ..stage.definition.clone() };
    let path = Stage {
        definition: &definition,
        load_setup: stage.load_setup,
        source_tree: stage.source_tree,
        participants: vec![floor.clone()],
        workloads,
        testbeds: vec![without_bounds(&stage.testbeds[testbed])],
        accessed,
        machine: stage.machine.clone(),
    };
    let cpus = path.testbeds[0].server_cpus(&path.machine) as u64;
    let mut measured = |workload, clients, figure: fn(&Figures) -> f64| {
        let cell = Cell { participant: 0, workload, testbed: 0 };
        let offered = Offered::Connections(clients);
        in_windows(goes_on, &mut |seed| path.run(&[cell], offered, seed), figure)
    };
    let generators = path.testbeds[0].generators() as u64;
    let clients = |(least, of_cpu): (u64, u64)| least.max(of_cpu * cpus).max(generators);
    let bulk = clients(BULK_CLIENTS);
    Ok(Ceiling {
        requests_per_s: measured(0, clients(CLIENTS), |figures| figures.throughput_per_s)?,
        bytes_per_s: bytes_per_s(bulk as f64 / window_s, |index| {
            measured(1 + index, bulk, |figures| figures.body_bytes_per_s)
        })?,
    })
}

/// The median of what windows show, each made with its number as the seed.
fn in_windows(
    goes_on: &mut dyn FnMut() -> Result<(), NoCeiling>,
    make: &mut dyn FnMut(u64) -> Result<Made, String>,
    figure: fn(&Figures) -> f64,
) -> Result<f64, NoCeiling> {
    let mut runs = Vec::new();
    for seed in 0..WINDOWS {
        goes_on()?;
        let made = make(seed).map_err(NoCeiling::Unknown)?;
        made.left.map_err(NoCeiling::Ended)?;
        runs.extend(made.runs.into_iter().map(|(run, _)| run));
    }
    let good = runs.iter().filter(|run| run.void.is_empty());
    let figures: Vec<f64> = good.filter_map(|run| run.figures.as_ref()).map(figure).collect();
    let why = || runs.iter().map(|run| in_words(&run.void)).find(|why| !why.is_empty());
    median(&figures).ok_or_else(|| NoCeiling::Unknown(why().unwrap_or_default()))
}

/// Seconds that measuring the ceiling of a testbed is reckoned to take.
pub(super) fn estimated_ceiling_s(definition: &Definition) -> f64 {
    let has_network = definition.testbeds.iter().any(|testbed| testbed.network.is_some());
    let staging_s = if has_network { STAGING_S } else { 0.0 };
    // Requests, and bodies of one length: most paths need no shorter bodies.
    (2 * WINDOWS) as f64 * (staging_s + run_s(window_s(definition), WARM_UPS_ESTIMATED))
}

fn window_s(definition: &Definition) -> f64 {
    definition.window_s.clamp(WINDOW_S.0, WINDOW_S.1)
}

fn without_bounds(testbed: &Testbed) -> Testbed {
    Testbed { memory: None, disk: None, ..testbed.clone() }
}

/// The most that `measure`, which gets an index into [`BULK_BYTES`], finds for the lengths of
/// bodies. Each result falls short of the path by what was under way when its window ended, so the
/// highest is nearest. Shorter bodies are tried until enough have come whole for every client
/// (`clients_per_s`: clients by seconds of a window).
fn bytes_per_s(
    clients_per_s: f64,
    mut measure: impl FnMut(usize) -> Result<f64, NoCeiling>,
) -> Result<f64, NoCeiling> {
    let mut most = 0.0_f64;
    for (index, bytes) in BULK_BYTES.into_iter().enumerate() {
        let found = measure(index)?;
        most = most.max(found);
        if found >= BODIES_MIN * clients_per_s * bytes as f64 {
            break;
        }
    }
    if most > 0.0 {
        return Ok(most);
    }
    let least = BULK_BYTES[BULK_BYTES.len() - 1];
    Err(NoCeiling::Unknown(format!(
        "the path is so slow that not even {least} bytes came whole within a window"
    )))
}

fn one_file(bytes: u64) -> WorkloadSpec {
    WorkloadSpec {
        name: format!("{bytes} bytes"),
        files: Some(FileSetOptions::single(bytes)),
        log: Some(LogOptions::of_single(bytes, 100)),
        load: connections(ConnectionUse::Keep),
        ..WorkloadSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Run;
    use crate::testbed::{DiskIo, Memory, Network, Throttle};
    use crate::void::Void;

    /// What a window of half a second shows of a path with this many bytes a second: each client's
    /// bodies that came whole.
    #[track_caller]
    fn check(path_bytes_per_s: f64, tried: usize, expected: Result<(f64, f64), &str>) {
        let (window_s, clients) = (0.5, 8.0);
        let mut lengths = 0;
        let found = bytes_per_s(clients / window_s, |index| {
            lengths += 1;
            let bytes = BULK_BYTES[index] as f64;
            Ok((path_bytes_per_s * window_s / clients / bytes).floor() * clients * bytes / window_s)
        });
        assert_eq!(lengths, tried, "{found:?}");
        match (found, expected) {
            (Ok(found), Ok((from, to))) => assert!((from..=to).contains(&found), "{found}"),
            (Err(NoCeiling::Unknown(why)), Err(part)) => assert!(why.contains(part), "{why}"),
            (found, _) => panic!("{found:?}"),
        }
    }

    #[test]
    fn bytes_are_counted_on_fast_and_on_slow_paths() {
        check(2e9, 1, Ok((1.96e9, 2e9)));
        check(1.25e8, 2, Ok((1.22e8, 1.25e8)));
        check(1.25e7, 3, Ok((1.22e7, 1.25e7)));
        check(1e6, 3, Ok((9e5, 1e6)));
        check(1e5, 3, Err("not even 10000 bytes came whole"));
    }

    /// What the windows showed is told, whatever the clock and the user say after the last; before
    /// it they end the measurement, and are the reason.
    #[test]
    fn the_reason_is_the_one_that_ended_it() {
        let found = |ends_before: u64, reason: &NoCeiling, left: Result<(), Stop>| {
            let (mut begun, mut made) = (0, 0);
            let mut goes_on = || {
                begun += 1;
                if begun > ends_before { Err(reason.clone()) } else { Ok(()) }
            };
            let mut make = |_| {
                made += 1;
                let run = Run { void: vec![Void::Conditions("odd".into())], ..Run::default() };
                Ok(Made { runs: vec![(run, None)], left: left.clone() })
            };
            (in_windows(&mut goes_on, &mut make, |figures| figures.throughput_per_s), made)
        };
        let interrupted = NoCeiling::Ended(Stop::Interrupted);
        for reason in [NoCeiling::NoTime, interrupted] {
            assert_eq!(found(1, &reason, Ok(())), (Err(reason.clone()), 1));
            let odd = NoCeiling::Unknown("odd".into());
            assert_eq!(found(WINDOWS, &reason, Ok(())), (Err(odd), WINDOWS));
        }
        let changed = Stop::Unable("it is another machine now".into());
        let ended = found(WINDOWS, &NoCeiling::NoTime, Err(changed.clone()));
        assert_eq!(ended, (Err(NoCeiling::Ended(changed)), 1));
    }

    /// Under a bound on memory every run would be void: the floor reads nothing from the disk.
    #[test]
    fn the_path_has_neither_memory_nor_disk() {
        let memory = Memory { disk_io: Some(DiskIo::Heavy), ..Memory::default() };
        let network = Network { subnets: 2, sources: None, link: Default::default() };
        let bounded = Testbed {
            cpus: Some(2),
            memory: Some(memory),
            disk: Some(Throttle { reads_per_s: Some(1), ..Throttle::default() }),
            network: Some(network),
            ..Testbed::default()
        };
        let expected = Testbed { cpus: Some(2), network: Some(network), ..Testbed::default() };
        assert_eq!(without_bounds(&bounded), expected);
    }
}
