//! MESI, write-invalidate: the Illinois table of Papamarcos and Patel (1984), as textbooks have it.
//!
//! Which cache supplies a clean block, all of them (Illinois) or none (the Pentium Pro, to which
//! Foglia et al. refer), is the machine's `clean_supplier`, not a row. A dirty block that is
//! supplied is written to memory in the same transaction.

use super::Event::{Read, Write};
use super::Supply::{Clean, Dirty, No};
use super::Transaction::{Invalidate, ReadAndInvalidate, ReadBlock};
use super::{
    INVALID, Local, Protocol, SHARED, Snoop, State, StateInfo, hit, request, snoop, state,
};

const S: State = 1;
const E: State = 2;
const M: State = 3;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "mesi",
    about: "write-invalidate, four states (Papamarcos and Patel 1984)",
    states: STATES,
    local: LOCAL,
    snoop: SNOOP,
};

const STATES: &[StateInfo] = &[
    state("I", false, false),
    state("S", false, false),
    state("E", false, true),
    state("M", true, true),
];

const LOCAL: &[Local] = &[
    request(INVALID, Read, ReadBlock, SHARED, S),
    request(INVALID, Read, ReadBlock, 0, E),
    request(INVALID, Write, ReadAndInvalidate, 0, M),
    hit(S, Read, S),
    request(S, Write, Invalidate, 0, M),
    hit(E, Read, E),
    hit(E, Write, M),
    hit(M, Read, M),
    hit(M, Write, M),
];

const SNOOP: &[Snoop] = &[
    snoop(S, ReadBlock, S, SHARED, Clean),
    snoop(S, ReadAndInvalidate, INVALID, 0, Clean),
    snoop(S, Invalidate, INVALID, 0, No),
    snoop(E, ReadBlock, S, SHARED, Clean),
    snoop(E, ReadAndInvalidate, INVALID, 0, Clean),
    snoop(M, ReadBlock, S, SHARED, Dirty),
    snoop(M, ReadAndInvalidate, INVALID, 0, Dirty),
];
