//! The first level by itself and on top of a second level.

use std::sync::Arc;

use file_cache::{Cache, Cost, FirstLevel, Hit, PolicyKind};

use crate::{cost, entries};

/// Both levels, used like a worker uses them.
struct Levels {
    first: FirstLevel<u32>,
    second: Cache<u32>,
}

impl Levels {
    fn new(kind: PolicyKind, slots_max: usize, capacity: usize) -> Self {
        Self { first: FirstLevel::new(slots_max), second: Cache::new(kind, entries(capacity), 1) }
    }

    fn insert(&mut self, key: u32) -> Hit<u32> {
        let bytes = key.to_le_bytes();
        let slot = self.second.insert(self.second.hash(&bytes), &bytes, key, Cost::default(), 0);
        self.first.insert(slot)
    }

    fn get(&mut self, key: u32) -> Option<&Hit<u32>> {
        let bytes = key.to_le_bytes();
        self.first.get(self.second.hash(&bytes), &bytes)
    }

    fn has(&mut self, key: u32) -> bool {
        self.get(key).is_some()
    }
}

#[test]
fn a_hit_is_the_slot_that_was_inserted() {
    let mut levels = Levels::new(PolicyKind::Clock, 256, 100);
    assert!(!levels.has(7));
    let hit = levels.insert(7);
    assert!(levels.get(7).is_some_and(|again| Arc::ptr_eq(again, &hit)));
    assert_eq!((*hit.value(), hit.key()), (7, &7_u32.to_le_bytes()[..]));
    assert!(!levels.has(8));
}

#[test]
fn a_hit_does_not_touch_the_shared_count() {
    let mut levels = Levels::new(PolicyKind::Clock, 256, 100);
    let hit = levels.insert(7);
    let before = Arc::strong_count(&*hit);
    let hits: Vec<_> = (0..10).map(|_| levels.get(7).cloned()).collect();
    assert!(hits.iter().all(Option::is_some));
    assert_eq!((Arc::strong_count(&*hit), Arc::strong_count(&hit)), (before, 12));
}

#[test]
fn an_evicted_slot_is_not_returned() {
    let mut levels = Levels::new(PolicyKind::Lru, 256, 3);
    let hits: Vec<_> = (0..5).map(|key| levels.insert(key)).collect();
    assert_eq!([0, 1, 2, 3, 4].map(|key| levels.has(key)), [false, false, true, true, true]);
    assert!(hits[0].is_evicted(), "references to it stay valid");
    let refused = levels.second.insert(9, b"late", 9, cost(0, 0), 0);
    levels.second.remove(9, b"late");
    levels.first.insert(refused);
    assert!(levels.first.get(9, b"late").is_none());
}

#[test]
fn a_new_version_takes_the_place_of_the_old() {
    let mut levels = Levels::new(PolicyKind::Clock, 4, 100);
    for _ in 0..20 {
        levels.insert(1);
    }
    let new = levels.insert(1);
    assert!(levels.get(1).is_some_and(|hit| Arc::ptr_eq(hit, &new)));
    for key in 2..5 {
        levels.insert(key);
    }
    assert!((1..5).all(|key| levels.has(key)), "one key never holds two of the four slots");
}

#[test]
fn keys_of_equal_hash_are_told_apart() {
    let mut levels = Levels::new(PolicyKind::Clock, 256, 100);
    for key in 0..3_u8 {
        let slot = levels.second.insert(5, &[key], u32::from(key), cost(0, 0), 0);
        levels.first.insert(slot);
    }
    for key in 0..3_u8 {
        assert_eq!(levels.first.get(5, &[key]).map(|hit| *hit.value()), Some(u32::from(key)));
    }
    assert!(levels.first.remove(5, &[1]) && !levels.first.remove(5, &[1]));
    assert!(levels.first.get(5, &[1]).is_none() && levels.first.get(5, &[2]).is_some());
}

