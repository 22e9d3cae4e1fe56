//! Directories that were examined a moment ago: each is examined once for several files in it.

use std::collections::HashMap;
use std::sync::Mutex;

use site::resource::Identity;

use crate::lock::lock;

/// The number of directories that are remembered, at most.
const COUNT_MAX: usize = 1024;

/// The identities of the directories below one root, and when they were read.
#[derive(Default)]
pub(super) struct Directories(Mutex<HashMap<Box<[u8]>, Examined>>);

struct Examined {
    identity: Identity,
    at_us: u64,
}

impl Directories {
    /// The identity of a directory, if it was read less than `moment_us` ago.
    pub(super) fn get(&self, path: &[u8], now_us: u64, moment_us: u64) -> Option<Identity> {
        let seen = lock(&self.0);
        let seen = seen.get(path).filter(|seen| seen.is_fresh(now_us, moment_us));
        seen.map(|seen| seen.identity)
    }

    /// Records the identity of a directory at `at_us`. The map holds the directories of about one
    /// moment: before it grows, older ones are removed.
    pub(super) fn note(&self, path: &[u8], identity: Identity, at_us: u64, moment_us: u64) {
        let mut seen = lock(&self.0);
        let now = Examined { identity, at_us };
        if let Some(before) = seen.get_mut(path) {
            *before = now;
            return;
        }
        if seen.len() == seen.capacity().min(COUNT_MAX) {
            seen.retain(|_, seen| seen.is_fresh(at_us, moment_us));
        }
        if seen.len() < COUNT_MAX {
            seen.insert(path.into(), now);
        }
    }
}

impl Examined {
    fn is_fresh(&self, now_us: u64, moment_us: u64) -> bool {
        now_us.saturating_sub(self.at_us) < moment_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(inode: u64) -> Identity {
        Identity { device: 1, inode, len: 0, modified_ns: 0, changed_ns: 0 }
    }

    #[test]
    fn an_identity_holds_for_a_moment() {
        let directories = Directories::default();
        directories.note(b"a", identity(1), 100, 10);
        assert_eq!(directories.get(b"a", 109, 10), Some(identity(1)));
        assert_eq!(directories.get(b"a", 110, 10), None, "the moment is over");
        assert_eq!(directories.get(b"a", 100, 0), None, "there is none");
        assert_eq!(directories.get(b"", 100, 10), None);
        directories.note(b"a", identity(2), 110, 10);
        assert_eq!(directories.get(b"a", 119, 10), Some(identity(2)));
    }

    #[test]
    fn only_the_directories_of_a_moment_are_remembered() {
        let directories = Directories::default();
        let note = |number: usize, at_us| {
            directories.note(number.to_string().as_bytes(), identity(number as u64), at_us, 10);
        };
        (0..10 * COUNT_MAX).for_each(|number| note(number, number as u64));
        assert!(lock(&directories.0).capacity() <= 64, "{}", lock(&directories.0).capacity());
        (0..2 * COUNT_MAX).for_each(|number| note(number, 1_000_000));
        assert_eq!(lock(&directories.0).len(), COUNT_MAX);
        note(2 * COUNT_MAX, 1_000_010);
        assert_eq!(lock(&directories.0).len(), 1, "all others are old");
    }
}
