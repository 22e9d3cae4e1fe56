//! The nodes of one shard, in one vector, identified by index. A node carries the links of its hash
//! chain and of its policy's list beside the entry ("intrusive" lists: Radhakrishnan 2019, Appendix
//! A.2), so that moving an entry allocates nothing and touches no second object.

use std::sync::Arc;

use crate::slot::Slot;

/// The index of a node in its slab.
pub(crate) type NodeId = u32;

/// The index that stands for no node: the end of a list or chain.
pub(crate) const NIL: NodeId = NodeId::MAX;

/// A node: 32 bytes, two to a cache line.
pub(crate) struct Node<V> {
    /// A copy of the slot's hash: a chain is walked and an index grown without touching slots.
    pub(crate) hash: u64,
    /// The entry; none in a free node.
    slot: Option<Arc<Slot<V>>>,
    /// Next node of the same hash bucket.
    pub(crate) chain: NodeId,
    /// Neighbour towards the front of the policy's list.
    pub(crate) previous: NodeId,
    /// Neighbour towards the back of the policy's list, or the next free node.
    pub(crate) next: NodeId,
    /// Which of its lists a policy has the node on, if it has several.
    pub(crate) list: u8,
}

/// Nodes in use and free nodes. The slab grows and never shrinks: its size is bounded by the
/// budget.
pub(crate) struct Slab<V> {
    nodes: Vec<Node<V>>,
    free: NodeId,
    live: usize,
}

impl<V> Slab<V> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), free: NIL, live: 0 }
    }

    /// The number of nodes in use.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Puts `slot` into a node that is on no list and no chain.
    pub(crate) fn insert(&mut self, slot: Arc<Slot<V>>) -> NodeId {
        self.live += 1;
        let node = Node {
            hash: slot.hash(),
            slot: Some(slot),
            chain: NIL,
            previous: NIL,
            next: NIL,
            list: 0,
        };
        if self.free == NIL {
            let id = NodeId::try_from(self.nodes.len()).expect("ENTRIES_MAX is less than NIL");
            self.nodes.push(node);
            return id;
        }
        let id = self.free;
        self.free = self.nodes[id as usize].next;
        self.nodes[id as usize] = node;
        id
    }

    /// Frees a node that is on no list and no chain any more.
    pub(crate) fn remove(&mut self, id: NodeId) -> Arc<Slot<V>> {
        self.live -= 1;
        let free = self.free;
        self.free = id;
        let node = self.get_mut(id);
        node.next = free;
        node.slot.take().expect("only nodes in use are removed")
    }

    /// Puts another entry of equal key into the node and returns the old one.
    pub(crate) fn replace(&mut self, id: NodeId, slot: Arc<Slot<V>>) -> Arc<Slot<V>> {
        let old = self.get_mut(id).slot.replace(slot);
        old.expect("only nodes in use are replaced")
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node<V> {
        &self.nodes[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node<V> {
        &mut self.nodes[id as usize]
    }

    /// The number of nodes in use and free nodes.
    pub(crate) fn places(&self) -> usize {
        self.nodes.len()
    }

    /// The entries in `count` nodes from `start` on, as far as these exist and are in use.
    pub(crate) fn slots_from(
        &self,
        start: usize,
        count: usize,
    ) -> impl Iterator<Item = &Arc<Slot<V>>> {
        let end = start.saturating_add(count).min(self.nodes.len());
        self.nodes[start.min(end)..end].iter().filter_map(|node| node.slot.as_ref())
    }

    /// The entry in a node in use.
    pub(crate) fn slot(&self, id: NodeId) -> &Arc<Slot<V>> {
        self.get(id).slot.as_ref().expect("only nodes in use are on a list or a chain")
    }
}

/// The largest number of entries. Bucket and node numbers are 32 bits wide; the greatest one is
/// [`NIL`].
pub(crate) const ENTRIES_MAX: usize = 1 << 31;

const _: () = assert!(ENTRIES_MAX < NIL as usize);
const _: () = assert!(size_of::<Node<u8>>() <= 32);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Cost;

    #[test]
    fn freed_nodes_are_used_again_before_new_ones() {
        let mut nodes = Slab::new();
        let insert = |nodes: &mut Slab<u64>, n| {
            nodes.insert(Arc::new(Slot::new(n, b"", n, Cost::default(), 0)))
        };
        let ids: Vec<NodeId> = (0..10).map(|n| insert(&mut nodes, n)).collect();
        for round in 0..100 {
            for &id in ids.iter().skip(round % 3).step_by(2) {
                nodes.remove(id);
            }
            while nodes.len() < 10 {
                let id = insert(&mut nodes, round as u64);
                assert_eq!(*nodes.slot(id).value(), round as u64);
            }
        }
        assert_eq!(nodes.nodes.len(), 10, "no node was lost");
    }
}
