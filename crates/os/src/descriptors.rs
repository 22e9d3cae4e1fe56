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

use crate::files::{is_unlinked, read_directory};
use crate::shared_memory::{create_cells, map_cells};
use protocol::{Book, Living, Notes};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use linux::Linux;

mod linux;
pub mod protocol;
mod sweeper;

pub use protocol::Loan;
pub use sweeper::Swept;

/// A table with more numbers than this is not worth the memory that notes on it take: the limit of
/// a container may be 2^30.
pub const NUMBERS_MAX: u64 = 1 << 20;

/// Where notes are kept.
type Shared = &'static [AtomicU64];

/// Notes on a table, in memory that all its processes share.
#[derive(Clone, Copy, Debug)]
pub struct Table(Notes<Shared>);

/// The book of this process, if it shares its table. Never freed: a process has one or two.
static BOOK: AtomicPtr<Book<Shared>> = AtomicPtr::new(ptr::null_mut());

/// A descriptor that is noted for as long as this lives. Not for sockets.
#[derive(Debug)]
pub(crate) struct Noted(OwnedFd);

/// The one process that closes what nobody has. It starts the others, and has one thread.
pub struct Sweeper {
    inner: sweeper::Sweeper<Shared, Linux>,
    /// Open beforehand: when there is no descriptor left is when it is needed.
    listing: File,
}

impl Table {
    /// Notes on the table of the calling process, which is going to share it with those that it
    /// starts, one in each seat. What is open now is its own, as is what it opens from now on.
    ///
    /// # Errors
    /// No memory, or /proc cannot be read.
    pub fn create(seats: usize) -> io::Result<(Self, Sweeper)> {
        let limit = crate::limits::cap_descriptor_limit(NUMBERS_MAX)?;
        let count = Notes::<Shared>::cells(seats, limit as usize);
        let notes = Notes::new(map_cells(create_cells(count)?.as_fd())?, seats);
        let book = notes.book_of_manager();
        write_in(book.clone());
        let inner = sweeper::Sweeper::new(book.clone(), Linux);
        let sweeper = Sweeper { inner, listing: File::open("/proc/self/fd")? };
        sweeper.open_numbers()?.into_iter().for_each(|number| book.note(number));
        Ok((Self(notes), sweeper))
    }

    /// How many descriptors the table may have.
    #[must_use]
    pub fn numbers(self) -> usize {
        self.0.numbers()
    }

    /// Before a process is started in a seat: until its first rest nobody knows what it is about
    /// to note.
    pub fn expect(self, seat: usize) {
        self.0.expect(seat);
    }

    /// Called in a process that was started: it notes from now on under its number, which no
    /// process before it has had.
    pub fn enter(self, seat: usize, number: u32) {
        write_in(self.0.book(seat, number));
    }

    /// Notes that a descriptor of the caller belongs to the process with this number from now on.
    pub fn give(self, descriptor: BorrowedFd<'_>, number: u32) {
        self.0.give(descriptor.as_raw_fd(), number);
    }

    /// Lends an open file to all processes: they get copies of a copy that is nobody's, for as long
    /// as it has this loan. `told` learns the number before the loan begins: who finds it there
    /// after a death asks with the loan, which says no.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn lend(self, file: BorrowedFd<'_>, loan: Loan, told: impl Fn(u32)) -> io::Result<()> {
        own_book().lend(&Linux, file.as_raw_fd(), loan, told)
    }

    /// A new loan, different from all others.
    #[must_use]
    pub fn loan(self) -> Loan {
        self.0.loan()
    }

    /// A copy of what has this number, if it is lent by this loan. While it may be ended by
    /// another, both are to hold one lock.
    #[must_use]
    pub fn borrow(self, number: u32, loan: Loan) -> Option<OwnedFd> {
        let copy = own_book().borrow(&Linux, number, loan)?;
        // SAFETY: a new descriptor, which nothing else owns.
        Some(unsafe { OwnedFd::from_raw_fd(copy) })
    }

    /// Whether what has this number, if it is lent by this loan, is a file without a name: see
    /// [`is_unlinked`]. While the loan may be ended by another, both are to hold one lock.
    #[must_use]
    pub fn is_unlinked(self, number: u32, loan: Loan) -> bool {
        // SAFETY: what is lent is open until the loan ends, which the caller excludes meanwhile.
        let is_unlinked = || is_unlinked(unsafe { BorrowedFd::borrow_raw(number.cast_signed()) });
        own_book().is_lent(number, loan) && is_unlinked()
    }

    /// Ends a loan of what has this number, unless it has ended. What comes back is to be dropped
    /// before the caller's next rest, and no lock is needed for that: closing may wait for a disk.
    #[must_use]
    pub fn end_loan(self, number: u32, loan: Loan) -> Option<OwnedFd> {
        let is_ours = own_book().end_loan(number, loan);
        // SAFETY: it was owned by the loan alone, which nobody else has ended.
        is_ours.then(|| unsafe { OwnedFd::from_raw_fd(number.cast_signed()) })
    }
}

