//! A worker process: it runs its share of the server, under orders of the supervisor.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use engines::{Engine, Heir, Order};
use os::epoll::{Epoll, EventBuffer, Interest};
use os::signals::{Signal, SignalDescriptor};
use site::host::HostSettings;

use super::{CHANGE, CHANGED, FAILED, LEAVE_TO_OTHERS, LEFT, Ledger, READY, Uplink};
use crate::access_log::LogTarget;
use crate::applications;
use crate::config::{Config, Settings, WorkerProgram};
use crate::helper_process;
use crate::layout::{Layout, Share};
use crate::local::{Assembled, CounterBook, DESCRIPTORS_WIDENED, Given, Local};
use crate::partitions::Machine;
use crate::passage::{Landing, Outlook, PAUSE_MS, Passage};
use crate::ready::{self, make_ready, next_site};
use crate::report::{self, report};
use crate::run::ALLOCATOR_ARENAS;
use crate::spawner;
use crate::stop_deadline::WORKERS_END_US;
use crate::worker_error::{WorkerError, take};

/// Runs a worker process until the supervisor ends it or has ended, or a helper process or the
/// spawner until the server has ended. The arguments come from the server, and are not typed by a
/// person.
///
/// # Errors
/// If there is no supervisor to tell it to: the process was not started by one, or it cannot begin.
pub fn run_worker(arguments: &[String]) -> Result<(), WorkerError> {
    os::memory::limit_allocator_arenas(ALLOCATOR_ARENAS);
    // If this fails, the kernel chooses a process to kill as it would have without it.
    let _ = os::oom::end_before_parent();
    match split_first(arguments) {
        Some((helper_process::NAME, more)) => return helper_process::run(more),
        Some((spawner::NAME, more)) => return spawner::run(more),
        _ => {}
    }
    // What a process of this one leaves must have no more say than this one: see control/mod.rs. It
    // is not reaped: engines start processes that start others only where this one ends if they do.
    let _ = os::programs::adopt_orphans();
    let task = Task::parse(arguments)?;
    report::hand_to_supervisor(Arc::clone(&task.uplink));
    let own = WorkerProgram::started_with(arguments);
    let mut control = task.control.try_clone()?;
    // Ctrl-C and a service manager may signal all processes; the supervisor tells what to do.
    let _blocked = SignalDescriptor::new(&Signal::ALL)?;
    if let Err(why) = serve(task, own) {
        // If the supervisor has gone, the reason is not needed.
        let _ = control.write_all(&[&[FAILED], why.as_bytes()].concat());
    }
    Ok(())
}

fn split_first(arguments: &[String]) -> Option<(&str, &[String])> {
    arguments.split_first().map(|(first, more)| (first.as_str(), more))
}

/// The task that the supervisor has given.
struct Task {
    place: usize,
    machine: Machine,
    control: UnixStream,
    configuration: OwnedFd,
    ledger: OwnedFd,
    uplink: Arc<Uplink>,
    passage: OwnedFd,
    /// The socket of the spawner, if a route leads to programs, and the sets of listeners.
    more: Vec<Vec<OwnedFd>>,
}

impl Task {
    fn parse(arguments: &[String]) -> Result<Self, WorkerError> {
        let wrong = WorkerError::Arguments;
        let too_few = || wrong("too few descriptors".into());
        let [place, machine, descriptors @ ..] = arguments else {
            return Err(wrong("too few arguments".into()));
        };
        let all = |numbers: &String| numbers.split(',').map(take).collect();
        let mut taken: Vec<Vec<OwnedFd>> =
            descriptors.iter().map(all).collect::<Result<_, WorkerError>>()?;
        const ALONE: usize = 5;
        if taken.len() < ALONE {
            return Err(too_few());
        }
        let more = taken.split_off(ALONE);
        let mut taken = taken.into_iter().flatten();
        let mut next = || taken.next().ok_or_else(too_few);
        Ok(Self {
            place: place.parse().map_err(|_| wrong(format!("{place:?} is no place")))?,
            machine: machine.parse().map_err(wrong)?,
            control: next()?.into(),
            configuration: next()?,
            ledger: next()?,
            uplink: Arc::new(Uplink::new(next()?)),
            passage: next()?,
            more,
        })
    }
}

