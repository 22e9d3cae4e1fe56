//! What a processor will need at its next turn is asked of the real machine while others run.
//!
//! It changes nothing but time. The simulated caches of all processors are larger than the real
//! one, so that a turn would begin by waiting for its records, for the lines that these refer to,
//! and for what is known of the block that is missed. Asking takes unsafe code, which is not here:
//! [`Options::prefetch`](super::Options::prefetch) does it.

use super::hits::Stop;
use super::{Observer, Simulation};

/// Records on a line of the real machine's memory.
const RECORDS_PER_LINE: usize = 8;
/// Lines of records that are asked for; the one that the turn ended in is there.
const RECORD_LINES: usize = 5;
/// Records whose simulated lines are asked for.
const RECORDS: usize = 8;

impl<O: Observer> Simulation<'_, O> {
    /// A processor's turn is over; the next record may be a miss.
    pub(super) fn ask_early(&self, cpu: usize, stop: Stop) {
        let records = &self.records(cpu)[self.cpus[cpu].position..];
        for line in 1..=RECORD_LINES {
            self.ask(records, line * RECORDS_PER_LINE);
        }
        let cache = &self.caches[cpu];
        for record in records.iter().take(RECORDS).take_while(|record| record.kind().is_some()) {
            let (_, set) = self.geometry.place(*record, &self.colours);
            self.ask(&cache.lines, set as usize * cache.ways);
        }
        if let (Stop::Miss, Some(record)) = (stop, records.first()) {
            let (block, set) = self.geometry.place(*record, &self.colours);
            self.ask(self.blocks.entry(block), 0);
            self.ask(&cache.masks, set as usize * cache.ways);
        }
    }

    fn ask<T>(&self, slab: &[T], at: usize) {
        if let Some(one) = slab.get(at) {
            (self.options.prefetch)(std::ptr::from_ref(one).addr());
        }
    }
}
