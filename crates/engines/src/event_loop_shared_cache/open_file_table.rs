//! Open files that processes with one descriptor table have together: each is opened once, and
//! whoever needs it takes a copy, so that the kernel counts its users. Nothing that is sent from is
//! closed by another.
//!
//! What is lent lies in slots in the shared memory, a ring of them for each shard of the cache,
//! under that shard's lock: the newest takes the place of the oldest. An entry says in its tag
//! which slots are its files', and by which loan, so that one whose files have left is told from
//! one that has some.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use os::descriptors::protocol::Cells;
use os::descriptors::{Loan, Table};
use site::resource::FileRef;

use crate::jobs::file_ref;

/// Cells of a slot: the descriptor's number plus one, and the loan's.
const SLOT_CELLS: usize = 2;
/// Cells before a shard's slots: the slot that is next.
const HEAD_CELLS: usize = 1;

/// A file exists in no more codings than this.
const FILES_MAX: usize = 15;
/// The bits of a tag: the loan above the first slot above how many there are.
const COUNT_BITS: u32 = 4;
const SLOT_BITS: u32 = 20;
const SLOTS_MAX: usize = 1 << SLOT_BITS;

/// The slots of all shards, in `C`; who lends is `L`. Others than these are models.
#[derive(Clone, Copy)]
pub(super) struct OpenFileTable<C = &'static [AtomicU64], L = Table> {
    lender: L,
    cells: C,
    slots_per_shard: usize,
}

/// Who lends open files to all processes: [`Table`].
pub(super) trait Lender {
    /// An open file.
    type File;
    /// What was lent and is to be closed.
    type Ended;

    fn loan(&self) -> Loan;
    fn lend(&self, file: &Self::File, loan: Loan, told: impl Fn(u32)) -> io::Result<()>;
    fn borrow(&self, number: u32, loan: Loan) -> Option<Self::File>;
    fn end_loan(&self, number: u32, loan: Loan) -> Option<Self::Ended>;
}

/// What a tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    loan: u64,
    first: usize,
    count: usize,
}

impl OpenFileTable {
    /// How many slots each shard gets, for that many descriptors in all.
    pub(super) fn slots_per_shard(shards: usize, descriptors: usize) -> usize {
        (descriptors / shards).min(SLOTS_MAX / shards)
    }

    pub(super) fn cells(shards: usize, slots_per_shard: usize) -> usize {
        shards * (HEAD_CELLS + slots_per_shard * SLOT_CELLS)
    }
}

impl<C: Cells, L: Lender> OpenFileTable<C, L> {
    /// The slots in `cells`, which were all 0 at the beginning.
    pub(super) fn new(lender: L, cells: C, slots_per_shard: usize) -> Self {
        Self { lender, cells, slots_per_shard }
    }

    /// Lends files, and returns the tag; 0 if they cannot be lent. The shard's lock is held, as by
    /// all that follow; whose loans have `ended` is to be closed without it, since that may wait
    /// for a disk.
    pub(super) fn lend(&self, shard: usize, files: &[L::File], ended: &mut Vec<L::Ended>) -> u64 {
        let count = files.len();
        if count == 0 || count > FILES_MAX.min(self.slots_per_shard) {
            return 0;
        }
        let head = shard * self.shard_cells();
        let mut first = self.cells.load(head) as usize;
        if first + count > self.slots_per_shard {
            first = 0;
        }
        self.cells.store(head, (first + count) as u64);
        let first = shard * self.slots_per_shard + first;
        ended.extend((first..first + count).filter_map(|slot| self.vacate(slot)));
        let loan = self.lender.loan();
        for (slot, file) in (first..).zip(files) {
            let [number, by] = self.slot(slot);
            self.cells.store(by, loan.number());
            let told = |new| self.cells.store(number, u64::from(new) + 1);
            if self.lender.lend(file, loan, told).is_err() {
                ended.extend((first..first + count).filter_map(|slot| self.vacate(slot)));
                return 0;
            }
        }
        Tag { loan: loan.number(), first, count }.number()
    }

    /// Adds copies of an entry's files; none if they are lent no more.
    pub(super) fn copy(&self, tag: u64, files: &mut Vec<L::File>) {
        let tag = Tag::of(tag);
        let start = files.len();
        for slot in tag.first..tag.first + tag.count {
            let Some(file) = self.borrow(slot, tag.loan) else { return files.truncate(start) };
            files.push(file);
        }
    }

