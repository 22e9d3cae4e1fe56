//! Names for allocated memory: the code that requested it.
//!
//! A trace has one list of names for the whole life of a process, but an allocator gives the same
//! memory to many requests. Memory is named after the allocation that had it for the longest part
//! of the recording: an allocation that lives as long as the process has its own name, and memory
//! of short-lived allocations has the name of one of them.

use crate::chunk::{Kind, Record};
use crate::names::{Names, Touched};
use memory_trace::{Region, Symbol};
use std::collections::{BTreeMap, HashMap};

/// The number of the chain of calls that led to an allocation, as the tool's log explains it.
pub(crate) type Site = u32;

/// The current allocations, and the lifetimes of earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    live: BTreeMap<u64, Live>,
    /// For how many references each allocation existed, summed over allocations of the same place
    /// and site.
    lives: HashMap<Lived, u64>,
    /// An allocation whose records are not complete yet.
    coming: (u64, u64),
    now: u64,
}

#[derive(Debug, Clone, Copy)]
struct Live {
    end: u64,
    site: Site,
    since: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Lived {
    start: u64,
    end: u64,
    site: Site,
}

impl Heap {
    /// Processes a record of any kind, for records that are not about the heap serve as its clock.
    pub(crate) fn record(&mut self, record: Record) {
        match record.kind {
            Kind::Allocated => self.coming.0 = record.value,
            Kind::Bytes => self.coming.1 = record.value,
            Kind::Site => self.allocate(record.value as Site),
            Kind::Freed => self.free(record.value),
            _ => self.now += record.references(),
        }
    }

    /// Names for all touched allocations, in the order of addresses.
    pub(crate) fn symbols(
        mut self,
        sites: &HashMap<Site, Vec<u64>>,
        regions: &[Region],
        touched: &Touched,
        names: &mut Names,
    ) -> Vec<Symbol> {
        let live: Vec<u64> = self.live.keys().copied().collect();
        for start in live {
            self.free(start);
        }
        let mut named: HashMap<Site, String> = HashMap::new();
        let placed = place(self.lives);
        let touched = placed.into_iter().filter(|lived| touched.any(lived.start, lived.end));
        let symbol = |Lived { start, end, site }| {
            let name = named.entry(site).or_insert_with(|| {
                let callers = sites.get(&site).map_or(&[][..], Vec::as_slice);
                names.allocating(callers, regions)
            });
            let function = format!("[heap] {name}");
            Symbol { start, end, function, file: None, line: None }
        };
        touched.map(symbol).collect()
    }

    fn allocate(&mut self, site: Site) {
        let (start, bytes) = self.coming;
        self.free(start);
        let live = Live { end: start.saturating_add(bytes), site, since: self.now };
        self.live.insert(start, live);
    }

    fn free(&mut self, start: u64) {
        if let Some(Live { end, site, since }) = self.live.remove(&start) {
            *self.lives.entry(Lived { start, end, site }).or_default() += self.now - since;
        }
    }
}

/// The blocks that existed longest; of two that overlap only one.
fn place(lives: HashMap<Lived, u64>) -> Vec<Lived> {
    let mut longest: Vec<(u64, Lived)> =
        lives.into_iter().map(|(lived, references)| (references, lived)).collect();
    longest.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut placed: BTreeMap<u64, Lived> = BTreeMap::new();
    for (_, lived) in longest.into_iter().filter(|(_, lived)| lived.start < lived.end) {
        let before = placed.range(..lived.end).next_back();
        if before.is_none_or(|(_, other)| other.end <= lived.start) {
            placed.insert(lived.start, lived);
        }
    }
    placed.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(heap: &mut Heap, kind: Kind, value: u64) {
        heap.record(Record { kind, value, bytes: 8 });
    }

    fn allocate(heap: &mut Heap, start: u64, bytes: u64, site: u64) {
        record(heap, Kind::Allocated, start);
        record(heap, Kind::Bytes, bytes);
        record(heap, Kind::Site, site);
    }

    fn pass(heap: &mut Heap, references: usize) {
        (0..references).for_each(|_| record(heap, Kind::Load, 0));
    }

    #[test]
    fn memory_has_the_name_of_its_longest_owner() {
        let mut heap = Heap::default();
        allocate(&mut heap, 0x1000, 0x100, 1);
        pass(&mut heap, 3);
        record(&mut heap, Kind::Freed, 0x1000);
        allocate(&mut heap, 0x1080, 0x40, 2);
        pass(&mut heap, 10);
        allocate(&mut heap, 0x2000, 0, 3);
        allocate(&mut heap, 0x10c0, 8, 4);
        let mut touched = Touched::default();
        [0x1080, 0x10c0, 0x2000].into_iter().for_each(|address| touched.add(address));
        let symbols = heap.symbols(&HashMap::new(), &[], &touched, &mut Names::default());
        let places: Vec<(u64, u64)> = symbols.iter().map(|s| (s.start, s.end)).collect();
        assert_eq!(places, [(0x1080, 0x10c0), (0x10c0, 0x10c8)]);
        assert_eq!(symbols[0].function, "[heap] (unknown)");
    }

    #[test]
    fn what_is_allocated_again_and_again_at_one_place_adds_up() {
        let mut heap = Heap::default();
        for _ in 0..5 {
            allocate(&mut heap, 0x1000, 64, 1);
            pass(&mut heap, 2);
        }
        record(&mut heap, Kind::Freed, 0x1000);
        allocate(&mut heap, 0x1010, 64, 2);
        pass(&mut heap, 9);
        record(&mut heap, Kind::Freed, 0x1010);
        let placed = place(heap.lives);
        assert_eq!(placed, [Lived { start: 0x1000, end: 0x1040, site: 1 }]);
    }
}
