//! The bus: first come, first served, one transaction at a time; and the time for which each kind
//! of transaction kept it busy.
//!
//! The bus knows times only. The caller decides whether a cache or memory supplies a block.

use crate::machine::{self, MemoryLatency};
use crate::protocol::Transaction;

/// A shared bus.
#[derive(Debug, Clone)]
pub(crate) struct Bus {
    free_at: u64,
    /// Times by transaction; those that memory supplies, then those that a cache supplies.
    times: [[Times; 2]; 5],
    /// Cycles for which the bus was busy, in the same order.
    pub(crate) busy: [[u64; 2]; 5],
    /// The number of transactions, in the same order.
    pub(crate) count: [[u64; 2]; 5],
    /// Cycles that transactions waited for their turn.
    pub(crate) waited: u64,
    /// The additional times of a block from another node's memory.
    far: Times,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    /// Cycles until the requesting processor has its block.
    latency: u64,
    /// Cycles until the bus is free for others.
    occupancy: u64,
}

impl Bus {
    pub(crate) fn new(machine: &machine::Bus, block_bytes: u64, remote_extra: u64) -> Self {
        let bytes = block_bytes / machine.bytes_per_cycle;
        let all = |cycles| Times { latency: cycles, occupancy: cycles };
        let whole = machine.memory_latency_cycles + bytes;
        let occupancy = match machine.memory_latency {
            MemoryLatency::HoldsBus => whole,
            // The bytes of a block cost the same in either direction.
            MemoryLatency::Split => whole.min(machine.update_latency_cycles + bytes),
        };
        let memory = Times { latency: whole, occupancy };
        let held = match machine.memory_latency {
            MemoryLatency::HoldsBus => remote_extra,
            MemoryLatency::Split => 0,
        };
        let far = Times { latency: remote_extra, occupancy: held };
        let fetch = [memory, all(machine.cache_latency_cycles + bytes)];
        let times = [
            fetch,
            fetch,
            [all(machine.invalidate_cycles); 2],
            [all(machine.write_cycles); 2],
            [all(machine.update_latency_cycles + bytes); 2],
        ];
        Self { free_at: 0, times, busy: [[0; 2]; 5], count: [[0; 2]; 5], waited: 0, far }
    }

    /// Fetches a block from another node's memory.
    pub(crate) fn request_far(&mut self, now: u64, what: Transaction) -> u64 {
        let done = self.request(now, what, false);
        self.free_at += self.far.occupancy;
        self.busy[what as usize][0] += self.far.occupancy;
        done + self.far.latency
    }

    /// Does a transaction as soon as the bus is free and returns when it is done.
    pub(crate) fn request(&mut self, now: u64, what: Transaction, from_cache: bool) -> u64 {
        let (what, from) = (what as usize, usize::from(from_cache));
        let times = self.times[what][from];
        let start = self.free_at.max(now);
        self.waited += start - now;
        self.free_at = start + times.occupancy;
        self.busy[what][from] += times.occupancy;
        self.count[what][from] += 1;
        start + times.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 4 of the paper, by columns.
    #[test]
    fn the_default_times_are_the_papers() {
        let columns = [(32, 68, 12, 8), (64, 72, 16, 12), (128, 80, 24, 20), (256, 96, 40, 36)];
        for (block, memory, cache, update) in columns {
            let mut bus = Bus::new(&machine::Bus::default(), block, 0);
            let mut done = 0;
            let mut takes = |what, from_cache, expected| {
                let now = done;
                done = bus.request(now, what, from_cache);
                assert_eq!(done - now, expected, "{what:?} {block}");
            };
            for what in [Transaction::ReadBlock, Transaction::ReadAndInvalidate] {
                takes(what, false, memory);
                takes(what, true, cache);
            }
            takes(Transaction::Invalidate, false, 5);
            takes(Transaction::Write, false, 5);
            takes(Transaction::UpdateBlock, false, update);
        }
    }

    #[test]
    fn who_comes_later_waits_and_a_split_bus_is_free_sooner() {
        let mut machine = machine::Bus::default();
        let mut bus = Bus::new(&machine, 32, 0);
        assert_eq!(bus.request(10, Transaction::ReadBlock, false), 78);
        assert_eq!(bus.request(20, Transaction::ReadBlock, false), 146);
        assert_eq!(bus.waited, 58);
        machine.memory_latency = MemoryLatency::Split;
        let mut bus = Bus::new(&machine, 32, 0);
        assert_eq!(bus.request(10, Transaction::ReadBlock, false), 78);
        assert_eq!(bus.request(20, Transaction::ReadBlock, false), 88);
        assert_eq!(bus.busy[0], [16, 0]);
    }

    #[test]
    fn what_is_far_takes_longer_and_holds_a_bus_that_memory_holds() {
        let mut machine = machine::Bus::default();
        let mut bus = Bus::new(&machine, 32, 30);
        assert_eq!(bus.request_far(0, Transaction::ReadBlock), 98);
        assert_eq!(bus.request(0, Transaction::ReadBlock, false), 166);
        assert_eq!(bus.busy[0], [166, 0]);
        machine.memory_latency = MemoryLatency::Split;
        let mut bus = Bus::new(&machine, 32, 30);
        assert_eq!(bus.request_far(0, Transaction::ReadBlock), 98);
        assert_eq!(bus.request(0, Transaction::ReadBlock, false), 76);
    }
}
