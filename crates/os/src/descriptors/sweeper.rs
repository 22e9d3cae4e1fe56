//! Closes what dead processes have left in a table.

use super::{CLOSING, LENT, MANAGER, NOBODY, Noted, PASSES, SOCKETS, Table, duplicate_raw};
use crate::files::read_directory;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

/// So often it is tried to find a moment at which nobody makes or closes a socket. Such a window
/// lasts microseconds, unless its process has lost its CPU within.
const ATTEMPTS: u32 = 64;

/// So many files at most have a copy while it is waited for who might own them.
const SUSPECTS_MAX: usize = 64;

/// The one process that closes what nobody has. It starts the others, and has one thread.
pub struct Sweeper {
    table: Table,
    /// Open beforehand: when there is no descriptor left is when it is needed.
    listing: File,
    suspects: Vec<Suspect>,
}

/// An open file that no living process has noted.
struct Suspect {
    number: RawFd,
    /// What was noted of it.
    note: u64,
    /// The same open file.
    twin: Noted,
    /// The windows that living processes were in when it was open.
    windows: Vec<(usize, u64)>,
}

/// What came of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Descriptors closed.
    pub closed: usize,
    /// Descriptors that may be nobody's: sweep again.
    pub left: usize,
}

/// Who lives: the seat and the number of each process.
type Living<'l> = &'l [(usize, u32)];

impl Sweeper {
    pub(super) fn new(table: Table) -> io::Result<Self> {
        Ok(Self { table, listing: super::list_of_descriptors()?, suspects: Vec::new() })
    }

    /// Closes what is open and belongs to none of the `living`, which are all processes that share
    /// the table but the calling one. A process that is missing there loses what it has.
    ///
    /// # Errors
    /// The descriptors cannot be listed.
    pub fn sweep(&mut self, living: Living<'_>) -> io::Result<Swept> {
        let mut swept = Swept { closed: self.settle_suspects(living), left: 0 };
        for number in self.open_numbers()? {
            if self.is_owned(number, living) {
                continue;
            }
            if self.close_if_nobodys(number, living) {
                swept.closed += 1;
            } else if is_open(number) {
                swept.left += 1;
                self.suspect(number, living);
            }
        }
        Ok(swept)
    }

    /// The numbers of all open descriptors.
    pub(super) fn open_numbers(&self) -> io::Result<Vec<RawFd>> {
        let mut reader = read_directory(self.listing.as_fd())?;
        let mut numbers = Vec::new();
        while let Some(entry) = reader.next_entry()? {
            numbers.extend(
                str::from_utf8(entry.name).ok().and_then(|name| name.parse::<RawFd>().ok()),
            );
        }
        Ok(numbers)
    }

    fn is_owned(&self, number: RawFd, living: Living<'_>) -> bool {
        match self.table.get(number) {
            NOBODY => false,
            owner if owner & (LENT | CLOSING) == CLOSING => false,
            owner if owner == MANAGER || owner & LENT != 0 => true,
            owner => living.iter().any(|(_, number)| u64::from(*number) == owner),
        }
    }

    /// Closes a descriptor if no living process is within a window while it is looked at.
    fn close_if_nobodys(&self, number: RawFd, living: Living<'_>) -> bool {
        for _ in 0..ATTEMPTS {
            // For a socket the short windows are enough: it was made in one. The long ones are
            // enough for everything.
            let sockets = self.windows(SOCKETS, living);
            let passes = self.windows(PASSES, living);
            let Some(is_socket) = is_socket(number) else { return false };
            if self.is_owned(number, living) {
                return false;
            }
            let (cell, before) = if is_socket { (SOCKETS, sockets) } else { (PASSES, passes) };
            let is_quiet = before.iter().all(|(_, count)| count % 2 == 0);
            if is_quiet && self.windows(cell, living) == before {
                close(number);
                return true;
            }
            if !is_socket {
                return false; // passes are long
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Takes a copy of what may be nobody's, so that it can be told later whether it is still the
    /// same.
    fn suspect(&mut self, number: RawFd, living: Living<'_>) {
        let is_known = self.suspects.iter().any(|suspect| suspect.number == number);
        if is_known || self.suspects.len() == SUSPECTS_MAX || is_socket(number) != Some(false) {
            return;
        }
        let note = self.table.get(number);
        // SAFETY: the borrow lasts for one call, which refuses a number that is not open. What is
        // open now, and may be another's, gets a copy, which leaves the owner's as it is.
        let Ok(twin) = duplicate_raw(unsafe { BorrowedFd::borrow_raw(number) }) else { return };
        // SAFETY: a new descriptor, which nothing else owns.
        let twin = Noted::new(unsafe { OwnedFd::from_raw_fd(twin) });
        // Between the two looks it may have become a socket, whose windows are others.
        let windows = self.windows(PASSES, living);
        if is_socket(twin.as_raw_fd()) == Some(false) {
            self.suspects.push(Suspect { number, note, twin, windows });
        }
    }

    /// Closes the suspects that are still what they were, now that each process that lives has
    /// left the window in which it might have opened them. Returns how many.
    fn settle_suspects(&mut self, living: Living<'_>) -> usize {
        let mut closed = 0;
        for suspect in std::mem::take(&mut self.suspects) {
            if !self.have_left(&suspect.windows, living) {
                self.suspects.push(suspect);
            } else if is_same(suspect.number, suspect.twin.as_raw_fd())
                // Nobody has noted it meanwhile, not even to close it now.
                && self.table.get(suspect.number) == suspect.note
                && !self.is_owned(suspect.number, living)
            {
                close(suspect.number);
                closed += 1;
            }
        }
        closed
    }

    /// Whether all who live have been without a window since these were counted.
    fn have_left(&self, windows: &[(usize, u64)], living: Living<'_>) -> bool {
        windows.iter().all(|&(seat, count)| {
            let is_taken = living.iter().any(|(living, _)| *living == seat);
            let is_within = || self.table.window(seat, PASSES).load(Ordering::SeqCst) == count;
            count % 2 == 0 || !is_taken || !is_within()
        })
    }

    fn windows(&self, cell: usize, living: Living<'_>) -> Vec<(usize, u64)> {
        let count = |seat| self.table.window(seat, cell).load(Ordering::SeqCst);
        living.iter().map(|&(seat, _)| (seat, count(seat))).collect()
    }
}

/// Whether it is a socket; none if it is not open. It asks no file system, which may not answer for
/// long.
fn is_socket(number: RawFd) -> Option<bool> {
    let mut kind: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointers are to a live, writable int of this frame and to its length. Nothing
    // changes, whatever the number stands for.
    let returned = unsafe {
        let pointer = (&raw mut kind).cast();
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_TYPE, pointer, &raw mut len)
    };
    if returned == 0 { Some(true) } else { is_open(number).then_some(false) }
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: F_GETFD takes no pointers and changes nothing, whatever the number stands for.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// Whether both are the same open file (kcmp(2)); not if the kernel does not say.
fn is_same(one: RawFd, other: RawFd) -> bool {
    const KCMP_FILE: libc::c_int = 0;
    let own = std::process::id();
    // SAFETY: all arguments are numbers, and nothing changes.
    unsafe { libc::syscall(libc::SYS_kcmp, own, own, KCMP_FILE, one, other) == 0 }
}

/// Closes what belongs to nobody.
fn close(number: RawFd) {
    // SAFETY: no process that lives owns it, by the rule at the head of `descriptors.rs`, so that
    // none closes it, or uses it, or gets its number meanwhile.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
}
