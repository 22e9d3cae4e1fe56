//! The processes of a master: how they are forked, counted, called and reaped. The master decides
//! how many there should be.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use file_cache::Budget;
use os::fork::{Child as Process, Ended};
use os::limits::ThreadRoom;
use os::signals::{Signal, SignalDescriptor};
use session::{Account, Tick, Worker};

use super::board::{Board, CallState, Command, ProcessRow, State};
use super::calls::{MasterCalls, Places};
use super::child::Child;
use super::note::Note;
use crate::engine::{ConnectionLimit, MakeWorker, SendfileMode};
use crate::jobs::Runner;
use crate::knobs::KnobValues;
use crate::parts::accept::listeners::Listeners;
use crate::parts::applications::call_pool::{Bounds, CallPool};
use crate::parts::kernel_threads::registry::Registry;
use crate::parts::loops::cpu_placement::CpuPlacement;
use crate::parts::loops::{LoopContext, Shared};

/// The signal on which a process checks the board.
const CALL: Signal = Signal::User1;

/// How long a connection may rest though others wait for its process, in milliseconds: its client
/// has just been accepted or answered, and is about to send a request. If each connection were
/// closed for the next one, no client would be served.
const REST_MS: u64 = 100;

/// The parts that processes are made of.
pub(super) struct ProcessParts {
    pub(super) more: MakeWorker,
    pub(super) runner: Arc<Runner>,
    pub(super) board: Board,
    /// The number of connections that a process serves, at most.
    pub(super) connections_max: u64,
    /// The number of processes at once, at most: they share the memory that the cache may take.
    pub(super) processes_max: usize,
}

/// The processes of a master.
pub(super) struct Pool {
    parts: ProcessParts,
    /// Each process works with a copy of this worker. The master serves no client with it: the
    /// master should have as little in memory as possible, because each page in which a process
    /// fills a gap becomes the process's own.
    worker: Option<Box<Worker>>,
    slots: Vec<Slot>,
    /// Signals that a process has ended.
    pub(super) signals: SignalDescriptor,
    alive: usize,
    room: ThreadRoom,
    /// Whether the processes that end now were killed by the master.
    is_killing: bool,
}

/// A slot for a process.
struct Slot {
    row: ProcessRow,
    process: Option<Process>,
    /// The account that each process in the slot counts on.
    account: Account,
}

/// The processes that were reaped.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reaped {
    pub(super) count: usize,
    /// Whether one of them has failed by itself, as its replacement may.
    pub(super) has_failed: bool,
}

impl Pool {
    /// A pool without processes, which will work with copies of `worker`.
    pub(super) fn new(parts: ProcessParts, mut worker: Worker) -> io::Result<Self> {
        let budget = own_budget(worker.cache().budget(), parts.processes_max);
        worker.use_cache(Arc::new(worker.cache().emptied(budget)));
        let worker = Some(Box::new(worker));
        // The signal is blocked here so that it is blocked in each process from the beginning.
        let signals = SignalDescriptor::new(&[Signal::Child, CALL])?;
        let room = ThreadRoom::default();
        let slots = Vec::new();
        Ok(Self { parts, worker, slots, signals, alive: 0, room, is_killing: false })
    }

    /// Has processes that are forked from now on go by the newest revision, and the others look for
    /// it: each does so with its next request at the latest, but what it has of the former one is
    /// not to stay as long.
    pub(super) fn keep_current(&mut self) {
        if self.worker.as_mut().is_some_and(|worker| worker.keep_current()) {
            self.call_all();
            self.parts.runner.forget_former();
        }
    }

    pub(super) fn alive(&self) -> usize {
        self.alive
    }

    /// The number of processes that wait for a connection, or will in a moment.
    pub(super) fn waiting(&self) -> usize {
        self.living().filter(|slot| slot.row.state() == State::Waiting).count()
    }

    /// Forks a process that does `work`.
    pub(super) fn fork(
        &mut self,
        state: State,
        listeners: &mut Listeners,
        work: impl FnOnce(Child) -> i32,
    ) -> io::Result<()> {
        self.room.check()?;
        let index = match self.slots.iter().position(|slot| slot.process.is_none()) {
            Some(index) => index,
            None => self.add_slot(),
        };
        let row = self.slots[index].row;
        row.begin(state);
        let process = os::fork::fork(|| match self.child(index, listeners) {
            Ok(child) => work(child),
            Err(why) => {
                row.fail(&why);
                1
            }
        })?;
        self.slots[index].process = Some(process);
        self.alive += 1;
        Ok(())
    }

