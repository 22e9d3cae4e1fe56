//! A process that serves: one connection, and then it ends; or, in a pool, one after the other.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use os::epoll::{Epoll, Event, EventBuffer, Interest};
use os::poll::PollSet;
use os::signals::SignalDescriptor;
use os::socket::Readiness;
use session::{HOUSEKEEPING_MS, Tick};

use super::board::{Board, Command, ProcessRow, State};
use crate::open_files::OpenFiles;
use crate::orders::Order;
use crate::parts::accept::listeners::{self, Accepted, PAUSE_MS};
use crate::parts::kernel_threads::blocking::{RECEIVE_BYTES, ServedConnection};
use crate::parts::kernel_threads::registry::{Arrival, Entry, Registry};
use crate::parts::loops::clock::timeout_ms;

/// The keys of the signal and of the client's socket, besides those of listeners.
const SIGNAL_KEY: u64 = u64::MAX;
const SOCKET_KEY: u64 = u64::MAX - 1;

/// The number of listeners handled after one wait: the arrival at the first has woken this process,
/// that at a second has woken another.
const EVENTS_MAX: usize = 1;

/// The interval, in milliseconds, at which a process with open files checks whether they are still
/// requested.
const CHECK_MS: u64 = 1000;

/// The state that a process has from its master.
pub(super) struct Child {
    pub(super) registry: Registry,
    pub(super) board: Board,
    pub(super) row: ProcessRow,
    /// Signals of the master to check the board.
    pub(super) signals: Arc<SignalDescriptor>,
    /// Whether such a signal has come while the connection waited for an application.
    pub(super) is_called: Arc<AtomicBool>,
    pub(super) listeners: Vec<OwnedFd>,
    /// The number of connections that it serves one after the other, at most.
    pub(super) connections_max: u64,
    /// Whether the cache and the log may need housekeeping.
    pub(super) is_untidy: bool,
    /// The files that its cache has open.
    pub(super) open_files: OpenFiles,
    /// Whether connections to applications are kept.
    pub(super) keeps_connections: bool,
}

/// The event that ends a wait for a client.
enum Woken {
    ByMaster,
    /// The socket is ready, or the deadline has passed.
    ForConnection,
    /// Housekeeping of the cache and the log is due.
    ForHousekeeping,
}

impl Child {
    /// Serves one connection.
    pub(super) fn serve_one(mut self, socket: OwnedFd, peer: SocketAddr) -> i32 {
        self.listeners.clear();
        let outcome = self.serve(socket, peer);
        self.end(&outcome)
    }

    /// Serves one connection after the other, until the process is to end.
    pub(super) fn serve_many(mut self) -> i32 {
        let outcome = self.serve_all();
        self.end(&outcome)
    }

    /// Ends the process's work. Returns the exit status.
    fn end(&self, outcome: &io::Result<()>) -> i32 {
        self.registry.do_housekeeping();
        self.row.rest(None);
        if let Err(why) = outcome {
            self.row.fail(why);
            return 1; // the state stays, so that the master knows what is lost with the process
        }
        self.row.set_state(State::Ending);
        0
    }

    fn serve_all(&mut self) -> io::Result<()> {
        let epoll = Epoll::new()?;
        epoll.add(self.signals.as_fd(), Interest::READ, SIGNAL_KEY)?;
        // The processes of a pool wait at the same sockets, and an arrival is to wake one of them.
        let interest = Interest::READ.with(Interest::EXCLUSIVE);
        for (index, listener) in self.listeners.iter().enumerate() {
            epoll.add(listener.as_fd(), interest, index as u64)?;
        }
        let mut events = EventBuffer::with_capacity(EVENTS_MAX);
        while !self.is_done() {
            epoll.wait(&mut events, self.housekeeping_ms().map(|ms| ms as u32))?;
            match events.iter().next().map(|event| event.key) {
                None => {
                    self.is_untidy = false;
                    self.do_housekeeping();
                }
                Some(SIGNAL_KEY) => {
                    self.clear_signals();
                    self.do_housekeeping();
                    // A process that was woken for an arrival may have been killed.
                    (0..self.listeners.len()).try_for_each(|listener| self.accept(listener))?;
                }
                // In spite of any order: no other process was woken for this arrival.
                Some(listener) => self.accept(listener as usize)?,
            }
        }
        Ok(())
    }

