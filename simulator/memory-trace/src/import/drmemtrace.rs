//! DynamoRIO's records: a type and a size of 16 bits, and 64 bits that are mostly an address, all
//! little-endian. The numbers are those of its `trace_entry.h`.
//!
//! References that the kernel made are left out and counted: a trace has user references only.

use std::collections::HashMap;
use std::io::{BufRead, Read, Write};

use super::Into;
use crate::error::{Fault, TraceError};
use crate::event::Event;

const RECORD_BYTES: usize = 12;

const THREAD: u16 = 22;
const HEADER: u16 = 25;
const MARKER: u16 = 28;

/// Kinds of markers.
const MARK_SYSTEM_CALL: u16 = 25;
const MARK_KERNEL_BEGINS: u16 = 27;
const MARK_KERNEL_ENDS: u16 = 28;

struct Record {
    kind: u16,
    size: u16,
    value: [u8; 8],
}

impl Record {
    fn from_bytes(bytes: &[u8]) -> Self {
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let value = bytes[4..RECORD_BYTES].try_into().expect("eight bytes");
        Self { kind: short(0), size: short(2), value }
    }

    fn address(&self) -> u64 {
        u64::from_le_bytes(self.value)
    }
}

/// Whether the bytes are the beginning of a file or a pipe of drmemtrace.
pub(super) fn begins(start: &[u8]) -> bool {
    let Some(bytes) = start.get(..RECORD_BYTES) else { return false };
    let Record { kind, size, value } = Record::from_bytes(bytes);
    let small = value[4..] == [0; 4];
    matches!(kind, HEADER | THREAD) && size <= 8 && small || kind == MARKER && size <= 100
}

/// Imports a trace. Returns no command: drmemtrace contains none.
pub(super) fn import<R: BufRead, W: Write>(
    mut from: R,
    into: &mut Into<'_, W>,
) -> Result<Option<String>, TraceError> {
    let mut state = State::new(into.foreign.process);
    let (mut offset, mut bytes) = (0, Vec::with_capacity(RECORD_BYTES));
    loop {
        bytes.clear();
        let read = from.by_ref().take(RECORD_BYTES as u64).read_to_end(&mut bytes);
        match read.map_err(|why| into.error(offset, Fault::Io(why)))? {
            0 => return Ok(None),
            RECORD_BYTES => state.record(&Record::from_bytes(&bytes), offset, into)?,
            _ => return Err(into.error(offset, Fault::Truncated("record"))),
        }
        offset += RECORD_BYTES as u64;
    }
}

/// The state that earlier records leave for those that follow.
struct State {
    process: u32,
    thread: Option<u32>,
    /// The process of each thread, and the thread that each process was last reported to run.
    processes: HashMap<u32, u32>,
    running: HashMap<u32, u32>,
    /// The address of the last instruction, and the address after it.
    instruction: u64,
    next: u64,
    in_kernel: bool,
}

impl State {
    fn new(process: u32) -> Self {
        let (processes, running) = (HashMap::new(), HashMap::new());
        let (instruction, next) = (0, 0);
        Self { process, thread: None, processes, running, instruction, next, in_kernel: false }
    }

    fn record<W: Write>(
        &mut self,
        record: &Record,
        offset: u64,
        into: &mut Into<'_, W>,
    ) -> Result<(), TraceError> {
        let (address, size) = (record.address(), record.size);
        match record.kind {
            0 => self.reference(Event::load(address, size), offset, into),
            1 => self.reference(Event::store(address, size), offset, into),
            10..=16 | 31 | 48 | 49 => self.fetch(address, size, offset, into),
            17 => self.bundle(record, offset, into),
            // A repetition of a string instruction: it is fetched the first time only.
            30 if address != self.instruction => self.fetch(address, size, offset, into),
            THREAD => {
                self.switch(address as u32);
                Ok(())
            }
            24 => {
                self.belongs(address as u32);
                Ok(())
            }
            MARKER => self.mark(size, address, offset, into),
            // Headers, footers, exits, encodings, and instructions that are not fetched again.
            23 | HEADER | 26 | 29 | 30 | 47 => Ok(()),
            // Prefetches and flushes.
            2..=9 | 18..=21 | 27 | 32..=46 => {
                into.skip(offset);
                Ok(())
            }
            kind => {
                let why = format!(
                    "type {kind} is none of drmemtrace's: damaged, compressed, or of \
                     addresses of 32 bits"
                );
                Err(into.error(offset, Fault::Import(why)))
            }
        }
    }

    fn switch(&mut self, thread: u32) {
        self.thread = Some(thread);
        self.process = self.processes.get(&thread).copied().unwrap_or(self.process);
    }

    fn belongs(&mut self, process: u32) {
        self.process = process;
        if let Some(thread) = self.thread {
            self.processes.insert(thread, process);
        }
    }

    fn fetch<W: Write>(
        &mut self,
        address: u64,
        bytes: u16,
        offset: u64,
        into: &mut Into<'_, W>,
    ) -> Result<(), TraceError> {
        self.instruction = address;
        self.next = address.wrapping_add(u64::from(bytes));
        self.reference(Event::fetch(address, bytes), offset, into)
    }

    /// Instructions that follow the last one, with their lengths.
    fn bundle<W: Write>(
        &mut self,
        record: &Record,
        offset: u64,
        into: &mut Into<'_, W>,
    ) -> Result<(), TraceError> {
        let Some(lengths) = record.value.get(..usize::from(record.size)) else {
            let why = "a bundle of more than 8 instructions: damaged".to_owned();
            return Err(into.error(offset, Fault::Import(why)));
        };
        for bytes in lengths {
            self.fetch(self.next, u16::from(*bytes), offset, into)?;
        }
        Ok(())
    }

    fn mark<W: Write>(
        &mut self,
        mark: u16,
        value: u64,
        offset: u64,
        into: &mut Into<'_, W>,
    ) -> Result<(), TraceError> {
        match mark {
            MARK_SYSTEM_CALL => {
                self.reference(Event::SystemCall { number: value as u32 }, offset, into)?;
            }
            MARK_KERNEL_BEGINS => self.in_kernel = true,
            MARK_KERNEL_ENDS => self.in_kernel = false,
            _ => {}
        }
        Ok(())
    }

    fn reference<W: Write>(
        &mut self,
        event: Event,
        offset: u64,
        into: &mut Into<'_, W>,
    ) -> Result<(), TraceError> {
        if self.in_kernel {
            into.skip(offset);
            return Ok(());
        }
        if let Some(thread) = self.thread
            && self.running.insert(self.process, thread) != Some(thread)
        {
            into.event(self.process, &Event::SwitchThread { thread })?;
        }
        into.event(self.process, &event)
    }
}
