//! A process that serves: one connection and then its end, or of a pool one after the other.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use os::epoll::{Epoll, Event, EventBuffer, Interest};
use os::poll::PollSet;
use os::signals::SignalDescriptor;
use os::socket::Readiness;
use session::{HOUSEKEEPING_MS, Tick};

use super::board::{Board, Row, State, Wish};
use crate::open_files::OpenFiles;
use crate::orders::Order;
use crate::parts::accept::listeners::{PAUSE_MS, is_exhaustion};
use crate::parts::kernel_threads::blocking::{Line, RECEIVE_BYTES};
use crate::parts::kernel_threads::registry::{Arrival, Entry, Registry};
use crate::parts::loops::clock::timeout_ms;

/// The keys of what a process waits for, besides those of listeners.
const SIGNAL_KEY: u64 = u64::MAX;
const SOCKET_KEY: u64 = u64::MAX - 1;

/// Listeners looked after at once; more come with the next wait.
const EVENTS_MAX: usize = 16;

/// How often a process that has files open looks whether they are still asked for.
const LOOK_MS: u64 = 1000;

/// What a process has from its master.
pub(super) struct Child {
    pub(super) registry: Registry,
    pub(super) board: Board,
    pub(super) row: Row,
    /// Its master's way to have it look at the board.
    pub(super) signals: SignalDescriptor,
    pub(super) listeners: Vec<OwnedFd>,
    /// Connections that it serves one after the other, at most.
    pub(super) connections_max: u64,
    /// Whether there may be something to do about its cache and its log.
    pub(super) is_untidy: bool,
    /// What its cache has open.
    pub(super) open_files: OpenFiles,
}

/// What ends a wait for a client.
enum Woken {
    ByMaster,
    /// The socket is ready, or the deadline has passed.
    ForConnection,
    /// It is time to look after the cache and the log.
    ForHousekeeping,
}

impl Child {
    /// Serves one connection.
    pub(super) fn serve_one(mut self, socket: OwnedFd, peer: SocketAddr) -> i32 {
        self.listeners.clear();
        let outcome = self.serve(socket, peer);
        self.end(&outcome)
    }

    /// Serves one connection after the other, until it is told to end.
    pub(super) fn serve_many(mut self) -> i32 {
        let outcome = self.serve_all();
        self.end(&outcome)
    }

    /// The status to end with.
    fn end(&self, outcome: &io::Result<()>) -> i32 {
        self.registry.do_housekeeping();
        self.row.rest(None);
        if let Err(why) = outcome {
            self.row.fail(why);
            return 1; // in the state it was in, so that what is lost with it is known
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
            if events.is_empty() {
                self.is_untidy = false;
                self.do_housekeeping();
            }
            let mut is_told = false;
            for event in events.iter() {
                match event.key {
                    SIGNAL_KEY => is_told = true,
                    // Whatever it is told: nobody else was woken for this arrival.
                    listener => self.accept(listener as usize)?,
                }
            }
            if is_told {
                self.clear_signals();
                // Somebody may have been killed who was woken for an arrival.
                (0..self.listeners.len()).try_for_each(|listener| self.accept(listener))?;
            }
        }
        Ok(())
    }

    /// How soon there is something to do though nobody comes.
    fn housekeeping_ms(&self) -> Option<u64> {
        if self.is_untidy {
            return Some(HOUSEKEEPING_MS);
        }
        self.open_files.are_there().then_some(LOOK_MS)
    }

    /// Looks after its cache and its log.
    fn do_housekeeping(&mut self) {
        self.open_files.look_after();
        self.registry.do_housekeeping();
    }

    fn is_done(&self) -> bool {
        self.connections_max == 0
            || self.listeners.is_empty() // it was told to stop while it served
            || self.row.wished() == Wish::EndIfWaiting
            || self.board.orders.is_given(Order::StopAccepting)
    }

    /// Accepts one connection, if there is one, and serves it.
    fn accept(&mut self, listener: usize) -> io::Result<()> {
        let Some(socket) = self.listeners.get(listener) else { return Ok(()) };
        match os::socket::accept(socket.as_fd()) {
            Ok((socket, peer)) => {
                self.row.set_state(State::Serving);
                self.board.wake.notify(); // there may be too few left to wait
                self.connections_max = self.connections_max.saturating_sub(1);
                self.is_untidy = true;
                self.registry.count_accepted();
                self.serve(socket, peer)?;
                self.row.wish(Wish::Nothing); // it was meant for that connection
                self.row.set_state(State::Waiting);
                self.row.rest(None);
                self.board.change();
                Ok(())
            }
            Err(why) if is_exhaustion(&why) => {
                self.registry.do_housekeeping();
                PollSet::new().wait(&mut Vec::new(), 1, Some(PAUSE_MS as u32))
            }
            // Another was faster, or the client has gone again.
            Err(_) => Ok(()),
        }
    }

    /// Serves a connection to its end.
    fn serve(&mut self, socket: OwnedFd, peer: SocketAddr) -> io::Result<()> {
        let arrival = self.registry.admit(socket, peer);
        let served = self.serve_arrival(&arrival);
        self.registry.leave(arrival);
        served
    }

