//! Who has opened what, in a descriptor table that several processes share (`fork::Descriptors`).
//!
//! The kernel keeps no owner of a descriptor: what a killed process had open in a common table
//! stays open. So each process notes what it opens in shared memory, under the descriptor's number,
//! and one of them, which starts the others, closes what nobody living has noted ([`Sweeper`]).
//!
//! What was just opened is not noted yet, and what is about to be closed is noted no more. Such
//! moments lie within **windows**, which a process counts in shared memory: a short one around each
//! call that makes or closes a socket, and a long one from the end of a wait to the beginning of
//! the next ([`at_rest`]) for everything else. The rule by which a descriptor is closed follows
//! from that: *what is open at a moment at which no living process is within a window, and noted
//! by none of them, is nobody's, and stays so until it is closed.* Its opener, if it lived, would
//! have noted it before its window ended. Sockets need only the short windows, so that clients of a
//! dead process wait for nobody's disk. For other files it is enough that each living process has
//! been without a window at some moment since, if it is still the same open file (kcmp).
//!
//! A process that shares no table notes nothing, and nothing here costs it more than a load.

use crate::call::check;
use crate::shared_memory::{create_cells, map_cells};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

mod sweeper;

pub use sweeper::{Sweeper, Swept};

/// A table with more numbers than this is not worth the memory that notes on it take: the limit of
/// a container may be 2^30.
pub const NUMBERS_MAX: u64 = 1 << 20;

/// Cells of each process, on a cache line of their own.
const SEAT_CELLS: usize = 8;
/// The short windows: odd within one.
const SOCKETS: usize = 0;
/// The long ones.
const PASSES: usize = 1;
/// Cells before those of processes. The first counts what is lent.
const HEAD_CELLS: usize = 8;

/// What is noted of a descriptor: nobody's, or the number of a process, or one of these.
const NOBODY: u64 = 0;
const MANAGER: u64 = 1 << 32;
/// With the seat and the pass of who is about to close it: whoever looks twice, and not in the same
/// pass, sees whether it had an owner meanwhile.
const CLOSING: u64 = 1 << 62;
const SEAT_SHIFT: u32 = 40;
/// With the number of a loan.
const LENT: u64 = 1 << 63;

/// Notes on a table, in memory that all its processes share.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    cells: &'static [AtomicU64],
    seats: usize,
}

/// What is noted on behalf of the calling process.
struct Book {
    table: Table,
    /// None for the one that starts the others.
    seat: Option<usize>,
    owner: u64,
}

/// The book of this process, if it shares its table. Never freed: a process has one or two.
static BOOK: AtomicPtr<Book> = AtomicPtr::new(ptr::null_mut());

/// A descriptor that is noted for as long as this lives. Not for sockets.
#[derive(Debug)]
pub(crate) struct Noted(OwnedFd);

/// What is lent to all processes: see [`Table::lend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan(u64);

impl Table {
    /// Notes on the table of the calling process, which is going to share it with those that it
    /// starts, one in each seat. What is open now is its own, as is what it opens from now on.
    ///
    /// # Errors
    /// No memory, or /proc cannot be read.
    pub fn create(seats: usize) -> io::Result<(Self, Sweeper)> {
        let limit = crate::limits::cap_descriptor_limit(NUMBERS_MAX)?;
        let count = HEAD_CELLS + seats * SEAT_CELLS + limit as usize;
        let cells = map_cells(create_cells(count)?.as_fd())?;
        let table = Self { cells, seats };
        table.write_as(Book { table, seat: None, owner: MANAGER });
        let sweeper = Sweeper::new(table)?;
        sweeper.open_numbers()?.into_iter().for_each(|number| table.set(number, MANAGER));
        Ok((table, sweeper))
    }

    /// How many descriptors the table may have.
    #[must_use]
    pub fn numbers(self) -> usize {
        self.cells.len() - HEAD_CELLS - self.seats * SEAT_CELLS
    }

    /// Before a process is started in a seat: until its first rest nobody knows what it is about
    /// to note.
    pub fn expect(self, seat: usize) {
        for cell in [SOCKETS, PASSES] {
            let cell = self.window(seat, cell);
            let next = (cell.load(Ordering::SeqCst) + 2) | 1;
            cell.store(next, Ordering::SeqCst);
        }
    }

    /// Called in a process that was started: it notes from now on under its number, which no
    /// process before it has had.
    pub fn enter(self, seat: usize, number: u32) {
        self.write_as(Book { table: self, seat: Some(seat), owner: number.into() });
    }

    /// Notes that a descriptor of the caller belongs to the process with this number from now on.
    pub fn give(self, descriptor: BorrowedFd<'_>, number: u32) {
        self.set(descriptor.as_raw_fd(), number.into());
    }

