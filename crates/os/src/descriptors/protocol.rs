//! The steps by which the descriptors of a common table change owners. Pure: where notes are kept
//! is a [`Cells`], and who duplicates and closes is a [`Kernel`], so that a model checker can
//! provide both. Nothing here is of use to others.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

pub use super::sweeper::{Sweeper, Swept};

/// Cells of each process, on a cache line of their own.
const SEAT_CELLS: usize = 8;
/// The short windows: odd within one.
pub(super) const SOCKETS: usize = 0;
/// The long ones.
pub(super) const PASSES: usize = 1;
/// Cells before those of processes. The first counts what is lent.
const HEAD_CELLS: usize = 8;

/// What is noted of a descriptor: nobody's, or the number of a process, or one of these.
pub(super) const NOBODY: u64 = 0;
pub(super) const MANAGER: u64 = 1 << 32;
/// With the seat and the pass of who is about to close it: whoever looks twice, and not in the same
/// pass, sees whether it had an owner meanwhile.
pub(super) const CLOSING: u64 = 1 << 62;
const SEAT_SHIFT: u32 = 40;
/// With the number of a loan.
pub(super) const LENT: u64 = 1 << 63;

/// Numbers that processes share, 0 at the beginning. Each change is seen by all in one order.
pub trait Cells {
    /// How many there are.
    fn count(&self) -> usize;
    /// The number in a cell.
    fn load(&self, cell: usize) -> u64;
    /// Puts a number into a cell.
    fn store(&self, cell: usize, value: u64);
    /// Adds to the number in a cell. Returns what it was.
    fn add(&self, cell: usize, value: u64) -> u64;
    /// Replaces the number in a cell if it is `current`; whether it was.
    fn exchange(&self, cell: usize, current: u64, new: u64) -> bool;
}

/// What is asked of the kernel. Each number is a descriptor of the common table, if it is one.
pub trait Kernel {
    /// So often it is tried to find a moment at which nobody makes or closes a socket.
    const ATTEMPTS: u32;

    /// Another descriptor of the same open file.
    ///
    /// # Errors
    /// It is not open, or no descriptor is left.
    fn duplicate(&self, number: RawFd) -> io::Result<RawFd>;
    /// Closes a descriptor, whosever it is.
    fn close(&self, number: RawFd);
    /// Whether it is a socket; none if it is not open.
    fn is_socket(&self, number: RawFd) -> Option<bool>;
    /// Whether both are the same open file; none if the kernel does not say.
    fn is_same(&self, one: RawFd, other: RawFd) -> Option<bool>;
}

/// Who lives: the seat and the number of each process.
pub type Living<'l> = &'l [(usize, u32)];

/// Notes on the descriptors of a common table.
#[derive(Clone, Copy, Debug)]
pub struct Notes<C> {
    cells: C,
    seats: usize,
}

/// What is noted on behalf of one process.
#[derive(Clone, Debug)]
pub struct Book<C> {
    pub(super) notes: Notes<C>,
    /// None for the one that starts the others.
    seat: Option<usize>,
    owner: u64,
}

/// What is lent to all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan(u64);

impl Cells for &'static [AtomicU64] {
    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn load(&self, cell: usize) -> u64 {
        self[cell].load(Ordering::SeqCst)
    }

    #[inline]
    fn store(&self, cell: usize, value: u64) {
        self[cell].store(value, Ordering::SeqCst);
    }

    #[inline]
    fn add(&self, cell: usize, value: u64) -> u64 {
        self[cell].fetch_add(value, Ordering::SeqCst)
    }

    #[inline]
    fn exchange(&self, cell: usize, current: u64, new: u64) -> bool {
        let order = Ordering::SeqCst;
        self[cell].compare_exchange(current, new, order, order).is_ok()
    }
}

impl<C: Cells> Notes<C> {
    /// How many cells notes take.
    #[must_use]
    pub fn cells(seats: usize, numbers: usize) -> usize {
        HEAD_CELLS + seats * SEAT_CELLS + numbers
    }

    /// The notes in `cells`.
    pub fn new(cells: C, seats: usize) -> Self {
        Self { cells, seats }
    }

    /// How many descriptors there are notes on.
    pub fn numbers(&self) -> usize {
        self.cells.count() - Self::cells(self.seats, 0)
    }

    /// Before a process is started in a seat: until its first rest nobody knows what it is about
    /// to note.
    pub fn expect(&self, seat: usize) {
        for kind in [SOCKETS, PASSES] {
            let window = self.window(seat, kind);
            self.cells.store(window, (self.cells.load(window) + 2) | 1);
        }
    }

    /// The book of the process that starts the others.
    pub fn book_of_manager(self) -> Book<C> {
        Book { notes: self, seat: None, owner: MANAGER }
    }

    /// The book of a process in a seat, with a number that none before it has had.
    pub fn book(self, seat: usize, number: u32) -> Book<C> {
        Book { notes: self, seat: Some(seat), owner: number.into() }
    }

    /// Notes that a descriptor of the caller belongs to the process with this number from now on.
    pub fn give(&self, descriptor: RawFd, number: u32) {
        self.set(descriptor, number.into());
    }

