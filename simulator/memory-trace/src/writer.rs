//! Writes a trace from its beginning to its end, without going back.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::description::{encode_header, encode_process};
use crate::encoding;
use crate::error::{Fault, TraceError};
use crate::event::Event;
use crate::frame::{EVENTS_MAX, Tag, frame, preamble, trailer};
use crate::index::{self, Entry};
use crate::process::{Header, Process};

/// Writes a trace. The order of calls is free but for [`finish`](Self::finish), without which
/// the trace counts as truncated: what was written in whole blocks can still be read.
///
/// ```
/// use memory_trace::{Event, Header, Process, Writer};
/// let mut bytes = Vec::new();
/// let mut writer = Writer::new(&mut bytes, &Header::default())?;
/// writer.process(&Process { id: 7, command: "ls /".into(), ..Process::default() })?;
/// writer.event(7, &Event::fetch(0x1000, 3))?;
/// assert_eq!(writer.finish()?.references, 1);
/// # Ok::<(), memory_trace::TraceError>(())
/// ```
#[derive(Debug)]
pub struct Writer<W: Write = BufWriter<File>> {
    sink: W,
    path: PathBuf,
    /// The number of bytes written to the sink so far.
    offset: u64,
    entries: Vec<Entry>,
    pending: HashMap<u32, Vec<Event>>,
    written: Written,
}

/// The result of writing a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// The size of the file.
    pub bytes: u64,
    /// Events of all kinds.
    pub events: u64,
    /// Fetches, loads and stores.
    pub references: u64,
}

impl Writer {
    /// Begins a trace in a new file; an existing one is overwritten.
    pub fn create(path: &Path, header: &Header) -> Result<Self, TraceError> {
        let fault = |why| TraceError::new(path, None, Fault::Io(why));
        let file = File::create(path).map_err(fault)?;
        Self::begin(BufWriter::with_capacity(1 << 16, file), path, header)
    }
}

impl<W: Write> Writer<W> {
    /// Begins a trace in any sink of bytes.
    pub fn new(sink: W, header: &Header) -> Result<Self, TraceError> {
        Self::begin(sink, Path::new("(stream)"), header)
    }

    /// Sets the path that errors name, for a sink that is a file.
    #[must_use]
    pub fn named(mut self, path: &Path) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    fn begin(sink: W, path: &Path, header: &Header) -> Result<Self, TraceError> {
        let mut writer = Self {
            sink,
            path: path.to_owned(),
            offset: 0,
            entries: Vec::new(),
            pending: HashMap::new(),
            written: Written::default(),
        };
        writer.put(&preamble())?;
        writer.put_frame(Tag::Header, 0, (0, 0), &encode_header(header))?;
        Ok(writer)
    }

    /// Describes a process, before or after its events. A later description of the same process
    /// replaces an earlier one, so that facts known only at its end can be added.
    pub fn process(&mut self, process: &Process) -> Result<(), TraceError> {
        self.put_frame(Tag::Process, process.id, (0, 0), &encode_process(process))
    }

    /// Adds the next event of a process. Whole blocks are written at once, the rest at the end.
    pub fn event(&mut self, process: u32, event: &Event) -> Result<(), TraceError> {
        let pending = self.pending.entry(process).or_default();
        pending.push(*event);
        if pending.len() < EVENTS_MAX {
            return Ok(());
        }
        let block = std::mem::take(pending);
        self.put_events(process, &block)?;
        // The same memory is reused for the next block.
        self.pending.insert(process, cleared(block));
        Ok(())
    }

    /// Writes what is pending, the index and the end mark.
    pub fn finish(mut self) -> Result<Written, TraceError> {
        let mut pending: Vec<(u32, Vec<Event>)> = self.pending.drain().collect();
        // A hash map has no order, and equal events should make equal files.
        pending.sort_by_key(|(process, _)| *process);
        for (process, events) in pending.iter().filter(|(_, events)| !events.is_empty()) {
            self.put_events(*process, events)?;
        }
        let at = self.offset;
        let index = index::encode(&self.entries);
        self.put_frame(Tag::Index, 0, (0, 0), &index)?;
        self.put(&trailer(at))?;
        let flushed = self.sink.flush();
        flushed.map_err(|why| TraceError::new(&self.path, None, Fault::Io(why)))?;
        Ok(Written { bytes: self.offset, ..self.written })
    }

    fn put_events(&mut self, process: u32, events: &[Event]) -> Result<(), TraceError> {
        let references = events.iter().filter(|event| matches!(event, Event::Access(_))).count();
        let mut raw = Vec::new();
        encoding::encode(events, &mut raw);
        self.written.events += events.len() as u64;
        self.written.references += references as u64;
        self.put_frame(Tag::Events, process, (events.len() as u32, references as u32), &raw)
    }

    fn put_frame(
        &mut self,
        tag: Tag,
        process: u32,
        counts: (u32, u32),
        raw: &[u8],
    ) -> Result<(), TraceError> {
        let bytes = frame(tag, process, counts, raw)
            .map_err(|fault| TraceError::new(&self.path, Some(self.offset), fault))?;
        let (events, references) = counts;
        self.entries.push(Entry { offset: self.offset, tag, process, events, references });
        self.put(&bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let outcome = self.sink.write_all(bytes);
        outcome.map_err(|why| TraceError::with_offset(&self.path, self.offset, Fault::Io(why)))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

fn cleared(mut events: Vec<Event>) -> Vec<Event> {
    events.clear();
    events
}
