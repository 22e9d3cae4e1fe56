//! Conversion of the tool's files to one trace.

use crate::blocks::Expansion;
use crate::chunk::{Kind, Record};
use crate::error::RecordingError;
use crate::heap::Heap;
use crate::image::{End, Image, Stop, images};
use crate::names::{Names, Touched};
use crate::selection::{Keep, kept, left_out};
use crate::summary::{Recorded, Summary};
use memory_trace::{Event, Header, Object, Process, RegionKind, TraceError, Writer};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Which references of each process go into the trace.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Window {
    /// The number of references left out at the beginning.
    pub(crate) skip: u64,
    /// The maximum number of references; 0: all.
    pub(crate) references_max: u64,
}

/// What to put into a trace.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'p> {
    pub(crate) header: &'p Header,
    pub(crate) window: Window,
    pub(crate) keep: &'p [Keep],
}

/// Writes the trace of a recording into `folder`, unless it is interrupted.
pub(crate) fn convert(
    folder: &Path,
    out: &Path,
    plan: &Plan<'_>,
    is_interrupted: &mut dyn FnMut() -> bool,
) -> Result<Summary, RecordingError> {
    let begun_us = os::clock::now();
    let images = images(folder)?;
    let ids = numbers(&images);
    let kept = kept(&images, plan.keep)?;
    let mut writer = Writer::create(out, plan.header)?;
    let mut names = Names::default();
    let mut summary = Summary::default();
    for ((image, id), _) in images.iter().zip(&ids).zip(&kept).filter(|(_, kept)| **kept) {
        let mut conversion = Conversion::new(*id, image, plan.window);
        let mut expansion = image.expansion()?;
        let mut each = |record| conversion.record(record, &mut writer);
        for chunk in image.chunks() {
            if is_interrupted() {
                return Err(RecordingError::Interrupted);
            }
            let bytes = fs::read(&chunk).map_err(|why| format!("{}: {why}", chunk.display()))?;
            expansion.chunk(&bytes, &mut each)?;
        }
        expansion.rest(&mut each)?;
        conversion.has_read(&expansion);
        let mut process = describe(image, *id, &images, &ids);
        process.symbols = names.symbols(&process.regions, &conversion.touched);
        process.symbols.extend(conversion.heap.symbols(
            &image.sites,
            &process.regions,
            &conversion.touched,
            &mut names,
        ));
        process.symbols.sort_by_key(|symbol| (symbol.start, symbol.end));
        let there = |id: &u32| ids.iter().zip(&kept).any(|(other, kept)| other == id && *kept);
        process.parent = process.parent.filter(there);
        writer.process(&process)?;
        summary.processes.push(conversion.recorded);
    }
    summary.trace_bytes = writer.finish()?.bytes;
    summary.notes = messages(folder);
    summary.notes.extend(left_out(&images, &kept)?);
    summary.converting_us = os::clock::now() - begun_us;
    Ok(summary)
}

/// A number for each image. The last image of a process has the process's own number; earlier ones
/// have numbers that no process has.
fn numbers(images: &[Image]) -> Vec<u32> {
    const PID_LIMIT: u32 = 1 << 22; // the kernel's, on 64-bit machines
    let mut later: HashMap<u32, u32> = HashMap::new();
    let mut ids: Vec<u32> = images
        .iter()
        .rev()
        .map(|image| {
            let count = later.entry(image.pid).or_default();
            *count += 1;
            image.pid + (*count - 1) * PID_LIMIT
        })
        .collect();
    ids.reverse();
    ids
}

fn describe(image: &Image, id: u32, images: &[Image], ids: &[u32]) -> Process {
    let index = |stem: &String| images.iter().position(|other| other.stem == *stem);
    let by_number = || images.iter().rposition(|other| other.pid == image.parent_pid);
    let parent = image.parent_stem.as_ref().and_then(index).or_else(by_number);
    let parent = parent.map(|index| ids[index]);
    let mut regions = image.regions.list();
    // Inherited memory is one object for all children: their parent's memory. No file system has
    // the device 0.
    for region in regions.iter_mut().filter(|region| region.kind == RegionKind::CopyOnWrite) {
        let inherited = parent.map(|parent| Object {
            device: 0,
            inode: u64::from(parent),
            offset: region.start,
        });
        region.object = region.object.or(inherited);
    }
    Process { id, parent, command: image.command.clone(), regions, symbols: Vec::new() }
}

