//! Hash buckets over the nodes of a slab: from a hash and a key to a node. It never hashes a key
//! itself; keys of equal hashes share a chain and are told apart by comparison.

use crate::slab::{NIL, NodeId, Slab};

const BUCKETS_MIN: usize = 64;

/// Buckets are chains through [`crate::slab::Node::chain`]. Their number is a power of two and
/// at least twice the number of nodes, so that most chains have one node.
pub(crate) struct Index {
    buckets: Vec<NodeId>,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { buckets: vec![NIL; BUCKETS_MIN], len: 0 }
    }

    pub(crate) fn find<V>(&self, nodes: &Slab<V>, hash: u64, key: &[u8]) -> Option<NodeId> {
        let mut id = self.buckets[self.bucket(hash)];
        while id != NIL {
            let node = nodes.get(id);
            if node.hash == hash && nodes.slot(id).is_for(hash, key) {
                return Some(id);
            }
            id = node.chain;
        }
        None
    }

    /// Adds a node that is on no chain. The caller has checked that its key is not in the index.
    pub(crate) fn insert<V>(&mut self, nodes: &mut Slab<V>, id: NodeId) {
        self.len += 1;
        if self.len * 2 > self.buckets.len() {
            self.grow(nodes);
        }
        self.link(nodes, id);
    }

    /// Removes a node from its chain.
    pub(crate) fn remove<V>(&mut self, nodes: &mut Slab<V>, id: NodeId) {
        let after = std::mem::replace(&mut nodes.get_mut(id).chain, NIL);
        let bucket = self.bucket(nodes.get(id).hash);
        self.len -= 1;
        if self.buckets[bucket] == id {
            self.buckets[bucket] = after;
            return;
        }
        let mut before = self.buckets[bucket];
        while nodes.get(before).chain != id {
            before = nodes.get(before).chain;
        }
        nodes.get_mut(before).chain = after;
    }

    fn link<V>(&mut self, nodes: &mut Slab<V>, id: NodeId) {
        let bucket = self.bucket(nodes.get(id).hash);
        nodes.get_mut(id).chain = self.buckets[bucket];
        self.buckets[bucket] = id;
    }

    fn grow<V>(&mut self, nodes: &mut Slab<V>) {
        let doubled = vec![NIL; self.buckets.len() * 2];
        for first in std::mem::replace(&mut self.buckets, doubled) {
            let mut id = first;
            while id != NIL {
                let after = nodes.get(id).chain;
                self.link(nodes, id);
                id = after;
            }
        }
    }

    /// The bucket of a hash: its low bits, because the high ones have already chosen the shard.
    fn bucket(&self, hash: u64) -> usize {
        // The truncation is intended: only the low bits matter.
        hash as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::Cost;
    use crate::slot::Slot;

    #[test]
    fn finds_every_node_while_growing_and_none_after_removal() {
        // Hashes that collide always, in the low bits, and hardly ever.
        for hash in [|_| 9, |n| n << 40, |n| n] as [fn(u64) -> u64; 3] {
            let (mut index, mut nodes) = (Index::new(), Slab::new());
            let key = u64::to_le_bytes;
            for n in 0..300 {
                let slot = Slot::new(hash(n), &key(n), (), Cost::default(), 0);
                let id = nodes.insert(Arc::new(slot));
                index.insert(&mut nodes, id);
            }
            let id = |index: &Index, nodes: &Slab<()>, n| index.find(nodes, hash(n), &key(n));
            assert!((0..300).all(|n| id(&index, &nodes, n) == Some(n as NodeId)));
            for n in (0..300).rev().step_by(2) {
                index.remove(&mut nodes, n as NodeId);
            }
            assert!((0..300).all(|n| id(&index, &nodes, n).is_some() == (n % 2 == 0)));
        }
    }

    #[test]
    fn chains_stay_short() {
        let (mut index, mut nodes) = (Index::new(), Slab::new());
        for n in 0..1000_u64 {
            let id = nodes.insert(Arc::new(Slot::new(n, b"", (), Cost::default(), 0)));
            index.insert(&mut nodes, id);
            assert!(index.buckets.len() >= 2 * nodes.len());
        }
    }
}
