//! The cache in shared memory: an entry is right or missing, whatever happens to the memory. These
//! tests run within one process; killed processes are covered by the tests of the engine that uses
//! it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use file_cache::shared::{Keeper, Label, Layout, SharedCache, SharedUsage};
use proptest::collection::vec;
use proptest::prelude::*;

/// A keeper without other holders. When it is set to, it reports once that the last holder has
/// died.
#[derive(Default)]
struct Alone {
    is_inherited: Cell<bool>,
}

impl Keeper for Alone {
    fn with_lock(&self, _: &'static AtomicU64, section: &mut dyn FnMut(bool)) {
        section(self.is_inherited.take());
    }
}

fn cells(layout: Layout) -> &'static [AtomicU64] {
    Vec::leak((0..layout.cells()).map(|_| AtomicU64::new(0)).collect())
}

fn cache(bytes: usize, entries: usize, shards: usize) -> SharedCache {
    let layout = Layout::new(bytes, entries, shards);
    SharedCache::new(cells(layout), layout)
}

/// A hash that is spread over shards and buckets, with collisions in both.
fn hash(key: u8) -> u64 {
    u64::from(key).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn value(key: u8, version: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 + version + u64::from(key)) as u8).collect()
}

fn label(version: u64) -> Label {
    Label { version, validated: version * 10 }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, usize),
    Get(u8),
    Validate(u8),
    Die(u8),
    Flip(prop::sample::Index, u8),
}

fn steps(flips: bool) -> impl Strategy<Value = Vec<Step>> {
    let key = 0_u8..60;
    let insert = (key.clone(), 0_usize..4000).prop_map(|(key, len)| Step::Insert(key, len));
    let flip = (any::<prop::sample::Index>(), 0_u8..64);
    let flip = flip.prop_map(|(at, bit)| Step::Flip(at, bit));
    vec(
        prop_oneof![
            8 => insert,
            8 => key.clone().prop_map(Step::Get),
            2 => key.clone().prop_map(Step::Validate),
            u32::from(flips) => key.prop_map(Step::Die),
            2 * u32::from(flips) => flip,
        ],
        1..300,
    )
}

/// Runs the steps, and checks after each get that the value found is the one inserted last.
fn run(steps: &[Step]) -> SharedUsage {
    let layout = Layout::new(64 << 10, 40, 2);
    let cells = cells(layout);
    let cache = SharedCache::new(cells, layout);
    let keeper = Alone::default();
    let mut model: HashMap<u8, (u64, usize)> = HashMap::new();
    let mut found = Vec::new();
    for (version, step) in steps.iter().enumerate() {
        let version = version as u64;
        match *step {
            Step::Insert(key, len) => {
                let value = value(key, version, len);
                if cache.insert(&keeper, hash(key), &[key; 3], &value, label(version)) {
                    model.insert(key, (version, len));
                } else {
                    model.remove(&key);
                }
            }
            Step::Get(key) => {
                let Some(at) = cache.get(&keeper, hash(key), &[key; 3], &mut found) else {
                    continue;
                };
                let (version, len) = model[&key];
                assert_eq!(at.version, version, "key {key}");
                assert_eq!(found, value(key, version, len), "key {key}");
            }
            Step::Validate(key) => {
                let version = model.get(&key).map_or(0, |at| at.0);
                cache.validate(&keeper, hash(key), version, 7);
                let at = cache.label(&keeper, hash(key));
                assert!(at.is_none_or(|at| at.version != version || at.validated == 7));
            }
            Step::Die(key) => {
                keeper.is_inherited.set(true);
                assert!(cache.get(&keeper, hash(key), &[key; 3], &mut found).is_none());
            }
            Step::Flip(at, bit) => {
                cells[at.index(cells.len())].fetch_xor(1 << bit, Ordering::Relaxed);
            }
        }
    }
    cache.usage()
}

proptest! {
    #[test]
    fn what_is_found_is_what_was_put_in(steps in steps(false)) {
        let usage = run(&steps);
        prop_assert!(usage.entries <= 40 && usage.bytes <= 64 << 10, "{usage:?}");
        prop_assert_eq!(usage.resets, 0);
    }

    /// Bits of the memory change and holders die: entries are forgotten, and none is wrong.
    #[test]
    fn no_memory_does_harm(steps in steps(true)) {
        run(&steps);
    }

    /// Arbitrary numbers in all cells do no harm either.
    #[test]
    fn no_numbers_do_harm(numbers in vec(prop_oneof![0_u64..70, any::<u64>()], 1..200)) {
        let layout = Layout::new(16 << 10, 20, 1);
        let cells = cells(layout);
        for (cell, number) in cells.iter().zip(numbers.iter().cycle()).skip(1) {
            cell.store(*number, Ordering::Relaxed);
        }
        let cache = SharedCache::new(cells, layout);
        let keeper = Alone::default();
        for key in 0..40 {
            let _ = cache.get(&keeper, hash(key), &[key; 3], &mut Vec::new());
            cache.validate(&keeper, hash(key), 1, 1);
            cache.insert(&keeper, hash(key), &[key; 3], &value(key, 1, 500), label(1));
        }
        let mut found = Vec::new();
        cache.insert(&keeper, hash(7), &[7; 3], b"here", label(1));
        cache.insert(&keeper, hash(7), &[7; 3], b"here", label(1));
        prop_assert!(cache.get(&keeper, hash(7), &[7; 3], &mut found).is_some());
        prop_assert_eq!(found, b"here");
    }
}

