//! One shard: the data that its lock protects. It consists of a header, buckets, records, and
//! blocks of bytes, all of them cells, all empty when they are 0.
//!
//! A record is in its bucket's chain or in the chain of free records; a block is in its record's
//! chain or in that of free blocks. Links are numbers plus one; 0 ends a chain. Records and blocks
//! that were never used are in no chain: they begin at the marks in the header, so that memory that
//! is not needed is never touched.

use std::sync::atomic::AtomicU64;

use super::{Label, SharedUsage, get, set};

/// The data cannot be right: the shard has to be emptied.
#[derive(Debug)]
pub(super) struct Broken;

type Outcome<T> = Result<T, Broken>;

// Cells of the header. The first is the lock, which is not used here.
const HAND: usize = 1;
const RECORDS_USED: usize = 2;
const RECORDS_FREE: usize = 3;
const BLOCKS_USED: usize = 4;
const BLOCKS_FREE: usize = 5;
const ENTRIES: usize = 6;
const BLOCKS_HELD: usize = 7;
const EVICTIONS: usize = 8;
const RESETS: usize = 9;
pub(super) const HEADER_CELLS: usize = 16;

// Cells of a record.
const HASH: usize = 0;
const VERSION: usize = 1;
const VALIDATED: usize = 2;
/// Length of the key, length of the value, and the mark of the policy.
const SHAPE: usize = 3;
const FIRST_BLOCK: usize = 4;
/// The next record of the bucket, or the next free one.
const NEXT: usize = 5;
const CHECKSUM: usize = 6;
/// The number of cells of a record. The eighth is spare: a record is a cache line.
const RECORD_CELLS: usize = 8;

// A block: a link to the next block of its chain, then bytes.
const BLOCK_CELLS: usize = 32;
const BLOCK_BYTES: usize = (BLOCK_CELLS - 1) * 8;

/// Marks of CLOCK; a free record has neither.
const RESTED: u64 = 1;
const USED: u64 = 2;

const KEY_LEN_MAX: usize = (1 << 16) - 1;

/// The divisor of a shard's blocks that an entry may take, so that one entry does not empty it.
const SHARE: usize = 8;

/// The sizes of the parts of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardLayout {
    buckets: usize,
    records: usize,
    blocks: usize,
}

impl ShardLayout {
    pub(super) fn new(bytes: usize, entries: usize) -> Self {
        let bytes = bytes.min(1 << 40);
        // There are enough records for entries of two blocks: smaller entries are rare.
        let records = entries.clamp(1, 1 << 30).min((bytes / (BLOCK_BYTES * 2)).max(1));
        let buckets = records.next_power_of_two();
        let overhead = 8 * (HEADER_CELLS + buckets + records * RECORD_CELLS);
        let blocks = (bytes.saturating_sub(overhead) / (8 * BLOCK_CELLS)).max(SHARE);
        Self { buckets, records, blocks }
    }

    pub(super) fn cells(&self) -> usize {
        let cells = HEADER_CELLS + self.buckets + self.records * RECORD_CELLS;
        cells.next_multiple_of(8) + self.blocks * BLOCK_CELLS
    }
}

/// A shard in its cells.
pub(super) struct Shard {
    header: &'static [AtomicU64],
    buckets: &'static [AtomicU64],
    records: &'static [AtomicU64],
    blocks: &'static [AtomicU64],
    layout: ShardLayout,
}

/// The cells of one record.
type Record = &'static [AtomicU64];

/// The lengths of an entry, and its mark, from one cell of its record.
struct Shape {
    key_len: usize,
    value_len: usize,
    mark: u64,
}

impl Shard {
    pub(super) fn new(cells: &'static [AtomicU64], layout: ShardLayout) -> Self {
        let (header, rest) = cells.split_at(HEADER_CELLS);
        let (buckets, rest) = rest.split_at(layout.buckets);
        let (records, _) = rest.split_at(layout.records * RECORD_CELLS);
        let blocks = &cells[cells.len() - layout.blocks * BLOCK_CELLS..];
        Self { header, buckets, records, blocks, layout }
    }