impl Sweeper {
    /// Closes what is open and belongs to none of the `living`, which are all processes that share
    /// the table but the calling one. A process that is missing there loses what it has.
    ///
    /// # Errors
    /// The descriptors cannot be listed.
    pub fn sweep(&mut self, living: Living<'_>) -> io::Result<Swept> {
        let numbers = self.open_numbers()?;
        Ok(self.inner.sweep(&numbers, living))
    }

    /// The numbers of all open descriptors.
    fn open_numbers(&self) -> io::Result<Vec<RawFd>> {
        let mut reader = read_directory(self.listing.as_fd())?;
        let mut numbers = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            numbers.extend(
                str::from_utf8(entry.name).ok().and_then(|name| name.parse::<RawFd>().ok()),
            );
        }
        Ok(numbers)
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

fn write_in(book: Book<Shared>) {
    BOOK.store(Box::leak(Box::new(book)), Ordering::Release);
}

#[inline]
fn book() -> Option<&'static Book<Shared>> {
    // SAFETY: it is null, or a box that was leaked.
    unsafe { BOOK.load(Ordering::Acquire).as_ref() }
}

/// The book of a process that has a table.
fn own_book() -> &'static Book<Shared> {
    book().expect("who makes a table or enters one has a book from then on")
}

/// Notes that the calling process has opened this. What is not noted by the end of the pass in
/// which it was opened may be closed by others.
pub fn note(descriptor: BorrowedFd<'_>) {
    if let Some(book) = book() {
        book.note(descriptor.as_raw_fd());
    }
}

/// Notes that the calling process is about to close this, which is no socket, before its next rest.
pub fn forget(descriptor: BorrowedFd<'_>) {
    if let Some(book) = book() {
        book.forget(descriptor.as_raw_fd());
    }
}

/// Closes a socket.
#[inline]
pub fn close_socket(socket: OwnedFd) {
    match book() {
        Some(book) => book.close_socket(&Linux, socket.into_raw_fd()),
        None => drop(socket),
    }
}

/// Another descriptor of the same open file.
pub fn duplicate(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let number = match book() {
        Some(book) => book.duplicate(&Linux, descriptor.as_raw_fd())?,
        None => linux::duplicate(descriptor.as_raw_fd())?,
    };
    // SAFETY: a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Does what makes sockets and notes them, or closes some.
#[inline]
pub(crate) fn with_sockets<T>(work: impl FnOnce() -> T) -> T {
    match book() {
        Some(book) => book.with_sockets(work),
        None => work(),
    }
}

/// Waits. What the process has opened and keeps is noted now; it opens and closes nothing
/// meanwhile. Called by the one thread of it that opens and closes anything.
#[inline]
pub fn at_rest<T>(wait: impl FnOnce() -> T) -> T {
    match book() {
        Some(book) => book.at_rest(wait),
        None => wait(),
    }
}

/// Lets go of a descriptor without closing it: another process has it now under the same number.
pub fn leave(descriptor: impl Into<OwnedFd>) {
    std::mem::forget(descriptor.into());
}
