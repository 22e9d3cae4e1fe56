//! The master: decides how many processes there are, replaces those that died, and accepts no
//! connection without a process for it.

use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use os::epoll::{Epoll, EventBuffer, Interest};
use session::{Counters, Tick};

use super::board::{Board, State};
use super::child::Child;
use super::note::Note;
use super::pool::{Pool, ProcessParts};
use crate::engine::PartitionStart;
use crate::jobs::Runner;
use crate::orders::{Order, Orders};
use crate::parts::accept::admission::{Admission, LastRows, Room, Shortage, accept_row};
use crate::parts::accept::listeners::{LISTENER_KEYS, Listeners, PAUSE_MS, WAKE_KEY, refuse};
use crate::parts::failures::Failures;
use crate::parts::loops::clock::timeout_ms;
use crate::parts::loops::obey::{Obey, Obeyed, obey};

/// The limits on the number of processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// 0 means a process for each connection.
    pub(super) preforked: usize,
    pub(super) spare_min: usize,
    pub(super) spare_max: usize,
    pub(super) processes_max: usize,
    /// 0 means any number.
    pub(super) connections_per_process: u64,
}

/// The number of processes forked in a row before anything else is done.
const FORKS_PER_TURN: usize = 32;

/// The interval, in milliseconds, at which one superfluous process is ended: a pool that shrinks
/// slowly need not grow again after a short lull.
const SHRINK_MS: u64 = 100;

/// How long processes may take to end after the order to abort, in milliseconds.
const ABORT_TIMEOUT_MS: u64 = 1000;

/// The key of signals: above those of listeners.
const SIGNAL_KEY: u64 = u64::MAX - 1;

/// The master of one partition.
pub(super) struct Master {
    limits: Limits,
    board: Board,
    /// The master's own counters. The master answers no requests.
    counters: Arc<Counters>,
    pool: Pool,
    listeners: Listeners,
    epoll: Epoll,
    obeyed: Obeyed,
    /// From the order to accept no more on: the queues still to be emptied before the listeners are
    /// closed.
    closing: Option<LastRows>,
    is_watching: bool,
    now: Tick,
    /// The moment until which no connection is accepted, or closed for another, unless a process
    /// becomes free.
    paused_until: Option<Tick>,
    changes_seen: u64,
    /// The recent failures of processes and forks: the next fork waits a moment.
    failures: Failures,
    has_complained: bool,
    shrink_at: Tick,
    /// When all processes that are left are killed.
    kill_at: Option<Tick>,
}

/// Runs the master of a partition until everything has ended. Returns the exit status.
pub(super) fn run(
    partition: PartitionStart,
    runner: Arc<Runner>,
    limits: Limits,
    board: &Board,
) -> i32 {
    let master = Master::new(partition, runner, limits, board.clone());
    let outcome = master.and_then(Master::turn_until_over);
    outcome.as_ref().err().into_iter().for_each(|why| board.fail(why));
    i32::from(outcome.is_err())
}

impl Master {
    fn new(
        partition: PartitionStart,
        runner: Arc<Runner>,
        limits: Limits,
        board: Board,
    ) -> io::Result<Self> {
        if !partition.cpus.is_empty() {
            os::affinity::pin_thread(&partition.cpus)?; // its processes inherit the CPUs
        }
        let first = partition.workers.into_iter().next().expect("each partition has one worker");
        let connections_max = match limits.connections_per_process {
            0 => u64::MAX,
            most => most,
        };
        let parts = ProcessParts {
            more: partition.more,
            runner,
            board: board.clone(),
            connections_max,
            processes_max: limits.processes_max,
        };
        let counters = Arc::clone(&first.worker.counters);
        let pool = Pool::new(parts, first.worker)?;
        let epoll = Epoll::new()?;
        epoll.add(board.wake.as_fd(), Interest::READ, WAKE_KEY)?;
        epoll.add(pool.signals.as_fd(), Interest::READ, SIGNAL_KEY)?;
        let now = Tick(os::clock::now());
        Ok(Self {
            limits,
            board,
            counters,
            pool,
            // Not exclusive: the master waits only for connections that no process can take.
            listeners: Listeners::new(first.listeners, false),
            epoll,
            obeyed: Obeyed::default(),
            closing: None,
            is_watching: false,
            now,
            paused_until: None,
            changes_seen: 0,
            failures: Failures::default(),
            has_complained: false,
            shrink_at: now,
            kill_at: None,
        })
    }

