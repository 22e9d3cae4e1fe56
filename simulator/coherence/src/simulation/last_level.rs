//! Last-level caches, each shared by a group of processors, between their own caches and the bus.
//!
//! This model is our own: the paper has none. A last-level cache has a line for every block that a
//! processor of its group has (it is inclusive). When the group's last copy of a block is replaced
//! it is **parked** there, in its state: to the protocol it is a copy like any other, so that every
//! protocol works with groups unchanged. A miss for which the group has a parked copy gets that
//! very copy; one for which a neighbour has a copy gets one from it by the protocol's table. Both
//! take `hit_cycles` and no bus, unless a cache outside the group has to be told. A line that is
//! replaced takes all copies of its group with it.
//!
//! What a transaction does without groups is in `transact`.

use super::hits::Geometry;
use super::transact::{Access, SnoopResponse, bits};
use super::{Observer, Simulation};
use crate::cache::{BLOCK_SHIFT, block_of, state_of, with_state};
use crate::machine;
use crate::protocol::{INVALID, Reaction, Signals, State, Supply, Transaction};

/// Block number (24 bits), [`STALE_MEMORY`], state of the parked copy (4): invalid if there is
/// none.
type Line = u32;
/// Memory is out of date though no copy is dirty: a dirty block was supplied inside the group.
const STALE_MEMORY: Line = 1 << 4;

/// The last-level caches of all groups.
#[derive(Debug)]
pub(super) struct LastLevel {
    cpus_per_group: usize,
    groups: usize,
    ways: usize,
    sets: u64,
    /// log2 of the blocks of a page.
    page_bits: u32,
    /// By frame: its place in memory.
    places: Vec<u32>,
    /// By group: sets of `ways` lines, the most recently used first.
    lines: Vec<Vec<Line>>,
    /// By block: the groups that have a parked copy, one bit each.
    parked: Vec<u64>,
    hit_cycles: u64,
}

/// The caches that a transaction concerns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reach {
    /// Whether no cache outside the group has to be told: the bus is not used.
    pub(super) inside: bool,
    /// Whether another processor of the group has a copy.
    pub(super) near: bool,
}

impl LastLevel {
    pub(super) fn new(
        machine: machine::LastLevel,
        cpus: usize,
        blocks: usize,
        geometry: Geometry,
        places: Vec<u32>,
    ) -> Self {
        let cpus_per_group = machine.cpus_per_group as usize;
        let groups = cpus.div_ceil(cpus_per_group);
        let lines = (machine.size_kib * 1024 / geometry.block_bytes) as usize;
        Self {
            cpus_per_group,
            groups,
            ways: machine.ways as usize,
            sets: lines as u64 / u64::from(machine.ways),
            page_bits: geometry.page_bits,
            places,
            lines: vec![vec![0; lines]; groups],
            parked: vec![0; blocks],
            hit_cycles: machine.hit_cycles,
        }
    }

    fn group(&self, cpu: usize) -> usize {
        cpu / self.cpus_per_group
    }

    /// The processors of a group, one bit each.
    pub(super) fn members(&self, cpu: usize) -> u64 {
        self.members_of(self.group(cpu))
    }

    fn members_of(&self, group: usize) -> u64 {
        let one = u64::MAX >> (64 - self.cpus_per_group);
        one << (group * self.cpus_per_group)
    }

    /// The first line of the block's set.
    fn base(&self, block: u32) -> usize {
        let place = u64::from(self.places[(block >> self.page_bits) as usize]);
        let in_page = u64::from(block & ((1 << self.page_bits) - 1));
        (((place << self.page_bits) | in_page) % self.sets) as usize * self.ways
    }

    fn find(&self, group: usize, block: u32) -> Option<usize> {
        let base = self.base(block);
        let lines = &self.lines[group][base..base + self.ways];
        lines.iter().position(|line| block_of(*line) == block).map(|way| base + way)
    }

    fn line(&mut self, group: usize, block: u32) -> &mut Line {
        let place = self.find(group, block).expect("what a group has, its last-level cache has");
        &mut self.lines[group][place]
    }

    /// Makes a line the most recent of its set.
    fn touch(&mut self, group: usize, place: usize) {
        let base = place - place % self.ways;
        self.lines[group][base..=place].rotate_right(1);
    }

    /// The line to replace: a free one, else the least recently used.
    fn victim(&self, group: usize, block: u32) -> usize {
        let base = self.base(block);
        let lines = &self.lines[group][base..base + self.ways];
        base + lines.iter().rposition(|line| block_of(*line) == 0).unwrap_or(self.ways - 1)
    }

    fn is_parked(&self, group: usize, block: u32) -> bool {
        self.parked[block as usize] >> group & 1 != 0
    }

