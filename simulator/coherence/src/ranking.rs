//! The code and the data that cause misses and coherence transactions: counted by granule during
//! the run, named afterwards.
//!
//! The code of a data reference is the last instruction fetched before it.

use std::collections::HashMap;

use memory_trace::Process;
use serde::Serialize;

use crate::classify::{Miss, Sharing};
use crate::record::{GRANULE_BYTES, Kind, PAGE_BYTES, Record};
use crate::workload::Workload;

/// The counts of a place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Caused {
    misses: u64,
    invalidation_misses: u64,
    transactions: u64,
    false_sharing: u64,
}

/// Counts by the first byte of a granule, as if all frames were contiguous.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    code: HashMap<u64, Caused>,
    data: HashMap<u64, Caused>,
}

/// Functions and data, sorted by what they cause, most first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ranking {
    /// By function.
    pub functions: Vec<Ranked>,
    /// By variable, or by the mapped region.
    pub data: Vec<Ranked>,
}

/// A function or datum, and what it causes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ranked {
    /// The symbol or region, with its process.
    pub name: String,
    /// Misses of any kind.
    pub misses: u64,
    /// Misses after an invalidation.
    pub invalidation_misses: u64,
    /// Coherence transactions (INV and WR).
    pub transactions: u64,
    /// Invalidation misses and transactions by false sharing.
    pub false_sharing: u64,
}

impl Tally {
    pub(crate) fn miss(&mut self, record: Record, code: Record, class: Miss) {
        let caused = Caused {
            misses: 1,
            invalidation_misses: u64::from(class.is_invalidation()),
            transactions: 0,
            false_sharing: u64::from(class == Miss::InvalidationFalse),
        };
        self.add(record, code, caused);
    }

    pub(crate) fn coherence(&mut self, record: Record, code: Record, sharing: Sharing) {
        let false_sharing = u64::from(sharing == Sharing::False);
        let caused = Caused { transactions: 1, false_sharing, ..Caused::default() };
        self.add(record, code, caused);
    }

    fn add(&mut self, record: Record, code: Record, caused: Caused) {
        if record.kind() == Some(Kind::Fetch) {
            self.code.entry(place(record)).or_default().add(caused);
        } else {
            self.code.entry(place(code)).or_default().add(caused);
            self.data.entry(place(record)).or_default().add(caused);
        }
    }

    /// Replaces places by names; places with one name are added up.
    pub(crate) fn name(self, workload: &Workload, kernel_frames: u32) -> Ranking {
        let rank = |places: HashMap<u64, Caused>, kernel: &str| {
            let mut by_name: HashMap<String, Caused> = HashMap::new();
            for (place, caused) in places {
                let name = match name_of(workload, kernel_frames, place) {
                    Some(name) => name,
                    None => kernel.to_owned(),
                };
                by_name.entry(name).or_default().add(caused);
            }
            in_order(by_name)
        };
        Ranking {
            functions: rank(self.code, "(kernel code, drawn)"),
            data: rank(self.data, "(kernel data, drawn)"),
        }
    }
}

impl Ranking {
    /// The ranking of several runs of one workload: their sums.
    pub fn sum(runs: &[&Self]) -> Self {
        let sum = |of: fn(&Self) -> &[Ranked]| {
            let mut by_name: HashMap<String, Caused> = HashMap::new();
            for ranked in runs.iter().copied().flat_map(of) {
                by_name.entry(ranked.name.clone()).or_default().add(ranked.caused());
            }
            in_order(by_name)
        };
        Self { functions: sum(|run| &run.functions), data: sum(|run| &run.data) }
    }
}

/// Names with their counts, sorted, most first.
fn in_order(by_name: HashMap<String, Caused>) -> Vec<Ranked> {
    let mut ranked: Vec<Ranked> = by_name.into_iter().map(Ranked::from).collect();
    ranked.sort_by(|a, b| b.weight().cmp(&a.weight()).then_with(|| a.name.cmp(&b.name)));
    ranked
}

impl Caused {
    fn add(&mut self, other: Self) {
        self.misses += other.misses;
        self.invalidation_misses += other.invalidation_misses;
        self.transactions += other.transactions;
        self.false_sharing += other.false_sharing;
    }
}

impl Ranked {
    fn weight(&self) -> u64 {
        self.misses + self.transactions
    }

    fn caused(&self) -> Caused {
        let Self { misses, invalidation_misses, transactions, false_sharing, .. } = *self;
        Caused { misses, invalidation_misses, transactions, false_sharing }
    }
}

impl From<(String, Caused)> for Ranked {
    fn from((name, caused): (String, Caused)) -> Self {
        let Caused { misses, invalidation_misses, transactions, false_sharing } = caused;
        Self { name, misses, invalidation_misses, transactions, false_sharing }
    }
}

fn place(record: Record) -> u64 {
    u64::from(record.frame()) * PAGE_BYTES + record.offset() / GRANULE_BYTES * GRANULE_BYTES
}

/// The name of the symbol or region at a place of memory, with its process; none in the kernel's
/// frames.
fn name_of(workload: &Workload, kernel_frames: u32, place: u64) -> Option<String> {
    let number = (place / PAGE_BYTES) as u32;
    if number >= kernel_frames {
        return None;
    }
    let frame = workload.frames[number as usize];
    let address = frame.address + place % PAGE_BYTES;
    let Some(process) = workload.processes.get(frame.process as usize) else {
        return Some("(nothing fetched yet)".into());
    };
    Some(format!("{}: {}", program(process), symbol_or_region(process, address)))
}

/// The first word of the command, without its directory.
fn program(process: &Process) -> &str {
    let word = process.command.split_whitespace().next().unwrap_or("?");
    word.rsplit('/').next().unwrap_or(word)
}

/// The name of a symbol that lies in the granule, or of the region.
fn symbol_or_region(process: &Process, address: u64) -> String {
    let touches = |start: u64, end: u64| start < address + GRANULE_BYTES && address < end;
    // A trace names each block of a heap: of those that begin before the granule ends, few need be
    // examined.
    const NEAR: usize = 64;
    let before = process.symbols.partition_point(|one| one.start < address + GRANULE_BYTES);
    let near = &process.symbols[before.saturating_sub(NEAR)..before];
    let symbol = near.iter().find(|one| touches(one.start, one.end));
    if let Some(symbol) = symbol {
        return symbol.function.clone();
    }
    match process.regions.iter().find(|one| touches(one.start, one.end)) {
        Some(region) if !region.name.is_empty() => region.name.clone(),
        Some(_) => "(mapped memory)".into(),
        None => "(private memory)".into(),
    }
}