    /// A new loan, different from all others.
    pub fn loan(&self) -> Loan {
        Loan(LENT | (self.cells.add(0, 1) + 1))
    }

    /// The windows of one kind that a process has begun and ended.
    #[inline]
    pub(super) fn windows(&self, seat: usize, kind: usize) -> u64 {
        self.cells.load(self.window(seat, kind))
    }

    /// A number beyond the limit is never closed by others.
    pub(super) fn get(&self, number: RawFd) -> u64 {
        self.cell(number).map_or(MANAGER, |cell| self.cells.load(cell))
    }

    fn set(&self, number: RawFd, owner: u64) {
        if let Some(cell) = self.cell(number) {
            self.cells.store(cell, owner);
        }
    }

    fn cell(&self, number: RawFd) -> Option<usize> {
        let number = usize::try_from(number).ok()?;
        (number < self.numbers()).then(|| Self::cells(self.seats, number))
    }

    #[inline]
    fn window(&self, seat: usize, kind: usize) -> usize {
        HEAD_CELLS + seat * SEAT_CELLS + kind
    }
}

impl<C: Cells> Book<C> {
    /// Notes that the process has opened this.
    pub fn note(&self, number: RawFd) {
        self.notes.set(number, self.owner);
    }

    /// Notes that the process is about to close this, which is no socket, before its next rest.
    pub fn forget(&self, number: RawFd) {
        self.notes.set(number, self.closing());
    }

    /// Closes a socket.
    #[inline]
    pub fn close_socket(&self, kernel: &impl Kernel, number: RawFd) {
        self.with_sockets(|| {
            self.forget(number);
            kernel.close(number);
        });
    }

    /// Another descriptor of the same open file.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn duplicate(&self, kernel: &impl Kernel, number: RawFd) -> io::Result<RawFd> {
        self.with_sockets(|| {
            let copy = kernel.duplicate(number)?;
            self.note(copy);
            Ok(copy)
        })
    }

    /// Lends an open file: see [`super::Table::lend`].
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn lend(
        &self,
        kernel: &impl Kernel,
        number: RawFd,
        loan: Loan,
        told: impl Fn(u32),
    ) -> io::Result<()> {
        let copy = kernel.duplicate(number)?;
        told(copy.cast_unsigned());
        self.notes.set(copy, loan.0);
        Ok(())
    }

    /// A copy of what has this number, if it is lent by this loan. While it may be ended by
    /// another, both are to hold one lock.
    pub fn borrow(&self, kernel: &impl Kernel, number: u32, loan: Loan) -> Option<RawFd> {
        // It is open: it was when the loan began, and only who ends the loan closes it. The caller
        // excludes that meanwhile.
        let copy = || self.duplicate(kernel, number.cast_signed()).ok();
        self.is_lent(number, loan).then(copy).flatten()
    }

    /// Whether what has this number is lent by this loan. While it may be ended by another, both
    /// are to hold one lock.
    pub fn is_lent(&self, number: u32, loan: Loan) -> bool {
        self.notes.get(number.cast_signed()) == loan.0
    }

    /// Ends a loan of what has this number, unless it has ended. If it had not, the caller is to
    /// close what it was of, before its next rest: it was owned by the loan alone.
    #[must_use]
    pub fn end_loan(&self, number: u32, loan: Loan) -> bool {
        let cell = self.notes.cell(number.cast_signed());
        cell.is_some_and(|cell| self.notes.cells.exchange(cell, loan.0, self.closing()))
    }

    /// Does what makes sockets and notes them, or closes some.
    #[inline]
    pub fn with_sockets<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(window) = self.window(SOCKETS) else { return work() };
        // While the process starts it is within one long window.
        if self.notes.cells.load(window) % 2 == 1 {
            return work();
        }
        self.notes.cells.add(window, 1);
        let outcome = work();
        self.notes.cells.add(window, 1);
        outcome
    }

    /// Waits. What the process has opened and keeps is noted now; it opens and closes nothing
    /// meanwhile.
    #[inline]
    pub fn at_rest<T>(&self, wait: impl FnOnce() -> T) -> T {
        let windows = (self.window(SOCKETS), self.window(PASSES));
        let (Some(sockets), Some(passes)) = windows else { return wait() };
        if self.notes.cells.load(sockets) % 2 == 1 {
            self.notes.cells.add(sockets, 1); // it has started
        }
        self.notes.cells.add(passes, 1);
        let outcome = wait();
        self.notes.cells.add(passes, 1);
        outcome
    }

    /// What the process notes of what it is about to close.
    fn closing(&self) -> u64 {
        let Some(seat) = self.seat else {
            return NOBODY; // it alone closes for others, and not while it does so for itself
        };
        let pass = self.notes.windows(seat, PASSES) & ((1 << SEAT_SHIFT) - 1);
        CLOSING | (seat as u64) << SEAT_SHIFT | pass
    }

    #[inline]
    fn window(&self, kind: usize) -> Option<usize> {
        Some(self.notes.window(self.seat?, kind))
    }
}

impl Loan {
    /// The loan as a number of at most 40 bits, to be kept somewhere.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0 & !LENT
    }

    /// The loan of that number.
    #[must_use]
    pub fn of(number: u64) -> Self {
        Self(LENT | number)
    }
}
