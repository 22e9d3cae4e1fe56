//! Dragon, write-update: every write to a block that others have goes to their copies.
//!
//! After McCreight's Dragon as Archibald and Baer (1986) and textbooks describe it; included for
//! comparison, as PSCR without the removal of private copies.

use super::Event::{Read, Write as Store};
use super::Supply::{Clean, Dirty, No};
use super::Transaction::{ReadBlock, Write};
use super::{
    INVALID, Local, Protocol, SHARED, Snoop, State, StateInfo, hit, request, snoop, state,
};

const SC: State = 1;
const E: State = 2;
const M: State = 3;
/// Shared, and this copy is responsible for updating memory.
const SM: State = 4;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "dragon",
    about: "write-update (McCreight 1984; Archibald and Baer 1986)",
    states: STATES,
    local: LOCAL,
    snoop: SNOOP,
};

const STATES: &[StateInfo] = &[
    state("I", false, false),
    state("Sc", false, false),
    state("E", false, true),
    state("M", true, true),
    state("Sm", true, false),
];

const LOCAL: &[Local] = &[
    request(INVALID, Read, ReadBlock, SHARED, SC),
    request(INVALID, Read, ReadBlock, 0, E),
    request(INVALID, Store, ReadBlock, SHARED, SC).then_write(),
    request(INVALID, Store, ReadBlock, 0, E).then_write(),
    hit(SC, Read, SC),
    request(SC, Store, Write, SHARED, SM),
    request(SC, Store, Write, 0, M),
    hit(E, Read, E),
    hit(E, Store, M),
    hit(M, Read, M),
    hit(M, Store, M),
    hit(SM, Read, SM),
    request(SM, Store, Write, SHARED, SM),
    request(SM, Store, Write, 0, M),
];

const SNOOP: &[Snoop] = &[
    snoop(SC, ReadBlock, SC, SHARED, Clean),
    snoop(SC, Write, SC, SHARED, No),
    snoop(E, ReadBlock, SC, SHARED, Clean),
    snoop(M, ReadBlock, SM, SHARED, Dirty),
    snoop(SM, ReadBlock, SM, SHARED, Dirty),
    snoop(SM, Write, SC, SHARED, No),
];
