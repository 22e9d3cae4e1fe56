//! References that need the bus: the reference is classified, other caches snoop, a line is
//! replaced, and the processor waits or does not.
//!
//! A read waits for its block. A write goes to the write buffer and the processor goes on; it waits
//! only while the buffer is full. Writes are done in their order (processor consistency).

use super::blocks::{NEVER, REPLACED_BY, TAKEN};
use super::last_level::Reach;
use super::{Cpu, Done, Observer, Reference, Simulation};
use crate::cache::{Masks, block_of, state_of};
use crate::classify::{Miss, Sharing};
use crate::machine::CleanSupplier;
use crate::protocol::{Event, INVALID, Signals, State, Transaction};
use crate::record::{Kind, Record, TRACKED};

/// The parts of one reference.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) cpu: usize,
    task: u32,
    record: Record,
    pub(super) block: u32,
    pub(super) set: usize,
    event: Event,
    pub(super) private: bool,
    kernel: bool,
    words: u64,
    pub(super) now: u64,
}

impl Access {
    /// An access to another block, by the same processor at the same time.
    pub(super) fn moved_to(self, block: u32, set: usize) -> Self {
        Self { block, set, ..self }
    }
}

/// The response of the other caches to a transaction that they snoop.
#[derive(Clone, Copy, Default)]
pub(super) struct SnoopResponse {
    pub(super) signals: Signals,
    pub(super) dirty: bool,
    pub(super) clean: bool,
    /// Whether a copy that stays is responsible for updating memory.
    pub(super) owned: bool,
}

