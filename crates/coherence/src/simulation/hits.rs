//! What is done for each reference: find the line, see that it is a hit, count.
//!
//! Everything else stops the loop and is done elsewhere. Nothing here allocates or calls.

use super::{Cpu, Observer, Reference};
use crate::cache::{Cache, block_of, slot_of, state_of, with_state};
use crate::machine::Machine;
use crate::protocol::{SLOW, STATES_MAX};
use crate::record::{
    COUNT_MAX, COUNT_SHIFT, FRAME_SHIFT, MARKER, OFFSET_SHIFT, PAGE_BYTES, Record, TRACKED,
};

/// Why the loop stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Another processor is to go on.
    Limit,
    /// The next record needs the bus.
    Miss,
    /// The next record is no reference.
    Marker,
    /// Another task may have the processor.
    SliceEnd,
}

/// Sizes, as shifts and masks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    /// log2 of the bytes of a block.
    block_bits: u32,
    /// log2 of the blocks of a page.
    page_bits: u32,
    set_mask: u32,
    pub(super) block_bytes: u64,
    pub(super) operation_cycles: u64,
}

impl Geometry {
    pub(super) fn new(machine: &Machine) -> Self {
        let shape = machine.cache;
        let sets = shape.size_kib * 1024 / shape.block_bytes / u64::from(shape.ways);
        let block_bits = shape.block_bytes.trailing_zeros();
        Self {
            block_bits,
            page_bits: PAGE_BYTES.trailing_zeros() - block_bits,
            set_mask: sets as u32 - 1,
            block_bytes: shape.block_bytes,
            operation_cycles: machine.cpu.operation_cycles,
        }
    }

    pub(super) fn sets(self) -> usize {
        self.set_mask as usize + 1
    }

    /// What a frame's place in memory adds to the set.
    pub(super) fn colour(self, place: u32) -> u32 {
        (place << self.page_bits) & self.set_mask
    }

    /// A record's block and set.
    #[inline]
    pub(super) fn place(self, record: Record, colours: &[u32]) -> (u32, u32) {
        let frame = (record.0 >> FRAME_SHIFT) as u32;
        let offset = (record.0 >> OFFSET_SHIFT) as u32 & (PAGE_BYTES as u32 - 1);
        let in_page = offset >> self.block_bits;
        let block = (frame << self.page_bits) | in_page;
        (block, (colours[frame as usize] | in_page) & self.set_mask)
    }
}

/// What the loop reads.
pub(super) struct Run<'r> {
    pub(super) records: &'r [Record],
    pub(super) colours: &'r [u32],
    pub(super) silent: &'r [u8; STATES_MAX * 2],
    pub(super) limit: u64,
}

/// Makes references as long as they hit.
pub(super) fn hits<O: Observer>(
    run: &Run<'_>,
    geometry: Geometry,
    number: u32,
    cpu: &mut Cpu,
    cache: &mut Cache,
    counts: &mut [u64; 3],
    observer: &mut O,
) -> Stop {
    // A system call is not interrupted.
    let least_left = if cpu.in_kernel { i64::MIN } else { 1 };
    let Run { records, colours, silent, limit } = *run;
    let (mut clock, mut started, mut left) = (cpu.clock, cpu.started, cpu.left);
    let (mut position, mut last_fetch) = (cpu.position, cpu.last_fetch);
    let mut made = [0_u64; 4];
    let ways = cache.ways;
    let stop = loop {
        if clock >= limit {
            break Stop::Limit;
        }
        let record = records[position];
        let kind = record.0 & 3;
        if kind == MARKER {
            break Stop::Marker;
        }
        if left < least_left {
            break Stop::SliceEnd;
        }
        let (block, set) = geometry.place(record, colours);
        let base = set as usize * ways;
        let lines = &mut cache.lines[base..base + ways];
        let mut line = lines[0];
        let mut way = 0;
        if block_of(line) != block {
            let Some(found) = lines.iter().position(|line| block_of(*line) == block) else {
                break Stop::Miss;
            };
            way = found;
            line = lines[way];
        }
        let state = state_of(line);
        let next = silent[usize::from(state) % STATES_MAX * 2 + (kind >> 1) as usize];
        if next == SLOW {
            break Stop::Miss;
        }
        if way != 0 {
            lines.copy_within(0..way, 1);
        }
        lines[0] = with_state(line, next);
        if record.0 & TRACKED != 0 {
            let words = record.words(geometry.block_bytes);
            let masks = &mut cache.masks[base + slot_of(line)];
            masks.used |= words;
            masks.wrote |= if kind >> 1 != 0 { words } else { 0 };
        }
        if kind == 0 {
            last_fetch = record;
        }
        let count = (record.0 >> COUNT_SHIFT) & COUNT_MAX;
        started = clock;
        clock += count * geometry.operation_cycles;
        left -= count as i64;
        made[kind as usize] += count;
        position += 1;
        observer.reference(&Reference { cpu: number, record, block, set, state });
    };
    for (count, made) in counts.iter_mut().zip(made) {
        *count += made;
    }
    (cpu.clock, cpu.started, cpu.left) = (clock, started, left);
    (cpu.position, cpu.last_fetch) = (position, last_fetch);
    stop
}
