//! One processor's cache: lines of each set in the order of their last use, in one slab.
//!
//! Misses are handled elsewhere. A line that was taken away keeps its number as a **ghost** until
//! its place is used again: a miss that finds the ghost would have been a hit.

use crate::protocol::{INVALID, State};

/// Block number (24 bits), place of its masks among the ways of the set (4), state (4).
pub(crate) type Line = u32;
pub(crate) const BLOCK_SHIFT: u32 = 8;
/// Block numbers from here on do not fit a line.
pub(crate) const BLOCKS_MAX: u64 = 1 << (32 - BLOCK_SHIFT);
const SLOT_SHIFT: u32 = 4;
const STATE: u32 = 15;

/// The words of a copy that were touched, one bit each; for the masks of a ghost see `classify`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    pub(crate) used: u64,
    pub(crate) wrote: u64,
}

/// Where a hit found its line: the way (4 bits) and the state (4).
pub(crate) type Step = u8;
const STEP_WAY_SHIFT: u32 = 4;

/// A set-associative cache.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    /// Sets of `ways` lines, the most recently used first.
    pub(crate) lines: Vec<Line>,
    /// Sets of `ways` masks; these are not reordered.
    pub(crate) masks: Vec<Masks>,
    pub(crate) ways: usize,
}

impl Cache {
    pub(crate) fn new(sets: usize, ways: usize) -> Self {
        let lines = (0..sets * ways).map(|number| ((number % ways) as Line) << SLOT_SHIFT);
        Self { lines: lines.collect(), masks: vec![Masks::default(); sets * ways], ways }
    }

    /// The index in the slab of the block's line, a copy or a ghost.
    pub(crate) fn find(&self, set: usize, block: u32) -> Option<usize> {
        let base = set * self.ways;
        let lines = &self.lines[base..base + self.ways];
        lines.iter().position(|line| block_of(*line) == block).map(|way| base + way)
    }

    /// The line to replace: one without a copy if there is any, else the least recently used.
    pub(crate) fn victim(&self, set: usize) -> usize {
        let base = set * self.ways;
        let lines = &self.lines[base..base + self.ways];
        base + lines.iter().rposition(|line| state_of(*line) == INVALID).unwrap_or(self.ways - 1)
    }

    /// Replaces the line by a block and makes it the most recent of its set.
    pub(crate) fn install(&mut self, place: usize, block: u32, state: State) {
        let slot = self.lines[place] & (STATE << SLOT_SHIFT);
        self.lines[place] = (block << BLOCK_SHIFT) | slot | u32::from(state);
        let at = self.masks_of(place);
        self.masks[at] = Masks::default();
        self.touch(place);
    }

    /// Makes a line the most recent of its set.
    pub(crate) fn touch(&mut self, place: usize) {
        let base = place - place % self.ways;
        self.lines[base..=place].rotate_right(1);
    }

    /// Undoes a hit, which found its line in the way and state of `step`, and these masks if the
    /// record was tracked. A read left the masks unchanged, and other processors may have changed
    /// them since.
    pub(crate) fn take_back(&mut self, set: usize, step: Step, masks: Option<Masks>, write: bool) {
        let base = set * self.ways;
        let place = base + usize::from(step >> STEP_WAY_SHIFT);
        self.lines[base..=place].rotate_left(1);
        self.set_state(place, step & STATE as State);
        if let Some(masks) = masks {
            let at = self.masks_of(place);
            self.masks[at].used = masks.used;
            if write {
                self.masks[at].wrote = masks.wrote;
            }
        }
    }

    /// Makes a line forget its block.
    pub(crate) fn clear(&mut self, place: usize) {
        self.lines[place] &= STATE << SLOT_SHIFT;
    }

    pub(crate) fn set_state(&mut self, place: usize, state: State) {
        self.lines[place] = with_state(self.lines[place], state);
    }

    /// The index of the masks of a line.
    pub(crate) fn masks_of(&self, place: usize) -> usize {
        place - place % self.ways + slot_of(self.lines[place])
    }
}

pub(crate) fn step_of(way: usize, state: State) -> Step {
    (way << STEP_WAY_SHIFT) as Step | state
}

pub(crate) fn block_of(line: Line) -> u32 {
    line >> BLOCK_SHIFT
}

pub(crate) fn state_of(line: Line) -> State {
    (line & STATE) as State
}

pub(crate) fn slot_of(line: Line) -> usize {
    ((line >> SLOT_SHIFT) & STATE) as usize
}

pub(crate) fn with_state(line: Line, state: State) -> Line {
    line & !STATE | u32::from(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recent_line_makes_room_unless_one_is_free() {
        let mut cache = Cache::new(2, 2);
        for block in [8, 10] {
            let place = cache.victim(1);
            cache.install(place, block, 1);
        }
        assert_eq!(block_of(cache.lines[cache.victim(1)]), 8);
        let eight = cache.find(1, 8).expect("installed");
        cache.touch(eight);
        assert_eq!(block_of(cache.lines[cache.victim(1)]), 10);
        let eight = cache.find(1, 8).expect("installed");
        cache.set_state(eight, INVALID);
        assert_eq!(block_of(cache.lines[cache.victim(1)]), 8);
        assert_eq!(cache.find(0, 8), None);
    }

    #[test]
    fn masks_stay_with_their_line() {
        let mut cache = Cache::new(1, 4);
        for block in 1..=4 {
            let place = cache.victim(0);
            cache.install(place, block, 1);
            let at = cache.masks_of(0);
            cache.masks[at].used = u64::from(block);
        }
        for block in [2, 4, 1, 3, 2] {
            let place = cache.find(0, block).expect("installed");
            cache.touch(place);
            assert_eq!(cache.masks[cache.masks_of(0)].used, u64::from(block));
        }
    }
}
