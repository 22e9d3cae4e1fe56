//! Conversion of foreign traces: the text of Valgrind's lackey, din, and the records of drmemtrace.
//!
//! They contain no regions and symbols: all memory of an imported process is private.

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

/// The form of a foreign trace.
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
    /// The form of a trace that begins with these bytes, if it is any of these.
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

/// What the foreign trace does not contain itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The trace's name, for messages.
    pub path: PathBuf,
    /// The form of the trace.
    pub form: Form,
    /// The number of its process, if the trace has none.
    pub process: u32,
    /// The command of its process. Without it, the command in the banner of lackey, if there is
    /// one.
    pub command: Option<String>,
    /// The size of a reference of din, which has no sizes, in bytes.
    pub din_bytes: u16,
}

/// The result of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Imported {
    /// Fetches, loads and stores.
    pub references: u64,
    /// Events of other kinds.
    pub others: u64,
    /// Lines or records that the format cannot express: prefetches, flushes, output of the program
    /// itself in the trace, references that the kernel made.
    pub skipped: u64,
    /// The number of the first skipped line, from 1, or the offset of the first skipped record.
    pub first_skipped: Option<u64>,
}

/// Reads a foreign trace to its end into `writer`, which is not finished: several traces may follow
/// each other. Processes are described, too.
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

/// The destination of events, and the counts so far.
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
        TraceError::with_offset(&self.foreign.path, offset, fault)
    }
}
