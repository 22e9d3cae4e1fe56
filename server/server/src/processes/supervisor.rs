//! The supervisor: an engine whose workers are processes. It passes on the orders that the engine
//! gets, and replaces processes that die.
//!
//! It holds the listeners of all processes open, so that connections that wait at a listener whose
//! process has died are served by the next process. It gives up when the process of one place dies
//! again and again.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::resume_unwind;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engines::{Engine, Failures, Heir, Order, Orders, Replacement};
use os::epoll::{Epoll, EventBuffer, Interest};
use os::event::Wake;
use session::Limits;

use super::place::{Process, WorkerCommand};
use super::uplink::{self, Downlink, Message};
use super::{LEAVE_TO_OTHERS, Ledger};
use crate::access_log::Routes;
use crate::line_writer::count_lines;
use crate::passage::{self, Landing, Outlook, PAUSE_MS, Passage};
use crate::report;
use crate::start_error::StartError;
use crate::stop_deadline::WORKERS_END_US;

/// How long a worker process may take to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// How long processes may take to end after the order to close all connections, before they are
/// killed: soon enough for the supervisor to see their end.
const ABORT_TIMEOUT_US: u64 = 5_000_000;
const _: () = assert!(ABORT_TIMEOUT_US + 1_000_000 < WORKERS_END_US);

/// The log lines and reports of a place that are passed on before the others have their turn.
const MESSAGES_AT_A_TIME: usize = 64;

/// The event key of the wake-up call, which no place has.
const WAKE_KEY: u64 = u64::MAX;

/// The first event key of the sockets on which places send log lines and reports, above the keys of
/// places.
const DOWNLINK_KEYS: u64 = 1 << 32;

/// The first event key of the sockets by which connections come from places.
const PASSAGE_KEYS: u64 = 2 << 32;

/// An engine in worker processes.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    /// The way of connections to the processes; none if they take none.
    passage: Option<Passage>,
}

fn not_serving(number: usize, why: String) -> StartError {
    StartError::WorkerProcess { number, why }
}

/// State that the supervisor's thread shares with the engine: orders, and what is reported back.
struct Shared {
    orders: Orders,
    wake: Wake,
    failure: OnceLock<String>,
    /// Whether no process accepts any more, after the last order to leave; under the lock of the
    /// heirs.
    has_left: AtomicBool,
    /// Whether no connection is on its way to the processes any more.
    is_passage_over: AtomicBool,
    heirs: Mutex<Heirs>,
    /// A configuration that the processes are to go on by.
    change: Mutex<Option<Change>>,
    /// The process ids of all places that have a process.
    pids: Mutex<Vec<u32>>,
}

/// A change to another configuration.
struct Change {
    text: OwnedFd,
    /// Who waits until all processes go by it.
    changed: mpsc::SyncSender<()>,
}

/// Who takes the connections of the processes after the order to leave.
#[derive(Default)]
struct Heirs {
    /// The last one. Those that are on their way go there even if there is none any more.
    last: Option<Arc<dyn Heir>>,
    /// Whether there is one now.
    is_there: bool,
}

/// What a supervisor needs for connections that come and go.
pub(crate) struct Travels {
    /// Whether the processes take connections of others.
    pub(crate) are_taken: bool,
    pub(crate) limits: Limits,
    /// The number of connections that are open in this process.
    pub(crate) open: Arc<AtomicUsize>,
}

