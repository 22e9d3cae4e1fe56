//! A level of the cache beyond the worker's process: entries of one worker are available to others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use session::{Job, Known, Limits, SharedLevel, Stamp};

use crate::memory::{MemoryFiles, Pair};

const GET: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";

/// Entries that all workers share, by hashes on which all must agree.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<HashMap<u64, Kept>>>);

/// A key, an encoded entry, and its stamp.
type Kept = (Vec<u8>, Vec<u8>, Stamp);

impl SharedLevel for Shelf {
    fn find(&mut self, hash: u64, key: &[u8], bytes: &mut Vec<u8>) -> Option<Stamp> {
        let shelf = self.0.lock().unwrap();
        let (own, entry, stamp) = shelf.get(&hash)?;
        assert_eq!(own, key);
        bytes.clone_from(entry);
        Some(*stamp)
    }

    fn stamp(&mut self, hash: u64) -> Option<Stamp> {
        self.0.lock().unwrap().get(&hash).map(|found| found.2)
    }

    fn validate(&mut self, hash: u64, stamp: Stamp) {
        let mut shelf = self.0.lock().unwrap();
        if let Some(found) = shelf.get_mut(&hash).filter(|found| found.2.version == stamp.version) {
            found.2 = stamp;
        }
    }

    fn insert(&mut self, hash: u64, key: &[u8], bytes: &[u8], stamp: Stamp) {
        let older = self.0.lock().unwrap().insert(hash, (key.into(), bytes.into(), stamp));
        assert!(older.is_none_or(|older| older.2.version != stamp.version), "it was there");
    }
}

/// Two workers with the same files, as if in two processes.
fn pairs(small_body_bytes_max: u64) -> ([Pair; 2], Shelf) {
    let shelf = Shelf::default();
    let mut pairs = [(); 2].map(|()| {
        let mut pair = Pair::new(MemoryFiles::new(&[("a.txt", b"0123456789")]), Limits::default());
        pair.small_body_bytes_max = small_body_bytes_max;
        pair
    });
    let prototype = Arc::clone(pairs[0].worker.cache());
    for pair in &mut pairs {
        let second = Arc::new(prototype.emptied(prototype.budget()));
        pair.worker.use_cache(second);
        pair.worker.set_shared_level(Box::new(shelf.clone()));
    }
    (pairs, shelf)
}

/// Sends a request. Returns the body and the number of jobs it took.
fn request(pair: &mut Pair) -> (String, u64) {
    pair.received.clear();
    let before = pair.counters.cache_misses.get();
    pair.send(GET);
    let text = String::from_utf8_lossy(&pair.received).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{text}");
    (body.into(), pair.counters.cache_misses.get() - before)
}

fn found(body: &str, jobs: u64) -> (String, u64) {
    (body.into(), jobs)
}

#[test]
fn an_entry_resolved_by_one_is_sent_by_the_other() {
    let ([mut one, mut other], _) = pairs(u64::MAX);
    assert_eq!(request(&mut one), found("0123456789", 1));
    assert_eq!(request(&mut other), found("0123456789", 0));
    assert_eq!(one.received, other.received);
    assert_eq!(request(&mut other), found("0123456789", 0));
}

#[test]
fn an_entry_checked_by_one_is_fresh_for_the_other() {
    let ([mut one, mut other], _) = pairs(u64::MAX);
    assert_eq!(request(&mut one).1 + request(&mut other).1, 1);
    for pair in [&mut one, &mut other] {
        pair.advance(1500);
    }
    assert_eq!(request(&mut one), found("0123456789", 1));
    assert_eq!(request(&mut other), found("0123456789", 0));
    for pair in [&mut one, &mut other] {
        pair.advance(1500);
    }
    assert_eq!(request(&mut other), found("0123456789", 1), "a second later it is due for both");
}

#[test]
fn a_change_noticed_by_one_is_known_to_the_other() {
    let ([mut one, mut other], _) = pairs(u64::MAX);
    assert_eq!(request(&mut one).1 + request(&mut other).1, 1);
    for pair in [&mut one, &mut other] {
        pair.files.put("a.txt", b"new");
        pair.advance(1500);
    }
    assert_eq!(request(&mut one), found("new", 1));
    assert_eq!(request(&mut other), found("new", 0));
}

#[test]
fn a_file_that_is_sent_from_its_descriptor_is_opened_by_each() {
    let ([mut one, mut other], _) = pairs(0);
    assert_eq!(request(&mut one), found("0123456789", 1));
    other.holds_jobs = true;
    other.send(GET);
    let job = other.held.as_ref().map(|(_, job)| job);
    assert!(matches!(job, Some(Job::Resolve { known: Known::Encoded(_), .. })), "{job:?}");
    other.finish_job();
    other.holds_jobs = false;
    assert!(other.received.ends_with(b"\r\n\r\n0123456789"));
    assert_eq!(request(&mut other), found("0123456789", 0), "it has it open from then on");
}

#[test]
fn bytes_that_are_no_entry_are_nothing() {
    let ([mut one, mut other], shelf) = pairs(u64::MAX);
    assert_eq!(request(&mut one).1, 1);
    shelf.0.lock().unwrap().values_mut().for_each(|(_, bytes, _)| bytes.truncate(20));
    assert_eq!(request(&mut other), found("0123456789", 1));
}