    /// An entry has left.
    pub(super) fn take_back(&self, tag: u64, ended: &mut Vec<L::Ended>) {
        let tag = Tag::of(tag);
        ended.extend(self.slots_of(tag).filter_map(|slot| self.vacate(slot)));
    }

    /// All of a shard's entries have left, maybe in the middle of a change.
    pub(super) fn empty(&self, shard: usize, ended: &mut Vec<L::Ended>) {
        let first = shard * self.slots_per_shard;
        ended.extend((first..first + self.slots_per_shard).filter_map(|slot| self.vacate(slot)));
    }

    /// The slots that hold what this tag says.
    fn slots_of(&self, tag: Tag) -> impl Iterator<Item = usize> {
        (tag.first..tag.first + tag.count).filter(move |&slot| self.has(slot, tag.loan))
    }

    fn borrow(&self, slot: usize, loan: u64) -> Option<L::File> {
        let number = self.has(slot, loan).then(|| self.number(slot)).flatten()?;
        self.lender.borrow(number, Loan::of(loan))
    }

    /// Whether a slot holds what was lent by this loan. What was read from an entry is not trusted.
    fn has(&self, slot: usize, loan: u64) -> bool {
        slot < self.slots() && self.cells.load(self.slot(slot)[1]) == loan
    }

    fn vacate(&self, slot: usize) -> Option<L::Ended> {
        let [number, by] = self.slot(slot);
        let lent = self.number(slot);
        let ended = lent.and_then(|lent| self.lender.end_loan(lent, Loan::of(self.cells.load(by))));
        self.cells.store(number, 0);
        self.cells.store(by, 0);
        ended
    }

    fn number(&self, slot: usize) -> Option<u32> {
        let number = self.cells.load(self.slot(slot)[0]).checked_sub(1)?;
        u32::try_from(number).ok()
    }

    fn slots(&self) -> usize {
        self.cells.count() / self.shard_cells() * self.slots_per_shard
    }

    fn shard_cells(&self) -> usize {
        HEAD_CELLS + self.slots_per_shard * SLOT_CELLS
    }

    /// The cells of a slot.
    fn slot(&self, slot: usize) -> [usize; SLOT_CELLS] {
        let (shard, slot) = (slot / self.slots_per_shard, slot % self.slots_per_shard);
        let start = shard * self.shard_cells() + HEAD_CELLS + slot * SLOT_CELLS;
        std::array::from_fn(|cell| start + cell)
    }
}

impl OpenFileTable {
    /// Whether a file that is lent by this tag has no name any more. Nobody waits for a disk.
    pub(super) fn has_unlinked(&self, tag: u64) -> bool {
        let tag = Tag::of(tag);
        let loan = Loan::of(tag.loan);
        let mut numbers = self.slots_of(tag).filter_map(|slot| self.number(slot));
        numbers.any(|number| self.lender.is_unlinked(number, loan))
    }
}

impl Lender for Table {
    type File = FileRef;
    type Ended = OwnedFd;

    fn loan(&self) -> Loan {
        Self::loan(*self)
    }

    fn lend(&self, file: &FileRef, loan: Loan, told: impl Fn(u32)) -> io::Result<()> {
        Self::lend(*self, file.as_fd(), loan, told)
    }

    fn borrow(&self, number: u32, loan: Loan) -> Option<FileRef> {
        Self::borrow(*self, number, loan).map(|file| file_ref(file.into()))
    }

    fn end_loan(&self, number: u32, loan: Loan) -> Option<OwnedFd> {
        Self::end_loan(*self, number, loan)
    }
}

impl Tag {
    fn number(self) -> u64 {
        self.loan << (COUNT_BITS + SLOT_BITS)
            | (self.first as u64) << COUNT_BITS
            | self.count as u64
    }

    fn of(number: u64) -> Self {
        Self {
            loan: number >> (COUNT_BITS + SLOT_BITS),
            first: (number >> COUNT_BITS) as usize % SLOTS_MAX,
            count: number as usize & FILES_MAX,
        }
    }
}

#[cfg(test)]
mod tests;
