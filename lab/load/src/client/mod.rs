//! The clients of one thread: an event loop that starts sessions when they are due, sends their
//! requests and reads the replies.
//!
//! The loop never waits for a reply, only for events: a slow server delays its own replies, but not
//! the start of other sessions.

mod cpu;
mod issue;
mod receive;
mod record;
mod slot;
mod timers;

use std::io;

use os::epoll::{Epoll, EventBuffer};
use workload::request_log::Request;

pub(crate) use cpu::Processor;
pub(crate) use issue::{connect_error_kind, system_error_kind, write_request};
use record::Recorder;
pub(crate) use record::Window;
use slot::{Phase, Slot};
use timers::{NEVER, Timers};

use crate::measures::{Interval, Measures};
use crate::plan::{Model, Plan};
use crate::run::Shared;

/// Bytes received at once.
const RECEIVE_BYTES: usize = 128 * 1024;
/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// Sessions or requests begun in a row before replies get a turn. Few, because a generator that
/// catches up must not open connections for requests that could reuse connections whose replies
/// have come.
const STARTS_PER_TURN: usize = 8;
/// For an event that is due within this time the loop does not sleep: going to sleep and waking up
/// takes longer, and would make the generator late.
const AWAKE_US: u64 = 50;
/// The longest time until the loop notices that the run is to end.
const LOOK_US: u64 = 50_000;
/// How long a client of a closed run waits after a failure, so that a server that refuses
/// connections does not get a hundred thousand attempts a second.
const AFTER_FAILURE_US: u64 = 10_000;

/// The numbers of sessions, and when each begins.
pub(crate) trait Starts: Iterator<Item = (u64, u64)> + Send {}
impl<T: Iterator<Item = (u64, u64)> + Send> Starts for T {}

/// Receives ended intervals.
pub(crate) type Progress = Box<dyn Fn(Interval) + Send>;

/// The work of a thread.
pub(crate) struct Assignment {
    /// Numbers of sessions with their intended times, by the clock of the run.
    pub(crate) starts: Box<dyn Starts>,
    /// The number of clients of a closed run.
    pub(crate) clients: usize,
    pub(crate) window: Window,
    /// The receiver of ended intervals.
    pub(crate) progress: Progress,
}

/// The clients of one thread, in an event loop.
pub(crate) struct Clients<'p> {
    plan: &'p Plan,
    shared: &'p Shared,
    epoll: Epoll,
    slots: Vec<Slot>,
    /// Slots without session and connection.
    free: Vec<u32>,
    /// Slots without session but, mostly, with a connection, by target.
    kept: Vec<Vec<u32>>,
    wakes: Timers,
    deadlines: Timers,
    starts: std::iter::Peekable<Box<dyn Starts>>,
    /// Clients of a closed run that have not begun.
    clients_left: usize,
    recorder: Recorder<'p>,
    progress: Progress,
    now_us: u64,
    /// Requests under way.
    in_flight: u64,
    /// Sessions under way.
    sessions: u64,
    /// Connections open.
    open: u64,
    buffer: Vec<u8>,
    text: Vec<u8>,
}

impl<'p> Clients<'p> {
    pub(crate) fn new(plan: &'p Plan, shared: &'p Shared, work: Assignment) -> io::Result<Self> {
        Ok(Self {
            plan,
            shared,
            epoll: Epoll::new()?,
            slots: Vec::new(),
            free: Vec::new(),
            kept: vec![Vec::new(); plan.targets.len()],
            wakes: Timers::default(),
            deadlines: Timers::default(),
            starts: work.starts.peekable(),
            clients_left: work.clients,
            recorder: Recorder::new(plan, work.window),
            progress: work.progress,
            now_us: os::clock::now(),
            in_flight: 0,
            sessions: 0,
            open: 0,
            buffer: vec![0; RECEIVE_BYTES],
            text: Vec::new(),
        })
    }

