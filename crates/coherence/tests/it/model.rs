//! The same machine, slow and obvious: every cache is scanned, states have names, values are
//! carried. It knows the protocols as prose has them, not the tables.
//!
//! Not timing and not classes: it follows the order in which the simulator makes references, says
//! which transactions each must cause, and that each read sees the last write.

use std::collections::{HashMap, VecDeque};

use coherence::protocol::{Protocol, Transaction};
use coherence::{CleanSupplier, Done, Kind, Machine, Observer, Reference};

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

pub(crate) struct Model {
    protocol: &'static Protocol,
    any_copy_supplies: bool,
    ways: usize,
    block_bytes: u64,
    /// By processor: all lines that there are, in no order.
    caches: Vec<Vec<Line>>,
    memory: HashMap<u32, Values>,
    written: HashMap<u32, Values>,
    clock: u64,
    expected: VecDeque<Done>,
    /// How often each row was used: the local table, then the snooping one.
    pub(crate) rows: [Vec<u64>; 2],
    pub(crate) references: u64,
    pub(crate) transactions: u64,
}

impl Model {
    pub(crate) fn new(machine: &Machine) -> Self {
        let protocol = machine.protocol().expect("known");
        Self {
            protocol,
            any_copy_supplies: machine.bus.clean_supplier == CleanSupplier::AnyCopy,
            ways: machine.cache.ways as usize,
            block_bytes: machine.cache.block_bytes,
            caches: vec![Vec::new(); machine.cpus as usize],
            memory: HashMap::new(),
            written: HashMap::new(),
            clock: 0,
            expected: VecDeque::new(),
            rows: [vec![0; protocol.local.len()], vec![0; protocol.snoop.len()]],
            references: 0,
            transactions: 0,
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
        let number = self.protocol.states.iter().position(|info| info.name == state);
        let state = number.expect("a state of the protocol") as u8;
        self.expected.push_back(Done { cpu: cpu as u32, block, what, from_cache: cache, state });
    }

    fn is_dirty(state: &str) -> bool {
        ["M", "MD", "SD", "Sm"].contains(&state)
    }

    /// Brings a block in, with the values of whoever has the newest, in the state `to`.
    fn fetch(&mut self, at: &Reference, what: Transaction, to: &'static str, to_memory: bool) {
        let (cpu, block) = (at.cpu as usize, at.block);
        let others = self.others(cpu, block);
        let dirty = others.iter().find(|&&other| Self::is_dirty(self.state(other, block)));
        let clean = others.first().filter(|_| self.any_copy_supplies);
        let supplier = dirty.or(clean).copied();
        let values = match supplier {
            Some(other) => self.line(other, block).expect("a copy").values,
            None => self.memory.get(&block).copied().unwrap_or([0; 64]),
        };
        if dirty.is_some() && to_memory {
            self.memory.insert(block, values);
        }
        self.make_room(cpu, block, at.set);
        self.expect(cpu, block, what, supplier.is_some(), to);
        let used = self.clock;
        self.caches[cpu].push(Line { block, set: at.set, state: to, used, values });
    }

    /// A line of the set is given up: the block's own, else one without a copy, else the one used
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
        if Self::is_dirty(line.state) {
            self.memory.insert(victim, line.values);
            self.expect(cpu, victim, Transaction::UpdateBlock, false, "I");
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

    /// Write-update: what Dragon does, and PSCR for shared pages.
    fn update(&mut self, at: &Reference, write: bool, [clean, dirty]: [&'static str; 2]) {
        let (cpu, block) = (at.cpu as usize, at.block);
        let others = self.others(cpu, block);
        if self.state(cpu, block) == "I" {
            let to = if others.is_empty() { "E" } else { clean };
            self.fetch(at, Transaction::ReadBlock, to, false);
            for &other in &others {
                let owes = Self::is_dirty(self.state(other, block));
                self.set(other, block, if owes { dirty } else { clean });
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

    /// A write gets a value that no other has; who updates tells the others.
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
        let hit = self.protocol.local.iter().position(|row| {
            row.from == at.state && (row.event as u8 == 1) == write && row.ask.is_none()
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
        self.check_copies(at.block);
    }

    fn transaction(&mut self, done: &Done) {
        self.transactions += 1;
        let expected = self.expected.pop_front();
        // A block that is fetched to be written is told of twice: as it is fetched, as it is then.
        assert_eq!(expected, Some(*done), "{}", self.protocol.name);
    }

    fn row(&mut self, local: bool, number: u8) {
        self.rows[usize::from(!local)][usize::from(number)] += 1;
    }
}
