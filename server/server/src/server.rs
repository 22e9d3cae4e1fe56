//! A running server: start it, get its addresses, stop it. There are no signals here, so that a
//! test can have several servers.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use engines::{Engine, Order};
use session::{Counter, Counters};
use site::Site;

use crate::access_log::{Log, Reopener};
use crate::applications::{self, Lookout};
use crate::auto::{self, Resolved};
use crate::config::{Config, ListenerMode, Settings};
use crate::error_log::{self, Budget};
use crate::interrupt_affinity::{InterruptAffinity, Place};
use crate::layout::{Layout, Share};
use crate::listeners::{Dealt, Listeners};
use crate::local::{CounterBook, Given, Local};
use crate::partitions::{Machine, Partition};
use crate::processes::{Ledger, Supervisor, WorkerCommand};
use crate::ready::{Ready, make_ready};
use crate::report;
use crate::spawner::{self, Spawner};
use crate::start_error::StartError;
use crate::start_line::start_line;
use crate::stop_deadline::{StopDeadline, WORKERS_END_US};
use crate::{names, reach, start_pages};

/// A server that runs until it is stopped.
pub struct Server {
    workers: WorkerSet,
    addresses: Vec<SocketAddr>,
    description: String,
    /// Advice for the start.
    hints: Vec<String>,
    /// Why the engine was chosen, if by rule.
    reasons: Vec<String>,
    /// The settings of the machine that it has changed, until it ends.
    interrupts: InterruptAffinity,
    spawner: Option<Spawner>,
    site: Arc<Site>,
    listeners: Listeners,
    _lookout: Lookout,
}

/// The workers, in threads or processes.
enum WorkerSet {
    /// Threads of this process.
    Threads { local: Local, errors: Budget, log: Option<Log> },
    /// Worker processes, and the ledger that they count in.
    Processes { supervisor: Box<Supervisor>, ledger: Ledger, log: Option<Log> },
}

/// What a server did while it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Connections accepted.
    pub connections: u64,
    /// Responses that were finished or broken off.
    pub requests: u64,
    /// Access log lines that could not be written.
    pub log_lines_dropped: u64,
    /// Whether connections had to be cut off.
    pub aborted: bool,
}

