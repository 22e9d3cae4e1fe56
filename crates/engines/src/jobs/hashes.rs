//! Hashes of files' contents that are remembered: an entry may leave the cache, or be made anew
//! because something else in its directory has changed, and its file is not read again for that.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use site::hashing::Hashed;
use site::resource::Identity;

/// Two generations of so many, of some 80 bytes each.
const GENERATION_MAX: usize = 2048;

/// What hashing files has come to. May be asked by any thread.
#[derive(Default)]
pub(super) struct Hashes(Mutex<Generations>);

/// Those used lately, and those used before them. When the first are too many they take the place
/// of the second.
#[derive(Default)]
struct Generations {
    young: HashMap<Identity, Hashed>,
    old: HashMap<Identity, Hashed>,
}

impl Hashes {
    pub(super) fn get(&self, identity: &Identity) -> Option<Hashed> {
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hashed) = generations.young.get(identity) {
            return Some(*hashed);
        }
        let hashed = generations.old.remove(identity)?;
        generations.put(*identity, hashed);
        Some(hashed)
    }

    pub(super) fn put(&self, identity: Identity, hashed: Hashed) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(identity, hashed);
    }
}

impl Generations {
    fn put(&mut self, identity: Identity, hashed: Hashed) {
        if self.young.len() >= GENERATION_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(identity, hashed);
    }
}

#[cfg(test)]
mod tests {
    use site::entity_tag::ContentHash;

    use super::*;

    fn numbered(inode: u64) -> Identity {
        Identity { device: 1, inode, len: 0, modified_ns: 0, changed_ns: 0 }
    }

    #[test]
    fn what_is_used_stays_and_there_are_never_more_than_two_generations() {
        let hashes = Hashes::default();
        let hash = |inode| Hashed::Hash(ContentHash(inode));
        for inode in 0..10 * GENERATION_MAX as u64 {
            hashes.put(numbered(inode), hash(inode));
            assert_eq!(hashes.get(&numbered(inode)), Some(hash(inode)));
            assert_eq!(hashes.get(&numbered(0)), Some(hash(0)), "after {inode}");
        }
        assert_eq!(hashes.get(&numbered(1)), None);
        let generations = hashes.0.lock().unwrap();
        assert!(generations.young.len() <= GENERATION_MAX);
        assert!(generations.old.len() <= GENERATION_MAX);
    }
}
