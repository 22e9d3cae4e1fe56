//! One trial: a server that runs is loaded for a window, and what clients saw and the server used
//! is put beside each other.
//!
//! The load is a process of its own, `ropewalk load`, on processors of its own. Which trials are
//! made, and in which order, is decided elsewhere; a trial judges nothing but whether it is void.
//! What the load is told is in `options`.

mod options;

use crate::client::{Client, Finished};
use crate::group::Group;
use crate::observe::{
    Disturbed, Doings, Machine, Observed, Observer, Watched, WindowUse, interference, worst,
};
use crate::record::{Figures, Offered, Run};
use crate::server::{RunningServer, StartError};
use crate::void::Void;
use crate::workload::{Tools, Workload};
use load::options::Options;
use load::outcome::Outcome;
use load::report::json;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// How much longer a load may take than its options say, before it is taken for hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// What asking for everything once is waited for: a path of a link of 8 Mbit/s, and a server of a
/// thousand requests a second. A server that hangs is given up by its clients long before.
const PRIMED_BYTES_PER_S: f64 = 1e6;
const PRIMED_REQUESTS_PER_S: f64 = 1e3;

/// Generators that share a load start so much later than they are told to, all at once.
const START_TOGETHER_US: u64 = 200_000;

/// A generator that has the load to itself starts so much later than it is told to, in
/// microseconds. It has no other generator to wait for, but its threads must be ready by then.
const START_ALONE_US: u64 = 100_000;

/// So long a server is left to see that the load's connections are closed: that is of the load.
const AFTERMATH: Duration = Duration::from_millis(20);

/// Connections that ask for everything once before anything is measured.
const PRIMERS: u64 = 4;

/// What is said of a server whose processes are not known.
const NOT_OURS: &str = "processor time and memory: the server was not started here";

/// What is said of a server where the load ended while it was warming up, or where the end of
/// warming up was not seen.
const NOT_BEGUN: &str = "what the server used: the beginning of the window was missed";

/// Why it is not known what others did on the CPUs of the trial.
const NOT_WATCHED: &str = "interference: what others did on the server's CPUs is not known";

/// Why there is no outcome of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum RunFailure {
    /// The outcome of this trial cannot be made: its server or what was asked of it may be why.
    Void(Void),
    /// No trial's outcome can be made now, whichever the server.
    Surroundings(String),
}

/// What a server did itself, or what kept it from being started.
impl From<StartError> for RunFailure {
    fn from(why: StartError) -> Self {
        match why {
            StartError::DoesNotServe { .. } => Self::no_load(why.to_string()),
            StartError::NotStarted(why) => Self::Surroundings(why),
        }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Void(why) => why.fmt(formatter),
            Self::Surroundings(why) => formatter.write_str(why),
        }
    }
}

impl RunFailure {
    /// There was no load, and whoever cannot be ruled out may be why: the server or what was asked
    /// of it.
    pub(crate) fn no_load(why: impl Into<String>) -> Self {
        Self::Void(Void::NoLoad(why.into()))
    }

    /// What looks like a fault of the server, or of the run, may be that what all runs need is
    /// gone: a server whose files were removed answers 404.
    pub(crate) fn unless_gone(self, tools: &Tools, workload: &Workload) -> Self {
        let needed = [&tools.program, &workload.log, &workload.prime, &workload.root];
        let is_gone = |path: &&&PathBuf| !path.as_os_str().is_empty() && !path.exists();
        match needed.iter().find(is_gone) {
            Some(path) => Self::Surroundings(format!("{} is gone", path.display())),
            None => self,
        }
    }
}

/// A server that runs, as far as a trial needs it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// All its copies, where they are ours: of a server that somebody else has started neither the
    /// processor time nor the memory is known.
    pub copies: &'a [RunningServer],
}

impl<'a> Target<'a> {
    /// A server that we have started.
    pub fn of(server: &'a RunningServer) -> Self {
        Self { address: server.address(), copies: std::slice::from_ref(server) }
    }

    /// A server that we have started as several copies, of which there is at least one.
    pub fn of_copies(copies: &'a [RunningServer]) -> Self {
        Self { address: copies[0].address(), copies }
    }

