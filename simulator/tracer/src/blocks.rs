//! Converts the records of the recorder for QEMU into those of the recorder for Valgrind.
//!
//! The recorder for QEMU writes one record for all instructions of a block that runs, and records
//! for each access which of them made it; a table has the instructions. Threads run at the same
//! time there, and each writes its own slices of a file; records made without blocks pass
//! unchanged.

use crate::chunk::{Kind, Record};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// The numbers of the kinds, as `recorders/qemu/references.c` has them. From 9 on each recorder has
/// its own numbers.
const BLOCK_RUNS: u64 = 9;
const LOAD_BY: u64 = 10;
const STORE_BY: u64 = 11;
const ATOMIC_LOAD_BY: u64 = 12;
const ATOMIC_STORE_BY: u64 = 13;

/// The largest access that QEMU makes at once. An instruction that accesses consecutive pieces one
/// after the other is given one access again, up to the widest vector that QEMU knows.
const PIECE_BYTES: u16 = 8;
const VECTOR_BYTES: u16 = 32;

/// The blocks that an image and the images that it was forked from have translated.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    first: u64,
    /// The address, the index of the first length, and the number of lengths.
    blocks: Vec<(u64, usize, usize)>,
    lengths: Vec<u8>,
    parent: Option<Box<Self>>,
}

impl Blocks {
    /// Reads the table of an image; none if it was recorded without blocks.
    pub(crate) fn read(folder: &Path, stem: &str) -> Result<Option<Self>, String> {
        let path = folder.join(format!("{stem}.blocks"));
        if !path.exists() {
            return Ok(None);
        }
        let fault = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        let bytes = fs::read(&path).map_err(|why| fault(&why))?;
        let (mut table, parent) = Self::parse(&bytes).ok_or_else(|| fault(&"it is cut off"))?;
        if parent == stem {
            return Err(fault(&"it is its own parent"));
        }
        if parent != "-" {
            table.parent = Self::read(folder, &parent)?.map(Box::new);
        }
        Ok(Some(table))
    }

    /// Parses a table. A process may be killed while it writes: an incomplete entry was never
    /// referred to.
    fn parse(bytes: &[u8]) -> Option<(Self, String)> {
        let number = |at: usize| {
            let bytes = bytes.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let (first, length) = (number(0)?, usize::try_from(number(8)?).ok()?);
        let mut at = 16 + length;
        let parent = String::from_utf8_lossy(bytes.get(16..at)?).into_owned();
        let mut table = Self { first, ..Self::default() };
        while let Some(head) = number(at) {
            let count = (head & 0xffff) as usize;
            let Some(lengths) = bytes.get(at + 8..at + 8 + count) else { break };
            table.blocks.push((head >> 16, table.lengths.len(), count));
            table.lengths.extend_from_slice(lengths);
            at += 8 + count;
        }
        Some((table, parent))
    }

    /// The address of a block, and the lengths of its instructions.
    fn get(&self, id: u64) -> Option<(u64, &[u8])> {
        let Some(index) = id.checked_sub(self.first) else {
            return self.parent.as_ref()?.get(id);
        };
        let (address, begin, count) = *self.blocks.get(usize::try_from(index).ok()?)?;
        Some((address, &self.lengths[begin..begin + count]))
    }
}

/// The position of a thread.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The block that runs; none before the first block, and after a system call.
    block: Option<u64>,
    /// The index of the next instruction to be fetched, and its address.
    next: usize,
    address: u64,
    /// The last access, which may continue, and the instruction that made it.
    access: Option<(Record, usize)>,
    /// The last instruction that was marked as atomic.
    marked: Option<usize>,
}

/// The conversion of the records of one image.
#[derive(Debug, Default)]
pub(crate) struct Expansion {
    blocks: Option<Blocks>,
    others: HashMap<u32, Place>,
    thread: Option<u32>,
    place: Place,
    /// Blocks that ran and are not in the table.
    pub(crate) unknown: u64,
    /// The size of the raw records in bytes.
    pub(crate) raw_bytes: u64,
}

impl Expansion {
    pub(crate) fn new(blocks: Option<Blocks>) -> Self {
        Self { blocks, ..Self::default() }
    }

    /// Converts the records of one file and passes them to `each`.
    pub(crate) fn chunk<E>(
        &mut self,
        bytes: &[u8],
        each: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        for raw in bytes.as_chunks().0.iter().map(|raw| u64::from_le_bytes(*raw)) {
            if raw == 0 {
                continue;
            }
            self.raw_bytes += size_of::<u64>() as u64;
            match (raw & 15, Record::decode(raw)) {
                (BLOCK_RUNS, _) if self.blocks.is_some() => self.block(raw >> 16, each)?,
                (LOAD_BY..=ATOMIC_STORE_BY, _) if self.blocks.is_some() => {
                    self.access(raw, each)?;
                }
                (_, Some(record)) if record.kind == Kind::Thread => self.switch(record, each)?,
                (_, Some(record)) => {
                    self.finish(each)?;
                    each(record)?;
                }
                (_, None) => break,
            }
        }
        Ok(())
    }