impl Server {
    /// Opens everything that the configuration names and starts to serve. When this returns,
    /// clients can connect.
    ///
    /// # Errors
    /// What could not be opened or started. Everything that was opened is closed then.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let machine = Machine::inspect();
        let Resolved { config, choice } = auto::resolve(config, &machine);
        let settings = &config.settings;
        let mut ready = make_ready(&config, &machine)?;
        if let Some(warning) = ready.descriptors.warning(machine.descriptors_max) {
            report(&warning);
        }
        ready.without_effect.iter().for_each(|line| report(line));
        spawner::check_folders(settings)
            .map_err(StartError::system("use a directory of CGI programs"))?;
        // First, so that it has nothing of what the server opens.
        let failed = StartError::system("start the spawner of CGI programs");
        let spawner = Spawner::start(&config).map_err(&failed)?;
        let to_spawner = spawner.as_ref().map(Spawner::sender).transpose().map_err(&failed)?;
        let mut listeners = Listeners::inherit()?;
        let dealt = listeners.deal(&config, &ready.layout.sets)?;
        let inherited = dealt.are_shared && settings.socket.listeners == ListenerMode::Auto;
        ready.layout.exclusive_wakeups |= inherited;
        let reasons = choice.map(|choice| {
            choice.reasons(settings, &ready.layout, ready.sendfile, dealt.are_shared).into()
        });
        let reasons = reasons.unwrap_or_default();
        let description = start_line(settings, &ready, &dealt.addresses);
        let hints = hints(&ready, &dealt);
        let addresses = dealt.addresses.clone();
        let (workers, lookout) = match ready.layout.processes {
            None => WorkerSet::start_threads(&config, &ready, dealt, to_spawner)?,
            Some(_) => WorkerSet::start_processes(&config, &ready, &machine, &dealt, to_spawner)?,
        };
        listeners.settle(settings.socket.listeners)?;
        let interrupts = match settings.partitions.set_irq_affinity {
            true => InterruptAffinity::set(&places(settings, &ready, &addresses)),
            false => InterruptAffinity::default(),
        };
        Ok(Self {
            workers,
            addresses,
            description,
            hints,
            reasons,
            interrupts,
            spawner,
            site: ready.site,
            listeners,
            _lookout: lookout,
        })
    }

    /// The addresses that the server listens at.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// One line: what is served, where and how.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Advice for the start, a line each: how other machines could connect if they cannot, and what
    /// to do about hosts with nothing at `/`.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Why the engine was chosen, if by rule: a line each about partitions, engine, and files; then
    /// the changes to the interrupt settings of the machine, and the changes that failed.
    #[must_use]
    pub fn explanations(&self) -> Vec<String> {
        let reasons = self.reasons.iter().map(|reason| format!("auto: {reason}"));
        reasons.chain(self.interrupts.lines()).collect()
    }

    /// The state of the server, in lines: what is served, where and how, why so, and the counts.
    #[must_use]
    pub fn status(&self) -> Vec<String> {
        let counters = self.counters();
        let sum = |counter: fn(&Counters) -> &Counter| {
            counters.iter().map(|counters| counter(counters).get()).fold(0, u64::wrapping_add)
        };
        let mut lines = vec![self.description.clone()];
        lines.extend(self.explanations());
        lines.push(format!(
            "{} connections open, {} accepted, {} evicted, {} expired; accepting paused {} times",
            sum(|c| &c.connections_open),
            sum(|c| &c.connections_accepted),
            sum(|c| &c.connections_evicted),
            sum(|c| &c.connections_expired),
            sum(|c| &c.accept_pauses),
        ));
        lines.push(format!(
            "{} requests, {} body bytes; {} cache hits, {} misses, {} bodies cut short",
            sum(|c| &c.requests),
            sum(|c| &c.body_bytes),
            sum(|c| &c.cache_hits),
            sum(|c| &c.cache_misses),
            sum(|c| &c.bodies_cut_short),
        ));
        lines.push(format!(
            "{} jobs handed out, {} sends that would have waited for the disk",
            sum(|c| &c.jobs_handed_out),
            sum(|c| &c.cold_sends),
        ));
        lines.extend(applications::status(&self.site, &counters));
        if let WorkerSet::Threads { local, .. } = &self.workers {
            lines.extend(local.engine.status());
        }
        lines
    }

    /// The counters of all workers that the server has had.
    #[must_use]
    pub fn counters(&self) -> Vec<Arc<Counters>> {
        self.workers.counters()
    }

    /// The ids of the current worker processes; none if the server's own process does the work.
    #[must_use]
    pub fn worker_processes(&self) -> Vec<u32> {
        match &self.workers {
            WorkerSet::Threads { .. } => Vec::new(),
            WorkerSet::Processes { supervisor, .. } => supervisor.pids(),
        }
    }

    /// A handle that reopens the access log, if there is one.
    #[must_use]
    pub fn log_reopener(&self) -> Option<Reopener> {
        let (WorkerSet::Threads { log, .. } | WorkerSet::Processes { log, .. }) = &self.workers;
        log.as_ref().map(Log::reopener)
    }

    /// Which worker has ended by a failure, and why; none while all is well. The others serve on
    /// until they are stopped.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match &self.workers {
            WorkerSet::Threads { local, .. } => local.engine.failure(),
            WorkerSet::Processes { supervisor, .. } => supervisor.failure(),
        }
    }

    /// Takes the failures that were handled since the last call, a line each.
    #[must_use]
    pub fn take_notices(&self) -> Vec<String> {
        match &self.workers {
            WorkerSet::Threads { local, .. } => local.take_notices(),
            WorkerSet::Processes { .. } => Vec::new(), // worker processes report their own
        }
    }

    /// Starts another spawner of CGI programs if it has died, closes files that are no longer
    /// requested, and wakes workers if an entry has left the cache
    /// since the last call: a worker that sleeps may still have its file open. Call it about once a
    /// second.
    pub fn do_housekeeping(&mut self) {
        if let Some(spawner) = &mut self.spawner {
            spawner.replace_if_ended();
        }
        if let WorkerSet::Threads { local, .. } = &mut self.workers {
            local.do_housekeeping();
        }
    }

    /// Stops accepting, lets responses finish for at most `drain`, and cuts off the rest.
    ///
    /// # Errors
    /// The failure that ended a worker, or that workers wait and do not end.
    pub fn stop_gracefully(self, drain: Duration) -> Result<Summary, String> {
        /// Short enough to delay no caller, long enough to cost nothing.
        const TURN: Duration = Duration::from_millis(5);
        let us = u64::try_from(drain.as_micros()).unwrap_or(u64::MAX);
        self.stop(&mut StopDeadline::new(us, || {
            std::thread::sleep(TURN);
            false
        }))
    }

    /// Stops accepting, lets responses finish until the `deadline`, and cuts off the rest. The
    /// errors are those of [`Self::stop_gracefully`].
    pub(crate) fn stop(mut self, deadline: &mut StopDeadline<'_>) -> Result<Summary, String> {
        // The workers close their copies when they have taken in whoever waits.
        self.listeners.close();
        let engine = self.workers.engine();
        engine.issue(Order::StopAccepting);
        engine.issue(Order::Drain);
        let mut aborted = false;
        while !engine.is_finished() {
            if deadline.has_passed() {
                engine.issue(Order::Abort);
                aborted = true;
                break;
            }
        }
        self.take_notices().iter().for_each(|notice| report(notice)); // there is no later call
        let summary = self.workers.end(aborted, deadline);
        if let Some(spawner) = self.spawner {
            spawner.end();
        }
        summary
    }
}

