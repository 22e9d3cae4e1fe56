//! A model of the simulated machine, slow and obvious: every cache is scanned, states have names,
//! values are carried. It implements the protocols as prose describes them, not the tables.
//!
//! Timing and classes are not modelled: the model follows the order in which the simulator makes
//! references, determines which transactions each must cause, and checks that each read sees the
//! last write.

use std::collections::{HashMap, VecDeque};

use coherence::protocol::{Protocol, Transaction};
use coherence::{CleanSupplier, Done, Kind, Machine, NodePlacement, Numa, Observer, Reference};

/// Words of the largest block.
type Values = [u32; 64];

#[derive(Clone)]
struct Line {
    block: u32,
    set: u32,
    state: &'static str,
    used: u64,
    values: Values,
}

/// A line of a last-level cache: there is a copy somewhere in the group.
struct Tag {
    block: u32,
    set: u64,
    used: u64,
    /// Whether memory is out of date though no copy is dirty.
    stale_memory: bool,
}

/// The caches that groups share. Their own copies are in `Model::caches`, after the processors'.
struct Shared {
    cpus_per_group: usize,
    sets: u64,
    ways: usize,
    /// By group, in no order.
    tags: Vec<Vec<Tag>>,
}

pub(crate) struct Model {
    protocol: &'static Protocol,
    any_copy_supplies: bool,
    ways: usize,
    block_bytes: u64,
    /// By processor: all its lines, in no order. After them, the same by group.
    caches: Vec<Vec<Line>>,
    shared: Option<Shared>,
    numa: Option<Numa>,
    cpus: usize,
    /// By page.
    nodes: HashMap<u64, usize>,
    memory: HashMap<u32, Values>,
    written: HashMap<u32, Values>,
    clock: u64,
    expected: VecDeque<Done>,
    /// How often each row was used: the local table, then the snooping one.
    pub(crate) rows: [Vec<u64>; 2],
    pub(crate) references: u64,
    pub(crate) transactions: u64,
    /// Transactions that stayed in a group, and blocks from another node.
    pub(crate) inside: u64,
    pub(crate) remote: u64,
}

impl Model {
    pub(crate) fn new(machine: &Machine) -> Self {
        let protocol = machine.protocol().expect("known");
        let cpus = machine.cpus as usize;
        let shared = machine.llc.map(|llc| Shared {
            cpus_per_group: llc.cpus_per_group as usize,
            sets: llc.size_kib * 1024 / machine.cache.block_bytes / u64::from(llc.ways),
            ways: llc.ways as usize,
            tags: (0..cpus.div_ceil(llc.cpus_per_group as usize)).map(|_| Vec::new()).collect(),
        });
        let groups = shared.as_ref().map_or(0, |shared| shared.tags.len());
        Self {
            protocol,
            any_copy_supplies: machine.bus.clean_supplier == CleanSupplier::AnyCopy,
            ways: machine.cache.ways as usize,
            block_bytes: machine.cache.block_bytes,
            caches: vec![Vec::new(); cpus + groups],
            shared,
            numa: machine.numa,
            cpus,
            nodes: HashMap::new(),
            memory: HashMap::new(),
            written: HashMap::new(),
            clock: 0,
            expected: VecDeque::new(),
            rows: [vec![0; protocol.local.len()], vec![0; protocol.snoop.len()]],
            references: 0,
            transactions: 0,
            inside: 0,
            remote: 0,
        }
    }

    pub(crate) fn finish(&self) {
        assert!(self.expected.is_empty(), "missing: {:?}", self.expected);
    }

    fn line(&mut self, cpu: usize, block: u32) -> Option<&mut Line> {
        self.caches[cpu].iter_mut().find(|line| line.block == block)
    }