    /// Passes on the records that are left when there are no more files.
    pub(crate) fn rest<E>(
        &mut self,
        each: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.finish(each)?;
        let mut others: Vec<_> = std::mem::take(&mut self.others).into_iter().collect();
        others.sort_by_key(|(thread, _)| *thread);
        for (thread, place) in others {
            if place.block.is_some() {
                self.place = place;
                each(Record { kind: Kind::Thread, value: u64::from(thread), bytes: 0 })?;
                self.finish(each)?;
            }
        }
        Ok(())
    }

    fn switch<E>(
        &mut self,
        to: Record,
        each: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let thread = to.value as u32;
        if self.thread == Some(thread) {
            return Ok(());
        }
        if let Some(before) = self.thread.replace(thread) {
            self.others.insert(before, self.place);
        }
        self.place = self.others.remove(&thread).unwrap_or_default();
        each(to)
    }

    fn block<E>(
        &mut self,
        id: u64,
        each: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        self.finish(each)?;
        match self.blocks.as_ref().and_then(|blocks| blocks.get(id)) {
            Some((address, _)) => {
                self.place = Place { block: Some(id), address, ..Place::default() };
            }
            None => self.unknown += 1,
        }
        Ok(())
    }

    fn access<E>(
        &mut self,
        raw: u64,
        each: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let kind = raw & 15;
        let (by, bytes) = ((raw >> 7 & 511) as usize, 1_u16 << (raw >> 4 & 7));
        let is_store = kind == STORE_BY || kind == ATOMIC_STORE_BY;
        let data = if is_store { Kind::Store } else { Kind::Load };
        let record = Record { kind: data, value: raw >> 16, bytes };
        if let Some((last, maker)) = &mut self.place.access
            && *maker == by
            && goes_on(last, record)
        {
            last.bytes += PIECE_BYTES;
            return Ok(());
        }
        self.fetch(by + 1, each)?;
        if kind >= ATOMIC_LOAD_BY && self.place.marked != Some(by) {
            self.place.marked = Some(by);
            each(Record { kind: Kind::Synchronise, ..record })?;
            if is_store {
                each(Record { kind: Kind::Load, ..record })?;
            }
        }
        self.place.access = Some((record, by));
        Ok(())
    }

    /// Emits the fetches of the block up to before its instruction `end`, and the last access.
    fn fetch<E>(
        &mut self,
        end: usize,
        each: &mut impl FnMut(Record) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some((access, _)) = self.place.access.take() {
            each(access)?;
        }
        let Some(blocks) = &self.blocks else { return Ok(()) };
        let Some((_, lengths)) = self.place.block.and_then(|id| blocks.get(id)) else {
            return Ok(());
        };
        for length in lengths.iter().take(end).skip(self.place.next) {
            let bytes = u16::from(*length);
            each(Record { kind: Kind::Fetch, value: self.place.address, bytes })?;
            self.place.address += u64::from(bytes);
        }
        self.place.next = self.place.next.max(end);
        Ok(())
    }

    /// Emits the rest of the block.
    fn finish<E>(&mut self, each: &mut impl FnMut(Record) -> Result<(), E>) -> Result<(), E> {
        self.fetch(usize::MAX, each)?;
        self.place = Place::default();
        Ok(())
    }
}

