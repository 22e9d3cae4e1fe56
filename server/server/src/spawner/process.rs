//! The work of the spawner: to start programs, to pass on what they say on standard error, and to
//! leave nothing of them when they have ended or are not wanted any more.
//!
//! A program is not wanted any more when the worker has closed its end of the connection that is
//! the program's standard input and output. The spawner must learn that without keeping the
//! connection open itself: its end would not show while the spawner has a copy of the program's
//! descriptor. So it watches the descriptor for a hang-up, starts the program and closes its own
//! copy. An epoll set watches an open file and not a number: the file stays in it until the last
//! process has closed it (epoll(7), "Questions and answers"), which is the end of the reply and
//! ends the watch.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;

use os::epoll::{Epoll, EventBuffer, Interest};
use os::errors::Cause;
use os::signals::{Signal, SignalDescriptor};
use upstream::{Diagnostics, Refusal, ReportDiagnostic, START_BYTES_MAX, StartProgram};

use super::folders::Folders;
use super::groups::Groups;
use super::running::{self, Running};
use crate::config::Config;
use crate::error_log;
use crate::report::{self, report};
use crate::stop_deadline::{StopDeadline, WORKERS_END_US};
use crate::worker_error::{WorkerError, take};

/// Programs at a time, with those that have closed their output and go on: each takes two
/// descriptors here.
pub(super) const PROGRAMS_MAX: usize = 1024;

/// The limit of descriptors that programs start with.
const DESCRIPTORS_MAX: u64 = 4096;

/// How long all programs may take to end when the server has ended: a moment more than they have
/// before they are killed.
const END_US: u64 = 3_000_000;
const _: () = assert!(END_US + 1_000_000 < WORKERS_END_US);

/// How long processes may take to end after they were killed: a moment, however late that was.
const KILLED_US: u64 = 1_000_000;

const SOCKET: u64 = 0;
const SIGNALS: u64 = 1;

/// Runs a spawner until the server has ended. The arguments are the numbers of the inherited
/// descriptors.
pub(crate) fn run(arguments: &[String]) -> Result<(), WorkerError> {
    let [socket, configuration, groups] = arguments else {
        return Err(WorkerError::Arguments("too few descriptors".into()));
    };
    let (socket, configuration, groups) = (take(socket)?, take(configuration)?, take(groups)?);
    close_others();
    let signals = SignalDescriptor::new(&Signal::ALL)?;
    // Programs must not wait for a reader of standard error.
    let reporter = report::begin()?;
    let _ = os::limits::lower_descriptor_limit(DESCRIPTORS_MAX);
    let worked =
        SpawnerProcess::new(socket, &configuration, &groups, signals).and_then(SpawnerProcess::run);
    if let Err(why) = worked {
        report(&format!("spawner of CGI programs: {why}"));
    }
    reporter.end(&mut StopDeadline::passed());
    Ok(())
}

/// Closes what this process has inherited besides: of whatever has started the server, as listeners
/// that a service manager passes on. Programs would inherit it.
fn close_others() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers: Vec<RawFd> = numbers.collect();
    numbers.into_iter().for_each(|number| drop(os::inheritance::take(number)));
}

struct SpawnerProcess {
    socket: OwnedFd,
    signals: SignalDescriptor,
    epoll: Epoll,
    folders: Folders,
    /// The standard input of programs whose request has no body.
    nothing: File,
    log: ReportDiagnostic,
    /// What the server ends if this process dies.
    groups: Groups,
    /// By the number that the keys of their events are made of.
    programs: HashMap<u64, Running>,
    last_number: u64,
    buffer: Vec<u8>,
    /// When the spawner ends although not all programs have.
    end_at: Option<u64>,
}

impl SpawnerProcess {
    fn new(
        socket: OwnedFd,
        configuration: &OwnedFd,
        groups: &OwnedFd,
        signals: SignalDescriptor,
    ) -> Result<Self, String> {
        let configuration = os::shared_memory::read_text(configuration.as_fd())
            .map_err(|why| format!("cannot read the configuration: {why}"))?;
        let settings = Config::read_effective(&configuration)?.settings;
        let prepare = || {
            os::programs::adopt_orphans()?;
            let epoll = Epoll::new()?;
            epoll.add(socket.as_fd(), Interest::READ, SOCKET)?;
            epoll.add(signals.as_fd(), Interest::READ, SIGNALS)?;
            let groups = Groups::open(groups)?;
            Ok((epoll, error_log::Budget::new()?, File::open("/dev/null")?, groups))
        };
        let (epoll, budget, nothing, groups) =
            prepare().map_err(|why: io::Error| why.to_string())?;
        budget.set(settings.log.errors);
        Ok(Self {
            socket,
            signals,
            epoll,
            folders: Folders::new(&settings.hosts),
            nothing,
            groups,
            log: error_log::diagnostic_logger(budget),
            programs: HashMap::new(),
            last_number: 0,
            buffer: vec![0; START_BYTES_MAX],
            end_at: None,
        })
    }

    fn run(mut self) -> Result<(), String> {
        let mut events = EventBuffer::with_capacity(64);
        while !self.is_over() {
            let timeout_ms = self.timeout_ms();
            self.epoll.wait(&mut events, timeout_ms).map_err(|why| why.to_string())?;
            for event in events.iter() {
                match event.key {
                    SOCKET => self.take_messages(),
                    SIGNALS => self.take_signals(),
                    key if key % 2 == 0 => self.hung_up(key / 2),
                    key => self.read_errors(key / 2),
                }
            }
            self.end_due(os::clock::now());
        }
        Ok(())
    }

