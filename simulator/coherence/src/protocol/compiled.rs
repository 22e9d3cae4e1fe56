//! A protocol's tables, compiled for lookups: by state, event, page and signals.
//!
//! The content is exactly that of the tables; a combination for which there is no row is a bug in
//! the table, found when it happens.

use super::{
    Event, INVALID, Local, Page, Protocol, STATES_MAX, Signals, Snoop, State, Supply, Transaction,
};

/// In [`Compiled::silent`]: the event needs the bus.
pub(crate) const SLOW: u8 = u8::MAX;
const NO_ROW: u8 = u8::MAX;

/// The transaction that a processor's event requests, and the change of its copy by the signals
/// heard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) request: Option<Transaction>,
    /// The number of the row, by the signals heard.
    rows: [u8; 8],
}

/// A copy's reaction to another processor's transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaction {
    pub(crate) row: u8,
    pub(crate) to: State,
    pub(crate) says: Signals,
    pub(crate) supply: Supply,
}

/// The tables of a protocol.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) protocol: &'static Protocol,
    /// By state and event: the next state of a hit, or [`SLOW`].
    pub(crate) silent: [u8; STATES_MAX * 2],
    wanted: [Wanted; STATES_MAX * 4],
    reactions: [Reaction; STATES_MAX * 8],
    dirty: [bool; STATES_MAX],
    calm: [bool; STATES_MAX],
}

impl Compiled {
    pub(crate) fn new(protocol: &'static Protocol) -> Self {
        let nothing = Wanted { request: None, rows: [NO_ROW; 8] };
        let none = Reaction { row: NO_ROW, to: INVALID, says: 0, supply: Supply::No };
        let mut compiled = Self {
            protocol,
            silent: [SLOW; STATES_MAX * 2],
            wanted: [nothing; STATES_MAX * 4],
            reactions: [none; STATES_MAX * 8],
            dirty: [false; STATES_MAX],
            calm: [false; STATES_MAX],
        };
        for (number, info) in protocol.states.iter().enumerate() {
            compiled.dirty[number] = info.dirty;
        }
        for (number, row) in protocol.local.iter().enumerate() {
            compiled.add_local(number as u8, row);
        }
        for (number, row) in protocol.snoop.iter().enumerate() {
            let (number, to) = (number as u8, row.to);
            let reaction = Reaction { row: number, to, says: row.says, supply: row.supply };
            for &private in pages(row.page) {
                compiled.reactions[snoop_place(row.from, row.on, private)] = reaction;
            }
        }
        for (number, calm) in compiled.calm.iter_mut().enumerate() {
            *calm = is_calm(protocol, number as State);
        }
        compiled
    }

    fn add_local(&mut self, number: u8, row: &Local) {
        if row.request.is_none() {
            self.silent[usize::from(row.from) * 2 + row.event as usize] = row.to;
        }
        for &private in pages(row.page) {
            let wanted = &mut self.wanted[local_place(row.from, row.event, private)];
            wanted.request = row.request;
            for (heard, place) in wanted.rows.iter_mut().enumerate() {
                let holds = row.heard == 0 || heard as Signals & row.heard != 0;
                if holds && *place == NO_ROW {
                    *place = number;
                }
            }
        }
    }

    /// The transaction and rows for an event.
    pub(crate) fn wanted(&self, from: State, event: Event, private: bool) -> &Wanted {
        &self.wanted[local_place(from, event, private)]
    }

    /// The row that applies when `heard` has been heard, with its number.
    pub(crate) fn local(&self, wanted: &Wanted, heard: Signals) -> (u8, &'static Local) {
        let number = wanted.rows[usize::from(heard)];
        assert!(number != NO_ROW, "{}: no row for a processor's event", self.protocol.name);
        (number, &self.protocol.local[usize::from(number)])
    }

    /// The reaction of a copy to another processor's transaction.
    pub(crate) fn reaction(&self, from: State, on: Transaction, private: bool) -> Reaction {
        let reaction = self.reactions[snoop_place(from, on, private)];
        assert!(
            reaction.row != NO_ROW,
            "{}: a copy in state {} cannot see {}",
            self.protocol.name,
            self.protocol.states[usize::from(from)].name,
            on.abbreviation()
        );
        reaction
    }

    /// Whether the copy stays as it is when others read, and no hit brings it into or out of this
    /// state: what is known of such a copy stays true until a transaction changes it.
    pub(crate) fn is_calm(&self, state: State) -> bool {
        self.calm[usize::from(state)]
    }

    pub(crate) fn is_dirty(&self, state: State) -> bool {
        self.dirty[usize::from(state)]
    }
}

fn is_calm(protocol: &Protocol, state: State) -> bool {
    let others_read =
        |row: &Snoop| row.from == state && row.on == Transaction::ReadBlock && row.to != state;
    let hit = |row: &Local| {
        let matters = row.event == Event::Write || row.from != row.to;
        row.request.is_none() && matters && (row.from == state || row.to == state)
    };
    !protocol.snoop.iter().any(others_read) && !protocol.local.iter().any(hit)
}

fn pages(page: Page) -> &'static [bool] {
    match page {
        Page::Any => &[false, true],
        Page::Private => &[true],
        Page::Shared => &[false],
    }
}

fn local_place(from: State, event: Event, private: bool) -> usize {
    (usize::from(from) * 2 + event as usize) * 2 + usize::from(private)
}

fn snoop_place(from: State, on: Transaction, private: bool) -> usize {
    // UpdateBlock is the last and is not snooped.
    debug_assert!(on != Transaction::UpdateBlock);
    (usize::from(from) * 4 + on as usize) * 2 + usize::from(private)
}
