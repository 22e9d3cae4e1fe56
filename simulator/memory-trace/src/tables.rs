//! Tables 1 to 3 of Foglia, Giorgi and Prete (2001) for a trace: how many blocks it touches, how
//! much of it is code, data and writes, and how much of that is shared.
//!
//! Blocks are physical, as far as regions tell: memory that processes share counts once. A block is
//! shared if data references of more than one process, or thread, reach it; text that several
//! processes run is not shared data. A reference that straddles blocks touches them all and counts
//! once, in the first. Caches, time, and the kernel's references are not considered.

mod placement;
mod tally;

use std::collections::{BTreeMap, HashMap};

use crate::calls::SystemCalls;
use crate::error::TraceError;
use crate::process::Process;
use crate::reader::Reader;

use placement::{Placement, Space};
use tally::{Tally, Touched};

/// The unit of physical memory in bytes: blocks are not larger.
pub const PAGE_BYTES: u64 = 4096;

/// Counts of some processes. Percentages are of all their references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Blocks that are touched.
    pub blocks: u64,
    /// Instructions fetched.
    pub fetches: u64,
    /// Reads of data.
    pub loads: u64,
    /// Writes of data.
    pub stores: u64,
    /// Blocks that data references of several processes or threads reach.
    pub shared_blocks: u64,
    /// Shared blocks that are written.
    pub shared_written_blocks: u64,
    /// Reads of shared blocks.
    pub shared_loads: u64,
    /// Writes of shared blocks.
    pub shared_stores: u64,
    /// System calls.
    pub system_calls: u64,
    /// Uses of locks.
    pub synchronisations: u64,
}

impl Counts {
    /// Fetches, loads and stores.
    pub fn references(&self) -> u64 {
        self.fetches + self.loads + self.stores
    }

    /// This many references, as a percentage of all; 0 if there are none.
    pub fn percent(&self, part: u64) -> f64 {
        100.0 * part as f64 / self.references().max(1) as f64
    }

    /// Adds the counts that can be added; blocks cannot.
    fn add(&mut self, other: &Self) {
        self.fetches += other.fetches;
        self.loads += other.loads;
        self.stores += other.stores;
        self.system_calls += other.system_calls;
        self.synchronisations += other.synchronisations;
    }
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The process, if the line is about one.
    pub process: Option<u32>,
    /// The command of a process, or the name of a program.
    pub name: String,
    /// The number of processes counted.
    pub processes: u64,
    /// The counts.
    pub counts: Counts,
}

/// All tables of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// The size of a block in bytes.
    pub block_bytes: u64,
    /// One line for each process; shared means shared with any process of the trace.
    pub processes: Vec<Row>,
    /// One line for each program, by name; shared means shared by its own processes or threads.
    pub programs: Vec<Row>,
    /// The whole trace.
    pub all: Row,
    /// System calls of the whole trace.
    pub calls: SystemCalls,
}

/// Reads the whole trace and counts. `block_bytes` is a power of two from 4 to 4096.
///
/// # Panics
///
/// If `block_bytes` is not such a power.
pub fn tables(reader: &Reader, block_bytes: u64) -> Result<Tables, TraceError> {
    let allowed = block_bytes.is_power_of_two() && (4..=PAGE_BYTES).contains(&block_bytes);
    assert!(allowed, "a block has a power of two of bytes, from 4 to {PAGE_BYTES}");
    let processes = reader.processes();
    let mut tallies = Vec::new();
    for process in processes {
        tallies.push(Tally::count(reader, process, block_bytes)?);
    }
    let placement = Placement::new(processes, &tallies);
    Ok(Tables {
        block_bytes,
        processes: process_rows(processes, &tallies, &placement),
        programs: program_rows(processes, &tallies, &placement),
        calls: calls(&tallies),
        all: group("all", processes.iter().zip(&tallies), &placement),
    })
}

