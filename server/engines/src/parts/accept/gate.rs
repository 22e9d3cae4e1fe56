//! Fairness among loops that share a listener: a loop that is nearly full, or has accepted many
//! times, lets others go first. No loop knows how many connections the others have: they share
//! nothing.

use crate::knobs::{Knob, KnobValues};

pub(crate) const ACCEPT_GATE_EIGHTHS: Knob = Knob::number("accept_gate_eighths", 1..=8, 7)
    .about("a process this full, in eighths of its connections, rests after accepting; 8: never");

pub(crate) const REQUEUE_EVERY: Knob = Knob::number("requeue_every", 0..=1 << 20, 16)
    .about("after this many accepts a process goes to the end of the queue of waiters; 0: never");

/// How long a loop that is nearly full rests after a row of accepts, in milliseconds. Long enough
/// for another loop to be woken, short enough to cost nothing where all are full.
pub(crate) const REST_MS: u64 = 1;

/// The record that a loop keeps of its own accepting.
pub(crate) struct Gate {
    eighths: usize,
    requeue_every: u64,
    accepted: u64,
}

impl Gate {
    pub(crate) fn new(knobs: &KnobValues) -> Self {
        Self {
            eighths: knobs.get_usize(ACCEPT_GATE_EIGHTHS.name),
            requeue_every: knobs.get(REQUEUE_EVERY.name),
            accepted: 0,
        }
    }

    /// Whether a loop with `open` connections of at most `connections_max` is to rest.
    pub(crate) fn closes(&self, open: usize, connections_max: usize) -> bool {
        self.eighths < 8 && open * 8 > connections_max * self.eighths
    }

    /// Counts `accepted` connections. Returns whether it is another loop's turn: the kernel wakes
    /// the first waiter in its queue, which stays the first after a wake-up (nginx has found so
    /// too, `ngx_reorder_accept_events`).
    pub(crate) fn is_turn_over(&mut self, accepted: u64) -> bool {
        self.accepted += accepted;
        let is_over = self.requeue_every > 0 && self.accepted >= self.requeue_every;
        if is_over {
            self.accepted = 0;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(eighths: usize, requeue_every: u64) -> Gate {
        Gate { eighths, requeue_every, accepted: 0 }
    }

    #[test]
    fn the_gate_closes_above_its_mark() {
        let check = |eighths, open, max, closes| {
            assert_eq!(gate(eighths, 0).closes(open, max), closes, "{open} of {max}");
        };
        check(7, 7, 8, false);
        check(7, 8, 8, true);
        check(7, 876, 1000, true);
        check(7, 875, 1000, false);
        check(4, 5, 8, true);
        check(8, 8, 8, false);
    }

    #[test]
    fn turns_are_counted_in_accepts() {
        let mut every = gate(7, 16);
        assert_eq!(
            [10, 5, 1, 16, 3].map(|n| every.is_turn_over(n)),
            [false, false, true, true, false]
        );
        assert!(!gate(7, 0).is_turn_over(1000));
    }
}
