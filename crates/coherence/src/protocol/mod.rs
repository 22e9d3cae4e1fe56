//! Coherence protocols as tables: one file each, with the same names in the same order.
//!
//! A table says what a protocol does and nothing of how long it takes, who waits, or how copies are
//! found. `compiled` holds the same tables, made to be looked up. The rows that were inferred,
//! because the paper that defines them was not to be had, are marked as such.

mod amsd;
#[cfg(test)]
mod checker;
mod compiled;
mod dragon;
mod mesi;
mod pscr;

pub(crate) use compiled::{Compiled, Reaction, SLOW};

/// A state of a copy; 0 is invalid in every protocol.
pub type State = u8;
/// The copy is not valid.
pub const INVALID: State = 0;
/// A protocol has fewer states than this.
pub const STATES_MAX: usize = 8;

/// What a processor does to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The processor reads, or fetches an instruction.
    Read,
    /// The processor writes.
    Write,
}

/// What is done on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transaction {
    /// RB: a block is fetched to be read.
    ReadBlock,
    /// RIB: a block is fetched to be written, and all other copies go.
    ReadAndInvalidate,
    /// INV: all other copies go.
    Invalidate,
    /// WR: a word is written to all other copies.
    Write,
    /// UB: a dirty block that is replaced goes to memory.
    UpdateBlock,
}

impl Transaction {
    /// All, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::ReadBlock,
        Self::ReadAndInvalidate,
        Self::Invalidate,
        Self::Write,
        Self::UpdateBlock,
    ];

    /// As papers write it.
    pub fn abbreviation(self) -> &'static str {
        ["RB", "RIB", "INV", "WR", "UB"][self as usize]
    }

    /// Whether it fetches a block.
    pub fn fetches(self) -> bool {
        matches!(self, Self::ReadBlock | Self::ReadAndInvalidate)
    }
}

/// Which pages a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// All.
    Any,
    /// Pages of one task.
    Private,
    /// Pages of several tasks.
    Shared,
}

/// What other caches say while a transaction is on the bus, one bit each.
pub type Signals = u8;
/// Some cache keeps a copy.
pub const SHARED: Signals = 1;
/// The block is migratory (AMSD).
pub const MIGRATORY: Signals = 2;
/// The copy that was supplied is newer than memory, which has not been told (PSCR).
pub const DIRTY: Signals = 4;

/// How a processor's event changes its own copy.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// Before.
    pub from: State,
    /// What the processor does.
    pub event: Event,
    /// Which pages.
    pub page: Page,
    /// What is done on the bus; nothing for a hit.
    pub ask: Option<Transaction>,
    /// The row holds if any of these signals is heard; 0 is always. The first row that holds, does.
    pub heard: Signals,
    /// After.
    pub to: State,
    /// The write itself is still to be done, in the new state.
    pub then_write: bool,
    /// Whether the row is not taken from a text that defines the protocol.
    pub inferred: bool,
}

/// How a copy changes by another processor's transaction.
#[derive(Debug, Clone, Copy)]
pub struct Snoop {
    /// Before.
    pub from: State,
    /// What is on the bus.
    pub on: Transaction,
    /// Which pages.
    pub page: Page,
    /// After.
    pub to: State,
    /// What the other cache says.
    pub says: Signals,
    /// Whether it can supply the block.
    pub supply: Supply,
    /// Whether the row is not taken from a text that defines the protocol.
    pub inferred: bool,
}

/// Whether a cache gives the block to the one that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// The cache does not give the block.
    No,
    /// The cache could give the block, and memory could as well: the machine says which.
    Clean,
    /// The cache must give the block: memory is out of date.
    Dirty,
}

/// A state's name and what it means.
#[derive(Debug, Clone, Copy)]
pub struct StateInfo {
    /// As in the paper.
    pub name: &'static str,
    /// Memory is out of date and this copy is responsible for it.
    pub dirty: bool,
    /// No other cache has a copy.
    pub sole: bool,
}

/// A protocol: its states and its two tables.
#[derive(Debug)]
pub struct Protocol {
    /// As typed.
    pub name: &'static str,
    /// In one line, with its source.
    pub about: &'static str,
    /// By their number; the first is invalid.
    pub states: &'static [StateInfo],
    /// What its own processor does to a copy.
    pub local: &'static [Local],
    /// What others do to it.
    pub snoop: &'static [Snoop],
}

/// All protocols.
pub const PROTOCOLS: [&Protocol; 4] =
    [&mesi::PROTOCOL, &amsd::PROTOCOL, &pscr::PROTOCOL, &dragon::PROTOCOL];

/// The protocol of that name.
pub fn protocol(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.into_iter().find(|protocol| protocol.name == name)
}

const fn state(name: &'static str, dirty: bool, sole: bool) -> StateInfo {
    StateInfo { name, dirty, sole }
}

/// Nothing is asked of the bus.
const fn hit(from: State, event: Event, to: State) -> Local {
    let (page, heard) = (Page::Any, 0);
    Local { from, event, page, ask: None, heard, to, then_write: false, inferred: false }
}

/// A transaction is needed; the row holds if any of `heard` is heard.
const fn ask(from: State, event: Event, what: Transaction, heard: Signals, to: State) -> Local {
    let (page, ask) = (Page::Any, Some(what));
    Local { from, event, page, ask, heard, to, then_write: false, inferred: false }
}

impl Local {
    const fn on(mut self, page: Page) -> Self {
        self.page = page;
        self
    }

    const fn then_write(mut self) -> Self {
        self.then_write = true;
        self
    }

    const fn inferred(mut self) -> Self {
        self.inferred = true;
        self
    }
}

const fn snoop(from: State, on: Transaction, to: State, says: Signals, supply: Supply) -> Snoop {
    Snoop { from, on, page: Page::Any, to, says, supply, inferred: false }
}

impl Snoop {
    const fn on(mut self, page: Page) -> Self {
        self.page = page;
        self
    }

    const fn inferred(mut self) -> Self {
        self.inferred = true;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_left_and_reached() {
        for protocol in PROTOCOLS {
            // Replacing a copy is no row: in Dragon nothing else makes one invalid.
            for (number, info) in protocol.states.iter().enumerate().skip(1) {
                let number = number as State;
                let reached = protocol.local.iter().any(|row| row.to == number)
                    || protocol.snoop.iter().any(|row| row.to == number);
                let left = protocol.local.iter().filter(|row| row.from == number).count();
                assert!(reached && left >= 2, "{} {}", protocol.name, info.name);
            }
        }
    }

    #[test]
    fn names_lead_to_their_protocols() {
        for known in PROTOCOLS {
            assert_eq!(protocol(known.name).expect("listed").about, known.about);
        }
        assert!(protocol("moesi").is_none());
    }
}
