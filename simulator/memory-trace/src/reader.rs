//! Reads a trace: its description at once, events block by block.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::description::{decode_header, decode_process};
use crate::encoding;
use crate::error::{Fault, TraceError};
use crate::event::Event;
use crate::frame::{HEAD_BYTES, PREAMBLE_BYTES, TRAILER_BYTES, Tag, check_preamble, index_at};
use crate::index::{self, Entry};
use crate::process::{Header, Process};
use crate::source::Source;

/// An open trace.
///
/// If its end is missing or damaged it is read from its beginning as far as it is intact, and
/// [`damage`](Self::damage) returns what ended that. A block that is damaged elsewhere is found
/// when its [`Stream`] comes to it.
#[derive(Debug)]
pub struct Reader {
    source: Arc<Source>,
    header: Header,
    processes: Vec<Process>,
    blocks: Vec<Entry>,
    damage: Option<TraceError>,
}

impl Reader {
    /// Opens a trace in a file.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::from_source(Source::open(path)?)
    }

    /// Opens a trace in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, TraceError> {
        Self::from_source(Source::memory(bytes))
    }

    fn from_source(source: Source) -> Result<Self, TraceError> {
        let mut preamble = vec![0; PREAMBLE_BYTES.min(source.length() as usize)];
        source.read(0, &mut preamble)?;
        check_preamble(&preamble).map_err(|fault| source.error(0, fault))?;
        let (entries, damage) = match entries_by_index(&source) {
            Ok(entries) => (entries, None),
            Err(damage) => {
                let (entries, end) = entries_by_scan(&source);
                (entries, Some(end.unwrap_or(damage)))
            }
        };
        let header = header(&source, &entries)?;
        let processes = processes(&source, &entries)?;
        let blocks = entries.into_iter().filter(|entry| entry.tag == Tag::Events).collect();
        Ok(Self { source: Arc::new(source), header, processes, blocks, damage })
    }

    /// The description of the trace.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The processes, in the order in which they were first mentioned. A process with events and
    /// without a description is included with its number only.
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Why the trace is incomplete, if it is. What can be read ends at that offset.
    pub fn damage(&self) -> Option<&TraceError> {
        self.damage.as_ref()
    }

    /// The size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.source.length()
    }

    /// The number of fetches, loads and stores of a process.
    pub fn references(&self, process: u32) -> u64 {
        let blocks = self.blocks.iter().filter(|block| block.process == process);
        blocks.map(|block| u64::from(block.references)).sum()
    }

    /// The events of a process, from its beginning. Streams are independent: any number may be read
    /// at once, of the same process as well, also in several threads.
    pub fn stream(&self, process: u32) -> Result<Stream, TraceError> {
        if !self.processes.iter().any(|known| known.id == process) {
            return Err(self.source.nowhere(Fault::NoProcess(process)));
        }
        let blocks = self.blocks.iter().filter(|block| block.process == process);
        let blocks = blocks.copied().collect();
        Ok(Stream { source: Arc::clone(&self.source), blocks, next: 0 })
    }
}

/// The events of one process, and a position in them.
#[derive(Debug)]
pub struct Stream {
    source: Arc<Source>,
    blocks: Vec<Entry>,
    next: usize,
}

impl Stream {
    /// Replaces the contents of `out` by the next events, at most 65,536; false, and no events,
    /// after the last. After an error the next call goes on with the block behind the damaged one.
    pub fn next_block(&mut self, out: &mut Vec<Event>) -> Result<bool, TraceError> {
        out.clear();
        let Some(entry) = self.blocks.get(self.next) else { return Ok(false) };
        self.next += 1;
        let read = read_block(&self.source, entry, out);
        if read.is_err() {
            out.clear();
        }
        read.map(|()| true)
    }
}

fn read_block(source: &Source, entry: &Entry, out: &mut Vec<Event>) -> Result<(), TraceError> {
    let raw = payload(source, entry)?;
    let damaged = |_| source.error(entry.offset, Fault::Damaged("block of events"));
    encoding::decode(&raw, entry.events as usize, out).map_err(damaged)
}

/// The payload of a frame that must agree with the index.
fn payload(source: &Source, entry: &Entry) -> Result<Vec<u8>, TraceError> {
    let head = source.head(entry.offset, source.length())?;
    if Entry::new(entry.offset, &head) != *entry {
        return Err(source.error(entry.offset, Fault::Damaged("index, which disagrees here")));
    }
    source.payload(entry.offset, &head)
}

fn entries_by_index(source: &Source) -> Result<Vec<Entry>, TraceError> {
    let Some(end) = source.length().checked_sub(TRAILER_BYTES as u64) else {
        return Err(source.error(source.length(), Fault::Truncated("file")));
    };
    let mut trailer = [0; TRAILER_BYTES];
    source.read(end, &mut trailer)?;
    let Some(at) = index_at(&trailer) else {
        return Err(source.error(end, Fault::Damaged("end mark, or none")));
    };
    let head = source.head(at, end)?;
    let whole = at + HEAD_BYTES as u64 + u64::from(head.stored) == end;
    let damaged = || source.error(at, Fault::Damaged("index"));
    if head.tag != Tag::Index || !whole {
        return Err(damaged());
    }
    index::decode(&source.payload(at, &head)?).map_err(|_| damaged())
}

/// The frames from the beginning on, and why there are no more; no reason if they end with an
/// index.
fn entries_by_scan(source: &Source) -> (Vec<Entry>, Option<TraceError>) {
    let mut entries = Vec::new();
    let mut offset = PREAMBLE_BYTES as u64;
    loop {
        let head = match source.head(offset, source.length()) {
            Ok(head) => head,
            Err(why) => return (entries, Some(why)),
        };
        if head.tag == Tag::Index {
            return (entries, None);
        }
        entries.push(Entry::new(offset, &head));
        offset += HEAD_BYTES as u64 + u64::from(head.stored);
    }
}

fn header(source: &Source, entries: &[Entry]) -> Result<Header, TraceError> {
    let at = PREAMBLE_BYTES as u64;
    let Some(entry) = entries.first().filter(|entry| entry.tag == Tag::Header) else {
        return Err(source.error(at, Fault::Damaged("header, or none")));
    };
    let decoded = decode_header(&payload(source, entry)?);
    decoded.map_err(|_| source.error(entry.offset, Fault::Damaged("header")))
}

fn processes(source: &Source, entries: &[Entry]) -> Result<Vec<Process>, TraceError> {
    let mut processes: Vec<Process> = Vec::new();
    let mut known = HashSet::new();
    for entry in entries.iter().filter(|entry| entry.tag != Tag::Header) {
        if known.insert(entry.process) {
            processes.push(Process { id: entry.process, ..Process::default() });
        }
        if entry.tag == Tag::Process {
            let process = process(source, entry)?;
            let place = processes.iter_mut().find(|process| process.id == entry.process);
            *place.expect("it has just been made sure of") = process;
        }
    }
    Ok(processes)
}

fn process(source: &Source, entry: &Entry) -> Result<Process, TraceError> {
    match decode_process(&payload(source, entry)?) {
        Ok(process) if process.id == entry.process => Ok(process),
        _ => Err(source.error(entry.offset, Fault::Damaged("description of a process"))),
    }
}
