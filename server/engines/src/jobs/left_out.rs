//! The first precompressed sibling that was left out, noted to be reported to operators. It is in
//! memory that forked processes share, because another process reports what they find.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use os::shared_memory::{Cells, create_cells, map_cells};

/// The number of bytes of a path that are noted, from its end, which tells more than the beginning.
const PATH_BYTES_MAX: usize = 512;
const HEAD_CELLS: usize = 2;
const STATE: usize = 0;
const LEN: usize = 1;

/// The states of the note, in this order.
const NOTHING: u64 = 0;
const IS_WRITTEN: u64 = 1;
const NOTED: u64 = 2;
const TAKEN: u64 = 3;

/// A note that is written once and taken once.
pub(super) struct LeftOut(Cells);

impl LeftOut {
    pub(super) fn new() -> io::Result<Self> {
        let file = create_cells(HEAD_CELLS + PATH_BYTES_MAX / 8)?;
        map_cells(file.as_fd()).map(Self)
    }

    /// Notes a path, if it is the first. A process that is killed meanwhile leaves no note.
    pub(super) fn note(&self, path: &[u8]) {
        if !self.step(NOTHING, IS_WRITTEN) {
            return;
        }
        let path = &path[path.len().saturating_sub(PATH_BYTES_MAX)..];
        self.0[LEN].store(path.len() as u64, Ordering::Relaxed);
        for (cell, chunk) in self.0[HEAD_CELLS..].iter().zip(path.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            cell.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        self.0[STATE].store(NOTED, Ordering::Release);
    }

    /// Takes the path that was noted. Only the first call gets it.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        if !self.step(NOTED, TAKEN) {
            return None;
        }
        let cells = self.0[HEAD_CELLS..].iter().map(|cell| cell.load(Ordering::Relaxed));
        let mut path: Vec<u8> = cells.flat_map(u64::to_le_bytes).collect();
        path.truncate(self.0[LEN].load(Ordering::Relaxed) as usize);
        Some(path)
    }

    fn step(&self, from: u64, to: u64) -> bool {
        self.0[STATE].compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_path_is_taken_once() {
        let left_out = LeftOut::new().unwrap();
        assert_eq!(left_out.take(), None);
        left_out.note(b"a/first.js.br");
        left_out.note(b"second.js.br");
        assert_eq!(left_out.take().as_deref(), Some(&b"a/first.js.br"[..]));
        left_out.note(b"third.js.br");
        assert_eq!(left_out.take(), None);
        let long = LeftOut::new().unwrap();
        long.note(&[b'x'; 2 * PATH_BYTES_MAX]);
        assert_eq!(long.take(), Some(vec![b'x'; PATH_BYTES_MAX]));
    }
}