impl WorkerSet {
    fn start_threads(
        config: &Config,
        ready: &Ready,
        dealt: Dealt,
        spawner: Option<OwnedFd>,
    ) -> Result<(Self, Lookout), StartError> {
        let log = Log::open(&config.settings.log)?;
        let share = ready
            .layout
            .shares
            .first()
            .expect("there is a partition, and this process is to serve it");
        let counters = CounterBook::default();
        let errors = Budget::new().map_err(StartError::system("begin the error log"))?;
        let given = Given { access_log: log.as_ref().map(Log::ends), errors, spawner };
        let lookout = look_out(config, ready, errors)?;
        let local = Local::start(config, ready, share, dealt.sets, given, counters)?;
        Ok((Self::Threads { local, errors, log }, lookout))
    }

    fn start_processes(
        config: &Config,
        ready: &Ready,
        machine: &Machine,
        dealt: &Dealt,
        spawner: Option<OwnedFd>,
    ) -> Result<(Self, Lookout), StartError> {
        let failed = StartError::system("make what worker processes share");
        let log = Log::open(&config.settings.log)?;
        let queue = log.as_ref().map(Log::queue);
        let layout = &ready.layout;
        let finding_cells = applications::finding_cells(&ready.site);
        let (file, ledger) = Ledger::create(layout.shares.len(), finding_cells).map_err(&failed)?;
        applications::share_findings(&ready.site, ledger.findings());
        let lookout = look_out(config, ready, ledger.error_budget())?;
        let worker_command = WorkerCommand {
            program: config.worker_program.clone(),
            machine: machine.to_string(),
            configuration: os::shared_memory::create_text(&config.show()).map_err(&failed)?,
            ledger: file,
            spawner,
        };
        let listeners = of_shares(layout, dealt).map_err(&failed)?;
        let supervisor = Box::new(Supervisor::start(worker_command, ledger, queue, listeners)?);
        Ok((Self::Processes { supervisor, ledger, log }, lookout))
    }

    fn engine(&mut self) -> &mut dyn Engine {
        match self {
            Self::Threads { local, .. } => &mut *local.engine,
            Self::Processes { supervisor, .. } => &mut **supervisor,
        }
    }

    fn counters(&self) -> Vec<Arc<Counters>> {
        match self {
            Self::Threads { local, .. } => local.counters.all(),
            Self::Processes { ledger, .. } => ledger.counters(),
        }
    }

