//! One window of one server: the load, and the server's use of resources for it.

use super::field::{Entrant, Sample};
use super::look::Observation;
use super::{Row, Subject};
use crate::bench::load_run::{LoadRun, Started};
use crate::bench::stage::{FILE, Stage, server_url};
use lab::RunningServer;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// Directories of the set that fits in memory: about 100 MB.
const ZIPF_DIRECTORIES: &str = "20";
/// Requests of a log, which then repeats.
const LOG_REQUESTS: &str = "20000";
/// Generators that share the connections that rest, each with fewer than 20,000 descriptors.
const GENERATORS: u64 = 4;
/// How long connections rest, in seconds.
const REST_S: u64 = 15;
/// The source addresses. Each has 28,000 ports, and the kernel finds a free one at once while few
/// of them are taken: it tries all even ones, one after the other, before any odd one.
const SOURCES: &str = "127.0.0.2,127.0.0.3,127.0.0.4,127.0.0.5,127.0.0.6,127.0.0.7,127.0.0.8,\
                       127.0.0.9,127.0.0.10,127.0.0.11,127.0.0.12,127.0.0.13";

/// The common parameters of the windows of a row.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) connections: u32,
    log: Option<PathBuf>,
    path: String,
    pub(super) is_resting: bool,
}

impl Work {
    /// Makes the files and the log of a row.
    pub(super) fn prepare(stage: &Stage<'_, Row>, row: &Row) -> Result<Self, String> {
        let mut work = Self {
            connections: row.connections,
            log: None,
            path: FILE.into(),
            is_resting: row.subject == Subject::Resting,
        };
        let root = stage.root().display().to_string();
        match row.subject {
            Subject::OneFile(bytes) => {
                stage.prepare(&["fileset", &root, "--single", &bytes.to_string()])?;
                work.path = format!("/size{bytes}");
            }
            Subject::Zipf => {
                stage.prepare(&["fileset", &root, "--directories", ZIPF_DIRECTORIES])?;
                work.log = Some(log(stage, ZIPF_DIRECTORIES, "0.35,0.5,0.14,0.01")?);
            }
            Subject::Resting => work.log = Some(stage.log(2, &REST_S.to_string())?.into()),
            Subject::Cold => {}
        }
        Ok(work)
    }

    /// Parameters with an existing log.
    pub(super) fn with_log(connections: u32, log: PathBuf) -> Self {
        Self { connections, log: Some(log), path: FILE.into(), is_resting: false }
    }

    /// The arguments of `ropewalk load` for this server.
    pub(super) fn arguments(&self, server: &RunningServer) -> String {
        let (url, connections) = (server_url(server), self.connections);
        match &self.log {
            Some(log) => {
                let log = log.display();
                format!("{url} --log {log} --connection keep --connections {connections}")
            }
            None => format!("{url}{} --connections {connections}", self.path),
        }
    }
}

/// Makes a log of single requests over this many directories.
pub(super) fn log(
    stage: &Stage<'_, Row>,
    directories: &str,
    classes: &str,
) -> Result<PathBuf, String> {
    let path = stage.path(&format!("zipf-{directories}.log"));
    let output = path.display().to_string();
    stage.prepare(&[
        "log",
        "generate",
        "--directories",
        directories,
        "--classes",
        classes,
        "--lengths",
        "1",
        "--requests",
        LOG_REQUESTS,
        "--output",
        &output,
    ])?;
    Ok(path)
}

/// Loads a server for a window. Where connections rest the server is observed as well.
pub(super) fn measure(
    stage: &Stage<'_, Row>,
    server: &RunningServer,
    work: &Work,
    look: &mut Observation,
) -> Result<Sample, String> {
    if work.is_resting {
        return rest(stage, server, work, look);
    }
    let window = stage.options.window;
    let arguments = format!("{} --duration {}ms", work.arguments(server), window.as_millis());
    let before_ns = server.group().cpu_ns();
    let run = LoadRun::new(stage, &arguments, window)?;
    Ok(sample(&run, server, before_ns))
}

