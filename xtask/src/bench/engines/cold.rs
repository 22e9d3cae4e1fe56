//! The row whose files do not fit in memory: how each engine deals with a disk.
//!
//! A server is started anew for each window, in a control group that bounds its memory, with the
//! file set evicted: pages are charged to the group that reads them first. A window in which the
//! disk was not read is void.

use super::Row;
use super::field::{Entrant, Field, Sample};
use super::look::Observation;
use super::window::{Work, log};
use crate::bench::load_run::{LoadRun, Started};
use crate::bench::rounds::{order, progress};
use crate::bench::stage::Stage;
use lab::RunningServer;
use lab::testbed::Accessed;
use std::thread;
use std::time::Duration;

/// Directories of the set: about 1.2 GB, of which the load requests the smaller classes, 120 MB.
const DIRECTORIES: &str = "240";
/// The published shares without the class of the largest files.
const CLASSES: &str = "0.35,0.5,0.15,0";
const CONNECTIONS: u32 = 64;
/// The memory of a server with the pages it reads: a quarter of the requested files, and enough for
/// the kernel's memory of a process or a thread for each connection.
const MEMORY_BYTES: u64 = 32 << 20;
/// Longer than other windows: the disk takes its time.
const WINDOW: Duration = Duration::from_secs(3);
const QUICK_WINDOW: Duration = Duration::from_millis(500);

/// Runs the row.
pub(super) fn run(
    stage: &Stage<'_, Row>,
    field: &Field,
) -> Result<(Vec<Entrant>, Vec<String>), String> {
    let root = stage.root();
    stage.prepare(&["fileset", &root.display().to_string(), "--directories", DIRECTORIES])?;
    let files = Accessed::of_folder(&root)?;
    let work = Work::with_log(CONNECTIONS, log(stage, DIRECTORIES, CLASSES)?);
    let contestants = field.contestants(super::Subject::Cold);
    let mut entrants: Vec<Entrant> =
        contestants.iter().map(|it| Entrant::without_server(it, None)).collect();
    for round in 0..stage.options.rounds {
        progress(&format!("cold: round {}", round + 1));
        for index in order(round, entrants.len()) {
            let sample = match contestants[index].start(stage, CONNECTIONS, Some(MEMORY_BYTES)) {
                Ok(server) => measure(stage, &server, &work, &files)?,
                Err(why) => Sample::void(why),
            };
            entrants[index].samples.push(sample);
        }
    }
    for (contestant, entrant) in contestants.iter().zip(&mut entrants) {
        progress(&format!("cold: observing {}", entrant.label));
        match contestant.start(stage, CONNECTIONS, Some(MEMORY_BYTES)) {
            Ok(server) => entrant.look = observe_once(stage, &server, &work, &files)?,
            Err(why) => entrant.look.note = Some(why),
        }
    }
    let note =
        format!("each server has {} MiB of memory, pages of files included", MEMORY_BYTES >> 20);
    let misses = "a request that misses asks the disk for one read or more: no more requests miss \
                  than there are disk reads";
    Ok((entrants, vec![note, misses.into()]))
}

/// A window that does not count, in the middle of which the server is observed.
fn observe_once(
    stage: &Stage<'_, Row>,
    server: &RunningServer,
    work: &Work,
    files: &Accessed,
) -> Result<Observation, String> {
    files.evict()?;
    let mut look = Observation::before(server);
    let arguments =
        format!("{} --duration {}ms --lag-bound 1s", work.arguments(server), WINDOW.as_millis());
    let started = Started::new(stage, &arguments, "look")?;
    thread::sleep(WINDOW / 2);
    let seen = look.observe(server);
    let run = started.finish(WINDOW)?;
    match run.complaint() {
        Some(why) => look.note = Some(why),
        None => look.divide(&seen, run.per_second("replies")),
    }
    Ok(look)
}

fn measure(
    stage: &Stage<'_, Row>,
    server: &RunningServer,
    work: &Work,
    files: &Accessed,
) -> Result<Sample, String> {
    // Evicted again each time: the files that were read are in memory.
    files.evict()?;
    let window = if stage.options.quick { QUICK_WINDOW } else { WINDOW };
    let arguments =
        format!("{} --verify bytes --duration {}ms", work.arguments(server), window.as_millis());
    let (cpu_ns, read) = (server.group().cpu_ns(), server.group().disk_bytes_read());
    let run = LoadRun::new(stage, &arguments, window)?;
    let used_us = (server.group().cpu_ns() - cpu_ns) as f64 / 1000.0;
    let replies = run.count("replies") as f64;
    // A decrease means that a process that had read from the disk has ended.
    let Some(disk_bytes) = server.group().disk_bytes_read().checked_sub(read) else {
        return Ok(Sample::void(
            "one of its processes ended, and what that read is unknown".into(),
        ));
    };
    let disk_kib = disk_bytes as f64 / 1024.0;
    Ok(match run.complaint() {
        Some(why) => Sample::void(why),
        None if disk_bytes == 0 => Sample::void("the disk was not read".into()),
        None => Sample {
            requests_per_s: run.per_second("replies"),
            cpu_us: used_us / replies,
            disk_kib: disk_kib / replies,
            void: None,
        },
    })
}