/// The program that a command runs: its first word without directories. A colon after it is
/// removed; servers that show what they do in their title have one.
pub fn program(command: &str) -> &str {
    let first = command.split_whitespace().next().unwrap_or("(unknown)");
    let name = first.rsplit('/').next().unwrap_or(first).trim_end_matches(':');
    if name.is_empty() { first } else { name }
}

fn calls(tallies: &[Tally]) -> SystemCalls {
    let mut all = SystemCalls::default();
    for tally in tallies {
        all.add(&tally.calls);
    }
    all
}

fn process_rows(processes: &[Process], tallies: &[Tally], placement: &Placement<'_>) -> Vec<Row> {
    let mut everywhere = Blocks::default();
    for (process, tally) in processes.iter().zip(tallies) {
        everywhere.add(process, tally, placement);
    }
    let row = |(process, tally): (&Process, &Tally)| {
        let mut own = Blocks::default();
        own.add(process, tally, placement);
        let mut counts = tally.counts;
        own.count(&everywhere, &mut counts);
        Row { process: Some(process.id), name: process.command.clone(), processes: 1, counts }
    };
    processes.iter().zip(tallies).map(row).collect()
}

fn program_rows(processes: &[Process], tallies: &[Tally], placement: &Placement<'_>) -> Vec<Row> {
    let mut programs: BTreeMap<&str, Vec<(&Process, &Tally)>> = BTreeMap::new();
    for (process, tally) in processes.iter().zip(tallies) {
        programs.entry(program(&process.command)).or_default().push((process, tally));
    }
    let row = |(name, members): (&str, Vec<_>)| group(name, members.into_iter(), placement);
    programs.into_iter().map(row).collect()
}

fn group<'t>(
    name: &str,
    members: impl Iterator<Item = (&'t Process, &'t Tally)>,
    placement: &Placement<'_>,
) -> Row {
    let mut row = Row { process: None, name: name.into(), processes: 0, counts: Counts::default() };
    let mut blocks = Blocks::default();
    for (process, tally) in members {
        row.processes += 1;
        row.counts.add(&tally.counts);
        blocks.add(process, tally, placement);
    }
    blocks.count(&blocks, &mut row.counts);
    row
}

/// A user of the data of a block: a process and one of its threads.
type User = (u32, u32);

/// A physical block as some processes see it.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    first_user: Option<User>,
    several_users: bool,
    loads: u64,
    stores: u64,
    /// Whether the block is written, also by a reference that begins in another block.
    written: bool,
}

#[derive(Debug, Default)]
struct Blocks {
    /// By page and by place in the page.
    blocks: HashMap<(Space, u64, u16), Block>,
}

impl Blocks {
    fn add(&mut self, process: &Process, tally: &Tally, placement: &Placement<'_>) {
        for page in &tally.pages {
            let (space, start) = placement.place(process.id, page.address, page.own);
            for (at, touched) in &page.blocks {
                let block = self.blocks.entry((space, start, *at)).or_default();
                block.add(process.id, touched);
            }
        }
    }

    /// Fills in the counts of these blocks; those that are in `all` count as shared.
    fn count(&self, all: &Self, counts: &mut Counts) {
        counts.blocks = self.blocks.len() as u64;
        for (key, own) in &self.blocks {
            let shared = all.blocks.get(key).filter(|block| block.several_users);
            let (Some(shared), Some(_)) = (shared, own.first_user) else { continue };
            counts.shared_blocks += 1;
            counts.shared_written_blocks += u64::from(shared.written);
            counts.shared_loads += own.loads;
            counts.shared_stores += own.stores;
        }
    }
}

impl Block {
    fn add(&mut self, process: u32, touched: &Touched) {
        self.loads += touched.loads;
        self.stores += touched.stores;
        self.written |= touched.written;
        let Some(thread) = touched.first_thread else { return };
        let user = (process, thread);
        let other = *self.first_user.get_or_insert(user) != user;
        self.several_users |= other || touched.several_threads;
    }
}