    /// Runs to the end and returns the measurements and the thread's processor times.
    pub(crate) fn run(mut self) -> io::Result<(Measures, Processor)> {
        let mut events = EventBuffer::with_capacity(EVENTS);
        loop {
            self.now_us = os::clock::now();
            self.recorder.edges(self.now_us, self.sessions);
            if self.shared.is_stopped() || self.is_over() {
                break;
            }
            while let Some(interval) = self.recorder.turn(self.now_us, self.in_flight, self.open) {
                (self.progress)(interval.clone());
            }
            if self.now_us < self.give_up_us() {
                self.begin_due();
                self.wake_due();
            }
            let timeout_us = self.idle_us();
            if self.epoll.wait_us(&mut events, timeout_us)? > 0 {
                for event in events.iter() {
                    self.on_event(event);
                }
            }
            // Timeouts are checked after the replies are read, so that a reply that came in time
            // counts even if it is read late.
            self.give_up_due();
        }
        self.give_up();
        let processor = self.recorder.processor();
        Ok((self.finish(), processor))
    }

    /// The time until something is due.
    fn idle_us(&mut self) -> u64 {
        let now_us = os::clock::now();
        let end_us = self.recorder.window.to_us;
        let begin = match self.plan.model {
            Model::Closed { .. } if self.clients_left > 0 => self.start_us(),
            Model::Closed { .. } => NEVER,
            Model::Open(_) => self.starts.peek().map_or(NEVER, |(_, at_us)| *at_us),
        };
        let start = self.wakes.next_us().min(if begin < end_us { begin } else { NEVER });
        let due = [
            start.saturating_sub(AWAKE_US),
            if now_us < end_us { end_us } else { NEVER },
            self.deadlines.next_us(),
            self.recorder.next_turn_us(),
        ];
        let due = due.into_iter().min().unwrap_or(NEVER);
        due.saturating_sub(now_us).min(LOOK_US)
    }

    /// When the run begins, with its warm-up.
    fn start_us(&self) -> u64 {
        self.recorder.window.from_us - self.plan.warm_up_us
    }

    /// Begins the sessions that are due.
    fn begin_due(&mut self) {
        for _ in 0..STARTS_PER_TURN {
            let session = match self.plan.model {
                Model::Closed { .. } => self.next_client(),
                Model::Open(_) => self.next_due(),
            };
            match session {
                Some((session, intended_us)) => self.begin(session, intended_us),
                None => return,
            }
            self.now_us = os::clock::now();
        }
    }

    /// The next session of an open run if it is due and belongs to the run.
    fn next_due(&mut self) -> Option<(u64, u64)> {
        let last_us = self.now_us.min(self.recorder.window.to_us - 1);
        self.starts.next_if(|(_, at_us)| *at_us <= last_us)
    }

    /// The first session of a client of a closed run that has not begun.
    fn next_client(&mut self) -> Option<(u64, u64)> {
        if self.clients_left == 0 || self.now_us < self.start_us() {
            return None;
        }
        self.clients_left -= 1;
        self.starts.next().map(|(session, _)| (session, self.now_us))
    }

    /// Issues the requests whose think times are over.
    fn wake_due(&mut self) {
        for _ in 0..STARTS_PER_TURN {
            let Some((at_us, id)) = self.wakes.take_due(self.now_us) else { return };
            let slot = &mut self.slots[id as usize];
            if slot.armed_wake != at_us {
                continue;
            }
            slot.armed_wake = NEVER;
            match slot.phase {
                Phase::Thinking if slot.session == NO_SESSION => self.begin_next(id),
                Phase::Thinking if at_us < self.recorder.window.to_us => {
                    self.issue(id, at_us, true);
                    self.now_us = os::clock::now();
                }
                _ => {}
            }
        }
    }

