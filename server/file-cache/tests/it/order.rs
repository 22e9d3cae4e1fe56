//! The differences of the policies: which entry leaves, in small cases worked out by hand, and LRU
//! against a naive model.

use std::collections::VecDeque;

use file_cache::PolicyKind::{Clock, Lru, S3Fifo};
use file_cache::{Cache, PolicyKind};
use proptest::prelude::*;

use crate::{cache, cost, entries, lookup, put};

/// Requests each letter of `requests` in turn, inserts missing ones, and compares the content
/// afterwards.
fn check(kind: PolicyKind, capacity: usize, requests: &str, expected: &str) {
    let cache = cache(kind, entries(capacity));
    for key in requests.split(' ').filter(|key| !key.is_empty()) {
        request(&cache, key);
    }
    let mut keys: Vec<&str> = requests.split(' ').collect();
    keys.sort_unstable();
    keys.dedup();
    keys.retain(|key| cache.get(cache.hash(key.as_bytes()), key.as_bytes()).is_some());
    assert_eq!(keys.concat(), expected, "{kind} with {capacity} entries after {requests}");
}

fn request(cache: &Cache<u32>, key: &str) -> bool {
    let hit = lookup(cache, key).is_some();
    if !hit {
        put(cache, key, 0, cost(1, 0));
    }
    hit
}

#[test]
fn lru_evicts_the_least_recently_used() {
    check(Lru, 3, "a b c", "abc");
    check(Lru, 3, "a b c d", "bcd");
    check(Lru, 3, "a b c a d", "acd");
    check(Lru, 3, "a b c a b d e", "bde");
    check(Lru, 3, "a a a b c d", "bcd");
    check(Lru, 1, "a b a c", "c");
}

#[test]
fn clock_gives_a_second_chance() {
    check(Clock, 3, "a b c", "abc");
    check(Clock, 3, "a b c d", "bcd");
    check(Clock, 3, "a b c a d", "acd");
    // The hand passes a, whose bit was set, and takes b; then c; then a, whose bit is clear now.
    check(Clock, 3, "a b c a d e", "ade");
    check(Clock, 3, "a b c a d e f", "def");
    // All bits are set: one turn clears them, and the first entry is taken.
    check(Clock, 3, "a b c a b c d", "bcd");
    // There is one bit: many uses count as one.
    check(Clock, 3, "a a a a b c d e f", "def");
    check(Clock, 1, "a b a c", "c");
}

#[test]
fn s3_fifo_keeps_what_is_used_twice_and_remembers_the_others() {
    check(S3Fifo, 3, "a b c", "abc");
    check(S3Fifo, 3, "a b c d", "bcd");
    // One use in the small queue is not enough, two are.
    check(S3Fifo, 3, "a b c a d", "bcd");
    check(S3Fifo, 3, "a b c a a d e f g h", "agh");
    // b has left and is remembered: it comes back into the main queue and outlives a scan.
    check(S3Fifo, 3, "a b c d e b f g h i", "bhi");
    check(S3Fifo, 1, "a b a c", "c");
}

#[test]
fn a_new_version_inherits_the_uses_of_the_old() {
    for kind in [Clock, S3Fifo] {
        let cache = cache(kind, entries(3));
        for key in ["a", "b", "c", "a", "a"] {
            request(&cache, key);
        }
        put(&cache, "a", 1, cost(1, 0));
        for key in ["d", "e", "f"] {
            request(&cache, key);
        }
        // One turn of the clock has used up the second chance; S3-FIFO has moved the entry to the
        // main queue.
        let expected = if kind == S3Fifo { Some(1) } else { None };
        assert_eq!(lookup(&cache, "a"), expected, "{kind}");
    }
}

/// The hit ratio of a hot set that is requested around a scan of files that are requested once.
fn hot_hits_after_scan(kind: PolicyKind) -> usize {
    let cache = cache(kind, entries(100));
    for _ in 0..4 {
        for n in 0..50 {
            request(&cache, &format!("/hot/{n}"));
        }
    }
    for n in 0..10_000 {
        request(&cache, &format!("/cold/{n}"));
    }
    (0..50).filter(|n| lookup(&cache, &format!("/hot/{n}")).is_some()).count()
}

#[test]
fn only_s3_fifo_resists_a_scan() {
    assert_eq!(hot_hits_after_scan(S3Fifo), 50);
    assert_eq!(hot_hits_after_scan(Lru), 0);
    assert_eq!(hot_hits_after_scan(Clock), 0);
}

proptest! {
    #[test]
    fn lru_is_the_naive_lru(
        requests in prop::collection::vec(0_u8..24, 0..400),
        capacity in 1_usize..20,
    ) {
        let cache = cache(Lru, entries(capacity));
        let mut model = VecDeque::new();
        for key in requests {
            let position = model.iter().position(|&other| other == key);
            let hit = position.and_then(|position| model.remove(position)).is_some();
            model.push_back(key);
            if model.len() > capacity {
                model.pop_front();
            }
            prop_assert_eq!(request(&cache, &key.to_string()), hit);
        }
    }
}
