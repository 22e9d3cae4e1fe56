//! The workload of a simulation: the tasks of a trace, each a sequence of records, and the frames
//! of physical memory that they touch.
//!
//! A workload is made once from a trace and read by any number of simulations. Pages become frames
//! here: the pages of one object at one offset are one frame for all processes, and a page that is
//! copied when it is written becomes another frame at its first write, which depends on no
//! schedule. A frame is **private** if only one task touches it and it belongs neither to a shared
//! mapping nor to a file.

use std::collections::HashMap;

use memory_trace::{Access, AccessKind, Event, Process, Reader, Region, RegionKind, SystemCalls};

use crate::error::WorkloadError;
use crate::record::{
    COUNT_MAX, FRAMES_MAX, GRANULE_BYTES, Kind, Marker, PAGE_BYTES, Record, WORD_BYTES,
};

/// Tasks and frames.
#[derive(Debug)]
pub struct Workload {
    pub(crate) tasks: Vec<Task>,
    /// The frames by number; the first belongs to no task.
    pub(crate) frames: Vec<Frame>,
    /// The processes, each with its symbols in the order of addresses.
    pub(crate) processes: Vec<Process>,
    calls: SystemCalls,
}

/// A process, or a thread of one that has several.
#[derive(Debug)]
pub(crate) struct Task {
    /// The records; the last is [`Marker::End`].
    pub(crate) records: Vec<Record>,
}

/// A page of physical memory, named by the first address that led to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) process: u32,
    pub(crate) address: u64,
    task: u32,
    shared: bool,
}

impl Workload {
    /// Makes a workload of a whole trace. `progress` is called with the number of references read
    /// so far.
    ///
    /// # Errors
    /// The trace is damaged, or cannot be simulated.
    pub fn from_trace(
        reader: &Reader,
        mut progress: impl FnMut(u64),
    ) -> Result<Self, WorkloadError> {
        let mut builder = Builder::new();
        let parents = reader.processes().iter().filter_map(|one| Some((one.id, one.parent?)));
        builder.parents.extend(parents);
        let mut events = Vec::new();
        let mut read = 0;
        for process in reader.processes() {
            builder.process(process);
            let mut stream = reader.stream(process.id)?;
            while stream.next_block(&mut events)? {
                builder.events(&events)?;
                read += events.len() as u64;
                progress(read);
            }
        }
        builder.finish()
    }

    /// The number of tasks.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The traced system calls, and the bytes that they moved.
    pub fn system_calls(&self) -> &SystemCalls {
        &self.calls
    }

    /// The number of pages of physical memory that are touched.
    pub fn pages(&self) -> usize {
        self.frames.len() - 1
    }

    /// References of all tasks.
    pub fn references(&self) -> u64 {
        self.tasks.iter().map(Task::references).sum()
    }
}

impl Task {
    fn references(&self) -> u64 {
        let references = self.records.iter().filter(|record| record.kind().is_some());
        references.map(|record| record.count()).sum()
    }
}

/// Makes a workload: [`process`](Self::process), then its [`events`](Self::events), the next
/// process, and [`finish`](Self::finish).
#[derive(Debug, Default)]
pub struct Builder {
    workload: Option<Workload>,
    calls: SystemCalls,
    by_page: HashMap<Page, u32>,
    parents: HashMap<u32, u32>,
    space: Space,
}

/// The identity of a page: pages that are equal by this are one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Page {
    Anonymous { process: u32, number: u64 },
    Shared { root: u32, number: u64 },
    Object { device: u64, inode: u64, number: u64 },
}

/// The address space of the process whose events are added.
#[derive(Debug, Default)]
struct Space {
    /// The process's index in `processes`.
    process: u32,
    /// The regions, in the order of their addresses.
    regions: Vec<Region>,
    pages: HashMap<u64, Mapping>,
    /// The mappings used last, by the page's lowest bits: most accesses find theirs here.
    recent: Vec<(u64, Mapping)>,
    /// The task of each thread.
    threads: HashMap<u32, u32>,
    task: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mapping {
    frame: u32,
    /// Whether a write makes another frame.
    copied_on_write: bool,
}

const RECENT: usize = 256;
const NO_TASK: u32 = u32::MAX;

impl Builder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a process, whose events come next.
    pub fn process(&mut self, process: &Process) {
        let workload = self.workload.get_or_insert_with(empty);
        let number = workload.processes.len() as u32;
        let mut ordered = process.clone();
        ordered.symbols.sort_by_key(|symbol| (symbol.start, symbol.end));
        workload.processes.push(ordered);
        if let Some(parent) = process.parent {
            self.parents.insert(process.id, parent);
        }
        let mut regions = process.regions.clone();
        regions.sort_by_key(|region| region.start);
        self.space = Space {
            process: number,
            regions,
            recent: vec![(u64::MAX, Mapping::default()); RECENT],
            ..Space::default()
        };
        self.switch_thread(0);
    }