    /// A server that somebody else has started.
    pub fn foreign(address: SocketAddr) -> Self {
        Self { address, copies: &[] }
    }

    /// The processes of each copy.
    pub fn groups(&self) -> Vec<&'a Group> {
        self.copies.iter().map(RunningServer::group).collect()
    }

    /// Which of its copies have ended although nobody has stopped them.
    pub fn ended(&self) -> Vec<Void> {
        let gone = self.copies.iter().enumerate().filter(|(_, copy)| copy.group().has_ended());
        let copies = self.copies.len();
        gone.map(|(index, _)| Void::Ended { copy: index + 1, copies }).collect()
    }

    /// The processors on which it may run.
    fn cpus(&self) -> Vec<usize> {
        let of_copies = self.copies.iter().flat_map(|copy| copy.cpus().iter().copied());
        let mut cpus: Vec<usize> = of_copies.collect();
        if self.copies.iter().any(|copy| copy.cpus().is_empty()) {
            cpus = os::affinity::allowed_cpus();
        }
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

/// A load generator: where it runs, and whom it asks. Each makes its share of the load.
#[derive(Clone, Debug, Default)]
pub struct LoadGenerator {
    /// The processors on which it runs, with a thread for each.
    pub cpus: Vec<usize>,
    /// Whether servers run on these, too. Then its threads run on any of them, and else each stays
    /// on one.
    pub is_shared: bool,
    /// What is put before its command, so that it runs in a network; often nothing.
    pub prefix: Vec<String>,
    /// Where it asks; none: at the address of the server that is tried.
    pub address: Option<SocketAddr>,
    /// The addresses that its connections come from; empty: whatever the kernel chooses.
    pub sources: Vec<Ipv4Addr>,
}

impl LoadGenerator {
    /// On these processors, in our own network, where servers run on those.
    pub fn beside(servers: &[usize], cpus: &[usize]) -> Self {
        let is_shared = cpus.iter().any(|cpu| servers.contains(cpu));
        Self { cpus: cpus.to_vec(), is_shared, ..Self::default() }
    }
}

/// What loads servers.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Our own program, and room for its files.
    pub tools: Tools,
    /// What generates the load; at least one.
    pub generators: Vec<LoadGenerator>,
    /// How late the generator may be before a run is void, as one types it; none: what
    /// `ropewalk load` says.
    pub lag_bound: Option<String>,
    /// How much of what a trial needs others may have had before it is void, 0 to 1:
    /// [`INTERFERENCE_MAX`](crate::observe::INTERFERENCE_MAX).
    pub interference_bound: f64,
}

/// What a trial asks.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// For what.
    pub workload: &'a Workload,
    /// How much.
    pub offered: Offered,
    /// For how many seconds.
    pub window_s: f64,
    /// Seeds the arrivals.
    pub seed: u64,
    /// Replies within so many microseconds count as goodput.
    pub latency_target_us: Option<u64>,
    /// Whether every byte is looked at, not only the lengths. It costs the clients processor time.
    pub verify_bytes: bool,
    /// Whether sessions of an open load are evenly spaced, and do not come independently of each
    /// other as users do: where only the rate is asked for that a server sustains, chance is noise.
    pub is_even: bool,
    /// Whether an open load begins as long before its window as sessions need that pause, so that
    /// as many are under way in it as always will be.
    pub waits_for_sessions: bool,
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What the clients saw.
    pub figures: Figures,
    /// What was observed beside it, by name.
    pub observed: BTreeMap<String, f64>,
    /// What could not be observed, and why.
    pub not_available: Vec<String>,
    /// Why it says nothing about the server, if so.
    pub void: Vec<Void>,
    /// When the window began, in microseconds since 1970.
    pub started_unix_us: u64,
    /// The whole outcome, as `ropewalk load` wrote it.
    pub outcome_json: String,
    /// The outcome that `outcome_json` is the text of, to be computed with.
    pub outcome: Outcome,
}

impl Measured {
    /// Processor time of the server, microseconds a good reply; none where there was none.
    pub fn cpu_us_per_request(&self) -> Option<f64> {
        self.observed.get("cpu_us_per_request").copied()
    }

