//! The tables of the benchmark of engines.

use super::Subject;
use super::field::{Entrant, Sample};
use crate::bench::table::{CONFIDENCE, estimate, markdown};
use statistics::{median, median_estimate, paired_ratio};

/// The engine with which the others are compared: the default.
const REFERENCE: &str = "event-loop-per-core";
/// In the cold row the reference is the engine without any help for the disk.
const COLD_REFERENCE: &str = "event-loop";

/// A row's table, sorted by cost, cheapest first; in the cold row by speed.
pub(super) fn render(subject: Subject, entrants: &[Entrant]) -> String {
    let is_cold = subject == Subject::Cold;
    let mut sorted: Vec<&Entrant> = entrants.iter().collect();
    let middle = |values: Vec<f64>| median(&clean(values)).unwrap_or(f64::MAX);
    sorted.sort_by(|a, b| {
        let key = |it: &Entrant| if is_cold { -middle(rates(it)) } else { middle(it.cpu_us()) };
        key(a).total_cmp(&key(b))
    });
    let name = if is_cold { COLD_REFERENCE } else { REFERENCE };
    let reference = entrants.iter().find(|it| it.label == name);
    let mut table = vec![head(is_cold, name)];
    table.extend(sorted.into_iter().map(|it| line(is_cold, it, reference)));
    markdown(&table)
}

fn head(is_cold: bool, reference: &str) -> Vec<String> {
    let over = format!("over {reference}");
    let cells = match is_cold {
        true => vec![
            "engine",
            "requests/s",
            &over,
            "CPU µs/request",
            "disk KiB/request",
            "disk reads/request",
            "memory MB",
            "switches/request",
            "system calls/request",
        ],
        false => vec![
            "engine",
            "requests/s",
            "CPU µs/request",
            &over,
            "memory MB",
            "B/connection",
            "switches/request",
            "system calls/request",
        ],
    };
    cells.into_iter().map(str::to_owned).collect()
}

fn line(is_cold: bool, it: &Entrant, reference: Option<&Entrant>) -> Vec<String> {
    let middle = |values: Vec<f64>| estimate(median_estimate(&clean(values), CONFIDENCE));
    let over = |values: fn(&Entrant) -> Vec<f64>| {
        let reference = reference.filter(|reference| reference.label != it.label);
        estimate(reference.and_then(|r| paired_ratio(&values(it), &values(r), CONFIDENCE)))
    };
    let number = |value: f64, digits: usize| match value.is_finite() {
        true => format!("{value:.digits$}"),
        false => "–".into(),
    };
    let rate = median(&clean(rates(it))).map_or("–".into(), |rate| format!("{rate:.0}"));
    let (look, label) = (&it.look, it.label.clone());
    match is_cold {
        true => {
            let disk = it.samples.iter().map(|sample| sample.disk_kib).collect();
            vec![
                label,
                middle(rates(it)),
                over(rates),
                middle(it.cpu_us()),
                middle(disk),
                number(look.disk_reads, 3),
                number(look.memory_bytes / 1e6, 1),
                number(look.switches, 3),
                number(look.system_calls, 2),
            ]
        }
        false => vec![
            label,
            rate,
            middle(it.cpu_us()),
            over(Entrant::cpu_us),
            number(look.memory_bytes / 1e6, 1),
            number(look.connection_bytes, 0),
            number(look.switches, 3),
            number(look.system_calls, 2),
        ],
    }
}

fn rates(it: &Entrant) -> Vec<f64> {
    it.samples.iter().map(|sample: &Sample| sample.requests_per_s).collect()
}

fn clean(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().filter(|value| value.is_finite()).collect()
}
