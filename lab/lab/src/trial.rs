//! One trial: a running server is loaded for a window, and what the clients observed is put beside
//! what the server used.
//!
//! The load is a process of its own, `ropewalk load`, on processors of its own. Which trials are
//! made, and in which order, is decided elsewhere; a trial judges nothing but whether it is void.
//! The options of the load are in `options`; a load by wrk, which a study may name in its place, is
//! in `by_wrk`; loads that are observed, of one server or of several at once, are in `together`.

mod by_wrk;
mod options;
mod together;

use crate::client::{Client, ClientError, Finished};
use crate::group::Group;
use crate::observe::{Disturbed, Observed, Observer, Watched, worst};
use crate::record::{Figures, Offered, Run};
use crate::server::{RunningServer, StartError};
use crate::void::Void;
use crate::workload::{LoadClient, Tools, Workload};
use load::error_kind::ErrorKind;
use load::options::Options;
use load::outcome::Outcome;
use load::report::json::{self, Document};
use load::run_error::RunError;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use together::{Side, run_together};

/// How much longer a load may take than its options say, before it is taken for hung.
const LOAD_GRACE: Duration = Duration::from_secs(60);

/// The pace that priming, requesting everything once, is given time for: a path with a link of 8
/// Mbit/s, and a server of a thousand requests a second. The clients give up on a server that hangs
/// long before.
const PRIMED_BYTES_PER_S: f64 = 1e6;
const PRIMED_REQUESTS_PER_S: f64 = 1e3;

/// Generators that share a load start together this long after the start line is sent to them.
const START_TOGETHER_US: u64 = 200_000;

/// A generator that has the load to itself starts this long after the start line is sent to it, in
/// microseconds. It has no other generator to wait for, but its threads must be ready by then.
const START_ALONE_US: u64 = 100_000;

/// How long a server gets to notice that the load's connections are closed, which counts as part of
/// the load.
const CLOSE_GRACE: Duration = Duration::from_millis(20);

/// Connections over which everything is requested once before anything is measured.
const PRIMERS: u64 = 4;

/// What a trial reports of a server whose processes are not known.
const NOT_OURS: &str = "processor time and memory: the server was not started here";

/// What a trial reports of a server where the load ended while it was warming up, or where the end
/// of warming up was missed.
const NOT_BEGUN: &str = "what the server used: the beginning of the window was missed";

/// Why it is not known what others did on the CPUs of the trial.
const NOT_WATCHED: &str = "interference: what others did on the server's CPUs is not known";

/// Why a trial has no outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub enum RunFailure {
    /// The outcome of this trial cannot be made: its server or its load may be the cause.
    Void(Void),
    /// No trial's outcome can be made now, whichever the server: what all trials need is missing.
    Setup(String),
}

/// A failure to start is the server's own, or that of the setup.
impl From<StartError> for RunFailure {
    fn from(why: StartError) -> Self {
        match why {
            StartError::DoesNotServe { .. } => Self::no_load(why.to_string()),
            StartError::NotStarted(why) => Self::Setup(why),
        }
    }
}

impl RunFailure {
    /// There was no load, by the fault of the server, or of what was requested of it.
    pub(crate) fn no_load(why: impl Into<String>) -> Self {
        Self::Void(Void::NoLoad(why.into()))
    }

    /// There was no load, and the server is not to blame.
    pub(crate) fn of_generator(why: impl Into<String>) -> Self {
        Self::Void(Void::Generator(why.into()))
    }

    /// Names the server of several that it happened to.
    pub(crate) fn naming_server(self, server: &str) -> Self {
        match self {
            Self::Void(Void::NoLoad(why)) => Self::no_load(format!("{server}: {why}")),
            Self::Void(Void::Generator(why)) => Self::of_generator(format!("{server}: {why}")),
            other => other,
        }
    }

    /// What looks like a fault of the server, or of the run, may mean that something all runs need
    /// is gone: a server whose files were removed answers 404.
    pub(crate) fn unless_gone(self, tools: &Tools, workload: &Workload) -> Self {
        let needed = [&tools.program, &workload.log, &workload.prime, &workload.root];
        let is_gone = |path: &&&PathBuf| !path.as_os_str().is_empty() && !path.exists();
        match needed.iter().find(is_gone) {
            Some(path) => Self::Setup(format!("{} is gone", path.display())),
            None => self,
        }
    }
}

