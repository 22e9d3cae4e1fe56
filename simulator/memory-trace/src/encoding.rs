//! Events as bytes: a column with one byte for each event, and a column of numbers.
//!
//! Most events are those that a [`Model`] of the process expects: the next instruction, a jump to
//! the same target as before, data at the same address as at the instruction's last execution.
//! These cost one byte, which repeats as the program does and so compresses well. Each block starts
//! with a fresh model: it is decoded without those before it.
//!
//! The encoding is exact: decoding returns the encoded events, however strange they are. Checksums
//! and compression are elsewhere.

use crate::event::{Access, AccessKind, Event};
use crate::varint::{Cursor, Malformed, put, unzigzag, zigzag};

/// The first byte of each group of 16; the low half is the length of the instruction.
const NEXT: u8 = 0x00;
const JUMP: u8 = 0x10;
const JUMP_AS_BEFORE: u8 = 0x50;
/// Loads and, with `STORE` added, stores.
const DATA: u8 = 0x20;
const STORE: u8 = 0x10;
/// Relative to the last data of any instruction, not to the last of this instruction.
const NEAR: u8 = 0x08;
/// The first code of rare events.
const LONG_FETCH: u8 = 0x40;
const SYSTEM_CALL: u8 = 0x41;
const SYNCHRONISE: u8 = 0x42;
const SWITCH_THREAD: u8 = 0x43;
/// The code exists since version 2.
const MOVED: u8 = 0x44;

/// Sizes with a code of their own; the code after the last one says that a number follows.
const SIZES: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
const OTHER_SIZE: u8 = 7;
/// The longest instruction with a short code; a longer one is a `LONG_FETCH`.
const SHORT: u16 = 15;

/// Appends the encoding of `events`.
pub(crate) fn encode(events: &[Event], out: &mut Vec<u8>) {
    let mut columns =
        Columns { model: Model::new(), codes: Vec::with_capacity(events.len()), numbers: vec![] };
    for event in events {
        columns.put(event);
    }
    out.extend_from_slice(&columns.codes);
    out.extend_from_slice(&columns.numbers);
}

/// Appends `count` events, which must be all that `bytes` holds.
pub(crate) fn decode(bytes: &[u8], count: usize, out: &mut Vec<Event>) -> Result<(), Malformed> {
    let (codes, numbers) = bytes.split_at_checked(count).ok_or(Malformed)?;
    let mut from = Cursor::new(numbers);
    let mut model = Model::new();
    out.reserve(count);
    for &code in codes {
        out.push(event(code, &mut from, &mut model)?);
    }
    if from.is_at_end() { Ok(()) } else { Err(Malformed) }
}

/// An encoding in progress.
struct Columns {
    model: Model,
    codes: Vec<u8>,
    numbers: Vec<u8>,
}

impl Columns {
    fn put(&mut self, event: &Event) {
        match *event {
            Event::Access(Access { kind: AccessKind::Fetch, address, bytes }) => {
                self.put_fetch(address, bytes);
            }
            Event::Access(Access { kind, address, bytes }) => self.put_data(kind, address, bytes),
            Event::SystemCall { number } => self.put_rare(SYSTEM_CALL, u64::from(number)),
            Event::Moved { number, bytes } => {
                self.put_rare(MOVED, u64::from(number));
                put(&mut self.numbers, u64::from(bytes));
            }
            Event::Synchronise { address } => {
                let from_last = address.wrapping_sub(self.model.last_data);
                self.put_rare(SYNCHRONISE, zigzag(from_last as i64));
            }
            Event::SwitchThread { thread } => self.put_rare(SWITCH_THREAD, u64::from(thread)),
        }
    }

    fn put_rare(&mut self, code: u8, number: u64) {
        self.codes.push(code);
        put(&mut self.numbers, number);
    }

    fn put_fetch(&mut self, address: u64, bytes: u16) {
        let jump = zigzag(address.wrapping_sub(self.model.next) as i64);
        if bytes > SHORT {
            self.put_rare(LONG_FETCH, u64::from(bytes));
            put(&mut self.numbers, jump);
        } else if jump == 0 {
            self.codes.push(NEXT + bytes as u8);
        } else if address == self.model.target() {
            self.codes.push(JUMP_AS_BEFORE + bytes as u8);
        } else {
            self.put_rare(JUMP + bytes as u8, jump);
        }
        self.model.fetch(address, bytes);
    }

