//! `cargo xtask bench engines`: every engine under the same loads, in alternating rounds, beside
//! foreign servers of the same architectures.
//!
//! Every reply is checked, byte for byte before the rounds and by its length within them. Servers
//! run on one processor and the load comes from another, so that this compares the cost of the
//! architectures; how they scale is another question.

mod cold;
mod field;
mod look;
mod table;
mod window;

use super::options::{Defaults, Named, Options};
use super::rounds::{order, progress};
use super::stage::Stage;
use field::{Entrant, Field};
use serde_json::json;
use std::fs;
use std::time::Duration;

/// The requests of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// One file of this many bytes.
    OneFile(u32),
    /// Files of a SPECweb99 set, chosen by Zipf's law, all of them in memory.
    Zipf,
    /// Files of a SPECweb99 set without the largest class, chosen by Zipf's law, out of memory for
    /// the most part.
    Cold,
    /// Connections that rest between their two requests.
    Resting,
}

/// One row.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    name: &'static str,
    title: &'static str,
    subject: Subject,
    connections: u32,
    /// The maximum number of rounds of the row, whatever the options say.
    rounds_max: usize,
}

impl Row {
    const fn new(name: &'static str, title: &'static str, subject: Subject) -> Self {
        Self { name, title, subject, connections: 64, rounds_max: usize::MAX }
    }
}

impl Named for Row {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// The defaults of `cargo xtask bench engines`.
pub(crate) const DEFAULTS: Defaults<Row> = Defaults {
    rows: ROWS,
    quick_rows: &["1k", "zipf"],
    only_option: "--engines",
    rounds: 5,
    quick_rounds: 1,
    window: Duration::from_millis(1000),
    has_together: true,
};

const ROWS: &[Row] = &[
    Row::new("1k", "1 KiB, keep-alive, 64 connections", Subject::OneFile(1024)),
    Row::new("50k", "50 KiB, keep-alive, 64 connections", Subject::OneFile(51200)),
    Row {
        connections: 1000,
        ..Row::new(
            "zipf",
            "SPECweb99 files by Zipf's law, in memory, 1,000 connections",
            Subject::Zipf,
        )
    },
    Row {
        connections: 8000,
        ..Row::new(
            "8000",
            "1 KiB, keep-alive, 8,000 connections (opening them included)",
            Subject::OneFile(1024),
        )
    },
    Row {
        connections: 60_000,
        rounds_max: 3, // a window takes half a minute
        ..Row::new(
            "60000",
            "1 KiB, 60,000 connections that mostly rest, 4 processes",
            Subject::Resting,
        )
    },
    Row::new(
        "cold",
        "SPECweb99 files up to 100 KiB by Zipf's law, out of memory, 64 connections",
        Subject::Cold,
    ),
];

/// Runs the benchmark and prints its tables.
pub(crate) fn run(options: &Options<Row>) -> Result<(), String> {
    let apart = |row: &&&Row| matches!(row.subject, Subject::Cold | Subject::Resting);
    if let Some(row) = options.rows.iter().find(apart).filter(|_| options.together) {
        let name = row.name;
        return Err(format!("--together: row {name} has servers in turn only; choose with --rows"));
    }
    os::limits::raise_descriptor_limit().map_err(|why| why.to_string())?;
    let stage = Stage::new(options)?;
    let field = Field::find(&stage)?;
    println!(
        "Ropewalk {}. Kernel {}. Intervals are of 95 %.",
        stage.version(),
        os::process::kernel_release()
    );
    field.missing.iter().for_each(|why| println!("Skipped: {why}."));
    let mut rows = Vec::new();
    for row in &options.rows {
        let (entrants, notes) = match row.subject {
            Subject::Cold => cold::run(&stage, &field)?,
            _ => rounds(&stage, &field, row)?,
        };
        println!("\n### {}\n\n{}", row.title, table::render(row.subject, &entrants));
        let own = entrants.iter().flat_map(Entrant::notes);
        for note in notes.into_iter().chain(own) {
            println!("- {}.", note.trim().replace('\n', " / "));
        }
        let samples: Vec<_> = entrants.iter().map(Entrant::json).collect();
        rows.push(json!({ "row": row.name, "entrants": samples }));
    }
    match &options.json {
        Some(path) => {
            let document = json!({ "kernel": os::process::kernel_release(), "rows": rows });
            fs::write(path, format!("{document:#}\n"))
                .map_err(|why| format!("{}: {why}", path.display()))
        }
        None => Ok(()),
    }
}

/// Starts all servers and loads them in rounds, one at a time.
fn rounds(
    stage: &Stage<'_, Row>,
    field: &Field,
    row: &Row,
) -> Result<(Vec<Entrant>, Vec<String>), String> {
    let work = window::Work::prepare(stage, row)?;
    let mut entrants = Vec::new();
    let mut notes = Vec::new();
    for contestant in field.contestants(row.subject) {
        progress(&format!("{}: {}", row.name, contestant.label));
        match Entrant::enter(stage, contestant, &work) {
            Ok(entrant) => entrants.push(entrant),
            Err(why) => notes.push(format!("{} left out: {why}", contestant.label)),
        }
    }
    for round in 0..stage.options.rounds.min(row.rounds_max) {
        progress(&format!("{}: round {}", row.name, round + 1));
        if stage.options.together {
            window::together(stage, &mut entrants, &work)?;
        } else {
            for index in order(round, entrants.len()) {
                entrants[index].round(stage, &work)?;
            }
        }
    }
    Ok((entrants, notes))
}