/// A server that runs, as far as a trial needs it.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Where it listens.
    pub address: SocketAddr,
    /// All its copies, where this process started them: of a server that was started otherwise
    /// neither the processor time nor the memory is known.
    pub copies: &'a [RunningServer],
}

impl<'a> Target<'a> {
    /// A server that this process has started.
    pub fn of_server(server: &'a RunningServer) -> Self {
        Self { address: server.address(), copies: std::slice::from_ref(server) }
    }

    /// A server that this process has started as several copies, of which there is at least one.
    pub fn of_copies(copies: &'a [RunningServer]) -> Self {
        Self { address: copies[0].address(), copies }
    }

    /// A server that runs already: this process did not start it.
    pub fn already_running(address: SocketAddr) -> Self {
        Self { address, copies: &[] }
    }

    /// The processes of each copy.
    pub fn groups(&self) -> Vec<&'a Group> {
        self.copies.iter().map(RunningServer::group).collect()
    }

    /// The processes of the application behind each copy, where there is one.
    pub fn applications(&self) -> Vec<&'a Group> {
        self.copies.iter().filter_map(RunningServer::application_group).collect()
    }

    /// Which of its copies have ended although they were not stopped.
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

/// A load generator: where it runs, and which server it loads. Each makes its share of the load.
#[derive(Clone, Debug, Default)]
pub struct LoadGenerator {
    /// The processors on which it runs, with a thread for each.
    pub cpus: Vec<usize>,
    /// Whether servers run on these processors, too. Then its threads run on any of them, and
    /// otherwise each thread stays on one.
    pub is_shared: bool,
    /// The words before its command that make it run in a network; often none.
    pub prefix: Vec<String>,
    /// The address to which it connects; none: the address of the server under test.
    pub address: Option<SocketAddr>,
    /// The addresses that its connections come from; empty: whatever the kernel chooses.
    pub sources: Vec<Ipv4Addr>,
}

impl LoadGenerator {
    /// A generator on these processors, in our own network; they may be processors of the servers.
    pub fn beside(servers: &[usize], cpus: &[usize]) -> Self {
        let is_shared = cpus.iter().any(|cpu| servers.contains(cpu));
        Self { cpus: cpus.to_vec(), is_shared, ..Self::default() }
    }
}

/// The setup that loads servers.
#[derive(Clone, Debug)]
pub struct LoadSetup {
    /// Our own program, and room for its files.
    pub tools: Tools,
    /// The generators of the load; at least one.
    pub generators: Vec<LoadGenerator>,
    /// How late the generator may be before a run is void, as a user types it; none: the default of
    /// `ropewalk load`.
    pub lag_bound: Option<String>,
    /// The share of what a trial needs that others may take before the trial is void, 0 to 1:
    /// [`INTERFERENCE_MAX`](crate::observe::INTERFERENCE_MAX).
    pub interference_bound: f64,
}

/// The load of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// How much it requests.
    pub offered: Offered,
    /// The seconds of the window.
    pub window_s: f64,
    /// Seeds the arrivals.
    pub seed: u64,
    /// Replies within so many microseconds count as goodput.
    pub latency_target_us: Option<u64>,
    /// Whether every byte is checked, not only the lengths. This costs the clients processor time.
    pub verify_bytes: bool,
    /// Whether sessions of an open load are evenly spaced, and do not arrive independently of each
    /// other as users do: where only the rate that a server sustains is wanted, chance is noise.
    pub is_even: bool,
    /// Whether an open load begins as long before its window as sessions with pauses need, so that
    /// as many are under way in the window as always will be.
    pub waits_for_sessions: bool,
}

/// The measurements of a trial.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What the clients observed.
    pub figures: Figures,
    /// What was observed beside the clients, by name.
    pub observed: BTreeMap<String, f64>,
    /// What could not be observed, and why.
    pub not_available: Vec<String>,
    /// Why the trial says nothing about the server, if it does not.
    pub void: Vec<Void>,
    /// When the window began, in microseconds since 1970.
    pub started_unix_us: u64,
    /// The whole outcome, as `ropewalk load` wrote it.
    pub outcome_json: String,
    /// The parsed `outcome_json`, to be computed with.
    pub outcome: Outcome,
}

