//! Coherence protocols as tables: one file each, with the same names in the same order.
//!
//! A table describes what a protocol does, but not how long it takes, which processor waits, or how
//! copies are found. `compiled` holds the same tables, arranged for lookups. Rows that were
//! inferred, because the paper that defines them was not available, are marked as such.

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

/// A transaction on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transaction {
    /// RB: a block is fetched for reading.
    ReadBlock,
    /// RIB: a block is fetched for writing, and all other copies go.
    ReadAndInvalidate,
    /// INV: all other copies go.
    Invalidate,
    /// WR: a word is written to all other copies.
    Write,
    /// UB: a dirty block that is replaced goes to memory.
    UpdateBlock,
}

impl Transaction {
    /// All transactions, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::ReadBlock,
        Self::ReadAndInvalidate,
        Self::Invalidate,
        Self::Write,
        Self::UpdateBlock,
    ];

    /// The abbreviation in papers.
    pub fn abbreviation(self) -> &'static str {
        ["RB", "RIB", "INV", "WR", "UB"][self as usize]
    }

    /// Whether the transaction fetches a block.
    pub fn fetches(self) -> bool {
        matches!(self, Self::ReadBlock | Self::ReadAndInvalidate)
    }
}

/// The pages that a row applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// All.
    Any,
    /// Pages of one task.
    Private,
    /// Pages of several tasks.
    Shared,
}

/// The signals of other caches while a transaction is on the bus, one bit each.
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
    /// The state before.
    pub from: State,
    /// What the processor does.
    pub event: Event,
    /// The pages that the row applies to.
    pub page: Page,
    /// The transaction on the bus; none for a hit.
    pub request: Option<Transaction>,
    /// The signals of which any must be heard for the row to apply; 0 is always. The first row that
    /// applies is used.
    pub heard: Signals,
    /// The state after.
    pub to: State,
    /// Whether the write itself is still to be done, in the new state.
    pub then_write: bool,
    /// Whether the row is not taken from a text that defines the protocol.
    pub inferred: bool,
}

/// How a copy changes by another processor's transaction.
#[derive(Debug, Clone, Copy)]
pub struct Snoop {
    /// The state before.
    pub from: State,
    /// The transaction on the bus.
    pub on: Transaction,
    /// The pages that the row applies to.
    pub page: Page,
    /// The state after.
    pub to: State,
    /// The signals that the cache with the copy gives.
    pub says: Signals,
    /// Whether that cache can supply the block.
    pub supply: Supply,
    /// Whether the row is not taken from a text that defines the protocol.
    pub inferred: bool,
}

/// Whether a cache supplies the block to the requesting one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Supply {
    /// The cache does not give the block.
    No,
    /// The cache could supply the block, and memory could as well: the machine decides.
    Clean,
    /// The cache must supply the block: memory is out of date.
    Dirty,
}

/// A state's name and what it means.
#[derive(Debug, Clone, Copy)]
pub struct StateInfo {
    /// The name in the paper.
    pub name: &'static str,
    /// Whether memory is out of date and this copy is responsible for it.
    pub dirty: bool,
    /// Whether no other cache has a copy.
    pub sole: bool,
}

/// A protocol: its states and its two tables.
#[derive(Debug)]
pub struct Protocol {
    /// The name in commands and files.
    pub name: &'static str,
    /// A description in one line, with the source.
    pub about: &'static str,
    /// The states by number; the first is invalid.
    pub states: &'static [StateInfo],
    /// What a copy's own processor does to it.
    pub local: &'static [Local],
    /// What other processors' transactions do to it.
    pub snoop: &'static [Snoop],
}

/// All protocols.
pub const PROTOCOLS: [&Protocol; 4] =
    [&mesi::PROTOCOL, &amsd::PROTOCOL, &pscr::PROTOCOL, &dragon::PROTOCOL];

/// The protocol with this name.
pub fn protocol(name: &str) -> Option<&'static Protocol> {
    PROTOCOLS.into_iter().find(|protocol| protocol.name == name)
}

const fn state(name: &'static str, dirty: bool, sole: bool) -> StateInfo {
    StateInfo { name, dirty, sole }
}

/// A row without a transaction on the bus.
const fn hit(from: State, event: Event, to: State) -> Local {
    let (page, heard) = (Page::Any, 0);
    Local { from, event, page, request: None, heard, to, then_write: false, inferred: false }
}

/// A row with a transaction; it applies if any of `heard` is heard.
const fn request(from: State, event: Event, what: Transaction, heard: Signals, to: State) -> Local {
    let (page, request) = (Page::Any, Some(what));
    Local { from, event, page, request, heard, to, then_write: false, inferred: false }
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
            // A replacement is not a row: in Dragon nothing else makes a copy invalid.
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
