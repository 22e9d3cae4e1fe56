//! Tests of a cache in memory that processes share, while they are killed at any instruction.
//! Without the usual harness: that runs tests in threads, and a process with threads cannot fork.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use file_cache::shared::{Keeper, Label, Layout, SharedCache};
use os::fork::{Child, Ended, fork};
use os::robust_lock::{Owner, Owners};
use os::shared_memory::{create_cells, map_cells};

const SLOTS: usize = 3;
const KEYS: u64 = 40;
/// How many processes are killed at least.
const KILLS: usize = 400;

/// Long enough for many processes to be killed in the middle of a change.
const VALUE_LEN_MAX: usize = 12_000;

// The counts of the processes, a cell each.
const FOUND: usize = 0;
const INSERTED: usize = 1;
const WRONG: usize = 2;
const INHERITED: usize = 3;

testkit::one_by_one![processes_killed_at_any_instruction_leave_the_cache_usable_and_right];

#[derive(Clone, Copy)]
struct Memory {
    owners: Owners,
    cache: SharedCache,
    counts: &'static [AtomicU64],
}

/// Takes the locks for one process. Counts the locks inherited from processes that died.
struct Hands(Owner, &'static AtomicU64);

impl Keeper for Hands {
    fn with_lock(&self, lock: &'static AtomicU64, section: &mut dyn FnMut(bool)) {
        let held = self.0.lock(lock);
        self.1.fetch_add(held.is_inherited().into(), Ordering::Relaxed);
        section(held.is_inherited());
    }
}

fn memory(cells: usize) -> &'static [AtomicU64] {
    map_cells(create_cells(cells).unwrap().as_fd()).unwrap().leak()
}

/// A value of which each byte depends on the key and the version.
fn value(key: u64, version: u64) -> Vec<u8> {
    let seed = key * 31 + version * 7;
    let len = 100 + (seed * 977) as usize % VALUE_LEN_MAX;
    (0..len as u64).map(|at| ((at * 13 + seed) % 251) as u8).collect()
}

/// A hash that spreads the keys over all shards and buckets.
fn hash(key: u64) -> u64 {
    (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Memory {
    fn new() -> Self {
        // Too small for all values, so that entries come and go.
        let layout = Layout::new(300_000, 30, 2);
        Self {
            owners: Owners::new(memory(Owners::cells(SLOTS))),
            cache: SharedCache::new(memory(layout.cells()), layout),
            counts: memory(4),
        }
    }

    fn count(&self, cell: usize) {
        self.counts[cell].fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self, cell: usize) -> u64 {
        self.counts[cell].load(Ordering::Relaxed)
    }

    /// Whether the processes have done enough for a test, and one was killed while it held a lock:
    /// on a busy machine they hardly get a CPU before they are killed.
    fn is_enough(&self) -> bool {
        self.get(INHERITED) > 0 && self.get(FOUND) > 1000 && self.get(INSERTED) > 1000
    }

    fn enter(&self, slot: usize, number: u32) -> Hands {
        Hands(self.owners.enter(slot, number).unwrap(), &self.counts[INHERITED])
    }

    /// Reads and writes values until the process is killed.
    fn work(&self, slot: usize, number: u32) -> i32 {
        let hands = self.enter(slot, number);
        let mut random = u64::from(number);
        let mut found = Vec::new();
        loop {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (random >> 33) % KEYS;
            match (random >> 60) % 3 {
                0 => self.put(&hands, key, random >> 40),
                _ => self.check_value(&hands, key, &mut found),
            }
        }
    }

    fn put(&self, hands: &Hands, key: u64, version: u64) {
        let label = Label { version, validated: version };
        let bytes = value(key, version);
        if self.cache.insert(hands, hash(key), &key.to_le_bytes(), &bytes, label) {
            self.count(INSERTED);
        }
    }

    fn check_value(&self, hands: &Hands, key: u64, found: &mut Vec<u8>) {
        let label = self.cache.get(hands, hash(key), &key.to_le_bytes(), found);
        if let Some(label) = label {
            self.count(FOUND);
            if *found != value(key, label.version) || label.validated != label.version {
                self.count(WRONG);
            }
        }
    }

    fn start(&self, slot: usize, number: u32) -> Child {
        fork(|| self.work(slot, number)).unwrap()
    }

    fn kill(child: &mut Child) {
        child.kill();
        assert_eq!(child.wait().unwrap(), Ended::Signal(9), "it ended before it was killed");
    }
}

fn processes_killed_at_any_instruction_leave_the_cache_usable_and_right() {
    let memory = Memory::new();
    let mut numbers = 1..;
    let mut next = || numbers.next().expect("numbers enough");
    let mut children: Vec<Child> = (0..SLOTS).map(|slot| memory.start(slot, next())).collect();
    for round in 0..20 * KILLS {
        if round >= KILLS && memory.is_enough() {
            break;
        }
        let pause_us = (round as u64).wrapping_mul(2_654_435_761) % 3_000;
        std::thread::sleep(Duration::from_micros(pause_us));
        let slot = round % SLOTS;
        Memory::kill(&mut children[slot]);
        // Where the dead process is not released, those that wait for its locks notice its death.
        if round % 4 != 0 {
            memory.owners.release_dead(slot, memory.cache.locks());
        }
        children[slot] = memory.start(slot, next());
    }
    for (slot, mut child) in children.into_iter().enumerate() {
        Memory::kill(&mut child);
        memory.owners.release_dead(slot, memory.cache.locks());
    }
    let [found, inserted, wrong, inherited] =
        [FOUND, INSERTED, WRONG, INHERITED].map(|cell| memory.get(cell));
    println!(
        "{} killed, {inherited} with a lock; {found} found, {inserted} put in, {wrong} wrong",
        next() - 1
    );
    assert_eq!(wrong, 0, "values that no process has put in");
    assert!(inherited > 0, "no process was killed while it held a lock");
    assert!(memory.is_enough(), "{found} found, {inserted} put in: too little");
    // The next process finds the cache consistent, whatever the last ones have left.
    let hands = memory.enter(0, next());
    let mut bytes = Vec::new();
    for key in 0..KEYS {
        memory.put(&hands, key, 1);
        memory.check_value(&hands, key, &mut bytes);
        assert_eq!(bytes, value(key, 1), "{key}");
    }
    assert_eq!(memory.get(WRONG), 0);
}
