//! Strict order without waiting: a processor goes on to the next record that needs the bus, and
//! what it has done too early is undone.
//!
//! A hit touches only the processor's own cache, so that it does not matter when it is simulated,
//! unless an earlier transaction of another processor changes that very copy. Before a transaction,
//! therefore, each holder of the block is checked for having touched it since, and if it has,
//! everything that it has done since is undone. The outcome is the same as if the processor that is
//! furthest behind always made the next reference; a test checks this. An observer that must be
//! told of references in their order cannot be combined with this.

use super::transact::{Access, bits};
use super::{Cpu, Observer, Simulation};
use crate::cache::{Masks, Step, state_of, step_of};
use crate::protocol::{INVALID, State, Transaction};
use crate::record::{Kind, Record, TRACKED};

/// Records of a run of hits at most, whether it is kept or not.
pub(super) const RECORDS_MAX: usize = 1 << 14;
/// Records that may have to be undone. Misses are seldom farther apart.
const AHEAD_MAX: usize = 128;

/// What is recorded of a run of hits.
pub(super) trait Log {
    /// The number of records that fit.
    const RECORDS_MAX: usize;

    /// Called when a run begins.
    fn begin(&mut self, _: &Cpu) {}

    /// Called for each record: it found its block in this way and state.
    fn step(&mut self, _step: usize, _way: usize, _state: State) {}

    /// Called for each tracked record: it found these masks.
    fn masks(&mut self, _: Masks) {}

    /// Called when a run ends after `steps` records; their blocks are in the filter.
    fn end(&mut self, _steps: usize, _filter: u64) {}
}

/// A log that records nothing.
impl Log for () {
    const RECORDS_MAX: usize = RECORDS_MAX;
}

/// The last run of hits of a processor, so that it can be undone from its end.
#[derive(Debug)]
pub(super) struct Ahead {
    /// By record: the way and state of its line.
    steps: [Step; AHEAD_MAX],
    made: usize,
    /// By tracked record: the masks before it.
    masks: Vec<Masks>,
    /// The blocks that may have been touched.
    filter: u64,
    /// The last fetch before the run.
    last_fetch: Record,
}

/// A block's bit in a filter.
#[inline]
pub(super) fn filter_of(block: u32) -> u64 {
    1 << (block % 64)
}

impl Ahead {
    pub(super) fn new() -> Self {
        let masks = Vec::with_capacity(AHEAD_MAX);
        Self { steps: [0; AHEAD_MAX], made: 0, masks, filter: 0, last_fetch: Record(0) }
    }

    /// The blocks that may have been touched.
    pub(super) fn filter(&self) -> u64 {
        self.filter
    }
}

impl Log for Ahead {
    const RECORDS_MAX: usize = AHEAD_MAX;

    #[inline]
    fn begin(&mut self, cpu: &Cpu) {
        self.masks.clear();
        self.last_fetch = cpu.last_fetch;
    }

    #[inline]
    fn step(&mut self, step: usize, way: usize, state: State) {
        self.steps[step % AHEAD_MAX] = step_of(way, state);
    }

    #[inline]
    fn masks(&mut self, masks: Masks) {
        self.masks.push(masks);
    }

    #[inline]
    fn end(&mut self, steps: usize, filter: u64) {
        (self.made, self.filter) = (steps, filter);
    }
}

impl<O: Observer> Simulation<'_, O> {
    /// Marks everything that a processor has done so far as not too early.
    pub(super) fn in_time(&mut self, cpu: usize) {
        let ahead = &mut self.ahead[cpu];
        (ahead.made, ahead.filter, self.filters[cpu]) = (0, 0, 0);
    }

    /// Before a transaction: undoes what holders of the block have done to it later than that.
    pub(super) fn undo_later_uses(&mut self, access: Access, what: Transaction) {
        if !self.exact {
            return;
        }
        // A read does not change calm copies.
        if what == Transaction::ReadBlock && self.blocks.alike(access.block) != INVALID {
            return;
        }
        let holders = self.blocks.holders(access.block) & !(1 << access.cpu);
        for other in bits(holders) {
            let may = self.filters[other] & filter_of(access.block) != 0
                && self.cpus[other].clock >= access.now
                && self.is_changed(other, access, what);
            if may && self.touched(other, access) {
                self.take_back(other, access.cpu, access.now);
            }
        }
    }

    /// Whether the other processor's use of its copy can matter to the transaction. It cannot when
    /// a block is read that several have, which is the usual case: they have only read it, too.
    fn is_changed(&self, other: usize, access: Access, what: Transaction) -> bool {
        what != Transaction::ReadBlock || {
            let cache = &self.caches[other];
            let place = cache.find(access.set, access.block).expect("a holder has a copy");
            !self.table.is_calm(state_of(cache.lines[place]))
        }
    }

    /// Whether the other processor has touched the block since.
    fn touched(&self, other: usize, access: Access) -> bool {
        let (state, records) = (&self.cpus[other], self.records(other));
        let mut start = state.clock;
        let last = records[..state.position].iter().rev().take(self.ahead[other].made);
        for record in last {
            start -= record.count() * self.geometry.operation_cycles;
            if (start, other) < (access.now, access.cpu) {
                return false;
            }
            if self.geometry.block(*record) == access.block {
                return true;
            }
        }
        false
    }

    /// Undoes what all other processors have done later than the end of the run.
    pub(super) fn take_all_back(&mut self, cpu: usize) {
        let now = self.cpus[cpu].clock;
        for other in 0..self.cpus.len() {
            if self.ahead[other].made > 0 {
                self.take_back(other, cpu, now);
            }
        }
    }

    /// Undoes what the other processor has done later than `cpu` at time `now`.
    fn take_back(&mut self, other: usize, cpu: usize, now: u64) {
        let kernel = std::mem::take(&mut self.cpus[other].kernel);
        let (state, cache) = (&mut self.cpus[other], &mut self.caches[other]);
        let records = match (state.in_kernel, state.task) {
            (true, _) => &kernel,
            (false, Some(task)) => &self.workload.tasks[task as usize].records,
            (false, None) => unreachable!("a processor that has made references has a task"),
        };
        let counts = &mut self.counts.references[usize::from(state.in_kernel)];
        let Ahead { steps, made, masks, last_fetch, .. } = &mut self.ahead[other];
        let begin = state.position - *made;
        while *made > 0 {
            let record = records[state.position - 1];
            let count = record.count();
            let start = state.clock - count * self.geometry.operation_cycles;
            if (start, other) < (now, cpu) {
                break;
            }
            *made -= 1;
            let masks = (record.0 & TRACKED != 0).then(|| masks.pop().expect("as many as tracked"));
            let (_, set) = self.geometry.place(record, &self.colours);
            let write = record.kind() == Some(Kind::Store);
            cache.take_back(set as usize, steps[*made], masks, write);
            counts[(record.0 & 3) as usize] -= count;
            (state.clock, state.position) = (start, state.position - 1);
            state.left += count as i64;
        }
        let fetch = records[begin..state.position].iter().rfind(|one| one.0 & 3 == 0);
        state.last_fetch = *fetch.unwrap_or(last_fetch);
        state.kernel = kernel;
        let clock = state.clock;
        self.order.set(other, Some(clock));
        // The processor that has the turn must not go on beyond that.
        self.alone_until = self.alone_until.min(clock + u64::from(other > cpu));
    }
}
