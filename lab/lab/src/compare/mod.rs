//! Two servers under the same load, alternately: which is better, or a tie.
//!
//! Both run all the time and one of them is loaded at a time, so that whatever else the machine
//! does affects both alike; the order within a pair is randomised. First both are loaded by all
//! clients, which shows what each can sustain; then at one rate that both sustain, which shows what
//! the same work costs and how long users wait. The figures of a pair are divided by each other,
//! and the ratios judged. What was measured is kept as any study is.

mod candidate;
mod place;
mod text;
mod verdict;

pub use candidate::Candidate;
pub use place::Place;
pub use text::conclude;
pub use verdict::{Figure, RatioVerdict, Verdict, judge_ratio};

use crate::environment::Environment;
use crate::error::Error;
use crate::observe::{INTERFERENCE_REPORTED, interference_in};
use crate::record::{
    CLIENT_BUSY_MAX, Folder, Header, Kind, Offered, Point, Program, Purpose, Run, Server,
};
use crate::report::Report;
use crate::search::FREE_CPUS;
use crate::server::RunningServer;
use crate::trial::{LoadSetup, Measured, RunFailure, Target, Trial};
use crate::void::{VOID_ESTIMATED, Void, in_words};
use crate::warm_up::{Preparation, UNTIL_STEADY, WARM_UPS_ESTIMATED, warm_up_s};
use crate::watch::Watch;
use crate::workload::{PRESETS, Workload};
use statistics::{Generator, median};
use std::net::SocketAddr;
use std::path::PathBuf;

/// How often a void window is repeated.
const ATTEMPTS_MAX: u32 = 3;

/// The common rate, as a part of what the slower server sustains.
const COMMON_SHARE: f64 = 0.5;

/// Seconds that requesting everything once is estimated to take, for files that fit in memory.
const PRIMING_S: f64 = 0.5;

/// Seconds that a window is estimated to take beside itself: its load is a process, which starts,
/// connects, and ends.
const AROUND_WINDOW_S: f64 = 0.25;

/// The page, among the records.
const PAGE: &str = "report.html";

/// How to compare.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Clients that send as fast as they are served.
    pub connections: u64,
    /// How many pairs each phase has.
    pub pairs: u32,
    /// Seconds of a window.
    pub window_s: f64,
    /// Requests a second in the second phase; none: half of what the slower server sustains.
    pub rate_per_s: Option<f64>,
    /// A difference that counts as none: 0.02.
    pub margin: f64,
    /// The confidence of intervals: 0.95.
    pub confidence: f64,
    /// Seeds the order and the arrivals.
    pub seed: u64,
    /// Whether every byte is checked in all windows, not only before the first.
    pub verify_bytes: bool,
}

/// One of the two servers.
#[derive(Debug)]
pub struct Side {
    /// The server's name.
    pub server: String,
    /// The setting's name; empty for one that runs already.
    pub setting: String,
    /// Its version, as it says itself; empty if unknown.
    pub version: String,
    /// Its program, if the lab found that itself.
    pub program: Program,
    /// Its architecture in a line; empty if unknown.
    pub description: String,
    /// Its command and files; empty if unknown.
    pub configuration: String,
    /// The server.
    pub instance: Instance,
}

/// A server that takes part.
#[derive(Debug)]
pub enum Instance {
    /// The server was started for the comparison; it ends when dropped.
    Started(Box<RunningServer>),
    /// The server ran already.
    Running(SocketAddr),
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The figures with their verdicts, the most telling first.
    pub figures: Vec<(Figure, Verdict)>,
    /// The common rate, requests a second.
    pub rate_per_s: f64,
    /// The confidence of intervals.
    pub confidence: f64,
    /// Windows that were void, repeated or not.
    pub void: Vec<VoidWindow>,
    /// What a reader must know: that a server failed requests, and the like.
    pub caveats: Vec<String>,
}

