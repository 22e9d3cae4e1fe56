//! Closes what dead processes have left in a table.

use super::protocol::{
    Book, CLOSING, Cells, Kernel, LENT, Living, MANAGER, NOBODY, PASSES, SOCKETS,
};
use std::collections::BTreeSet;
use std::os::fd::RawFd;

/// So many files at most have a copy while it is waited for who might own them.
const SUSPECTS_MAX: usize = 64;

/// The one process that closes what nobody has. It starts the others, and has one thread.
pub struct Sweeper<C: Cells, K: Kernel> {
    /// Its own.
    book: Book<C>,
    kernel: K,
    suspects: Vec<Suspect>,
    /// Those of which the kernel has not said whether they are still what they were.
    unjudged: BTreeSet<RawFd>,
}

/// An open file that no living process has noted.
struct Suspect {
    number: RawFd,
    /// What was noted of it: nobody who lives.
    note: u64,
    /// The same open file.
    twin: RawFd,
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
    /// Of these, those of which the kernel has refused to say (kcmp) whether they are still what
    /// they were, and which no sweep before has counted. They wait for a moment of rest.
    pub unjudged: usize,
}

impl<C: Cells, K: Kernel> Sweeper<C, K> {
    /// The sweeper with the book of the process that starts the others.
    pub fn new(book: Book<C>, kernel: K) -> Self {
        Self { book, kernel, suspects: Vec::new(), unjudged: BTreeSet::new() }
    }

    /// Closes which of these are open and belong to none of the `living`, which are all processes
    /// that share the table but the calling one. A process that is missing there loses what it has.
    pub fn sweep(&mut self, numbers: &[RawFd], living: Living<'_>) -> Swept {
        let mut swept = Swept::default();
        self.settle_suspects(living, &mut swept);
        let mut left = BTreeSet::new();
        for &number in numbers {
            if self.is_owned(number, living) {
                continue;
            }
            if self.close_if_nobodys(number, living) {
                swept.closed += 1;
                continue;
            }
            let note = self.book.notes.get(number);
            // What has an owner now may be closed by it at any time.
            if self.kernel.is_socket(number).is_some() && !is_owner(note, living) {
                swept.left += 1;
                left.insert(number);
                self.suspect(number, note, living);
            }
        }
        self.unjudged.retain(|number| left.contains(number));
        swept
    }

    fn is_owned(&self, number: RawFd, living: Living<'_>) -> bool {
        is_owner(self.book.notes.get(number), living)
    }

    /// Closes a descriptor if no living process is within a window while it is looked at.
    fn close_if_nobodys(&self, number: RawFd, living: Living<'_>) -> bool {
        for _ in 0..K::ATTEMPTS {
            // For a socket the short windows are enough: it was made in one. The long ones are
            // enough for everything.
            let sockets = self.windows(SOCKETS, living);
            let passes = self.windows(PASSES, living);
            let Some(is_socket) = self.kernel.is_socket(number) else { return false };
            if self.is_owned(number, living) {
                return false;
            }
            let (kind, before) = if is_socket { (SOCKETS, sockets) } else { (PASSES, passes) };
            let is_quiet = before.iter().all(|(_, count)| count % 2 == 0);
            if is_quiet && self.windows(kind, living) == before {
                self.kernel.close(number);
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
    /// same. What is open now, and may be another's, is left as it is.
    fn suspect(&mut self, number: RawFd, note: u64, living: Living<'_>) {
        let is_known = self.suspects.iter().any(|suspect| suspect.number == number)
            || self.unjudged.contains(&number);
        let has_room = self.suspects.len() < SUSPECTS_MAX;
        if is_known || !has_room || self.kernel.is_socket(number) != Some(false) {
            return;
        }
        let Ok(twin) = self.book.duplicate(&self.kernel, number) else { return };
        // Between the two looks it may have become a socket, whose windows are others.
        let windows = self.windows(PASSES, living);
        if self.kernel.is_socket(twin) == Some(false) {
            self.suspects.push(Suspect { number, note, twin, windows });
        } else {
            self.release(twin);
        }
    }

    /// Closes the suspects that are still what they were, now that each process that lives has
    /// left the window in which it might have opened them.
    fn settle_suspects(&mut self, living: Living<'_>, swept: &mut Swept) {
        for suspect in std::mem::take(&mut self.suspects) {
            if !self.have_left(&suspect.windows, living) {
                self.suspects.push(suspect);
                continue;
            }
            match self.kernel.is_same(suspect.number, suspect.twin) {
                // Nobody has noted it meanwhile, not even to close it now.
                Some(true) if self.book.notes.get(suspect.number) == suspect.note => {
                    self.kernel.close(suspect.number);
                    swept.closed += 1;
                }
                Some(_) => {}
                None => swept.unjudged += usize::from(self.unjudged.insert(suspect.number)),
            }
            self.release(suspect.twin);
        }
    }

    /// Closes a copy.
    fn release(&self, twin: RawFd) {
        self.book.forget(twin);
        self.kernel.close(twin);
    }

    /// Whether all who live have been without a window since these were counted.
    fn have_left(&self, windows: &[(usize, u64)], living: Living<'_>) -> bool {
        windows.iter().all(|&(seat, count)| {
            let is_taken = living.iter().any(|(living, _)| *living == seat);
            let is_within = || self.book.notes.windows(seat, PASSES) == count;
            count % 2 == 0 || !is_taken || !is_within()
        })
    }

    fn windows(&self, kind: usize, living: Living<'_>) -> Vec<(usize, u64)> {
        let count = |seat| self.book.notes.windows(seat, kind);
        living.iter().map(|&(seat, _)| (seat, count(seat))).collect()
    }
}

/// Whether a note is that of an owner.
fn is_owner(note: u64, living: Living<'_>) -> bool {
    match note {
        NOBODY => false,
        owner if owner & (LENT | CLOSING) == CLOSING => false,
        owner if owner == MANAGER || owner & LENT != 0 => true,
        owner => living.iter().any(|(_, number)| u64::from(*number) == owner),
    }
}

impl<C: Cells, K: Kernel> Drop for Sweeper<C, K> {
    fn drop(&mut self) {
        for suspect in std::mem::take(&mut self.suspects) {
            self.release(suspect.twin);
        }
    }
}
