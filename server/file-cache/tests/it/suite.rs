//! What every policy must do, instantiated for each of them. Their differences are tested in
//! `order`.

use std::sync::Arc;

use file_cache::{Budget, Cache, FirstLevel, PolicyKind, Round, Usage};

use crate::{cache, cost, entries, lookup, put, remove};

macro_rules! suite {
    ($($module:ident: $kind:ident,)*) => {
        /// The policies of the suite, to be compared with all existing policies.
        const INSTANTIATED: &[PolicyKind] = &[$(PolicyKind::$kind),*];
        $(mod $module {
            use file_cache::PolicyKind::$kind as KIND;

            #[test]
            fn finds_what_was_inserted_and_nothing_else() {
                super::finds_what_was_inserted_and_nothing_else(KIND);
            }
            #[test]
            fn keeps_what_fits_and_evicts_what_does_not() {
                super::keeps_what_fits_and_evicts_what_does_not(KIND);
            }
            #[test]
            fn replaces_in_place_and_marks_the_old_version() {
                super::replaces_in_place_and_marks_the_old_version(KIND);
            }
            #[test]
            fn honours_every_budget_after_every_operation() {
                super::honours_every_budget_after_every_operation(KIND);
            }
            #[test]
            fn does_not_keep_what_is_larger_than_the_budget() {
                super::does_not_keep_what_is_larger_than_the_budget(KIND);
            }
            #[test]
            fn removes_and_takes_back() {
                super::removes_and_takes_back(KIND);
            }
            #[test]
            fn tells_keys_of_equal_hash_apart() {
                super::tells_keys_of_equal_hash_apart(KIND);
            }
            #[test]
            fn evicts_many_small_entries_for_a_large_one() {
                super::evicts_many_small_entries_for_a_large_one(KIND);
            }
            #[test]
            fn a_shortage_of_descriptors_leaves_plain_entries_alone() {
                super::a_shortage_of_descriptors_leaves_plain_entries_alone(KIND);
            }
            #[test]
            fn a_used_entry_outlives_an_unused_one() {
                super::a_used_entry_outlives_an_unused_one(KIND);
            }
            #[test]
            fn a_pass_finds_entries_without_requests() {
                super::a_pass_finds_entries_without_requests(KIND);
            }
            #[test]
            fn drops_values_with_the_cache() {
                super::drops_values_with_the_cache(KIND);
            }
        })*
    };
}

suite! {
    lru: Lru,
    clock: Clock,
    s3_fifo: S3Fifo,
}

#[test]
fn the_suite_is_instantiated_for_every_policy() {
    assert_eq!(INSTANTIATED, PolicyKind::ALL);
}

fn finds_what_was_inserted_and_nothing_else(kind: PolicyKind) {
    let cache = cache(kind, entries(8));
    assert_eq!(lookup(&cache, "/a"), None);
    let slot = put(&cache, "/a", 1, cost(10, 1));
    assert_eq!((slot.key(), *slot.value(), slot.cost()), (&b"/a"[..], 1, cost(10, 1)));
    assert_eq!(slot.hash(), cache.hash(b"/a"));
    assert_eq!(lookup(&cache, "/a"), Some(1));
    assert_eq!(lookup(&cache, "/A"), None);
    assert_eq!(lookup(&cache, ""), None);
    put(&cache, "", 2, cost(0, 0));
    assert_eq!(lookup(&cache, ""), Some(2));
    slot.set_validated(77);
    assert_eq!(cache.get(slot.hash(), b"/a").map(|slot| slot.validated()), Some(77));
}

fn keeps_what_fits_and_evicts_what_does_not(kind: PolicyKind) {
    let cache = cache(kind, entries(100));
    let slots: Vec<_> = (0..100).map(|n| put(&cache, &n.to_string(), n, cost(1, 0))).collect();
    assert_eq!(cache.evictions(), 0);
    assert!((0..100).all(|n| lookup(&cache, &n.to_string()) == Some(n)));
    for n in 100..150 {
        put(&cache, &n.to_string(), n, cost(1, 0));
        assert_eq!(lookup(&cache, &n.to_string()), Some(n), "a newcomer is not its own victim");
    }
    assert_eq!(cache.evictions(), 50);
    assert_eq!(cache.usage(), Usage { bytes: 100, descriptors: 0, entries: 100 });
    for slot in &slots {
        let kept = cache.get(slot.hash(), slot.key()).is_some();
        assert_eq!(slot.is_evicted(), !kept);
    }
}

