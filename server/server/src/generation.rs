//! The workers that were started together, for one configuration. A server has one such set that
//! accepts, and beside it, for a while after a change, former ones that leave.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engines::{Engine, Heir, Order};
use os::socket::shutdown_both;
use session::Counters;
use site::Site;
use site::host::HostSettings;
use upstream::Application;

use crate::access_log::{LogTarget, Routes, Style};
use crate::applications::{self, Lookout};
use crate::auto::{self, Choice, Resolved};
use crate::config::{
    CacheSettings, Config, LimitSettings, ListenerMode, LogSettings, Settings, TimeoutSettings,
};
use crate::error_log::{self, Budget};
use crate::interrupt_affinity::Place;
use crate::layout::{Layout, Share};
use crate::listeners::{Dealt, Listeners};
use crate::local::{Assembled, CounterBook, Given, Local};
use crate::partitions::{Allowance, Machine, Partition};
use crate::processes::{Ledger, Supervisor, Travels, WorkerCommand};
use crate::ready::{self, Descriptors, Ready, make_ready, next_site};
use crate::report;
use crate::services::{Renewal, Services};
use crate::spawner;
use crate::start_error::StartError;
use crate::start_line::start_line;
use crate::stop_deadline::WORKERS_END_US;
use crate::upgrade::Predecessor;
use crate::{names, reach, start_pages};

/// How long workers take at most to close connections at rest, unless they are held up.
const CLOSES_US: u64 = 50_000;

/// What stays while workers come and go.
pub(crate) struct Lasting {
    pub(crate) listeners: Listeners,
    pub(crate) services: Services,
    /// Services that only workers use which leave.
    pub(crate) former: Vec<Services>,
    /// How many generations have started.
    generations: u64,
    /// The number of connections that are open in the server's own process.
    pub(crate) open: Arc<AtomicUsize>,
    /// The budget of the error log, for workers in threads.
    pub(crate) errors: Budget,
    /// The settings of the machine that a predecessor has changed.
    pub(crate) interrupts: Vec<String>,
    /// The memory of worker processes that have ended, for others.
    ledgers: Vec<(OwnedFd, Ledger)>,
}

/// Workers that were started together.
pub(crate) struct Generation {
    /// Which one it is of the server.
    pub(crate) number: u64,
    workers: Workers,
    /// What they were started by and cannot change while they work.
    basis: Basis,
    served: Arc<Served>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether the listeners are shared with the program that has passed them on.
    are_shared: bool,
    /// What interrupts are to be steered to, if they are.
    pub(crate) places: Vec<Place>,
    engine_name: &'static str,
    /// How many connections each of its processes has room for, and whether the number was set.
    connections_most: usize,
    are_connections_set: bool,
    /// One line: what is served, where and how.
    pub(crate) description: String,
    /// Advice for the start.
    pub(crate) hints: Vec<String>,
    /// Why the engine was chosen, if by rule.
    pub(crate) reasons: Vec<String>,
    /// What it was chosen for, if by rule.
    pub(crate) chosen_for: Option<Allowance>,
    /// How long connections may take that cannot be moved when these workers leave.
    pub(crate) drain_us: u64,
    /// When those are cut off, if the workers leave.
    leaves_until: Option<u64>,
    /// What is seen of its connections if it is one of too many that leave.
    dwindling: Option<Dwindling>,
    /// When all connections were cut off.
    cut_off_us: Option<u64>,
}

/// What workers are started by and cannot change while they work.
#[derive(PartialEq)]
struct Basis {
    /// Without those that can.
    settings: Settings,
    partitions: Vec<Partition>,
    descriptors: Descriptors,
}

impl Basis {
    fn of(settings: &Settings, ready: &Ready) -> Self {
        let mut settings = settings.clone();
        settings.hosts.clear();
        settings.timeouts = TimeoutSettings::default();
        // Listings are among the descriptors.
        settings.limits = LimitSettings::default();
        settings.log = LogSettings::default();
        let descriptors = Descriptors { connections: 0, calls: 0, ..ready.descriptors };
        Self { settings, partitions: ready.partitions.clone(), descriptors }
    }
}