    /// Adds the next events of the process.
    ///
    /// # Errors
    /// The process touches more memory than can be simulated.
    pub fn events(&mut self, events: &[Event]) -> Result<(), WorkloadError> {
        for event in events {
            match *event {
                Event::Access(access) => self.access(access)?,
                Event::SystemCall { number } => {
                    self.calls.event(event);
                    self.push(Record::marker(Marker::SystemCall(number)));
                }
                Event::Moved { number, bytes } => {
                    self.calls.event(event);
                    self.moved(number, bytes);
                }
                Event::Synchronise { address } => self.synchronise(address)?,
                Event::SwitchThread { thread } => self.switch_thread(thread),
            }
        }
        Ok(())
    }

    /// Finishes the workload.
    ///
    /// # Errors
    /// There are no references.
    pub fn finish(self) -> Result<Workload, WorkloadError> {
        let mut workload = self.workload.unwrap_or_else(empty);
        workload.calls = self.calls;
        let frames = &workload.frames;
        for task in &mut workload.tasks {
            task.records.push(Record::marker(Marker::End));
            for record in task.records.iter_mut().filter(|record| record.kind().is_some()) {
                *record = record.with_private(!frames[record.frame() as usize].shared);
            }
        }
        workload.tasks.retain(|task| task.records.len() > 1);
        if workload.tasks.is_empty() {
            return Err(WorkloadError::NoReferences);
        }
        Ok(workload)
    }

    fn switch_thread(&mut self, thread: u32) {
        let workload = self.workload.get_or_insert_with(empty);
        self.space.task = *self.space.threads.entry(thread).or_insert_with(|| {
            workload.tasks.push(Task { records: Vec::new() });
            workload.tasks.len() as u32 - 1
        });
    }

    fn push(&mut self, record: Record) {
        let workload = self.workload.get_or_insert_with(empty);
        workload.tasks[self.space.task as usize].records.push(record);
    }

    /// Records the end of the task's last call, if that call is in the trace.
    fn moved(&mut self, number: u32, bytes: u32) {
        let workload = self.workload.get_or_insert_with(empty);
        let last = workload.tasks[self.space.task as usize].records.last_mut();
        let call = |record: &&mut Record| {
            record.kind().is_none() && record.as_marker() == Marker::SystemCall(number)
        };
        if let Some(record) = last.filter(call) {
            *record = record.with_moved(bytes);
        }
    }

    /// Records the use of a lock. Locks are distinguished by the memory that they lie in, which
    /// processes may share.
    fn synchronise(&mut self, address: u64) -> Result<(), WorkloadError> {
        let frame = u64::from(self.frame(address, false)?);
        let lock = frame * (PAGE_BYTES / WORD_BYTES) + address % PAGE_BYTES / WORD_BYTES;
        self.push(Record::marker(Marker::Synchronise(lock)));
        Ok(())
    }

    /// Splits an access at the ends of granules; only its first part takes time.
    fn access(&mut self, access: Access) -> Result<(), WorkloadError> {
        let kind = match access.kind {
            AccessKind::Fetch => Kind::Fetch,
            AccessKind::Load => Kind::Load,
            AccessKind::Store => Kind::Store,
        };
        let mut address = access.address;
        let mut left = u64::from(access.bytes.max(1));
        let mut count = 1;
        while left > 0 {
            let bytes = left.min(GRANULE_BYTES - address % GRANULE_BYTES);
            let frame = self.frame(address, kind == Kind::Store)?;
            self.reference(Record::new(
                kind,
                frame,
                (address % PAGE_BYTES) as u16,
                bytes as u16,
                count,
            ));
            count = 0;
            left -= bytes;
            address = address.wrapping_add(bytes);
        }
        Ok(())
    }

    /// Adds a record, merging it with the one before if both are fetches from one granule.
    fn reference(&mut self, record: Record) {
        let workload = self.workload.get_or_insert_with(empty);
        let records = &mut workload.tasks[self.space.task as usize].records;
        if let Some(last) = records.last_mut()
            && last.kind() == Some(Kind::Fetch)
            && record.kind() == Some(Kind::Fetch)
            && last.frame() == record.frame()
            && last.offset() / GRANULE_BYTES == record.offset() / GRANULE_BYTES
            && last.count() + record.count() <= COUNT_MAX
        {
            *last = last.with_count(last.count() + record.count());
            return;
        }
        records.push(record);
    }

