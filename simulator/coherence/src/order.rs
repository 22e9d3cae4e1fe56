//! The next processor to run (the one that is furthest behind), and how far it may run.
//!
//! A tournament: each inner node holds the smaller of its two children, so that a change costs the
//! logarithm of the number of processors.

/// A tournament whose leaves are (clock, processor), packed so that the smaller comes first.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    nodes: Vec<u64>,
    leaves: usize,
}

/// The number of a processor fits in this many bits (`CPUS_MAX`); the clock has the others.
const CPU_BITS: u32 = 6;
/// The clock of a processor that waits to be called.
const NEVER: u64 = u64::MAX >> CPU_BITS;

/// A turn: the processor, its clock, and when the next turn would be due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) cpu: usize,
    /// Up to here, not included, no other processor does anything.
    pub(crate) alone_until: u64,
}

impl Order {
    pub(crate) fn new(cpus: usize) -> Self {
        let leaves = cpus.next_power_of_two();
        let mut order = Self { nodes: vec![u64::MAX; leaves * 2], leaves };
        for cpu in 0..cpus {
            order.set(cpu, Some(0));
        }
        order
    }

    /// Sets a processor's clock; none if it waits to be called.
    pub(crate) fn set(&mut self, cpu: usize, clock: Option<u64>) {
        let mut node = self.leaves + cpu;
        self.nodes[node] = (clock.unwrap_or(NEVER) << CPU_BITS) | cpu as u64;
        while node > 1 {
            self.nodes[node / 2] = self.nodes[node].min(self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// The turn of the processor that is furthest behind; none if all wait to be called.
    pub(crate) fn next(&self) -> Option<Turn> {
        let first = self.nodes[1];
        if first >> CPU_BITS == NEVER {
            return None;
        }
        let cpu = (first & ((1 << CPU_BITS) - 1)) as usize;
        let mut second = u64::MAX;
        let mut node = self.leaves + cpu;
        while node > 1 {
            second = second.min(self.nodes[node ^ 1]);
            node /= 2;
        }
        // At the same time the processor with the lower number goes first.
        let tie = u64::from(second & ((1 << CPU_BITS) - 1) > cpu as u64);
        Some(Turn { cpu, alone_until: (second >> CPU_BITS) + tie })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::Generator;

    #[test]
    fn agrees_with_a_search() {
        let mut generator = Generator::new(3);
        for cpus in [1, 2, 3, 8, 13, 64] {
            let mut order = Order::new(cpus);
            let mut clocks = vec![0_u64; cpus];
            for _ in 0..500 {
                let cpu = (0..cpus).min_by_key(|&cpu| (clocks[cpu], cpu)).expect("some");
                let others = (0..cpus).filter(|&other| other != cpu);
                let until = others.map(|other| clocks[other] + u64::from(other > cpu)).min();
                let turn = order.next().expect("some");
                assert_eq!(turn.cpu, cpu);
                assert_eq!(turn.alone_until, until.unwrap_or(turn.alone_until));
                clocks[cpu] += generator.below(5) as u64;
                order.set(cpu, Some(clocks[cpu]));
            }
        }
    }

    #[test]
    fn who_waits_to_be_called_has_no_turn() {
        let mut order = Order::new(2);
        order.set(0, None);
        assert_eq!(order.next().map(|turn| turn.cpu), Some(1));
        order.set(1, None);
        assert_eq!(order.next(), None);
    }
}
