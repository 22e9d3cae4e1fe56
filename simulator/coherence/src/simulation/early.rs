//! Prefetching, on the real machine, of what a processor will need at its next turn, while others
//! run.
//!
//! This changes nothing but the time that the simulation takes. The simulated caches of all
//! processors are larger than the real one, so that a turn would begin by waiting for its records,
//! for the lines that these refer to, and for the entry of the block that is missed. Prefetching
//! takes unsafe code, which is not here: [`Options::prefetch`](super::Options::prefetch) does it.

use super::hits::Stop;
use super::{Observer, Simulation};

/// Records on a line of the real machine's memory.
const RECORDS_PER_LINE: usize = 8;
/// Lines of records that are prefetched; the one in which the turn ended is in the cache already.
const RECORD_LINES: usize = 5;
/// Records whose simulated lines are prefetched.
const RECORDS: usize = 8;

impl<O: Observer> Simulation<'_, O> {
    /// Prefetches at the end of a processor's turn; the next record may be a miss.
    pub(super) fn prefetch_turn(&self, cpu: usize, stop: Stop) {
        let records = &self.records(cpu)[self.cpus[cpu].position..];
        for line in 1..=RECORD_LINES {
            self.prefetch(records, line * RECORDS_PER_LINE);
        }
        let cache = &self.caches[cpu];
        for record in records.iter().take(RECORDS).take_while(|record| record.kind().is_some()) {
            let (_, set) = self.geometry.place(*record, &self.colours);
            self.prefetch(&cache.lines, set as usize * cache.ways);
        }
        if let (Stop::Miss, Some(record)) = (stop, records.first()) {
            let (block, set) = self.geometry.place(*record, &self.colours);
            self.prefetch(self.blocks.entry(block), 0);
            self.prefetch(&cache.masks, set as usize * cache.ways);
        }
    }

    fn prefetch<T>(&self, slab: &[T], at: usize) {
        if let Some(one) = slab.get(at) {
            (self.options.prefetch)(std::ptr::from_ref(one).addr());
        }
    }
}