/// A window that was void.
#[derive(Clone, Debug, PartialEq)]
pub struct VoidWindow {
    /// The index of the server that was loaded, 0 or 1.
    pub side: usize,
    /// The phase.
    pub purpose: Purpose,
    /// The pair, from 1.
    pub pair: u32,
    /// Why the window says nothing.
    pub why: Vec<Void>,
}

impl VoidWindow {
    /// Describes which server, phase and pair the window was of and why it says nothing, in a line.
    pub fn describe(&self, sides: &[Side; 2]) -> String {
        let Self { side, purpose, pair, why } = self;
        format!("{}, {purpose}, pair {pair}: {}", sides[*side].label(), in_words(why))
    }
}

impl Comparison {
    /// The figure that decides, the first that was measured: processor time for the same work, or
    /// throughput where that is not known.
    pub fn deciding(&self) -> Option<&(Figure, Verdict)> {
        self.figures.iter().find(|(_, verdict)| *verdict != Verdict::Nothing)
    }

    /// Whether one of the two is better, or they are a tie.
    pub fn is_decided(&self) -> bool {
        self.deciding().is_some_and(|(_, verdict)| verdict.is_decided())
    }

    /// How many windows others disturbed.
    pub fn disturbed(&self) -> usize {
        let is_disturbed = |window: &&VoidWindow| window.why.iter().any(Void::is_interference);
        self.void.iter().filter(is_disturbed).count()
    }

    /// Whether nothing comparable was measured.
    pub fn is_void(&self) -> bool {
        self.figures.iter().all(|(_, verdict)| *verdict == Verdict::Nothing)
    }
}

impl Side {
    /// The server's name in tables.
    pub fn label(&self) -> String {
        if self.setting.is_empty() {
            self.server.clone()
        } else {
            format!("{}/{}", self.server, self.setting)
        }
    }

    /// Gives a server that is compared with itself two names: otherwise its records would be those
    /// of one server.
    pub fn name_apart(sides: &mut [Self; 2]) {
        if sides[0].label() == sides[1].label() {
            sides[1].server += " again";
        }
    }

    fn target(&self) -> Target<'_> {
        match &self.instance {
            Instance::Started(server) => Target::of_server(server),
            Instance::Running(address) => Target::already_running(*address),
        }
    }

    /// Where the right files are, for a server that runs already and may serve others.
    fn hint_at_files(&self, workload: &Workload) -> String {
        if matches!(self.instance, Instance::Started(_)) || workload.root.as_os_str().is_empty() {
            return String::new();
        }
        let name = &workload.described.name;
        let hint = format!("; the files of {name} are in {}: serve these", workload.root.display());
        match PRESETS.iter().any(|preset| preset.name == name) {
            true => hint + ", or measure with requests of your own (--log FILE)",
            false => hint,
        }
    }

    /// Checks that the server still runs, as far as that is known: a server that has ended cannot
    /// be compared.
    ///
    /// # Errors
    /// That it has ended, what the load was then, and what might be done.
    fn still_runs(&self, when: &str, offered: Offered) -> Result<(), String> {
        let Instance::Started(server) = &self.instance else { return Ok(()) };
        if !server.group().has_ended() {
            return Ok(());
        }
        let less = match offered {
            Offered::Connections(_) => "fewer clients (--connections)",
            Offered::RequestsPerS(_) => "a lower rate (--request-rate)",
        };
        let words = match server.last_output() {
            words if words.is_empty() => "It printed nothing.".to_owned(),
            words => format!("Its output ended: {words}"),
        };
        let label = self.label();
        Err(format!("{label} has ended ({when}); try {less} or another setting. {words}"))
    }
}

impl Plan {
    /// Seconds that the comparison takes, once the files are made and the servers run: everything
    /// is requested once, both are warmed up, and all windows are loaded. Void windows are not
    /// counted.
    pub fn estimated_s(&self) -> f64 {
        let warming_s =
            2.0 * (PRIMING_S + f64::from(WARM_UPS_ESTIMATED) * warm_up_s(self.window_s));
        let windows = f64::from(self.pairs) * 4.0;
        warming_s + windows * (self.window_s + AROUND_WINDOW_S)
    }

