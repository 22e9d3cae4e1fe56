//! `ropewalk serve`: a server that is controlled by signals, and at its control socket.

use std::io;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use os::process::Identity;
use os::signals::Signal;

use crate::config::{Config, ConfigError};
use crate::control::{Answer, Asked, Control, Request};
use crate::local::DESCRIPTORS_WIDENED;
use crate::partitions::Allowance;
use crate::passage::{Landing, Passage};
use crate::ready;
use crate::report::{self, Reported, report};
use crate::server::{Server, Summary};
use crate::signals::Signals;
use crate::start_error::StartError;
use crate::stop_deadline::{FINAL_WRITE_US, StopDeadline};
use crate::upgrade::{self, Launch, Predecessor, Refusal, Successor};

/// Arenas of the C library's allocator for all threads of a process. Requests that find their file
/// in the cache take no memory from it, so threads hardly ever wait for one another; and memory
/// that the entries of a small cache free can be reused by all threads.
pub(crate) const ALLOCATOR_ARENAS: u16 = 2;

/// How long a start may still take after a signal to stop. What it has begun is then stopped in
/// order; a start that hangs is left to the end of the process.
const START_END_US: u64 = 1_000_000;

/// How long signals are waited for while something else goes on.
const TURN_MS: u32 = 2;

/// How long it takes at most until workers hand over the lines of what they have served: they do so
/// four times a second.
const HAND_OVER_US: u64 = 500_000;

/// Reads the configuration again, with these settings in addition: `engine.name=fibers`.
pub type Load = Arc<dyn Fn(&[String]) -> Result<Config, ConfigError> + Send + Sync>;

/// Serves until SIGTERM, SIGINT or SIGQUIT; a second one of them cuts connections off and leaves
/// some time for what hangs (stop_deadline.rs). SIGUSR1 reopens the access log, SIGUSR2 prints the
/// status, SIGHUP does what `ropewalk ctl reload` does. A worker that fails and cannot be replaced
/// stops the others as a signal does: the remaining workers would look like a whole server and
/// leave some clients waiting for ever.
///
/// It reports where it serves and what a newcomer should know; with `is_verbose` also why the
/// engine was chosen, and which settings of interrupts were changed, as the status does in any
/// case.
///
/// # Errors
/// The server could not start, or it ended by itself. The reason has been reported.
pub fn run(config: &Config, load: Load, is_verbose: bool) -> Result<(), Reported> {
    os::memory::limit_allocator_arenas(ALLOCATOR_ARENAS);
    let failed = |what: &str, why: &io::Error| {
        report(&format!("{what}: {why}"));
        Reported
    };
    // First of all: it may bring another standard error.
    let predecessor = Predecessor::find().map_err(|why| {
        report(&why);
        Reported
    })?;
    let mut signals = Signals::new().map_err(|why| failed("cannot receive signals", &why))?;
    // Without it all goes on, but for waits when many come at once.
    let _ = os::limits::raise_descriptor_limit()
        .and_then(|_| os::limits::widen_descriptor_table(DESCRIPTORS_WIDENED));
    // After the signals are blocked: the reporter's thread must not receive them.
    let reporter = report::begin().map_err(|why| failed("cannot start a thread", &why))?;
    let served = start(config, predecessor, &mut signals).and_then(|started| match started {
        Started::ToServe(server, predecessor) => {
            let mut serving = Serving::new(*server, config, load);
            let end = serving.serve(predecessor, is_verbose, &mut signals)?;
            Ok((serving.into_server(), end))
        }
        Started::ToStop(server) => Ok((*server, End::asked_now())),
    });
    let mut deadline = match &served {
        Ok((server, end)) => {
            let mut ignored = end.signals_ignored();
            StopDeadline::until(end.since_us() + server.drain_us(), move || {
                let is_cut_short = is_cut_short(&mut signals);
                is_cut_short && std::mem::replace(&mut ignored, 0) == 0
            })
        }
        Err(_) => StopDeadline::passed(),
    };
    let stopped = served.and_then(|(server, end)| stop(server, end, &mut deadline));
    if let Err(why) = &stopped {
        report(why);
    }
    reporter.end(&mut deadline);
    stopped.map_err(|_| Reported)
}

/// A server that has started.
enum Started {
    /// In the place of another, if there is one.
    ToServe(Box<Server>, Option<Predecessor>),
    /// A signal to stop has come meanwhile.
    ToStop(Box<Server>),
}