    fn state(&self, cpu: usize, block: u32) -> &'static str {
        let line = self.caches[cpu].iter().find(|line| line.block == block);
        line.map_or("I", |line| line.state)
    }

    fn set(&mut self, cpu: usize, block: u32, state: &'static str) {
        self.line(cpu, block).expect("a copy").state = state;
    }

    /// The other processors that have a copy.
    fn others(&self, cpu: usize, block: u32) -> Vec<usize> {
        let all = 0..self.caches.len();
        all.filter(|&other| other != cpu && self.state(other, block) != "I").collect()
    }

    fn someone(&self, others: &[usize], block: u32, state: &str) -> bool {
        others.iter().any(|&other| self.state(other, block) == state)
    }

    fn expect(&mut self, cpu: usize, block: u32, what: Transaction, cache: bool, state: &str) {
        let update = what == Transaction::UpdateBlock;
        let inside = !update && self.stays_inside(cpu, block, what);
        self.expect_all(cpu, block, what, [cache, inside, false], state);
    }

    fn expect_all(
        &mut self,
        cpu: usize,
        block: u32,
        what: Transaction,
        [from_cache, inside, remote]: [bool; 3],
        state: &str,
    ) {
        let number = self.protocol.states.iter().position(|info| info.name == state);
        let state = number.expect("a state of the protocol") as u8;
        self.inside += u64::from(inside);
        self.remote += u64::from(remote);
        let cpu = cpu as u32;
        self.expected.push_back(Done { cpu, block, what, from_cache, inside, remote, state });
    }

    /// The group of a processor or of a shared cache.
    fn group(&self, cache: usize) -> Option<usize> {
        let shared = self.shared.as_ref()?;
        Some(cache.checked_sub(self.cpus).unwrap_or(cache / shared.cpus_per_group))
    }

    /// The other copies in the processor's own group.
    fn near(&self, cpu: usize, block: u32) -> Vec<usize> {
        let Some(group) = self.group(cpu) else { return Vec::new() };
        let others = self.others(cpu, block).into_iter();
        others.filter(|&other| self.group(other) == Some(group)).collect()
    }

    /// Whether the transaction stays inside the group: no cache outside has a copy; or the block is
    /// only read and copies outside are plainly shared, so that they do not change.
    fn stays_inside(&self, cpu: usize, block: u32, what: Transaction) -> bool {
        if self.shared.is_none() {
            return false;
        }
        let (near, others) = (self.near(cpu, block), self.others(cpu, block));
        let mut far = others.iter().filter(|other| !near.contains(other));
        let has_one = !near.is_empty();
        match what {
            Transaction::ReadBlock => {
                let shared = ["S", "SC", "SD", "Sc", "Sm"];
                has_one && far.all(|&other| shared.contains(&self.state(other, block)))
            }
            Transaction::ReadAndInvalidate => has_one && far.next().is_none(),
            _ => far.next().is_none(),
        }
    }

    fn tag(&mut self, group: usize, block: u32) -> Option<&mut Tag> {
        let shared = self.shared.as_mut()?;
        shared.tags[group].iter_mut().find(|tag| tag.block == block)
    }

    fn remove(&mut self, cache: usize, block: u32) -> Option<Line> {
        let place = self.caches[cache].iter().position(|line| line.block == block)?;
        Some(self.caches[cache].swap_remove(place))
    }

    /// Gives a processor without a copy that of its group's cache; merges the copy of one that is
    /// about to tell others of a write with that of its group's cache.
    fn recall(&mut self, at: &Reference, write: bool) {
        let (cpu, block) = (at.cpu as usize, at.block);
        let Some(group) = self.group(cpu) else { return };
        let state = self.state(cpu, block);
        let tells = write && ["S", "S2", "SC", "SD", "Sc", "Sm"].contains(&state);
        if !tells && state != "I" || self.state(self.cpus + group, block) == "I" {
            return;
        }
        let line = self.remove(self.cpus + group, block).expect("it has a copy");
        if tells {
            return self.set(cpu, block, line.state);
        }
        self.use_tag(group, block);
        self.make_room(cpu, block, at.set);
        let updates = ["pscr", "dragon"].contains(&self.protocol.name);
        let what = match write && !updates {
            true => Transaction::ReadAndInvalidate,
            false => Transaction::ReadBlock,
        };
        self.expect_all(cpu, block, what, [true, true, false], line.state);
        let used = self.clock;
        self.caches[cpu].push(Line { set: at.set, used, ..line });
    }

    fn use_tag(&mut self, group: usize, block: u32) {
        let now = self.clock;
        self.tag(group, block).expect("inclusive").used = now;
    }

    /// Gives the group's cache a line for a block that the processor is about to get.
    fn admit(&mut self, cpu: usize, block: u32) {
        let Some(group) = self.group(cpu) else { return };
        if self.tag(group, block).is_some() {
            return self.use_tag(group, block);
        }
        let used = self.clock;
        let shared = self.shared.as_mut().expect("it has groups");
        // Frames are given out in order: the block's number is its place in memory.
        let set = u64::from(block) % shared.sets;
        let of_set: Vec<&Tag> = shared.tags[group].iter().filter(|tag| tag.set == set).collect();
        if of_set.len() == shared.ways {
            let victim = of_set.iter().min_by_key(|tag| tag.used).expect("full").block;
            self.evict(cpu, group, victim);
        }
        let shared = self.shared.as_mut().expect("it has groups");
        shared.tags[group].push(Tag { block, set, used, stale_memory: false });
    }

    /// Removes a block from a group.
    fn evict(&mut self, cpu: usize, group: usize, block: u32) {
        let stale_memory = self.tag(group, block).expect("inclusive").stale_memory;
        let own: Vec<usize> =
            (0..self.caches.len()).filter(|cache| self.group(*cache) == Some(group)).collect();
        let mut dirty = None;
        let mut clean = None;
        for cache in own {
            // The ghost of a copy stays a ghost.
            if self.state(cache, block) != "I" {
                let line = self.remove(cache, block).expect("a copy");
                let newest = if Self::is_dirty(line.state) { &mut dirty } else { &mut clean };
                *newest = Some(line.values);
            }
        }
        if dirty.is_some() || stale_memory {
            self.memory.insert(block, dirty.or(clean).expect("a line stands for a copy"));
            self.expect(cpu, block, Transaction::UpdateBlock, false, "I");
        }
        let shared = self.shared.as_mut().expect("it has groups");
        shared.tags[group].retain(|tag| tag.block != block);
    }

    /// Removes the lines of groups that have lost all copies, and the ghosts in shared caches.
    fn forget(&mut self, block: u32) {
        let groups = self.shared.as_ref().map_or(0, |shared| shared.tags.len());
        for group in 0..groups {
            let cache = self.cpus + group;
            if self.state(cache, block) == "I" {
                self.remove(cache, block);
            }
            let left = (0..self.caches.len())
                .any(|cache| self.group(cache) == Some(group) && self.state(cache, block) != "I");
            let shared = self.shared.as_mut().expect("it has groups");
            if !left {
                shared.tags[group].retain(|tag| tag.block != block);
            }
        }
    }

    fn is_remote(&mut self, cpu: usize, block: u32) -> bool {
        let Some(numa) = self.numa else { return false };
        let page = u64::from(block) * self.block_bytes / 4096;
        let own = cpu * numa.nodes as usize / self.cpus;
        match numa.placement {
            NodePlacement::Interleaved => page % u64::from(numa.nodes) != own as u64,
            NodePlacement::FirstTouch => *self.nodes.entry(page).or_insert(own) != own,
        }
    }

    fn is_dirty(state: &str) -> bool {
        ["M", "MD", "SD", "Sm"].contains(&state)
    }

    /// Fetches a block, with the newest values in any cache or memory, in the state `to`.
    fn fetch(&mut self, at: &Reference, what: Transaction, to: &'static str, to_memory: bool) {
        let (cpu, block) = (at.cpu as usize, at.block);
        let others = self.others(cpu, block);
        let inside = self.stays_inside(cpu, block, what);
        let near = self.near(cpu, block);
        let dirty = others.iter().find(|&&other| Self::is_dirty(self.state(other, block))).copied();
        let clean = others.first().filter(|_| self.any_copy_supplies).copied();
        let stale = others.iter().copied().find(|&other| {
            let group = self.group(other);
            group.and_then(|group| self.tag(group, block)).is_some_and(|tag| tag.stale_memory)
        });
        let supplier = dirty.or(stale).or(near.first().copied()).or(clean);
        let values = match supplier {
            Some(other) => self.line(other, block).expect("a copy").values,
            None => self.memory.get(&block).copied().unwrap_or([0; 64]),
        };
        let remote = supplier.is_none() && self.is_remote(cpu, block);
        self.admit(cpu, block);
        match self.group(cpu).filter(|_| inside) {
            // Memory is not updated; if no copy is dirty after this, the line is.
            Some(group) => {
                let stale_memory = dirty.is_some() && to_memory && what == Transaction::ReadBlock;
                self.tag(group, block).expect("inclusive").stale_memory |= stale_memory;
            }
            None if (dirty.is_some() && to_memory) || stale.is_some() => {
                self.memory.insert(block, values);
                for other in others {
                    if let Some(group) = self.group(other) {
                        self.tag(group, block).expect("inclusive").stale_memory = false;
                    }
                }
            }
            None => {}
        }
        self.make_room(cpu, block, at.set);
        self.expect_all(cpu, block, what, [supplier.is_some(), inside, remote], to);
        let used = self.clock;
        self.caches[cpu].push(Line { block, set: at.set, state: to, used, values });
    }

    /// Gives up a line of the set: the block's own, else one without a copy, else the one used
    /// longest ago.
    fn make_room(&mut self, cpu: usize, block: u32, set: u32) {
        let lines = &mut self.caches[cpu];
        if let Some(own) = lines.iter().position(|line| line.block == block) {
            lines.remove(own);
            return;
        }
        if lines.iter().filter(|line| line.set == set).count() < self.ways {
            return;
        }
        let of_set = lines.iter().filter(|line| line.set == set);
        let victim = of_set.min_by_key(|line| (line.state != "I", line.used)).expect("full").block;
        let place = lines.iter().position(|line| line.block == victim).expect("found");
        let line = lines.remove(place);
        if let Some(group) = self.group(cpu) {
            return self.park(cpu, group, line);
        }
        if Self::is_dirty(line.state) {
            self.memory.insert(victim, line.values);
            self.expect(cpu, victim, Transaction::UpdateBlock, false, "I");
        }
    }

    /// Parks a copy that a processor replaces in its group's cache if it is the group's last or
    /// dirty.
    fn park(&mut self, cpu: usize, group: usize, line: Line) {
        let last = self.near(cpu, line.block).is_empty();
        let there = self.state(self.cpus + group, line.block) != "I";
        if line.state != "I" && !there && (last || Self::is_dirty(line.state)) {
            self.caches[self.cpus + group].push(line);
        }
    }

    fn take_away(&mut self, others: &[usize], block: u32) {
        for &other in others {
            self.set(other, block, "I");
        }
    }

    fn mesi(&mut self, at: &Reference, write: bool) {
        let (cpu, block) = (at.cpu as usize, at.block);
        let others = self.others(cpu, block);
        match (self.state(cpu, block), write) {
            ("I", false) => {
                let to = if others.is_empty() { "E" } else { "S" };
                self.fetch(at, Transaction::ReadBlock, to, true);
                for other in others {
                    self.set(other, block, "S");
                }
            }
            ("I", true) => {
                self.fetch(at, Transaction::ReadAndInvalidate, "M", true);
                self.take_away(&others, block);
            }
            ("S", true) => {
                self.expect(cpu, block, Transaction::Invalidate, false, "M");
                self.take_away(&others, block);
                self.set(cpu, block, "M");
            }
            (_, true) => self.set(cpu, block, "M"),
            _ => {}
        }
    }

    fn amsd(&mut self, at: &Reference, write: bool) {
        let (cpu, block) = (at.cpu as usize, at.block);
        let others = self.others(cpu, block);
        let migratory = self.someone(&others, block, "MD");
        match (self.state(cpu, block), write) {
            ("I", false) if migratory => {
                self.fetch(at, Transaction::ReadBlock, "MC", true);
                self.take_away(&others, block);
            }
            ("I", false) => {
                let to = if others.is_empty() { "E" } else { "S" };
                self.fetch(at, Transaction::ReadBlock, to, true);
                for other in others {
                    let written = self.state(other, block) == "M";
                    self.set(other, block, if written { "S2" } else { "S" });
                }
            }
            ("I", true) => {
                let to = if migratory { "MD" } else { "M" };
                self.fetch(at, Transaction::ReadAndInvalidate, to, true);
                self.take_away(&others, block);
            }
            (from @ ("S" | "S2"), true) => {
                let handed_on = from == "S" && self.someone(&others, block, "S2");
                let to = if handed_on { "MD" } else { "M" };
                self.expect(cpu, block, Transaction::Invalidate, false, to);
                self.take_away(&others, block);
                self.set(cpu, block, to);
            }
            ("MC", true) => self.set(cpu, block, "MD"),
            ("E", true) => self.set(cpu, block, "M"),
            _ => {}
        }
    }

    fn pscr(&mut self, at: &Reference, write: bool) {
        if !at.record.is_private() {
            return self.update(at, write, ["SC", "SD"]);
        }
        let (cpu, block) = (at.cpu as usize, at.block);
        let others = self.others(cpu, block);
        if self.state(cpu, block) == "I" {
            let dirty = self.someone(&others, block, "M");
            let to = if dirty || write { "M" } else { "E" };
            self.fetch(at, Transaction::ReadBlock, to, false);
            self.take_away(&others, block);
        } else if write {
            self.set(cpu, block, "M");
        }
    }

    /// Write-update: Dragon, and PSCR for shared pages.
    fn update(&mut self, at: &Reference, write: bool, [clean, dirty]: [&'static str; 2]) {
        let (cpu, block) = (at.cpu as usize, at.block);
        let others = self.others(cpu, block);
        if self.state(cpu, block) == "I" {
            let to = if others.is_empty() { "E" } else { clean };
            self.fetch(at, Transaction::ReadBlock, to, false);
            for &other in &others {
                let was_dirty = Self::is_dirty(self.state(other, block));
                self.set(other, block, if was_dirty { dirty } else { clean });
            }
        }
        if !write {
            return;
        }
        if self.state(cpu, block) != clean && self.state(cpu, block) != dirty {
            return self.set(cpu, block, "M");
        }
        let to = if others.is_empty() { "M" } else { dirty };
        self.expect(cpu, block, Transaction::Write, false, to);
        for other in others {
            self.set(other, block, clean);
        }
        self.set(cpu, block, to);
    }

    /// Gives a write a value that no other has; with write-update other copies get it.
    fn write(&mut self, at: &Reference) {
        let words = at.record.words(self.block_bytes);
        let value = self.references as u32;
        let updates = ["pscr", "dragon"].contains(&self.protocol.name);
        for word in (0..64).filter(|word| words & (1 << word) != 0) {
            self.written.entry(at.block).or_insert([0; 64])[word] = value;
            for cpu in 0..self.caches.len() {
                if (cpu == at.cpu as usize || updates) && self.state(cpu, at.block) != "I" {
                    self.line(cpu, at.block).expect("a copy").values[word] = value;
                }
            }
        }
    }

    fn read(&mut self, at: &Reference) {
        let words = at.record.words(self.block_bytes);
        let last = self.written.get(&at.block).copied().unwrap_or([0; 64]);
        let line = self.line(at.cpu as usize, at.block).expect("a copy");
        for word in (0..64).filter(|word| words & (1 << word) != 0) {
            assert_eq!(line.values[word], last[word], "a read missed the last write: {at:?}");
        }
    }

    /// Checks that a group's cache has a line for each block that a cache in the group has, and for
    /// no other.
    fn check_inclusion(&self, block: u32) {
        let Some(shared) = &self.shared else { return };
        for (group, tags) in shared.tags.iter().enumerate() {
            let has = (0..self.caches.len())
                .any(|cache| self.group(cache) == Some(group) && self.state(cache, block) != "I");
            let lines = tags.iter().filter(|tag| tag.block == block).count();
            assert_eq!(lines, usize::from(has), "group {group}");
        }
    }

    fn check_copies(&self, block: u32) {
        let states: Vec<&str> = (0..self.caches.len())
            .map(|cpu| self.state(cpu, block))
            .filter(|state| *state != "I")
            .collect();
        let sole = states.iter().any(|state| ["E", "M", "MC", "MD"].contains(state));
        assert!(!sole || states.len() == 1, "one writer: {states:?}");
        assert!(states.iter().filter(|state| Self::is_dirty(state)).count() <= 1, "{states:?}");
    }
}