    /// The seconds of [`Plan::estimated_s`], and those with as many void windows made again as are
    /// usual on a busy machine.
    pub fn estimates_s(&self) -> [f64; 2] {
        let seconds = self.estimated_s();
        [seconds, seconds * (1.0 + VOID_ESTIMATED)]
    }

    /// The header of the folder.
    pub fn header(&self, workload: &Workload, sides: &[Side; 2]) -> Header {
        let servers = sides.iter().map(|side| Server {
            name: side.server.clone(),
            description: side.description.clone(),
            version: side.version.clone(),
            program: side.program.clone(),
            configurations: [(side.setting.clone(), side.configuration.clone())].into(),
            ..Server::default()
        });
        let title = format!("{} and {}", sides[0].label(), sides[1].label());
        Header {
            kind: Kind::Compare,
            name: "compare".into(),
            question: format!("Which of them is better for {}?", workload.described.name),
            title,
            servers: servers.collect(),
            workloads: vec![workload.described.clone()],
            repetitions: self.pairs,
            confidence: self.confidence,
            margin: self.margin,
            estimated_s: self.estimated_s(),
            seed: self.seed,
            started_unix_us: crate::unix_us(),
            ..Header::default()
        }
    }

    /// Begins the records in a folder, with a description of the machine.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn begin(
        &self,
        place: &Place,
        workload: &Workload,
        sides: &[Side; 2],
    ) -> Result<Folder, Error> {
        let folder = Folder::create(place.path(), &self.header(workload, sides))?;
        let versions = sides.iter().map(|side| (side.server.clone(), side.version.clone()));
        let environment = Environment::record(versions.collect());
        folder.add_environment(&environment).map_err(Error::Failed)?;
        Ok(folder)
    }

    /// Primes both servers and loads each until it is steady. `watch` receives the progress.
    ///
    /// # Errors
    /// When a server does not serve what it should, or has ended.
    pub fn make_ready(
        &self,
        load_setup: &LoadSetup,
        workload: &Workload,
        sides: &[Side; 2],
        watch: &mut dyn Watch,
    ) -> Result<(), Uncompared> {
        for side in sides {
            watch.report(&format!("{}: requesting everything once", side.label()));
            let offered = Offered::Connections(self.connections);
            let trial = self.trial(workload, offered, 0);
            let target = side.target();
            let preparation = Preparation {
                primed: &[(target, 0)],
                reads_nothing: false,
                windows_max: UNTIL_STEADY,
            };
            let warm_up = load_setup.make_ready(target, &trial, &preparation);
            // A user who interrupts the comparison may have ended the generator, too.
            if watch.is_interrupted() {
                return Err(Uncompared::Interrupted);
            }
            let warm_up = warm_up.map_err(|why| {
                let hint = side.hint_at_files(workload);
                Uncompared::Failed(format!("{}: {why}{hint}", side.label()))
            })?;
            let runs = side.still_runs("while it was warmed up", offered);
            runs.map_err(Uncompared::Failed)?;
            let state = if warm_up.is_steady { "steady" } else { "still improving" };
            watch.report(&format!("{}: {state} after {:.1} s", side.label(), warm_up.seconds));
        }
        Ok(())
    }

    /// Compares the two, which are ready, and writes everything down. `watch` receives the
    /// progress.
    ///
    /// # Errors
    /// When a server has ended or answers nothing, or the load cannot be run.
    pub fn run(
        &self,
        load_setup: &LoadSetup,
        workload: &Workload,
        sides: &[Side; 2],
        folder: &Folder,
        watch: &mut dyn Watch,
    ) -> Result<Comparison, Uncompared> {
        let mut phases = Phases {
            plan: self,
            load_setup,
            workload,
            sides,
            folder,
            generator: Generator::new(self.seed),
            number: 0,
            void: Vec::new(),
        };
        let offered = Offered::Connections(self.connections);
        let saturated = phases.phase(&Purpose::Saturation, offered, watch)?;
        check_answers(sides, &saturated, &phases.void)?;
        let rate_per_s = self.rate_per_s.unwrap_or_else(|| common_rate(&saturated));
        let offered = Offered::RequestsPerS(rate_per_s);
        let common = phases.phase(&Purpose::CommonRate, offered, watch)?;
        let figures = figures(&saturated, &common).map(|figure| {
            let verdict = figure.judge(self.margin, self.confidence);
            (figure, verdict)
        });
        let mut caveats = caveats(sides, &saturated, &common);
        caveats.extend(started_by_others(sides));
        let (figures, confidence) = (figures.into(), self.confidence);
        Ok(Comparison { figures, rate_per_s, confidence, void: phases.void, caveats })
    }

    fn trial<'w>(&self, workload: &'w Workload, offered: Offered, seed: u64) -> Trial<'w> {
        Trial {
            workload,
            offered,
            window_s: self.window_s,
            seed,
            latency_target_us: None,
            verify_bytes: self.verify_bytes,
            is_even: false,
            waits_for_sessions: true,
        }
    }
}