    /// Parks a copy that the group's last processor gave up.
    fn park(&mut self, group: usize, block: u32, state: State) {
        self.parked[block as usize] |= 1 << group;
        let line = self.line(group, block);
        *line = with_state(*line, state);
    }

    /// Gives the parked copy away, if there is one.
    fn take(&mut self, group: usize, block: u32) -> Option<State> {
        if !self.is_parked(group, block) {
            return None;
        }
        self.parked[block as usize] &= !(1 << group);
        let line = self.line(group, block);
        let state = state_of(*line);
        *line = with_state(*line, INVALID);
        Some(state)
    }

    /// Records that the group has just supplied a dirty block to itself, and no copy is dirty any
    /// more.
    fn mark_memory_stale(&mut self, cpu: usize, block: u32) {
        let group = self.group(cpu);
        *self.line(group, block) |= STALE_MEMORY;
    }
}

impl<O: Observer> Simulation<'_, O> {
    /// Handles a miss that finds a parked copy: the processor gets it in its state, and goes on
    /// with it. Returns when all is done.
    pub(super) fn recall(
        &mut self,
        access: Access,
        what: Transaction,
        ghost: Option<usize>,
    ) -> Option<u64> {
        let last = self.last.as_mut()?;
        let group = last.group(access.cpu);
        let state = last.take(group, access.block)?;
        let place = last.find(group, access.block).expect("it has just been there");
        last.touch(group, place);
        let done = access.now + last.hit_cycles;
        self.counts.inside[what as usize] += 1;
        self.place_copy(access, ghost, state);
        self.report_from(access, what, [true, true, false], state);
        Some(done.max(self.broadcast_write(access)))
    }

    /// Merges the copy of a processor that is about to tell others of a write with that of its
    /// last-level cache. Returns the state of the latter.
    pub(super) fn take_over(&mut self, access: Access) -> Option<State> {
        let last = self.last.as_mut()?;
        let group = last.group(access.cpu);
        last.take(group, access.block)
    }

    /// Whether a transaction can stay inside the group.
    pub(super) fn reach(&self, access: Access, what: Transaction) -> Reach {
        let Some(last) = &self.last else { return Reach::default() };
        let group = last.group(access.cpu);
        let members = last.members_of(group);
        let others = self.blocks.holders(access.block) & !(1 << access.cpu);
        let (near, far) = (others & members != 0, others & !members);
        let parked = last.parked[access.block as usize] & !(1 << group);
        let inside = match (far | parked, what.fetches()) {
            (0, fetched) => near || !fetched,
            _ if near && what == Transaction::ReadBlock => {
                let known = self.read_signals(access, bits(others & members));
                known.is_some_and(|known| self.nothing_new(access, far, parked, known))
            }
            _ => false,
        };
        Reach { inside, near }
    }

    /// The signals that these processors would give for a read.
    fn read_signals(&self, access: Access, cpus: impl Iterator<Item = usize>) -> Option<Signals> {
        let says = |cpu| self.reads(access, self.state_at(cpu, access)).says;
        cpus.map(says).reduce(|all, one| all | one)
    }

    /// Whether a read changes no copy outside and gets no signal there that is not known inside.
    fn nothing_new(&self, access: Access, far: u64, parked: u64, known: Signals) -> bool {
        let last = self.last.as_ref().expect("only with last-level caches");
        let own = bits(far).map(|cpu| self.state_at(cpu, access));
        let parked = bits(parked).map(|group| {
            let place = last.find(group, access.block).expect("a parked copy has a line");
            state_of(last.lines[group][place])
        });
        own.chain(parked).all(|state| {
            let reaction = self.reads(access, state);
            reaction.to == state && reaction.says & !known == 0
        })
    }

    fn reads(&self, access: Access, state: State) -> Reaction {
        self.table.reaction(state, Transaction::ReadBlock, access.private)
    }

    fn state_at(&self, cpu: usize, access: Access) -> State {
        let cache = &self.caches[cpu];
        let place = cache.find(access.set, access.block).expect("a holder has a copy");
        state_of(cache.lines[place])
    }

    /// Does a transaction inside the group. Returns when it is done.
    pub(super) fn inside(&mut self, access: Access, what: Transaction) -> u64 {
        self.counts.inside[what as usize] += 1;
        access.now + self.last.as_ref().map_or(0, |last| last.hit_cycles)
    }

    /// Updates the group's line after a block was supplied inside it: memory may be out of date.
    pub(super) fn supplied_inside(&mut self, access: Access, response: SnoopResponse, to: State) {
        if response.dirty && !response.owned && !self.table.is_dirty(to) {
            let last = self.last.as_mut().expect("only with last-level caches");
            last.mark_memory_stale(access.cpu, access.block);
        }
    }

    /// Has the last-level caches of other groups react to a transaction on the bus. Lines of which
    /// no copy is left become free. `before` holds the processors that had a copy before
    /// processors' own caches reacted.
    pub(super) fn snoop_groups(
        &mut self,
        access: Access,
        what: Transaction,
        before: u64,
        response: &mut SnoopResponse,
    ) {
        let Some(last) = &mut self.last else { return };
        let own = last.group(access.cpu);
        for group in (0..last.groups).filter(|group| *group != own) {
            let (members, parked) = (last.members_of(group), last.is_parked(group, access.block));
            if before & members == 0 && !parked {
                continue;
            }
            let place = last.find(group, access.block).expect("a copy's group has a line");
            let mut line = last.lines[group][place];
            // Whichever cache supplies, memory is updated in the same transaction.
            response.dirty |= line & STALE_MEMORY != 0;
            line &= !STALE_MEMORY;
            if parked {
                let reaction = self.table.reaction(state_of(line), what, access.private);
                self.observer.row(false, reaction.row);
                response.add(reaction, self.table.is_dirty(reaction.to));
                line = with_state(line, reaction.to);
                if reaction.to == INVALID {
                    last.parked[access.block as usize] &= !(1 << group);
                }
            }
            let left = self.blocks.holders(access.block) & members;
            let free = left == 0 && state_of(line) == INVALID;
            last.lines[group][place] = if free { 0 } else { line };
        }
    }

    /// Handles a copy that a processor has replaced, and returns whether memory must be updated.
    pub(super) fn leave(&mut self, cpu: usize, block: u32, state: State) -> bool {
        let dirty = self.table.is_dirty(state);
        let Some(last) = &mut self.last else { return dirty };
        let group = last.group(cpu);
        let neighbours = self.blocks.holders(block) & last.members_of(group);
        if !last.is_parked(group, block) && (dirty || neighbours == 0) {
            last.park(group, block, state);
        }
        false
    }

    /// Gives the group a line for a block that it is about to get.
    pub(super) fn admit(&mut self, access: Access) {
        let Some(last) = &mut self.last else { return };
        let group = last.group(access.cpu);
        let place = match last.find(group, access.block) {
            Some(place) => place,
            None => {
                let place = last.victim(group, access.block);
                let old = std::mem::take(&mut last.lines[group][place]);
                self.evict(access, group, old);
                let Some(last) = &mut self.last else { return };
                last.lines[group][place] = access.block << BLOCK_SHIFT;
                place
            }
        };
        if let Some(last) = &mut self.last {
            last.touch(group, place);
        }
    }

    /// Removes a block from a last-level cache, and all copies of the group with it.
    fn evict(&mut self, access: Access, group: usize, line: Line) {
        let block = block_of(line);
        let Some(last) = self.last.as_mut().filter(|_| block != 0) else { return };
        let members = last.members_of(group);
        last.parked[block as usize] &= !(1 << group);
        let mut dirty = line & STALE_MEMORY != 0 || self.table.is_dirty(state_of(line));
        let set = self.geometry.set_of(block, &self.colours) as usize;
        let evicted = access.moved_to(block, set);
        let holders = self.blocks.holders(block) & members;
        if holders != 0 {
            self.undo_later_uses(evicted, Transaction::ReadAndInvalidate);
        }
        let mut late = false;
        for cpu in bits(holders) {
            late |= !self.exact && cpu != access.cpu && self.cpus[cpu].started > access.now;
            let place = self.caches[cpu].find(set, block).expect("a holder has a copy");
            dirty |= self.table.is_dirty(state_of(self.caches[cpu].lines[place]));
            self.lose(evicted, cpu, place);
        }
        self.counts.late += u64::from(late);
        if dirty {
            self.bus.request(access.now, Transaction::UpdateBlock, false);
            self.report_update(evicted);
        }
    }

    /// Removes a processor's copy because its group's cache has no room for the block.
    fn lose(&mut self, evicted: Access, cpu: usize, place: usize) {
        self.blocks.set_history(evicted.block, cpu, super::blocks::TAKEN);
        let cache = &self.caches[cpu];
        let wrote = cache.masks[cache.masks_of(place)].wrote;
        self.missed(evicted.set, evicted.block, self.blocks.ghosts(evicted.block), wrote);
        self.blocks.leave(evicted.block, cpu);
        self.caches[cpu].clear(place);
        self.counts.taken += 1;
    }
}

impl SnoopResponse {
    /// Adds the reaction of one more copy.
    pub(super) fn add(&mut self, reaction: Reaction, dirty_after: bool) {
        self.signals |= reaction.says;
        self.dirty |= reaction.supply == Supply::Dirty;
        self.clean |= reaction.supply == Supply::Clean;
        self.owned |= dirty_after;
    }
}
