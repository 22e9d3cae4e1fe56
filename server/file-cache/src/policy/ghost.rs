//! The ghost queue of S3-FIFO: which keys left the small queue recently. It holds no keys and is no
//! queue, but a table of fingerprints and times, as its paper proposes (§4.2). It may forget a key
//! early, and take one key in billions for another; both only cost a hit.

const WAYS: usize = 4;
const SETS_MIN: usize = 16;

/// The least number of keys to remember, so that S3-FIFO works while `main` is still empty.
const KEYS_MIN: usize = 16;

/// A fingerprint of a key, and the number of keys remembered up to it. Time 0 is an empty place.
#[derive(Clone, Copy, Default)]
struct Memory {
    fingerprint: u32,
    time: u32,
}

/// A set-associative table; its sets are a power of two.
pub(super) struct Ghost {
    sets: Vec<[Memory; WAYS]>,
    now: u32,
}

impl Ghost {
    pub(super) fn new() -> Self {
        Self { sets: vec![Default::default(); SETS_MIN], now: 0 }
    }

    /// Remembers a key in place of the oldest of its set. `keys` is the number of keys to remember
    /// (the paper: as many as there are in the main queue).
    pub(super) fn remember(&mut self, hash: u64, keys: usize) {
        if keys > self.sets.len() * WAYS / 2 {
            self.grow();
        }
        self.now = self.now.wrapping_add(1).max(1);
        let memory = Memory { fingerprint: fingerprint(hash), time: self.now };
        self.place(memory);
    }

    /// Whether the key is remembered; this call forgets it.
    pub(super) fn take(&mut self, hash: u64, keys: usize) -> bool {
        let fingerprint = fingerprint(hash);
        let now = self.now;
        let set = self.set(fingerprint);
        let known = |memory: &&mut Memory| {
            memory.fingerprint == fingerprint
                && memory.time != 0
                && (now.wrapping_sub(memory.time) as usize) < keys.max(KEYS_MIN)
        };
        let found = self.sets[set].iter_mut().find(known);
        found.map(std::mem::take).is_some()
    }

    fn place(&mut self, memory: Memory) {
        let set = self.set(memory.fingerprint);
        let now = self.now;
        let age = |place: &&mut Memory| match place.time {
            0 => u32::MAX,
            time => now.wrapping_sub(time),
        };
        let oldest = self.sets[set].iter_mut().max_by_key(age);
        *oldest.expect("a set has ways") = memory;
    }

    fn grow(&mut self) {
        let doubled = vec![Default::default(); self.sets.len() * 2];
        let old = std::mem::replace(&mut self.sets, doubled);
        old.into_iter().flatten().filter(|memory| memory.time != 0).for_each(|m| self.place(m));
    }

    fn set(&self, fingerprint: u32) -> usize {
        fingerprint as usize & (self.sets.len() - 1)
    }
}

/// Bits from the middle of the hash: the highest are the same within a shard.
fn fingerprint(hash: u64) -> u32 {
    (hash >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distinct hashes that fill the sets evenly.
    fn hash(n: u32) -> u64 {
        u64::from(n) << 16
    }

    #[test]
    fn a_key_is_remembered_until_it_is_taken() {
        let mut ghost = Ghost::new();
        ghost.remember(hash(1), 100);
        assert!(!ghost.take(hash(2), 100));
        assert!(ghost.take(hash(1), 100));
        assert!(!ghost.take(hash(1), 100));
        assert!(!Ghost::new().take(hash(0), 100), "an empty place matches no hash");
    }

    #[test]
    fn only_the_last_keys_are_remembered() {
        let mut ghost = Ghost::new();
        for n in 0..1000 {
            ghost.remember(hash(n), 200);
        }
        let remembered: Vec<u32> = (0..1000).filter(|&n| ghost.take(hash(n), 200)).collect();
        assert_eq!(remembered, (800..1000).collect::<Vec<_>>());
    }

    #[test]
    fn growing_forgets_nothing() {
        let mut ghost = Ghost::new();
        for n in 0..60 {
            ghost.remember(hash(n), 8);
        }
        for n in 60..100 {
            ghost.remember(hash(n), 5000);
        }
        assert!((0..100).all(|n| ghost.take(hash(n), 5000)));
    }
}