impl Measured {
    /// Processor time of the server, microseconds a good reply; none where there was no good reply.
    pub fn cpu_us_per_request(&self) -> Option<f64> {
        self.observed.get("cpu_us_per_request").copied()
    }

    /// The record of the trial; its purpose is left to the caller.
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

impl LoadSetup {
    /// Requests once, with one of the generators, everything that the workload will request, and
    /// checks every byte where the right bytes are known: so the server is known to serve what it
    /// should, and its caches hold what they can.
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
        primed(&outcome)
    }

    /// Loads a server for a window.
    ///
    /// # Errors
    /// When the load could not be run at all, or the server is gone.
    pub fn run(&self, server: Target<'_>, trial: &Trial<'_>) -> Result<Measured, RunFailure> {
        let (groups, applications) = (server.groups(), server.applications());
        let watched = Watched { groups, applications, ..Watched::default() };
        let observer = (!watched.groups.is_empty()).then(|| Observer::new(watched));
        self.run_observed(server, trial, observer.as_ref())
    }

    /// Loads a server for a window, watched by an observer that knows more of the server than its
    /// group; without an observer the server is not watched.
    ///
    /// # Errors
    /// When the load could not be run at all, or the server is gone.
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
            // Only studies have such workloads, and they start their servers themselves.
            Some(observer) if trial.workload.client == LoadClient::Wrk => {
                self.load_by_wrk(server, trial, observer)?
            }
            Some(observer) => {
                let side = Side { load_setup: self, server, observer };
                together::load_observed(&[side], &asked, window)?.remove(0)
            }
        };
        Ok(self.measured(server, outcome, text, seen))
    }

    /// Puts together what the clients observed and what was observed beside them.
    fn measured(
        &self,
        server: Target<'_>,
        outcome: Outcome,
        outcome_json: String,
        seen: Result<Observation, &'static str>,
    ) -> Measured {
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
        Measured {
            figures: Figures::from_outcome(&outcome),
            observed,
            not_available,
            void,
            started_unix_us: outcome.started_unix_us,
            outcome_json,
            outcome,
        }
    }

    /// What was observed, by name, what could not be observed, and why the trial is void if others
    /// disturbed it too much.
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
        figures
            .extend(shares.iter().map(|(disturbed, share)| (disturbed.name().to_owned(), *share)));
        let bound = self.interference_bound;
        let too_much = worst(&shares).filter(|(_, share)| *share > bound);
        let void =
            too_much.map(|(disturbed, share)| Void::Interference { disturbed, share, bound });
        (figures, not_available, void)
    }

    /// Runs `ropewalk load`, once for each generator, and puts together what they wrote.
    fn load(
        &self,
        server: Target<'_>,
        asked: &Options,
        window: Duration,
    ) -> Result<(Outcome, String), RunFailure> {
        let wait_for_line = self.generators.len() > 1;
        let within = options::run_time(window, asked).map_err(RunFailure::of_generator)?;
        let mut generators = self.generators(server, asked, wait_for_line)?;
        if wait_for_line {
            await_ready(&mut generators)?;
            start_together(generators.iter_mut())?;
        }
        finish(generators, within)
    }

    /// Starts the generators, each with the file to which it writes; they begin at once, or wait
    /// for a line that says when to begin.
    fn generators(
        &self,
        server: Target<'_>,
        asked: &Options,
        wait_for_line: bool,
    ) -> Result<Vec<(Client, PathBuf)>, RunFailure> {
        let start = |(index, generator): (usize, &LoadGenerator)| {
            let mut command = self.tools.command(&["load", "-q"]);
            command.extend(self.options(asked, index, server, wait_for_line).to_arguments());
            let path = outcome_path(&self.tools.scratch);
            command.extend(["--json".to_owned(), path.display().to_string()]);
            let started = Client::start_waiting(&generator.prefix, &generator.cpus, &command);
            Ok((started.map_err(RunFailure::Setup)?, path))
        };
        self.generators.iter().enumerate().map(start).collect()
    }
}