    fn put_data(&mut self, kind: AccessKind, address: u64, bytes: u16) {
        let before = zigzag(address.wrapping_sub(self.model.data_before()) as i64);
        let near = zigzag(address.wrapping_sub(self.model.last_data) as i64);
        let size = SIZES.iter().position(|size| *size == bytes).map_or(OTHER_SIZE, |at| at as u8);
        let store = if kind == AccessKind::Store { STORE } else { 0 };
        let (place, distance) = if near < before { (NEAR, near) } else { (0, before) };
        self.put_rare(DATA + store + place + size, distance);
        if size == OTHER_SIZE {
            put(&mut self.numbers, u64::from(bytes));
        }
        self.model.data(address);
    }
}

fn event(code: u8, from: &mut Cursor<'_>, model: &mut Model) -> Result<Event, Malformed> {
    match code & 0xf0 {
        NEXT => Ok(model.fetched(model.next, u16::from(code - NEXT))),
        JUMP => {
            let address = jump(from, model)?;
            Ok(model.fetched(address, u16::from(code - JUMP)))
        }
        JUMP_AS_BEFORE => Ok(model.fetched(model.target(), u16::from(code - JUMP_AS_BEFORE))),
        LONG_FETCH => rare(code, from, model),
        first if first == DATA || first == DATA + STORE => data(code, from, model),
        _ => Err(Malformed),
    }
}

fn jump(from: &mut Cursor<'_>, model: &Model) -> Result<u64, Malformed> {
    Ok(model.next.wrapping_add(unzigzag(from.number()?) as u64))
}

fn rare(code: u8, from: &mut Cursor<'_>, model: &mut Model) -> Result<Event, Malformed> {
    match code {
        LONG_FETCH => {
            let bytes = from.small()?;
            let address = jump(from, model)?;
            Ok(model.fetched(address, bytes))
        }
        SYSTEM_CALL => Ok(Event::SystemCall { number: from.small()? }),
        MOVED => Ok(Event::Moved { number: from.small()?, bytes: from.small()? }),
        SYNCHRONISE => {
            let from_last = unzigzag(from.number()?) as u64;
            Ok(Event::Synchronise { address: model.last_data.wrapping_add(from_last) })
        }
        SWITCH_THREAD => Ok(Event::SwitchThread { thread: from.small()? }),
        _ => Err(Malformed),
    }
}

fn data(code: u8, from: &mut Cursor<'_>, model: &mut Model) -> Result<Event, Malformed> {
    let base = if code & NEAR == 0 { model.data_before() } else { model.last_data };
    let address = base.wrapping_add(unzigzag(from.number()?) as u64);
    let kind = if code & STORE == 0 { AccessKind::Load } else { AccessKind::Store };
    let bytes = match SIZES.get(usize::from(code & 7)) {
        Some(bytes) => *bytes,
        None => from.small()?,
    };
    model.data(address);
    Ok(Event::Access(Access { kind, address, bytes }))
}

/// The number of places that the model remembers, each for jumps and data; a power of two.
const PLACES: usize = 4096;

/// What is expected of the process, the same for the writer and the reader.
struct Model {
    /// The address after the last instruction.
    next: u64,
    /// The address of the last data.
    last_data: u64,
    /// The place of the instruction; that of its data comes after it.
    place: usize,
    data_place: usize,
    /// The target of the instruction, and the address of its data, when they were last seen.
    targets: Vec<u64>,
    data: Vec<u64>,
}

impl Model {
    fn new() -> Self {
        let (targets, data) = (vec![0; PLACES], vec![0; PLACES]);
        Self { next: 0, last_data: 0, place: 0, data_place: 0, targets, data }
    }

    fn target(&self) -> u64 {
        self.targets[self.place]
    }

    fn data_before(&self) -> u64 {
        self.data[self.data_place]
    }

    fn fetched(&mut self, address: u64, bytes: u16) -> Event {
        self.fetch(address, bytes);
        Event::fetch(address, bytes)
    }

    fn fetch(&mut self, address: u64, bytes: u16) {
        if address != self.next {
            self.targets[self.place] = address;
        }
        self.next = address.wrapping_add(u64::from(bytes));
        // Fibonacci hashing: neighbours go far apart, so that data have places in between.
        let hash = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.place = hash as usize % PLACES;
        self.data_place = self.place;
    }

    fn data(&mut self, address: u64) {
        self.data[self.data_place] = address;
        self.data_place = (self.data_place + 1) % PLACES;
        self.last_data = address;
    }
}
