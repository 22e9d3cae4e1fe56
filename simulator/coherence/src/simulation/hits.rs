//! The work for each reference: find the line, check that it is a hit, count.
//!
//! Everything else stops the loop and is done elsewhere. Nothing here allocates or calls.

use super::ahead::{Log, RECORDS_MAX, filter_of};
use super::{Cpu, Observer, Reference};
use crate::cache::{Cache, Line, block_of, slot_of, state_of, with_state};
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
    /// The next record is a marker.
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
    pub(super) page_bits: u32,
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

    /// The contribution of a frame's place in memory to the set.
    pub(super) fn colour(self, place: u32) -> u32 {
        (place << self.page_bits) & self.set_mask
    }

    /// The set of a block.
    pub(super) fn set_of(self, block: u32, colours: &[u32]) -> u32 {
        let in_page = block & ((1 << self.page_bits) - 1);
        (colours[(block >> self.page_bits) as usize] | in_page) & self.set_mask
    }

    /// The block of a record.
    #[inline]
    pub(super) fn block(self, record: Record) -> u32 {
        let frame = (record.0 >> FRAME_SHIFT) as u32;
        let offset = (record.0 >> OFFSET_SHIFT) as u32 & (PAGE_BYTES as u32 - 1);
        (frame << self.page_bits) | (offset >> self.block_bits)
    }

    /// The block and set of a record.
    #[inline]
    pub(super) fn place(self, record: Record, colours: &[u32]) -> (u32, u32) {
        let block = self.block(record);
        let frame = (record.0 >> FRAME_SHIFT) as usize;
        let in_page = block & ((1 << self.page_bits) - 1);
        (block, (colours[frame] | in_page) & self.set_mask)
    }
}

/// The data that the loop reads.
pub(super) struct Run<'r> {
    pub(super) records: &'r [Record],
    pub(super) colours: &'r [u32],
    pub(super) silent: &'r [u8; STATES_MAX * 2],
    pub(super) limit: u64,
    pub(super) geometry: Geometry,
    /// The processor's number.
    pub(super) number: u32,
    /// Whether the observer needs the last instruction fetched.
    pub(super) rank: bool,
}

/// The number of fetches, loads and stores made, in one number: 21 bits each.
const MADE_BITS: u32 = 21;
const MADE_MAX: u64 = (1 << MADE_BITS) - 1;
const _: () = assert!(RECORDS_MAX as u64 * COUNT_MAX <= MADE_MAX);

/// Makes references as long as they hit. The log records them.
pub(super) fn hits<O: Observer, L: Log>(
    run: &Run<'_>,
    cpu: &mut Cpu,
    cache: &mut Cache,
    log: &mut L,
    counts: &mut [u64; 3],
    observer: &mut O,
) -> Stop {
    let window = &run.records[cpu.position..];
    let window = &window[..window.len().min(L::RECORDS_MAX)];
    log.begin(cpu);
    // The usual shapes have loops of their own, in which the number of ways is known.
    let (stop, step, made) = match cache.ways {
        1 => walk::<O, L, 1>(run, window, cpu, cache, log, observer),
        2 => walk::<O, L, 2>(run, window, cpu, cache, log, observer),
        4 => walk::<O, L, 4>(run, window, cpu, cache, log, observer),
        _ => walk::<O, L, 0>(run, window, cpu, cache, log, observer),
    };
    let mut all = 0;
    for (kind, count) in counts.iter_mut().enumerate() {
        let made = made >> (kind as u32 * MADE_BITS) & MADE_MAX;
        *count += made;
        all += made;
    }
    if let Some(last) = step.checked_sub(1) {
        let last = window[last].count() * run.geometry.operation_cycles;
        cpu.started = cpu.clock + all * run.geometry.operation_cycles - last;
    }
    cpu.clock += all * run.geometry.operation_cycles;
    cpu.left -= all as i64;
    cpu.position += step;
    if run.rank
        && let Some(fetch) = window[..step].iter().rfind(|one| one.0 & 3 == 0)
    {
        cpu.last_fetch = *fetch;
    }
    match (stop, window.get(step)) {
        (Stop::Limit, Some(record)) if cpu.clock < run.limit => match record.0 & 3 {
            MARKER => Stop::Marker,
            _ => Stop::SliceEnd,
        },
        _ => stop,
    }
}