    /// What is written down of it; what it was for is the caller's to say.
    pub fn to_run(&self) -> Run {
        Run {
            started_unix_us: self.started_unix_us,
            void: self.void.clone(),
            figures: Some(self.figures.clone()),
            observed: self.observed.clone(),
            not_available: self.not_available.clone(),
            ..Run::default()
        }
    }
}

impl Bench {
    /// Asks once, with one of the generators, for everything that the workload will ask for, and
    /// looks at every byte where it is known what they should be: so it is known that the server
    /// serves what it should, and its caches hold what they hold.
    ///
    /// # Errors
    /// What came back wrong, in a line.
    pub(crate) fn prime(
        &self,
        server: Target<'_>,
        generator: usize,
        workload: &Workload,
    ) -> Result<(), RunFailure> {
        let one = Self { generators: vec![self.generators[generator].clone()], ..self.clone() };
        let (outcome, _) = one.load(server, &options::priming(workload), priming_time(workload))?;
        let errors = outcome.measures.errors.iter().filter(|&(_, count)| count > 0);
        let errors: Vec<String> =
            errors.map(|(kind, count)| format!("{count} {}", kind.name())).collect();
        match (&outcome.first_bad, errors.as_slice()) {
            (Some(bad), _) => Err(RunFailure::no_load(format!("it serves something wrong: {bad}"))),
            (None, []) => Ok(()),
            (None, errors) => {
                let errors = errors.join(", ");
                Err(RunFailure::no_load(format!("not everything can be had from it: {errors}")))
            }
        }
    }

    /// Loads a server for a window.
    ///
    /// # Errors
    /// When the load could not be run at all, or the server is gone.
    pub fn run(&self, server: Target<'_>, trial: &Trial<'_>) -> Result<Measured, RunFailure> {
        let watched = Watched { groups: server.groups(), ..Watched::default() };
        let observer = (!watched.groups.is_empty()).then(|| Observer::new(watched));
        self.run_observed(server, trial, observer.as_ref())
    }

