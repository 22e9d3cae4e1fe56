//! Which parts of an open file were seen in memory a moment ago: notes for threads that must not
//! wait for the disk, shared by all connections that send the file. They only save system calls:
//! forgetting a note is always right, and a note may be out of date. This module makes no system
//! calls.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The size of a block; notes are made of blocks, each from its start on.
pub const BLOCK_BYTES: u64 = 256 << 10;

/// How long a note counts. The kernel evicts last what has just been used: in this time a disk does
/// not fill a memory of usual size.
const MOMENT_US: u64 = 250_000;

/// How long the kernel is not asked again: a file that is requested very often is asked about a
/// hundred times a second.
const INSTANT_MS: u32 = 10;

/// The number of blocks with notes: all of a file of 2 MiB. In a longer file a later block replaces
/// an earlier one.
const SLOTS: usize = 8;

/// A note is one word, so that it is read and written whole: its block, how many bytes from the
/// start of the block, and when, in milliseconds. Each is cut off to its bits: in a file of more
/// than 256 GiB, or after nine hours to the millisecond, one note may be taken for another.
const BLOCK_BITS: u32 = 20;
const LEN_BITS: u32 = 19;
const TIME_BITS: u32 = 25;
const _: () = assert!(BLOCK_BITS + LEN_BITS + TIME_BITS == u64::BITS);
const _: () = assert!(BLOCK_BYTES < 1 << LEN_BITS);

/// Notes on which blocks of one open file were seen in memory, and when: at most eight of them,
/// shared by all connections that send the file.
#[derive(Debug, Default)]
pub struct Residency {
    seen: [AtomicU64; SLOTS],
    /// When the kernel last confirmed a byte of the block in that slot, in milliseconds.
    asked: [AtomicU32; SLOTS],
}

impl Residency {
    /// Notes that `len` bytes from `offset` on, all in one block, were seen in memory at `now_us`.
    /// The note is kept only if they are the first of their block.
    pub fn record(&self, offset: u64, len: u64, now_us: u64) {
        if offset.is_multiple_of(BLOCK_BYTES) && len > 0 {
            let block = offset / BLOCK_BYTES;
            let word = low(block, BLOCK_BITS) << (LEN_BITS + TIME_BITS)
                | len.min(BLOCK_BYTES) << TIME_BITS
                | low(now_us / 1000, TIME_BITS);
            self.slot(block).store(word, Ordering::Relaxed);
        }
    }

    /// How many of the `len` bytes from `offset` on were seen a moment before `now_us`: the first
    /// ones, up to the first gap.
    #[must_use]
    pub fn known_len(&self, offset: u64, len: u64, now_us: u64) -> u64 {
        let end = offset.saturating_add(len);
        let mut at = offset;
        while at < end {
            let start = at - at % BLOCK_BYTES;
            let seen = start + self.recorded_len(start / BLOCK_BYTES, now_us);
            if seen <= at {
                break;
            }
            at = seen.min(end);
            if seen < start + BLOCK_BYTES {
                break;
            }
        }
        at - offset
    }

    /// Notes that the kernel has confirmed the bytes at `offsets`.
    pub fn confirm(&self, offsets: [u64; 2], now_us: u64) {
        for offset in offsets {
            self.asked[place(offset / BLOCK_BYTES)].store(instant(now_us), Ordering::Relaxed);
        }
    }

    /// Whether the blocks of both `offsets` were confirmed so short a time ago that the kernel need
    /// not be asked again. This only applies to bytes that are [`known_len`](Self::known_len).
    #[must_use]
    pub fn is_certain(&self, offsets: [u64; 2], now_us: u64) -> bool {
        offsets.iter().all(|offset| {
            let asked = self.asked[place(offset / BLOCK_BYTES)].load(Ordering::Relaxed);
            instant(now_us).wrapping_sub(asked) < INSTANT_MS
        })
    }

