//! The ceiling of the path between clients and servers, which no server can be above: how many
//! bytes a second, and how many requests, a server gets through that does the least any can.

use super::stage::{Cell, Entrant, Stage};
use crate::domain::Accessed;
use crate::record::{Ceiling, Offered};
use crate::workload::WorkloadSpec;
use statistics::median;

/// Windows of each kind, of which the median counts.
const WINDOWS: u64 = 3;

/// As many clients as other runs have at their limit.
const CLIENTS: Offered = Offered::Connections(64);

/// Measures the ceiling of a domain with the floor.
///
/// # Errors
/// Why it is not known.
pub fn ceiling(stage: &Stage<'_>, floor: &Entrant, domain: usize) -> Result<Ceiling, String> {
    let workloads = [one_file("1 byte", 1), one_file("10 MB", 10_000_000)]
        .map(|spec| stage.bench.tools.prepare(&spec))
        .into_iter()
        .collect::<Result<Vec<_>, String>>()?;
    let accessed = workloads.iter().map(|workload| Accessed::of_folder(&workload.root));
    let accessed = accessed.collect::<Result<Vec<_>, String>>()?;
    let path = Stage {
        definition: stage.definition,
        bench: stage.bench,
        surroundings: stage.surroundings,
        entrants: vec![floor.clone()],
        workloads,
        domains: stage.domains.clone(),
        accessed,
        machine: stage.machine.clone(),
    };
    let of = |workload, figure: fn(&crate::record::Figures) -> f64| {
        let cell = Cell { entrant: 0, workload, domain };
        let runs: Vec<_> = (0..WINDOWS).map(|seed| path.run(cell, CLIENTS, seed).0).collect();
        let good = runs.iter().filter(|run| run.void.is_empty());
        let figures: Vec<f64> = good.filter_map(|run| run.figures.as_ref()).map(figure).collect();
        let why = || runs.iter().flat_map(|run| &run.void).next().cloned().unwrap_or_default();
        median(&figures).ok_or_else(why)
    };
    Ok(Ceiling {
        requests_per_s: of(0, |figures| figures.throughput_per_s)?,
        bytes_per_s: of(1, |figures| figures.body_bytes_per_s)?,
    })
}

fn one_file(name: &str, bytes: u64) -> WorkloadSpec {
    WorkloadSpec {
        name: name.into(),
        files: Some(format!("--single {bytes}")),
        log: Some(format!("--single {bytes} --lengths 1 --requests 100")),
        load: "--connection keep".into(),
        ..WorkloadSpec::default()
    }
}
