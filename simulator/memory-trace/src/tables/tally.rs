//! The memory that one process touches, at its virtual addresses.

use std::collections::HashMap;

use super::{Counts, PAGE_BYTES};
use crate::calls::SystemCalls;
use crate::error::TraceError;
use crate::event::{Access, AccessKind, Event};
use crate::process::{Process, Region, RegionKind};
use crate::reader::Reader;

/// A block of a page.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Touched {
    touched: bool,
    /// The first thread that refers to the block's data.
    pub(super) first_thread: Option<u32>,
    pub(super) several_threads: bool,
    /// References to data that begin here.
    pub(super) loads: u64,
    pub(super) stores: u64,
    /// Whether the block is written, also by a reference that begins before it.
    pub(super) written: bool,
}

/// A page and its touched blocks.
#[derive(Debug)]
pub(super) struct Page {
    /// The page's virtual address.
    pub(super) address: u64,
    /// Whether the process has a copy of its own, because it wrote to it.
    pub(super) own: bool,
    pub(super) blocks: Vec<(u16, Touched)>,
}

/// All memory that a process touches.
#[derive(Debug)]
pub(super) struct Tally {
    /// The counts, except those of blocks.
    pub(super) counts: Counts,
    pub(super) calls: SystemCalls,
    /// The pages, in an arbitrary order. A common page that the process writes to is here twice:
    /// before and after the write.
    pub(super) pages: Vec<Page>,
}

impl Tally {
    pub(super) fn count(
        reader: &Reader,
        process: &Process,
        block_bytes: u64,
    ) -> Result<Self, TraceError> {
        let mut counting = Counting::new(process, block_bytes);
        let mut stream = reader.stream(process.id)?;
        let mut events = Vec::new();
        while stream.next_block(&mut events)? {
            for event in &events {
                counting.event(event);
            }
        }
        Ok(counting.finish())
    }
}

/// Regions in the order of their addresses.
pub(super) fn sorted(process: &Process) -> Vec<&Region> {
    let mut regions: Vec<&Region> = process.regions.iter().collect();
    regions.sort_by_key(|region| region.start);
    regions
}

/// The region that contains an address.
pub(super) fn region_of<'r>(sorted: &[&'r Region], address: u64) -> Option<&'r Region> {
    let behind = sorted.partition_point(|region| region.start <= address);
    let region = *sorted.get(behind.checked_sub(1)?)?;
    (address < region.end).then_some(region)
}

/// A page while it is counted: all its blocks.
struct Open {
    address: u64,
    copied_when_written: bool,
    own: bool,
    blocks: Box<[Touched]>,
}

struct Counting<'p> {
    regions: Vec<&'p Region>,
    block_bytes: u64,
    counts: Counts,
    calls: SystemCalls,
    thread: u32,
    pages: Vec<Open>,
    /// The current index of the page of an address.
    places: HashMap<u64, usize>,
    /// The last index for fetches, loads and stores: mostly the next one, too.
    last: [Option<usize>; 3],
}

impl<'p> Counting<'p> {
    fn new(process: &'p Process, block_bytes: u64) -> Self {
        Self {
            regions: sorted(process),
            block_bytes,
            counts: Counts::default(),
            calls: SystemCalls::default(),
            thread: 0,
            pages: Vec::new(),
            places: HashMap::new(),
            last: [None; 3],
        }
    }

    fn event(&mut self, event: &Event) {
        match *event {
            Event::Access(access) => self.access(access),
            Event::SystemCall { .. } => {
                self.counts.system_calls += 1;
                self.calls.event(event);
            }
            Event::Moved { .. } => self.calls.event(event),
            Event::Synchronise { .. } => self.counts.synchronisations += 1,
            Event::SwitchThread { thread } => self.thread = thread,
        }
    }

    fn access(&mut self, access: Access) {
        match access.kind {
            AccessKind::Fetch => self.counts.fetches += 1,
            AccessKind::Load => self.counts.loads += 1,
            AccessKind::Store => self.counts.stores += 1,
        }
        let mask = !(self.block_bytes - 1);
        let first = access.address & mask;
        let length = u64::from(access.bytes.max(1)) - 1;
        let last = access.address.wrapping_add(length) & mask;
        self.touch(access.kind, first, true);
        let mut block = first;
        while block != last {
            block = block.wrapping_add(self.block_bytes);
            self.touch(access.kind, block, false);
        }
    }

    fn touch(&mut self, kind: AccessKind, block: u64, begins: bool) {
        let place = self.place(kind, block & !(PAGE_BYTES - 1));
        let at = (block & (PAGE_BYTES - 1)) / self.block_bytes;
        let touched = &mut self.pages[place].blocks[at as usize];
        touched.touched = true;
        match kind {
            AccessKind::Fetch => return,
            AccessKind::Load => touched.loads += u64::from(begins),
            AccessKind::Store => {
                touched.stores += u64::from(begins);
                touched.written = true;
            }
        }
        touched.several_threads |= *touched.first_thread.get_or_insert(self.thread) != self.thread;
    }

    /// The index of the page of an address, as this reference finds it.
    fn place(&mut self, kind: AccessKind, address: u64) -> usize {
        let last = self.last[kind as usize];
        let same = last.filter(|place| self.pages[*place].address == address);
        let mut place = same.unwrap_or_else(|| self.find_page(address));
        let page = &self.pages[place];
        if kind == AccessKind::Store && page.copied_when_written && !page.own {
            place = self.open(address, true);
            // The other kinds of references may not continue with the page from which the copy was
            // made.
            self.last = [None; 3];
        }
        self.last[kind as usize] = Some(place);
        place
    }

    fn find_page(&mut self, address: u64) -> usize {
        match self.places.get(&address) {
            Some(place) => *place,
            None => self.open(address, false),
        }
    }

    fn open(&mut self, address: u64, own: bool) -> usize {
        let region = region_of(&self.regions, address);
        let copied_when_written = region.is_some_and(|r| r.kind == RegionKind::CopyOnWrite);
        let blocks = vec![Touched::default(); (PAGE_BYTES / self.block_bytes) as usize];
        let blocks = blocks.into_boxed_slice();
        let place = self.pages.len();
        self.pages.push(Open { address, copied_when_written, own, blocks });
        self.places.insert(address, place);
        place
    }

    fn finish(self) -> Tally {
        let pages = self.pages.iter().map(|page| {
            let touched = page.blocks.iter().enumerate().filter(|(_, block)| block.touched);
            let blocks = touched.map(|(at, block)| (at as u16, *block)).collect();
            Page { address: page.address, own: page.own, blocks }
        });
        Tally { counts: self.counts, calls: self.calls, pages: pages.collect() }
    }
}