/// A site, and what goes with it: its applications have been given a spawner and an error log.
struct Served {
    hosts: Vec<HostSettings>,
    cache: CacheSettings,
    site: Arc<Site>,
    lookout: Arc<Lookout>,
}

/// The workers, in threads or processes.
enum Workers {
    /// Threads of this process.
    Threads(Box<Local>),
    /// Worker processes, and the ledger that they count in, with its file.
    Processes(Box<Supervisor>, Ledger, OwnedFd),
}

/// What is left of workers that have ended.
pub(crate) struct Ended {
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) log_lines_dropped: u64,
    /// The failure that ended a worker, or that workers wait and do not end.
    pub(crate) outcome: Result<(), String>,
    /// The ledger of worker processes, with its file.
    ledger: Option<(OwnedFd, Ledger)>,
}

/// Who takes connections that come from another process: the workers that accept.
#[derive(Clone, Default)]
pub(crate) struct Taker(Arc<Mutex<Taking>>);

#[derive(Default)]
struct Taking {
    heir: Option<Arc<dyn Heir>>,
    /// The socket at which connections come; none if none come any more.
    passage: Option<OwnedFd>,
}

impl Taker {
    /// Without an heir no more come: the other process keeps them.
    pub(crate) fn set(&self, heir: Option<Arc<dyn Heir>>) {
        let mut taking = self.taking();
        taking.heir = heir;
        if taking.heir.is_none()
            && let Some(passage) = taking.passage.take()
        {
            let _ = shutdown_both(passage.as_fd());
        }
    }

    /// Has connections come at this socket, of which this is a copy.
    pub(crate) fn open(&self, passage: OwnedFd) {
        self.taking().passage = Some(passage);
    }

    pub(crate) fn get(&self) -> Option<Arc<dyn Heir>> {
        self.taking().heir.clone()
    }

    fn taking(&self) -> MutexGuard<'_, Taking> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lasting {
    /// What a server begins with; with the listeners of its predecessor if it has one.
    pub(crate) fn new(predecessor: Option<&Predecessor>) -> Result<Self, StartError> {
        let (listeners, interrupts) = match predecessor {
            Some(predecessor) => predecessor
                .legacy()
                .and_then(|it| Ok((Listeners::take_over(it.listeners)?, it.settings)))
                .map_err(StartError::system("follow the former server"))?,
            None => (Listeners::inherit()?, Vec::new()),
        };
        let errors = Budget::new().map_err(StartError::system("begin the error log"))?;
        let (services, open) = (Services::default(), Arc::default());
        let (former, generations, ledgers) = (Vec::new(), 0, Vec::new());
        Ok(Self { listeners, services, former, generations, open, errors, interrupts, ledgers })
    }
}

/// A configuration, and what it comes to on this machine.
pub(crate) struct Prepared {
    machine: Machine,
    config: Config,
    choice: Option<Choice>,
    ready: Ready,
}

impl Prepared {
    /// # Errors
    /// Why nothing can be served so.
    pub(crate) fn new(config: &Config) -> Result<Self, StartError> {
        let machine = Machine::inspect();
        let Resolved { config, choice } = auto::resolve(config, &machine);
        let ready = make_ready(&config, &machine)?;
        if let Some(warning) = ready.descriptors.warning(machine.descriptors_max) {
            report(&warning);
        }
        ready.without_effect.iter().for_each(|line| report(line));
        spawner::check_folders(&config.settings)
            .map_err(StartError::system("use a directory of CGI programs"))?;
        Ok(Self { machine, config, choice, ready })
    }
}

impl Generation {
    /// Whether the workers can change to a configuration while they work.
    pub(crate) fn can_take_over(&self, prepared: &Prepared, services: &Services) -> bool {
        let Prepared { config, ready, .. } = prepared;
        self.basis == Basis::of(&config.settings, ready)
            // Helper processes have a copy of the site.
            && ready.descriptors.helpers == 0
            && services.has_spawner_of(&config.settings)
            && self.has_room_for(&config.settings.limits, ready)
            && self.can_call_all_of(&ready.site)
    }

