//! One shard of the second level: the data that its lock protects. These are an index, the nodes,
//! and two lanes with a policy each. The shard enforces the budget. It drops no value: departed
//! entries are returned to the caller.

use std::sync::Arc;

use crate::budget::{Budget, Cost, Resource, Usage};
use crate::index::Index;
use crate::policy::{Policy, PolicyKind};
use crate::slab::{ENTRIES_MAX, NodeId, Slab};
use crate::slot::Slot;

/// Entries with descriptors and entries without are in two lanes, each with its own order. With one
/// order for both, a shortage of descriptors would first evict many small entries, which hold none
/// and are usually far more numerous, before one that frees a descriptor.
struct Lane<V> {
    policy: Box<dyn Policy<V>>,
    usage: Usage,
}

const PLAIN: usize = 0;
const WITH_DESCRIPTORS: usize = 1;

/// The number of entries that one turn under the lock may evict: it bounds the time for which the
/// lock is held when one large entry displaces many small ones.
const DEPARTURES_MAX: usize = 8;

/// Entries that have left, to be dropped after the lock is released.
pub(crate) struct Departures<V> {
    slots: [Option<Arc<Slot<V>>>; DEPARTURES_MAX],
    len: usize,
}

/// The result of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// The entry is in the cache.
    Kept,
    /// The entry is larger than the whole budget; an older one under its key has left, too.
    Refused,
    /// Room was made, but not enough yet: drop the departures and offer it again.
    Again,
}

pub(crate) struct Shard<V> {
    budget: Budget,
    index: Index,
    nodes: Slab<V>,
    lanes: [Lane<V>; 2],
}

