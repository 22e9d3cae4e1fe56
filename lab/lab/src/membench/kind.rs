//! The kinds of access to memory: reads, writes or copies, and their instructions.

use serde::Serialize;
use system::memory_bandwidth::{Instructions, Store, has_streaming_stores};

/// What an access does to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Every byte is read.
    Read,
    /// Every byte is written.
    Write,
    /// One half is read and written to the other; the bytes of both count.
    Copy,
}

impl Access {
    /// The kind of access as a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Copy => "copy",
        }
    }
}

/// One way to access memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// What each access does.
    pub access: Access,
    /// How written bytes get to memory; without meaning for reads.
    pub store: Store,
    /// The instructions, which determine the width of each access.
    pub instructions: Instructions,
}

impl Kind {
    /// Whether it writes past the caches.
    #[must_use]
    pub fn is_streaming(self) -> bool {
        self.access != Access::Read && self.store == Store::Streaming
    }
}

/// All kinds that this processor has, in the order of the report.
pub(super) fn available() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for (access, store) in [
        (Access::Read, Store::Cached),
        (Access::Write, Store::Cached),
        (Access::Write, Store::Streaming),
        (Access::Copy, Store::Cached),
        (Access::Copy, Store::Streaming),
    ] {
        let instructions = Instructions::ALL.into_iter().filter(|one| one.is_available());
        let is_there = store == Store::Cached || has_streaming_stores();
        let all = instructions.map(|instructions| Kind { access, store, instructions });
        kinds.extend(all.filter(|_| is_there));
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_instructions_are_always_there() {
        let kinds = available();
        for access in [Access::Read, Access::Write, Access::Copy] {
            let plain = kinds.iter().filter(|kind| kind.access == access && !kind.is_streaming());
            let plain = plain.filter(|kind| kind.instructions == Instructions::Plain);
            assert_eq!(plain.count(), 1, "{access:?}");
        }
        assert!(!kinds.iter().any(|kind| kind.access == Access::Read && kind.is_streaming()));
    }
}
