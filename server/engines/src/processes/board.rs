//! The board, which Apache calls scoreboard: shared memory in which a master, its processes and the
//! process that started them read the states and the orders. Everything on it is a number that is
//! always consistent, so that a process may be killed at any moment.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use os::errors::{from_number, to_number};
use os::event::Wake;
use session::Tick;

use super::note::Note;
use crate::orders::{Order, Orders};

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The process waits for a connection, or will in a moment.
    Waiting = 0,
    /// The process serves a connection.
    Serving = 1,
    /// The process ends.
    Ending = 2,
}

/// A command of the master to one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    None = 0,
    /// End if you still wait for a connection: too many processes do.
    EndIfWaiting = 1,
    /// Close your connection if it still rests: others need a process.
    CloseIfResting = 2,
}

/// The board of one master.
#[derive(Clone)]
pub(super) struct Board {
    cells: &'static [AtomicU64],
    pub(super) orders: Orders<&'static AtomicU64>,
    /// Wakes the master. All processes share it.
    pub(super) wake: Arc<Wake>,
}

/// One process's part of the board: a cache line.
#[derive(Clone, Copy)]
pub(super) struct ProcessRow(&'static [AtomicU64]);

// The cells of the board.
const ORDERS: usize = 0;
/// The number of times at which a process may have become free.
const CHANGES: usize = 1;
/// The number of the error that the master ended with.
const FAILURE: usize = 2;
/// The number of notes so far.
const NOTED: usize = 3;
const NOTES: usize = 8;
const ROWS: usize = NOTES + NOTES_MAX;

/// The number of notes that are kept until they are read.
const NOTES_MAX: usize = 64;

// The cells of a row.
const ROW_CELLS: usize = 8;
const STATE: usize = 0;
const RESTS_SINCE: usize = 1;
const COMMAND: usize = 2;
/// The number of the error that the process ended with.
const ERROR: usize = 3;
/// The call of an application that the process has, or waits for.
const CALL: usize = 4;

impl Board {
    pub(super) fn new(processes_max: usize) -> io::Result<Self> {
        let file = os::shared_memory::create_cells(ROWS + processes_max * ROW_CELLS)?;
        let cells = os::shared_memory::map_cells(file.as_fd())?.leak();
        Ok(Self { cells, orders: Orders(&cells[ORDERS]), wake: Arc::new(Wake::new()?) })
    }

    /// Issues an order to the master, which passes it on to its processes.
    pub(super) fn order(&self, order: Order) {
        self.orders.issue(order);
        self.wake.notify();
    }

    /// Notifies the master that a process may be free for another connection.
    pub(super) fn change(&self) {
        self.cells[CHANGES].fetch_add(1, Ordering::AcqRel);
        self.wake.notify();
    }

    pub(super) fn changes(&self) -> u64 {
        self.cells[CHANGES].load(Ordering::Acquire)
    }

    /// Records why the master ends.
    pub(super) fn fail(&self, why: &io::Error) {
        self.cells[FAILURE].store(to_number(why), Ordering::Release);
    }

    pub(super) fn failure(&self) -> Option<io::Error> {
        from_number(self.cells[FAILURE].load(Ordering::Acquire))
    }

    /// Adds a note to the board. Only for the master.
    pub(super) fn note(&self, note: Note) {
        let noted = self.cells[NOTED].load(Ordering::Relaxed);
        self.cells[NOTES + noted as usize % NOTES_MAX].store(note.to_cell(), Ordering::Relaxed);
        self.cells[NOTED].store(noted + 1, Ordering::Release);
    }

    /// The notices after the first `seen` ones; adds their number to `seen`. If they are not read
    /// for long the oldest are dropped: a last line gives their number.
    pub(super) fn notes_since(&self, seen: &mut u64) -> Vec<String> {
        let noted = self.cells[NOTED].load(Ordering::Acquire);
        let first = noted.saturating_sub(NOTES_MAX as u64).max(*seen);
        let lost = first - *seen;
        *seen = noted;
        let at = |index: u64| &self.cells[NOTES + index as usize % NOTES_MAX];
        let note = |index| Note::from_cell(at(index).load(Ordering::Relaxed)).to_string();
        let lost = (lost > 0).then(|| format!("processes: {lost} earlier notices were dropped"));
        (first..noted).map(note).chain(lost).collect()
    }

    /// The number of processes that the board has room for.
    pub(super) fn rows(&self) -> usize {
        (self.cells.len() - ROWS) / ROW_CELLS
    }

    pub(super) fn row(&self, index: usize) -> ProcessRow {
        let start = ROWS + index * ROW_CELLS;
        ProcessRow(&self.cells[start..start + ROW_CELLS])
    }
}

/// The call of a process, as the others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    /// There is none.
    None = 0,
    /// It waits until the application may have another.
    Waiting = 1,
    InFlight = 2,
}