impl Observer for Model {
    fn reference(&mut self, at: &Reference) {
        self.finish();
        let cpu = at.cpu as usize;
        let state = self.protocol.states[usize::from(at.state)].name;
        assert_eq!(self.state(cpu, at.block), state, "{at:?}");
        self.clock += 1;
        self.references += 1;
        let write = at.record.kind() == Some(Kind::Store);
        self.recall(at, write);
        let hit = self.protocol.local.iter().position(|row| {
            row.from == at.state && (row.event as u8 == 1) == write && row.request.is_none()
        });
        if let Some(row) = hit {
            self.rows[0][row] += 1;
        }
        match self.protocol.name {
            "mesi" => self.mesi(at, write),
            "amsd" => self.amsd(at, write),
            "pscr" => self.pscr(at, write),
            _ => self.update(at, write, ["Sc", "Sm"]),
        }
        let now = self.clock;
        self.line(cpu, at.block).expect("a copy").used = now;
        if write {
            self.write(at);
        } else {
            self.read(at);
        }
        self.forget(at.block);
        self.check_copies(at.block);
        self.check_inclusion(at.block);
    }

    fn transaction(&mut self, done: &Done) {
        self.transactions += 1;
        let expected = self.expected.pop_front();
        // A block that is fetched for a write is reported twice: as it is fetched, and as it is
        // then.
        assert_eq!(expected, Some(*done), "{}", self.protocol.name);
    }

    fn row(&mut self, local: bool, number: u8) {
        self.rows[usize::from(!local)][usize::from(number)] += 1;
    }
}