    /// Lends an open file to all processes: they get copies of a copy that is nobody's, for as long
    /// as it has this loan. `told` learns the number before the loan begins: who finds it there
    /// after a death asks with the loan, which says no.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn lend(self, file: BorrowedFd<'_>, loan: Loan, told: impl Fn(u32)) -> io::Result<()> {
        let number = duplicate_raw(file)?;
        told(number.cast_unsigned());
        self.set(number, loan.0);
        Ok(())
    }

    /// A new loan, different from all others.
    #[must_use]
    pub fn loan(self) -> Loan {
        Loan(LENT | (self.cells[0].fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// A copy of what has this number, if it is lent by this loan. While it may be ended by
    /// another, both are to hold one lock.
    #[must_use]
    pub fn borrow(self, number: u32, loan: Loan) -> Option<OwnedFd> {
        let number = number.cast_signed();
        if self.get(number) != loan.0 {
            return None;
        }
        // SAFETY: the number is open: it was when the loan began, and only who ends the loan
        // closes it. The caller excludes that meanwhile.
        let lent = unsafe { BorrowedFd::borrow_raw(number) };
        duplicate(lent).ok()
    }

    /// Ends a loan of what has this number, unless it has ended.
    pub fn end_loan(self, number: u32, loan: Loan) {
        let number = number.cast_signed();
        let Some(cell) = self.note(number) else { return };
        let ended = cell.compare_exchange(loan.0, closing(), Ordering::SeqCst, Ordering::SeqCst);
        if ended.is_ok() {
            // SAFETY: what is lent is owned by the loan alone, which nobody else has ended.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }

    fn write_as(self, book: Book) {
        BOOK.store(Box::leak(Box::new(book)), Ordering::Release);
    }

    fn window(self, seat: usize, cell: usize) -> &'static AtomicU64 {
        &self.cells[HEAD_CELLS + seat * SEAT_CELLS + cell]
    }

    fn note(self, number: RawFd) -> Option<&'static AtomicU64> {
        let notes = &self.cells[HEAD_CELLS + self.seats * SEAT_CELLS..];
        usize::try_from(number).ok().and_then(|number| notes.get(number))
    }

    /// A number beyond the limit is never closed by others.
    fn set(self, number: RawFd, owner: u64) {
        if let Some(note) = self.note(number) {
            note.store(owner, Ordering::SeqCst);
        }
    }

    fn get(self, number: RawFd) -> u64 {
        self.note(number).map_or(MANAGER, |note| note.load(Ordering::SeqCst))
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

impl Noted {
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        note(descriptor.as_fd());
        Self(descriptor)
    }
}

impl AsFd for Noted {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Noted {
    #[inline]
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        forget(self.0.as_fd());
    }
}

fn book() -> Option<&'static Book> {
    // SAFETY: it is null, or a box that was leaked.
    unsafe { BOOK.load(Ordering::Acquire).as_ref() }
}

/// Notes that the calling process has opened this. What is not noted by the end of the pass in
/// which it was opened may be closed by others.
pub fn note(descriptor: BorrowedFd<'_>) {
    if let Some(book) = book() {
        book.table.set(descriptor.as_raw_fd(), book.owner);
    }
}

/// Notes that the calling process is about to close this, which is no socket, before its next rest.
pub fn forget(descriptor: BorrowedFd<'_>) {
    if let Some(book) = book() {
        book.table.set(descriptor.as_raw_fd(), closing());
    }
}

/// What the calling process notes of what it is about to close.
fn closing() -> u64 {
    let Some((seat, passes)) = book().and_then(|book| Some((book.seat?, window(PASSES)?))) else {
        return NOBODY; // it alone closes for others, and not while it does so for itself
    };
    let pass = passes.load(Ordering::SeqCst) & ((1 << SEAT_SHIFT) - 1);
    CLOSING | (seat as u64) << SEAT_SHIFT | pass
}

/// Closes a socket.
#[inline]
pub fn close_socket(socket: OwnedFd) {
    with_sockets(|| {
        forget(socket.as_fd());
        drop(socket);
    });
}

/// Another descriptor of the same open file.
pub fn duplicate(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    with_sockets(|| {
        let number = duplicate_raw(descriptor)?;
        // SAFETY: a new descriptor, which nothing else owns.
        let copy = unsafe { OwnedFd::from_raw_fd(number) };
        note(copy.as_fd());
        Ok(copy)
    })
}

/// Does what makes sockets and notes them, or closes some.
#[inline]
pub(crate) fn with_sockets<T>(work: impl FnOnce() -> T) -> T {
    let Some(window) = window(SOCKETS) else { return work() };
    // While the process starts it is within one long window.
    if window.load(Ordering::Relaxed) % 2 == 1 {
        return work();
    }
    window.fetch_add(1, Ordering::SeqCst);
    let outcome = work();
    window.fetch_add(1, Ordering::SeqCst);
    outcome
}

/// Waits. What the process has opened and keeps is noted now; it opens and closes nothing
/// meanwhile. Called by the one thread of it that opens and closes anything.
#[inline]
pub fn at_rest<T>(wait: impl FnOnce() -> T) -> T {
    let Some(passes) = window(PASSES) else { return wait() };
    let sockets = window(SOCKETS).expect("who has the one has the other");
    if sockets.load(Ordering::Relaxed) % 2 == 1 {
        sockets.fetch_add(1, Ordering::SeqCst); // it has started
    }
    passes.fetch_add(1, Ordering::SeqCst);
    let outcome = wait();
    passes.fetch_add(1, Ordering::SeqCst);
    outcome
}

#[inline]
fn window(cell: usize) -> Option<&'static AtomicU64> {
    let book = book()?;
    Some(book.table.window(book.seat?, cell))
}

fn duplicate_raw(descriptor: BorrowedFd<'_>) -> io::Result<RawFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes a number, and the descriptor is open because it is borrowed.
    check(unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) })
}

/// Lets go of a descriptor without closing it: another process has it now under the same number.
pub fn leave(descriptor: impl Into<OwnedFd>) {
    std::mem::forget(descriptor.into());
}

/// The descriptors of the process, as a directory.
fn list_of_descriptors() -> io::Result<File> {
    File::open("/proc/self/fd")
}
