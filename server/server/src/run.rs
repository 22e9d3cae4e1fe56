//! `ropewalk serve`: a server that is controlled by signals, and at its control socket.

use std::io;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use os::signals::Signal;

use crate::config::{Config, ConfigError};
use crate::control::{Answer, Asked, Control};
use crate::local::DESCRIPTORS_WIDENED;
use crate::report::{self, Reported, report};
use crate::server::{Server, Summary};
use crate::signals::Signals;
use crate::start_error::StartError;
use crate::stop_deadline::StopDeadline;

/// Arenas of the C library's allocator for all threads of a process. Requests that find their file
/// in the cache take no memory from it, so threads hardly ever wait for one another; and memory
/// that the entries of a small cache free can be reused by all threads.
pub(crate) const ALLOCATOR_ARENAS: u16 = 2;

/// How long a start may still take after a signal to stop. What it has begun is then stopped in
/// order; a start that hangs is left to the end of the process.
const START_END_US: u64 = 1_000_000;

/// Reads the configuration again, with these settings in addition: `engine.name=fibers`.
pub type Load<'l> = &'l dyn Fn(&[String]) -> Result<Config, ConfigError>;

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
pub fn run(config: &Config, load: Load<'_>, is_verbose: bool) -> Result<(), Reported> {
    os::memory::limit_allocator_arenas(ALLOCATOR_ARENAS);
    let failed = |what: &str, why: &io::Error| {
        report(&format!("{what}: {why}"));
        Reported
    };
    let mut signals = Signals::new().map_err(|why| failed("cannot receive signals", &why))?;
    // Without it all goes on, but for waits when many come at once.
    let _ = os::limits::raise_descriptor_limit()
        .and_then(|_| os::limits::widen_descriptor_table(DESCRIPTORS_WIDENED));
    // After the signals are blocked: the reporter's thread must not receive them.
    let reporter = report::begin().map_err(|why| failed("cannot start a thread", &why))?;
    let served = start(config, &mut signals).and_then(|started| match started {
        Started::ToServe(server) => serve(server, load, is_verbose, &mut signals),
        Started::ToStop(server) => Ok(server),
    });
    let mut deadline = match &served {
        Ok(_) => StopDeadline::new(1000 * config.settings.timeouts.drain_ms, || {
            is_cut_short(&mut signals)
        }),
        Err(_) => StopDeadline::passed(),
    };
    let stopped = served.and_then(|server| stop(server, config, &mut deadline));
    if let Err(why) = &stopped {
        report(why);
    }
    reporter.end(&mut deadline);
    stopped.map_err(|_| Reported)
}

/// A server that has started.
enum Started {
    ToServe(Server),
    /// A signal to stop has come meanwhile.
    ToStop(Server),
}

/// Starts a server.
fn start(config: &Config, signals: &mut Signals) -> Result<Started, String> {
    let config = config.clone();
    let (server, is_to_stop) = in_time(move || Server::start(&config), "start", signals)?;
    let server = server?;
    Ok(if is_to_stop { Started::ToStop(server) } else { Started::ToServe(server) })
}

/// Does something in a thread of its own: it may wait for a file system that does not answer, or
/// for a worker process that is never ready, and a signal must end it all the same. Other signals
/// are obeyed afterwards. Returns the outcome, and whether a signal to stop has come.
fn in_time<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
    what: &str,
    signals: &mut Signals,
) -> Result<(T, bool), String> {
    const TURN_MS: u32 = 2;
    let thread = thread::Builder::new().name(what.into()).spawn(act);
    let thread = thread.map_err(|why| format!("cannot start a thread: {why}"))?;
    let mut stop_by_us = None;
    let mut others = Vec::new();
    while !thread.is_finished() {
        match next(signals, TURN_MS)? {
            Some(signal) if is_stop(signal) => {
                stop_by_us.get_or_insert(os::clock::now() + START_END_US);
            }
            Some(signal) if !others.contains(&signal) => others.push(signal),
            _ => {}
        }
        if stop_by_us.is_some_and(|by| os::clock::now() >= by) {
            return Err(format!(
                "stopped before it served: the {what} still waits, for a file system or a worker \
                 process that does not answer"
            ));
        }
    }
    let outcome = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
    signals.put_back(others);
    Ok((outcome, stop_by_us.is_some()))
}

