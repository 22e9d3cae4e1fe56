//! The memory regions of one process, put together from its successive mappings.
//!
//! A trace has one list for the whole life of a process. So an unmapped region stays, unless
//! something else was mapped there later.

use memory_trace::{Object, Region, RegionKind};
use std::collections::BTreeMap;

/// Regions that do not overlap, by their first addresses.
#[derive(Debug, Clone, Default)]
pub(crate) struct Regions(BTreeMap<u64, Region>);

impl Regions {
    /// Maps a region over existing ones.
    pub(crate) fn map(&mut self, region: &Region) {
        if region.start >= region.end {
            return;
        }
        for old in self.cut_out(region.start, region.end) {
            // A page of a file that a process has written is the process's own, even when it has
            // become read-only since, as the loader makes pages that it has relocated.
            if was_written(&old, region) {
                self.insert(old.clone());
            } else {
                self.insert(Region { start: old.start, end: old.end, ..part(region, old.start) });
            }
        }
        self.fill(region);
    }

    /// Maps the parts of a region that are not mapped yet.
    fn fill(&mut self, region: &Region) {
        let mut at = region.start;
        let inside: Vec<(u64, u64)> =
            self.overlapping(region.start, region.end).map(|r| (r.start, r.end)).collect();
        for (start, end) in inside.into_iter().chain([(region.end, region.end)]) {
            if at < start {
                self.insert(Region { end: start.min(region.end), ..part(region, at) });
            }
            at = at.max(end);
        }
    }

    /// Adds private memory of a snapshot, without replacing known regions, of which more is known.
    pub(crate) fn anonymous_in_snapshot(&mut self, region: &Region) {
        let stale = |old: &Region| old.object.is_some();
        let files: Vec<(u64, u64)> = self
            .overlapping(region.start, region.end)
            .filter(|old| stale(old))
            .map(|old| (old.start.max(region.start), old.end.min(region.end)))
            .collect();
        for (start, end) in files {
            self.cut_out(start, end);
        }
        self.fill(region);
    }

    /// Marks all private memory as the parent's until it is written to.
    pub(crate) fn inherit(&mut self) {
        for region in self.0.values_mut() {
            if region.kind == RegionKind::Private {
                region.kind = RegionKind::CopyOnWrite;
            }
        }
    }

    /// The list of regions, with equal neighbours merged.
    pub(crate) fn list(&self) -> Vec<Region> {
        let mut list: Vec<Region> = Vec::with_capacity(self.0.len());
        for region in self.0.values() {
            match list.last_mut() {
                Some(last) if continues(last, region) => last.end = region.end,
                _ => list.push(region.clone()),
            }
        }
        list
    }

    fn insert(&mut self, region: Region) {
        self.0.insert(region.start, region);
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = &Region> {
        let before = self.0.range(..start).next_back().map(|(_, region)| region);
        let before = before.filter(move |region| region.end > start);
        before.into_iter().chain(self.0.range(start..end).map(|(_, region)| region))
    }

    /// Removes the regions between two addresses and returns them.
    fn cut_out(&mut self, start: u64, end: u64) -> Vec<Region> {
        let touched: Vec<Region> = self.overlapping(start, end).cloned().collect();
        for region in &touched {
            self.0.remove(&region.start);
            if region.start < start {
                self.insert(Region { end: start, ..region.clone() });
            }
            if region.end > end {
                self.insert(part(region, end));
            }
        }
        let inner = |region: Region| {
            let (from, to) = (region.start.max(start), region.end.min(end));
            Region { end: to, ..part(&region, from) }
        };
        touched.into_iter().map(inner).collect()
    }
}

/// The rest of a region from an address on.
fn part(region: &Region, start: u64) -> Region {
    let object = region.object.map(|object| Object {
        offset: object.offset.wrapping_add(start.wrapping_sub(region.start)),
        ..object
    });
    Region { start, object, ..region.clone() }
}

fn was_written(old: &Region, new: &Region) -> bool {
    let same = |a: Object, b: Object| (a.device, a.inode) == (b.device, b.inode);
    old.kind == RegionKind::CopyOnWrite
        && new.kind == RegionKind::File
        && old.object.zip(new.object).is_some_and(|(a, b)| same(a, b))
}

fn continues(last: &Region, next: &Region) -> bool {
    last.end == next.start
        && last.kind == next.kind
        && last.name == next.name
        && part(last, next.start).object == next.object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, kind: RegionKind, inode: u64) -> Region {
        let object = Object { device: 1, inode, offset: 0x1000 };
        let object = (inode != 0).then_some(object);
        Region { start, end, kind, name: inode.to_string(), object }
    }

    fn shown(regions: &Regions) -> Vec<(u64, u64, RegionKind, Option<u64>)> {
        let show = |r: Region| (r.start, r.end, r.kind, r.object.map(|object| object.offset));
        regions.list().into_iter().map(show).collect()
    }

    #[test]
    fn what_is_mapped_later_is_on_top() {
        let mut regions = Regions::default();
        regions.map(&region(0x1000, 0x9000, RegionKind::File, 5));
        regions.map(&region(0x3000, 0x5000, RegionKind::Private, 0));
        let expected = [
            (0x1000, 0x3000, RegionKind::File, Some(0x1000)),
            (0x3000, 0x5000, RegionKind::Private, None),
            (0x5000, 0x9000, RegionKind::File, Some(0x5000)),
        ];
        assert_eq!(shown(&regions), expected);
        regions.map(&region(0, 0x10000, RegionKind::Shared, 7));
        assert_eq!(shown(&regions), [(0, 0x10000, RegionKind::Shared, Some(0x1000))]);
    }

    #[test]
    fn what_was_relocated_stays_the_process_s_own() {
        let mut regions = Regions::default();
        regions.map(&region(0x1000, 0x4000, RegionKind::CopyOnWrite, 5));
        regions.map(&region(0x1000, 0x2000, RegionKind::File, 5));
        assert_eq!(shown(&regions), [(0x1000, 0x4000, RegionKind::CopyOnWrite, Some(0x1000))]);
        regions.map(&region(0x1000, 0x2000, RegionKind::File, 6));
        assert_eq!(shown(&regions).len(), 2);
    }

    #[test]
    fn a_snapshot_takes_no_names_away() {
        let mut regions = Regions::default();
        let heap = Region { name: "[heap]".into(), ..region(2, 6, RegionKind::Private, 0) };
        regions.map(&heap);
        regions.anonymous_in_snapshot(&region(1, 9, RegionKind::Private, 0));
        assert_eq!(regions.list().len(), 3);
        assert_eq!(regions.list()[1], heap);
        regions.map(&region(2, 4, RegionKind::File, 5));
        regions.anonymous_in_snapshot(&region(3, 4, RegionKind::Private, 0));
        assert_eq!(regions.list().len(), 5);
        assert_eq!(regions.list()[2].kind, RegionKind::Private);
        regions.inherit();
        assert_eq!(regions.list()[2].kind, RegionKind::CopyOnWrite);
    }
}
