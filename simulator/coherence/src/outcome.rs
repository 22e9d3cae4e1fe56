//! The result of a run: counts, and the figures of the paper computed from them.
//!
//! Numbers only; how they are shown is decided by the callers. The outcome of several seeds is a
//! list of outcomes.

use serde::Serialize;

use crate::bus::Bus;
use crate::classify::{Miss, Sharing};
use crate::machine::Machine;
use crate::protocol::Transaction;
use crate::ranking::Ranking;

/// The counts of a run. The first index of an array is 0 for user mode and 1 for the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Fetches, loads and stores.
    pub references: [[u64; 3]; 2],
    /// Misses by class in the order of [`Miss::ALL`]: reads and fetches, then writes.
    pub misses: [[[u64; 2]; 12]; 2],
    /// Coherence transactions by [`Sharing::ALL`]: invalidations (INV), then updates (WR).
    pub coherence: [[[u64; 2]; 4]; 2],
    /// System calls.
    pub system_calls: u64,
    /// How often a processor took a task.
    pub switches: u64,
    /// How often such a task had last run on another processor.
    pub migrations: u64,
    /// Transactions that found a copy in a cache whose processor had run ahead of them: 0 in
    /// strict order.
    pub late: u64,
    /// By transaction in the order of [`Transaction::ALL`]: those that stayed inside a group of
    /// processors with a last-level cache and did not use the bus.
    pub inside: [u64; 5],
    /// Copies that were taken away because the last-level cache replaced their block.
    pub taken: u64,
    /// Blocks that came from another node's memory.
    pub remote: u64,
}

/// The outcome of one run of a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The machine.
    pub machine: Machine,
    /// The seed.
    pub seed: u64,
    /// The length of the run in cycles.
    pub cycles: u64,
    /// Global system power: the sum of the processors' utilisations.
    pub gsp: f64,
    /// The part of the time for which the bus was busy.
    pub bus_utilisation: f64,
    /// The use of the bus, by transaction and supplier.
    pub bus: Vec<BusUse>,
    /// Cycles that transactions waited for the bus.
    pub bus_waited: u64,
    /// The processors by number.
    pub processors: Vec<Processor>,
    /// The counts.
    pub counts: Counts,
    /// References of all traces; not all are simulated if the run ends when processors become idle.
    pub trace_references: u64,
    /// What causes misses and coherence transactions, if [`Options::rank`](crate::Options::rank)
    /// was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranking: Option<Ranking>,
}

/// The use of the bus by one kind of transaction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BusUse {
    /// The transaction.
    pub transaction: Transaction,
    /// Whether a cache supplied the block.
    pub from_cache: bool,
    /// The number of transactions.
    pub count: u64,
    /// The part of the time for which they occupied the bus.
    pub utilisation: f64,
}

/// How a processor spent its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Processor {
    /// The part of the time in which the processor did not wait.
    pub utilisation: f64,
    /// Cycles that the processor waited for memory.
    pub delayed: u64,
    /// Cycles without a task.
    pub idle: u64,
}

impl Outcome {
    pub(crate) fn new(
        machine: &Machine,
        seed: u64,
        cycles: u64,
        times: impl Iterator<Item = (u64, u64)>,
        bus: &Bus,
        counts: Counts,
    ) -> Self {
        let share = |part: u64| part as f64 / cycles.max(1) as f64;
        let processors: Vec<Processor> = times
            .map(|(delayed, idle)| {
                let utilisation = share(cycles.saturating_sub(delayed + idle));
                Processor { utilisation, delayed, idle }
            })
            .collect();
        let uses = Transaction::ALL.into_iter().flat_map(|transaction| {
            let what = transaction as usize;
            [false, true].map(|from_cache| BusUse {
                transaction,
                from_cache,
                count: bus.count[what][usize::from(from_cache)],
                utilisation: share(bus.busy[what][usize::from(from_cache)]),
            })
        });
        let bus_uses: Vec<BusUse> = uses.filter(|one| one.count > 0).collect();
        Self {
            machine: machine.clone(),
            seed,
            cycles,
            gsp: processors.iter().map(|one| one.utilisation).sum(),
            // The last transaction may end after the last reference.
            bus_utilisation: bus_uses.iter().map(|one| one.utilisation).sum::<f64>().min(1.0),
            bus: bus_uses,
            bus_waited: bus.waited,
            processors,
            counts,
            trace_references: 0,
            ranking: None,
        }
    }

