//! Tests within one process; those with processes that are killed are in `tests/forking.rs`.

use super::*;
use std::sync::atomic::AtomicU64;
use std::thread;

fn cells(count: usize) -> &'static [AtomicU64] {
    Vec::leak((0..count).map(|_| AtomicU64::new(0)).collect())
}

#[test]
fn one_holder_at_a_time() {
    let owners = Owners::new(cells(Owners::cells(4)));
    let memory = cells(2);
    thread::scope(|scope| {
        for slot in 0..4 {
            scope.spawn(move || {
                // Threads of one process: each an owner of its own, because each has a number.
                let owner = owners.enter(slot, slot as u32 + 1).unwrap();
                for _ in 0..20_000 {
                    let held = owner.lock(&memory[0]);
                    assert!(!held.is_inherited());
                    let count = memory[1].load(Ordering::Relaxed);
                    memory[1].store(count + 1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(memory[1].load(Ordering::Relaxed), 80_000);
    assert_eq!(memory[0].load(Ordering::Relaxed), 0);
}

#[test]
fn the_next_holder_is_told_of_a_panic() {
    let owner = Owners::new(cells(Owners::cells(1))).enter(0, 1).unwrap();
    let word = &cells(1)[0];
    let panicked = thread::spawn(move || {
        let _held = owner.lock(word);
        panic!("in the middle of a change (this message is expected)");
    });
    assert!(panicked.join().is_err());
    assert!(owner.lock(word).is_inherited());
    assert!(!owner.lock(word).is_inherited());
}

#[test]
fn an_incarnation_that_was_buried_is_dead_and_another_is_not() {
    let owners = Owners::new(cells(Owners::cells(2)));
    let locks = cells(2);
    let first = owners.enter(0, 1).unwrap();
    owners.enter(1, 2).unwrap();
    std::mem::forget(first.lock(&locks[0]));
    assert!(!owners.is_dead(1) && !owners.is_dead(2));
    owners.release_dead(0, locks.iter());
    assert!(owners.is_dead(1) && !owners.is_dead(2));
    let next = owners.enter(0, 3).unwrap();
    assert!(next.lock(&locks[0]).is_inherited());
    assert!(!next.lock(&locks[1]).is_inherited());
}

#[test]
fn a_process_is_known_by_when_it_started() {
    let (state, start) = state_of(std::process::id()).unwrap();
    assert!(matches!(state, b'R' | b'S'), "{state}");
    assert!(start > 0);
    let cells = cells(Owners::cells(1));
    let owners = Owners::new(cells);
    owners.enter(0, 1).unwrap();
    assert!(!owners.is_dead(1));
    // Another process with that number, started later.
    cells[2].store(start + 1, Ordering::Relaxed);
    assert!(owners.is_dead(1));
    // A process that no longer exists: numbers end at 2^22.
    cells[1].store(1 << 30, Ordering::Relaxed);
    assert!(owners.is_dead(1));
}
