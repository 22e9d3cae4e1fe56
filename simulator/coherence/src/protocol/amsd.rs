//! AMSD, adaptive migratory sharing detection: MESI that detects blocks which processors read and
//! then write one after the other, and hands them over whole.
//!
//! After Cox and Fowler and Stenström, Brorsson and Sandberg (both ISCA 1993), whose texts were not
//! available: the criterion is theirs, the bus version of it is inferred. A block is found to be
//! migratory when the second of exactly two copies is written and the first was the last to be
//! written (S2). From then on a read miss takes the block away from its holder (MD), which saves
//! the invalidation that would follow. A read elsewhere before the block was written (MC) ends
//! that.

use super::Event::{Read, Write};
use super::Supply::{Clean, Dirty, No};
use super::Transaction::{Invalidate, ReadAndInvalidate, ReadBlock};
use super::{
    INVALID, Local, MIGRATORY, Protocol, SHARED, Snoop, State, StateInfo, hit, request, snoop,
    state,
};

const S: State = 1;
const E: State = 2;
const M: State = 3;
/// Was dirty, has supplied exactly one reader.
const S2: State = 4;
/// Migrated here, not written yet; memory is up to date.
const MC: State = 5;
/// Migrated here and written.
const MD: State = 6;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "amsd",
    about: "MESI with migratory blocks handed over (Cox and Fowler 1993; table inferred)",
    states: STATES,
    local: LOCAL,
    snoop: SNOOP,
};

const STATES: &[StateInfo] = &[
    state("I", false, false),
    state("S", false, false),
    state("E", false, true),
    state("M", true, true),
    state("S2", false, false),
    state("MC", false, true),
    state("MD", true, true),
];

const LOCAL: &[Local] = &[
    request(INVALID, Read, ReadBlock, MIGRATORY, MC).inferred(),
    request(INVALID, Read, ReadBlock, SHARED, S),
    request(INVALID, Read, ReadBlock, 0, E),
    request(INVALID, Write, ReadAndInvalidate, MIGRATORY, MD).inferred(),
    request(INVALID, Write, ReadAndInvalidate, 0, M),
    hit(S, Read, S),
    request(S, Write, Invalidate, MIGRATORY, MD).inferred(),
    request(S, Write, Invalidate, 0, M),
    hit(E, Read, E),
    hit(E, Write, M),
    hit(M, Read, M),
    hit(M, Write, M),
    hit(S2, Read, S2).inferred(),
    request(S2, Write, Invalidate, 0, M).inferred(),
    hit(MC, Read, MC).inferred(),
    hit(MC, Write, MD).inferred(),
    hit(MD, Read, MD).inferred(),
    hit(MD, Write, MD).inferred(),
];

const SNOOP: &[Snoop] = &[
    snoop(S, ReadBlock, S, SHARED, Clean),
    snoop(S, ReadAndInvalidate, INVALID, 0, Clean),
    snoop(S, Invalidate, INVALID, 0, No),
    snoop(E, ReadBlock, S, SHARED, Clean),
    snoop(E, ReadAndInvalidate, INVALID, 0, Clean),
    snoop(M, ReadBlock, S2, SHARED, Dirty).inferred(),
    snoop(M, ReadAndInvalidate, INVALID, 0, Dirty),
    snoop(S2, ReadBlock, S, SHARED, Clean).inferred(),
    snoop(S2, ReadAndInvalidate, INVALID, 0, Clean).inferred(),
    snoop(S2, Invalidate, INVALID, MIGRATORY, No).inferred(),
    snoop(MC, ReadBlock, S, SHARED, Clean).inferred(),
    snoop(MC, ReadAndInvalidate, INVALID, 0, Clean).inferred(),
    snoop(MD, ReadBlock, INVALID, MIGRATORY, Dirty).inferred(),
    snoop(MD, ReadAndInvalidate, INVALID, MIGRATORY, Dirty).inferred(),
];