/// Starts a server.
fn start(
    config: &Config,
    predecessor: Option<Predecessor>,
    signals: &mut Signals,
) -> Result<Started, String> {
    let config = config.clone();
    let start = move || (Server::start_after(&config, predecessor.as_ref()), predecessor);
    let ((server, predecessor), is_to_stop) = match in_time(start, "start", START_END_US, signals)?
    {
        Outcome::Done(started) => (started, false),
        Outcome::ToStop(started, _) => (started, true),
        Outcome::Late => {
            return Err("stopped before it served: the start still waits, for a file system or a \
                        worker process that does not answer"
                .into());
        }
    };
    match server {
        Ok(server) if is_to_stop => Ok(Started::ToStop(server.into())),
        Ok(server) => Ok(Started::ToServe(server.into(), predecessor)),
        Err(why) => {
            let predecessor = predecessor.iter();
            predecessor.for_each(|it| it.say_failed(exit_status(&why), &why.to_string()));
            Err(why.to_string())
        }
    }
}

fn exit_status(why: &StartError) -> u8 {
    if matches!(why, StartError::Config(_)) { 2 } else { 1 }
}

/// What has become of something that was done while signals were heard.
enum Outcome<T> {
    Done(T),
    /// It is done, and a signal to stop has come at this time.
    ToStop(T, u64),
    /// A signal to stop has come, and it is not done.
    Late,
}

/// Does something in a thread of its own: it may wait for a file system that does not answer, or
/// for a worker process that is never ready, and a signal must end it all the same, `within_us`, a
/// second one at once. Other signals are obeyed afterwards.
///
/// # Errors
/// There is no thread.
fn in_time<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
    what: &str,
    within_us: u64,
    signals: &mut Signals,
) -> Result<Outcome<T>, String> {
    let thread = thread::Builder::new().name(what.into()).spawn(act);
    let thread = thread.map_err(|why| format!("cannot start a thread: {why}"))?;
    let mut stops_us = Vec::new();
    let mut others = Vec::new();
    while !thread.is_finished() {
        match next(signals, TURN_MS)? {
            Some(signal) if is_stop(signal) => stops_us.push(os::clock::now()),
            Some(signal) if !others.contains(&signal) => others.push(signal),
            _ => {}
        }
        let is_late = |first: &u64| os::clock::now() >= first + within_us;
        if stops_us.len() > 1 || stops_us.first().is_some_and(is_late) {
            signals.put_back(others);
            return Ok(Outcome::Late);
        }
    }
    let outcome = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    signals.put_back(others);
    Ok(match stops_us.first() {
        None => Outcome::Done(outcome),
        Some(at_us) => Outcome::ToStop(outcome, *at_us),
    })
}

fn stop(server: Server, end: End, deadline: &mut StopDeadline<'_>) -> Result<(), String> {
    let seconds = Duration::from_micros(server.drain_us()).as_secs_f64();
    let summary = match end {
        End::Asked { by, .. } => {
            report(&format!("stopping: connections have {seconds} s to finish"));
            let stopped = server.stop(deadline);
            let answer = match &stopped {
                Ok(summary) => Answer::done(vec![describe(*summary)]),
                Err(why) => Answer::failed(why.clone(), 1),
            };
            by.into_iter().for_each(|request| request.answer(answer.clone()));
            stopped?
        }
        End::Followed { passage, .. } => {
            report(&format!("another process serves: connections have {seconds} s to finish"));
            let ended = server.end(deadline, passage.as_ref());
            passage.into_iter().for_each(|passage| passage.end_by(deadline));
            ended?
        }
    };
    report(&describe(summary));
    Ok(())
}

/// Why a server ends.
enum End {
    /// By a signal, or as it was asked to at its control socket, at this time; or a worker has
    /// failed.
    Asked {
        since_us: u64,
        /// Is answered when the server has stopped.
        by: Option<Request>,
    },
    /// Another process serves in its place.
    Followed { since_us: u64, passage: Option<Passage> },
}

impl End {
    fn asked_now() -> Self {
        Self::Asked { since_us: os::clock::now(), by: None }
    }

    /// Since when it ends.
    fn since_us(&self) -> u64 {
        match self {
            Self::Asked { since_us, .. } | Self::Followed { since_us, .. } => *since_us,
        }
    }