    /// The frame of an address; the touching task is recorded.
    fn frame(&mut self, address: u64, write: bool) -> Result<u32, WorkloadError> {
        let number = address / PAGE_BYTES;
        let at = number as usize % RECENT;
        let (recent, mut mapping) = self.space.recent[at];
        if recent != number || (write && mapping.copied_on_write) {
            mapping = self.map(number, write)?;
            self.space.recent[at] = (number, mapping);
        }
        let workload = self.workload.get_or_insert_with(empty);
        let frame = &mut workload.frames[mapping.frame as usize];
        if frame.task != self.space.task {
            frame.shared |= frame.task != NO_TASK;
            frame.task = self.space.task;
        }
        Ok(mapping.frame)
    }

    fn map(&mut self, number: u64, write: bool) -> Result<Mapping, WorkloadError> {
        let known = self.space.pages.get(&number).copied();
        if let Some(mapping) = known
            && !(write && mapping.copied_on_write)
        {
            return Ok(mapping);
        }
        let address = number * PAGE_BYTES;
        let (page, shared, copied_on_write) = self.page(address, write);
        let frame = match self.by_page.get(&page) {
            Some(frame) => *frame,
            None => self.new_frame(page, address, shared)?,
        };
        let mapping = Mapping { frame, copied_on_write };
        self.space.pages.insert(number, mapping);
        Ok(mapping)
    }

    fn new_frame(&mut self, page: Page, address: u64, shared: bool) -> Result<u32, WorkloadError> {
        let workload = self.workload.get_or_insert_with(empty);
        let frame = workload.frames.len();
        if frame as u64 >= FRAMES_MAX {
            return Err(WorkloadError::TooMuchMemory(FRAMES_MAX * PAGE_BYTES));
        }
        let process = self.space.process;
        workload.frames.push(Frame { process, address, task: NO_TASK, shared });
        self.by_page.insert(page, frame as u32);
        Ok(frame as u32)
    }

    /// The identity of an address's page, whether other tasks may have it, and whether a write
    /// copies it.
    fn page(&self, address: u64, write: bool) -> (Page, bool, bool) {
        let id = self.process_id();
        let number = address / PAGE_BYTES;
        let own = Page::Anonymous { process: id, number };
        let Some(region) = self.region(address) else { return (own, false, false) };
        let root = self.root(id);
        match region.kind {
            RegionKind::Private => (own, false, false),
            RegionKind::Shared => {
                (object(region, address).unwrap_or(Page::Shared { root, number }), true, false)
            }
            RegionKind::File | RegionKind::CopyOnWrite if write => (own, false, false),
            RegionKind::File => (object(region, address).unwrap_or(own), true, true),
            RegionKind::CopyOnWrite => match object(region, address) {
                Some(page) => (page, true, true),
                // Memory inherited by fork: the page of the first process of the family.
                None => (Page::Anonymous { process: root, number }, false, root != id),
            },
        }
    }

    fn process_id(&self) -> u32 {
        let process = self.space.process as usize;
        self.workload.as_ref().and_then(|all| all.processes.get(process)).map_or(0, |one| one.id)
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let after = self.space.regions.partition_point(|region| region.start <= address);
        self.space.regions[..after].last().filter(|region| address < region.end)
    }

    /// The first process of the family, as far as it is in the trace.
    fn root(&self, mut process: u32) -> u32 {
        // A family of processes is a tree; a damaged one may not be, and must end here as well.
        for _ in 0..self.parents.len() {
            match self.parents.get(&process) {
                Some(parent) => process = *parent,
                None => break,
            }
        }
        process
    }
}

fn empty() -> Workload {
    let unused = Frame { process: NO_TASK, address: 0, task: NO_TASK, shared: false };
    Workload {
        tasks: Vec::new(),
        frames: vec![unused],
        processes: Vec::new(),
        calls: SystemCalls::default(),
    }
}