    /// The time until housekeeping is due, in milliseconds, though no client comes.
    fn housekeeping_ms(&self) -> Option<u64> {
        if self.is_untidy { Some(HOUSEKEEPING_MS) } else { self.check_ms() }
    }

    /// The time until files or connections to applications that are open are looked at, in
    /// milliseconds; none if there are none.
    fn check_ms(&self) -> Option<u64> {
        let is_open = self.open_files.has_open() || self.keeps_connections;
        is_open.then_some(CHECK_MS)
    }

    /// Does the housekeeping of its cache and its log, and closes what was not used, or is of a
    /// former revision.
    fn do_housekeeping(&mut self) {
        self.open_files.close_due();
        self.close_kept();
        self.registry.do_housekeeping();
        self.registry.runner.forget_former();
    }

    /// Closes connections to applications that no request has used in time.
    fn close_kept(&mut self) {
        let is_ending = self.board.orders.is_any_issued();
        let next = self.registry.calls.close_kept(Tick(os::clock::now()), is_ending);
        self.keeps_connections = next.is_some();
    }

    fn is_done(&self) -> bool {
        self.connections_max == 0
            || self.listeners.is_empty() // accepting was stopped while it served
            || self.row.command() == Command::EndIfWaiting
            || self.board.orders.is_any_issued()
    }

    /// Accepts one connection, if there is one, and serves it. This is not the rule of admission
    /// (`parts/accept/admission.rs`): a process accepts only while it has no connection, so it has
    /// none to close to make room for another.
    fn accept(&mut self, listener: usize) -> io::Result<()> {
        let Some(socket) = self.listeners.get(listener) else { return Ok(()) };
        match listeners::accept(socket.as_fd()) {
            Accepted::Connection(socket, peer) => {
                self.row.set_state(State::Serving);
                self.board.wake.notify(); // there may be too few spare processes left
                self.connections_max = self.connections_max.saturating_sub(1);
                self.is_untidy = true;
                self.registry.count_accepted();
                self.serve(socket, peer)?;
                self.row.set_command(Command::None); // any command concerned that connection
                self.row.set_state(State::Waiting);
                self.close_if_ordered(); // the client may have gone before the order was seen
                self.row.rest(None);
                self.board.change();
                Ok(())
            }
            Accepted::Exhausted => {
                self.registry.do_housekeeping();
                PollSet::new().wait(&mut Vec::new(), 1, Some(PAUSE_MS as u32))
            }
            // Another process was faster, or the client has gone already.
            Accepted::Nothing | Accepted::Gone => Ok(()),
        }
    }

    /// Serves a connection to its end.
    fn serve(&mut self, socket: OwnedFd, peer: SocketAddr) -> io::Result<()> {
        let mut arrival = self.registry.admit(socket, peer);
        let served = self.serve_arrival(&mut arrival);
        self.registry.leave(arrival);
        served
    }

    fn serve_arrival(&mut self, arrival: &mut Arrival) -> io::Result<()> {
        let entry = &Arc::clone(&arrival.entry);
        let mut wait = Wait::new(&self.signals, entry)?;
        wait.do_housekeeping_in(self.check_ms());
        let mut served = ServedConnection::new(&self.registry, arrival, true);
        let mut buffer = vec![0; RECEIVE_BYTES];
        entry.rest(Tick(os::clock::now()));
        self.obey(entry);
        while !self.registry.is_aborting() {
            if served.is_idle() && self.row.rests_since().is_none() {
                self.row.rest(Some(Tick(os::clock::now())));
            }
            match wait.next(served.deadline())? {
                Woken::ForHousekeeping => {
                    self.do_housekeeping();
                    wait.do_housekeeping_in(self.check_ms());
                }
                Woken::ForConnection => {
                    self.open_files.close_due(); // a busy client leaves no other time for that
                    self.decline();
                    self.row.rest(None);
                    if self.board.orders.is_issued(Order::Drain) {
                        // The master has called, too, but the connection comes first: the answer to
                        // its request announces that it is the last.
                        self.registry.shared.orders.issue(Order::Drain);
                    }
                    wait.event().into_iter().for_each(|event| served.note(event));
                    match served.drive(&self.registry, entry, &mut buffer, None) {
                        Some(wanted) => wait.begin(entry, wanted)?,
                        None => return Ok(()),
                    }
                    wait.is_called |= self.is_called.swap(false, Ordering::Relaxed);
                }
                Woken::ByMaster => {}
            }
            if wait.is_called {
                self.clear_signals();
                self.do_housekeeping();
                self.obey(entry);
            }
        }
        let _ = served.drive(&self.registry, entry, &mut buffer, None); // aborting, it ends at once
        Ok(())
    }