    /// How many signals to stop make no difference: those that are sent to all processes of the
    /// service do not ask for connections to be cut off.
    fn signals_ignored(&self) -> u32 {
        match self {
            Self::Asked { .. } => 0,
            Self::Followed { .. } => 1,
        }
    }
}

/// A server that serves, and what it was told.
struct Serving {
    /// None while it changes.
    server: Option<Server>,
    /// What it serves by.
    config: Config,
    load: Load,
    /// The settings that were changed since the configuration was read last.
    changed: Vec<String>,
    /// The file that an upgrade starts, as it was named when this program was started.
    program: Option<PathBuf>,
    control: Option<Control>,
    /// The servers in whose place this one has come, if they still drained then.
    former: Vec<Identity>,
    /// The last processor time that workers were to be started for while it served.
    followed: Option<Allowance>,
    /// When a signal to stop has come, if it came while something else was done.
    asked_us: Option<u64>,
}

impl Serving {
    fn new(server: Server, config: &Config, load: Load) -> Self {
        let config = config.clone();
        let (server, changed, program) = (Some(server), Vec::new(), upgrade::program());
        Self {
            server,
            config,
            load,
            changed,
            program,
            control: None,
            former: Vec::new(),
            followed: None,
            asked_us: None,
        }
    }

    fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("no change is under way")
    }

    fn into_server(self) -> Server {
        self.server.expect("no change is under way")
    }

    /// Serves until a signal to stop, until another process does, or until a worker fails.
    fn serve(
        &mut self,
        predecessor: Option<Predecessor>,
        is_verbose: bool,
        signals: &mut Signals,
    ) -> Result<End, String> {
        self.former = predecessor.as_ref().map_or_else(Vec::new, |it| it.servers.clone());
        // Before it says that it serves.
        let control = Control::open(signals.wake(), &self.former).and_then(|control| {
            let watched = signals.watch(control.as_fd());
            watched.map(|()| control).map_err(|why| format!("no control socket: {why}"))
        });
        let server = self.server();
        report(server.description());
        server.hints().iter().for_each(|hint| report(hint));
        if is_verbose {
            server.explanations().iter().for_each(|line| report(line));
        }
        self.control = control.inspect_err(|why| report(why)).ok();
        match predecessor {
            Some(predecessor) => {
                if let Some(end) = self.follow(predecessor)? {
                    return Ok(end);
                }
            }
            None => tell_service_manager("READY=1"),
        }
        self.wait_for_end(signals)
    }

    /// Tells the server in whose place this one serves, and takes its connections. If it has ended,
    /// this one is no longer wanted.
    fn follow(&mut self, predecessor: Predecessor) -> Result<Option<End>, String> {
        let settings = &self.config.settings;
        let limits = ready::limits(&settings.limits, &settings.timeouts);
        let server = self.server();
        let (taker, open) = (server.taker(), server.open());
        if let Err(why) = predecessor.say_ready(taker.get().is_some(), server.description()) {
            report(&format!("the server that was to be followed has ended: {why}"));
            return Ok(Some(End::asked_now()));
        }
        server.take_over_interrupts();
        let taken = predecessor.take_connections(taker, Landing::new(limits, open));
        taken.map(|()| None).map_err(|why| format!("cannot start a thread: {why}"))
    }

    /// Waits for a signal to stop, for another process that serves, or for a worker to fail.
    fn wait_for_end(&mut self, signals: &mut Signals) -> Result<End, String> {
        /// A failed worker, or one that sleeps on a file it should release, is noticed after this
        /// time.
        const LOOK_MS: u32 = 1000;
        loop {
            match next(signals, LOOK_MS)? {
                Some(signal) if is_stop(signal) => {
                    let since_us = self.asked_us.unwrap_or_else(os::clock::now);
                    return Ok(End::Asked { since_us, by: None });
                }
                Some(Signal::User1) => reopen_log(self.server()),
                Some(Signal::User2) => self.server().status().iter().for_each(|line| report(line)),
                Some(Signal::Hangup) => {
                    let Answer { lines, .. } = self.reload(signals)?;
                    lines.iter().for_each(|line| report(&format!("SIGHUP: {line}")));
                }
                _ => {}
            }
            self.control.iter().for_each(Control::accept);
            while let Some(request) = self.control.as_ref().and_then(Control::next) {
                if let Some(end) = self.carry_out(request, signals)? {
                    return Ok(end);
                }
            }
            let server = self.server();
            server.take_notices().iter().for_each(|notice| report(notice));
            if let Some(why) = server.failure() {
                report(&format!("a worker failed: {why}"));
                return Ok(End::asked_now());
            }
            server.do_housekeeping();
            self.follow_allowance(signals)?;
        }
    }

    /// Has the rule choose again, if others have changed what processor time the process may use.
    fn follow_allowance(&mut self, signals: &mut Signals) -> Result<(), String> {
        let allowance = self.server().other_allowance();
        let is_tried = allowance == self.followed;
        self.followed = allowance;
        if let Some(allowance) = self.followed.as_ref().filter(|_| !is_tried) {
            report(&format!("this process may use {allowance} now"));
            let config = self.config.clone();
            let Answer { lines, .. } = self.apply(config, signals)?;
            lines.iter().for_each(|line| report(line));
        }
        Ok(())
    }

    /// Does what is asked. Returns why the server ends, if it does.
    fn carry_out(
        &mut self,
        request: Request,
        signals: &mut Signals,
    ) -> Result<Option<End>, String> {
        let (answer, end) = match &request.asked {
            Asked::Status => (Answer::done(self.server().status()), None),
            Asked::Reload => (self.reload(signals)?, None),
            Asked::Change(more) => {
                (self.change(last_of_each_key(&self.changed, more), signals)?, None)
            }
            Asked::Upgrade => self.upgrade(signals)?,
            Asked::Drain => {
                return Ok(Some(End::Asked { since_us: os::clock::now(), by: Some(request) }));
            }
        };
        request.answer(answer);
        Ok(end)
    }

    /// Reads the configuration again. What was changed since the last time is changed back.
    fn reload(&mut self, signals: &mut Signals) -> Result<Answer, String> {
        let forgotten = self.changed.clone();
        let mut answer = self.change(Vec::new(), signals)?;
        if answer.status == 0 {
            answer.lines.extend(no_longer_changed(&forgotten));
        }
        Ok(answer)
    }

    /// Changes to what is configured now, with these settings in addition.
    ///
    /// # Errors
    /// A signal to stop has come, connections have had their time, and the change still waits.
    fn change(&mut self, settings: Vec<String>, signals: &mut Signals) -> Result<Answer, String> {
        let (load, wanted) = (Arc::clone(&self.load), settings.clone());
        let config = match in_time(move || load(&wanted), "load", 0, signals)? {
            Outcome::Done(Ok(config)) => config,
            Outcome::Done(Err(why)) => return Ok(Answer::failed(why.to_string(), 2)),
            Outcome::ToStop(..) | Outcome::Late => return Ok(self.ends(os::clock::now(), signals)),
        };
        let answer = self.apply(config, signals)?;
        if answer.status == 0 {
            self.changed = settings;
        }
        Ok(answer)
    }

    /// Changes to this configuration. The errors are those of [`Self::change`].
    fn apply(&mut self, config: Config, signals: &mut Signals) -> Result<Answer, String> {
        let mut server = self.server.take().expect("no change is under way");
        let (log, drain_us) = (server.log_queue(), server.drain_us());
        let change = move || {
            let changed = server.change(&config).map(|()| config);
            (server, changed)
        };
        // Only that thread has the server, which serves meanwhile.
        let (server, changed) = match in_time(change, "change", drain_us, signals)? {
            Outcome::Done(changed) => changed,
            Outcome::ToStop(changed, since_us) => {
                self.ends(since_us, signals);
                changed
            }
            Outcome::Late => {
                let lines_are_there_us = os::clock::now() + HAND_OVER_US;
                while log.is_some() && os::clock::now() < lines_are_there_us {
                    next(signals, TURN_MS)?;
                }
                log.iter().for_each(|log| log.finish(FINAL_WRITE_US));
                return Err("the change still waits, for a file system or a worker process that \
                            does not answer: connections are cut off"
                    .into());
            }
        };
        let answer = match changed {
            Ok(config) => {
                self.config = config;
                Answer::done(vec![server.description().into()])
            }
            Err(why) => Answer::failed(why.to_string(), exit_status(&why)),
        };
        self.server = Some(server);
        Ok(answer)
    }

    /// Has the server end, which was told to at this time, when it has obeyed other signals.
    fn ends(&mut self, since_us: u64, signals: &mut Signals) -> Answer {
        self.asked_us = Some(since_us);
        signals.put_back_last(Signal::Terminate);
        Answer::failed("the server ends".into(), 1)
    }

    /// Starts the program again, which serves in the place of this one, with what it reads. Returns
    /// why the server ends, if it does.
    fn upgrade(&mut self, signals: &mut Signals) -> Result<(Answer, Option<End>), String> {
        let refused = |why: &str| Ok((Answer::failed(why.into(), 1), None));
        let Some(program) = self.program.clone() else {
            return refused("the file of this program is not known");
        };
        if std::process::id() == 1 {
            return refused("the first process of a container cannot be followed: start it again");
        }
        let listeners = match self.server().listeners() {
            Ok(listeners) => listeners,
            Err(why) => return refused(&format!("cannot pass the listeners on: {why}")),
        };
        let (former, settings) = (self.former.clone(), self.server().interrupts());
        let launch = Arc::new(Launch::default());
        let launched = Arc::clone(&launch);
        let start = move || Successor::start(&program, &former, &listeners, &settings, &launched);
        let successor = match in_time(start, "upgrade", 0, signals)? {
            Outcome::Done(Ok(successor)) => successor,
            Outcome::Done(Err(Refusal { lines, status })) => {
                return Ok((Answer { lines, status }, None));
            }
            Outcome::ToStop(started, since_us) => {
                started.into_iter().for_each(Successor::end);
                return Ok((self.ends(since_us, signals), None));
            }
            Outcome::Late => {
                launch.cancel();
                return Ok((self.ends(os::clock::now(), signals), None));
            }
        };
        let (process, mut lines) = (successor.process(), vec![successor.description.clone()]);
        lines.extend(no_longer_changed(&self.changed));
        let settings = &self.config.settings;
        let limits = ready::limits(&settings.limits, &settings.timeouts);
        let passage = match successor.passage(self.server().open(), limits) {
            Ok(passage) => passage,
            Err(why) => return Err(format!("cannot start a thread: {why}")),
        };
        let heir = passage.as_ref().map(Passage::heir);
        self.server().leave_to(heir.as_ref());
        tell_service_manager(&format!("MAINPID={process}\nREADY=1"));
        self.control = None; // from now on there is the other's
        lines.push(format!("it is the process {process}"));
        let since_us = os::clock::now();
        Ok((Answer::done(lines), Some(End::Followed { since_us, passage })))
    }
}