/// Writes the page beside the records; returns its path.
///
/// # Errors
/// When the records cannot be read, or the page cannot be written.
pub fn write_page(folder: &Folder) -> Result<PathBuf, Error> {
    let page = Report::read(folder.path())?.html();
    folder.write_whole(PAGE, &page).map_err(Error::Failed)?;
    Ok(folder.path().join(PAGE))
}

/// The runs of a phase, by side; a run is none if it stayed void.
type Phase = [Vec<Option<Measured>>; 2];

struct Phases<'a> {
    plan: &'a Plan,
    load_setup: &'a LoadSetup,
    workload: &'a Workload,
    sides: &'a [Side; 2],
    folder: &'a Folder,
    generator: Generator,
    number: u64,
    void: Vec<VoidWindow>,
}

impl Phases<'_> {
    fn phase(
        &mut self,
        purpose: &Purpose,
        offered: Offered,
        watch: &mut dyn Watch,
    ) -> Result<Phase, Uncompared> {
        let mut phase: Phase = [Vec::new(), Vec::new()];
        for block in 0..self.plan.pairs {
            watch.report(&format!("{purpose}: pair {} of {}", block + 1, self.plan.pairs));
            let first = self.generator.below(2);
            for side in [first, 1 - first] {
                let measured = self.window(side, purpose, offered, block);
                // A user who interrupts the comparison may have ended a server or the generator,
                // too.
                if watch.is_interrupted() {
                    return Err(Uncompared::Interrupted);
                }
                phase[side].push(measured?);
            }
        }
        Ok(phase)
    }

    /// One window of one side, repeated while it is void.
    fn window(
        &mut self,
        index: usize,
        purpose: &Purpose,
        offered: Offered,
        block: u32,
    ) -> Result<Option<Measured>, Uncompared> {
        let side = &self.sides[index];
        let load_setup = self.load_setup;
        for attempt in 0..ATTEMPTS_MAX {
            let seed = self.plan.seed.wrapping_add(u64::from(block));
            let trial = self.plan.trial(self.workload, offered, seed);
            let measured = load_setup.run(side.target(), &trial);
            let measured = measured.map_err(|why| Uncompared::run_failed(side, &why))?;
            self.number += 1;
            let run = Run {
                number: self.number,
                point: self.point(side, offered),
                block,
                attempt,
                purpose: purpose.clone(),
                seed,
                window_s: self.plan.window_s,
                ..measured.to_run()
            };
            let added = self.folder.add_run(&run, Some(&measured.outcome_json));
            added.map_err(Uncompared::Failed)?;
            let when = format!("{purpose}, pair {} of {}", block + 1, self.plan.pairs);
            side.still_runs(&when, offered).map_err(Uncompared::Failed)?;
            if measured.void.is_empty() {
                return Ok(Some(measured));
            }
            let (purpose, why) = (purpose.clone(), measured.void);
            self.void.push(VoidWindow { side: index, purpose, pair: block + 1, why });
        }
        Ok(None)
    }

    fn point(&self, side: &Side, offered: Offered) -> Point {
        Point {
            server: side.server.clone(),
            setting: side.setting.clone(),
            workload: self.workload.described.name.clone(),
            testbed: "here".into(),
            offered,
            ..Point::default()
        }
    }
}