/// The loop: returns why it stopped, after how many records, and how many references of each kind.
/// [`Stop::Limit`] is the end of the window, of the time or of the slice. If `WAYS` is 0 the number
/// of ways is the cache's.
#[inline]
fn walk<O: Observer, L: Log, const WAYS: usize>(
    run: &Run<'_>,
    window: &[Record],
    cpu: &Cpu,
    cache: &mut Cache,
    log: &mut L,
    observer: &mut O,
) -> (Stop, usize, u64) {
    let geometry = run.geometry;
    let budget = budget(run, cpu);
    let ways = if WAYS == 0 { cache.ways } else { WAYS };
    let (mut used, mut made, mut step, mut filter) = (0, 0, 0, 0);
    let stop = loop {
        let Some(&record) = window.get(step) else { break Stop::Limit };
        if used >= budget {
            break Stop::Limit;
        }
        let kind = record.0 & 3;
        if kind == MARKER {
            break Stop::Marker;
        }
        let (block, set) = geometry.place(record, run.colours);
        let base = set as usize * ways;
        let lines = &mut cache.lines[base..base + ways];
        let way = way_of::<WAYS>(lines, block);
        let line = lines[way];
        let state = state_of(line);
        let next = run.silent[usize::from(state) % STATES_MAX * 2 + (kind >> 1) as usize];
        if block_of(line) != block || next == SLOW {
            break Stop::Miss;
        }
        make_first::<WAYS>(lines, way, with_state(line, next));
        log.step(step, way, state);
        filter |= filter_of(block);
        if record.0 & TRACKED != 0 {
            let words = record.words(geometry.block_bytes);
            let masks = &mut cache.masks[base + slot_of(line)];
            log.masks(*masks);
            masks.used |= words;
            masks.wrote |= if kind >> 1 != 0 { words } else { 0 };
        }
        let count = (record.0 >> COUNT_SHIFT) & COUNT_MAX;
        used += count;
        made += count << (kind as u32 * MADE_BITS);
        step += 1;
        observer.reference(&Reference { cpu: run.number, record, block, set, state });
    };
    log.end(step, filter);
    (stop, step, made)
}

/// The number of references that may be made before the time or the slice is over.
fn budget(run: &Run<'_>, cpu: &Cpu) -> u64 {
    let time = run.limit.saturating_sub(cpu.clock).div_ceil(run.geometry.operation_cycles);
    // A system call is not interrupted.
    let slice = if cpu.in_kernel { u64::MAX } else { cpu.left.max(0) as u64 };
    time.min(slice)
}

/// The way that has the block, or any other. That it is the first is predicted well by the
/// processor; which of the others it is cannot be, and is found without branches.
#[inline]
fn way_of<const WAYS: usize>(lines: &[Line], block: u32) -> usize {
    if block_of(lines[0]) == block {
        return 0;
    }
    if WAYS == 0 {
        return lines.iter().position(|line| block_of(*line) == block).unwrap_or(0);
    }
    let mut way = WAYS - 1;
    for earlier in (0..WAYS - 1).rev() {
        way = if block_of(lines[earlier]) == block { earlier } else { way };
    }
    way
}

/// Puts the line of this way before the others.
#[inline]
fn make_first<const WAYS: usize>(lines: &mut [Line], way: usize, line: Line) {
    if way != 0 {
        if WAYS == 0 {
            lines.copy_within(0..way, 1);
        }
        for later in (1..WAYS).rev() {
            lines[later] = if later <= way { lines[later - 1] } else { lines[later] };
        }
    }
    lines[0] = line;
}