impl Supervisor {
    /// Starts a process for each list of sets of listeners and waits until all are ready. Lines of
    /// the access log go by `routes`.
    ///
    /// # Errors
    /// Which process cannot be started, or why it does not serve. No process is left then.
    pub(crate) fn start(
        worker_command: WorkerCommand,
        ledger: Ledger,
        routes: Arc<Routes>,
        listeners: Vec<Vec<Vec<OwnedFd>>>,
        travels: Travels,
    ) -> Result<Self, StartError> {
        let failed = StartError::system("supervise");
        let shared = Arc::new(Shared::new().map_err(&failed)?);
        let places: io::Result<Vec<Place>> = listeners.into_iter().map(Place::new).collect();
        let places = places.map_err(&failed)?;
        let passage = passage(&places, &travels, &shared).map_err(&failed)?;
        shared.is_passage_over.store(passage.is_none(), Ordering::Relaxed);
        let mut supervisor = SupervisorThread {
            worker_command,
            ledger,
            routes,
            lines: Vec::new(),
            places,
            landing: Landing::new(travels.limits, travels.open),
            shared: Arc::clone(&shared),
            epoll: Epoll::new().map_err(&failed)?,
            has_begun: false,
            is_stopping: false,
            told_heir: None,
            is_draining: false,
            abort_until: None,
            changing: None,
        };
        let (started, outcome) = mpsc::sync_channel(1);
        let begin = move || match supervisor.start_all() {
            Ok(()) => {
                let _ = started.send(Ok(())); // its receiver waits
                supervisor.run();
            }
            Err(why) => {
                supervisor.end_all();
                supervisor.pass_all_on();
                let _ = started.send(Err(why));
            }
        };
        // Before the processes, which may fork as many as the user may have.
        let thread = thread::Builder::new().name("supervisor".into());
        let thread = thread.spawn(begin).map_err(&failed)?;
        match outcome.recv() {
            Ok(outcome) => outcome.map(|()| Self { shared, thread, passage }),
            Err(_) => {
                resume_unwind(thread.join().expect_err("a thread without an outcome panicked"))
            }
        }
    }

    /// Has all processes go on by another configuration, whose text this is, and waits until they
    /// do. A process that does not is replaced by one that begins with it.
    pub(crate) fn change(&self, text: OwnedFd) {
        /// The thread may end meanwhile.
        const LOOK: Duration = Duration::from_millis(100);
        let (changed, have_changed) = mpsc::sync_channel(1);
        *self.shared.lock_change() = Some(Change { text, changed });
        self.shared.wake.notify();
        while have_changed.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout)
            && !self.thread.is_finished()
        {}
    }

    /// The ids of the current processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.shared.lock_pids().clone()
    }
}

impl Engine for Supervisor {
    fn issue(&mut self, order: Order) {
        self.shared.orders.issue(order);
        self.shared.wake.notify();
    }

    fn heir(&self) -> Option<Arc<dyn Heir>> {
        self.passage.as_ref().map(Passage::heir)
    }

    /// First the connections that are on their way come to the processes, which then leave.
    fn leave(&mut self, heir: Option<Arc<dyn Heir>>) {
        self.passage.iter().for_each(Passage::close);
        self.shared.set_heir(heir);
        self.issue(Order::Leave);
    }

    fn has_left(&self) -> bool {
        self.shared.has_left.load(Ordering::Acquire) || self.is_finished()
    }

    /// Does nothing: each worker process does its own housekeeping.
    fn do_housekeeping(&self) {}

    fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    fn join(self: Box<Self>) -> io::Result<()> {
        self.passage.into_iter().for_each(Passage::end);
        self.thread.join().map_err(|_| io::Error::other("the supervisor panicked"))?;
        self.shared.failure.get().map_or(Ok(()), |why| Err(io::Error::other(why.clone())))
    }
}

impl Shared {
    fn new() -> io::Result<Self> {
        Ok(Self {
            orders: Orders::default(),
            wake: Wake::new()?,
            failure: OnceLock::new(),
            has_left: AtomicBool::new(false),
            is_passage_over: AtomicBool::new(false),
            heirs: Mutex::default(),
            change: Mutex::default(),
            pids: Mutex::default(),
        })
    }

    fn set_heir(&self, heir: Option<Arc<dyn Heir>>) {
        let mut heirs = self.heirs();
        self.has_left.store(false, Ordering::Release);
        heirs.is_there = heir.is_some();
        heirs.last = heir.or(heirs.last.take());
    }

