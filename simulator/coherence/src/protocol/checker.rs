//! A check of all that a protocol's tables can do to one block in three caches, for what must never
//! be: a copy beside one that is the only one, two that are responsible for memory, a copy or a
//! memory that has missed the last write. Also a check that tables with a broken row are caught.
//!
//! The checker is not the simulator: it reads the rows by itself, knows no time and no caches, and
//! a replacement may come at any time. A value is fresh or it is not.

use std::collections::HashSet;

use super::{
    DIRTY, Event, INVALID, Local, PROTOCOLS, Page, Protocol, Signals, Snoop, State, StateInfo,
    Supply, Transaction,
};

/// Enough for a third processor beside any two that interact.
const CPUS: usize = 3;

/// A copy of a protocol's tables, in which rows can be broken.
struct Tables {
    name: &'static str,
    states: &'static [StateInfo],
    local: Vec<Local>,
    snoop: Vec<Snoop>,
}

/// A copy of the block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Held {
    state: State,
    fresh: bool,
}

/// The state of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Block {
    copies: [Held; CPUS],
    memory_fresh: bool,
}

/// The answers of the other caches.
#[derive(Default)]
struct Answer {
    signals: Signals,
    /// Whether the supplied block is fresh, if a cache had to supply it.
    dirty: Option<bool>,
    /// Whether the block that caches could supply is fresh.
    clean: Option<bool>,
}

fn applies_to(page: Page, private: bool) -> bool {
    page == Page::Any || (page == Page::Private) == private
}

impl Tables {
    fn copy(protocol: &Protocol) -> Self {
        let (local, snoop) = (protocol.local.to_vec(), protocol.snoop.to_vec());
        Self { name: protocol.name, states: protocol.states, local, snoop }
    }

    /// Explores all states that the rows lead to. An error names the violated rule.
    fn check(&self) -> Result<(), String> {
        for private in [false, true] {
            let nowhere = Held { state: INVALID, fresh: false };
            let first = Block { copies: [nowhere; CPUS], memory_fresh: true };
            let (mut seen, mut to_do) = (HashSet::from([first]), vec![first]);
            while let Some(block) = to_do.pop() {
                for cpu in 0..CPUS {
                    let steps = [
                        self.event(block, cpu, Event::Read, private)?,
                        self.event(block, cpu, Event::Write, private)?,
                        self.replace(block, cpu),
                    ];
                    for after in steps {
                        self.holds(after)?;
                        if seen.insert(after) {
                            to_do.push(after);
                        }
                    }
                }
            }
            assert!(seen.len() > 3, "{}: nothing happens", self.name);
        }
        Ok(())
    }

    fn holds(&self, block: Block) -> Result<(), String> {
        let info = |copy: &Held| self.states[usize::from(copy.state)];
        let valid: Vec<&Held> = block.copies.iter().filter(|copy| copy.state != INVALID).collect();
        let names: Vec<&str> = valid.iter().map(|copy| info(copy).name).collect();
        let dirty = valid.iter().filter(|copy| info(copy).dirty).count();
        if valid.len() > 1 && valid.iter().any(|copy| info(copy).sole) {
            return Err(format!("more than one writer: {names:?}"));
        }
        if dirty > 1 {
            return Err(format!("two are responsible for memory: {names:?}"));
        }
        if valid.iter().any(|copy| !copy.fresh) {
            return Err(format!("a copy missed the last write: {names:?}"));
        }
        if !block.memory_fresh && dirty == 0 {
            return Err(format!("no copy keeps the last write: {names:?}"));
        }
        Ok(())
    }

    fn row(&self, from: State, event: Event, private: bool, heard: Signals) -> Option<&Local> {
        self.local.iter().find(|row| {
            let holds = row.heard == 0 || row.heard & heard != 0;
            (row.from, row.event) == (from, event) && applies_to(row.page, private) && holds
        })
    }

    fn event(
        &self,
        mut block: Block,
        cpu: usize,
        event: Event,
        private: bool,
    ) -> Result<Block, String> {
        let from = block.copies[cpu].state;
        let missing = || format!("no row for {event:?} in {}", self.states[usize::from(from)].name);
        // All rows of a state and an event request the same transaction.
        let request = self.row(from, event, private, !0).ok_or_else(missing)?.request;
        let answer = match request {
            Some(what) => self.snoop(&mut block, cpu, what, private)?,
            None => Answer::default(),
        };
        let row = self.row(from, event, private, answer.signals).ok_or_else(missing)?;
        if from == INVALID {
            // Memory or a copy supplies a block that no copy must supply: the worse of them.
            let any = block.memory_fresh && answer.clean.unwrap_or(true);
            block.copies[cpu].fresh = answer.dirty.unwrap_or(any);
            if !block.copies[cpu].fresh {
                return Err("a block was fetched that missed the last write".into());
            }
        }
        block.copies[cpu].state = row.to;
        if row.then_write {
            return self.event(block, cpu, Event::Write, private);
        }
        if event == Event::Write {
            let told = request == Some(Transaction::Write);
            for (number, copy) in block.copies.iter_mut().enumerate() {
                copy.fresh = copy.state != INVALID && (number == cpu || (told && copy.fresh));
            }
            block.memory_fresh = false;
        }
        Ok(block)
    }