    /// Carries out the orders and the command of the master. This is not the trait of the loops
    /// (`parts/loops/obey.rs`), which carries out an order once: a process serves a connection at a
    /// time, and the orders hold for the next one, too.
    fn obey(&mut self, entry: &Entry) {
        self.close_if_ordered();
        if self.board.orders.is_issued(Order::Leave) {
            self.registry.shared.orders.issue(Order::Leave);
        }
        if self.board.orders.is_issued(Order::Drain) {
            self.registry.shared.orders.issue(Order::Drain);
            self.registry.wake_resting();
        }
        if self.board.orders.is_issued(Order::Abort) {
            self.registry.shared.orders.issue(Order::Abort);
        }
        if self.row.command() == Command::CloseIfResting {
            let has_input = os::socket::wait_ready(entry.socket(), Readiness::Readable, 0);
            match !has_input.unwrap_or(false) && self.registry.evict() {
                true => self.row.set_command(Command::None),
                false => self.decline(),
            }
        }
    }

    /// Closes the listeners if the process is to accept no more.
    fn close_if_ordered(&mut self) {
        if [Order::Leave, Order::StopAccepting].iter().any(|it| self.board.orders.is_issued(*it)) {
            self.listeners.clear();
        }
    }

    /// Declines the command of the master, which then turns to another process.
    fn decline(&self) {
        if self.row.command() != Command::None {
            self.row.set_command(Command::None);
            self.board.change();
        }
    }

    fn clear_signals(&self) {
        while self.signals.read().is_some() {}
    }
}

/// Waits of a process for its client and for its master at once.
struct Wait {
    set: PollSet,
    events: Vec<Event>,
    watched: Interest,
    /// Whether the master had called when the last wait ended.
    is_called: bool,
    /// When housekeeping of the cache and the log is due.
    housekeeping_due: Option<Tick>,
}

impl Wait {
    /// A wait for the first bytes of a connection, or for a signal.
    fn new(signals: &SignalDescriptor, entry: &Entry) -> io::Result<Self> {
        let mut set = PollSet::new();
        set.add(signals.as_fd(), Interest::READ, SIGNAL_KEY)?;
        set.add(entry.socket(), Interest::READ, SOCKET_KEY)?;
        let events = Vec::with_capacity(2);
        Ok(Self { set, events, watched: Interest::READ, is_called: false, housekeeping_due: None })
    }

    /// Prepares the next wait, for the events that the connection needs.
    fn begin(&mut self, entry: &Entry, interest: Interest) -> io::Result<()> {
        self.do_housekeeping_in(Some(HOUSEKEEPING_MS));
        if interest != self.watched {
            self.set.modify(entry.socket(), interest, SOCKET_KEY)?;
            self.watched = interest;
        }
        Ok(())
    }

    /// The event of the client's socket in the last wait.
    fn event(&self) -> Option<Event> {
        self.events.iter().copied().find(|event| event.key == SOCKET_KEY)
    }

    /// Has waits end for housekeeping after `ms` milliseconds; none means never.
    fn do_housekeeping_in(&mut self, ms: Option<u64>) {
        self.housekeeping_due = ms.map(|ms| Tick(os::clock::now()).plus_ms(ms));
    }

    fn next(&mut self, deadline: Option<Tick>) -> io::Result<Woken> {
        loop {
            let timeout = timeout_ms(Tick(os::clock::now()), [deadline, self.housekeeping_due]);
            self.set.wait(&mut self.events, 2, timeout)?;
            let is_there = |key| self.events.iter().any(|event| event.key == key);
            self.is_called = is_there(SIGNAL_KEY);
            // The connection comes first: a command is declined if the client has sent a request.
            if is_there(SOCKET_KEY) {
                return Ok(Woken::ForConnection);
            }
            if self.is_called {
                return Ok(Woken::ByMaster);
            }
            let now = Tick(os::clock::now());
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Ok(Woken::ForConnection);
            }
            if self.housekeeping_due.is_some_and(|due| due <= now) {
                self.housekeeping_due = None;
                return Ok(Woken::ForHousekeeping);
            }
        }
    }
}