impl ProcessRow {
    /// Resets the row for a process that is about to be forked.
    pub(super) fn begin(self, state: State) {
        self.0[RESTS_SINCE].store(0, Ordering::Relaxed);
        self.0[COMMAND].store(Command::None as u64, Ordering::Relaxed);
        self.0[ERROR].store(0, Ordering::Relaxed);
        self.set_call(0, CallState::None);
        self.set_state(state);
    }

    /// Records the call of the process. All processes see these records in one order: two that take
    /// the last place at once both see it.
    pub(super) fn set_call(self, application: usize, state: CallState) {
        let cell = (application as u64) << 2 | state as u64;
        self.0[CALL].store(cell, Ordering::SeqCst);
    }

    /// The state of the process's call of this application.
    pub(super) fn call(self, application: usize) -> CallState {
        let cell = self.0[CALL].load(Ordering::SeqCst);
        match cell & 3 {
            _ if cell >> 2 != application as u64 => CallState::None,
            1 => CallState::Waiting,
            2 => CallState::InFlight,
            _ => CallState::None,
        }
    }

    /// Records the state. A process that waits again looks for orders after it, and the master for
    /// processes that wait after an order: one of them sees the other.
    pub(super) fn set_state(self, state: State) {
        self.0[STATE].store(state as u64, Ordering::SeqCst);
    }

    pub(super) fn state(self) -> State {
        match self.0[STATE].load(Ordering::SeqCst) {
            0 => State::Waiting,
            1 => State::Serving,
            _ => State::Ending,
        }
    }

    /// Records since when the process's connection rests; none if it does not.
    pub(super) fn rest(self, since: Option<Tick>) {
        self.0[RESTS_SINCE].store(since.map_or(0, |tick| tick.0.max(1)), Ordering::Release);
    }

    pub(super) fn rests_since(self) -> Option<Tick> {
        let since = self.0[RESTS_SINCE].load(Ordering::Acquire);
        (since != 0).then_some(Tick(since))
    }

    pub(super) fn set_command(self, command: Command) {
        self.0[COMMAND].store(command as u64, Ordering::Release);
    }

    pub(super) fn command(self) -> Command {
        match self.0[COMMAND].load(Ordering::Acquire) {
            0 => Command::None,
            1 => Command::EndIfWaiting,
            _ => Command::CloseIfResting,
        }
    }

    /// Records why the process ends.
    pub(super) fn fail(self, why: &io::Error) {
        self.0[ERROR].store(to_number(why), Ordering::Release);
    }

    /// The number of the error that the process ended with; 0 if there was none.
    pub(super) fn error(self) -> u64 {
        self.0[ERROR].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::fork::Ended;

    #[test]
    fn notes_are_read_once_and_lost_notes_are_counted() {
        let board = Board::new(2).unwrap();
        let mut seen = 0;
        assert_eq!(board.notes_since(&mut seen), [""; 0]);
        board.note(Note::ended(7, Ended::Signal(9), 0, true));
        let expected = "processes: process 7 was killed by signal 9: its connection is lost";
        assert_eq!(board.notes_since(&mut seen), [expected]);
        assert_eq!(board.notes_since(&mut seen), [""; 0]);
        for pid in 0..NOTES_MAX as u32 + 3 {
            board.note(Note::ended(pid, Ended::Exit(1), 0, false));
        }
        let notes = board.notes_since(&mut seen);
        assert_eq!(notes.len(), NOTES_MAX + 1);
        assert_eq!(notes[0], "processes: process 3 ended with status 1: it had no connection");
        assert_eq!(notes[NOTES_MAX], "processes: 3 earlier notices were dropped");
    }

    #[test]
    fn rows_do_not_overlap_and_begin_anew() {
        let board = Board::new(2).unwrap();
        assert_eq!(board.rows(), 2);
        let (first, second) = (board.row(0), board.row(1));
        first.begin(State::Serving);
        first.rest(Some(Tick(0)));
        first.set_command(Command::CloseIfResting);
        first.fail(&io::Error::from_raw_os_error(24));
        second.begin(State::Ending);
        let shown = |row: ProcessRow| (row.state(), row.rests_since(), row.command(), row.error());
        assert_eq!(shown(first), (State::Serving, Some(Tick(1)), Command::CloseIfResting, 24));
        assert_eq!(shown(second), (State::Ending, None, Command::None, 0));
        first.begin(State::Waiting);
        assert_eq!(shown(first), (State::Waiting, None, Command::None, 0));
        assert!(!board.orders.is_any_issued() && board.failure().is_none());
        board.order(Order::Drain);
        board.fail(&io::Error::from_raw_os_error(12));
        let is_issued = |order| board.orders.is_issued(order);
        assert!(is_issued(Order::Drain) && !is_issued(Order::Abort));
        assert_eq!(board.failure().unwrap().raw_os_error(), Some(12));
        assert_eq!(board.changes(), 0);
        board.change();
        assert_eq!(board.changes(), 1);
    }
}
