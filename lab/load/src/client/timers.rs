//! Times at which slots need attention. Entries are never removed early: a stale one is recognised
//! when it comes up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A time that never comes.
pub(super) const NEVER: u64 = u64::MAX;

/// Slots by time. Each slot remembers in an `armed` field of its own when its earliest entry comes
/// up; later entries of the same slot are leftovers.
#[derive(Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Timers {
    /// Makes `slot` come up at `at_us` or earlier.
    pub(super) fn arm(&mut self, slot: u32, at_us: u64, armed: &mut u64) {
        if at_us < *armed {
            *armed = at_us;
            self.heap.push(Reverse((at_us, slot)));
        }
    }

    /// Takes out the earliest entry if it is due: its time and its slot.
    pub(super) fn take_due(&mut self, now_us: u64) -> Option<(u64, u32)> {
        let Reverse(first) = *self.heap.peek()?;
        if first.0 > now_us {
            return None;
        }
        self.heap.pop();
        Some(first)
    }

    /// When the earliest entry comes up.
    pub(super) fn next_us(&self) -> u64 {
        self.heap.peek().map_or(NEVER, |Reverse((at_us, _))| *at_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_up_in_order_and_not_too_early() {
        let mut timers = Timers::default();
        let mut armed = [NEVER; 3];
        for (slot, at) in [(0, 30), (1, 10), (2, 20)] {
            timers.arm(slot, at, &mut armed[slot as usize]);
        }
        assert_eq!(timers.take_due(9), None);
        assert_eq!(timers.take_due(25), Some((10, 1)));
        assert_eq!(timers.take_due(25), Some((20, 2)));
        assert_eq!((timers.take_due(25), timers.next_us()), (None, 30));
    }

    #[test]
    fn a_later_time_costs_no_entry() {
        let mut timers = Timers::default();
        let mut armed = NEVER;
        timers.arm(0, 10, &mut armed);
        timers.arm(0, 20, &mut armed);
        assert_eq!((armed, timers.heap.len()), (10, 1));
        timers.arm(0, 5, &mut armed);
        assert_eq!((armed, timers.heap.len()), (5, 2));
    }
}