    fn heirs(&self) -> MutexGuard<'_, Heirs> {
        self.heirs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_change(&self) -> MutexGuard<'_, Option<Change>> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_pids(&self) -> MutexGuard<'_, Vec<u32>> {
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of connections to the processes of these places, if they take any.
fn passage(
    places: &[Place],
    travels: &Travels,
    shared: &Arc<Shared>,
) -> io::Result<Option<Passage>> {
    if !travels.are_taken {
        return Ok(None);
    }
    let sockets =
        places.iter().map(|place| place.passage.try_clone()).collect::<io::Result<_>>()?;
    let shared = Arc::clone(shared);
    let over = move || {
        shared.is_passage_over.store(true, Ordering::Release);
        shared.wake.notify();
    };
    Passage::start(sockets, None, Arc::clone(&travels.open), over).map(Some)
}

/// A place with its current process.
struct Place {
    /// The sets of listeners of its processes.
    listeners: Vec<Vec<OwnedFd>>,
    /// The socket from which log lines and reports of its processes are read, and the end that the
    /// processes inherit.
    downlink: Downlink,
    uplink: OwnedFd,
    /// The socket by which connections come and go, and the end that the processes inherit.
    passage: OwnedFd,
    inner_passage: OwnedFd,
    /// Whether there was no room for what may have come.
    is_held_up: bool,
    process: Option<Process>,
    deaths: Failures,
}

impl Place {
    fn new(listeners: Vec<Vec<OwnedFd>>) -> io::Result<Self> {
        let (downlink, uplink) = uplink::pair()?;
        let (passage, inner_passage) = passage::pair()?;
        let (process, deaths) = (None, Failures::default());
        Ok(Self {
            listeners,
            downlink,
            uplink,
            passage,
            inner_passage,
            is_held_up: false,
            process,
            deaths,
        })
    }
}

/// The supervisor's thread.
struct SupervisorThread {
    worker_command: WorkerCommand,
    ledger: Ledger,
    routes: Arc<Routes>,
    /// A buffer of lines on their way to the log.
    lines: Vec<u8>,
    places: Vec<Place>,
    landing: Landing,
    shared: Arc<Shared>,
    epoll: Epoll,
    /// Whether the processes accept.
    has_begun: bool,
    is_stopping: bool,
    /// Whether the processes were told that an heir takes their connections; none before they
    /// leave.
    told_heir: Option<bool>,
    is_draining: bool,
    /// Until when processes may take to end after the order to close everything.
    abort_until: Option<u64>,
    /// Who waits until all processes go by another configuration, and when those are killed that
    /// do not.
    changing: Option<(mpsc::SyncSender<()>, u64)>,
}

impl SupervisorThread {
    fn start_all(&mut self) -> Result<(), StartError> {
        let failed = StartError::system("supervise");
        self.epoll.add(self.shared.wake.as_fd(), Interest::READ, WAKE_KEY).map_err(&failed)?;
        for index in 0..self.places.len() {
            let Place { downlink, passage, .. } = &self.places[index];
            // What there is no room for is looked at again without an event.
            let edge = Interest::READ | Interest::EDGE;
            let watched = [
                (downlink.as_fd(), Interest::READ, DOWNLINK_KEYS),
                (passage.as_fd(), edge, PASSAGE_KEYS),
            ];
            for (socket, interest, keys) in watched {
                self.epoll.add(socket, interest, keys + index as u64).map_err(&failed)?;
            }
            self.start_one(index).map_err(|why| not_serving(index, why))?;
        }
        for (index, place) in self.places.iter_mut().enumerate() {
            let process = place.process.iter_mut().next();
            let ready = process.map_or(Ok(()), |process| process.wait_ready(START_TIMEOUT));
            ready.map_err(|why| not_serving(index, why))?;
        }
        Ok(())
    }

    /// Starts the process of a place; the error says what failed.
    fn start_one(&mut self, index: usize) -> Result<(), String> {
        let failed = |why: io::Error| format!("it cannot be started: {why}");
        let place = &mut self.places[index];
        if let Some(ledger) = self.ledger.place(index) {
            ledger.begin_anew();
        }
        let mut process = self
            .worker_command
            .start(index, &place.uplink, &place.inner_passage, &place.listeners)
            .map_err(failed)?;
        if self.has_begun {
            process.send(Order::Begin.byte());
        }
        let watched =
            self.epoll.add(process.control.as_fd(), Interest::READ, index as u64).map_err(failed);
        place.process = Some(process);
        self.publish_pids();
        watched
    }

    fn publish_pids(&self) {
        let processes = self.places.iter().filter_map(|place| place.process.as_ref());
        *self.shared.lock_pids() = processes.map(Process::pid).collect();
    }

    /// Kills all processes after a start that failed.
    fn end_all(&mut self) {
        let processes = self.places.iter_mut().filter_map(|place| place.process.take());
        processes.for_each(Process::kill_and_wait);
    }

    /// Supervises the processes until all of them have ended.
    fn run(mut self) {
        let mut events = EventBuffer::with_capacity(64);
        while self.is_needed() {
            if let Err(why) = self.epoll.wait(&mut events, Some(self.timeout_ms())) {
                let _ = self.shared.failure.set(format!("the supervisor cannot wait: {why}"));
                return self.end_all();
            }
            for event in (0..events.len()).filter_map(|index| events.get(index)) {
                match event.key {
                    WAKE_KEY => self.shared.wake.clear(),
                    key if key >= PASSAGE_KEYS => self.take_from((key - PASSAGE_KEYS) as usize),
                    key if key >= DOWNLINK_KEYS => {
                        self.pass_on((key - DOWNLINK_KEYS) as usize, MESSAGES_AT_A_TIME);
                    }
                    place => self.receive(place as usize),
                }
            }
            self.take_what_was_held_up();
            self.pass_on_orders();
            self.note_left();
            self.begin_change();
            (0..self.places.len()).for_each(|index| self.replace_if_ended(index));
            self.note_changed();
        }
        self.pass_all_on();
    }

    /// Whether there is a process, or a connection of one that waits to be taken. Connections at
    /// rest, as those are, are closed after the order to end.
    fn is_needed(&self) -> bool {
        let is_over = self.is_draining || self.abort_until.is_some();
        let is_needed = |it: &Place| it.process.is_some() || it.is_held_up && !is_over;
        self.places.iter().any(is_needed)
    }

    fn take_what_was_held_up(&mut self) {
        let held_up = |index: &usize| self.places[*index].is_held_up;
        let held_up: Vec<usize> = (0..self.places.len()).filter(held_up).collect();
        held_up.into_iter().for_each(|index| self.take_from(index));
    }

    /// Tells the processes of another configuration; those that begin from now on begin with it.
    fn begin_change(&mut self) {
        let Some(Change { text, changed }) = self.shared.lock_change().take() else { return };
        self.processes().for_each(|process| process.change(&text));
        self.worker_command.configuration = text;
        let until = os::clock::now() + START_TIMEOUT.as_micros() as u64;
        self.changing = Some((changed, until));
    }

    /// Says so when all processes go by the last configuration.
    fn note_changed(&mut self) {
        let Some((_, until)) = &self.changing else { return };
        let is_late = *until <= os::clock::now();
        let mut waits = false;
        for process in self.processes().filter(|process| !process.has_changed()) {
            waits = true;
            if is_late {
                process.kill();
            }
        }
        if !waits && let Some((changed, _)) = self.changing.take() {
            let _ = changed.send(()); // its receiver waits
        }
    }

    /// Passes on the last messages and connections of all places.
    fn pass_all_on(&mut self) {
        (0..self.places.len()).for_each(|index| {
            self.pass_on(index, usize::MAX);
            self.take_from(index);
        });
    }

    /// Gives connections of a place's processes, which leave, to others. This does not block.
    fn take_from(&mut self, index: usize) {
        let Some(place) = self.places.get_mut(index) else { return };
        let heir = self.shared.heirs().last.clone();
        let outlook = self.landing.take_all(place.passage.as_fd(), heir.as_slice());
        place.is_held_up = outlook == Outlook::NoRoom;
    }

    /// Passes on log lines and reports that the processes of a place have sent, so many messages at
    /// most. This does not block.
    fn pass_on(&mut self, index: usize, count: usize) {
        let Some(place) = self.places.get_mut(index) else { return };
        for _ in 0..count {
            let Some(message) = place.downlink.next() else { return };
            match message {
                Message::Report(message) => report(message),
                Message::AccessLines(form, lines) => {
                    self.lines.extend_from_slice(lines);
                    self.routes.hand_over(form, &mut self.lines, count_lines(lines));
                }
            }
        }
    }

    /// The time until processes are checked again. A process whose socket has closed is about to
    /// end, so that is soon. A process that has forked others may end before its socket closes.
    fn timeout_ms(&self) -> u32 {
        const USUALLY: u32 = 250;
        const SOON: u32 = 2;
        let is_silent = |it: &Place| it.process.as_ref().is_some_and(|process| process.is_silent);
        match () {
            () if self.places.iter().any(is_silent) => SOON,
            () if self.places.iter().any(|place| place.is_held_up) => PAUSE_MS,
            () => USUALLY,
        }
    }

    fn receive(&mut self, index: usize) {
        let place = self.places.get_mut(index).and_then(|place| place.process.as_mut());
        let Some(process) = place else { return };
        process.receive();
        if process.is_silent {
            let _ = self.epoll.remove(process.control.as_fd()); // it cannot fail: it is in the set
        }
    }

    /// Passes on new orders.
    fn pass_on_orders(&mut self) {
        if !self.has_begun && self.shared.orders.is_issued(Order::Begin) {
            self.has_begun = true;
            self.send_to_all(Order::Begin.byte());
        }
        if self.shared.orders.is_issued(Order::Leave)
            && self.shared.is_passage_over.load(Ordering::Acquire)
        {
            self.pass_on_leave();
        }
        if !self.is_stopping && self.shared.orders.is_issued(Order::StopAccepting) {
            self.stop_replacing();
            self.send_to_all(Order::StopAccepting.byte());
        }
        if !self.is_draining && self.shared.orders.is_issued(Order::Drain) {
            self.is_draining = true;
            self.send_to_all(Order::Drain.byte());
        }
        if self.abort_until.is_none() && self.shared.orders.is_issued(Order::Abort) {
            self.abort_until = Some(os::clock::now() + ABORT_TIMEOUT_US);
            self.send_to_all(Order::Abort.byte());
        }
        if self.abort_until.is_some_and(|until| until < os::clock::now()) {
            self.processes().for_each(Process::kill);
        }
    }

    /// Has the processes leave, and tells them whether an heir takes their connections, if that is
    /// new.
    fn pass_on_leave(&mut self) {
        let has_heir = self.shared.heirs().is_there;
        if self.told_heir.replace(has_heir) != Some(has_heir) {
            self.stop_replacing();
            let order = if has_heir { LEAVE_TO_OTHERS } else { Order::Leave.byte() };
            self.processes().for_each(|process| process.leave(order));
        }
    }

    /// Processes that end are not replaced from now on. When the last descriptor of a listener
    /// closes, the kernel resets the connections that wait at it: the processes accept those first.
    fn stop_replacing(&mut self) {
        self.is_stopping = true;
        self.places.iter_mut().for_each(|place| place.listeners.clear());
    }

    /// Notes whether all processes have left by the last order, or ended.
    fn note_left(&self) {
        let heirs = self.shared.heirs();
        let mut processes = self.places.iter().filter_map(|place| place.process.as_ref());
        if self.told_heir == Some(heirs.is_there) && processes.all(Process::has_left) {
            self.shared.has_left.store(true, Ordering::Release);
        }
    }

    fn send_to_all(&mut self, order: u8) {
        self.processes().for_each(|process| process.send(order));
    }

    fn processes(&mut self) -> impl Iterator<Item = &mut Process> {
        self.places.iter_mut().filter_map(|place| place.process.as_mut())
    }

    /// Notices the end of a place's process, and replaces it unless it was ordered to end.
    fn replace_if_ended(&mut self, index: usize) {
        let place = &mut self.places[index];
        let Some(status) = place.process.as_mut().and_then(Process::ended) else { return };
        let Some(process) = place.process.take() else { return };
        self.publish_pids();
        if let Some(ledger) = self.ledger.place(index) {
            ledger.account_for_end();
        }
        let name = format!("worker process {index} (pid {})", process.pid());
        if self.is_stopping {
            return self.report_end(&name, &process, status);
        }
        let reason = format!("{name}: {}", process.reason(status));
        let (deaths, now) = (&mut self.places[index].deaths, os::clock::now());
        deaths.note(now);
        let replacement = deaths.replacement(now);
        let notice = format!("{reason}; {replacement}");
        match replacement {
            Replacement::Due => report(&notice),
            Replacement::GivenUp => {
                report(&reason);
                return self.fail(notice);
            }
        }
        if let Err(why) = self.start_one(index) {
            self.fail(not_serving(index, why).to_string());
        }
    }

    /// Reports the end of a process that was ordered to end.
    fn report_end(&self, name: &str, process: &Process, status: ExitStatus) {
        if let Some(failure_reason) = process.failure_reason() {
            self.fail(format!("{name}: {failure_reason}"));
        } else if !status.success() && self.abort_until.is_none() {
            report(&format!("{name}: {}; its connections are cut off", process.reason(status)));
        }
    }

    fn fail(&self, why: String) {
        let _ = self.shared.failure.set(why); // the first failure is the one to report
    }
}