/// What generators used within a window.
#[derive(Debug)]
struct LoadUse {
    /// When the window began, in microseconds since 1970, and its length.
    window_us: (u64, u64),
    cpu_us: u64,
    waited_us: Option<u64>,
    wake_ups: u64,
}

impl From<&Outcome> for LoadUse {
    fn from(outcome: &Outcome) -> Self {
        let (user_us, system_us) = outcome.cpu_us;
        Self {
            window_us: (outcome.started_unix_us, outcome.window_us),
            cpu_us: user_us + system_us,
            waited_us: outcome.run_delay_us,
            wake_ups: outcome.wake_ups,
        }
    }
}

/// What was observed beside a load.
struct Observation {
    observed: Observed,
    /// How much others disturbed the server and the generator; none where the window was missed.
    interference: Option<BTreeMap<Disturbed, f64>>,
}

/// Whether everything was served as it should be when it was requested once.
fn primed(outcome: &Outcome) -> Result<(), RunFailure> {
    if let Some(bad) = &outcome.first_bad {
        return Err(RunFailure::no_load(format!("it serves something wrong: {bad}")));
    }
    let (own, of_server): (Vec<_>, Vec<_>) =
        outcome.measures.errors.iter().partition(|(kind, _)| kind.is_own());
    let words = |errors: &[(ErrorKind, u64)]| {
        let words = errors.iter().map(|(kind, count)| format!("{count} {}", kind.name()));
        words.collect::<Vec<_>>().join(", ")
    };
    match (own.is_empty(), of_server.is_empty()) {
        (true, true) => Ok(()),
        (false, true) => {
            Err(RunFailure::of_generator(format!("it failed itself: {}", words(&own))))
        }
        (_, false) => {
            let is_refused = of_server.iter().any(|(kind, _)| *kind == ErrorKind::BadReply);
            let first = outcome.first_refused.as_ref().filter(|_| is_refused);
            let first = first.map_or_else(String::new, |why| format!(" (the first: {why})"));
            let errors = words(&of_server);
            Err(RunFailure::no_load(format!("it does not serve everything: {errors}{first}")))
        }
    }
}

fn await_ready(generators: &mut [(Client, PathBuf)]) -> Result<(), RunFailure> {
    for (client, path) in generators {
        client.await_ready(LOAD_GRACE).map_err(|why| no_outcome(path, why))?;
    }
    Ok(())
}

/// Waits until all generators have measured.
fn await_measured(
    generators: &mut [(Client, PathBuf)],
    within: Duration,
) -> Result<(), RunFailure> {
    for (client, path) in generators {
        client.await_measured(within).map_err(|why| no_outcome(path, why))?;
    }
    Ok(())
}

/// Why a generator that ended early, or went astray, has no outcome.
fn no_outcome(path: &Path, why: ClientError) -> RunFailure {
    match why {
        ClientError::Ended(finished) => match read_outcome(path, &finished) {
            Ok(_) => RunFailure::of_generator("it ended early"),
            Err(why) => why,
        },
        ClientError::Astray(why) => RunFailure::of_generator(why),
    }
}

/// Makes generators that are ready begin at one instant; returns it, in microseconds since 1970.
fn start_together<'g>(
    mut generators: impl ExactSizeIterator<Item = &'g mut (Client, PathBuf)>,
) -> Result<u64, RunFailure> {
    let later_us = if generators.len() > 1 { START_TOGETHER_US } else { START_ALONE_US };
    let start_us = crate::unix_us() + later_us;
    let line = format!("{}.{:06}", start_us / 1_000_000, start_us % 1_000_000);
    let mut send = |(client, path): &mut (Client, PathBuf)| {
        let Err(why) = client.send_line(&line) else { return Ok(()) };
        // A generator that does not read its input any more has ended, and has left word why.
        match client.await_measured(LOAD_GRACE) {
            Ok(()) => Err(RunFailure::of_generator(why)),
            Err(why) => Err(no_outcome(path, why)),
        }
    };
    generators.try_for_each(&mut send).map(|()| start_us)
}

