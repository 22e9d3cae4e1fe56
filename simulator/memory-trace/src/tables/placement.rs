//! The physical page of a virtual one: the same for two processes if they share it.
//!
//! Streams have no common time. A page that is copied when it is written is taken for the common
//! one until the process's own first write to it; where it was inherited from a parent that also
//! writes to it, the parent is taken to have done so before it forked.

use std::collections::{HashMap, HashSet};

use super::tally::{Tally, region_of, sorted};
use crate::process::{Process, Region, RegionKind};

/// The memory that a page is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Space {
    /// The memory of a process, by its number.
    Process(u32),
    /// A file or shared memory, by device and inode.
    Object(u64, u64),
}

struct Known<'p> {
    parent: Option<u32>,
    regions: Vec<&'p Region>,
    /// The pages of which the process has a copy of its own at its end.
    copied: HashSet<u64>,
}

/// The placement of the pages of all processes.
pub(super) struct Placement<'p> {
    processes: HashMap<u32, Known<'p>>,
}

impl<'p> Placement<'p> {
    pub(super) fn new(processes: &'p [Process], tallies: &[Tally]) -> Self {
        let known = processes.iter().zip(tallies).map(|(process, tally)| {
            let own = tally.pages.iter().filter(|page| page.own);
            let copied = own.map(|page| page.address).collect();
            (process.id, Known { parent: process.parent, regions: sorted(process), copied })
        });
        Self { processes: known.collect() }
    }

    /// The physical page of a virtual one. `own` tells whether the process has made its own copy.
    pub(super) fn place(&self, process: u32, address: u64, own: bool) -> (Space, u64) {
        let (mut process, mut own) = (process, own);
        // A damaged trace may have ancestors that are their own ancestors.
        for _ in 0..=self.processes.len() {
            let Some(region) = self.region(process, address) else { break };
            let common = match region.kind {
                RegionKind::Private => false,
                RegionKind::Shared | RegionKind::File => true,
                RegionKind::CopyOnWrite => !own,
            };
            if !common {
                break;
            }
            if let Some(object) = region.object {
                let distance = address.wrapping_sub(region.start);
                let space = Space::Object(object.device, object.inode);
                return (space, object.offset.wrapping_add(distance));
            }
            let Some(parent) = self.ancestor(process, region, address) else { break };
            process = parent;
            own = self.processes[&parent].copied.contains(&address);
        }
        (Space::Process(process), address)
    }

    /// The parent, if the page came from it: it must be in the trace and have the page; a page that
    /// is shared must be shared there, too.
    fn ancestor(&self, process: u32, region: &Region, address: u64) -> Option<u32> {
        let parent = self.processes.get(&process)?.parent?;
        let above = self.region(parent, address)?;
        let inherited = region.kind == RegionKind::CopyOnWrite || above.kind == region.kind;
        inherited.then_some(parent)
    }

    fn region(&self, process: u32, address: u64) -> Option<&'p Region> {
        region_of(&self.processes.get(&process)?.regions, address)
    }
}
