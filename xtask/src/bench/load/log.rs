//! A very long request log: the time until the first request.
//!
//! There is no server here but a socket that waits for the first byte.

use super::{Row, Section, cells, middle_cell};
use crate::bench::rounds::progress;
use crate::bench::stage::Stage;
use lab::client::Client;
use os::files::Space;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Requests of the log; for comparison there is a shorter one.
const REQUESTS: u64 = 8_000_000;
const QUICK_REQUESTS: u64 = 100_000;
const SHORT: u64 = 7;

/// A bound on the bytes of a request in the log, which are about 30.
const BYTES_PER_REQUEST: u64 = 64;

/// How often the start is measured at most.
const STARTS_MAX: usize = 5;

/// The time after which a missing request is an error.
const WITHIN: Duration = Duration::from_secs(60);

/// Runs the row.
pub(super) fn run(stage: &Stage<'_, Row>) -> Result<Section, String> {
    let requests = if stage.options.quick { QUICK_REQUESTS } else { REQUESTS };
    let mut section = Section {
        table: vec![cells(["requests in the log", "MB", "seconds to the first request"])],
        notes: Vec::new(),
        samples: json!([]),
    };
    for requests in [SHORT, requests] {
        let path = stage.path(&format!("{requests}.log"));
        let needed = requests * BYTES_PER_REQUEST;
        let free = free_bytes(stage.path("").as_path())?;
        if free < needed {
            section.notes.push(format!(
                "a log of {requests} requests is skipped: it needs {} MB, {} MB are free",
                needed / 1_000_000,
                free / 1_000_000
            ));
            continue;
        }
        progress(&format!("log: generating {requests} requests"));
        let (number, output) = (requests.to_string(), path.display().to_string());
        stage.prepare(&["log", "generate", "--requests", &number, "--output", &output])?;
        starts(stage, requests, &path, &mut section)?;
        fs::remove_file(&path).map_err(|why| format!("{output}: {why}"))?;
    }
    Ok(section)
}

fn starts(
    stage: &Stage<'_, Row>,
    requests: u64,
    path: &Path,
    section: &mut Section,
) -> Result<(), String> {
    let mut seconds = Vec::new();
    for _ in 0..stage.options.rounds.min(STARTS_MAX) {
        progress(&format!("log: starting with {requests} requests"));
        seconds.push(start(stage, path)?);
    }
    let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    section.table.push(vec![
        requests.to_string(),
        format!("{:.1}", bytes as f64 / 1e6),
        middle_cell(&seconds),
    ]);
    if let Value::Array(samples) = &mut section.samples {
        samples.push(json!({ "requests": requests, "bytes": bytes, "seconds": seconds }));
    }
    Ok(())
}

/// Seconds from the start of `ropewalk load` to the first byte of its first request.
fn start(stage: &Stage<'_, Row>, log: &Path) -> Result<f64, String> {
    let explain = |why| format!("cannot listen: {why}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(explain)?;
    listener.set_nonblocking(true).map_err(explain)?;
    let url = format!("http://{}", listener.local_addr().map_err(explain)?);
    let log = log.display().to_string();
    let command = stage.command(&["load", &url, "--log", &log, "--rate", "1", "-q"]);
    let begun_us = os::clock::now();
    // The client is dropped, and so killed, at the end: its request stays without an answer.
    let _client = Client::start(stage.client_cpu, &command)?;
    loop {
        let elapsed_us = os::clock::now() - begun_us;
        if let Ok((mut stream, _)) = listener.accept() {
            stream.set_nonblocking(false).map_err(explain)?;
            stream.set_read_timeout(Some(WITHIN)).map_err(explain)?;
            stream.read_exact(&mut [0]).map_err(|why| format!("no request came: {why}"))?;
            return Ok((os::clock::now() - begun_us) as f64 / 1e6);
        }
        if u128::from(elapsed_us) > WITHIN.as_micros() {
            return Err(format!("no request came within {WITHIN:?}"));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn free_bytes(folder: &Path) -> Result<u64, String> {
    let explain = |why| format!("{}: {why}", folder.display());
    let folder = File::open(folder).map_err(explain)?;
    Space::from_file(folder.as_fd()).map(|space| space.free_bytes).map_err(explain)
}