/// Serves until a signal to stop, or until a worker fails.
fn serve(
    server: Server,
    load: Load<'_>,
    is_verbose: bool,
    signals: &mut Signals,
) -> Result<Server, String> {
    report(server.description());
    server.hints().iter().for_each(|hint| report(hint));
    if is_verbose {
        server.explanations().iter().for_each(|line| report(line));
    }
    let control = Control::open(signals.wake()).and_then(|control| {
        let watched = signals.watch(control.as_fd());
        watched.map(|()| control).map_err(|why| format!("no control socket: {why}"))
    });
    let mut serving = Serving { server: Some(server), load, changed: Vec::new() };
    if let Err(why) = &control {
        report(why);
    }
    if let Some(why) = serving.wait_for_stop(control.ok().as_ref(), signals)? {
        report(&format!("a worker failed: {why}"));
    }
    Ok(serving.server.expect("no change is under way"))
}

fn stop(server: Server, config: &Config, deadline: &mut StopDeadline<'_>) -> Result<(), String> {
    let time = Duration::from_millis(config.settings.timeouts.drain_ms);
    report(&format!("stopping: connections have {} s to finish", time.as_secs_f64()));
    report(&describe(server.stop(deadline)?));
    Ok(())
}

/// A server that serves, and what it was told.
struct Serving<'l> {
    /// None while it changes.
    server: Option<Server>,
    load: Load<'l>,
    /// The settings that were changed since the configuration was read last.
    changed: Vec<String>,
}

impl Serving<'_> {
    fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("no change is under way")
    }

    /// Waits for a signal to stop, or for a worker to fail: then returns which worker, and why.
    fn wait_for_stop(
        &mut self,
        control: Option<&Control>,
        signals: &mut Signals,
    ) -> Result<Option<String>, String> {
        /// A failed worker, or one that sleeps on a file it should release, is noticed after this
        /// time.
        const LOOK_MS: u32 = 1000;
        loop {
            match next(signals, LOOK_MS)? {
                Some(signal) if is_stop(signal) => return Ok(None),
                Some(Signal::User1) => reopen_log(self.server()),
                Some(Signal::User2) => self.server().status().iter().for_each(|line| report(line)),
                Some(Signal::Hangup) => {
                    let Answer { lines, .. } = self.reload(signals)?;
                    lines.iter().for_each(|line| report(&format!("SIGHUP: {line}")));
                }
                _ => {}
            }
            control.into_iter().for_each(Control::accept);
            while let Some(request) = control.and_then(Control::next) {
                let answer = match &request.asked {
                    Asked::Status => Answer::done(self.server().status()),
                    Asked::Reload => self.reload(signals)?,
                    Asked::Change(more) => {
                        let settings = [&self.changed[..], more].concat();
                        self.change(settings, signals)?
                    }
                    Asked::Drain => {
                        request.answer(Answer::done(vec!["it stops".into()]));
                        return Ok(None);
                    }
                };
                request.answer(answer);
            }
            let server = self.server();
            server.take_notices().iter().for_each(|notice| report(notice));
            if let Some(why) = server.failure() {
                return Ok(Some(why.into()));
            }
            server.do_housekeeping();
        }
    }

    /// Reads the configuration again. What was changed since the last time is changed back.
    fn reload(&mut self, signals: &mut Signals) -> Result<Answer, String> {
        let forgotten = self.changed.clone();
        let mut answer = self.change(Vec::new(), signals)?;
        if answer.status == 0 && !forgotten.is_empty() {
            answer.lines.push(format!("no longer changed: {}", forgotten.join(", ")));
        }
        Ok(answer)
    }

    /// Changes to what is configured now, with these settings in addition.
    ///
    /// # Errors
    /// A signal to stop has come, and the change still waits.
    fn change(&mut self, settings: Vec<String>, signals: &mut Signals) -> Result<Answer, String> {
        let config = match (self.load)(&settings) {
            Ok(config) => config,
            Err(why) => return Ok(Answer::failed(why.to_string(), 2)),
        };
        let mut server = self.server.take().expect("no change is under way");
        let change = move || {
            let changed = server.change(&config);
            (server, changed)
        };
        let ((server, changed), is_to_stop) = in_time(change, "change", signals)?;
        if is_to_stop {
            signals.put_back_last(Signal::Terminate);
        }
        let answer = match changed {
            Ok(()) => {
                self.changed = settings;
                Answer::done(vec![server.description().into()])
            }
            Err(why @ StartError::Config(_)) => Answer::failed(why.to_string(), 2),
            Err(why) => Answer::failed(why.to_string(), 1),
        };
        self.server = Some(server);
        Ok(answer)
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