    /// Loads a server for a window, watched by an observer that knows more of the server than its
    /// group; without an observer the server is not watched.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub fn run_observed(
        &self,
        server: Target<'_>,
        trial: &Trial<'_>,
        observer: Option<&Observer<'_>>,
    ) -> Result<Measured, RunFailure> {
        let asked = trial.options();
        let window = Duration::from_secs_f64(trial.window_s);
        let (outcome, text, seen) = match observer {
            None => {
                let (outcome, text) = self.load(server, &asked, window)?;
                (outcome, text, Err(NOT_OURS))
            }
            Some(observer) => self.load_observed(server, &asked, window, observer)?,
        };
        let (mut observed, not_available, disturbed) = match seen {
            Ok(seen) => self.judged(seen),
            Err(why) => (BTreeMap::new(), vec![why.to_owned(), NOT_WATCHED.to_owned()], None),
        };
        let replies = outcome.measures.counts.replies;
        if let Some(&cpu_us) = observed.get("cpu_us").filter(|_| replies > 0) {
            observed.insert("cpu_us_per_request".into(), cpu_us / replies as f64);
        }
        let mut void: Vec<Void> = disturbed.into_iter().collect();
        void.extend(outcome.void.iter().cloned().map(Void::Load));
        void.extend(outcome.first_bad.iter().cloned().map(Void::WrongReply));
        void.extend(server.ended());
        Ok(Measured {
            figures: Figures::of(&outcome),
            observed,
            not_available,
            void,
            started_unix_us: outcome.started_unix_us,
            outcome_json: text,
            outcome,
        })
    }

    /// What was seen, by name, what could not be seen, and whether others were too much in the way.
    fn judged(
        &self,
        observation: Observation,
    ) -> (BTreeMap<String, f64>, Vec<String>, Option<Void>) {
        let Observation { observed, interference } = observation;
        let mut figures = observed.figures();
        let mut not_available = observed.not_available;
        let Some(shares) = interference else {
            not_available.push(NOT_WATCHED.to_owned());
            return (figures, not_available, None);
        };
        figures.extend(shares.iter().map(|(whom, share)| (whom.name().to_owned(), *share)));
        let bound = self.interference_bound;
        let too_much = worst(&shares).filter(|(_, share)| *share > bound);
        let void =
            too_much.map(|(disturbed, share)| Void::Interference { disturbed, share, bound });
        (figures, not_available, void)
    }

    /// What others did on the CPUs of a trial within its window.
    fn interference(
        &self,
        server: Target<'_>,
        observed: &Observed,
        in_window: &WindowUse,
        outcome: &Outcome,
    ) -> Option<BTreeMap<Disturbed, f64>> {
        let (server_cpus, mut client_cpus) = (server.cpus(), Vec::new());
        self.generators.iter().for_each(|generator| client_cpus.extend(&generator.cpus));
        client_cpus.sort_unstable();
        client_cpus.dedup();
        let cpus = in_window.cpus(outcome.started_unix_us, outcome.window_us)?;
        // Packets that a network holds back for a while are interrupts of nobody's.
        let is_networked = self.generators.iter().any(|generator| !generator.prefix.is_empty());
        let machine = Machine {
            window_us: in_window.length_us(),
            cpus: &cpus,
            interrupts_apart: is_networked || os::accounting::interrupts_apart(),
            lab_us: in_window.lab_us(),
        };
        let server = Doings {
            cpus: &server_cpus,
            cpu_us: in_window.cpu_us(),
            waited_us: observed.run_queue_wait_us,
            wake_ups: observed.switches_voluntary.unwrap_or(0),
        };
        let (user_us, system_us) = outcome.cpu_us;
        let generator = Doings {
            cpus: &client_cpus,
            cpu_us: user_us + system_us,
            waited_us: outcome.run_delay_us,
            wake_ups: outcome.wake_ups,
        };
        Some(interference(&machine, server, generator))
    }

    /// Runs `ropewalk load`, once for each generator, and puts together what they wrote.
    fn load(
        &self,
        server: Target<'_>,
        asked: &Options,
        window: Duration,
    ) -> Result<(Outcome, String), RunFailure> {
        let are_told = self.generators.len() > 1;
        let within = options::run_time(window, asked).map_err(RunFailure::no_load)?;
        let mut generators = self.generators(server, asked, are_told)?;
        if are_told {
            await_ready(&mut generators)?;
            start_together(&mut generators)?;
        }
        finish(generators, within)
    }

    /// Loads a server for a window, observed from when the generators are ready until they have
    /// measured: what rests beside the load (`--idle`) is opened before that and closed after it.
    /// How busy the servers' CPUs are is a matter of the window alone; and where the load warms up
    /// first, all is.
    fn load_observed(
        &self,
        server: Target<'_>,
        asked: &Options,
        window: Duration,
        observer: &Observer<'_>,
    ) -> Result<(Outcome, String, Result<Observation, &'static str>), RunFailure> {
        let warm_up_us = asked.warm_up_us().map_err(RunFailure::no_load)?;
        let within = options::run_time(window, asked).map_err(RunFailure::no_load)?;
        let mut generators = self.generators(server, asked, true)?;
        await_ready(&mut generators)?;
        let before = observer.snapshot();
        let from_us = start_together(&mut generators)? + warm_up_us;
        let to_us = from_us + window.as_micros() as u64;
        let begin = || (warm_up_us > 0).then(|| observer.snapshot());
        let groups = server.groups();
        let (measured, watched) = thread::scope(|scope| {
            let (running, ended) = channel();
            let groups = &groups;
            let span = (from_us, to_us);
            let watching = scope.spawn(move || WindowUse::watch(span, groups, &ended, begin));
            let measured = await_measured(&mut generators, within);
            drop(running);
            (measured, watching.join().unwrap_or_default())
        });
        measured?;
        let (begun, in_window) = watched;
        let is_missed = warm_up_us > 0 && begun.is_none();
        let seen = (!is_missed).then(|| observer.since(&begun.flatten().unwrap_or(before)));
        let (outcome, text) = finish(generators, PATIENCE)?;
        let Some(mut observed) = seen else { return Ok((outcome, text, Err(NOT_BEGUN))) };
        let of_window =
            |in_window: &WindowUse| self.interference(server, &observed, in_window, &outcome);
        let interference = in_window.as_ref().and_then(of_window);
        if observer.knows_cpus() {
            let of_outcome = (outcome.started_unix_us, outcome.window_us);
            observer.narrow(&mut observed, in_window.as_ref(), of_outcome);
        }
        Ok((outcome, text, Ok(Observation { observed, interference })))
    }

    /// Starts the generators, each with the file to which it writes; whether they are told when to
    /// begin.
    fn generators(
        &self,
        server: Target<'_>,
        asked: &Options,
        are_told: bool,
    ) -> Result<Vec<(Client, PathBuf)>, RunFailure> {
        let start = |(index, generator): (usize, &LoadGenerator)| {
            let mut command = self.tools.command(&["load", "-q"]);
            command.extend(self.options(asked, index, server, are_told).to_arguments());
            let path = outcome_path(&self.tools.scratch);
            command.extend(["--json".to_owned(), path.display().to_string()]);
            let started = Client::start_waiting(&generator.prefix, &generator.cpus, &command);
            Ok((started.map_err(RunFailure::Surroundings)?, path))
        };
        self.generators.iter().enumerate().map(start).collect()
    }
}

