//! Least recently used: the entry that has not been requested for longest leaves first (Mattson et
//! al., "Evaluation techniques for storage hierarchies", 1970; the policy of µKnot's cache,
//! Radhakrishnan 2019, Appendix A). A scan of files that are requested once flushes the cache.

use super::Policy;
use super::list::List;
use crate::slab::{NodeId, Slab};

/// One list, the most recently used entry in front.
pub(super) struct Lru {
    order: List,
}

impl Lru {
    pub(super) fn new() -> Self {
        Self { order: List::new() }
    }
}

impl<V> Policy<V> for Lru {
    fn insert(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        self.order.push_front(nodes, node);
    }

    fn touch(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        self.order.move_to_front(nodes, node);
    }

    fn remove(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        self.order.unlink(nodes, node);
    }

    /// Hits of the first level have not moved their entries: they are moved now, which makes the
    /// order exact for the second level and a second chance for the first.
    fn victim(&mut self, nodes: &mut Slab<V>) -> Option<NodeId> {
        loop {
            let node = self.order.pop_back(nodes)?;
            let slot = nodes.slot(node);
            if slot.uses() == 0 {
                return Some(node);
            }
            slot.set_uses(0);
            self.order.push_front(nodes, node);
        }
    }

    fn len(&self) -> usize {
        self.order.len()
    }
}