fn replaces_in_place_and_marks_the_old_version(kind: PolicyKind) {
    let budget = Budget { bytes: 100, descriptors: 2, entries: 3 };
    let cache = cache(kind, budget);
    let old = put(&cache, "/a", 1, cost(10, 0));
    put(&cache, "/b", 2, cost(10, 0));
    let new = put(&cache, "/a", 3, cost(20, 0));
    assert_eq!((old.is_evicted(), new.is_evicted(), cache.evictions()), (true, false, 1));
    assert_eq!((*old.value(), lookup(&cache, "/a"), lookup(&cache, "/b")), (1, Some(3), Some(2)));
    assert_eq!(cache.usage(), Usage { bytes: 30, descriptors: 0, entries: 2 });
    // The new version is of the other kind, or needs room that only other entries can make.
    put(&cache, "/a", 4, cost(20, 2));
    assert_eq!(cache.usage(), Usage { bytes: 30, descriptors: 2, entries: 2 });
    put(&cache, "/a", 5, cost(95, 2));
    assert_eq!((lookup(&cache, "/a"), lookup(&cache, "/b")), (Some(5), None));
    assert_eq!(cache.usage(), Usage { bytes: 95, descriptors: 2, entries: 1 });
}

fn honours_every_budget_after_every_operation(kind: PolicyKind) {
    let budgets = [
        Budget { bytes: 1000, descriptors: 1000, entries: 1000 },
        Budget { bytes: 1_000_000, descriptors: 7, entries: 1000 },
        Budget { bytes: 1_000_000, descriptors: 1000, entries: 9 },
        Budget { bytes: 150, descriptors: 3, entries: 5 },
        Budget { bytes: 0, descriptors: 3, entries: 5 },
        Budget { bytes: 500, descriptors: 0, entries: 5 },
        Budget { bytes: 500, descriptors: 3, entries: 0 },
    ];
    for budget in budgets {
        let cache = cache(kind, budget);
        for n in 0..2000_usize {
            let key = (n * 7919 % 61).to_string();
            if lookup(&cache, &key).is_none() {
                put(&cache, &key, 0, cost(n % 90, n % 3));
            }
            let used = cache.usage();
            assert!(used.bytes <= budget.bytes, "{used:?} {budget:?}");
            assert!(used.descriptors <= budget.descriptors, "{used:?} {budget:?}");
            assert!(used.entries <= budget.entries, "{used:?} {budget:?}");
        }
    }
}

fn does_not_keep_what_is_larger_than_the_budget(kind: PolicyKind) {
    let cache = cache(kind, Budget { bytes: 100, descriptors: 2, entries: 10 });
    put(&cache, "/small", 1, cost(40, 1));
    for (key, cost) in [("/bytes", cost(101, 0)), ("/descriptors", cost(1, 3))] {
        let before = cache.evictions();
        let slot = put(&cache, key, 2, cost);
        assert!(slot.is_evicted());
        assert_eq!(*slot.value(), 2, "the caller can still answer with it");
        assert_eq!((lookup(&cache, key), cache.evictions()), (None, before + 1));
    }
    assert_eq!(lookup(&cache, "/small"), Some(1), "no entry was evicted without need");
    assert!(!put(&cache, "/exact", 3, cost(100, 2)).is_evicted());
    // A version that is too large still removes the one before.
    assert!(put(&cache, "/exact", 4, cost(101, 2)).is_evicted());
    assert_eq!((lookup(&cache, "/exact"), cache.usage()), (None, Usage::default()));
}

fn removes_and_takes_back(kind: PolicyKind) {
    let cache = cache(kind, entries(20));
    for round in 0..50 {
        let slots: Vec<_> =
            (0..20).map(|n| put(&cache, &n.to_string(), round, cost(1, n % 2))).collect();
        assert!((0..20).all(|n| remove(&cache, &n.to_string())));
        assert!((0..20).all(|n| !remove(&cache, &n.to_string())));
        assert!(slots.iter().all(|slot| slot.is_evicted()));
        assert_eq!(cache.usage(), Usage::default());
    }
    put(&cache, "3", 99, cost(1, 1));
    assert_eq!(lookup(&cache, "3"), Some(99));
}