/// What was seen beside a load.
struct Observation {
    observed: Observed,
    /// By whom others disturbed; none where the window was missed.
    interference: Option<BTreeMap<Disturbed, f64>>,
}

fn await_ready(generators: &mut [(Client, PathBuf)]) -> Result<(), RunFailure> {
    for (client, _) in generators {
        client.await_ready(PATIENCE).map_err(RunFailure::no_load)?;
    }
    Ok(())
}

/// Waits until all of them have measured, and servers have seen the load's connections closed.
fn await_measured(
    generators: &mut [(Client, PathBuf)],
    within: Duration,
) -> Result<(), RunFailure> {
    for (client, _) in generators {
        client.await_measured(within).map_err(RunFailure::no_load)?;
    }
    thread::sleep(AFTERMATH);
    Ok(())
}

/// Has generators that are ready begin at one instant; and says when, in microseconds since 1970.
fn start_together(generators: &mut [(Client, PathBuf)]) -> Result<u64, RunFailure> {
    let later_us = if generators.len() > 1 { START_TOGETHER_US } else { START_ALONE_US };
    let start_us = crate::unix_us() + later_us;
    let line = format!("{}.{:06}", start_us / 1_000_000, start_us % 1_000_000);
    let told = generators.iter_mut().try_for_each(|(client, _)| client.tell(&line));
    // One that listens no more has ended, and may have been unable to begin.
    told.map(|()| start_us).map_err(RunFailure::no_load)
}

/// Waits for all generators, and puts together what they wrote.
fn finish(
    generators: Vec<(Client, PathBuf)>,
    within: Duration,
) -> Result<(Outcome, String), RunFailure> {
    let outcomes = generators.into_iter().map(|(client, path)| {
        let finished = client.finish(within).map_err(RunFailure::no_load)?;
        read_outcome(&path, &finished)
    });
    let mut outcomes = outcomes.collect::<Result<Vec<(Outcome, String)>, RunFailure>>()?;
    if outcomes.len() == 1 {
        return Ok(outcomes.remove(0));
    }
    // Those that do not belong together did not begin together.
    merge(outcomes.into_iter().map(|(outcome, _)| outcome).collect()).map_err(RunFailure::no_load)
}

/// The time that asking for everything once may take beyond that.
fn priming_time(workload: &Workload) -> Duration {
    let requests = workload.requests.templates().len() as f64;
    let bytes = workload.bytes_of_all() as f64;
    Duration::from_secs_f64(bytes / PRIMED_BYTES_PER_S + requests / PRIMED_REQUESTS_PER_S)
}

fn outcome_path(scratch: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    scratch.join(format!("outcome-{}-{number}.json", std::process::id()))
}