/// Waits for all generators, and puts together what they wrote.
fn finish(
    generators: Vec<(Client, PathBuf)>,
    within: Duration,
) -> Result<(Outcome, String), RunFailure> {
    let outcomes = generators.into_iter().map(|(client, path)| {
        let finished = client.finish(within).map_err(RunFailure::of_generator)?;
        read_outcome(&path, &finished)
    });
    let mut outcomes = outcomes.collect::<Result<Vec<(Outcome, String)>, RunFailure>>()?;
    if outcomes.len() == 1 {
        return Ok(outcomes.remove(0));
    }
    // Generators whose outcomes do not belong together did not begin together.
    let outcomes = outcomes.into_iter().map(|(outcome, _)| outcome).collect();
    merge(outcomes).map_err(RunFailure::of_generator)
}

/// The time that priming may take beyond [`LOAD_GRACE`].
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
    // A generator exits with a status of its own after errors and void runs, and writes an outcome
    // all the same.
    let text = fs::read_to_string(path);
    if text.is_err() {
        // If this process cannot create such a file either, the machine is at fault.
        let place = |why| RunFailure::Setup(format!("{}: {why}", path.display()));
        File::create(path).map_err(place)?;
    }
    let _ = fs::remove_file(path); // a file that is left disturbs nothing
    // A generator that found a fault of the server says so in its file.
    let text = text.map_err(|_| RunFailure::of_generator(finished.failure_reason()))?;
    // A generator that began the file prints why it is not whole.
    let broken = |why| match finished.status.success() {
        true => RunFailure::Setup(format!("{}: {why}", path.display())),
        false => RunFailure::Setup(finished.failure_reason()),
    };
    let outcome = match json::read(&text).map_err(broken)? {
        Document::Outcome(outcome) => *outcome,
        Document::NoRun(RunError::Server(why)) => return Err(RunFailure::no_load(why)),
        Document::NoRun(why) => return Err(RunFailure::of_generator(why.to_string())),
    };
    // The counts of an interrupted generator are not what was requested, whatever ended it.
    if outcome.interrupted {
        let why = "it was interrupted before its time was over";
        return Err(RunFailure::of_generator(why));
    }
    Ok((outcome, text))
}

