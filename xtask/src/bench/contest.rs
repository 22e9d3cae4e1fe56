//! One row: every server at its best setting, in alternating rounds.
//!
//! All servers are started at the beginning and only one is loaded at a time, so that other load on
//! the machine affects all of them alike. What a server uses while it is not loaded is watched, and
//! reported if it is not negligible.

use super::corpus::Corpus;
use super::report::{Contestant, RowResult, Sample};
use super::rounds::{order, progress};
use super::row::{Row, Subject};
use super::serve::{Bench, FLOOR, OURS};
use lab::http::{self, Response};
use lab::wrk::{self, Load};
use lab::{Installed, Launch, RunningServer, Setting, Values};
use statistics::Generator;
use std::path::PathBuf;
use std::time::Duration;

/// The number of files compared in the row of many files.
const COMPARED_MAX: usize = 200;

/// How often a setting is tried before the best is chosen.
const TRIALS: usize = 3;
const TRIAL: Duration = Duration::from_millis(300);

/// The length of the load before the first round of many files, so that the rounds find caches in
/// their steady state.
const FILL: Duration = Duration::from_secs(3);

/// Bodies from this size on are counted by the bytes that arrived: of a few thousand answers, the
/// 64 that were under way at the end are too many to leave out.
const COUNTED_BY_BYTES_FROM: usize = 256 << 10;

/// From this number on, opening the connections takes a good part of a window.
const MANY_CONNECTIONS: usize = 1000;

/// A server that used more than this share of a processor while it was not loaded is reported.
const IDLE_SHARE_MAX: f64 = 0.01;

/// One row of the benchmark.
pub(crate) struct Contest<'a> {
    bench: &'a Bench<'a>,
    row: &'static Row,
    paths: Vec<String>,
    script: Option<PathBuf>,
    launch: Launch,
}

/// A server that takes part.
struct Entrant {
    server: RunningServer,
    result: Contestant,
    /// The size of one answer in bytes; 0 where answers differ.
    answer_bytes: usize,
    /// When the server was last loaded, and the processor time it had used by then.
    rest: (u64, u64),
    /// How long the server rested, and the processor time that it used meanwhile.
    rested_us: u64,
    rested_cpu_ns: u64,
}