fn read_outcome(path: &Path, finished: &Finished) -> Result<(Outcome, String), RunFailure> {
    // Errors and void runs have a status of their own, and an outcome all the same.
    let text = fs::read_to_string(path);
    if text.is_err() {
        // A file that we cannot make either is the machine's fault.
        let place = |why| RunFailure::Surroundings(format!("{}: {why}", path.display()));
        File::create(path).map_err(place)?;
    }
    let _ = fs::remove_file(path); // if that fails, it is in nobody's way
    // A generator that wrote none says why it made no run, and that may be the server's doing: one
    // that does not keep the connections that are to rest.
    let text = text.map_err(|_| RunFailure::no_load(finished.complaint()))?;
    // One that began it says why it is not whole.
    let broken = |why| match finished.status.success() {
        true => RunFailure::Surroundings(format!("{}: {why}", path.display())),
        false => RunFailure::Surroundings(finished.complaint()),
    };
    let outcome = json::parse(&text).map_err(broken)?;
    // What it counted until then is not what was asked for, whoever ended it.
    if outcome.interrupted {
        return Err(RunFailure::no_load(
            "the load generator was interrupted before its time was over",
        ));
    }
    Ok((outcome, text))
}

/// The outcomes of all generators as one. They ask at different addresses for the same server,
/// which is no difference here.
fn merge(mut outcomes: Vec<Outcome>) -> Result<(Outcome, String), String> {
    let mut targets: Vec<String> =
        outcomes.iter().flat_map(|outcome| outcome.setting.targets.clone()).collect();
    targets.dedup();
    for outcome in &mut outcomes {
        outcome.setting.targets.clone_from(&targets);
    }
    let merged = Outcome::merge(outcomes)?;
    let text = json::write(&merged);
    Ok((merged, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::record::Described;

    /// What is no server's doing ends a study or a search; what may be is a void run.
    #[test]
    fn a_generator_that_fails_says_whose_fault_it_is() {
        let folder = testkit::Temporary::new();
        let of = |path: PathBuf, script: &str| {
            let script = script.replace("FILE", &path.display().to_string());
            let command = ["sh", "-c", &script].map(str::to_owned);
            let client = Client::start_in(&[], &[], &command).expect("there is a shell");
            finish(vec![(client, path)], PATIENCE).map(drop)
        };
        let path = outcome_path(folder.path());
        let why = "exit status: 1: --idle 800: connection 5 of them: cannot be opened";
        let script = "echo '--idle 800: connection 5 of them: cannot be opened' >&2; exit 1";
        let idle = of(path.clone(), script);
        assert_eq!(idle, Err(RunFailure::no_load(why)));
        let of_file = of(path.clone(), "echo FILE: sulks >&2; exit 1");
        let why = format!("exit status: 1: {}: sulks", path.display());
        assert_eq!(of_file, Err(RunFailure::no_load(why)));
        let ours = |why: &str| Err(RunFailure::Surroundings(why.to_owned()));
        let full = of(path.clone(), ": > FILE; echo no space left >&2; exit 1");
        assert_eq!(full, ours("exit status: 1: no space left"));
        let half = of(path.clone(), "echo '{\"half' > FILE");
        assert!(matches!(half, Err(RunFailure::Surroundings(_))), "{half:?}");
        assert!(!path.exists());
        let gone = folder.path().join("gone").join("outcome.json");
        let nowhere = of(gone.clone(), "exit 1");
        let why = format!("{}: No such file or directory (os error 2)", gone.display());
        assert_eq!(nowhere, ours(&why));
    }

    #[test]
    fn what_all_runs_need_may_be_gone() {
        let there = std::env::temp_dir();
        let tools = Tools { program: there.clone(), scratch: there.clone() };
        let of = |root: PathBuf| {
            let (log, prime) = (there.clone(), there.clone());
            let workload = Workload { root, log, prime, ..workload("") };
            RunFailure::Void("404".into()).unless_gone(&tools, &workload)
        };
        assert_eq!(of(there.clone()), RunFailure::Void("404".into()));
        assert_eq!(of("/not/here".into()), RunFailure::Surroundings("/not/here is gone".into()));
        assert_eq!(of(PathBuf::new()), RunFailure::Void("404".into()), "it has no files of ours");
    }

    #[test]
    fn a_server_that_was_not_started_is_not_to_blame() {
        let (what, printed) = ("it ended".to_owned(), "bad knob".to_owned());
        let of_server = StartError::DoesNotServe { what, port_is_taken: false, printed };
        assert!(matches!(of_server.into(), RunFailure::Void(_)));
        let of_machine = StartError::NotStarted("no free port: it is taken".to_owned());
        assert!(matches!(of_machine.into(), RunFailure::Surroundings(_)));
    }

    pub(super) fn workload(load: &str) -> Workload {
        let load: Vec<String> = load.split_whitespace().map(str::to_owned).collect();
        Workload {
            described: Described { name: "w".into(), ..Described::default() },
            root: "/r".into(),
            log: "/l".into(),
            prime: "/p".into(),
            ready_path: "/".into(),
            load: Options::from_arguments(&load).expect("they are options"),
            values: crate::template::Values::new(),
            requests: std::sync::Arc::default(),
            filling_us: 0,
        }
    }

    pub(super) fn trial(workload: &Workload) -> Trial<'_> {
        Trial {
            workload,
            offered: Offered::Connections(1),
            window_s: 0.1,
            seed: 1,
            latency_target_us: None,
            verify_bytes: false,
            is_even: false,
            waits_for_sessions: true,
        }
    }

    pub(super) fn bench() -> Bench {
        let tools = Tools { program: "ropewalk".into(), scratch: "/s".into() };
        Bench { tools, generators: Vec::new(), lag_bound: None, interference_bound: 1.0 }
    }

    /// A generator that takes a second to open what rests, and another to close it.
    const SLOW: &str = "#!/bin/sh\nsleep 1; echo ready; read at; sleep 0.2\n\
                        echo measured; read more; sleep 1; eval path=\\${$#}\n\
                        cp \"$0.json\" \"$path\"\n";

    #[test]
    fn what_rests_beside_the_load_is_opened_and_closed_outside_the_looks() {
        let folder = testkit::Temporary::new();
        let outcome = Outcome {
            setting: load::outcome::Setting::default(),
            window_us: 100_000,
            started_unix_us: 1,
            interval_us: 1_000_000,
            cpu_us: (0, 0),
            run_delay_us: None,
            wake_ups: 0,
            others_us: None,
            server_cpu: None,
            measures: load::measures::Measures::default(),
            void: Vec::new(),
            first_bad: None,
            first_refused: None,
            interrupted: false,
        };
        let program = folder.file("slow", SLOW);
        folder.file("slow.json", json::write(&outcome));
        fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).expect("it is ours");
        let tools = Tools { program, scratch: folder.path().into() };
        let generators = vec![LoadGenerator::beside(&[], &os::affinity::allowed_cpus()[..1])];
        let bench = Bench { tools, generators, ..bench() };
        let workload = workload("--idle 800");
        let trial = trial(&workload);
        let server = Target::foreign(([127, 0, 0, 1], 9).into());
        let observer = Observer::new(Watched::default());
        let begun_us = os::clock::now();
        let measured = bench.run_observed(server, &trial, Some(&observer)).expect("it ends");
        let took_us = (os::clock::now() - begun_us) as f64;
        let elapsed_us = measured.observed["elapsed_us"];
        // The two seconds lie outside, however long everything takes on a machine that is busy.
        assert!((200_000.0..took_us - 2_000_000.0).contains(&elapsed_us), "{elapsed_us} {took_us}");
    }

    #[test]
    fn asking_for_everything_is_waited_for_by_its_size() {
        let mut builder = workload::request_log::RequestLog::builder();
        let mut template = workload::request_log::Template::get(b"/large");
        template.reply_bytes = Some(900_000_000);
        builder.push(template, false, 0);
        builder.end_session();
        let log = builder.finish().expect("it has a request");
        let large = Workload { requests: std::sync::Arc::new(log), ..workload("") };
        assert!(priming_time(&large) > Duration::from_secs(890), "{:?}", priming_time(&large));
    }
}