/// Messages of Valgrind itself.
fn messages(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|e| e == "messages"));
    let texts = files.filter_map(|path| fs::read_to_string(path).ok());
    let lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let mut lines: Vec<String> = lines.filter(|line| !line.trim().is_empty()).collect();
    let more = lines.len().saturating_sub(10);
    lines.truncate(10);
    let mut notes: Vec<String> = lines.iter().map(|line| format!("valgrind: {line}")).collect();
    notes.extend((more > 0).then(|| format!("valgrind: {more} more lines")));
    notes
}

/// The conversion of one image.
struct Conversion {
    recorded: Recorded,
    touched: Touched,
    heap: Heap,
    to_skip: u64,
    references_left: u64,
    /// The thread that ran when the first record that is kept was made.
    thread_before: Option<u32>,
}

impl Conversion {
    fn new(id: u32, image: &Image, window: Window) -> Self {
        let limit = if window.references_max == 0 { u64::MAX } else { window.references_max };
        let command = image.command.clone();
        Self {
            recorded: Recorded { id, command, lost: losses(image), ..Recorded::default() },
            touched: Touched::default(),
            heap: Heap::default(),
            to_skip: window.skip.saturating_sub(image.skipped),
            references_left: limit,
            thread_before: None,
        }
    }

    fn record<W: Write>(&mut self, record: Record, to: &mut Writer<W>) -> Result<(), TraceError> {
        if self.references_left == 0 {
            return Ok(());
        }
        self.heap.record(record);
        if self.to_skip > 0 {
            self.skip(record);
            return Ok(());
        }
        self.write(record, to)
    }

    fn has_read(&mut self, expansion: &Expansion) {
        self.recorded.raw_bytes = expansion.raw_bytes;
        if expansion.unknown > 0 {
            let lost = format!("{} unknown blocks of instructions", expansion.unknown);
            self.recorded.lost.push(lost);
        }
    }

    fn skip(&mut self, record: Record) {
        self.to_skip = self.to_skip.saturating_sub(record.references());
        if record.kind == Kind::Thread {
            self.thread_before = Some(record.value as u32);
        }
    }

    fn write<W: Write>(&mut self, record: Record, to: &mut Writer<W>) -> Result<(), TraceError> {
        let id = self.recorded.id;
        if let Some(thread) = self.thread_before.take() {
            to.event(id, &Event::SwitchThread { thread })?;
        }
        let (address, bytes) = (record.value, record.bytes);
        self.references_left = self.references_left.saturating_sub(record.references());
        if record.references() > 0 {
            self.touched.add(address);
        }
        match record.kind {
            Kind::Fetch => {
                self.recorded.fetches += 1;
                to.event(id, &Event::fetch(address, bytes))
            }
            Kind::Load => {
                self.recorded.loads += 1;
                to.event(id, &Event::load(address, bytes))
            }
            Kind::Store => {
                self.recorded.stores += 1;
                to.event(id, &Event::store(address, bytes))
            }
            Kind::Modify => {
                self.recorded.loads += 1;
                self.recorded.stores += 1;
                to.event(id, &Event::load(address, bytes))?;
                to.event(id, &Event::store(address, bytes))
            }
            Kind::SystemCall => {
                self.recorded.system_calls += 1;
                to.event(id, &Event::SystemCall { number: address as u32 })
            }
            Kind::Moved => {
                let moved = u32::try_from(record.value).unwrap_or(u32::MAX);
                to.event(id, &Event::Moved { number: u32::from(bytes), bytes: moved })
            }
            Kind::Synchronise => {
                self.recorded.synchronisations += 1;
                to.event(id, &Event::Synchronise { address })
            }
            Kind::Thread => to.event(id, &Event::SwitchThread { thread: address as u32 }),
            Kind::Nothing | Kind::Allocated | Kind::Bytes | Kind::Site | Kind::Freed => Ok(()),
        }
    }
}

/// Descriptions of what is missing from an image.
fn losses(image: &Image) -> Vec<String> {
    let mut lost = image.lost.clone();
    match image.stop {
        Some(Stop::Limit) => lost.push("what came after the limit was not recorded".to_owned()),
        Some(Stop::Error(number)) => {
            let why = u64::try_from(number).ok().and_then(os::errors::from_number);
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            lost.push(format!("recording stopped early: no room for more records{why}"));
        }
        None if image.end == End::Killed => {
            lost.push("it was killed; what it did up to then is recorded".to_owned());
        }
        None => {}
    }
    lost.extend(image.unrecorded.as_ref().map(|what| format!("not recorded: it executed {what}")));
    lost
}