    fn turn_until_over(mut self) -> io::Result<()> {
        let mut events = EventBuffer::with_capacity(16);
        while !self.board.orders.is_issued(Order::Begin) && !self.board.orders.is_any_issued() {
            self.epoll.wait(&mut events, None)?;
            self.board.wake.clear();
        }
        let first = self.limits.preforked.min(self.limits.processes_max);
        (0..first).for_each(|_| self.fork_spare());
        loop {
            self.watch_if_needed()?;
            self.epoll.wait(&mut events, self.timeout_ms())?;
            self.now = Tick(os::clock::now());
            self.update()?;
            for event in events.iter() {
                if !matches!(event.key, WAKE_KEY | SIGNAL_KEY) {
                    self.arrived((event.key - LISTENER_KEYS) as usize);
                }
            }
            obey(&mut self);
            self.keep_spare();
            let is_ending = self.obeyed.is_draining || self.board.orders.is_issued(Order::Leave);
            if self.obeyed.is_closed && is_ending && self.pool.alive() == 0 {
                return Ok(());
            }
        }
    }

    /// Reaps processes that have ended, and ends pauses that are over.
    fn update(&mut self) -> io::Result<()> {
        self.board.wake.clear();
        self.pool.keep_current();
        let reaped = self.pool.reap()?;
        if reaped.has_failed {
            self.failures.note(self.now.0); // a replacement may fail at once, too
        }
        let changes = self.board.changes();
        let is_changed = std::mem::replace(&mut self.changes_seen, changes) != changes;
        let is_over = |at: &Tick| *at <= self.now;
        if is_changed || reaped.count > 0 || self.paused_until.as_ref().is_some_and(is_over) {
            self.paused_until = None;
        }
        Ok(())
    }

    /// Whether the master handles arrivals: if it forks for each, or else while no process could
    /// accept them.
    fn is_needed(&self) -> bool {
        let are_all_taken = || self.is_full() && self.pool.waiting() == 0;
        self.closing.is_none()
            && self.paused_until.is_none()
            && (self.limits.preforked == 0 || are_all_taken())
    }

    fn watch_if_needed(&mut self) -> io::Result<()> {
        let wanted = self.is_needed();
        if std::mem::replace(&mut self.is_watching, wanted) != wanted {
            match wanted {
                true => self.listeners.watch(&self.epoll)?,
                false => self.listeners.unwatch(&self.epoll),
            }
        }
        Ok(())
    }

    /// Accepts a connection that waits at a listener which the master watches, unless a process can
    /// take it.
    fn arrived(&mut self, listener: usize) {
        if !self.is_needed() {
            return; // meanwhile a process can take it
        }
        accept_row(self, listener, 1);
    }

    fn fork_for(&mut self, socket: OwnedFd, peer: SocketAddr) {
        let mut socket = Some(socket);
        let work = |child: Child| {
            let socket = socket.take().expect("work is done once, and not here");
            child.serve_one(socket, peer)
        };
        let forked = self.pool.fork(State::Serving, &mut self.listeners, work);
        self.note_fork(&forked);
        if let (Err(_), Some(socket)) = (forked, socket) {
            refuse(socket.as_fd());
        }
    }

    fn fork_spare(&mut self) {
        let forked = self.pool.fork(State::Waiting, &mut self.listeners, Child::serve_many);
        self.note_fork(&forked);
    }

    /// Records the outcome of a fork, which the system may refuse for a while.
    fn note_fork(&mut self, forked: &io::Result<()>) {
        let complained = std::mem::replace(&mut self.has_complained, forked.is_err());
        let Err(why) = forked else { return };
        self.counters.accept_pauses.add(1);
        self.failures.note(self.now.0);
        if !complained {
            self.board.note(Note::cannot_fork(os::errors::to_number(why)));
        }
    }

    /// When the next fork may be tried, if not now.
    fn fork_at(&self) -> Option<Tick> {
        self.failures.pause_end_us(self.now.0, PAUSE_MS * 1000).map(Tick)
    }