    /// Whether as many connections as are configured can be open. Without a number it is as many as
    /// there are descriptors for, of which the workers were started with some more or less.
    fn has_room_for(&self, limits: &LimitSettings, ready: &Ready) -> bool {
        let connections = ready.descriptors.connections;
        match limits.connections_max {
            // Each process that was forked has its share.
            _ if ready.layout.are_forked() => connections == self.connections_most,
            None if !self.are_connections_set => true,
            _ => connections <= self.connections_most,
        }
    }

    /// Whether the workers can call the applications of another site.
    fn can_call_all_of(&self, site: &Site) -> bool {
        let former = &self.served.site;
        match self.workers {
            // For the first application they would need loops or threads that call it.
            Workers::Threads(_) => {
                site.applications().is_empty() == former.applications().is_empty()
                    && site.can_follow(former)
            }
            // What is found out about applications has its place in the memory that they share.
            Workers::Processes(..) => site.has_applications_of(former),
        }
    }

    /// Has the workers change to a configuration while they work: they answer whatever request
    /// comes after this by it, and finish what they have begun by the former one.
    ///
    /// # Errors
    /// What could not be opened. Nothing has changed then.
    pub(crate) fn take_over(
        &mut self,
        prepared: Prepared,
        lasting: &mut Lasting,
    ) -> Result<(), StartError> {
        let renewal = lasting.services.renew(&prepared.config)?;
        lasting.services.lead_to(&renewal);
        match self.go_on_by(prepared, lasting.errors) {
            Ok(()) => lasting.replace_log(renewal),
            Err(why) => {
                lasting.services.lead_back(&renewal);
                renewal.end();
                return Err(why);
            }
        }
        Ok(())
    }

    /// Tells the workers, and keeps what they are told. The log is the caller's.
    fn go_on_by(&mut self, prepared: Prepared, errors: Budget) -> Result<(), StartError> {
        let Prepared { machine, config, choice, mut ready } = prepared;
        let settings = &config.settings;
        let former = &self.served;
        let site = next_site(&config, &ready, (&former.hosts, &former.site), None)?;
        let lookout = match site.has_applications_of(&former.site) {
            true => Arc::clone(&former.lookout),
            false => look_out(&site, Some(&former.site), self.errors(errors))?,
        };
        match &mut self.workers {
            Workers::Threads(local) => local.take_over(&config, &ready, &site)?,
            Workers::Processes(supervisor, ledger, _) => {
                engines::jobs::check_roots(&site).map_err(StartError::Root)?;
                let text = os::shared_memory::create_text(&config.show());
                let text = text.map_err(StartError::system("tell worker processes"))?;
                ledger.log_style().set(Style::of(&settings.log));
                supervisor.change(text);
            }
        }
        self.errors(errors).set(settings.log.errors);
        let (hosts, cache) = (ready.hosts.clone(), settings.cache.clone());
        self.served = Arc::new(Served { hosts, cache, site, lookout });
        ready.layout.exclusive_wakeups |= wakes_one(settings, self.are_shared);
        self.description = start_line(settings, &ready, &self.addresses);
        let reasons = choice.as_ref().map(|choice| {
            choice.reasons(settings, &ready.layout, ready.sendfile, self.are_shared).into()
        });
        self.reasons = reasons.unwrap_or_default();
        self.chosen_for = choice.map(|_| machine.allowance());
        self.drain_us = 1000 * settings.timeouts.drain_ms;
        Ok(())
    }

    /// The budget of the error log for its workers; `own` is that of this process.
    fn errors(&self, own: Budget) -> Budget {
        match &self.workers {
            Workers::Threads(_) => own,
            Workers::Processes(_, ledger, _) => ledger.error_budget(),
        }
    }

    /// Starts workers, which accept when this returns. `former` are those that accept now.
    ///
    /// # Errors
    /// What could not be opened or started. Nothing has changed then.
    pub(crate) fn start(
        prepared: Prepared,
        lasting: &mut Lasting,
        former: Option<&Self>,
    ) -> Result<Self, StartError> {
        let Prepared { machine, config, choice, mut ready } = prepared;
        let settings = &config.settings;
        let renewal = lasting.services.renew(&config)?;
        if former.is_none() {
            lasting.errors.set(settings.log.errors);
        }
        let start = Start { config: &config, machine: &machine, choice: choice.as_ref(), former };
        match start.workers(&mut ready, lasting, &renewal) {
            Err(why) => {
                lasting.listeners.give_back();
                renewal.end();
                Err(why)
            }
            Ok(mut generation) => {
                generation.issue(Order::Begin);
                generation.number = lasting.settle(settings, renewal);
                Ok(generation)
            }
        }
    }
}

