//! Which entry has to leave when room is needed. A policy knows order and use; it knows nothing of
//! budgets, keys or locks. To add one: a file with the same outline as the three here, a
//! [`PolicyKind`], and a line in the test suite's list.

mod clock;
mod ghost;
mod list;
mod lru;
mod s3_fifo;

use std::fmt;
use std::str::FromStr;

use crate::slab::{NodeId, Slab};

/// An eviction policy, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Least recently used: the classic, and the only one whose hits need the exclusive lock.
    Lru,
    /// One bit for each entry: nearly as good as LRU, and hits only set the bit.
    Clock,
    /// Three queues: files that are requested once leave quickly, so a crawler cannot flush the
    /// cache.
    S3Fifo,
}

impl PolicyKind {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::Lru, Self::Clock, Self::S3Fifo];

    /// The name in configuration files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Clock => "clock",
            Self::S3Fifo => "s3-fifo",
        }
    }

    /// Whether a hit has to change the order at once, under the exclusive lock.
    pub(crate) fn moves_on_hit(self) -> bool {
        matches!(self, Self::Lru)
    }

    pub(crate) fn build<V>(self) -> Box<dyn Policy<V>> {
        match self {
            Self::Lru => Box::new(lru::Lru::new()),
            Self::Clock => Box::new(clock::Clock::new()),
            Self::S3Fifo => Box::new(s3_fifo::S3Fifo::new()),
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownPolicy)
    }
}

/// The error for a name that no policy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, third] = PolicyKind::ALL.map(PolicyKind::name);
        write!(f, "unknown cache policy: it is one of {first}, {second} and {third}")
    }
}

impl std::error::Error for UnknownPolicy {}

/// The order of the entries of one lane of a shard, under that shard's exclusive lock.
///
/// A node is known to the policy from `insert` until `remove` or until `victim` returns it. Hits of
/// the first level, and hits of the second level under the shared lock, are only counted in the
/// slot ([`crate::Slot::touch`]), where `victim` finds them; `touch` is called for a hit of the
/// second level under the exclusive lock.
pub(crate) trait Policy<V>: Send + Sync {
    /// Adds a node, whose slot has no uses yet.
    fn insert(&mut self, nodes: &mut Slab<V>, node: NodeId);

    /// Notes a hit.
    fn touch(&mut self, nodes: &mut Slab<V>, node: NodeId);

    /// Removes a node.
    fn remove(&mut self, nodes: &mut Slab<V>, node: NodeId);

    /// Chooses the node that is to leave and removes it; none only if there are no nodes. It counts
    /// down uses on the way, so it ends as soon as that is faster than the counting of hits in
    /// first levels.
    fn victim(&mut self, nodes: &mut Slab<V>) -> Option<NodeId>;

    /// The number of nodes that the policy knows.
    fn len(&self) -> usize;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name() {
        for kind in PolicyKind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for name in ["", "LRU", "fifo"] {
            assert_eq!(name.parse::<PolicyKind>(), Err(UnknownPolicy));
        }
        let message = UnknownPolicy.to_string();
        assert_eq!(message, "unknown cache policy: it is one of lru, clock and s3-fifo");
    }
}
