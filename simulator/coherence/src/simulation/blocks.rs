//! The state of each block: its holders, the processors that lost it, and the fate of each
//! processor's copy.
//!
//! One packed entry for each block, because a miss needs all of it: with 16 processors it is 40
//! bytes, so that a miss waits for one line of the real machine's memory, or two. The contents of
//! the copies are in the caches.

use crate::protocol::{INVALID, STATES_MAX, State};

/// In the history of a copy: no copy has been replaced here.
pub(super) const NEVER: u16 = 0;
/// From here on: the task whose reference replaced the copy.
pub(super) const REPLACED_BY: u16 = 1;
/// The last-level cache replaced the copy. No task has so high a number.
pub(super) const TAKEN: u16 = u16::MAX;

/// In an entry: a bit for each processor that has a copy.
const HOLDERS: usize = 0;
/// In an entry: a bit for each processor whose copy was taken away, and whose line is still free.
const GHOSTS: usize = 1;
/// From here on in an entry: the history, a number for each processor, and the flags after the
/// last.
const HISTORY: usize = 2;

/// Flags: the state that all copies are in.
const ALIKE: u64 = STATES_MAX as u64 - 1;
const CURRENT: u64 = 1 << 3;
const SEEN: u64 = 1 << 4;
const _: () = assert!(ALIKE < CURRENT);

/// Entries of all blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    words: Vec<u64>,
    /// The number of words of an entry.
    stride: usize,
    /// log2 of the number of bits of a number in the history: 3, or 4 if there are many tasks.
    bits: u32,
    cpus: usize,
}

impl Blocks {
    pub(super) fn new(blocks: usize, cpus: usize, tasks: usize) -> Self {
        let bits = if tasks + usize::from(REPLACED_BY) < usize::from(u8::MAX) { 3 } else { 4 };
        let stride = HISTORY + ((cpus + 1) << bits).div_ceil(64);
        Self { words: vec![0; blocks * stride], stride, bits, cpus }
    }

    /// The entry of a block.
    pub(super) fn entry(&self, block: u32) -> &[u64] {
        &self.words[self.base(block)..][..self.stride]
    }

    fn base(&self, block: u32) -> usize {
        block as usize * self.stride
    }

    /// The processors that have a copy, one bit each.
    pub(super) fn holders(&self, block: u32) -> u64 {
        self.words[self.base(block) + HOLDERS]
    }

    /// The processors whose copy was taken away, and whose line is still free, one bit each.
    pub(super) fn ghosts(&self, block: u32) -> u64 {
        self.words[self.base(block) + GHOSTS]
    }

    /// Records that a processor has got a copy.
    pub(super) fn hold(&mut self, block: u32, cpu: usize) {
        let base = self.base(block);
        self.words[base + HOLDERS] |= 1 << cpu;
        self.words[base + GHOSTS] &= !(1 << cpu);
    }

    /// Records that a processor has neither a copy nor a ghost any more.
    pub(super) fn leave(&mut self, block: u32, cpu: usize) {
        let base = self.base(block);
        self.words[base + HOLDERS] &= !(1 << cpu);
        self.words[base + GHOSTS] &= !(1 << cpu);
    }

    /// Records that a processor's copy has become a ghost.
    pub(super) fn haunt(&mut self, block: u32, cpu: usize) {
        let base = self.base(block);
        self.words[base + HOLDERS] &= !(1 << cpu);
        self.words[base + GHOSTS] |= 1 << cpu;
    }

    /// The fate of the processor's last copy: [`NEVER`], [`TAKEN`], or [`REPLACED_BY`] a task.
    pub(super) fn history(&self, block: u32, cpu: usize) -> u16 {
        let (word, shift, mask) = self.place(block, cpu);
        let told = self.words[word] >> shift & mask;
        if told == mask { TAKEN } else { told as u16 }
    }

