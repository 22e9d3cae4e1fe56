//! Many threads and many shards.

use std::thread;

use file_cache::{Budget, Cache, FirstLevel, PolicyKind};

use crate::{cost, entries};

#[test]
fn small_budgets_have_fewer_shards() {
    let budget = |bytes, descriptors, entries| Budget { bytes, descriptors, entries };
    let max = usize::MAX;
    let cases = [
        (budget(max, max, max), 16, 16),
        (budget(max, max, max), 13, 8),
        (budget(max, max, max), 0, 1),
        (budget(64 << 20, 8, 10_000), 16, 1),
        (budget(64 << 20, 1024, 10_000), 16, 16),
        (budget(64 << 20, 0, 10_000), 16, 16),
        (budget(3 << 20, 1024, 10_000), 16, 2),
        (budget(64 << 20, 1024, 300), 16, 4),
    ];
    for (budget, wanted, expected) in cases {
        assert_eq!(Cache::<()>::new(PolicyKind::Lru, budget, wanted).shards(), expected);
    }
}

#[test]
fn shards_share_the_budget() {
    for kind in PolicyKind::ALL {
        let cache = Cache::new(kind, entries(1600), 16);
        assert_eq!(cache.shards(), 16);
        for n in 0..20_000_u32 {
            let key = n.to_le_bytes();
            cache.insert(cache.hash(&key), &key, n, cost(1, 0), 0);
            assert!(cache.usage().entries <= 1600);
        }
        assert_eq!(cache.usage().entries, 1600, "hashes reach every shard");
    }
}

#[test]
fn caches_are_seeded_differently() {
    let caches = [(); 2].map(|()| Cache::<()>::new(PolicyKind::Lru, entries(10), 1));
    assert_ne!(caches[0].hash(b"/index.html"), caches[1].hash(b"/index.html"));
    assert_eq!(caches[0].hash(b"/index.html"), caches[0].hash(b"/index.html"));
}

#[test]
fn threads_agree_and_leak_nothing() {
    for kind in PolicyKind::ALL {
        let budget = Budget { bytes: 4 << 20, descriptors: 300, entries: 400 };
        let cache = Cache::new(kind, budget, 4);
        thread::scope(|scope| {
            for seed in 1..=4_u64 {
                let cache = &cache;
                scope.spawn(move || work(cache, seed));
            }
        });
        let used = cache.usage();
        assert!(used.entries <= 400 && used.descriptors <= 300, "{kind}: {used:?}");
        for number in 0..1000_u64 {
            let key = number.to_le_bytes();
            cache.remove(cache.hash(&key), &key);
        }
        assert_eq!(cache.usage(), file_cache::Usage::default());
    }
}

/// The operations of a worker: requests for a thousand keys, now and then a removal or a sweep. A
/// value tells which key it is for.
fn work(cache: &Cache<u64>, seed: u64) {
    let mut first = FirstLevel::new(256);
    let mut random = seed;
    for step in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let number = (random >> 40) % 1000;
        let key = number.to_le_bytes();
        let hash = cache.hash(&key);
        if let Some(hit) = first.get(hash, &key) {
            assert_eq!(*hit.value(), number);
        } else {
            let make = || cache.insert(hash, &key, number, cost(10, number as usize % 2), 0);
            let slot = cache.get(hash, &key).unwrap_or_else(make);
            assert_eq!((slot.key(), *slot.value()), (&key[..], number));
            first.insert(slot);
        }
        if step % 97 == 0 {
            cache.remove(hash, &key);
            first.sweep(cache.evictions(), 1024);
        }
    }
}