/// The outcomes of all generators as one. They send to different addresses of the same server,
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
    use super::*;
    use crate::record::Described;

    /// What the server did is known from what the generator did; where neither could write, the
    /// machine ends the study or the search.
    #[test]
    fn a_generator_that_fails_says_whose_fault_it_is() {
        let folder = testkit::Temporary::new();
        let outcome = |path: PathBuf, script: &str| {
            let script = script.replace("FILE", &path.display().to_string());
            let command = ["sh", "-c", &script].map(str::to_owned);
            let client = Client::start_in(&[], &[], &command).expect("there is a shell");
            finish(vec![(client, path)], LOAD_GRACE).map(drop)
        };
        let path = outcome_path(folder.path());
        let refused = |why: &RunError| {
            folder.file("no_run.json", json::write_error(why));
            let script = format!("cp {} FILE; exit 1", folder.path().join("no_run.json").display());
            outcome(path.clone(), &script)
        };
        let why = || "--idle 800: connection 5 of them: cannot be opened".to_owned();
        assert_eq!(refused(&RunError::Server(why())), Err(RunFailure::no_load(why())));
        assert_eq!(refused(&RunError::Generator(why())), Err(RunFailure::of_generator(why())));
        let late = RunError::TooLate { late_us: 5 };
        assert_eq!(refused(&late), Err(RunFailure::of_generator(late.to_string())));
        // A program in front of it, which moves it into a network, cannot start it.
        let unmoved = outcome(path.clone(), "echo no such namespace >&2; exit 1");
        let why = "exit status: 1: no such namespace";
        assert_eq!(unmoved, Err(RunFailure::of_generator(why)));
        let ours = |why: &str| Err(RunFailure::Setup(why.to_owned()));
        let full = outcome(path.clone(), ": > FILE; echo no space left >&2; exit 1");
        assert_eq!(full, ours("exit status: 1: no space left"));
        let half = outcome(path.clone(), "echo '{\"half' > FILE");
        assert!(matches!(half, Err(RunFailure::Setup(_))), "{half:?}");
        assert!(!path.exists());
        let gone = folder.path().join("gone").join("outcome.json");
        let nowhere = outcome(gone.clone(), "exit 1");
        let why = format!("{}: No such file or directory (os error 2)", gone.display());
        assert_eq!(nowhere, ours(&why));
    }

    /// What priming finds is the server's, with the first reason, or the generator's.
    #[test]
    fn what_priming_finds_is_told_with_its_first_reason() {
        let of = |errors: &[(ErrorKind, u64)]| {
            let mut outcome = no_replies();
            errors.iter().for_each(|(kind, count)| outcome.measures.errors.set(*kind, *count));
            outcome.first_refused = Some("/a from 127.0.0.1:1: invalid chunk size".into());
            primed(&outcome)
        };
        assert_eq!(of(&[]), Ok(()));
        let refused = "it does not serve everything: 3 bad_reply (the first: /a from 127.0.0.1:1: \
                       invalid chunk size)";
        assert_eq!(of(&[(ErrorKind::BadReply, 3)]), Err(RunFailure::no_load(refused)));
        let reset = "it does not serve everything: 1 reset";
        assert_eq!(of(&[(ErrorKind::Reset, 1)]), Err(RunFailure::no_load(reset)));
        let own = "it failed itself: 2 out_of_ports";
        assert_eq!(of(&[(ErrorKind::OutOfPorts, 2)]), Err(RunFailure::of_generator(own)));
    }

    #[test]
    fn what_all_runs_need_may_be_gone() {
        let there = std::env::temp_dir();
        let tools = Tools { program: there.clone(), scratch: there.clone() };
        let failure = |root: PathBuf| {
            let (log, prime) = (there.clone(), there.clone());
            let workload = Workload { root, log, prime, ..workload("") };
            RunFailure::Void("404".into()).unless_gone(&tools, &workload)
        };
        assert_eq!(failure(there.clone()), RunFailure::Void("404".into()));
        assert_eq!(failure("/not/here".into()), RunFailure::Setup("/not/here is gone".into()));
        assert_eq!(
            failure(PathBuf::new()),
            RunFailure::Void("404".into()),
            "it has no files of ours"
        );
    }

    #[test]
    fn a_server_that_was_not_started_is_not_to_blame() {
        let (what, printed) = ("it ended".to_owned(), "bad knob".to_owned());
        let of_server = StartError::DoesNotServe { what, port_is_taken: false, printed };
        assert!(matches!(of_server.into(), RunFailure::Void(_)));
        let of_machine = StartError::NotStarted("no free port: it is taken".to_owned());
        assert!(matches!(of_machine.into(), RunFailure::Setup(_)));
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
            client: LoadClient::default(),
            wrk_script: None,
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

    pub(super) fn load_setup() -> LoadSetup {
        let tools = Tools { program: "ropewalk".into(), scratch: "/s".into() };
        LoadSetup { tools, generators: Vec::new(), lag_bound: None, interference_bound: 1.0 }
    }

    fn no_replies() -> Outcome {
        Outcome {
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
        }
    }

    /// A generator that takes a second to open idle connections, and another to close them.
    const SLOW: &str = "#!/bin/sh\nsleep 1; echo ready; read at; sleep 0.2\n\
                        echo measured; read more; sleep 1; eval path=\\${$#}\n\
                        cp \"$0.json\" \"$path\"\n";

    #[test]
    fn what_rests_beside_the_load_is_opened_and_closed_outside_the_looks() {
        let folder = testkit::Temporary::new();
        let outcome = no_replies();
        let program = folder.path().join("slow");
        testkit::install_script(SLOW, &program);
        folder.file("slow.json", json::write(&outcome));
        let tools = Tools { program, scratch: folder.path().into() };
        let generators = vec![LoadGenerator::beside(&[], &os::affinity::allowed_cpus()[..1])];
        let load_setup = LoadSetup { tools, generators, ..load_setup() };
        let workload = workload("--idle 800");
        let trial = trial(&workload);
        let server = Target::already_running(([127, 0, 0, 1], 9).into());
        let observer = Observer::new(Watched::default());
        let begun_us = os::clock::now();
        let measured = load_setup.run_observed(server, &trial, Some(&observer)).expect("it ends");
        let took_us = (os::clock::now() - begun_us) as f64;
        let elapsed_us = measured.observed["elapsed_us"];
        // The two seconds are not observed, however long everything takes on a machine that is
        // busy.
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