fn object(region: &Region, address: u64) -> Option<Page> {
    let object = region.object?;
    let number = object.offset.wrapping_add(address - region.start.min(address)) / PAGE_BYTES;
    Some(Page::Object { device: object.device, inode: object.inode, number })
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_trace::Object;

    fn process(id: u32, kind: RegionKind, object: bool) -> Process {
        let object = object.then_some(Object { device: 1, inode: 2, offset: 0 });
        let region = Region { start: 0x1000, end: 0x9000, kind, name: String::new(), object };
        let parent = (id > 1).then_some(1);
        Process { id, parent, regions: vec![region], ..Process::default() }
    }

    fn two(kind: RegionKind, object: bool, events: [&[Event]; 2]) -> Workload {
        let mut builder = Builder::new();
        for (id, events) in (1..).zip(events) {
            builder.process(&process(id, kind, object));
            builder.events(events).expect("little memory");
        }
        builder.finish().expect("has references")
    }

    fn frames(workload: &Workload, task: usize) -> Vec<(u32, bool)> {
        let records = workload.tasks[task].records.iter().filter(|record| record.kind().is_some());
        records.map(|record| (record.frame(), record.is_private())).collect()
    }

    #[test]
    fn moved_bytes_are_recorded_with_the_call_of_their_own_task() {
        let (switch, moved) = (
            |thread| Event::SwitchThread { thread },
            |number, bytes| Event::Moved { number, bytes },
        );
        let call = |number| Event::SystemCall { number };
        let did = [
            Event::load(0x1000, 8),
            call(0),
            switch(2),
            call(1),
            moved(1, 16),
            switch(0),
            moved(0, 4096),
            Event::load(0x1000, 8),
            moved(0, 8), // Of a call before the trace begins.
        ];
        let workload = two(RegionKind::Private, false, [&did, &[Event::load(0x1000, 8)]]);
        let told = |task: usize| -> Vec<u64> {
            let records = workload.tasks[task].records.iter();
            let calls = records.filter(|one| {
                one.kind().is_none() && matches!(one.as_marker(), Marker::SystemCall(_))
            });
            calls.map(|one| one.moved()).collect()
        };
        assert_eq!((told(0), told(1)), (vec![4096], vec![16]));
        let sum = workload.system_calls().sum();
        assert_eq!((sum.count, sum.with_bytes, sum.bytes), (2, 3, 4120));
    }

    #[test]
    fn pages_are_one_frame_or_several_by_their_kind() {
        let events = [&[Event::load(0x1008, 8)][..], &[Event::load(0x1010, 8)]];
        let cases = [
            (RegionKind::Private, false, false, true),
            (RegionKind::Shared, false, true, false),
            (RegionKind::Shared, true, true, false),
            (RegionKind::File, true, true, false),
            (RegionKind::CopyOnWrite, true, true, false),
            (RegionKind::CopyOnWrite, false, true, false),
        ];
        for (kind, object, same, private) in cases {
            let workload = two(kind, object, events);
            let (one, other) = (frames(&workload, 0)[0], frames(&workload, 1)[0]);
            assert_eq!(one.0 == other.0, same, "{kind:?}");
            assert_eq!((one.1, other.1), (private, private), "{kind:?}");
        }
    }

    #[test]
    fn a_write_copies_once() {
        let load = Event::load(0x1008, 8);
        let store = Event::store(0x1010, 8);
        let workload = two(RegionKind::CopyOnWrite, true, [&[load], &[load, store, load, store]]);
        let second = frames(&workload, 1);
        assert_eq!(second[0], frames(&workload, 0)[0]);
        assert_ne!(second[0].0, second[1].0);
        assert_eq!(second[1..], [(second[1].0, true); 3]);
    }

    #[test]
    fn a_page_that_two_threads_touch_is_shared() {
        let switch = Event::SwitchThread { thread: 1 };
        let events =
            [Event::load(0x1000, 4), Event::load(0x2000, 4), switch, Event::load(0x1000, 4)];
        let workload = two(RegionKind::Private, false, [&events, &[]]);
        assert_eq!(workload.tasks(), 2);
        let private = |task| frames(&workload, task).iter().map(|one| one.1).collect::<Vec<_>>();
        assert_eq!((private(0), private(1)), (vec![false, true], vec![false]));
    }

    #[test]
    fn fetches_of_a_granule_are_one_record_and_what_straddles_takes_no_more_time() {
        let fetches = [0x1000, 0x1004, 0x101e].map(|address| Event::fetch(address, 4));
        let workload = two(RegionKind::Private, false, [&fetches, &[Event::load(0x1ffc, 8)]]);
        let counts = |task: usize| {
            let records = workload.tasks[task].records.iter();
            records.filter(|record| record.kind().is_some()).map(|one| one.count()).collect()
        };
        assert_eq!((counts(0), counts(1)), (vec![3, 0], vec![1, 0]));
        assert_eq!(workload.references(), 4);
        assert_eq!(workload.pages(), 3);
    }

    #[test]
    fn a_trace_of_nothing_is_an_error() {
        assert!(matches!(Builder::new().finish(), Err(WorkloadError::NoReferences)));
    }
}