#[test]
fn what_is_used_stays_and_the_rest_makes_room() {
    let cache = cache(1 << 20, 32, 1);
    let keeper = Alone::default();
    let mut found = Vec::new();
    for key in 0..100 {
        assert!(cache.insert(&keeper, hash(key), &[key], &[key; 100], label(1)));
        assert!(cache.get(&keeper, hash(0), &[0], &mut found).is_some(), "{key}");
        assert_eq!(found, [0; 100]);
    }
    let usage = cache.usage();
    assert_eq!((usage.entries, usage.evictions), (32, 68));
}

/// A length that exceeds all memory is among them.
#[test]
fn no_bit_that_is_wrong_does_harm() {
    let layout = Layout::new(64 << 10, 40, 2);
    let cells = cells(layout);
    let cache = SharedCache::new(cells, layout);
    let keeper = Alone::default();
    let value = value(1, 1, 300);
    let insert = || assert!(cache.insert(&keeper, 1, b"k", &value, label(1)));
    insert();
    let used: Vec<usize> =
        (0..cells.len()).filter(|&at| cells[at].load(Ordering::Relaxed) != 0).collect();
    assert!(used.len() > 300 / 8);
    for (at, bit) in used.into_iter().flat_map(|at| (0..64).map(move |bit| (at, bit))) {
        cells[at].fetch_xor(1 << bit, Ordering::Relaxed);
        let mut found = Vec::new();
        if cache.get(&keeper, 1, b"k", &mut found).is_some() {
            assert_eq!(found, value, "cell {at}, bit {bit}");
        }
        assert!(found.capacity() <= 64 << 10, "cell {at}, bit {bit}: {}", found.capacity());
        for cell in cells {
            cell.store(0, Ordering::Relaxed);
        }
        insert();
    }
}

#[test]
fn what_is_too_large_is_refused_and_its_forerunner_leaves() {
    let cache = cache(64 << 10, 100, 1);
    let keeper = Alone::default();
    assert!(cache.insert(&keeper, 1, b"k", b"small", label(1)));
    assert!(!cache.insert(&keeper, 1, b"k", &[0; 20_000], label(2)));
    assert!(cache.get(&keeper, 1, b"k", &mut Vec::new()).is_none());
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let cache = cache(64 << 10, 100, 1);
    let keeper = Alone::default();
    let keys: [&[u8]; 4] = [b"", b"a", b"b", &[b'a'; 1000]];
    for (version, key) in (0..).zip(keys) {
        assert!(cache.insert(&keeper, 5, key, key, label(version)));
    }
    for (version, key) in (0..).zip(keys) {
        let mut found = vec![1, 2, 3];
        assert_eq!(cache.get(&keeper, 5, key, &mut found), Some(label(version)));
        assert_eq!(found, key);
    }
}

#[test]
fn a_revalidation_of_an_older_version_says_nothing_of_the_newer() {
    let cache = cache(64 << 10, 100, 1);
    let keeper = Alone::default();
    cache.insert(&keeper, 1, b"k", b"v", label(2));
    cache.validate(&keeper, 1, 1, 99);
    assert_eq!(cache.label(&keeper, 1).unwrap().validated, 20);
    cache.validate(&keeper, 1, 2, 99);
    assert_eq!(cache.label(&keeper, 1).unwrap().validated, 99);
}

/// A mutex for each lock word, which is right for any number of words.
struct Threads(Vec<Mutex<()>>, usize);

impl Keeper for Threads {
    fn with_lock(&self, lock: &'static AtomicU64, section: &mut dyn FnMut(bool)) {
        let index = (std::ptr::from_ref(lock) as usize - self.1) / 8 % self.0.len();
        let _held = self.0[index].lock().unwrap_or_else(PoisonError::into_inner);
        section(false);
    }
}

#[test]
fn many_at_once_find_what_others_put_in() {
    let layout = Layout::new(1 << 20, 1000, 4);
    let cells = cells(layout);
    let cache = SharedCache::new(cells, layout);
    // One mutex for all words is right whatever the words are.
    let keeper = Threads(vec![Mutex::new(())], cells.as_ptr() as usize);
    assert_eq!(cache.locks().count(), 4);
    thread::scope(|scope| {
        for thread in 0..4_u64 {
            let keeper = &keeper;
            scope.spawn(move || {
                let mut found = Vec::new();
                for round in 0..5000_u64 {
                    let key = ((round * 7 + thread) % 100) as u8;
                    let version = round % 3;
                    if let Some(at) = cache.get(keeper, hash(key), &[key], &mut found) {
                        assert_eq!(found, value(key, at.version, 700));
                    }
                    let value = value(key, version, 700);
                    cache.insert(keeper, hash(key), &[key], &value, label(version));
                }
            });
        }
    });
    assert_eq!(cache.usage().resets, 0);
}