    pub(super) fn set_history(&mut self, block: u32, cpu: usize, what: u16) {
        let (word, shift, mask) = self.place(block, cpu);
        self.words[word] = self.words[word] & !(mask << shift) | (u64::from(what) & mask) << shift;
    }

    /// The index of a number's word, its shift there, and its mask.
    fn place(&self, block: u32, number: usize) -> (usize, usize, u64) {
        let bit = number << self.bits;
        (self.base(block) + HISTORY + bit / 64, bit % 64, (1 << (1 << self.bits)) - 1)
    }

    fn flags(&self, block: u32) -> u64 {
        let (word, shift, _) = self.place(block, self.cpus);
        self.words[word] >> shift
    }

    fn set_flags(&mut self, block: u32, which: u64, to: u64) {
        let (word, shift, _) = self.place(block, self.cpus);
        self.words[word] = self.words[word] & !(which << shift) | to << shift;
    }

    /// Whether a cache ever had the block.
    pub(super) fn is_seen(&self, block: u32) -> bool {
        self.flags(block) & SEEN != 0
    }

    pub(super) fn mark_seen(&mut self, block: u32) {
        self.set_flags(block, SEEN, SEEN);
    }

    /// The calm state that all copies in processors' caches are known to be in; INVALID if they are
    /// not, or if it is not known.
    pub(super) fn alike(&self, block: u32) -> State {
        (self.flags(block) & ALIKE) as State
    }

    /// Records that all copies are in this calm state now.
    pub(super) fn set_alike(&mut self, block: u32, state: State) {
        self.set_flags(block, ALIKE | CURRENT, u64::from(state));
    }

    /// Records that one copy is in this state now.
    pub(super) fn note_state(&mut self, block: u32, state: State) {
        if self.alike(block) != state {
            self.set_flags(block, ALIKE | CURRENT, u64::from(INVALID));
        }
    }

    /// Whether ghosts have been told of all writes of the holders; known only while all copies are
    /// alike, because a holder that can write silently does not report it.
    pub(super) fn ghosts_are_current(&self, block: u32) -> bool {
        self.flags(block) & ALIKE != 0 && self.flags(block) & CURRENT != 0
    }

    pub(super) fn set_ghosts_current(&mut self, block: u32, current: bool) {
        self.set_flags(block, CURRENT, if current { CURRENT } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_one_copy_is_kept_apart_from_all_others() {
        for (cpus, tasks) in [(1, 1), (7, 253), (8, 254), (64, 20), (64, 60_000)] {
            let mut blocks = Blocks::new(3, cpus, tasks);
            for cpu in 0..cpus {
                assert_eq!(blocks.history(1, cpu), NEVER);
                blocks.set_history(1, cpu, REPLACED_BY + tasks as u16 - 1);
                assert_eq!(blocks.history(1, cpu), REPLACED_BY + tasks as u16 - 1);
                blocks.set_history(1, cpu, TAKEN);
                blocks.hold(1, cpu);
            }
            blocks.mark_seen(1);
            blocks.set_alike(1, 7);
            blocks.set_ghosts_current(1, true);
            assert!(blocks.ghosts_are_current(1) && blocks.is_seen(1));
            blocks.haunt(1, cpus - 1);
            let last = 1 << (cpus - 1);
            assert_eq!((blocks.holders(1) & last, blocks.ghosts(1)), (0, last));
            blocks.note_state(1, 3);
            assert_eq!(
                (blocks.alike(1), blocks.ghosts_are_current(1), blocks.is_seen(1)),
                (0, false, true)
            );
            assert!((0..cpus).all(|cpu| blocks.history(1, cpu) == TAKEN), "{cpus} {tasks}");
            for other in [0, 2] {
                assert_eq!((blocks.holders(other), blocks.is_seen(other)), (0, false));
                assert!((0..cpus).all(|cpu| blocks.history(other, cpu) == NEVER));
            }
        }
    }
}