impl Lasting {
    /// Keeps what ended workers leave to others, whose counts were taken.
    pub(crate) fn keep(&mut self, ended: Ended) {
        self.ledgers.extend(ended.ledger);
    }

    /// Has workers that stay write another log, if it is another. Those that leave have lines of
    /// the former form to their end.
    fn replace_log(&mut self, renewal: Renewal) {
        let former = self.services.replace_log(renewal);
        let last_user = if former.has_late_lines() { self.generations - 1 } else { 0 };
        self.retire(former, last_user);
    }

    /// Keeps services until the last workers that use them have ended, if there are any.
    fn retire(&mut self, mut former: Services, last_user: u64) {
        former.last_user = last_user;
        if !former.is_empty() {
            self.former.push(former);
        }
    }

    /// Has workers that have started get their clients, and these services. Returns their number.
    fn settle(&mut self, settings: &Settings, renewal: Renewal) -> u64 {
        let (closed, refused) = self.listeners.settle(settings.socket.listeners);
        closed.iter().for_each(|at| report(&format!("no longer listening at {at}")));
        refused.iter().for_each(|why| report(&why.to_string()));
        self.errors.set(settings.log.errors);
        let former = self.services.replace(renewal);
        self.retire(former, self.generations);
        self.generations += 1;
        self.generations
    }
}

/// What workers are started by.
struct Start<'s> {
    config: &'s Config,
    machine: &'s Machine,
    choice: Option<&'s Choice>,
    /// Those that accept now.
    former: Option<&'s Generation>,
}

impl Start<'_> {
    fn workers(
        &self,
        ready: &mut Ready,
        lasting: &mut Lasting,
        renewal: &Renewal,
    ) -> Result<Generation, StartError> {
        let settings = &self.config.settings;
        let spawner = renewal.to_spawner(&lasting.services)?;
        let dealt = lasting.listeners.deal(self.config, &ready.layout.sets)?;
        let are_shared = dealt.are_shared;
        ready.layout.exclusive_wakeups |= wakes_one(settings, are_shared);
        let reasons = self.choice.map(|choice| {
            choice.reasons(settings, &ready.layout, ready.sendfile, are_shared).into()
        });
        let (addresses, description) =
            (dealt.addresses.clone(), start_line(settings, ready, &dealt.addresses));
        let hints = hints(ready, &dealt);
        let places = match settings.partitions.set_irq_affinity {
            true => places_of(settings, ready, &addresses),
            false => Vec::new(),
        };
        let Lasting { services, open, errors, ledgers, .. } = lasting;
        let routes = renewal.routes(services);
        let keeps_spawner = renewal.keeps_spawner();
        let given = ToWorkers { routes, spawner, keeps_spawner, open, errors: *errors, ledgers };
        let (workers, served) = match ready.layout.processes {
            None => self.threads(ready, dealt, given)?,
            Some(_) => self.processes(ready, &dealt, given)?,
        };
        Ok(Generation {
            number: 0, // until they accept
            workers,
            basis: Basis::of(settings, ready),
            served,
            addresses,
            are_shared,
            places,
            engine_name: ready.engine.spec.name,
            connections_most: ready.descriptors.connections,
            are_connections_set: settings.limits.connections_max.is_some(),
            description,
            hints,
            reasons: reasons.unwrap_or_default(),
            chosen_for: self.choice.map(|_| self.machine.allowance()),
            drain_us: 1000 * settings.timeouts.drain_ms,
            leaves_until: None,
            dwindling: None,
            cut_off_us: None,
        })
    }
}

impl Generation {
    pub(crate) fn site(&self) -> &Site {
        &self.served.site
    }

    /// Who takes the connections of former workers.
    pub(crate) fn heir(&mut self) -> Option<Arc<dyn Heir>> {
        self.engine().heir()
    }