    /// How many bytes of a block, from its start on, were seen a moment ago.
    fn recorded_len(&self, block: u64, now_us: u64) -> u64 {
        let word = self.slot(block).load(Ordering::Relaxed);
        let age_ms = low((now_us / 1000).wrapping_sub(word), TIME_BITS);
        let is_it = word >> (LEN_BITS + TIME_BITS) == low(block, BLOCK_BITS);
        if is_it && age_ms <= MOMENT_US / 1000 { low(word >> TIME_BITS, LEN_BITS) } else { 0 }
    }

    fn slot(&self, block: u64) -> &AtomicU64 {
        &self.seen[place(block)]
    }
}

/// The slot of a block.
fn place(block: u64) -> usize {
    (block % SLOTS as u64) as usize
}

/// A time in milliseconds, cut off to its lowest 32 bits: it wraps around after 49 days.
fn instant(now_us: u64) -> u32 {
    (now_us / 1000) as u32
}

/// The lowest bits of a number.
const fn low(value: u64, bits: u32) -> u64 {
    value & ((1 << bits) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 77_000_000_000;
    const KIB: u64 = 1024;

    #[test]
    fn a_block_seen_in_memory_is_known_for_a_moment() {
        let residency = Residency::default();
        assert_eq!(residency.known_len(0, 50_000, NOW), 0);
        residency.record(0, 50_000, NOW);
        let check = |offset, len, later_us, known| {
            let found = residency.known_len(offset, len, NOW + later_us);
            assert_eq!(found, known, "{len} from {offset} after {later_us} µs");
        };
        check(0, 50_000, 0, 50_000);
        check(0, 50_000, MOMENT_US, 50_000);
        check(0, 50_000, MOMENT_US + 1000, 0);
        check(20_000, 1000, 0, 1000);
        check(20_000, 90_000, 0, 30_000);
        check(50_000, 1, 0, 0);
        check(BLOCK_BYTES, 1, 0, 0);
    }

    #[test]
    fn a_confirmed_block_is_certain_for_an_instant() {
        let residency = Residency::default();
        let is_certain =
            |offsets, later_ms: u64| residency.is_certain(offsets, NOW + later_ms * 1000);
        residency.confirm([0, 700 * KIB], NOW);
        assert!(is_certain([100, 600 * KIB], 9), "blocks 0 and 2");
        assert!(!is_certain([100, 600 * KIB], 10));
        assert!(!is_certain([100, 300 * KIB], 0) && !is_certain([300 * KIB, 100], 0), "block 1");
    }

    #[test]
    fn blocks_are_joined_as_far_as_there_is_no_gap() {
        let residency = Residency::default();
        for block in [0, 1, 3] {
            residency.record(block * BLOCK_BYTES, BLOCK_BYTES, NOW);
        }
        assert_eq!(residency.known_len(100 * KIB, 1 << 20, NOW), 412 * KIB);
        assert_eq!(residency.known_len(0, 300 * KIB, NOW), 300 * KIB);
        residency.record(2 * BLOCK_BYTES, 10 * KIB, NOW);
        assert_eq!(residency.known_len(0, 1 << 20, NOW), 522 * KIB);
        residency.record(2 * BLOCK_BYTES, BLOCK_BYTES, NOW);
        assert_eq!(residency.known_len(0, 1 << 20, NOW), 1 << 20);
    }

    #[test]
    fn only_the_start_of_a_block_is_noted_and_a_later_block_takes_the_place() {
        let residency = Residency::default();
        residency.record(4096, 10_000, NOW);
        assert_eq!(residency.known_len(4096, 10_000, NOW), 0);
        residency.record(0, BLOCK_BYTES, NOW);
        residency.record(SLOTS as u64 * BLOCK_BYTES, BLOCK_BYTES, NOW);
        assert_eq!(residency.known_len(0, 1, NOW), 0);
        assert_eq!(residency.known_len(SLOTS as u64 * BLOCK_BYTES, 1, NOW), 1);
    }
}
