//! `ropewalk serve`: a server that is controlled by signals.

use std::io;
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

/// Serves until SIGTERM, SIGINT or SIGQUIT; a second one of them cuts connections off and leaves
/// half a second each for what the logs have still to write. SIGUSR1 reopens the access log,
/// SIGUSR2 prints the status. A worker that fails and cannot be replaced stops the others as a
/// signal does: the remaining workers would look like a whole server and leave some clients waiting
/// for ever.
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
    let served = serve(config, is_verbose, &mut signals);
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

/// Serves until a signal to stop, or until a worker fails.
fn serve(config: &Config, is_verbose: bool, signals: &mut Signals) -> Result<Server, String> {
    let mut server = Server::start(config)?;
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
        let signal =
            signals.next(LOOK_MS).map_err(|why| format!("cannot wait for signals: {why}"))?;
        match signal {
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