impl<V> Shard<V> {
    pub(crate) fn new(kind: PolicyKind, budget: Budget) -> Self {
        let lane = || Lane { policy: kind.build(), usage: Usage::default() };
        Self {
            budget: Budget { entries: budget.entries.min(ENTRIES_MAX), ..budget },
            index: Index::new(),
            nodes: Slab::new(),
            lanes: [lane(), lane()],
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        self.lanes[PLAIN].usage.plus(self.lanes[WITH_DESCRIPTORS].usage)
    }

    /// Returns the entry for `key`. The hit is only counted, under the shared lock.
    pub(crate) fn get(&self, hash: u64, key: &[u8]) -> Option<Arc<Slot<V>>> {
        let slot = self.nodes.slot(self.index.find(&self.nodes, hash, key)?);
        slot.touch();
        Some(Arc::clone(slot))
    }

    /// Returns the entry for `key`. The policy may change its order, under the exclusive lock.
    pub(crate) fn get_moving(&mut self, hash: u64, key: &[u8]) -> Option<Arc<Slot<V>>> {
        let id = self.index.find(&self.nodes, hash, key)?;
        let slot = Arc::clone(self.nodes.slot(id));
        slot.note_request();
        self.lanes[lane_of(slot.cost())].policy.touch(&mut self.nodes, id);
        Some(slot)
    }

    pub(crate) fn offer(&mut self, slot: &Arc<Slot<V>>, out: &mut Departures<V>) -> Offer {
        if let Some(id) = self.index.find(&self.nodes, slot.hash(), slot.key()) {
            if self.replace(id, slot, out) {
                return Offer::Kept;
            }
            self.evict(id, out);
        }
        if self.budget.shortage(Usage::default(), slot.cost()).is_some() {
            return Offer::Refused;
        }
        while let Some(resource) = self.budget.shortage(self.usage(), slot.cost()) {
            if out.is_full() {
                return Offer::Again;
            }
            self.make_room(resource, out);
        }
        self.insert(Arc::clone(slot));
        debug_assert!(self.is_consistent());
        Offer::Kept
    }

    pub(crate) fn remove(&mut self, hash: u64, key: &[u8], out: &mut Departures<V>) -> bool {
        let found = self.index.find(&self.nodes, hash, key);
        if let Some(id) = found {
            self.evict(id, out);
        }
        debug_assert!(self.is_consistent());
        found.is_some()
    }

    /// Removes this entry, but not another one under its key.
    pub(crate) fn remove_slot(&mut self, slot: &Arc<Slot<V>>, out: &mut Departures<V>) {
        let found = self.index.find(&self.nodes, slot.hash(), slot.key());
        if let Some(id) = found.filter(|id| Arc::ptr_eq(self.nodes.slot(*id), slot)) {
            self.evict(id, out);
        }
        debug_assert!(self.is_consistent());
    }

    /// The number of nodes in use and free nodes.
    pub(crate) fn places(&self) -> usize {
        self.nodes.places()
    }

    /// Returns the entries with descriptors in `count` nodes from `start` on.
    pub(crate) fn with_descriptors(&self, start: usize, count: usize) -> Vec<Arc<Slot<V>>> {
        let slots = self.nodes.slots_from(start, count);
        slots.filter(|slot| lane_of(slot.cost()) == WITH_DESCRIPTORS).cloned().collect()
    }

    /// Puts a new version into the node of the old one, which keeps its place in the order, if that
    /// takes no eviction: the policy might choose that node as the victim.
    fn replace(&mut self, id: NodeId, slot: &Arc<Slot<V>>, out: &mut Departures<V>) -> bool {
        let (old, new) = (self.nodes.slot(id).cost(), slot.cost());
        let lane = lane_of(new);
        let mut without = self.usage();
        without.subtract(old);
        if lane != lane_of(old) || self.budget.shortage(without, new).is_some() {
            return false;
        }
        slot.set_uses(self.nodes.slot(id).uses());
        out.push(self.nodes.replace(id, Arc::clone(slot)));
        self.lanes[lane].usage.subtract(old);
        self.lanes[lane].usage.add(new);
        self.lanes[lane].policy.touch(&mut self.nodes, id);
        true
    }

    fn insert(&mut self, slot: Arc<Slot<V>>) {
        let cost = slot.cost();
        let id = self.nodes.insert(slot);
        self.index.insert(&mut self.nodes, id);
        let lane = &mut self.lanes[lane_of(cost)];
        lane.usage.add(cost);
        lane.policy.insert(&mut self.nodes, id);
    }

    /// Evicts one entry from the lane that holds more of the scarce resource, so that neither lane
    /// can starve the other.
    fn make_room(&mut self, resource: Resource, out: &mut Departures<V>) {
        let [plain, with] = [PLAIN, WITH_DESCRIPTORS].map(|l| self.lanes[l].usage.amount(resource));
        let lane = if with > plain { WITH_DESCRIPTORS } else { PLAIN };
        let victim = self.lanes[lane].policy.victim(&mut self.nodes);
        let id = victim.expect("a lane that holds some of a resource has an entry");
        self.depart(id, out);
    }

    fn evict(&mut self, id: NodeId, out: &mut Departures<V>) {
        let lane = lane_of(self.nodes.slot(id).cost());
        self.lanes[lane].policy.remove(&mut self.nodes, id);
        self.depart(id, out);
    }

    /// Removes a node that its policy has already removed.
    fn depart(&mut self, id: NodeId, out: &mut Departures<V>) {
        self.index.remove(&mut self.nodes, id);
        let slot = self.nodes.remove(id);
        self.lanes[lane_of(slot.cost())].usage.subtract(slot.cost());
        out.push(slot);
    }

    /// Whether the nodes in use are those that the policies know and those charged for, within the
    /// budget.
    fn is_consistent(&self) -> bool {
        let usage = self.usage();
        usage.entries == self.nodes.len()
            && self.lanes.iter().all(|lane| lane.usage.entries == lane.policy.len())
            && usage.entries <= self.budget.entries
            && usage.bytes <= self.budget.bytes
            && usage.descriptors <= self.budget.descriptors
    }
}

impl<V> Departures<V> {
    pub(crate) fn new() -> Self {
        Self { slots: [const { None }; DEPARTURES_MAX], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn is_full(&self) -> bool {
        self.len == DEPARTURES_MAX
    }

    fn push(&mut self, slot: Arc<Slot<V>>) {
        slot.set_evicted();
        self.slots[self.len] = Some(slot);
        self.len += 1;
    }
}

fn lane_of(cost: Cost) -> usize {
    if cost.descriptors > 0 { WITH_DESCRIPTORS } else { PLAIN }
}