    /// Reaps the processes that have ended.
    pub(super) fn reap(&mut self) -> io::Result<Reaped> {
        while self.signals.read().is_some() {}
        let mut reaped = Reaped::default();
        while let Some(pid) = os::fork::next_ended()? {
            let is_it = |slot: &&mut Slot| slot.process.as_ref().is_some_and(|p| p.id() == pid);
            let Some(slot) = self.slots.iter_mut().find(is_it) else { break };
            let Some(mut process) = slot.process.take() else { break };
            let Some(how) = process.try_wait()? else { break };
            self.alive -= 1;
            reaped.count += 1;
            if how != Ended::Exit(0) && !self.is_killing {
                let (state, error) = (slot.row.state(), slot.row.error());
                let note = Note::ended(pid, how, error, state == State::Serving);
                self.parts.board.note(note);
                reaped.has_failed |= matches!(how, Ended::Exit(_));
            }
            slot.row.rest(None);
            slot.row.set_call(0, CallState::None);
            slot.account.forget_process();
            if how != Ended::Exit(0) {
                // It may have been woken for an arrival for which no other process was woken.
                self.call_all();
            }
        }
        Ok(reaped)
    }

    /// Has the process whose connection has rested longest close it, if one has rested for
    /// [`REST_MS`] and was not called to do so already. Otherwise returns when one will have.
    pub(super) fn free_resting(&self, now: Tick) -> Option<Tick> {
        let uncalled = self.living().filter(|slot| slot.row.command() == Command::None);
        let resting = uncalled.filter_map(|slot| Some((slot.row.rests_since()?, slot)));
        let (since, slot) = resting.min_by_key(|(since, _)| *since)?;
        let at = since.plus_ms(REST_MS);
        if at > now {
            return Some(at);
        }
        slot.send(Command::CloseIfResting);
        None
    }

    /// Has the first process that waits for a connection end, if it was not told to already.
    pub(super) fn end_one_waiting(&self) {
        let mut waiting = self.living().filter(|slot| slot.row.state() == State::Waiting);
        let is_told = |slot: &Slot| slot.row.command() == Command::EndIfWaiting;
        if let Some(slot) = waiting.next()
            && !is_told(slot)
        {
            slot.send(Command::EndIfWaiting);
        }
    }

    /// Has all processes check the board.
    pub(super) fn call_all(&self) {
        self.living().for_each(Slot::call);
    }

    pub(super) fn kill_all(&mut self) {
        self.is_killing = true;
        self.slots.iter().filter_map(|slot| slot.process.as_ref()).for_each(Process::kill);
    }

    fn living(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.process.is_some())
    }

    fn add_slot(&mut self) -> usize {
        let index = self.slots.len();
        assert!(index < self.parts.board.rows(), "the master forks no more than it may");
        let account = (self.parts.more)().account();
        self.slots.push(Slot { row: self.parts.board.row(index), process: None, account });
        index
    }

    /// Makes the state of a process; called in that process.
    fn child(&mut self, index: usize, listeners: &mut Listeners) -> io::Result<Child> {
        let ProcessParts { more, runner, board, connections_max, processes_max } = &self.parts;
        let slot = &self.slots[index];
        let mut worker = self.worker.take().expect("each copy of this process takes it once");
        worker.use_account(&slot.account);
        let loop_context = LoopContext {
            runner: Arc::clone(runner),
            shared: Arc::new(Shared::new(1, ConnectionLimit::new(1))?),
            index: 0,
            placement: CpuPlacement::default(),
            sendfile: SendfileMode::NonBlocking,
            exclusive_wakeups: true,
            knobs: KnobValues::defaults(&[]), // the master has read them
            start_helper: crate::engine::no_helper_processes(),
        };
        let counters = Arc::clone(&worker.counters);
        let open_files = runner.open_files(vec![Arc::clone(worker.cache())]);
        let places = Places { board: board.clone(), row: slot.row };
        let bounds = Bounds::of_processes(*processes_max, Box::new(places));
        // Others will not come.
        let calls = CallPool::new(worker.applications(), 0, bounds, None);
        let signals = Arc::new(SignalDescriptor::new(&[CALL])?);
        let is_called = Arc::new(AtomicBool::new(false));
        let mut registry =
            Registry::new(&loop_context, Vec::new(), Arc::clone(more), counters, 1, calls);
        registry.summons = Some(Box::new(MasterCalls {
            signals: Arc::clone(&signals),
            board: board.clone(),
            is_called: Arc::clone(&is_called),
        }));
        registry.return_worker(worker);
        Ok(Child {
            registry,
            board: board.clone(),
            row: slot.row,
            signals,
            is_called,
            // The process owns them now: as long as it has one, the port is in use.
            listeners: listeners.take_sockets(),
            connections_max: *connections_max,
            is_untidy: false,
            open_files,
            keeps_connections: false,
        })
    }
}

impl Slot {
    fn send(&self, command: Command) {
        self.row.set_command(command);
        self.call();
    }

    fn call(&self) {
        self.process.iter().for_each(|process| process.signal(CALL));
    }
}

/// The cache budget of each process, given that of all: memory is divided. Entries are not, because
/// all processes have the same ones, and their memory is counted in bytes; nor are descriptors,
/// because each process has a table of its own.
fn own_budget(all: Budget, processes: usize) -> Budget {
    Budget { bytes: all.bytes / processes, ..all }
}