    pub(crate) fn with_trace_references(self, trace_references: u64) -> Self {
        Self { trace_references, ..self }
    }

    pub(crate) fn ranked(self, ranking: Option<Ranking>) -> Self {
        Self { ranking, ..self }
    }

    /// Misses per 100 references, of the classes that `of` selects.
    pub fn miss_percent(&self, of: impl Fn(Miss) -> bool) -> f64 {
        let classes = Miss::ALL.into_iter().filter(|class| of(*class));
        self.percent(classes.map(|class| self.counts.misses_of(class)).sum())
    }

    /// Coherence transactions per 100 references, of the kinds that `of` selects.
    pub fn coherence_percent(&self, of: impl Fn(Sharing) -> bool) -> f64 {
        let kinds = Sharing::ALL.into_iter().filter(|kind| of(*kind));
        self.percent(kinds.map(|kind| self.counts.coherence_of(kind)).sum())
    }

    /// Blocks that memory supplied.
    pub fn from_memory(&self) -> u64 {
        let from_memory =
            self.bus.iter().filter(|one| one.transaction.fetches() && !one.from_cache);
        from_memory.map(|one| one.count).sum()
    }

    /// How much of the trace was simulated, in percent of its references.
    pub fn simulated_percent(&self) -> f64 {
        let made: u64 = self.counts.references[0].iter().sum();
        made as f64 * 100.0 / self.trace_references.max(1) as f64
    }

    /// The mean of the processors' utilisations.
    pub fn processor_utilisation(&self) -> f64 {
        self.gsp / self.processors.len().max(1) as f64
    }

    fn percent(&self, count: u64) -> f64 {
        count as f64 * 100.0 / self.counts.all_references().max(1) as f64
    }
}

impl Counts {
    /// References in both modes.
    pub fn all_references(&self) -> u64 {
        self.references.iter().flatten().sum()
    }

    /// Misses of a class, in both modes.
    pub fn misses_of(&self, class: Miss) -> u64 {
        self.misses.iter().flat_map(|mode| mode[class as usize]).sum()
    }

    /// Misses of processors' own caches that were served inside their group.
    pub fn served_inside(&self) -> u64 {
        self.inside[Transaction::ReadBlock as usize]
            + self.inside[Transaction::ReadAndInvalidate as usize]
    }

    /// Coherence transactions that stayed inside a group of processors.
    pub fn coherence_inside(&self) -> u64 {
        self.inside[Transaction::Invalidate as usize] + self.inside[Transaction::Write as usize]
    }

    /// Coherence transactions of a kind, in both modes.
    pub fn coherence_of(&self, kind: Sharing) -> u64 {
        self.coherence.iter().flat_map(|mode| mode[kind as usize]).sum()
    }
}

/// The number of processors to which a machine scales: the first number at which one more adds less
/// than 0.5 to the GSP, by linear interpolation between the simulated numbers. None if all of them
/// add more. `gsp` is by number of processors, in ascending order.
pub fn scalable_to(gsp: &[(u32, f64)]) -> Option<u32> {
    let too_little = gsp.windows(2).find(|pair| {
        let (cpus, power) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
        power < 0.5 * f64::from(cpus)
    });
    too_little.map(|pair| pair[0].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scalability_point_is_the_first_step_that_adds_too_little() {
        let gsp = [(1, 0.9), (2, 1.8), (3, 2.4), (4, 2.8), (5, 3.4)];
        assert_eq!(scalable_to(&gsp), Some(3));
        assert_eq!(scalable_to(&gsp[..3]), None);
        assert_eq!(scalable_to(&[(4, 3.5), (8, 6.0), (12, 7.9)]), Some(8));
        assert_eq!(scalable_to(&[]), None);
    }
}