/// Settings of which `more` come later: of each key the last, since that is the one that counts.
fn last_of_each_key(settings: &[String], more: &[String]) -> Vec<String> {
    fn key(setting: &str) -> &str {
        setting.split('=').next().unwrap_or_default().trim()
    }
    let mut last = settings.to_vec();
    for setting in more {
        last.retain(|former| key(former) != key(setting));
        last.push(setting.clone());
    }
    last
}

/// The line about settings that were changed until now.
fn no_longer_changed(settings: &[String]) -> Option<String> {
    (!settings.is_empty()).then(|| format!("no longer changed: {}", settings.join(", ")))
}

fn tell_service_manager(state: &str) {
    if let Err(why) = os::service_manager::notify(state) {
        report(&format!("cannot tell the service manager: {why}"));
    }
}

/// The next signal, or none after `timeout_ms`.
fn next(signals: &mut Signals, timeout_ms: u32) -> Result<Option<Signal>, String> {
    signals.next(timeout_ms).map_err(|why| format!("cannot wait for signals: {why}"))
}

fn reopen_log(server: &Server) {
    match server.log_reopener() {
        Some(log) => log.reopen(),
        None => report("SIGUSR1: there is no access log to reopen"),
    }
}

/// Whether a second signal has arrived. Waits a little.
fn is_cut_short(signals: &mut Signals) -> bool {
    const TURN_MS: u32 = 5;
    matches!(signals.next(TURN_MS), Ok(Some(signal)) if is_stop(signal))
}

fn is_stop(signal: Signal) -> bool {
    matches!(signal, Signal::Terminate | Signal::Interrupt | Signal::Quit)
}

fn describe(summary: Summary) -> String {
    let Summary { connections, requests, log_lines_dropped, aborted } = summary;
    let dropped = match log_lines_dropped {
        0 => String::new(),
        lines => format!(", {lines} log lines dropped"),
    };
    let cut = if aborted { ", connections cut off" } else { "" };
    format!("stopped after {requests} requests on {connections} connections{dropped}{cut}")
}
