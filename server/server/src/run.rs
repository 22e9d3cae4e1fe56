//! `ropewalk serve`: a server that is controlled by signals.

use std::io;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use os::signals::Signal;

use crate::config::Config;
use crate::local::DESCRIPTORS_WIDENED;
use crate::report::{self, Reported, report};
use crate::server::{Server, Summary};
use crate::signals::Signals;
use crate::stop_deadline::StopDeadline;

/// Arenas of the C library's allocator for all threads of a process. Requests that find their file
/// in the cache take no memory from it, so threads hardly ever wait for one another; and memory
/// that the entries of a small cache free can be reused by all threads.
pub(crate) const ALLOCATOR_ARENAS: u16 = 2;

/// How long a start may still take after a signal to stop. What it has begun is then stopped in
/// order; a start that hangs is left to the end of the process.
const START_END_US: u64 = 1_000_000;

/// Serves until SIGTERM, SIGINT or SIGQUIT; a second one of them cuts connections off and leaves
/// some time for what hangs (stop_deadline.rs). SIGUSR1 reopens the access log, SIGUSR2 prints the
/// status. A worker that fails and cannot be replaced stops the others as a signal does: the
/// remaining workers would look like a whole server and leave some clients waiting for ever.
///
/// It reports where it serves and what a newcomer should know; with `is_verbose` also why the
/// engine was chosen, and which settings of interrupts were changed, as the status does in any
/// case.
///
/// # Errors
/// The server could not start, or it ended by itself. The reason has been reported.
pub fn run(config: &Config, is_verbose: bool) -> Result<(), Reported> {
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
        Started::ToServe(server) => serve(server, is_verbose, &mut signals),
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

/// Starts a server in a thread of its own: it may wait for a file system that does not answer, or
/// for a worker process that is never ready, and a signal must end it all the same. Other signals
/// are obeyed when it serves.
fn start(config: &Config, signals: &mut Signals) -> Result<Started, String> {
    const TURN_MS: u32 = 2;
    let config = config.clone();
    let thread = thread::Builder::new().name("start".into());
    let thread = thread.spawn(move || Server::start(&config));
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
            return Err("stopped before it served: the start still waits, for a file system or a \
                        worker process that does not answer"
                .into());
        }
    }
    let server = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
    signals.put_back(others);
    Ok(if stop_by_us.is_some() { Started::ToStop(server) } else { Started::ToServe(server) })
}

/// Serves until a signal to stop, or until a worker fails.
fn serve(mut server: Server, is_verbose: bool, signals: &mut Signals) -> Result<Server, String> {
    report(server.description());
    server.hints().iter().for_each(|hint| report(hint));
    if is_verbose {
        server.explanations().iter().for_each(|line| report(line));
    }
    if let Some(why) = wait_for_stop(&mut server, signals)? {
        report(&format!("a worker failed: {why}"));
    }
    Ok(server)
}

fn stop(server: Server, config: &Config, deadline: &mut StopDeadline<'_>) -> Result<(), String> {
    let time = Duration::from_millis(config.settings.timeouts.drain_ms);
    report(&format!("stopping: connections have {} s to finish", time.as_secs_f64()));
    report(&describe(server.stop(deadline)?));
    Ok(())
}

/// Waits for a signal to stop, or for a worker to fail: then returns which worker, and why.
fn wait_for_stop(server: &mut Server, signals: &mut Signals) -> Result<Option<String>, String> {
    /// A failed worker, or one that sleeps on a file it should release, is noticed after this time.
    const LOOK_MS: u32 = 1000;
    loop {
        match next(signals, LOOK_MS)? {
            Some(signal) if is_stop(signal) => return Ok(None),
            Some(Signal::User1) => reopen_log(server),
            Some(Signal::User2) => server.status().iter().for_each(|line| report(line)),
            Some(Signal::Hangup) => {
                report("SIGHUP: the configuration cannot be reloaded: restart instead");
            }
            _ => {}
        }
        server.take_notices().iter().for_each(|notice| report(notice));
        if let Some(why) = server.failure() {
            return Ok(Some(why.into()));
        }
        server.do_housekeeping();
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
