//! CLOCK, also called second chance: an approximation of LRU in which a hit sets a bit (Corbató, "A
//! paging experiment with the Multics system", 1968). A scan of files that are requested once
//! evicts the entries that were not used since the hand last passed.

use super::Policy;
use super::list::List;
use crate::slab::{NodeId, Slab};

/// The clock as a queue: the hand is at the back of the queue, and passing an entry means moving it
/// to the front.
pub(super) struct Clock {
    face: List,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { face: List::new() }
    }
}

impl<V> Policy<V> for Clock {
    fn insert(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        self.face.push_front(nodes, node);
    }

    fn touch(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        nodes.slot(node).touch();
    }

    fn remove(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        self.face.unlink(nodes, node);
    }

    /// Turns the hand to a victim; a passed entry has no uses left, so one turn is enough.
    fn victim(&mut self, nodes: &mut Slab<V>) -> Option<NodeId> {
        loop {
            let node = self.face.pop_back(nodes)?;
            let slot = nodes.slot(node);
            if slot.uses() == 0 {
                return Some(node);
            }
            slot.set_uses(0);
            self.face.push_front(nodes, node);
        }
    }

    fn len(&self) -> usize {
        self.face.len()
    }
}