    /// Waits for the end of all workers after the order to end, and sums up their counters. Workers
    /// that do not end are left as they are. The log is waited for until the deadline.
    fn end(mut self, aborted: bool, deadline: &mut StopDeadline<'_>) -> Result<Summary, String> {
        let have_ended = ends_soon(self.engine());
        let (joined, counters, dropped, errors, log) = match self {
            Self::Threads { local, errors, log } => {
                (join(local.engine, have_ended), local.counters.all(), 0, errors, log)
            }
            Self::Processes { supervisor, ledger, log } => {
                let joined = join(supervisor, have_ended);
                (joined, ledger.counters(), ledger.lines_dropped(), ledger.error_budget(), log)
            }
        };
        match errors.take_left_out() {
            0 => {}
            count => report(&format!("{count} lines of the error log were left out at the end")),
        }
        let log_lines_dropped = dropped + log.map_or(0, |log| log.close(deadline).dropped);
        let sum = |counter: fn(&Counters) -> u64| counters.iter().map(|c| counter(c)).sum();
        let summary = Summary {
            connections: sum(|counters| counters.connections_accepted.get()),
            requests: sum(|counters| counters.requests.get()),
            log_lines_dropped,
            aborted,
        };
        joined.map(|()| summary)
    }
}

/// Looks the names of applications up, and begins to find out more.
fn look_out(config: &Config, ready: &Ready, errors: Budget) -> Result<Lookout, StartError> {
    names::look_up(&ready.site).iter().for_each(|notice| report(notice));
    let report = error_log::line_logger(config.settings.log.errors, errors);
    Lookout::begin(&ready.site, report)
        .map_err(StartError::system("start a thread that looks after applications"))
}

/// Whether all workers end within the time that they have for it.
fn ends_soon(engine: &dyn Engine) -> bool {
    const TURN: Duration = Duration::from_millis(5);
    let until_us = os::clock::now() + WORKERS_END_US;
    loop {
        match engine.is_finished() {
            true => return true,
            false if os::clock::now() >= until_us => return false,
            false => std::thread::sleep(TURN),
        }
    }
}

/// Joins the workers of an engine. Those that have not ended stay as they are, with all that they
/// use, until the process ends.
fn join(engine: Box<dyn Engine>, have_ended: bool) -> Result<(), String> {
    if !have_ended {
        std::mem::forget(engine);
        return Err(format!(
            "workers still wait {} s after connections were cut off, probably for a file system \
             that does not answer: the server ends without them",
            WORKERS_END_US / 1_000_000
        ));
    }
    engine.join().map_err(|why| format!("a worker failed: {why}"))
}

/// Copies the sets of listeners of each process.
fn of_shares(layout: &Layout, dealt: &Dealt) -> io::Result<Vec<Vec<Vec<OwnedFd>>>> {
    let copies = |set: usize| dealt.sets[set].iter().map(OwnedFd::try_clone).collect();
    let of_share =
        |share: &Share| share.parts.iter().flat_map(|part| part.sets.clone()).map(copies).collect();
    layout.shares.iter().map(of_share).collect()
}

/// The CPUs of each partition and the addresses where it listens.
fn places(settings: &Settings, ready: &Ready, all: &[SocketAddr]) -> Vec<Place> {
    let own = &settings.partitions.listen;
    let place = |(index, partition): (usize, &Partition)| {
        let addresses: Vec<IpAddr> = match own.get(index) {
            Some(list) => {
                let sockets = list.iter().flat_map(|address| address.socket_addresses());
                sockets.map(|address| address.ip()).collect()
            }
            None => all.iter().map(SocketAddr::ip).collect(),
        };
        (partition.cpus.clone(), addresses)
    };
    ready.partitions.iter().enumerate().map(place).collect()
}

fn hints(ready: &Ready, dealt: &Dealt) -> Vec<String> {
    // The program that passes sockets on decides where they listen.
    let reach = match dealt.are_inherited {
        true => None,
        false => reach::hint(&dealt.addresses),
    };
    reach.into_iter().chain(start_pages::missing(&ready.site)).collect()
}