    /// Keeps enough processes waiting, and not too many.
    fn keep_spare(&mut self) {
        if self.limits.preforked == 0 || self.closing.is_some() {
            return;
        }
        let waiting = self.pool.waiting();
        for _ in 0..self.limits.spare_min.saturating_sub(waiting).min(FORKS_PER_TURN) {
            if self.is_full() {
                return;
            }
            self.fork_spare();
        }
        if waiting > self.limits.spare_max && self.shrink_at <= self.now {
            self.shrink_at = self.now.plus_ms(SHRINK_MS);
            self.pool.end_one_waiting();
        }
    }

    fn close(&mut self) {
        self.closing.get_or_insert_default();
        self.obeyed.is_closed = true;
        self.listeners.close(&self.epoll);
        self.is_watching = false;
    }

    /// How long to wait for events.
    fn timeout_ms(&self) -> Option<u32> {
        let is_pooled = self.limits.preforked > 0 && self.closing.is_none();
        let waiting = if is_pooled { self.pool.waiting() } else { 0 };
        let is_short = is_pooled && waiting < self.limits.spare_min && !self.is_full();
        let shrink_at = (is_pooled && waiting > self.limits.spare_max).then_some(self.shrink_at);
        let fork_at = if is_short { Some(self.now) } else { self.fork_at() };
        let now = Tick(os::clock::now());
        timeout_ms(now, [self.paused_until, fork_at, shrink_at, self.kill_at])
    }
}

/// The master carries out the orders of the engine, and has its processes do so.
impl Obey<&'static AtomicU64> for Master {
    fn orders(&self) -> &Orders<&'static AtomicU64> {
        &self.board.orders
    }

    fn obeyed(&mut self) -> &mut Obeyed {
        &mut self.obeyed
    }

    /// Has the processes end with the next responses. Others may accept at the listeners, or no
    /// process does.
    fn leave(&mut self) {
        self.obeyed.is_closed = self.obeyed.is_closed || self.stop_accepting();
    }

    fn have_others_left(&self) -> bool {
        self.pool.waiting() == 0
    }

    /// Takes the connections that wait in the queues, for each of which a process is forked, and
    /// closes the listeners then.
    fn stop_accepting(&mut self) -> bool {
        if self.closing.is_none() {
            self.pool.call_all();
        }
        let mut last = self.closing.unwrap_or_default();
        let is_over = self.paused_until.is_none() && last.take(self);
        self.closing = Some(last);
        if is_over {
            self.close();
        }
        is_over
    }

    fn drain(&mut self) -> bool {
        self.pool.call_all();
        true
    }

    /// Has all processes break off, and kills those that do not after a while.
    fn abort(&mut self) {
        match self.kill_at {
            None => {
                self.close();
                self.obeyed.is_draining = true;
                self.pool.call_all();
            }
            Some(at) if at <= self.now => self.pool.kill_all(),
            Some(_) => return,
        }
        self.kill_at = Some(self.now.plus_ms(ABORT_TIMEOUT_MS));
    }
}

impl Admission for Master {
    /// Whether no more processes can be forked now.
    fn is_full(&self) -> bool {
        self.pool.alive() >= self.limits.processes_max || self.fork_at().is_some()
    }

    fn listeners(&mut self) -> impl DerefMut<Target = Listeners> {
        &mut self.listeners
    }

    fn admit(&mut self, socket: OwnedFd, peer: SocketAddr) -> bool {
        self.counters.connections_accepted.add(1);
        self.fork_for(socket, peer);
        true
    }

    /// Makes room when all processes serve: requests the one whose connection has rested longest to
    /// close it. The next connection waits for that, or for a moment: another process may end
    /// meanwhile.
    fn make_room(&mut self, shortage: Shortage) -> Room {
        if shortage != Shortage::Places {
            return Room::None; // the connections' descriptors are in other processes
        }
        let at = self.pool.free_resting(self.now);
        self.pause();
        self.paused_until = self.paused_until.min(at.or(self.paused_until));
        Room::Begun
    }

    /// Does nothing: the only open connections are those of the master's own processes.
    fn request_room_from_others(&mut self) {}

    fn pause(&mut self) {
        self.counters.accept_pauses.add(1);
        self.paused_until = Some(self.now.plus_ms(PAUSE_MS));
    }
}
