//! Random operations on both levels, compared with everything that was ever inserted: the content
//! of the cache is a subset of the newest versions, charged for exactly, and never over budget.

use std::sync::Arc;

use file_cache::{Budget, Cache, Cost, FirstLevel, PolicyKind, Slot, Usage};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    /// A request as a worker handles it: first level, second level, and an insertion if both miss.
    Request(u8, Cost),
    Insert(u8, Cost),
    Remove(u8),
    Sweep,
}

fn operation() -> impl Strategy<Value = Operation> {
    let cost = || (0_usize..60, 0_usize..3);
    let cost = || cost().prop_map(|(bytes, descriptors)| Cost { bytes, descriptors });
    prop_oneof![
        6 => (0_u8..40, cost()).prop_map(|(key, cost)| Operation::Request(key, cost)),
        3 => (0_u8..40, cost()).prop_map(|(key, cost)| Operation::Insert(key, cost)),
        2 => (0_u8..40).prop_map(Operation::Remove),
        1 => Just(Operation::Sweep),
    ]
}

fn budget() -> impl Strategy<Value = Budget> {
    (0_usize..400, 0_usize..12, 0_usize..30).prop_map(|(bytes, descriptors, entries)| Budget {
        bytes,
        descriptors,
        entries,
    })
}

/// All slots that ever existed; the value is the slot's position.
struct Model {
    cache: Cache<usize>,
    first: FirstLevel<usize>,
    budget: Budget,
    slots: Vec<Arc<Slot<usize>>>,
    /// The newest version of each key; none if the key was removed after its last insertion.
    newest: [Option<usize>; 256],
    /// The number of different hashes: a small one makes collisions common; 1 means that all keys
    /// collide.
    hashes: u64,
}

impl Model {
    fn hash(&self, key: u8) -> u64 {
        u64::from(key) % self.hashes
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Request(key, cost) => self.request(key, cost),
            Operation::Insert(key, cost) => self.insert(key, cost),
            Operation::Remove(key) => self.remove(key),
            Operation::Sweep => assert!(self.first.sweep(self.cache.evictions(), usize::MAX)),
        }
    }

    fn request(&mut self, key: u8, cost: Cost) {
        let hash = self.hash(key);
        if let Some(hit) = self.first.get(hash, &[key]) {
            assert_eq!(Some(*hit.value()), self.newest[usize::from(key)]);
            assert!(!hit.is_evicted());
        } else if let Some(slot) = self.cache.get(hash, &[key]) {
            assert_eq!(Some(*slot.value()), self.newest[usize::from(key)]);
            self.first.insert(slot);
        } else {
            self.insert(key, cost);
        }
    }

    fn insert(&mut self, key: u8, cost: Cost) {
        let version = self.slots.len();
        let slot = self.cache.insert(self.hash(key), &[key], version, cost, 0);
        assert_eq!((slot.key(), *slot.value(), slot.cost()), (&[key][..], version, cost));
        let fits = cost.bytes <= self.budget.bytes
            && cost.descriptors <= self.budget.descriptors
            && self.budget.entries > 0;
        assert_eq!(slot.is_evicted(), !fits);
        self.newest[usize::from(key)] = Some(version);
        self.first.insert(Arc::clone(&slot));
        self.slots.push(slot);
    }

    fn remove(&mut self, key: u8) {
        let present = self.cache.get(self.hash(key), &[key]).is_some();
        assert_eq!(self.cache.remove(self.hash(key), &[key]), present);
        self.newest[usize::from(key)] = None;
    }

    fn check(&self) {
        let mut expected = Usage::default();
        for slot in self.slots.iter().filter(|slot| !slot.is_evicted()) {
            let key = usize::from(slot.key()[0]);
            assert_eq!(self.newest[key], Some(*slot.value()), "only the newest version stays");
            let found = self.cache.get(slot.hash(), slot.key());
            assert!(found.is_some_and(|found| Arc::ptr_eq(&found, slot)));
            expected.bytes += slot.cost().bytes;
            expected.descriptors += slot.cost().descriptors;
            expected.entries += 1;
        }
        assert_eq!(self.cache.usage(), expected);
        assert!(expected.bytes <= self.budget.bytes);
        assert!(expected.descriptors <= self.budget.descriptors);
        assert!(expected.entries <= self.budget.entries);
    }

    fn finish(self) {
        let evicted = self.slots.iter().filter(|slot| slot.is_evicted()).count();
        assert_eq!(self.cache.evictions(), evicted as u64);
        drop((self.cache, self.first));
        assert!(self.slots.iter().all(|slot| Arc::strong_count(slot) == 1), "no slot is leaked");
    }
}

proptest! {
    #[test]
    fn agrees_with_the_model(
        kind in prop::sample::select(&PolicyKind::ALL[..]),
        budget in budget(),
        hashes in prop::sample::select(&[1_u64, 5, 1000][..]),
        operations in prop::collection::vec(operation(), 0..250),
    ) {
        let cache = Cache::new(kind, budget, 4);
        let first = FirstLevel::new(8);
        let mut model =
            Model { cache, first, budget, slots: Vec::new(), newest: [None; 256], hashes };
        for operation in &operations {
            model.apply(operation);
            model.check();
        }
        model.finish();
    }
}