    /// Ends the programs whose time is over, and gives them time for it.
    fn end_due(&mut self, now: u64) {
        for program in self.programs.values_mut() {
            if program.end_if_due(now) {
                self.end_at = self.end_at.map(|at| at.max(now + KILLED_US));
            }
        }
    }

    /// Whether all programs have ended, or were killed and have had the time to end.
    fn is_over(&self) -> bool {
        let are_killed = || self.programs.values().all(|program| program.deadline().is_none());
        let is_late = |at| at <= os::clock::now() && are_killed();
        self.end_at.is_some_and(|at| self.programs.is_empty() || is_late(at))
    }

    fn timeout_ms(&self) -> Option<u32> {
        let programs = self.programs.values().filter_map(Running::deadline);
        let due = programs.chain(self.end_at).min()?;
        let us = due.saturating_sub(os::clock::now());
        Some(u32::try_from(us.div_ceil(1000)).unwrap_or(u32::MAX))
    }

    /// Starts the programs that workers want.
    fn take_messages(&mut self) {
        /// So many before the ends of programs are looked for again.
        const AT_ONCE: usize = 16;
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..AT_ONCE {
            match os::passing::receive_with(self.socket.as_fd(), &mut buffer) {
                Ok((0, _)) => {
                    self.end();
                    break;
                }
                Ok((len, Some(end))) => self.begin(&buffer[..len], &end),
                Ok((_, None)) => {}
                Err(_) => break, // nothing more is there
            }
        }
        self.buffer = buffer;
    }

    /// All workers have ended: no program is wanted any more.
    fn end(&mut self) {
        let _ = self.epoll.remove(self.socket.as_fd()); // a closed socket is reported for ever
        let now = os::clock::now();
        self.end_at = Some(now + END_US);
        self.programs.values_mut().for_each(|program| program.terminate(now));
    }

    /// Starts a program for a message, or else tells the worker why not.
    fn begin(&mut self, message: &[u8], end: &OwnedFd) {
        let Some(start) = StartProgram::decode(message) else { return };
        if let Err(refusal) = self.start(&start, end) {
            let _ = os::send::send(end.as_fd(), &[refusal.byte()], false); // it has room for a byte
        }
    }

    fn start(&mut self, start: &StartProgram<'_>, end: &OwnedFd) -> Result<(), Refusal> {
        let log = Arc::clone(&self.log);
        let tell = |line: &str| {
            let diagnostics = Diagnostics::new(running::NAME, start.target);
            diagnostics.report_line(line, |line| log(line));
        };
        let found = self.folders.find(start).inspect_err(|refusal| {
            if *refusal == Refusal::Forbidden {
                tell("403: it is no file that may be run");
            }
        })?;
        if self.programs.len() >= PROGRAMS_MAX {
            tell(&format!("502: {PROGRAMS_MAX} programs are running"));
            return Err(Refusal::Failed);
        }
        self.last_number += 1;
        let number = self.last_number;
        let watched = self.epoll.add(end.as_fd(), Interest::EDGE, 2 * number);
        let started = watched.and_then(|()| {
            let input = if start.has_body { end.as_fd() } else { self.nothing.as_fd() };
            Running::start(&found, start, input, end.as_fd())
        });
        let mut program = started.map_err(|why| {
            let (refusal, status) = match Cause::from_error(&why) {
                Cause::NoAccess => (Refusal::Forbidden, 403),
                _ => (Refusal::Failed, 502),
            };
            tell(&format!("{status}: {:?} is not started: {why}", found.path));
            refusal
        })?;
        // A number of a group that is used again is that of one which is over.
        self.forget(|other| other.id() == program.id());
        if let Some(errors) = &program.errors
            && self.epoll.add(errors.as_fd(), Interest::READ, 2 * number + 1).is_err()
        {
            program.terminate(os::clock::now()); // no memory for the watch
        }
        self.groups.add(program.id());
        self.programs.insert(number, program);
        Ok(())
    }

    /// A worker has closed its end of a connection.
    fn hung_up(&mut self, number: u64) {
        if let Some(program) = self.programs.get_mut(&number) {
            program.hung_up(os::clock::now());
        }
    }

    fn read_errors(&mut self, number: u64) {
        if let Some(program) = self.programs.get_mut(&number) {
            program.read_errors(&self.log);
        }
    }

    /// Those to end are for the server, which ends this process; another says that a child has
    /// ended.
    fn take_signals(&mut self) {
        while self.signals.read().is_some() {}
        self.reap();
    }

    /// Takes note of programs that have ended, and of the processes that they have left.
    fn reap(&mut self) {
        while let Ok(Some((id, ended))) = os::programs::reap() {
            let of_id = |program: &&mut Running| program.id() == id;
            if let Some(program) = self.programs.values_mut().find(of_id) {
                program.ended(ended, os::clock::now(), &self.log);
            }
        }
        self.forget(Running::is_over);
    }

    fn forget(&mut self, is_over: impl Fn(&Running) -> bool) {
        let groups = self.groups;
        self.programs.retain(|_, program| {
            let is_over = is_over(program);
            if is_over {
                groups.remove(program.id());
            }
            !is_over
        });
    }
}
