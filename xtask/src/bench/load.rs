//! `cargo xtask bench load`: the cost of the load generator, beside others on the same server.
//!
//! Every row drives Ropewalk itself, at its default setting on one processor, from another
//! processor, one client at a time. The client is measured: the processor time of its process, as
//! the kernel accounts for it. Times are not judged here; only the numbers of requests that client
//! and server have counted must agree.

mod closed;
mod connections;
mod log;
mod others;
mod rates;
mod sessions;

use super::options::{Defaults, Named, Options};
use super::rounds::progress;
use super::stage::Stage;
use super::table::{CONFIDENCE, estimate, markdown};
use crate::tools::Tool;
use serde_json::{Value, json};

use statistics::{Estimate, median_estimate, paired_ratio};
use std::fs;
use std::time::Duration;

/// One row of the benchmark.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    title: &'static str,
    run: fn(&Stage<'_, Self>) -> Result<Section, String>,
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Named for Row {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// The result of a row.
#[derive(Debug)]
struct Section {
    /// The table's rows; the first is the head.
    table: Vec<Vec<String>>,
    /// Notes for the reader beside the table.
    notes: Vec<String>,
    /// Every sample.
    samples: Value,
}

/// The defaults of `cargo xtask bench load`.
pub(crate) const DEFAULTS: Defaults<Row> = Defaults {
    rows: ROWS,
    quick_rows: &["closed", "open", "partly-open", "sessions", "connections", "log"],
    only_option: "--clients",
    rounds: 7,
    quick_rounds: 1,
    window: Duration::from_secs(2),
    has_together: false,
};

const ROWS: &[Row] = &[
    Row { name: "closed", title: "Closed: 1 KiB, keep-alive, 64 connections", run: closed::run },
    Row { name: "open", title: "Open: 1 KiB, constant rate", run: rates::open },
    Row {
        name: "partly-open",
        title: "Partly open: sessions of 7 requests, 0.343 s of thinking between them",
        run: rates::partly_open,
    },
    Row {
        name: "sessions",
        title: "Sessions: 7 requests of 1 KiB without thinking, a connection each",
        run: sessions::run,
    },
    Row {
        name: "connections",
        title: "Connections open at once in one process",
        run: connections::run,
    },
    Row { name: "log", title: "From the start to the first request", run: log::run },
];

/// Runs the benchmark and prints its tables.
pub(crate) fn run(options: &Options<Row>) -> Result<(), String> {
    os::limits::raise_descriptor_limit().map_err(|why| why.to_string())?;
    let stage = Stage::new(options)?;
    print_start(&stage);
    let mut sections = Vec::new();
    for row in &options.rows {
        progress(row.name);
        let section = (row.run)(&stage).map_err(|why| format!("{}: {why}", row.name))?;
        println!("\n### {}\n\n{}", row.title, markdown(&section.table));
        for note in &section.notes {
            println!("- {}.", note.trim().replace('\n', " / "));
        }
        sections.push((row.name, section));
    }
    print_skipped(&stage.missing);
    match &options.json {
        Some(path) => fs::write(path, json_text(&stage, &sections))
            .map_err(|why| format!("{}: {why}", path.display())),
        None => Ok(()),
    }
}

fn print_start(stage: &Stage<'_, Row>) {
    println!(
        "Ropewalk {}. Kernel {}. Intervals are of 95 %.",
        stage.version(),
        os::process::kernel_release()
    );
}

fn print_skipped(missing: &[Tool]) {
    if missing.is_empty() {
        return;
    }
    println!("\n{} clients skipped:", missing.len());
    for tool in missing {
        println!("- {}: {}", tool.name, tool.install);
    }
}

fn json_text(stage: &Stage<'_, Row>, sections: &[(&str, Section)]) -> String {
    let rows = sections.iter().map(|(name, section)| {
        json!({ "row": name, "samples": section.samples, "notes": section.notes })
    });
    let document = json!({
        "kernel": os::process::kernel_release(),
        "version": stage.version(),
        "skipped": stage.missing.iter().map(|tool| tool.name).collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

/// The cells of a table's row.
fn cells<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// The median of the samples that are numbers, with its interval.
fn middle(samples: &[f64]) -> Option<Estimate> {
    let clean: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    median_estimate(&clean, CONFIDENCE)
}

fn middle_cell(samples: &[f64]) -> String {
    estimate(middle(samples))
}

/// The ratio of two series, round by round.
fn ratio_cell(ours: &[f64], theirs: &[f64]) -> String {
    estimate(paired_ratio(ours, theirs, CONFIDENCE))
}