/// Serves until the order to end.
fn serve(task: Task, own: WorkerProgram) -> Result<(), String> {
    let mut config = read_config(&task.configuration)?;
    config.worker_program = own;
    let settings = &config.settings;
    let mut ready = make_ready(&config, &task.machine)?;
    let all = Ledger::open(task.ledger.as_fd(), applications::finding_cells(&ready.site))
        .map_err(|why| format!("cannot map the counters: {why}"))?;
    applications::share_findings(&ready.site, all.findings());
    let unknown = || format!("there is no place {}", task.place);
    let ledger = all.place(task.place).ok_or_else(unknown)?;
    let share = ready.layout.shares.get(task.place).ok_or_else(unknown)?;
    let mut more = task.more.into_iter();
    let spawner = spawner::is_needed(settings).then(|| more.next()).flatten();
    let spawner = spawner.into_iter().flatten().next();
    let sets = place_sets(&ready.layout, share, more);
    let open = Arc::default();
    let given = Given {
        spawner,
        access_log: LogTarget::Supervisor {
            uplink: Arc::clone(&task.uplink),
            ledger,
            style: all.log_style(),
        },
        errors: all.error_budget(),
        open: Arc::clone(&open),
        caches: Vec::new(),
        forked_on: ready.layout.are_forked().then(|| task.machine.clone()),
    };
    let count = ready.descriptors.all().min(DESCRIPTORS_WIDENED);
    // If this fails the server still works, but waits when many connections arrive at once.
    let _ = os::limits::widen_descriptor_table(count);
    let counters = CounterBook::Shared(ledger);
    let assembled = Assembled::new(&config, &ready, share, sets, given, counters)?;
    let hosts = std::mem::take(&mut ready.hosts);
    drop(ready);
    let local = assembled.start()?;
    let limits = ready::limits(&settings.limits, &settings.timeouts);
    let travel = Travel {
        socket: task.passage,
        landing: Landing::new(limits, Arc::clone(&open)),
        open,
        onward: None,
        is_held_up: false,
        is_hurried: false,
    };
    let drain_ms = settings.timeouts.drain_ms;
    Controller::new(local, hosts, task.machine, task.control, travel, drain_ms)
        .map_err(|why| format!("cannot wait for orders: {why}"))
        .and_then(Controller::run)
}

fn read_config(text: &OwnedFd) -> Result<Config, String> {
    let text = os::shared_memory::read_text(text.as_fd())
        .map_err(|why| format!("cannot read the configuration: {why}"))?;
    Ok(Config::read_effective(&text)?)
}

/// Puts the sets of a share at their places in the layout.
fn place_sets(
    layout: &Layout,
    share: &Share,
    own: impl Iterator<Item = Vec<OwnedFd>>,
) -> Vec<Vec<OwnedFd>> {
    let mut sets: Vec<Vec<OwnedFd>> = layout.sets.iter().map(|_| Vec::new()).collect();
    let places = share.parts.iter().flat_map(|part| part.sets.clone());
    places.zip(own).for_each(|(place, set)| sets[place] = set);
    sets
}

/// The connections that come from other processes, and go to others.
struct Travel {
    socket: OwnedFd,
    landing: Landing,
    /// The number of connections that are open in this process.
    open: Arc<AtomicUsize>,
    /// The way of those that go; none as long as none does.
    onward: Option<Passage>,
    /// Whether there was no room for what may have come.
    is_held_up: bool,
    /// Whether connections at rest are to end: they are not waited for.
    is_hurried: bool,
}

