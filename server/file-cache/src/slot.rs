//! One cached entry and the marks that the two levels set on it. Entries are immutable: a thread
//! that has a `Slot` may read it at any time, whether it is in the cache or not.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering};

use crate::budget::Cost;

/// The largest number of uses that is counted: S3-FIFO's counter has two bits (§4.1 of its paper),
/// and a counter that has reached its limit is a cache line that is not written any more.
pub(crate) const USES_MAX: u8 = 3;

/// A key and its value as they were inserted, with the data that the cache needs about them.
///
/// The fields that every lookup reads come first, so that they share a cache line with the
/// reference counts in front of them, whatever the size of `V`.
#[derive(Debug)]
#[repr(C)]
pub struct Slot<V> {
    hash: u64,
    validated: AtomicU64,
    evicted: AtomicBool,
    uses: AtomicU8,
    rests: AtomicU16,
    key: Key,
    value: V,
    cost: Cost,
}

impl<V> Slot<V> {
    pub(crate) fn new(hash: u64, key: &[u8], value: V, cost: Cost, validated: u64) -> Self {
        Self {
            hash,
            validated: AtomicU64::new(validated),
            evicted: AtomicBool::new(false),
            uses: AtomicU8::new(0),
            rests: AtomicU16::new(0),
            key: Key::new(key),
            value,
            cost,
        }
    }

    /// The key under which the entry was inserted.
    pub fn key(&self) -> &[u8] {
        self.key.bytes()
    }

    /// The hash under which the entry was inserted.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The entry itself.
    pub fn value(&self) -> &V {
        &self.value
    }

    /// The cost of the entry while it is in the cache.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// When the entry was last found to be current, in the caller's ticks.
    pub fn validated(&self) -> u64 {
        self.validated.load(Ordering::Relaxed)
    }

    /// Notes that the entry was found to be current at `tick`.
    pub fn set_validated(&self, tick: u64) {
        self.validated.store(tick, Ordering::Relaxed);
    }

    /// Whether the entry has left the cache: evicted, replaced, removed or never admitted.
    /// Once true it stays true.
    pub fn is_evicted(&self) -> bool {
        self.evicted.load(Ordering::Acquire)
    }

    pub(crate) fn set_evicted(&self) {
        self.evicted.store(true, Ordering::Release);
    }

    /// Whether this is the entry for `key`. The hash nearly always decides; the key makes certain.
    pub(crate) fn is_for(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && self.key.bytes() == key
    }

    /// Counts a check of the entry ([`crate::Cache::scan_part`]). Returns the number of checks
    /// since the entry was last requested.
    pub fn count_check(&self) -> u16 {
        let rests = self.rests.load(Ordering::Relaxed).saturating_add(1);
        self.rests.store(rests, Ordering::Relaxed);
        rests
    }

    /// Counts a hit, for the policy when it chooses a victim. Two threads at once may count one
    /// hit: a hint to a heuristic is not worth an atomic read-modify-write.
    pub(crate) fn touch(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses < USES_MAX {
            self.uses.store(uses + 1, Ordering::Relaxed);
        }
        self.note_request();
    }

    /// Notes that the entry was requested. This writes only after a check
    /// ([`Slot::count_check`]), so that nearly every hit leaves the cache line unchanged.
    pub(crate) fn note_request(&self) {
        if self.rests.load(Ordering::Relaxed) != 0 {
            self.rests.store(0, Ordering::Relaxed);
        }
    }

    /// Hits counted since the policy last checked, at most [`USES_MAX`].
    pub(crate) fn uses(&self) -> u8 {
        self.uses.load(Ordering::Relaxed)
    }

    pub(crate) fn set_uses(&self, uses: u8) {
        self.uses.store(uses, Ordering::Relaxed);
    }
}

/// Keys up to this length are in the slot itself: most paths are, and a lookup that reads no more
/// than the slot saves one of the four or five cache misses that it costs in a large cold cache.
const KEY_INLINE_BYTES: usize = 38;

#[derive(Debug)]
enum Key {
    Inline { len: u8, bytes: [u8; KEY_INLINE_BYTES] },
    Boxed(Box<[u8]>),
}

const _: () = assert!(size_of::<Key>() == 40);

impl Key {
    fn new(key: &[u8]) -> Self {
        if key.len() > KEY_INLINE_BYTES {
            return Self::Boxed(key.into());
        }
        let mut bytes = [0; KEY_INLINE_BYTES];
        bytes[..key.len()].copy_from_slice(key);
        Self::Inline { len: key.len() as u8, bytes }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Self::Boxed(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_are_kept_whole() {
        let text: Vec<u8> = (0..=255).collect();
        for len in 0..text.len() {
            let slot = Slot::new(1, &text[..len], (), Cost::default(), 0);
            assert_eq!(slot.key(), &text[..len]);
            assert!(slot.is_for(1, &text[..len]) && !slot.is_for(1, &text[..=len]));
            assert!(!slot.is_for(2, &text[..len]));
        }
    }
}