impl<'a> Contest<'a> {
    /// Captures Ropewalk's head and makes the files that the servers and wrk need for the row.
    pub(crate) fn prepare(bench: &'a Bench<'a>, row: &'static Row) -> Result<Self, String> {
        let paths = Corpus::paths(row.subject);
        let script = match row.subject {
            Subject::ManyFiles => Some(bench.corpus.script()?),
            _ => None,
        };
        let mut contest =
            Self { bench, row, script, launch: bench.launch(&paths[0], Values::new()), paths };
        let head = contest.our_head()?;
        let list = bench.corpus.scratch().write("paths", contest.paths.join("\n").as_bytes())?;
        let head = bench.corpus.scratch().write("head", &head)?;
        contest.launch.workload = [
            ("path_list", list.display().to_string()),
            ("head_file", head.display().to_string()),
            ("connection", row.connection.token().to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        Ok(contest)
    }

    /// Runs the row.
    pub(crate) fn run(&self) -> Result<RowResult, String> {
        let mut entrants = Vec::new();
        let mut notes = Vec::new();
        for installed in &self.bench.servers {
            match self.enter(installed) {
                Ok(entrant) => entrants.push(entrant),
                Err(why) => notes.push(format!("{} left out: {why}", installed.description.name)),
            }
        }
        for round in 0..self.bench.options.rounds {
            progress(&format!("{}: round {}", self.row.name, round + 1));
            for index in order(round, entrants.len()) {
                self.window(&mut entrants[index])?;
            }
        }
        notes.extend(entrants.iter().flat_map(Entrant::notes));
        let contestants = entrants.into_iter().map(|entrant| entrant.result).collect();
        Ok(RowResult { row: self.row, contestants, notes })
    }

    /// Starts a server at its best setting and compares its answers with the files.
    fn enter(&self, installed: &Installed) -> Result<Entrant, String> {
        let setting = self.best_setting(installed)?;
        let server = RunningServer::start(installed, setting, &self.launch)?;
        let head_bytes = self.compare(&server)?;
        if self.row.subject == Subject::ManyFiles {
            self.measure(&server, 0, FILL)?;
        }
        let answer_bytes = match self.row.subject {
            Subject::OneFile(body_bytes) => body_bytes + head_bytes,
            Subject::ManyFiles | Subject::Idle => 0,
        };
        let result = Contestant {
            name: installed.description.name.clone(),
            setting: setting.name.clone(),
            head_bytes,
            samples: Vec::new(),
            caveat: server.group().accounting().caveat(),
        };
        let rest = (os::clock::now(), server.group().cpu_ns());
        Ok(Entrant { server, result, answer_bytes, rest, rested_us: 0, rested_cpu_ns: 0 })
    }

    /// The setting that needs the least processor time for a request here.
    fn best_setting<'s>(&self, installed: &'s Installed) -> Result<&'s Setting, String> {
        let settings = &installed.description.settings;
        let [_, _, ..] = settings.as_slice() else { return Ok(&settings[0]) };
        progress(&format!("{}: trying settings of {}", self.row.name, installed.description.name));
        let mut servers = Vec::new();
        for setting in settings {
            servers.push(RunningServer::start(installed, setting, &self.launch)?);
        }
        let mut costs = vec![Vec::new(); settings.len()];
        for _ in 0..TRIALS.min(self.bench.options.rounds.div_ceil(2)) {
            for (server, costs) in servers.iter().zip(&mut costs) {
                costs.push(self.measure(server, 0, self.trial_length())?.cpu_us);
            }
        }
        // A setting with errors in any trial sorts after all others: NaN is the largest number.
        let worst = |costs: &[f64]| costs.iter().any(|us| us.is_nan()).then_some(f64::NAN);
        let medians = costs
            .iter()
            .map(|costs| worst(costs).or_else(|| statistics::median(costs)).unwrap_or(f64::NAN));
        let best = settings.iter().zip(medians).min_by(|a, b| a.1.total_cmp(&b.1));
        Ok(best.map_or(&settings[0], |(setting, _)| setting))
    }

    /// Compares every file (of many, some) with its answer, over the kind of connection that the
    /// load uses. Returns the length of the first answer's head.
    fn compare(&self, server: &RunningServer) -> Result<usize, String> {
        let mut chosen: Vec<&String> = self.paths.iter().collect();
        Generator::new(3).shuffle(&mut chosen);
        let mut head_bytes = 0;
        for path in chosen.into_iter().take(COMPARED_MAX) {
            let response = self.get(server, path)?;
            if response.status != 200 || response.body != self.bench.corpus.read(path)? {
                return Err(format!("{path} comes back wrong, with status {}", response.status));
            }
            head_bytes = response.head.len();
        }
        Ok(head_bytes)
    }

    fn get(&self, server: &RunningServer, path: &str) -> Result<Response, String> {
        http::connect(server.address())
            .and_then(|mut stream| http::get(&mut stream, path, self.row.connection))
            .map_err(|why| format!("{path}: {why}"))
    }

    /// One window of one server, after warming up. A window with errors is repeated once; if that
    /// does not help either, the sample is void.
    fn window(&self, entrant: &mut Entrant) -> Result<(), String> {
        entrant.wake();
        let window = self.window_length();
        let answer_bytes = entrant.answer_bytes;
        if let Some(warm_up) = self.warm_up() {
            self.measure(&entrant.server, answer_bytes, warm_up)?;
        }
        let mut sample = self.measure(&entrant.server, answer_bytes, window)?;
        if sample.is_void() {
            sample = self.measure(&entrant.server, answer_bytes, window)?;
        }
        entrant.result.samples.push(sample);
        entrant.sleep();
        Ok(())
    }

    /// The length of a trial: of many files a server must have served enough to exhaust its caches.
    fn trial_length(&self) -> Duration {
        if self.row.subject == Subject::ManyFiles { TRIAL * 4 } else { TRIAL }
    }

    /// The length of a window: longer where opening thousands of connections takes a good part of
    /// it.
    fn window_length(&self) -> Duration {
        let window = self.bench.options.window;
        if self.row.connections >= MANY_CONNECTIONS { window.mul_f64(1.5) } else { window }
    }