/// Loads all servers at once, and adds the results to theirs. Other load on the machine affects all
/// of them at the same moments.
pub(super) fn together(
    stage: &Stage<'_, Row>,
    entrants: &mut [Entrant],
    work: &Work,
) -> Result<(), String> {
    let window = stage.options.window;
    let mut under_way = Vec::new();
    for (index, entrant) in entrants.iter_mut().enumerate() {
        let Some(server) = entrant.server() else { continue };
        let (arguments, ms) = (work.arguments(server), window.as_millis());
        let arguments = format!("{arguments} --duration {ms}ms --lag-bound 10s");
        let before_ns = server.group().cpu_ns();
        let started = Started::new(stage, &arguments, &format!("together-{index}"))?;
        under_way.push((entrant, started, before_ns));
    }
    for (entrant, started, before_ns) in under_way {
        let run = started.finish(window)?;
        let sample = entrant.server().map(|server| sample(&run, server, before_ns));
        entrant.samples.extend(sample);
    }
    Ok(())
}

/// The result of a run against a server that had used `before_ns` of processor time before it.
fn sample(run: &LoadRun, server: &RunningServer, before_ns: u64) -> Sample {
    let used_us = (server.group().cpu_ns() - before_ns) as f64 / 1000.0;
    if let Some(why) = run.complaint().filter(|_| !is_tolerable(run)) {
        return Sample::void(why);
    }
    let replies = run.count("replies") as f64;
    Sample {
        requests_per_s: run.per_second("replies"),
        cpu_us: used_us / replies,
        disk_kib: f64::NAN,
        void: (replies == 0.0).then(|| "no reply came".into()),
    }
}

/// Whether so few requests failed that the others show the cost. Apache closes connections that
/// rest when others wait, and a request that is under way then is lost.
pub(super) fn is_tolerable(run: &LoadRun) -> bool {
    const SHARE_MAX: f64 = 0.02;
    run.only_closed_early() && run.errors() as f64 <= SHARE_MAX * run.count("replies") as f64
}

/// Several generators open their share of the connections, each of which makes two requests with a
/// rest between them.
fn rest(
    stage: &Stage<'_, Row>,
    server: &RunningServer,
    work: &Work,
    look: &mut Observation,
) -> Result<Sample, String> {
    let log = work.log.as_ref().ok_or("a row without a log")?.display();
    let (wanted, rest_s) = match stage.options.quick {
        true => (u64::from(work.connections) / 30, 1),
        false => (u64::from(work.connections), REST_S),
    };
    let rate = wanted / rest_s;
    let before_ns = server.group().cpu_ns();
    let mut generators = Vec::new();
    for share in 1..=GENERATORS {
        let arguments = format!(
            "{} --log {log} --rate {rate} --source {SOURCES} --duration {rest_s}s \
             --warm-up {rest_s}s --lag-bound 1s --share {share}/{GENERATORS}",
            server_url(server)
        );
        generators.push(Started::new(stage, &arguments, &format!("rest-{share}"))?);
    }
    // All connections are open when the window begins, and from then on as many begin as end.
    thread::sleep(Duration::from_secs(rest_s) + Duration::from_millis(rest_s * 500));
    let seen = look.observe(server);
    let (mut replies, mut open, mut complaints) = (0, 0, Vec::new());
    for generator in generators {
        let run = generator.finish(Duration::from_secs(3 * rest_s))?;
        replies += run.count("replies");
        open += run.connections_open();
        complaints.extend(run.complaint());
    }
    let used_us = (server.group().cpu_ns() - before_ns) as f64 / 1000.0;
    look.divide(&seen, replies as f64 / rest_s as f64);
    let is_short = open * 10 < wanted * 9;
    if is_short {
        complaints.push(format!("only {open} connections were open at once"));
    }
    // Half of all requests lie outside the window, but the server's use of resources covers them.
    let all = 2.0 * replies as f64;
    Ok(match complaints.into_iter().next() {
        Some(why) => Sample::void(why),
        None => Sample {
            requests_per_s: replies as f64 / rest_s as f64,
            cpu_us: used_us / all,
            disk_kib: f64::NAN,
            void: None,
        },
    })
}