    pub(super) fn lock(&self) -> &'static AtomicU64 {
        &self.header[0]
    }

    pub(super) fn usage(&self) -> SharedUsage {
        SharedUsage {
            entries: get(&self.header[ENTRIES]),
            bytes: get(&self.header[BLOCKS_HELD]).saturating_mul(BLOCK_CELLS as u64 * 8),
            evictions: get(&self.header[EVICTIONS]),
            resets: get(&self.header[RESETS]),
        }
    }

    /// Removes all entries, whatever state the shard is in.
    pub(super) fn empty(&self) {
        self.buckets.iter().for_each(|bucket| set(bucket, 0));
        self.header[HAND..EVICTIONS].iter().for_each(|cell| set(cell, 0));
        self.count(RESETS, 1);
    }

    pub(super) fn get(&self, hash: u64, key: &[u8], value: &mut Vec<u8>) -> Outcome<Option<Label>> {
        let Some(index) = self.find(hash, key)? else { return Ok(None) };
        let record = self.record(index)?;
        let shape = Shape::read(record);
        if shape.value_len > self.layout.blocks * BLOCK_BYTES {
            return Err(Broken); // too long: do not allocate that much
        }
        let mut sum = Sum::new(record, &shape);
        value.clear();
        value.reserve(shape.value_len);
        let mut reader = Reader { shard: self, next: get(&record[FIRST_BLOCK]), steps: 0 };
        // The value begins a block of its own, so the key is read first, for the checksum.
        reader.read(shape.key_len, &mut sum, &mut |_| ())?;
        reader.read(shape.value_len, &mut sum, &mut |bytes| value.extend_from_slice(bytes))?;
        if sum.0 != get(&record[CHECKSUM]) {
            return Err(Broken);
        }
        if shape.mark != USED {
            Shape { mark: USED, ..shape }.write(record);
        }
        Ok(Some(label(record)))
    }

    pub(super) fn label(&self, hash: u64) -> Outcome<Option<Label>> {
        let found = self.walk(hash, |record| Ok(get(&record[HASH]) == hash))?;
        found.map(|index| self.record(index).map(label)).transpose()
    }

    pub(super) fn validate(&self, hash: u64, version: u64, validated: u64) -> Outcome<()> {
        let is_it = |record: Record| get(&record[HASH]) == hash && get(&record[VERSION]) == version;
        if let Some(index) = self.walk(hash, |record| Ok(is_it(record)))? {
            set(&self.record(index)?[VALIDATED], validated);
        }
        Ok(())
    }

    pub(super) fn insert(
        &self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        label: Label,
    ) -> Outcome<bool> {
        if let Some(index) = self.find(hash, key)? {
            self.remove(index)?;
        }
        let blocks = key.len().div_ceil(BLOCK_BYTES) + value.len().div_ceil(BLOCK_BYTES);
        if key.len() > KEY_LEN_MAX || blocks > self.layout.blocks / SHARE {
            return Ok(false);
        }
        while !self.has_room(blocks) {
            self.evict()?;
        }
        let index = self.take_record()?;
        let record = self.record(index)?;
        set(&record[HASH], hash);
        set(&record[VERSION], label.version);
        set(&record[VALIDATED], label.validated);
        let shape = Shape { key_len: key.len(), value_len: value.len(), mark: RESTED };
        shape.write(record);
        let mut sum = Sum::new(record, &shape);
        let mut place = &record[FIRST_BLOCK];
        for chunk in key.chunks(BLOCK_BYTES).chain(value.chunks(BLOCK_BYTES)) {
            let block = self.take_block()?;
            set(place, block + 1);
            let cells = self.block(block)?;
            write(&cells[1..], chunk, &mut sum);
            place = &cells[0];
        }
        set(place, 0);
        set(&record[CHECKSUM], sum.0);
        let bucket = self.bucket(hash);
        set(&record[NEXT], get(bucket));
        set(bucket, index + 1);
        self.count(ENTRIES, 1);
        Ok(true)
    }

    /// Finds the record for `key`.
    fn find(&self, hash: u64, key: &[u8]) -> Outcome<Option<u64>> {
        self.walk(hash, |record| Ok(get(&record[HASH]) == hash && self.has_key(record, key)?))
    }

    fn has_key(&self, record: Record, key: &[u8]) -> Outcome<bool> {
        let shape = Shape::read(record);
        if shape.key_len != key.len() {
            return Ok(false);
        }
        let mut rest = key;
        let mut is_same = true;
        let mut reader = Reader { shard: self, next: get(&record[FIRST_BLOCK]), steps: 0 };
        reader.read(shape.key_len, &mut Sum(0), &mut |bytes| {
            is_same &= rest.starts_with(bytes);
            rest = rest.get(bytes.len()..).unwrap_or(&[]);
        })?;
        Ok(is_same)
    }

    /// Finds the first record of the bucket that is wanted.
    fn walk(&self, hash: u64, wanted: impl Fn(Record) -> Outcome<bool>) -> Outcome<Option<u64>> {
        let mut link = get(self.bucket(hash));
        for _ in 0..=self.layout.records {
            let Some(index) = link.checked_sub(1) else { return Ok(None) };
            let record = self.record(index)?;
            if wanted(record)? {
                return Ok(Some(index));
            }
            link = get(&record[NEXT]);
        }
        Err(Broken)
    }

    fn has_room(&self, blocks: usize) -> bool {
        let held = get(&self.header[BLOCKS_HELD]);
        let entries = get(&self.header[ENTRIES]);
        held.saturating_add(blocks as u64) <= self.layout.blocks as u64
            && entries < self.layout.records as u64
    }

    /// Evicts an entry by CLOCK: the hand passes entries that were used since it last passed.
    fn evict(&self) -> Outcome<()> {
        let used = get(&self.header[RECORDS_USED]).min(self.layout.records as u64);
        for _ in 0..=2 * used {
            let hand = get(&self.header[HAND]);
            let index = if hand < used { hand } else { 0 };
            set(&self.header[HAND], index + 1);
            let record = self.record(index)?;
            let shape = Shape::read(record);
            match shape.mark {
                USED => Shape { mark: RESTED, ..shape }.write(record),
                RESTED => {
                    self.count(EVICTIONS, 1);
                    return self.remove(index);
                }
                _ => {}
            }
        }
        Err(Broken)
    }

    /// Removes an entry.
    fn remove(&self, index: u64) -> Outcome<()> {
        let record = self.record(index)?;
        self.unlink(get(&record[HASH]), index, record)?;
        self.free_blocks(get(&record[FIRST_BLOCK]))?;
        set(&record[SHAPE], 0);
        set(&record[NEXT], get(&self.header[RECORDS_FREE]));
        set(&self.header[RECORDS_FREE], index + 1);
        self.uncount(ENTRIES, 1)
    }

    fn unlink(&self, hash: u64, index: u64, record: Record) -> Outcome<()> {
        let mut place = self.bucket(hash);
        for _ in 0..=self.layout.records {
            let link = get(place);
            if link == index + 1 {
                set(place, get(&record[NEXT]));
                return Ok(());
            }
            place = &self.record(link.checked_sub(1).ok_or(Broken)?)?[NEXT];
        }
        Err(Broken)
    }

    fn free_blocks(&self, first: u64) -> Outcome<()> {
        let mut link = first;
        for count in 0..=self.layout.blocks as u64 {
            let Some(block) = link.checked_sub(1) else { return self.uncount(BLOCKS_HELD, count) };
            let cells = self.block(block)?;
            link = get(&cells[0]);
            set(&cells[0], get(&self.header[BLOCKS_FREE]));
            set(&self.header[BLOCKS_FREE], block + 1);
        }
        Err(Broken)
    }

    fn take_record(&self) -> Outcome<u64> {
        let Some(index) = get(&self.header[RECORDS_FREE]).checked_sub(1) else {
            return Ok(self.count(RECORDS_USED, 1));
        };
        set(&self.header[RECORDS_FREE], get(&self.record(index)?[NEXT]));
        Ok(index)
    }

    fn take_block(&self) -> Outcome<u64> {
        self.count(BLOCKS_HELD, 1);
        let Some(block) = get(&self.header[BLOCKS_FREE]).checked_sub(1) else {
            return Ok(self.count(BLOCKS_USED, 1));
        };
        set(&self.header[BLOCKS_FREE], get(&self.block(block)?[0]));
        Ok(block)
    }

    fn bucket(&self, hash: u64) -> &'static AtomicU64 {
        &self.buckets[hash as usize & (self.buckets.len() - 1)]
    }

    fn record(&self, index: u64) -> Outcome<Record> {
        stretch(self.records, index, RECORD_CELLS)
    }

    fn block(&self, index: u64) -> Outcome<&'static [AtomicU64]> {
        stretch(self.blocks, index, BLOCK_CELLS)
    }

    /// Adds to a number of the header. Returns its old value.
    fn count(&self, cell: usize, n: u64) -> u64 {
        let before = get(&self.header[cell]);
        set(&self.header[cell], before.wrapping_add(n));
        before
    }

    fn uncount(&self, cell: usize, n: u64) -> Outcome<()> {
        let left = get(&self.header[cell]).checked_sub(n).ok_or(Broken)?;
        set(&self.header[cell], left);
        Ok(())
    }
}

