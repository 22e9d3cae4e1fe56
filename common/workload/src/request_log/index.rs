//! Numbers of byte strings: a special hash table, because a large log looks up every line.
//!
//! The map of the standard library takes three dependent cache misses for a lookup that finds
//! something, and one lookup after another; this one takes two, and those of a batch overlap.

use xxhash_rust::xxh3::xxh3_64;

/// The number of keys looked up together: enough to hide the misses, few enough for the stack.
pub(super) const BATCH: usize = 32;

/// A number for each byte string that was added.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Open addressing with linear probing; a power of two, at most half full.
    slots: Vec<Slot>,
    used: usize,
    /// The byte strings, one after another.
    keys: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// The upper half of the hash, so that most other keys are skipped without reading them.
    tag: u32,
    /// The number plus one; 0 is free.
    number: u32,
    /// The start of the key in `keys`.
    start: u32,
    len: u32,
}

impl Index {
    /// The number of `key`, which is `next` if it is new; `None` if it is new and there is no next
    /// or the keys take more than 4 GiB.
    pub(super) fn find_or_add(&mut self, key: &[u8], next: Option<u32>) -> Option<u32> {
        let hash = xxh3_64(key);
        if let Some(number) = self.find(key, hash) {
            return Some(number);
        }
        let next = next?;
        let start = u32::try_from(self.keys.len()).ok()?;
        let len = u32::try_from(key.len()).ok()?;
        start.checked_add(len)?;
        if (self.used + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.keys.extend_from_slice(key);
        self.used += 1;
        self.place(hash, Slot { tag: tag(hash), number: next + 1, start, len });
        Some(next)
    }

    /// The numbers of `keys`, at most [`BATCH`], as far as they are known and found at their first
    /// place.
    #[inline]
    pub(super) fn find_all(&self, keys: &[&[u8]], found: &mut [Option<u32>; BATCH]) {
        let Some(mask) = self.slots.len().checked_sub(1) else { return };
        let mut hashes = [0; BATCH];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = xxh3_64(key);
        }
        // Loads that do not wait for one another, before any that depends on them.
        let slots = hashes.map(|hash| self.slots[hash as usize & mask]);
        for (((key, hash), slot), found) in keys.iter().zip(hashes).zip(slots).zip(found) {
            if slot.number != 0 && slot.tag == tag(hash) && self.key(slot) == *key {
                *found = Some(slot.number - 1);
            }
        }
    }

    fn find(&self, key: &[u8], hash: u64) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut position = hash as usize & mask;
        loop {
            let slot = self.slots[position];
            let number = slot.number.checked_sub(1)?;
            if slot.tag == tag(hash) && self.key(slot) == key {
                return Some(number);
            }
            position = (position + 1) & mask;
        }
    }

    /// Writes `slot` into the first free place for `hash`; there is one.
    fn place(&mut self, hash: u64, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut position = hash as usize & mask;
        while self.slots[position].number != 0 {
            position = (position + 1) & mask;
        }
        self.slots[position] = slot;
    }

    fn grow(&mut self) {
        let slots = vec![Slot::default(); (self.slots.len() * 2).max(64)];
        for slot in std::mem::replace(&mut self.slots, slots) {
            if slot.number != 0 {
                self.place(xxh3_64(self.key(slot)), slot);
            }
        }
    }

    fn key(&self, slot: Slot) -> &[u8] {
        let start = slot.start as usize;
        &self.keys[start..start + slot.len as usize]
    }
}

fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_number() {
        let mut index = Index::default();
        let key = |n: u32| format!("{:x}", n.wrapping_mul(0x9E37_79B9)).into_bytes();
        for n in 0..5000 {
            assert_eq!(index.find_or_add(&key(n), None), None);
            assert_eq!(index.find_or_add(&key(n), Some(n)), Some(n));
        }
        for n in 0..5000 {
            assert_eq!(index.find_or_add(&key(n), None), Some(n));
            assert_eq!(index.find_or_add(&key(n), Some(9999)), Some(n));
        }
        assert_eq!(index.find_or_add(b"", Some(5000)), Some(5000));
    }

    #[test]
    fn a_batch_finds_nothing_wrong() {
        let mut index = Index::default();
        let keys: Vec<Vec<u8>> = (0..64_u32).map(|n| n.to_string().into_bytes()).collect();
        for (n, key) in keys.iter().enumerate().step_by(2) {
            index.find_or_add(key, Some(n as u32));
        }
        let mut hits = 0;
        for (start, batch) in keys.chunks(BATCH).enumerate() {
            let batch: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            let mut found = [None; BATCH];
            index.find_all(&batch, &mut found);
            for (n, found) in found.into_iter().enumerate() {
                assert!(found.is_none_or(|number| number as usize == start * BATCH + n));
                hits += usize::from(found.is_some());
            }
        }
        assert!((16..=32).contains(&hits), "{hits} of 32");
    }
}
