//! Open files that processes with one descriptor table have together: each is opened once, and
//! whoever needs it takes a copy, so that the kernel counts its users. Nothing that is sent from is
//! closed by another.
//!
//! What is lent lies in slots in the shared memory, a ring of them for each shard of the cache,
//! under that shard's lock: the newest takes the place of the oldest. An entry says in its tag
//! which slots are its files', and by which loan, so that one whose files have left is told from
//! one that has some.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// The slots of all shards.
#[derive(Clone, Copy)]
pub(super) struct OpenFileTable {
    table: Table,
    cells: &'static [AtomicU64],
    slots_per_shard: usize,
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

    /// The slots in `cells`, which were all 0 at the beginning.
    pub(super) fn new(table: Table, cells: &'static [AtomicU64], slots_per_shard: usize) -> Self {
        Self { table, cells, slots_per_shard }
    }

    /// Lends files, and returns the tag; 0 if they cannot be lent. The shard's lock is held, as by
    /// all that follow.
    pub(super) fn lend(self, shard: usize, files: &[FileRef]) -> u64 {
        let count = files.len();
        if count == 0 || count > FILES_MAX.min(self.slots_per_shard) {
            return 0;
        }
        let next = self.head(shard);
        let mut first = next.load(Ordering::Relaxed) as usize;
        if first + count > self.slots_per_shard {
            first = 0;
        }
        next.store((first + count) as u64, Ordering::Relaxed);
        let first = shard * self.slots_per_shard + first;
        (first..first + count).for_each(|slot| self.vacate(slot));
        let loan = self.table.loan();
        for (slot, file) in (first..).zip(files) {
            let [number, by] = self.slot(slot);
            by.store(loan.number(), Ordering::Relaxed);
            let told = |new| number.store(u64::from(new) + 1, Ordering::Relaxed);
            if self.table.lend(file.as_fd(), loan, told).is_err() {
                (first..first + count).for_each(|slot| self.vacate(slot));
                return 0;
            }
        }
        Tag { loan: loan.number(), first, count }.number()
    }

    /// Adds copies of an entry's files; none if they are lent no more.
    pub(super) fn copy(self, tag: u64, files: &mut Vec<FileRef>) {
        let tag = Tag::of(tag);
        let start = files.len();
        for slot in tag.first..tag.first + tag.count {
            let Some(file) = self.borrow(slot, tag.loan) else { return files.truncate(start) };
            files.push(file_ref(file.into()));
        }
    }

    /// An entry has left.
    pub(super) fn take_back(self, tag: u64) {
        let tag = Tag::of(tag);
        let slots = (tag.first..tag.first + tag.count).filter(|&slot| self.has(slot, tag.loan));
        slots.for_each(|slot| self.vacate(slot));
    }

    /// All of a shard's entries have left, maybe in the middle of a change.
    pub(super) fn empty(self, shard: usize) {
        let first = shard * self.slots_per_shard;
        (first..first + self.slots_per_shard).for_each(|slot| self.vacate(slot));
    }

    fn borrow(self, slot: usize, loan: u64) -> Option<OwnedFd> {
        let number = self.has(slot, loan).then(|| self.number(slot)).flatten()?;
        self.table.borrow(number, Loan::of(loan))
    }

    /// Whether a slot holds what was lent by this loan. What was read from an entry is not trusted.
    fn has(self, slot: usize, loan: u64) -> bool {
        slot < self.slots() && self.slot(slot)[1].load(Ordering::Relaxed) == loan
    }

    fn vacate(self, slot: usize) {
        let [number, by] = self.slot(slot);
        if let Some(lent) = self.number(slot) {
            self.table.end_loan(lent, Loan::of(by.load(Ordering::Relaxed)));
        }
        number.store(0, Ordering::Relaxed);
        by.store(0, Ordering::Relaxed);
    }

    fn number(self, slot: usize) -> Option<u32> {
        let number = self.slot(slot)[0].load(Ordering::Relaxed).checked_sub(1)?;
        u32::try_from(number).ok()
    }

    fn slots(self) -> usize {
        self.cells.len() / self.shard_cells() * self.slots_per_shard
    }

    fn shard_cells(self) -> usize {
        HEAD_CELLS + self.slots_per_shard * SLOT_CELLS
    }

    fn head(self, shard: usize) -> &'static AtomicU64 {
        &self.cells[shard * self.shard_cells()]
    }

    fn slot(self, slot: usize) -> [&'static AtomicU64; SLOT_CELLS] {
        let (shard, slot) = (slot / self.slots_per_shard, slot % self.slots_per_shard);
        let start = shard * self.shard_cells() + HEAD_CELLS + slot * SLOT_CELLS;
        std::array::from_fn(|cell| &self.cells[start + cell])
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
mod tests {
    use super::*;

    #[test]
    fn a_tag_says_what_was_put_into_it() {
        let largest = Tag { loan: (1 << 40) - 1, first: SLOTS_MAX - 1, count: FILES_MAX };
        for tag in [Tag { loan: 1, first: 0, count: 1 }, largest] {
            assert_eq!(Tag::of(tag.number()), tag);
            assert_ne!(tag.number(), 0, "that would say that nothing is lent");
        }
    }

    #[test]
    fn slots_are_divided_among_shards() {
        assert_eq!(OpenFileTable::slots_per_shard(8, 100), 12);
        assert_eq!(OpenFileTable::slots_per_shard(8, 7), 0);
        assert_eq!(OpenFileTable::slots_per_shard(4, usize::MAX), SLOTS_MAX / 4);
    }
}
