//! The processes of a master: forked, counted, told what to do, and taken leave of. How many there
//! should be, the master decides.

use std::io;
use std::sync::Arc;

use file_cache::Budget;
use os::fork::{Child as Process, Ended};
use os::limits::ThreadRoom;
use os::signals::{Signal, SignalDescriptor};
use session::{Account, Tick, Worker};

use super::board::{Board, Row, State, Wish};
use super::child::Child;
use super::note::Note;
use crate::engine::{MakeWorker, SendfileMode};
use crate::jobs::Runner;
use crate::knobs::KnobValues;
use crate::parts::accept::listeners::Listeners;
use crate::parts::kernel_threads::registry::Registry;
use crate::parts::loops::cpu_placement::CpuPlacement;
use crate::parts::loops::{LoopContext, Shared};

/// What has it that a process looks at the board.
const CALL: Signal = Signal::User1;

/// How long a connection may rest though others wait for its process: its client has just been
/// accepted or answered, and is about to ask. If all were closed for the next, nobody would be
/// served.
const REST_MS: u64 = 100;

/// What processes are made of.
pub(super) struct Materials {
    pub(super) more: MakeWorker,
    pub(super) runner: Arc<Runner>,
    pub(super) board: Board,
    /// Connections that a process serves, at most.
    pub(super) connections_max: u64,
    /// Processes at once, at most: so many share the memory that the cache may take.
    pub(super) processes_max: usize,
}

/// The processes of a master.
pub(super) struct Pool {
    materials: Materials,
    /// Each process works with a copy of it. The master never does: it is to have as little in
    /// memory as it can, for what a process puts into the gaps makes the page its own.
    worker: Option<Box<Worker>>,
    slots: Vec<Slot>,
    /// Tells that a process has ended.
    pub(super) signals: SignalDescriptor,
    alive: usize,
    room: ThreadRoom,
    /// Whether those that end now are meant to.
    is_killing: bool,
}

/// A slot, in which a process is or can be.
struct Slot {
    row: Row,
    process: Option<Process>,
    /// The account on which each process in the slot books.
    account: Account,
}

/// The processes that have ended since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reaped {
    pub(super) count: usize,
    /// Whether one of them has failed by itself, as the next one may.
    pub(super) has_failed: bool,
}

impl Pool {
    /// Processes work with copies of `worker`.
    pub(super) fn new(materials: Materials, mut worker: Worker) -> io::Result<Self> {
        let budget = own_budget(worker.cache().budget(), materials.processes_max);
        worker.use_cache(Arc::new(worker.cache().emptied(budget)));
        let worker = Some(Box::new(worker));
        // The call is blocked here so that it is in each process, from its beginning.
        let signals = SignalDescriptor::new(&[Signal::Child, CALL])?;
        let room = ThreadRoom::default();
        let slots = Vec::new();
        Ok(Self { materials, worker, slots, signals, alive: 0, room, is_killing: false })
    }

    pub(super) fn alive(&self) -> usize {
        self.alive
    }

    /// How many wait for a connection, or will in a moment.
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

    /// Takes leave of processes that have ended.
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
                self.materials.board.note(note);
                reaped.has_failed |= matches!(how, Ended::Exit(_));
            }
            slot.row.rest(None);
            slot.account.forget_process();
            if how != Ended::Exit(0) {
                // It may have been woken for an arrival, which nobody else was woken for.
                self.call_all();
            }
        }
        Ok(reaped)
    }

    /// Has the process whose connection has rested longest close it, if one has rested for a while
    /// and was not told so already. Otherwise returns when one will have.
    pub(super) fn free_resting(&self, now: Tick) -> Option<Tick> {
        let untold = self.living().filter(|slot| slot.row.wished() == Wish::Nothing);
        let resting = untold.filter_map(|slot| Some((slot.row.rests_since()?, slot)));
        let (since, slot) = resting.min_by_key(|(since, _)| *since)?;
        let at = since.plus_ms(REST_MS);
        if at > now {
            return Some(at);
        }
        slot.tell(Wish::CloseIfResting);
        None
    }

    /// Has one that waits for a connection end, if none was told so already.
    pub(super) fn end_one_waiting(&self) {
        let mut waiting = self.living().filter(|slot| slot.row.state() == State::Waiting);
        let is_told = |slot: &Slot| slot.row.wished() == Wish::EndIfWaiting;
        if let Some(slot) = waiting.next()
            && !is_told(slot)
        {
            slot.tell(Wish::EndIfWaiting);
        }
    }

    /// Has all of them look at the board.
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
        assert!(index < self.materials.board.rows(), "the master forks no more than it may");
        let account = (self.materials.more)().account();
        self.slots.push(Slot { row: self.materials.board.row(index), process: None, account });
        index
    }

    /// What a process has, made in the process.
    fn child(&mut self, index: usize, listeners: &mut Listeners) -> io::Result<Child> {
        let Materials { more, runner, board, connections_max, .. } = &self.materials;
        let slot = &self.slots[index];
        let mut worker = self.worker.take().expect("each copy of this process takes it once");
        worker.use_account(&slot.account);
        let loop_context = LoopContext {
            runner: Arc::clone(runner),
            shared: Arc::new(Shared::new(1, 1)?),
            index: 0,
            placement: CpuPlacement::default(),
            sendfile: SendfileMode::NonBlocking,
            exclusive_wakeups: true,
            knobs: KnobValues::defaults(&[]), // the master has asked for them
            start_helper: crate::engine::no_helper_processes(),
        };
        let counters = Arc::clone(&worker.counters);
        let open_files = runner.open_files(vec![Arc::clone(worker.cache())]);
        let registry = Registry::new(&loop_context, Vec::new(), Arc::clone(more), counters, 1);
        registry.give_worker(worker);
        Ok(Child {
            registry,
            board: board.clone(),
            row: slot.row,
            signals: SignalDescriptor::new(&[CALL])?,
            // They are the process's now: while it has one, its port is in use.
            listeners: listeners.take_sockets(),
            connections_max: *connections_max,
            is_untidy: false,
            open_files,
        })
    }
}

impl Slot {
    fn tell(&self, wish: Wish) {
        self.row.wish(wish);
        self.call();
    }

    fn call(&self) {
        self.process.iter().for_each(|process| process.signal(CALL));
    }
}

/// What each process may keep, of what all of them may: memory is divided. Entries are not, for
/// they are the same in all, and what they take is counted in bytes; nor are descriptors, for each
/// has a table of its own.
fn own_budget(all: Budget, processes: usize) -> Budget {
    Budget { bytes: all.bytes / processes, ..all }
}