impl Travel {
    /// Has the engine go on with the connections that have come, or others if it has ended.
    fn take_all(&mut self, engine: &dyn Engine) {
        let onward = self.onward.iter().map(Passage::heir);
        let heirs: Vec<_> = engine.heir().into_iter().chain(onward).collect();
        let outlook = self.landing.take_all(self.socket.as_fd(), &heirs);
        self.is_held_up = outlook == Outlook::NoRoom;
    }

    /// Whether the process may end: none waits to be taken, or to be sent.
    fn is_done(&self) -> bool {
        let is_empty = !self.is_held_up && self.onward.as_ref().is_none_or(Passage::is_empty);
        is_empty || self.is_hurried
    }

    /// Who takes the connections of the engine, which leaves.
    fn heir(&mut self) -> io::Result<Arc<dyn Heir>> {
        if self.onward.is_none() {
            let (sockets, open) = (vec![self.socket.try_clone()?], Arc::clone(&self.open));
            self.onward = Some(Passage::start(sockets, None, open, || ())?);
        }
        Ok(self.onward.as_ref().map(Passage::heir).expect("it was just made"))
    }
}

/// The keys of the socket on which orders come, and of that on which connections do.
const CONTROL_KEY: u64 = 0;
const TRAVEL_KEY: u64 = 1;

/// Controls the engine of this process, by orders of the supervisor.
struct Controller {
    local: Local,
    /// What the site was made from that its workers serve.
    hosts: Vec<HostSettings>,
    machine: Machine,
    control: UnixStream,
    travel: Travel,
    epoll: Epoll,
    drain_us: u64,
    /// When an engine that is ending gets the order to abort, if the supervisor sends none before.
    abort_at: Option<u64>,
    is_ending: bool,
    /// The orders to leave that were not answered yet.
    leaves_due: usize,
}

impl Controller {
    fn new(
        local: Local,
        hosts: Vec<HostSettings>,
        machine: Machine,
        control: UnixStream,
        travel: Travel,
        drain_ms: u64,
    ) -> io::Result<Self> {
        control.set_nonblocking(true)?;
        let epoll = Epoll::new()?;
        epoll.add(control.as_fd(), Interest::READ, CONTROL_KEY)?;
        // What there is no room for is looked at again without an event.
        epoll.add(travel.socket.as_fd(), Interest::READ | Interest::EDGE, TRAVEL_KEY)?;
        let (drain_us, abort_at) = (drain_ms * 1000, None);
        let (is_ending, leaves_due) = (false, 0);
        Ok(Self {
            local,
            hosts,
            machine,
            control,
            travel,
            epoll,
            drain_us,
            abort_at,
            is_ending,
            leaves_due,
        })
    }

    fn run(mut self) -> Result<(), String> {
        const LOOK_ENDING_MS: u32 = 5;
        let _ = self.control.write(&[READY]); // a dead supervisor is noticed below
        let mut events = EventBuffer::with_capacity(2);
        while !(self.is_ending && self.local.engine.is_finished() && self.travel.is_done()) {
            // A failed thread, or one that sleeps on a file it should release, is noticed after
            // this time.
            let check_interval_ms = self.local.engine.check_interval_ms();
            let timeout_ms = match self.is_ending {
                true => LOOK_ENDING_MS,
                false if self.travel.is_held_up => PAUSE_MS,
                false => check_interval_ms,
            };
            self.epoll
                .wait(&mut events, Some(timeout_ms))
                .map_err(|why| format!("cannot wait for orders: {why}"))?;
            // First the connections: those that were sent before an order are there before it.
            self.travel.take_all(&*self.local.engine);
            if events.iter().any(|event| event.key == CONTROL_KEY) {
                self.obey()?;
            }
            self.do_periodic_work();
            if self.is_given_up() {
                // Its threads end with the process.
                std::mem::forget(self.local.engine);
                return Err("workers still wait, probably for a file system".into());
            }
        }
        self.report_notices();
        self.travel.onward.into_iter().for_each(Passage::end);
        self.local.engine.join().map_err(|why| why.to_string())
    }