fn tells_keys_of_equal_hash_apart(kind: PolicyKind) {
    let cache = cache(kind, entries(50));
    let key = |n: u32| n.to_le_bytes();
    for n in 0..200 {
        cache.insert(42, &key(n), n, cost(1, 0), 0);
    }
    let found = (0..200).filter(|&n| {
        let slot = cache.get(42, &key(n));
        slot.inspect(|slot| assert_eq!(*slot.value(), n)).is_some()
    });
    assert_eq!(found.count(), 50);
    assert!(cache.get(42, b"other").is_none());
    // Keys are removed from the middle, the front and the back of the one chain.
    let present: Vec<u32> = (0..200).filter(|&n| cache.get(42, &key(n)).is_some()).collect();
    for &n in present.iter().step_by(3) {
        assert!(cache.remove(42, &key(n)));
    }
    for (position, &n) in present.iter().enumerate() {
        assert_eq!(cache.get(42, &key(n)).is_some(), position % 3 != 0);
    }
}

fn evicts_many_small_entries_for_a_large_one(kind: PolicyKind) {
    let cache = cache(kind, Budget { bytes: 1000, descriptors: 0, entries: 1000 });
    for n in 0..1000 {
        put(&cache, &n.to_string(), n, cost(1, 0));
    }
    assert!(!put(&cache, "/large", 1, cost(990, 0)).is_evicted());
    assert_eq!(cache.usage(), Usage { bytes: 1000, descriptors: 0, entries: 11 });
    assert_eq!(cache.evictions(), 990);
}

fn a_shortage_of_descriptors_leaves_plain_entries_alone(kind: PolicyKind) {
    let cache = cache(kind, Budget { bytes: 1 << 20, descriptors: 4, entries: 1000 });
    let plain: Vec<_> = (0..500).map(|n| put(&cache, &n.to_string(), n, cost(100, 0))).collect();
    for n in 0..500 {
        put(&cache, &format!("/open/{n}"), n, cost(100, 1));
    }
    assert!(plain.iter().all(|slot| !slot.is_evicted()));
    assert_eq!(cache.usage(), Usage { bytes: 50_400, descriptors: 4, entries: 504 });
}

fn a_used_entry_outlives_an_unused_one(kind: PolicyKind) {
    let cache = cache(kind, entries(10));
    for n in 0..10 {
        put(&cache, &n.to_string(), n, cost(1, 0));
    }
    // Twice, because a single use is not enough for S3-FIFO.
    assert_eq!((lookup(&cache, "0"), lookup(&cache, "0")), (Some(0), Some(0)));
    for n in 10..18 {
        put(&cache, &n.to_string(), n, cost(1, 0));
    }
    assert_eq!(lookup(&cache, "0"), Some(0));
    assert_eq!(lookup(&cache, "1"), None);
}

fn a_pass_finds_entries_without_requests(kind: PolicyKind) {
    const FILES: usize = 500;
    const PARTS: usize = 3;
    let cache = Cache::new(kind, entries(10_000), 4);
    let mut first = FirstLevel::new(1024);
    for file in 0..FILES {
        put(&cache, &format!("plain {file}"), 0, cost(1, 0));
        put(&cache, &format!("open {file}"), 1, cost(1, 1));
    }
    let asked = |cache: &Cache<u32>, first: &mut FirstLevel<u32>| {
        let (by_first, by_second) = ("open 1", "open 2");
        let hash = cache.hash(by_first.as_bytes());
        if first.get(hash, by_first.as_bytes()).is_none() {
            first.insert(cache.get(hash, by_first.as_bytes()).expect("it is asked for"));
        }
        assert_eq!(lookup(cache, by_second), Some(1));
    };
    let mut round = Round::default();
    for rounds in 1..=3 {
        let mut looked = 0;
        for _ in 0..PARTS {
            asked(&cache, &mut first);
            cache.scan_part(&mut round, PARTS, &mut |slot| {
                assert_eq!(*slot.value(), 1, "only what has descriptors");
                looked += 1;
                slot.count_check() >= 3
            });
        }
        assert_eq!(looked, FILES, "each once in a round");
        let left = if rounds < 3 { FILES } else { 2 };
        assert_eq!(cache.usage().descriptors, left, "after {rounds} rounds");
    }
    assert_eq!(cache.usage().entries, FILES + 2);
    asked(&cache, &mut first);
}

fn drops_values_with_the_cache(kind: PolicyKind) {
    let value = Arc::new(());
    let cache = Cache::new(kind, entries(10), 1);
    for n in 0..25_u8 {
        cache.insert(u64::from(n), &[n], Arc::clone(&value), cost(1, 0), 0);
        assert_eq!(Arc::strong_count(&value), 1 + usize::from(n + 1).min(10));
    }
    cache.remove(24, &[24]);
    assert_eq!(Arc::strong_count(&value), 10);
    drop(cache);
    assert_eq!(Arc::strong_count(&value), 1);
}