    /// Has the workers leave, in favour of others that accept already.
    pub(crate) fn leave(&mut self, heir: Option<Arc<dyn Heir>>) {
        self.leaves_until.get_or_insert(os::clock::now() + self.drain_us);
        self.engine().leave(heir);
    }

    /// Has the workers keep no file open that they do not send: they leave, and what has come in
    /// their place needs descriptors of this process.
    pub(crate) fn keep_no_files(&mut self, heirs: &Self) {
        if let Workers::Threads(local) = &mut self.workers {
            let kept = match &heirs.workers {
                Workers::Threads(heirs) => heirs.caches(),
                Workers::Processes(..) => Vec::new(),
            };
            local.keep_no_files(&kept);
        }
    }

    /// Whether the workers, which leave, accept no more.
    pub(crate) fn has_left(&mut self) -> bool {
        self.engine().has_left()
    }

    /// Issues an order to all workers.
    pub(crate) fn issue(&mut self, order: Order) {
        if order == Order::Abort {
            self.cut_off_us.get_or_insert(os::clock::now());
        }
        self.engine().issue(order);
    }

    /// Whether workers that leave, or were ordered to end, have ended. Those that leave are cut off
    /// when their time is over.
    pub(crate) fn has_ended(&mut self) -> bool {
        let now = os::clock::now();
        let is_late = self.leaves_until.is_some_and(|until| until <= now);
        if is_late && !self.is_cut_off() && !self.engine().is_finished() {
            // Connections at rest are closed, and are no loss.
            self.issue(Order::Drain);
            if !ends_until(self.engine(), now + CLOSES_US) {
                self.cut_off();
            }
        }
        self.engine().is_finished()
    }

    /// Has workers that leave end before their time once none of their connections has gone for so
    /// long. To be called now and then.
    pub(crate) fn leave_when_stuck(&mut self, us: u64) {
        let (open, now) = (self.open(), os::clock::now());
        let dwindling = self.dwindling.get_or_insert(Dwindling { fewest: open, since_us: now });
        if dwindling.has_stopped(open, now, us) {
            self.leaves_until = self.leaves_until.map(|until| until.min(now));
        }
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off_us.is_some()
    }

    /// Whether they should have ended long ago.
    pub(crate) fn hangs(&self) -> bool {
        self.cut_off_us.is_some_and(|since_us| since_us + WORKERS_END_US <= os::clock::now())
    }

    fn cut_off(&mut self) {
        report(&format!(
            "{} connections of {} could not be moved in time and are cut off",
            self.open(),
            self.engine_name
        ));
        self.issue(Order::Abort);
    }

    /// The number of connections that its workers have.
    fn open(&self) -> u64 {
        let open = self.counters();
        open.iter().map(|it| it.connections_open.get()).fold(0, u64::wrapping_add)
    }

    /// One line about workers that leave: how many connections they still have.
    pub(crate) fn left(&self) -> String {
        format!("former workers of {}: {} connections open", self.engine_name, self.open())
    }

    /// The counters of all workers that there have been.
    pub(crate) fn counters(&self) -> Vec<Arc<Counters>> {
        match &self.workers {
            Workers::Threads(local) => local.counters.all(),
            Workers::Processes(_, ledger, _) => ledger.counters(),
        }
    }

