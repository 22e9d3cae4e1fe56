//! S3-FIFO: a small queue for new entries, a main queue for entries that were used in it, and a
//! memory of keys that were not (Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for
//! cache eviction", SOSP 2023, Algorithm 1). A scan of files that are requested once passes through
//! the small queue only.

use super::Policy;
use super::ghost::Ghost;
use super::list::List;
use crate::slab::{NodeId, Slab};

/// One entry in this many is in the small queue, by number rather than by bytes: files that are
/// sent with `sendfile` cost no bytes, and a lane's entries are of one kind.
const SMALL_SHARE: usize = 10;

/// An entry with fewer uses than this in the small queue leaves the cache.
const USES_TO_STAY: u8 = 2;

/// Values of [`crate::slab::Node::list`].
const SMALL: u8 = 0;
const MAIN: u8 = 1;

/// The queues. New entries go to `small`, unless `ghost` remembers them: those go to `main`.
pub(super) struct S3Fifo {
    small: List,
    main: List,
    ghost: Ghost,
}

impl S3Fifo {
    pub(super) fn new() -> Self {
        Self { small: List::new(), main: List::new(), ghost: Ghost::new() }
    }
}

impl<V> Policy<V> for S3Fifo {
    fn insert(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        let hash = nodes.get(node).hash;
        if self.ghost.take(hash, self.main.len()) {
            self.push_main(nodes, node);
        } else {
            nodes.get_mut(node).list = SMALL;
            self.small.push_front(nodes, node);
        }
    }

    fn touch(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        nodes.slot(node).touch();
    }

    fn remove(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        match nodes.get(node).list {
            SMALL => self.small.unlink(nodes, node),
            _ => self.main.unlink(nodes, node),
        }
    }

    /// Finds a victim. This ends: each turn that finds none moves an entry to `main` for good or
    /// takes a use away.
    fn victim(&mut self, nodes: &mut Slab<V>) -> Option<NodeId> {
        loop {
            let total = self.small.len() + self.main.len();
            let from_small = self.small.len() * SMALL_SHARE >= total.max(1) || self.main.len() == 0;
            let victim =
                if from_small { self.victim_small(nodes) } else { self.victim_main(nodes) };
            if victim.is_some() || total == 0 {
                return victim;
            }
        }
    }

    fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }
}

impl S3Fifo {
    /// The oldest entry of `small`, unless it was used often enough and moves to `main`.
    fn victim_small<V>(&mut self, nodes: &mut Slab<V>) -> Option<NodeId> {
        let node = self.small.pop_back(nodes)?;
        if nodes.slot(node).uses() >= USES_TO_STAY {
            nodes.slot(node).set_uses(0);
            self.push_main(nodes, node);
            return None;
        }
        self.ghost.remember(nodes.get(node).hash, self.main.len());
        Some(node)
    }

    /// The oldest entry of `main`, unless it was used and gets another round.
    fn victim_main<V>(&mut self, nodes: &mut Slab<V>) -> Option<NodeId> {
        let node = self.main.pop_back(nodes)?;
        let uses = nodes.slot(node).uses();
        if uses == 0 {
            return Some(node);
        }
        nodes.slot(node).set_uses(uses - 1);
        self.main.push_front(nodes, node);
        None
    }

    fn push_main<V>(&mut self, nodes: &mut Slab<V>, node: NodeId) {
        nodes.get_mut(node).list = MAIN;
        self.main.push_front(nodes, node);
    }
}