impl Shape {
    fn read(record: Record) -> Self {
        let cell = get(&record[SHAPE]);
        Self {
            key_len: (cell >> 48) as usize,
            value_len: (cell >> 8 & 0xff_ffff_ffff) as usize,
            mark: cell & 0xff,
        }
    }

    fn write(&self, record: Record) {
        let lens = (self.key_len as u64) << 48 | (self.value_len as u64) << 8;
        set(&record[SHAPE], lens | self.mark);
    }
}

/// Reads along a chain of blocks; the end of the key is the end of a block.
struct Reader<'s> {
    shard: &'s Shard,
    next: u64,
    steps: usize,
}

impl Reader<'_> {
    fn read(&mut self, len: usize, sum: &mut Sum, take: &mut dyn FnMut(&[u8])) -> Outcome<()> {
        let mut left = len;
        while left > 0 {
            let block = self.next.checked_sub(1).ok_or(Broken)?;
            let cells = self.shard.block(block)?;
            self.steps += 1;
            if self.steps > self.shard.layout.blocks {
                return Err(Broken);
            }
            self.next = get(&cells[0]);
            let here = left.min(BLOCK_BYTES);
            let mut bytes = [0; BLOCK_BYTES];
            for (cell, eight) in
                cells[1..].iter().zip(bytes[..here.next_multiple_of(8)].as_chunks_mut().0)
            {
                let word = get(cell);
                sum.add(word);
                *eight = word.to_le_bytes();
            }
            take(&bytes[..here]);
            left -= here;
        }
        Ok(())
    }
}

