//! The cache through its public interface: one suite for every policy, a model, the first level,
//! and sharing.

mod first_level;
mod model;
mod order;
mod shared;
mod sharing;
mod suite;

use std::sync::Arc;

use file_cache::{Budget, Cache, Cost, PolicyKind, Slot};

/// A budget that limits only the number of entries.
fn entries(entries: usize) -> Budget {
    Budget { bytes: usize::MAX, descriptors: usize::MAX, entries }
}

fn cost(bytes: usize, descriptors: usize) -> Cost {
    Cost { bytes, descriptors }
}

fn cache(kind: PolicyKind, budget: Budget) -> Cache<u32> {
    Cache::new(kind, budget, 1)
}

fn put(cache: &Cache<u32>, key: &str, value: u32, cost: Cost) -> Arc<Slot<u32>> {
    cache.insert(cache.hash(key.as_bytes()), key.as_bytes(), value, cost, 0)
}

fn lookup(cache: &Cache<u32>, key: &str) -> Option<u32> {
    let slot = cache.get(cache.hash(key.as_bytes()), key.as_bytes())?;
    assert!(!slot.is_evicted());
    Some(*slot.value())
}

fn remove(cache: &Cache<u32>, key: &str) -> bool {
    cache.remove(cache.hash(key.as_bytes()), key.as_bytes())
}