    /// The ids of the worker processes; none if they are threads of this process.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.workers {
            Workers::Threads(_) => Vec::new(),
            Workers::Processes(supervisor, ..) => supervisor.pids(),
        }
    }

    /// Which worker has ended by a failure, and why.
    pub(crate) fn failure(&self) -> Option<&str> {
        match &self.workers {
            Workers::Threads(local) => local.engine.failure(),
            Workers::Processes(supervisor, ..) => supervisor.failure(),
        }
    }

    /// Takes the failures that were handled since the last call; worker processes report their own.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        match &self.workers {
            Workers::Threads(local) => local.take_notices(),
            Workers::Processes(..) => Vec::new(),
        }
    }

    /// The engine's internal state, in lines.
    pub(crate) fn engine_status(&self) -> Vec<String> {
        match &self.workers {
            Workers::Threads(local) => local.engine.status(),
            Workers::Processes(..) => Vec::new(),
        }
    }

    pub(crate) fn do_housekeeping(&mut self) {
        if let Workers::Threads(local) = &mut self.workers {
            local.do_housekeeping();
        }
    }

    fn engine(&mut self) -> &mut dyn Engine {
        match &mut self.workers {
            Workers::Threads(local) => &mut *local.engine,
            Workers::Processes(supervisor, ..) => &mut **supervisor,
        }
    }

    /// Waits for the end of all workers after the order to end, but not beyond `until_us`. Workers
    /// that do not end are left as they are.
    pub(crate) fn end(mut self, until_us: u64) -> Ended {
        let have_ended = ends_until(self.engine(), until_us);
        match self.workers {
            Workers::Threads(local) => Ended {
                outcome: join(local.engine, have_ended),
                counters: local.counters.all(),
                log_lines_dropped: 0,
                ledger: None,
            },
            Workers::Processes(supervisor, ledger, file) => {
                let outcome = join(supervisor, have_ended);
                report_left_out(ledger.error_budget());
                Ended {
                    outcome,
                    counters: ledger.counters(),
                    log_lines_dropped: ledger.lines_dropped(),
                    ledger: have_ended.then_some((file, ledger)),
                }
            }
        }
    }
}

/// Says how many lines of the error log were left out after its last one.
pub(crate) fn report_left_out(errors: Budget) {
    match errors.take_left_out() {
        0 => {}
        count => report(&format!("{count} lines of the error log were left out at the end")),
    }
}

/// What has been started of a generation.
type Started = (Workers, Arc<Served>);

/// What lasts, as workers are given it.
struct ToWorkers<'l> {
    routes: Arc<Routes>,
    spawner: Option<OwnedFd>,
    /// Whether it is that of the former workers.
    keeps_spawner: bool,
    open: &'l Arc<AtomicUsize>,
    errors: Budget,
    /// The memory of worker processes that have ended.
    ledgers: &'l mut Vec<(OwnedFd, Ledger)>,
}

impl Start<'_> {
    /// Starts workers in threads of this process. They go on with the site and the caches of the
    /// former ones if the hosts are the same, and what was given to their applications.
    fn threads(
        &self,
        ready: &mut Ready,
        dealt: Dealt,
        given: ToWorkers<'_>,
    ) -> Result<Started, StartError> {
        let share = ready.layout.shares.first();
        let share = share.expect("there is a partition, and this process is to serve it").clone();
        let ToWorkers { routes, spawner, keeps_spawner, open, errors, .. } = given;
        let mut caches = Vec::new();
        let settings = &self.config.settings;
        let is_same =
            |served: &Served| served.hosts == ready.hosts && served.cache == settings.cache;
        let same = self.former.filter(|it| keeps_spawner && is_same(&it.served));
        let served = match same.map(|it| (&it.workers, &it.served)) {
            Some((Workers::Threads(local), served)) => {
                caches = local.caches();
                ready.site = Arc::clone(&served.site);
                Arc::clone(served)
            }
            _ => served(self.config, ready, errors)?,
        };
        let (access_log, open) = (LogTarget::Writer(routes), Arc::clone(open));
        let given = Given { access_log, errors, spawner, open, caches, forked_on: None };
        let counters = CounterBook::default();
        let assembled = Assembled::new(self.config, ready, &share, dealt.sets, given, counters)?;
        Ok((Workers::Threads(Box::new(assembled.start()?)), served))
    }

    fn processes(
        &self,
        ready: &Ready,
        dealt: &Dealt,
        given: ToWorkers<'_>,
    ) -> Result<Started, StartError> {
        let failed = StartError::system("make what worker processes share");
        let (places, findings) =
            (ready.layout.shares.len(), applications::finding_cells(&ready.site));
        let (file, ledger) = ledger(given.ledgers, places, findings).map_err(&failed)?;
        applications::share_findings(&ready.site, ledger.findings());
        let settings = &self.config.settings;
        ledger.log_style().set(Style::of(&settings.log));
        ledger.error_budget().set(settings.log.errors);
        let travels = Travels {
            are_taken: ready.engine.spec.moves.are_taken(),
            limits: ready::limits(&settings.limits, &settings.timeouts),
            open: Arc::clone(given.open),
        };
        let start = || {
            let served = served(self.config, ready, ledger.error_budget())?;
            let command = self.worker_command(&file, given.spawner).map_err(&failed)?;
            let listeners = of_shares(&ready.layout, dealt).map_err(&failed)?;
            Ok((Supervisor::start(command, ledger, given.routes, listeners, travels)?, served))
        };
        match start() {
            Ok((supervisor, served)) => {
                Ok((Workers::Processes(Box::new(supervisor), ledger, file), served))
            }
            Err(why) => {
                given.ledgers.push((file, ledger));
                Err(why)
            }
        }
    }

    fn worker_command(
        &self,
        ledger: &OwnedFd,
        spawner: Option<OwnedFd>,
    ) -> io::Result<WorkerCommand> {
        Ok(WorkerCommand {
            program: self.config.worker_program.clone(),
            machine: self.machine.to_string(),
            configuration: os::shared_memory::create_text(&self.config.show())?,
            ledger: ledger.try_clone()?,
            spawner,
        })
    }
}