impl<O: Observer> Simulation<'_, O> {
    /// Handles the next record of a processor, which needs the bus.
    pub(super) fn miss(&mut self, cpu: usize) {
        if self.wait_for_write_buffer(cpu) {
            return;
        }
        let access = self.access(cpu);
        let found = self.caches[cpu].find(access.set, access.block);
        let state = found.map_or(INVALID, |line| state_of(self.caches[cpu].lines[line]));
        let Access { record, block, .. } = access;
        let (number, set) = (cpu as u32, access.set as u32);
        if state == INVALID
            && let Some(what) = self.table.wanted(state, access.event, access.private).request
        {
            self.undo_later_uses(access, what);
        }
        let class = (state == INVALID).then(|| self.classify_miss(access, found));
        self.observer.reference(&Reference { cpu: number, record, block, set, state });
        let done = match class {
            Some(class) => {
                self.count_miss(access, class);
                self.fetch(access, found)
            }
            None => self.broadcast_write(access),
        };
        self.touch_words(access);
        self.finish(access, done);
    }

    /// Whether the processor has to wait first, because its next record is a write and the buffer
    /// is full. It tries again when there is room.
    fn wait_for_write_buffer(&mut self, cpu: usize) -> bool {
        let write = self.record(cpu).kind() == Some(Kind::Store);
        let Cpu { clock, delay, write_buffer, .. } = &mut self.cpus[cpu];
        while write_buffer.front().is_some_and(|done| *done <= *clock) {
            write_buffer.pop_front();
        }
        if !write || write_buffer.len() < self.machine.cpu.write_buffer {
            return false;
        }
        let room = write_buffer.pop_front().expect("a full buffer has a first");
        *delay += room - *clock;
        *clock = room;
        true
    }

    fn access(&self, cpu: usize) -> Access {
        let record = self.record(cpu);
        let (block, set) = self.geometry.place(record, &self.colours);
        Access {
            cpu,
            task: self.cpus[cpu].task.expect("a record is a task's"),
            record,
            block,
            set: set as usize,
            event: if record.kind() == Some(Kind::Store) { Event::Write } else { Event::Read },
            private: record.is_private(),
            kernel: record.frame() >= self.kernel_frames,
            words: record.words(self.geometry.block_bytes),
            now: self.cpus[cpu].clock,
        }
    }

    /// Fetches a block, from memory or from another cache. Returns when it is there.
    fn fetch(&mut self, access: Access, ghost: Option<usize>) -> u64 {
        let wanted = *self.table.wanted(INVALID, access.event, access.private);
        let what = wanted.request.expect("a copy that is not valid never hits");
        if let Some(done) = self.recall(access, what, ghost) {
            return done;
        }
        let reach = self.reach(access, what);
        let response = self.snoop(access, what, reach);
        let any = self.machine.bus.clean_supplier == CleanSupplier::AnyCopy;
        let from_cache = response.dirty || (response.clean && any) || reach.near;
        let remote = !from_cache && self.is_remote(access);
        let done = match (reach.inside, remote) {
            (true, _) => self.inside(access, what),
            (_, true) => self.bus.request_far(access.now, what),
            _ => self.bus.request(access.now, what, from_cache),
        };
        let (number, row) = self.table.local(&wanted, response.signals);
        self.observer.row(true, number);
        self.admit(access);
        if reach.inside {
            self.supplied_inside(access, response, row.to);
        }
        self.place_copy(access, ghost, row.to);
        self.blocks.mark_seen(access.block);
        self.report_from(access, what, [from_cache, reach.inside, remote], row.to);
        if row.then_write { done.max(self.broadcast_write(access)) } else { done }
    }

    /// Whether the block comes from another node's memory, if it comes from memory.
    fn is_remote(&mut self, access: Access) -> bool {
        let Some(nodes) = &mut self.nodes else { return false };
        let remote = nodes.is_remote(access.cpu, access.block);
        self.counts.remote += u64::from(remote);
        remote
    }

    /// Puts a copy into the processor's cache, in place of its ghost or of the line to replace.
    pub(super) fn place_copy(&mut self, access: Access, ghost: Option<usize>, state: State) {
        let place = ghost.unwrap_or_else(|| self.caches[access.cpu].victim(access.set));
        self.make_room(access, place);
        self.caches[access.cpu].install(place, access.block, state);
        self.blocks.note_state(access.block, state);
        self.blocks.hold(access.block, access.cpu);
    }

    /// Writes to a copy that is valid. Returns when the other caches know of the write.
    pub(super) fn broadcast_write(&mut self, access: Access) -> u64 {
        let cache = &self.caches[access.cpu];
        let place = cache.find(access.set, access.block).expect("a copy is there");
        let mut from = state_of(cache.lines[place]);
        let asks = self.table.wanted(from, access.event, access.private).request.is_some();
        if asks && let Some(state) = self.take_over(access) {
            from = state;
        }
        let wanted = *self.table.wanted(from, access.event, access.private);
        let Some(what) = wanted.request else {
            let (number, row) = self.table.local(&wanted, 0);
            self.observer.row(true, number);
            self.caches[access.cpu].set_state(place, row.to);
            self.blocks.note_state(access.block, row.to);
            return access.now;
        };
        self.undo_later_uses(access, what);
        let sharing = self.classify_write(access);
        self.count_coherence(access, what, sharing);
        let reach = self.reach(access, what);
        let response = self.snoop(access, what, reach);
        let done = match reach.inside {
            true => self.inside(access, what),
            false => self.bus.request(access.now, what, false),
        };
        let (number, row) = self.table.local(&wanted, response.signals);
        self.observer.row(true, number);
        self.caches[access.cpu].set_state(place, row.to);
        self.blocks.note_state(access.block, row.to);
        self.caches[access.cpu].touch(place);
        self.report_from(access, what, [false, reach.inside, false], row.to);
        done
    }

    /// Reports to the observer that a dirty block went to memory.
    pub(super) fn report_update(&mut self, access: Access) {
        self.report_from(access, Transaction::UpdateBlock, [false; 3], INVALID);
    }

    /// Reports a transaction to the observer. The flags: from a cache, inside a group, from another
    /// node's memory.
    pub(super) fn report_from(
        &mut self,
        access: Access,
        what: Transaction,
        [from_cache, inside, remote]: [bool; 3],
        state: State,
    ) {
        let Access { cpu, block, .. } = access;
        let cpu = cpu as u32;
        self.observer.transaction(&Done { cpu, block, what, from_cache, inside, remote, state });
    }

    /// Has all other caches that have the block react, or only those of the group if the
    /// transaction stays inside.
    fn snoop(&mut self, access: Access, what: Transaction, reach: Reach) -> SnoopResponse {
        let (all, ghosts) = (self.blocks.holders(access.block), self.blocks.ghosts(access.block));
        let mut holders = all;
        if reach.inside
            && let Some(last) = &self.last
        {
            holders &= last.members(access.cpu);
        }
        let others = holders & !(1 << access.cpu);
        let alike = self.blocks.alike(access.block);
        let mut response = SnoopResponse::default();
        if others == 0 {
        } else if what == Transaction::ReadBlock && alike != INVALID {
            // All would give the same signals, and would stay as they are.
            self.react(access, what, alike, &mut response);
        } else {
            let to = self.snoop_each(access, what, others, ghosts, &mut response);
            let whole = holders == all && self.table.is_calm(to);
            self.blocks.set_alike(access.block, if whole { to } else { INVALID });
        }
        let late = !self.exact && bits(others).any(|cpu| self.cpus[cpu].started > access.now);
        self.counts.late += u64::from(late);
        if !reach.inside {
            self.snoop_groups(access, what, holders, &mut response);
        }
        let left = self.blocks.holders(access.block);
        if left & holders != holders && !access.private {
            // Earlier writes are not among those that the new ghosts have missed.
            self.notify_ghosts(access.set, access.block, ghosts);
        }
        response
    }

    /// Has each of these caches react. Returns the state that all of their copies are in then, or
    /// INVALID.
    fn snoop_each(
        &mut self,
        access: Access,
        what: Transaction,
        others: u64,
        ghosts: u64,
        response: &mut SnoopResponse,
    ) -> State {
        let mut all = None;
        for other in bits(others) {
            let cache = &self.caches[other];
            let place = cache.find(access.set, access.block).expect("a holder has a copy");
            let to = self.react(access, what, state_of(cache.lines[place]), response);
            if to == INVALID {
                self.take_away(access, other, place, what, ghosts);
            } else {
                self.caches[other].set_state(place, to);
            }
            all = Some(if all.is_none_or(|all| all == to) { to } else { INVALID });
        }
        all.unwrap_or(INVALID)
    }

    /// Has a copy in this state react. Returns its new state.
    fn react(
        &mut self,
        access: Access,
        what: Transaction,
        from: State,
        response: &mut SnoopResponse,
    ) -> State {
        let reaction = self.table.reaction(from, what, access.private);
        self.observer.row(false, reaction.row);
        response.add(reaction, self.table.is_dirty(reaction.to));
        reaction.to
    }

    /// Turns a copy into a ghost, and tells the ghosts that were there before what it has written.
    fn take_away(
        &mut self,
        access: Access,
        other: usize,
        place: usize,
        what: Transaction,
        ghosts: u64,
    ) {
        let cache = &mut self.caches[other];
        cache.set_state(place, INVALID);
        let at = cache.masks_of(place);
        let used = u64::from(what == Transaction::ReadBlock);
        let old = std::mem::replace(&mut cache.masks[at], Masks { used, wrote: 0 });
        self.missed(access.set, access.block, ghosts, old.wrote);
        self.blocks.haunt(access.block, other);
    }

    /// Adds the writes of the holders of a block to those that these ghosts have missed.
    fn notify_ghosts(&mut self, set: usize, block: u32, ghosts: u64) {
        if self.blocks.ghosts_are_current(block) {
            return;
        }
        for holder in bits(self.blocks.holders(block)) {
            let at = self.masks(holder, set, block);
            let wrote = std::mem::take(&mut self.caches[holder].masks[at].wrote);
            self.missed(set, block, ghosts, wrote);
        }
        self.blocks.set_ghosts_current(block, true);
    }

    /// Records words that were written while the ghosts were ghosts.
    pub(super) fn missed(&mut self, set: usize, block: u32, ghosts: u64, wrote: u64) {
        if wrote == 0 {
            return;
        }
        for ghost in bits(ghosts) {
            let at = self.masks(ghost, set, block);
            self.caches[ghost].masks[at].wrote |= wrote;
        }
    }

    fn masks(&self, cpu: usize, set: usize, block: u32) -> usize {
        let cache = &self.caches[cpu];
        cache.masks_of(cache.find(set, block).expect("holders and ghosts have lines"))
    }

    /// Replaces a line by another block: a dirty copy goes to memory.
    fn make_room(&mut self, access: Access, place: usize) {
        let line = self.caches[access.cpu].lines[place];
        let (old, state) = (block_of(line), state_of(line));
        if old == 0 || old == access.block {
            return;
        }
        self.blocks.set_history(old, access.cpu, REPLACED_BY + access.task as u16);
        if state == INVALID {
            self.blocks.leave(old, access.cpu);
            return;
        }
        let cache = &self.caches[access.cpu];
        let wrote = cache.masks[cache.masks_of(place)].wrote;
        self.missed(access.set, old, self.blocks.ghosts(old), wrote);
        self.blocks.leave(old, access.cpu);
        if self.leave(access.cpu, old, state) {
            self.bus.request(access.now, Transaction::UpdateBlock, false);
            self.report_update(Access { block: old, ..access });
        }
    }

    fn touch_words(&mut self, access: Access) {
        if access.record.0 & TRACKED == 0 {
            return;
        }
        let at = self.masks(access.cpu, access.set, access.block);
        let masks = &mut self.caches[access.cpu].masks[at];
        masks.used |= access.words;
        if access.event == Event::Write {
            masks.wrote |= access.words;
            self.blocks.set_ghosts_current(access.block, false);
        }
    }

    /// Completes a record: time passes.
    fn finish(&mut self, access: Access, done: u64) {
        let cpu = &mut self.cpus[access.cpu];
        cpu.started = access.now;
        match access.event {
            Event::Read => {
                cpu.delay += done - access.now;
                cpu.clock = done;
            }
            Event::Write => {
                let before = cpu.write_buffer.back().copied().unwrap_or(0);
                cpu.write_buffer.push_back(done.max(before));
            }
        }
        let count = access.record.count();
        cpu.clock += count * self.geometry.operation_cycles;
        cpu.left -= count as i64;
        cpu.position += 1;
        let kind = access.record.kind().expect("a marker is no reference");
        if kind == Kind::Fetch {
            cpu.last_fetch = access.record;
        }
        self.counts.references[usize::from(cpu.in_kernel)][kind as usize] += count;
    }

    fn classify_miss(&mut self, access: Access, ghost: Option<usize>) -> Miss {
        if let Some(place) = ghost {
            return self.classify_loss(access, place);
        }
        match self.blocks.history(access.block, access.cpu) {
            NEVER if !self.blocks.is_seen(access.block) => Miss::Cold,
            NEVER if access.private => Miss::Migrated,
            NEVER => Miss::FirstHere,
            TAKEN => Miss::Inclusion,
            by if by != REPLACED_BY + access.task as u16 => Miss::ContextSwitch,
            _ => match self.observer.would_hit_anywhere(access.cpu as u32, access.block) {
                Some(true) => Miss::Conflict,
                Some(false) => Miss::Capacity,
                None => Miss::Replaced,
            },
        }
    }

    /// Classifies a miss that would be a hit if the copy had not been taken away.
    fn classify_loss(&mut self, access: Access, ghost: usize) -> Miss {
        if !access.private {
            self.notify_ghosts(access.set, access.block, self.blocks.ghosts(access.block));
        }
        let cache = &self.caches[access.cpu];
        let masks = cache.masks[cache.masks_of(ghost)];
        if masks.used != 0 {
            Miss::HandedOver
        } else if access.private {
            Miss::InvalidationPassive
        } else if masks.wrote & access.words != 0 {
            Miss::InvalidationTrue
        } else {
            Miss::InvalidationFalse
        }
    }

    fn classify_write(&self, access: Access) -> Sharing {
        let others = self.blocks.holders(access.block) & !(1 << access.cpu);
        if others == 0 {
            return Sharing::Alone;
        }
        if access.private {
            return Sharing::Passive;
        }
        let used = bits(others).any(|other| {
            let at = self.masks(other, access.set, access.block);
            self.caches[other].masks[at].used & access.words != 0
        });
        if used { Sharing::True } else { Sharing::False }
    }

    fn count_miss(&mut self, access: Access, class: Miss) {
        let reads = usize::from(access.event == Event::Write);
        self.counts.misses[usize::from(access.kernel)][class as usize][reads] += 1;
        let code = self.cpus[access.cpu].last_fetch;
        if let Some(tally) = &mut self.tally {
            tally.miss(access.record, code, class);
        }
    }

    fn count_coherence(&mut self, access: Access, what: Transaction, sharing: Sharing) {
        let update = usize::from(what == Transaction::Write);
        self.counts.coherence[usize::from(access.kernel)][sharing as usize][update] += 1;
        let code = self.cpus[access.cpu].last_fetch;
        if let Some(tally) = &mut self.tally {
            tally.coherence(access.record, code, sharing);
        }
    }
}

/// The processors in a bitmap.
pub(super) fn bits(mut map: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (map != 0).then(|| map.trailing_zeros() as usize)?;
        map &= map - 1;
        Some(bit)
    })
}