#[test]
fn a_small_set_of_files_does_not_grow_the_table() {
    let mut levels = Levels::new(PolicyKind::Clock, 1 << 14, 1 << 14);
    assert_eq!(levels.first.slots(), 256);
    // With the randomly seeded hashes of a cache, in four of a hundred runs five of them meet in a
    // set of four, replace one another in each round, and the table rightly grows.
    let hash = |key: u32| u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..100 {
        for key in 0..40_u32 {
            let bytes = key.to_le_bytes();
            if levels.first.get(hash(key), &bytes).is_none() {
                let slot = levels.second.insert(hash(key), &bytes, key, Cost::default(), 0);
                levels.first.insert(slot);
            }
        }
    }
    assert_eq!(levels.first.slots(), 256);
}

#[test]
fn the_table_grows_to_what_is_used_and_not_over_its_limit() {
    for (slots_max, keys, expected) in [(1 << 14, 2000, 2048..=8192), (1000, 5000, 512..=512)] {
        let mut levels = Levels::new(PolicyKind::Clock, slots_max, 1 << 14);
        for _ in 0..10 {
            for key in 0..keys {
                if !levels.has(key) {
                    levels.insert(key);
                }
            }
        }
        assert!(expected.contains(&levels.first.slots()), "{} slots", levels.first.slots());
        let kept = (0..keys).filter(|&key| levels.has(key)).count();
        assert!(kept * 10 >= levels.first.slots().min(keys as usize) * 9, "{kept} of {keys}");
    }
}

#[test]
fn sizes_at_the_edge_are_made_usable() {
    for (slots_max, slots) in [(0, 4), (1, 4), (7, 4), (8, 8), (300, 256), (1 << 20, 256)] {
        assert_eq!(FirstLevel::<u32>::new(slots_max).slots(), slots);
    }
}

#[test]
fn a_sweep_lets_go_of_what_was_evicted() {
    let mut levels = Levels::new(PolicyKind::Lru, 256, 10);
    let hits: Vec<_> = (0..30).map(|key| levels.insert(key)).collect();
    let slots: Vec<_> = hits.iter().map(|hit| Arc::clone(&**hit)).collect();
    drop(hits);
    assert!(levels.first.sweep(levels.second.evictions(), 1024));
    for slot in &slots {
        // The references are this vector, and both levels or none.
        assert_eq!(Arc::strong_count(slot), if slot.is_evicted() { 1 } else { 3 });
    }
    assert_eq!(slots.iter().filter(|slot| slot.is_evicted()).count(), 20);
}

#[test]
fn a_sweep_of_a_large_table_is_done_in_turns() {
    let mut levels = Levels::new(PolicyKind::Lru, 1 << 13, 1 << 13);
    while levels.first.slots() < 1 << 13 {
        for key in 0..1 << 13 {
            levels.insert(key);
        }
    }
    let slots: Vec<_> = (0..1 << 13)
        .filter_map(|key: u32| {
            let bytes = key.to_le_bytes();
            let slot = levels.second.get(levels.second.hash(&bytes), &bytes);
            levels.second.remove(levels.second.hash(&bytes), &bytes);
            slot
        })
        .collect();
    assert_eq!(slots.len(), 1 << 13);
    let mut turns = 1;
    while !levels.first.sweep(levels.second.evictions(), 1024) {
        turns += 1;
    }
    assert_eq!(turns, 8);
    assert!(slots.iter().all(|slot| Arc::strong_count(slot) == 1));
}

/// Requests that the first level answers never reach the second; its policy must count them.
#[test]
fn hits_of_the_first_level_keep_an_entry_in_the_second() {
    for kind in PolicyKind::ALL {
        let mut levels = Levels::new(kind, 256, 10);
        for key in 0..10 {
            levels.insert(key);
        }
        for key in 10..100 {
            assert!(levels.has(0) && levels.has(0), "{kind}: evicted before {key}");
            levels.insert(key);
        }
        assert!(!levels.has(1));
    }
}
