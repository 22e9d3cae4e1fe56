//! Synthetic traces for tests and benchmarks: seeded, and the same on every machine.
//!
//! The processes run one program: loops of functions, with stack, heap, copied and shared data.
//! They are plausible in their proportions and nothing more; figures of a paper cannot be
//! reproduced with them.

use std::io::Write;

use statistics::Generator;

use crate::error::TraceError;
use crate::event::Event;
use crate::process::{Header, Object, Process, Region, RegionKind, Symbol};
use crate::writer::{Writer, Written};

const TEXT: u64 = 0x40_0000;
const FUNCTIONS: u64 = 64;
const FUNCTION_BYTES: u64 = 0x400;
const DATA: u64 = 0x60_0000;
const DATA_BYTES: u64 = 0x4000;
const HEAP: u64 = 0x100_0000;
const HEAP_BYTES: u64 = 0x4_0000;
const SHARED: u64 = 0x7f00_0000_0000;
const SHARED_BYTES: u64 = 0x1_0000;
const STACK: u64 = 0x7fff_0000_0000;
const STACK_BYTES: u64 = 0x1_0000;

/// The parameters of a made-up trace. The same values make the same trace.
///
/// ```
/// use memory_trace::{Reader, Synthetic};
/// let trace = Synthetic { processes: 3, events: 1000, ..Synthetic::default() };
/// let reader = Reader::from_bytes(trace.bytes())?;
/// assert_eq!(reader.processes().len(), 3);
/// # Ok::<(), memory_trace::TraceError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synthetic {
    /// The seed: another seed makes another trace of the same kind.
    pub seed: u64,
    /// The number of processes; they are numbered from 1, and the first is the parent of the
    /// others.
    pub processes: u32,
    /// The number of threads of each process, numbered from 0; they take turns.
    pub threads: u32,
    /// The number of events of each process.
    pub events: u64,
    /// The percentage of references to data that go to the shared region.
    pub shared_percent: u32,
}

impl Default for Synthetic {
    /// Two processes of one thread, small.
    fn default() -> Self {
        Self { seed: 1, processes: 2, threads: 1, events: 10_000, shared_percent: 10 }
    }
}

impl Synthetic {
    /// The description of the trace.
    pub fn header(&self) -> Header {
        Header {
            recorder: "synthetic 1".into(),
            command: "synthetic".into(),
            notes: vec![("seed".into(), self.seed.to_string())],
        }
    }

    /// The processes, without their events.
    pub fn processes(&self) -> Vec<Process> {
        (1..=self.processes).map(process).collect()
    }

    /// The events of a process.
    pub fn events(&self, process: u32) -> impl Iterator<Item = Event> + use<> {
        let mut run = Run::new(*self, process);
        (0..self.events).map(move |_| run.next())
    }

    /// Writes the trace; the events of the processes take turns.
    pub fn write<W: Write>(&self, sink: W) -> Result<Written, TraceError> {
        let mut writer = Writer::new(sink, &self.header())?;
        for process in self.processes() {
            writer.process(&process)?;
        }
        let mut runs: Vec<Run> = (1..=self.processes).map(|id| Run::new(*self, id)).collect();
        for _ in 0..self.events {
            for run in &mut runs {
                writer.event(run.process, &run.next())?;
            }
        }
        writer.finish()
    }

    /// The trace as the bytes of a file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes).expect("memory takes all bytes, and the descriptions are small");
        bytes
    }
}

fn process(id: u32) -> Process {
    Process {
        id,
        parent: (id > 1).then_some(1),
        command: "synthetic --worker".into(),
        regions: vec![
            region(TEXT, FUNCTIONS * FUNCTION_BYTES, RegionKind::File, "/synthetic", Some(1)),
            region(DATA, DATA_BYTES, RegionKind::CopyOnWrite, "/synthetic", Some(2)),
            region(HEAP, HEAP_BYTES, RegionKind::Private, "[heap]", None),
            region(SHARED, SHARED_BYTES, RegionKind::Shared, "/dev/zero", Some(3)),
            region(STACK, STACK_BYTES, RegionKind::Private, "[stack]", None),
        ],
        symbols: (0..FUNCTIONS).map(symbol).collect(),
    }
}

fn region(start: u64, bytes: u64, kind: RegionKind, name: &str, inode: Option<u64>) -> Region {
    let object = inode.map(|inode| Object { device: 1, inode, offset: 0 });
    Region { start, end: start + bytes, kind, name: name.into(), object }
}

fn symbol(function: u64) -> Symbol {
    let start = TEXT + function * FUNCTION_BYTES;
    Symbol {
        start,
        end: start + FUNCTION_BYTES,
        function: format!("function_{function}"),
        file: Some("synthetic.c".into()),
        line: Some(function as u32 * 10 + 1),
    }
}

/// A process being generated.
#[derive(Debug)]
struct Run {
    process: u32,
    shape: Synthetic,
    random: Generator,
    /// The address of the next instruction, and of the end of its function.
    next: u64,
    end: u64,
    /// References to data that the last instruction still has to make.
    data: u32,
    stack: u64,
}

impl Run {
    fn new(shape: Synthetic, process: u32) -> Self {
        let random = Generator::new(shape.seed ^ (u64::from(process) << 32));
        let stack = STACK + STACK_BYTES / 2;
        Self { process, shape, random, next: TEXT, end: TEXT + 0x40, data: 0, stack }
    }

    fn next(&mut self) -> Event {
        if self.data > 0 {
            self.data -= 1;
            return self.reference();
        }
        match self.random.below(10_000) {
            0..3 => Event::SystemCall { number: self.below(300) as u32 },
            3..6 => Event::Synchronise { address: SHARED + self.below(8) * 64 },
            6..9 if self.shape.threads > 1 => {
                Event::SwitchThread { thread: self.below(u64::from(self.shape.threads)) as u32 }
            }
            _ => self.fetch(),
        }
    }

    /// Fetches the next instruction. Its length is computed from its address, so that it never
    /// changes.
    fn fetch(&mut self) -> Event {
        if self.next >= self.end {
            self.jump();
        }
        let address = self.next;
        let bytes = 1 + (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61);
        self.next += bytes;
        self.data = u32::from(self.below(100) < 38);
        Event::fetch(address, bytes as u16)
    }

    /// Jumps to the beginning of a function; the first functions are called most. A part of it is
    /// run.
    fn jump(&mut self) {
        let function = self.below(FUNCTIONS).min(self.below(FUNCTIONS));
        self.next = TEXT + function * FUNCTION_BYTES;
        self.end = self.next + 16 + self.below(FUNCTION_BYTES - 32);
        let room = STACK_BYTES / 2 - 64;
        self.stack = STACK + 64 + (self.below(16) * 48).min(room);
    }

    fn reference(&mut self) -> Event {
        let place = self.below(100) as u32;
        let address = if place < self.shape.shared_percent {
            SHARED + self.below(SHARED_BYTES / 8) * 8
        } else if place.is_multiple_of(2) {
            self.stack + self.below(6) * 8
        } else if place % 8 == 1 {
            DATA + self.below(DATA_BYTES / 8) * 8
        } else {
            HEAP + self.below(64).min(self.below(HEAP_BYTES / 64)) * 64 + self.below(8) * 8
        };
        if self.below(100) < 32 { Event::store(address, 8) } else { Event::load(address, 8) }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound as usize) as u64
    }
}