    /// How long a server is warmed up before its windows. None where a window opens its own
    /// thousands of connections: there is nothing to warm.
    fn warm_up(&self) -> Option<Duration> {
        if self.row.connections >= MANY_CONNECTIONS {
            return None;
        }
        let share = if self.row.subject == Subject::ManyFiles { 0.5 } else { 0.2 };
        Some(self.bench.options.window.mul_f64(share).max(Duration::from_millis(150)))
    }

    /// Loads a server for a while.
    fn measure(
        &self,
        server: &RunningServer,
        answer_bytes: usize,
        duration: Duration,
    ) -> Result<Sample, String> {
        let load = Load {
            url: &format!("http://{}{}", server.address(), self.paths[0]),
            connections: self.row.connections,
            connection: self.row.connection,
            script: self.script.as_deref(),
            cpus: &[self.bench.client_cpu],
            duration,
        };
        let before_ns = server.group().cpu_ns();
        let outcome = wrk::run(&load)?;
        let used_us = (server.group().cpu_ns() - before_ns) as f64 / 1000.0;
        let bytes_expected = outcome.requests as f64 * answer_bytes as f64;
        let requests = if answer_bytes >= COUNTED_BY_BYTES_FROM {
            outcome.bytes / answer_bytes as f64
        } else {
            outcome.requests as f64
        };
        // Answers under way at the end have arrived in part, and wrk prints bytes rounded.
        let slack = (self.row.connections * answer_bytes) as f64 + 0.01 * bytes_expected;
        let is_short = answer_bytes > 0 && (outcome.bytes - bytes_expected).abs() > slack;
        if !outcome.is_clean(self.row.connection) || is_short {
            return Ok(Sample::void(format!("{outcome:?}")));
        }
        Ok(Sample {
            requests_per_s: requests / outcome.seconds,
            cpu_us: used_us / requests,
            late: outcome.late,
            refused: outcome.not_successful,
            void: None,
        })
    }

    /// The head of Ropewalk's own answer in this row, or a similar one if Ropewalk does not take
    /// part.
    fn our_head(&self) -> Result<Vec<u8>, String> {
        let ours = self.bench.servers.iter().find(|installed| installed.description.name == OURS);
        let Some(ours) = ours else { return Ok(http::usual_head(FLOOR, self.row.connection)) };
        let server = RunningServer::start(ours, &ours.description.settings[0], &self.launch);
        let server = server.map_err(String::from);
        match server.and_then(|server| self.get(&server, &self.paths[0])) {
            Ok(response) => Ok(response.head),
            Err(_) => Ok(http::usual_head(FLOOR, self.row.connection)),
        }
    }
}

impl Entrant {
    /// Records what the server used since it was last loaded.
    fn wake(&mut self) {
        self.rested_us += os::clock::now() - self.rest.0;
        self.rested_cpu_ns += self.server.group().cpu_ns() - self.rest.1;
    }

    fn sleep(&mut self) {
        self.rest = (os::clock::now(), self.server.group().cpu_ns());
    }

    /// Notes that belong to the server's results.
    fn notes(&self) -> Vec<String> {
        let name = &self.result.name;
        let samples = &self.result.samples;
        let voids: Vec<&String> = samples.iter().filter_map(|s| s.void.as_ref()).collect();
        let refused: u64 = samples.iter().map(|sample| sample.refused).sum();
        let late: u64 = samples.iter().map(|sample| sample.late).sum();
        let share = self.rested_cpu_ns as f64 / (self.rested_us.max(1) as f64 * 1000.0);
        // A short rest proves nothing.
        let is_busy = self.rested_us > 500_000 && share > IDLE_SHARE_MAX;
        [
            (!voids.is_empty(), format!("{name}: {} windows void: {voids:?}", voids.len())),
            (refused > 0, format!("{name} answered {refused} requests with an error")),
            (late > 0, format!("{name}: {late} answers took more than 2 seconds")),
            (is_busy, format!("{name} used {:.1} % of a processor while idle", share * 100.0)),
        ]
        .into_iter()
        .filter_map(|(is_so, note)| is_so.then_some(note))
        .collect()
    }
}