fn goes_on(last: &Record, next: Record) -> bool {
    next.bytes == PIECE_BYTES
        && last.kind == next.kind
        && last.bytes >= PIECE_BYTES
        && last.bytes < VECTOR_BYTES
        && last.value + u64::from(last.bytes) == next.value
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Temporary;

    fn table(first: u64, parent: &str, blocks: &[(u64, &[u8])]) -> Vec<u8> {
        let mut bytes = [first.to_le_bytes(), (parent.len() as u64).to_le_bytes()].concat();
        bytes.extend(parent.as_bytes());
        for (address, lengths) in blocks {
            bytes.extend((address << 16 | lengths.len() as u64).to_le_bytes());
            bytes.extend(*lengths);
        }
        bytes
    }

    fn made_by(kind: u64, index: u64, shift: u64, address: u64) -> u64 {
        address << 16 | index << 7 | shift << 4 | kind
    }

    fn runs(id: u64) -> u64 {
        id << 16 | BLOCK_RUNS
    }

    /// The result of converting some records, as `kind address+bytes`.
    fn expanded(blocks: Option<Blocks>, raw: &[u64]) -> Vec<String> {
        let mut expansion = Expansion::new(blocks);
        let mut all = Vec::new();
        let mut each = |record: Record| -> Result<(), ()> {
            all.push(format!("{:?} {:x}+{}", record.kind, record.value, record.bytes));
            Ok(())
        };
        let bytes: Vec<u8> = raw.iter().flat_map(|raw| raw.to_le_bytes()).collect();
        expansion.chunk(&bytes, &mut each).expect("nothing fails");
        expansion.rest(&mut each).expect("nothing fails");
        all
    }

    fn blocks(folder: &Temporary) -> Option<Blocks> {
        folder.file("1-0.blocks", table(0, "-", &[(0x100, &[1, 2, 3])]));
        let mut own = table(1, "1-0", &[(0x200, &[4, 5]), (0x300, &[6])]);
        own.extend([1, 2, 3]);
        folder.file("2-0.blocks", own);
        Blocks::read(folder.path(), "2-0").expect("it is whole")
    }

    #[test]
    fn fetches_go_before_the_accesses_of_their_instruction() {
        let folder = Temporary::new();
        let raw = [runs(0), made_by(LOAD_BY, 1, 2, 0x9000), runs(1), 0, 77 << 16 | 5, runs(2)];
        let expected = "Fetch 100+1, Fetch 101+2, Load 9000+4, Fetch 103+3, Fetch 200+4, \
                        Fetch 204+5, SystemCall 4d+0, Fetch 300+6";
        assert_eq!(expanded(blocks(&folder), &raw).join(", "), expected);
    }

    #[test]
    fn pieces_of_a_vector_are_one_access_and_others_are_not() {
        let folder = Temporary::new();
        let piece = |index, address| made_by(STORE_BY, index, 3, address);
        let raw = [runs(1), piece(0, 0x10), piece(0, 0x18), piece(1, 0x20), piece(1, 0x30)];
        let expected = "Fetch 200+4, Store 10+16, Fetch 204+5, Store 20+8, Store 30+8";
        assert_eq!(expanded(blocks(&folder), &raw).join(", "), expected);
    }

    #[test]
    fn an_atomic_instruction_is_marked_once_and_is_a_load_and_a_store() {
        let folder = Temporary::new();
        let store = made_by(ATOMIC_STORE_BY, 0, 2, 0x10);
        let both = "Fetch 300+6, Synchronise 10+4, Load 10+4, Store 10+4";
        assert_eq!(expanded(blocks(&folder), &[runs(2), store]).join(", "), both);
        let raw = [runs(2), made_by(ATOMIC_LOAD_BY, 0, 2, 0x10), store];
        assert_eq!(expanded(blocks(&folder), &raw).join(", "), both);
    }

    #[test]
    fn each_thread_goes_on_where_it_was() {
        let folder = Temporary::new();
        let thread = |number: u64| number << 16 | 7;
        let raw = [thread(1), runs(1), made_by(LOAD_BY, 0, 0, 0x10), thread(2), runs(2), thread(1)];
        let expected = "Thread 1+0, Fetch 200+4, Thread 2+0, Thread 1+0, Load 10+1, Fetch 204+5, \
                        Thread 2+0, Fetch 300+6";
        assert_eq!(expanded(blocks(&folder), &raw).join(", "), expected);
    }

    /// Converts records that were made without blocks.
    fn records(bytes: &[u8]) -> Vec<Record> {
        let (mut expansion, mut all) = (Expansion::new(None), Vec::new());
        let mut each = |record| -> Result<(), ()> {
            all.push(record);
            Ok(())
        };
        expansion.chunk(bytes, &mut each).expect("nothing fails");
        expansion.rest(&mut each).expect("nothing fails");
        all
    }

    #[test]
    fn records_end_with_zeroes_or_with_the_file() {
        let fetch: u64 = 0x1234_5678_9abc << 16 | 15 << 4 | 1;
        let modify: u64 = 0x10 << 16 | 8 << 4 | 4;
        let mut bytes = [fetch.to_le_bytes(), modify.to_le_bytes(), [0; 8]].concat();
        let expected = [
            Record { kind: Kind::Fetch, value: 0x1234_5678_9abc, bytes: 15 },
            Record { kind: Kind::Modify, value: 0x10, bytes: 8 },
        ];
        assert_eq!(records(&bytes), expected);
        bytes.extend([1, 0]);
        assert_eq!(records(&bytes[..16]).iter().map(Record::references).sum::<u64>(), 3);
        assert_eq!(records(&bytes[..15]).len(), 1);
        assert_eq!(records(&bytes).len(), 2);
    }

    #[test]
    fn what_the_table_lacks_is_counted() {
        let folder = Temporary::new();
        let mut expansion = Expansion::new(blocks(&folder));
        let raw = runs(3).to_le_bytes();
        expansion.chunk(&raw, &mut |_| Err(())).expect("there is nothing to hand on");
        assert_eq!((expansion.unknown, expansion.raw_bytes), (1, 8));
        folder.file("3-0.blocks", [0; 9]);
        let cut = Blocks::read(folder.path(), "3-0").expect_err("it has no beginning");
        assert!(cut.ends_with("3-0.blocks: it is cut off"), "{cut}");
    }
}