    /// Fails the requests that have taken too long.
    fn give_up_due(&mut self) {
        while let Some((at_us, id)) = self.deadlines.take_due(self.now_us) {
            let slot = &mut self.slots[id as usize];
            if slot.armed_deadline != at_us {
                continue;
            }
            slot.armed_deadline = NEVER;
            if slot.deadline_us <= self.now_us {
                self.time_out(id);
            } else if slot.deadline_us != NEVER {
                let deadline_us = slot.deadline_us;
                self.deadlines.arm(id, deadline_us, &mut slot.armed_deadline);
            }
        }
    }

    /// Whether nothing remains that is to be measured.
    fn is_over(&mut self) -> bool {
        if self.in_flight > 0 {
            return false;
        }
        if self.now_us >= self.give_up_us() {
            return true;
        }
        if self.now_us >= self.recorder.window.to_us {
            // Requests that were due before the end are issued, though late.
            return self.wakes.next_us() >= self.recorder.window.to_us && self.no_start_is_due();
        }
        // The end of a schedule does not end the run: its window has the length that was asked for.
        let may_end = self.plan.sessions_max.is_some() || self.plan.duration_us.is_none();
        may_end && self.sessions == 0 && self.starts.peek().is_none()
    }

    /// When sessions that are still due are given up, so that a run that asks for more than the
    /// generator can do ends: at the timeout of a request issued at the end of the window.
    fn give_up_us(&self) -> u64 {
        self.recorder.window.to_us.saturating_add(self.plan.timeout_us)
    }

    /// Counts the sessions and requests that are due and will not be begun any more.
    fn give_up(&mut self) {
        /// At a rate of a thousand million sessions a second not all are counted.
        const COUNTED_MAX: usize = 1_000_000;
        let end_us = self.recorder.window.to_us;
        if !self.is_open() || self.now_us < self.give_up_us() {
            return;
        }
        for _ in 0..COUNTED_MAX {
            let Some((session, at_us)) = self.starts.next_if(|(_, at_us)| *at_us < end_us) else {
                break;
            };
            let measured = self.recorder.window.contains(at_us);
            let requests = self.requests(session);
            self.recorder.session_due(self.now_us, measured);
            self.recorder.requests_asked(self.now_us, at_us, requests);
            if measured {
                let due = record::due_times(at_us, requests).take_while(|at_us| *at_us < end_us);
                self.recorder.overdue(due.count() as u64);
            }
        }
        let is_due = |slot: &&Slot| slot.phase == Phase::Thinking && slot.armed_wake < end_us;
        let thinking = self.slots.iter().filter(is_due).count();
        self.recorder.overdue(thinking as u64);
    }

    /// Whether sessions start when they are due.
    fn is_open(&self) -> bool {
        matches!(self.plan.model, Model::Open(_))
    }

    fn no_start_is_due(&mut self) -> bool {
        let end_us = self.recorder.window.to_us;
        match self.plan.model {
            Model::Closed { .. } => true,
            Model::Open(_) => self.starts.peek().is_none_or(|(_, at_us)| *at_us >= end_us),
        }
    }

    /// Returns the measures. Requests that are under way are not awaited.
    fn finish(mut self) -> Measures {
        let unfinished = |slot: &&Slot| {
            slot.phase != Phase::Free && slot.session != NO_SESSION && slot.session_measured
        };
        for _ in self.slots.iter().filter(unfinished) {
            self.recorder.session_unfinished();
        }
        for slot in self.slots.iter().filter(|slot| slot.socket.is_some()) {
            self.recorder.connection_closed(slot, self.now_us);
        }
        self.recorder.finish(self.in_flight, self.open)
    }

    /// The requests of a session.
    fn requests(&self, session: u64) -> &'p [Request] {
        let log = &self.plan.log;
        log.session((session % log.sessions() as u64) as usize)
    }

    fn target_index(&self, session: u64) -> usize {
        (session % self.plan.targets.len() as u64) as usize
    }
}

/// A client of a closed run between two sessions.
const NO_SESSION: u64 = u64::MAX;