    /// Whether workers still wait long after the order to abort. The supervisor would end this
    /// process then, if it were there.
    fn is_given_up(&self) -> bool {
        self.abort_at.is_some_and(|at| at + WORKERS_END_US <= os::clock::now())
    }

    /// Passes the orders of the supervisor on to the engine. This is not the trait of the loops
    /// (`parts/loops/obey.rs` in `engines`): here orders are bytes on a socket, whose end means
    /// that the supervisor has gone, and the engine carries them out.
    ///
    /// # Errors
    /// Why this process cannot go on by another configuration: one that begins with it is to come
    /// in its place.
    fn obey(&mut self) -> Result<(), String> {
        let mut orders = [0; 16];
        match os::passing::receive_with(self.control.as_fd(), &mut orders) {
            Ok((0, _)) => self.end(),
            Ok((count, text)) => {
                orders[..count].iter().for_each(|order| self.carry_out(*order));
                if let Some(text) = text {
                    self.change(&text)?;
                }
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.end(),
        }
        Ok(())
    }

    /// Goes on by another configuration, whose text this is.
    fn change(&mut self, text: &OwnedFd) -> Result<(), String> {
        let config = read_config(text)?;
        let ready = make_ready(&config, &self.machine)?;
        let site = next_site(&config, &ready, (&self.hosts, &self.local.site()), None)?;
        self.local.take_over(&config, &ready, &site)?;
        self.hosts = ready.hosts;
        let Settings { limits, timeouts, .. } = &config.settings;
        let open = Arc::clone(&self.travel.open);
        self.travel.landing = Landing::new(ready::limits(limits, timeouts), open);
        self.drain_us = timeouts.drain_ms * 1000;
        let _ = self.control.write(&[CHANGED]); // the supervisor waits for it, or has gone
        Ok(())
    }

    fn carry_out(&mut self, byte: u8) {
        match Order::from_byte(byte) {
            None if byte == CHANGE => return,          // that comes with a text
            None if byte != LEAVE_TO_OTHERS => return, // a supervisor sends no others
            None => match self.travel.heir() {
                Ok(heir) => self.leave(Some(heir)),
                Err(why) => {
                    report(&format!("cannot pass connections on: {why}"));
                    self.leave(None);
                }
            },
            Some(Order::Leave) => self.leave(None),
            Some(order) => {
                self.travel.is_hurried |= order.is_to_end();
                self.local.engine.issue(order);
            }
        }
        self.is_ending |= Order::from_byte(byte).is_none_or(Order::is_to_end);
    }

    fn leave(&mut self, heir: Option<Arc<dyn Heir>>) {
        self.leaves_due += 1;
        self.local.engine.leave(heir);
    }

    /// Ends without an order, because the supervisor has gone, or because a thread has failed: the
    /// remaining threads would look like a whole server and leave some clients waiting for ever.
    fn end(&mut self) {
        // A closed socket is reported for ever.
        let _ = self.epoll.remove(self.control.as_fd());
        let _ = self.epoll.remove(self.travel.socket.as_fd());
        if self.abort_at.is_none() {
            self.abort_at = Some(os::clock::now() + self.drain_us);
            self.local.engine.issue(Order::StopAccepting);
            self.local.engine.issue(Order::Drain);
            self.is_ending = true;
            self.travel.is_hurried = true;
        }
    }

    fn do_periodic_work(&mut self) {
        if self.abort_at.is_some_and(|at| at <= os::clock::now()) {
            self.local.engine.issue(Order::Abort);
        }
        self.report_notices();
        if self.leaves_due > 0 && self.local.engine.has_left() {
            let answers = vec![LEFT; std::mem::take(&mut self.leaves_due)];
            let _ = self.control.write(&answers); // the supervisor waits for them, or has gone
        }
        if !self.is_ending && self.local.engine.failure().is_some() {
            self.end();
        }
        self.local.do_housekeeping();
    }

    fn report_notices(&self) {
        self.local.take_notices().iter().for_each(|notice| report(notice));
    }
}