/// Writes bytes into cells, and fills the last one up with zeroes.
fn write(cells: &[AtomicU64], bytes: &[u8], sum: &mut Sum) {
    for (cell, chunk) in cells.iter().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..chunk.len()].copy_from_slice(chunk);
        let word = u64::from_le_bytes(eight);
        sum.add(word);
        set(cell, word);
    }
}

/// A checksum against accidental damage, not against attacks.
struct Sum(u64);

impl Sum {
    fn new(record: Record, shape: &Shape) -> Self {
        let mut sum = Self(0x9e37_79b9_7f4a_7c15);
        let lens = (shape.key_len as u64) << 40 | shape.value_len as u64;
        [get(&record[HASH]), get(&record[VERSION]), lens].into_iter().for_each(|n| sum.add(n));
        sum
    }

    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
}

fn label(record: Record) -> Label {
    Label { version: get(&record[VERSION]), validated: get(&record[VALIDATED]) }
}

fn stretch(cells: &'static [AtomicU64], index: u64, len: usize) -> Outcome<&'static [AtomicU64]> {
    let start =
        usize::try_from(index).ok().and_then(|index| index.checked_mul(len)).ok_or(Broken)?;
    cells.get(start..).and_then(|rest| rest.get(..len)).ok_or(Broken)
}