/// Why two servers could not be compared, in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncompared {
    /// All windows of one of the two were void: nothing is known of it.
    #[error("{0}")]
    Void(String),
    /// The comparison cannot be done: a server has ended or answers nothing, or the load cannot be
    /// run.
    #[error("{0}")]
    Failed(String),
    /// The user asked for it.
    #[error("interrupted: there is no verdict on what was measured")]
    Interrupted,
}

impl Uncompared {
    /// Where no load was run there is no window that could be void, whatever the cause.
    fn run_failed(side: &Side, why: &RunFailure) -> Self {
        Self::Failed(format!("{}: {why}", side.label()))
    }
}

/// Checks that both have answered in some window of the first phase: otherwise they cannot be
/// compared.
///
/// # Errors
/// The server that has not, why, and what might be done.
fn check_answers(
    sides: &[Side; 2],
    saturated: &Phase,
    void: &[VoidWindow],
) -> Result<(), Uncompared> {
    for (index, runs) in saturated.iter().enumerate() {
        if runs.iter().flatten().any(|run| run.figures.throughput_per_s > 0.0) {
            continue;
        }
        let label = sides[index].label();
        let last = void.iter().rfind(|window| window.side == index);
        let last = last.filter(|_| runs.iter().all(Option::is_none));
        let why = match last {
            Some(last) => {
                let last = last.describe(sides);
                format!("all its windows with all clients were void, the last: {last}")
            }
            None => "it answered nothing to all clients".to_owned(),
        };
        let is_disturbed = last.is_some_and(|last| last.why.iter().any(Void::is_interference));
        let advice = match is_disturbed {
            true => FREE_CPUS,
            false => "try other numbers of clients (--connections) or longer windows (--window)",
        };
        let line = format!("{label}: {why}. So there is nothing to compare; {advice}");
        return Err(match last {
            Some(_) => Uncompared::Void(line),
            None => Uncompared::Failed(line),
        });
    }
    Ok(())
}

/// A server that keeps up with less of the common rate than this share queues requests. What is
/// under way when a window ends is less.
const KEPT_UP_MIN: f64 = 0.95;

/// A rate that both sustain with ease: half of what the slower one does. Both have answered.
fn common_rate(saturated: &Phase) -> f64 {
    let medians = saturated.iter().map(|runs| {
        let rates: Vec<f64> =
            runs.iter().flatten().map(|run| run.figures.throughput_per_s).collect();
        median(&rates).unwrap_or(0.0)
    });
    (medians.fold(f64::INFINITY, f64::min) * COMMON_SHARE).max(1.0)
}

fn figures(saturated: &Phase, common: &Phase) -> [Figure; 5] {
    [
        figure("CPU us/request, common rate", true, common, Measured::cpu_us_per_request),
        figure("requests/s, all clients", false, saturated, |run| {
            Some(run.figures.throughput_per_s)
        }),
        figure("p50 us, common rate", true, common, |run| time_us(run, "p50")),
        figure("p99 us, common rate", true, common, |run| time_us(run, "p99")),
        figure("resident MB", true, saturated, |run| {
            run.observed.get("resident_bytes").map(|bytes| bytes / 1e6)
        }),
    ]
}

fn figure(
    name: &'static str,
    less_is_better: bool,
    phase: &Phase,
    value: impl Fn(&Measured) -> Option<f64>,
) -> Figure {
    let values = |runs: &Vec<Option<Measured>>| {
        runs.iter().map(|run| run.as_ref().and_then(&value).unwrap_or(f64::NAN)).collect()
    };
    Figure { name, less_is_better, first: values(&phase[0]), second: values(&phase[1]) }
}