    fn snoop(
        &self,
        block: &mut Block,
        cpu: usize,
        what: Transaction,
        private: bool,
    ) -> Result<Answer, String> {
        let mut answer = Answer::default();
        let others = (0..CPUS).filter(|other| *other != cpu);
        for other in
            others.filter(|other| block.copies[*other].state != INVALID).collect::<Vec<_>>()
        {
            let Held { state, fresh } = block.copies[other];
            let row = self
                .snoop
                .iter()
                .find(|row| (row.from, row.on) == (state, what) && applies_to(row.page, private));
            let name = self.states[usize::from(state)].name;
            let row = row.ok_or_else(|| format!("a copy in {name} cannot see {what:?}"))?;
            answer.signals |= row.says;
            match row.supply {
                Supply::Dirty => answer.dirty = Some(fresh),
                Supply::Clean => answer.clean = Some(fresh && answer.clean.unwrap_or(true)),
                Supply::No => {}
            }
            // A cache that hands over a block which memory lacks updates memory, unless it signals
            // otherwise.
            let kept = self.states[usize::from(row.to)].dirty || row.says & DIRTY != 0;
            if row.supply == Supply::Dirty && !kept {
                block.memory_fresh = fresh;
            }
            block.copies[other] = Held { state: row.to, fresh: fresh && row.to != INVALID };
        }
        Ok(answer)
    }

    fn replace(&self, mut block: Block, cpu: usize) -> Block {
        let copy = &mut block.copies[cpu];
        if self.states[usize::from(copy.state)].dirty {
            block.memory_fresh = copy.fresh;
        }
        *copy = Held { state: INVALID, fresh: false };
        block
    }
}

/// The unmodified tables pass. Each way to break a row is caught in each row to which it applies,
/// and there are as many such rows as given: copies that do not go, dirty blocks that are not
/// supplied, copies that do not become one of several, and writes that leave no trace.
#[track_caller]
fn check(name: &str, [kept, withheld, unshared, silent]: [usize; 4]) {
    let protocol = super::protocol(name).expect("known");
    assert_eq!(Tables::copy(protocol).check(), Ok(()), "{name}");
    let info = |state: State| protocol.states[usize::from(state)];
    let stays = |tables: &mut Tables, row: usize| tables.snoop[row].to = tables.snoop[row].from;
    let mut broken = [0; 4];
    for (number, row) in protocol.snoop.iter().enumerate() {
        if row.to == INVALID {
            broken[0] += caught(protocol, |tables| stays(tables, number));
        }
        if row.supply == Supply::Dirty {
            broken[1] += caught(protocol, |tables| tables.snoop[number].supply = Supply::No);
        }
        let first = info(row.from).sole || info(row.from).dirty;
        if first && row.to != INVALID && row.to != row.from {
            broken[2] += caught(protocol, |tables| stays(tables, number));
        }
    }
    for (number, row) in protocol.local.iter().enumerate() {
        if row.event == Event::Write && row.request.is_none() && row.to != row.from {
            broken[3] += caught(protocol, |tables| tables.local[number].to = row.from);
        }
    }
    assert_eq!(broken, [kept, withheld, unshared, silent], "{name}");
}

#[track_caller]
fn caught(protocol: &Protocol, breaks: impl FnOnce(&mut Tables)) -> usize {
    let mut tables = Tables::copy(protocol);
    breaks(&mut tables);
    assert!(tables.check().is_err(), "{}: a broken row was not caught", protocol.name);
    1
}

#[test]
fn mesi_with_a_broken_row_is_caught() {
    check("mesi", [4, 2, 2, 1]);
}

#[test]
fn amsd_with_a_broken_row_is_caught() {
    check("amsd", [9, 4, 3, 2]);
}

#[test]
fn pscr_with_a_broken_row_is_caught() {
    check("pscr", [2, 3, 3, 1]);
}

#[test]
fn dragon_with_a_broken_row_is_caught() {
    check("dragon", [0, 2, 3, 1]);
}

#[test]
fn forbidden_states_are_distinguished() {
    let broken = |breaks: fn(&mut Tables)| {
        let mut tables = Tables::copy(PROTOCOLS[0]);
        breaks(&mut tables);
        tables.check().expect_err("broken")
    };
    let stays = broken(|tables| tables.snoop.iter_mut().for_each(|row| row.to = row.from));
    assert!(stays.starts_with("more than one writer"), "{stays}");
    let deaf = broken(|tables| tables.snoop.clear());
    assert!(deaf.contains("cannot see"), "{deaf}");
    let mute = broken(|tables| tables.local.clear());
    assert!(mute.starts_with("no row for Read"), "{mute}");
}