/// How connections become fewer.
struct Dwindling {
    fewest: u64,
    /// Since when there have been no fewer.
    since_us: u64,
}

impl Dwindling {
    /// Whether there have been no fewer for so long.
    fn has_stopped(&mut self, open: u64, now_us: u64, us: u64) -> bool {
        if open < self.fewest {
            *self = Self { fewest: open, since_us: now_us };
        }
        self.since_us + us <= now_us
    }
}

/// Whether an arrival wakes one worker because listeners are shared.
fn wakes_one(settings: &Settings, are_shared: bool) -> bool {
    are_shared && settings.socket.listeners == ListenerMode::Auto
}

/// A ledger that is used again if there is one: memory that a thread may still read stays mapped.
fn ledger(
    ended: &mut Vec<(OwnedFd, Ledger)>,
    places: usize,
    finding_cells: usize,
) -> io::Result<(OwnedFd, Ledger)> {
    let is_alike = |(_, ledger): &(OwnedFd, Ledger)| ledger.is_alike(places, finding_cells);
    match ended.iter().position(is_alike) {
        Some(index) => {
            let (file, ledger) = ended.swap_remove(index);
            ledger.clear();
            Ok((file, ledger))
        }
        None => Ledger::create(places, finding_cells),
    }
}

/// What workers are to serve, with all that is known of its applications at the start.
fn served(config: &Config, ready: &Ready, errors: Budget) -> Result<Arc<Served>, StartError> {
    let lookout = look_out(&ready.site, None, errors)?;
    let (hosts, site) = (ready.hosts.clone(), Arc::clone(&ready.site));
    let cache = config.settings.cache.clone();
    Ok(Arc::new(Served { hosts, cache, site, lookout }))
}

/// Looks up the names of those applications of a site that the `former` one has not, and begins to
/// find out more about all.
fn look_out(
    site: &Site,
    former: Option<&Site>,
    errors: Budget,
) -> Result<Arc<Lookout>, StartError> {
    let is_new = |it: &&Arc<Application>| former.is_none_or(|site| !site.has_application(it));
    let new: Vec<_> = site.applications().iter().filter(is_new).cloned().collect();
    names::look_up(&new).iter().for_each(|notice| report(notice));
    let lookout = Lookout::begin(site, error_log::line_logger(errors));
    let failed = StartError::system("start a thread that looks after applications");
    lookout.map(Arc::new).map_err(failed)
}

/// Whether all workers end in time.
fn ends_until(engine: &dyn Engine, until_us: u64) -> bool {
    const TURN: Duration = Duration::from_millis(5);
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
fn places_of(settings: &Settings, ready: &Ready, all: &[SocketAddr]) -> Vec<Place> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_go_one_by_one_are_given_time() {
        let mut dwindling = Dwindling { fewest: 10, since_us: 100 };
        let mut stops = |open, now_us| dwindling.has_stopped(open, now_us, 50);
        assert!(!stops(10, 149));
        assert!(!stops(9, 149));
        assert!(!stops(9, 198));
        assert!(!stops(8, 199), "one has gone just now");
        assert!(!stops(9, 248), "and one has come");
        assert!(stops(8, 249));
    }
}