fn time_us(run: &Measured, name: &str) -> Option<f64> {
    run.figures.times_us.get(name).copied()
}

/// A server that fails requests has less to do: its figures are not those of the same work.
fn caveats(sides: &[Side; 2], saturated: &Phase, common: &Phase) -> Vec<String> {
    let mut caveats = Vec::new();
    for (index, side) in sides.iter().enumerate() {
        let runs = || saturated[index].iter().chain(&common[index]).flatten();
        let due: u64 = runs().map(|run| run.figures.requests_due).sum();
        let failed: u64 = runs().flat_map(|run| run.figures.errors.values()).sum();
        if failed > 0 {
            let share = 100.0 * failed as f64 / due.max(1) as f64;
            let label = side.label();
            caveats.push(format!(
                "{label} failed {failed} of {due} requests ({share:.2} %): \
                 failed requests cost less, so its figures look better than they are"
            ));
        }
        let kept_up = common[index].iter().flatten().map(|run| run.figures.kept_up_share);
        if let Some(share) = median(&kept_up.collect::<Vec<_>>())
            && share < KEPT_UP_MIN
        {
            let label = side.label();
            caveats.push(format!(
                "{label} does not sustain the common rate: it kept up with {:.1} % of it \
                 (--request-rate)",
                100.0 * share
            ));
        }
        let busiest = saturated[index].iter().flatten().map(|run| run.figures.client_busy_share);
        let busiest = busiest.fold(0.0, f64::max);
        if busiest > CLIENT_BUSY_MAX {
            let label = side.label();
            caveats.push(format!(
                "the clients of {label} had no processor time left ({:.0} % busy): its requests/s \
                 are their limit as much as its own",
                100.0 * busiest
            ));
        }
        let disturbed = runs().filter_map(|run| interference_in(&run.observed));
        if let Some((part, share)) = disturbed.max_by(|a, b| a.1.total_cmp(&b.1))
            && share > INTERFERENCE_REPORTED
        {
            caveats.push(format!("while {} was measured, {}", side.label(), part.describe(share)));
        }
        caveats.extend(mostly_own_lag(side, &common[index]));
        let spread = runs().filter_map(|run| run.figures.unfair_points()).fold(0.0, f64::max);
        if spread > 2.0 {
            let label = side.label();
            caveats.push(format!(
                "{label} neglects some kinds of file: timeouts differ by {spread:.1} points"
            ));
        }
    }
    caveats
}

/// What a reader must know of servers that the lab has not started, if there are any.
fn started_by_others(sides: &[Side; 2]) -> Option<String> {
    let is_running = |side: &Side| matches!(side.instance, Instance::Running(_));
    let [first, second] = sides;
    match [first, second].map(is_running) {
        [false, false] => None,
        [true, true] => Some(
            "both run as they were started: their workers, CPUs and logs may differ, and they may \
             use the clients' CPUs"
                .to_owned(),
        ),
        [true, false] => Some(unlike(&first.label(), &second.label())),
        [false, true] => Some(unlike(&second.label(), &first.label())),
    }
}

/// What differs between a server that runs already and one that the lab has started.
fn unlike(running: &str, started: &str) -> String {
    format!(
        "{running} runs as it was started: its workers and its log may be others than those of \
         {started}, which is pinned to the server's CPUs, while it may use the clients' as well"
    )
}

/// Names the response times of a table that are mostly the generator's own lag, if there are any.
fn mostly_own_lag(side: &Side, common: &[Option<Measured>]) -> Option<String> {
    let runs: Vec<&Measured> = common.iter().flatten().collect();
    let is_own = |name: &&str| {
        let own = runs.iter().filter(|run| run.figures.mostly_own_lag.contains(*name)).count();
        own > 0 && 2 * own >= runs.len()
    };
    let names: Vec<&str> = ["p50", "p99"].into_iter().filter(is_own).collect();
    let label = side.label();
    (!names.is_empty()).then(|| {
        format!(
            "{} of {label} is mostly the generator's own lag: of the server it says little",
            names.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests;
