//! Foreign traces become ours: the text of Valgrind's lackey, din, and the records of drmemtrace.
//!
//! They say nothing of regions and symbols: all memory of an imported process is private.

mod din;
mod drmemtrace;
mod lackey;
mod lines;

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::path::PathBuf;

use crate::error::{Fault, TraceError};
use crate::event::Event;
use crate::process::Process;
use crate::writer::Writer;

/// What is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `valgrind --tool=lackey --trace-mem=yes`: `I  04016b80,3`, ` L`, ` S`, ` M`.
    Lackey,
    /// Dinero's: a label (0 load, 1 store, 2 fetch) and an address in each line.
    Din,
    /// DynamoRIO's: records of 12 bytes, not compressed, of processes with addresses of 64 bits.
    Drmemtrace,
}

/// The forms and their names.
pub const FORMS: [(&str, Form); 3] =
    [("lackey", Form::Lackey), ("din", Form::Din), ("drmemtrace", Form::Drmemtrace)];

impl Form {
    /// What a trace that begins with these bytes must be, if it is any.
    pub fn guess(start: &[u8]) -> Option<Self> {
        if drmemtrace::begins(start) {
            return Some(Self::Drmemtrace);
        }
        let mut lines = start.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let first = lines.next()?;
        if lackey::is_banner(first) || lackey::events(first).is_some() {
            Some(Self::Lackey)
        } else {
            din::event(first, 4).map(|_| Self::Din)
        }
    }
}

/// What the foreign trace does not say itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// Its name, for messages.
    pub path: PathBuf,
    /// What it is.
    pub form: Form,
    /// The number of its process, if it has none.
    pub process: u32,
    /// What its process ran. Without it, what a banner of lackey says, if there is one.
    pub command: Option<String>,
    /// How many bytes a reference of din is, which does not say.
    pub din_bytes: u16,
}

/// What came of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Fetches, loads and stores.
    pub references: u64,
    /// Events of other kinds.
    pub others: u64,
    /// Lines or records that say nothing that the format can express: prefetches, flushes, what
    /// the program itself printed into the trace, references that the kernel made.
    pub skipped: u64,
    /// The line, from 1, or the record's first byte, of the first of them.
    pub first_skipped: Option<u64>,
}

/// Reads a foreign trace to its end into `writer`, which is not finished: several may follow each
/// other. Processes are described, too.
pub fn import<R: BufRead, W: Write>(
    from: R,
    foreign: &Foreign,
    writer: &mut Writer<W>,
) -> Result<Imported, TraceError> {
    let mut into = Into { foreign, writer, imported: Imported::default(), seen: BTreeSet::new() };
    let found = match foreign.form {
        Form::Lackey => lackey::import(from, &mut into)?,
        Form::Din => din::import(from, &mut into)?,
        Form::Drmemtrace => drmemtrace::import(from, &mut into)?,
    };
    let command = foreign.command.clone().or(found).unwrap_or_default();
    let Into { writer, imported, seen, .. } = into;
    for id in seen {
        writer.process(&Process { id, command: command.clone(), ..Process::default() })?;
    }
    if imported.references == 0 {
        let (name, _) = FORMS.iter().find(|(_, form)| *form == foreign.form).expect("all forms");
        let why = format!("there is no reference in it: is it {name}? See --format");
        return Err(TraceError::new(&foreign.path, None, Fault::Import(why)));
    }
    Ok(imported)
}

/// Where events go, and what has been counted.
struct Into<'a, W: Write> {
    foreign: &'a Foreign,
    writer: &'a mut Writer<W>,
    imported: Imported,
    seen: BTreeSet<u32>,
}

impl<W: Write> Into<'_, W> {
    fn event(&mut self, process: u32, event: &Event) -> Result<(), TraceError> {
        if matches!(event, Event::Access(_)) {
            self.imported.references += 1;
        } else {
            self.imported.others += 1;
        }
        self.seen.insert(process);
        self.writer.event(process, event)
    }

    fn skip(&mut self, place: u64) {
        self.imported.skipped += 1;
        self.imported.first_skipped.get_or_insert(place);
    }

    fn error(&self, offset: u64, fault: Fault) -> TraceError {
        TraceError::at(&self.foreign.path, offset, fault)
    }
}