    fn serve_arrival(&mut self, arrival: &Arrival) -> io::Result<()> {
        let entry = &arrival.entry;
        let mut wait = Wait::new(&self.signals, entry)?;
        wait.do_housekeeping_in(self.open_files.are_there().then_some(LOOK_MS));
        let mut line = Line::new(&self.registry, arrival, true);
        let mut buffer = vec![0; RECEIVE_BYTES];
        entry.rest(Tick(os::clock::now()));
        self.heed(entry);
        while !self.registry.is_aborting() {
            if line.is_idle() && self.row.rests_since().is_none() {
                self.row.rest(Some(Tick(os::clock::now())));
            }
            match wait.next(line.deadline())? {
                Woken::ForHousekeeping => {
                    self.do_housekeeping();
                    wait.do_housekeeping_in(self.open_files.are_there().then_some(LOOK_MS));
                }
                Woken::ForConnection => {
                    self.open_files.look_after(); // a busy client leaves no other time for it
                    self.decline();
                    self.row.rest(None);
                    if self.board.orders.is_given(Order::Drain) {
                        // Its master has called, too, but the connection comes first: what it has
                        // asked is answered with the word that it is the last.
                        self.registry.shared.orders.give(Order::Drain);
                    }
                    match line.drive(&self.registry, entry, &mut buffer) {
                        Some(wanted) => wait.begin(entry, wanted)?,
                        None => return Ok(()),
                    }
                }
                Woken::ByMaster => {}
            }
            if wait.is_told {
                self.clear_signals();
                self.heed(entry);
            }
        }
        let _ = line.drive(&self.registry, entry, &mut buffer); // to its end, at once
        Ok(())
    }

    /// Does what the master has said meanwhile.
    fn heed(&mut self, entry: &Entry) {
        if self.board.orders.is_given(Order::StopAccepting) {
            self.listeners.clear();
        }
        if self.board.orders.is_given(Order::Drain) {
            self.registry.shared.orders.give(Order::Drain);
            self.registry.wake_resting();
        }
        if self.board.orders.is_given(Order::Abort) {
            self.registry.shared.orders.give(Order::Abort);
        }
        if self.row.wished() == Wish::CloseIfResting {
            let has_asked = os::socket::wait_ready(entry.socket(), Readiness::Readable, 0);
            match !has_asked.unwrap_or(false) && self.registry.evict() {
                true => self.row.wish(Wish::Nothing),
                false => self.decline(),
            }
        }
    }

    /// Does not do what the master has wished: it wishes for something else then.
    fn decline(&self) {
        if self.row.wished() != Wish::Nothing {
            self.row.wish(Wish::Nothing);
            self.board.change();
        }
    }

    fn clear_signals(&self) {
        while self.signals.read().is_some() {}
    }
}

/// How a process waits for its client and for its master at once.
struct Wait {
    set: PollSet,
    events: Vec<Event>,
    watched: Readiness,
    /// Whether the master wanted something when the last wait ended.
    is_told: bool,
    /// When to look after the cache and the log.
    housekeeping_due: Option<Tick>,
}

impl Wait {
    /// A wait for the first bytes of a connection, or for a signal.
    fn new(signals: &SignalDescriptor, entry: &Entry) -> io::Result<Self> {
        let mut set = PollSet::new();
        set.add(signals.as_fd(), Interest::READ, SIGNAL_KEY)?;
        set.add(entry.socket(), Interest::READ, SOCKET_KEY)?;
        let events = Vec::with_capacity(2);
        Ok(Self {
            set,
            events,
            watched: Readiness::Readable,
            is_told: false,
            housekeeping_due: None,
        })
    }

    /// The connection has done what it could, and wants that.
    fn begin(&mut self, entry: &Entry, readiness: Readiness) -> io::Result<()> {
        self.do_housekeeping_in(Some(HOUSEKEEPING_MS));
        if readiness != self.watched {
            let interest = match readiness {
                Readiness::Readable => Interest::READ,
                Readiness::Writable => Interest::WRITE,
            };
            self.set.modify(entry.socket(), interest, SOCKET_KEY)?;
            self.watched = readiness;
        }
        Ok(())
    }

    /// Ends a wait for housekeeping after so long.
    fn do_housekeeping_in(&mut self, ms: Option<u64>) {
        self.housekeeping_due = ms.map(|ms| Tick(os::clock::now()).plus_ms(ms));
    }

    fn next(&mut self, deadline: Option<Tick>) -> io::Result<Woken> {
        loop {
            let timeout = timeout_ms(Tick(os::clock::now()), [deadline, self.housekeeping_due]);
            self.set.wait(&mut self.events, 2, timeout)?;
            let is_there = |key| self.events.iter().any(|event| event.key == key);
            self.is_told = is_there(SIGNAL_KEY);
            // The connection comes first: what is done for the master depends on what it asks.
            if is_there(SOCKET_KEY) {
                return Ok(Woken::ForConnection);
            }
            if self.is_told {
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
