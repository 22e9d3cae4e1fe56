//! PSCR, passive shared copy removal: write-update for shared pages; a copy of a private page goes
//! as soon as another processor fetches the block.
//!
//! After Giorgi and Prete (TPDS 1999), whose table was not available: this one is inferred from
//! their abstract and from the description of Foglia et al. The kernel's private bit of the page
//! goes with every read on a line of the bus. There is no transaction that invalidates.

use super::Event::{Read, Write as Store};
use super::Page::{Private, Shared};
use super::Supply::{Clean, Dirty, No};
use super::Transaction::{ReadBlock, Write};
use super::{
    DIRTY, INVALID, Local, Protocol, SHARED, Snoop, State, StateInfo, hit, request, snoop, state,
};

const SC: State = 1;
const E: State = 2;
const M: State = 3;
/// Shared, and this copy is responsible for updating memory.
const SD: State = 4;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "pscr",
    about: "write-update, private copies removed (Giorgi and Prete 1999; table inferred)",
    states: STATES,
    local: LOCAL,
    snoop: SNOOP,
};

const STATES: &[StateInfo] = &[
    state("I", false, false),
    state("SC", false, false),
    state("E", false, true),
    state("M", true, true),
    state("SD", true, false),
];

const LOCAL: &[Local] = &[
    request(INVALID, Read, ReadBlock, DIRTY, M).on(Private).inferred(),
    request(INVALID, Read, ReadBlock, 0, E).on(Private).inferred(),
    request(INVALID, Read, ReadBlock, SHARED, SC).on(Shared).inferred(),
    request(INVALID, Read, ReadBlock, 0, E).on(Shared).inferred(),
    request(INVALID, Store, ReadBlock, 0, M).on(Private).inferred(),
    request(INVALID, Store, ReadBlock, SHARED, SC).on(Shared).then_write().inferred(),
    request(INVALID, Store, ReadBlock, 0, E).on(Shared).then_write().inferred(),
    hit(E, Read, E).inferred(),
    hit(E, Store, M).inferred(),
    hit(M, Read, M).inferred(),
    hit(M, Store, M).inferred(),
    hit(SC, Read, SC).inferred(),
    request(SC, Store, Write, SHARED, SD).on(Shared).inferred(),
    request(SC, Store, Write, 0, M).on(Shared).inferred(),
    hit(SD, Read, SD).inferred(),
    request(SD, Store, Write, SHARED, SD).on(Shared).inferred(),
    request(SD, Store, Write, 0, M).on(Shared).inferred(),
];

const SNOOP: &[Snoop] = &[
    snoop(E, ReadBlock, INVALID, 0, Clean).on(Private).inferred(),
    snoop(M, ReadBlock, INVALID, DIRTY, Dirty).on(Private).inferred(),
    snoop(E, ReadBlock, SC, SHARED, Clean).on(Shared).inferred(),
    snoop(M, ReadBlock, SD, SHARED, Dirty).on(Shared).inferred(),
    snoop(SC, ReadBlock, SC, SHARED, Clean).on(Shared).inferred(),
    snoop(SD, ReadBlock, SD, SHARED, Dirty).on(Shared).inferred(),
    snoop(SC, Write, SC, SHARED, No).on(Shared).inferred(),
    snoop(SD, Write, SC, SHARED, No).on(Shared).inferred(),
];
