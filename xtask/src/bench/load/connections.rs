//! Very many connections at once: whether they are possible, and how much memory they need.

use super::rates::sources;
use super::{Row, Section, cells};
use crate::bench::load_run::LoadRun;
use crate::bench::rounds::progress;
use crate::bench::stage::{self, Stage};
use serde_json::json;
use std::time::Duration;

/// The numbers of connections. More would not fit the 20,000 descriptors that many systems allow.
const CONNECTIONS: &[u64] = &[15_000, 19_000];
const QUICK_CONNECTIONS: &[u64] = &[2000];

/// Two requests with a long pause between them: a session is open for little longer than that.
const REQUESTS_PER_SESSION: usize = 2;
const THINK_S: u64 = 5;
const QUICK_THINK_S: u64 = 1;

/// Runs the row, once for each number: memory does not vary as times do.
pub(super) fn run(stage: &Stage<'_, Row>) -> Result<Section, String> {
    let (numbers, think_s) = match stage.options.quick {
        true => (QUICK_CONNECTIONS, QUICK_THINK_S),
        false => (CONNECTIONS, THINK_S),
    };
    let log = stage.log(REQUESTS_PER_SESSION, &think_s.to_string())?;
    let mut section = Section {
        table: vec![cells([
            "wanted",
            "open at once",
            "client MB",
            "bytes each",
            "requests",
            "replies",
            "errors",
            "lag p99 µs",
        ])],
        notes: Vec::new(),
        samples: json!([]),
    };
    for &wanted in numbers {
        progress(&format!("connections: {wanted}"));
        measure(stage, &log, wanted, think_s, &mut section)?;
    }
    Ok(section)
}

fn measure(
    stage: &Stage<'_, Row>,
    log: &str,
    wanted: u64,
    think_s: u64,
    section: &mut Section,
) -> Result<(), String> {
    let server = stage.server()?;
    let (url, rate) = (stage::server_url(&server), wanted / think_s);
    // By the end of the first pause all connections are open; then as many end as begin.
    let arguments = format!(
        "{url} --log {log} --rate {rate} --source {} --duration {think_s}s \
         --warm-up {think_s}s",
        sources()
    );
    let run = LoadRun::new(stage, &arguments, Duration::from_secs(3 * think_s))?;
    let open = run.connections_open();
    let bytes = run.resident_bytes_max;
    section.table.push(vec![
        wanted.to_string(),
        open.to_string(),
        format!("{:.1}", bytes as f64 / 1e6),
        (bytes / open.max(1)).to_string(),
        run.count("requests").to_string(),
        run.count("replies").to_string(),
        run.errors().to_string(),
        format!("{:.0}", run.time_ms("lag", "p99_ms") * 1000.0),
    ]);
    section.notes.extend(run.complaint().map(|why| format!("{wanted}: {why}")));
    if let Some(samples) = section.samples.as_array_mut() {
        samples.push(json!({
            "wanted": wanted,
            "open": open,
            "resident_bytes_max": bytes,
            "replies": run.count("replies"),
            "errors": run.errors(),
        }));
    }
    Ok(())
}
