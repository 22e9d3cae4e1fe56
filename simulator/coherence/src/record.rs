//! One step of a task, packed into 64 bits: a run of fetches, a load, a store, or a marker.
//!
//! This is not the trace's own format: addresses are already frames of physical memory, and
//! consecutive fetches from one granule are one record, which takes as much time as all of them. A
//! granule is no larger than the smallest block, so that this changes no hit and no miss.

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// The unit in which fetches are merged and at whose ends an access is split. No block is smaller.
pub(crate) const GRANULE_BYTES: u64 = 32;
/// The unit in which sharing is distinguished.
pub(crate) const WORD_BYTES: u64 = 4;

/// The kind of access that a record stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Instructions are fetched.
    Fetch,
    /// Data is read.
    Load,
    /// Data is written.
    Store,
}

/// What happens between references.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marker {
    /// The trace of the task ends.
    End,
    /// The system call with this number.
    SystemCall(u32),
    /// The lock with this number is used.
    Synchronise(u64),
}

/// A step of a task.
///
/// From the lowest bit: kind (2), private page (1), tracked (1), references (6), words less one
/// (3), unused (1), offset in the page (12), frame (26).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record(pub(crate) u64);

/// The most fetches in one record; more become two records.
pub(crate) const COUNT_MAX: u64 = 63;
pub(crate) const MARKER: u64 = 3;
pub(crate) const STORE: u64 = 2;
pub(crate) const PRIVATE: u64 = 1 << 2;
/// The mark of data on a shared page: which words are touched decides the kind of sharing.
pub(crate) const TRACKED: u64 = 1 << 3;
pub(crate) const COUNT_SHIFT: u32 = 4;
pub(crate) const WORDS_SHIFT: u32 = 10;
pub(crate) const OFFSET_SHIFT: u32 = 14;
pub(crate) const FRAME_SHIFT: u32 = 26;
/// The number of frames that fit a record; caches allow fewer still.
pub(crate) const FRAMES_MAX: u64 = 1 << 26;

/// In markers: the bytes that a system call moved lie between the kind and the number.
const MOVED_SHIFT: u32 = 8;
const MOVED_MAX: u64 = (1 << (FRAME_SHIFT - MOVED_SHIFT)) - 1;
/// The unit, in bytes, of the amount that a system call moved: amounts up to 2 MiB fit.
const MOVED_UNIT: u64 = 8;

impl Record {
    /// An access of `bytes` at `offset` of a frame that does not leave its granule. The part in the
    /// next granule is a record of its own with a count of 0: it takes no time.
    pub fn new(kind: Kind, frame: u32, offset: u16, bytes: u16, count: u8) -> Self {
        let offset = u64::from(offset);
        let last = offset + u64::from(bytes.max(1)) - 1;
        debug_assert!(last < PAGE_BYTES && offset / GRANULE_BYTES == last / GRANULE_BYTES);
        let words = last / WORD_BYTES - offset / WORD_BYTES;
        let kind = match kind {
            Kind::Fetch => 0,
            Kind::Load => 1,
            Kind::Store => STORE,
        };
        Self(
            kind | (u64::from(count) << COUNT_SHIFT)
                | (words << WORDS_SHIFT)
                | (offset << OFFSET_SHIFT)
                | (u64::from(frame) << FRAME_SHIFT),
        )
    }

    /// A marker, which is not a reference.
    pub fn marker(marker: Marker) -> Self {
        let (what, number) = match marker {
            Marker::End => (0, 0),
            Marker::SystemCall(number) => (1, u64::from(number)),
            Marker::Synchronise(lock) => (2, lock),
        };
        Self(MARKER | (what << COUNT_SHIFT) | (number << FRAME_SHIFT))
    }

    /// This system call with the amount that it moved, capped at the largest amount that fits.
    #[must_use]
    pub(crate) fn with_moved(self, bytes: u32) -> Self {
        let units = u64::from(bytes).div_ceil(MOVED_UNIT).min(MOVED_MAX);
        Self(self.0 & !(MOVED_MAX << MOVED_SHIFT) | units << MOVED_SHIFT)
    }

    /// The number of bytes that a system call moved, in whole units.
    pub(crate) fn moved(self) -> u64 {
        (self.0 >> MOVED_SHIFT & MOVED_MAX) * MOVED_UNIT
    }

    /// The kind of reference; none for a marker.
    pub fn kind(self) -> Option<Kind> {
        match self.0 & 3 {
            0 => Some(Kind::Fetch),
            1 => Some(Kind::Load),
            STORE => Some(Kind::Store),
            _ => None,
        }
    }

    /// The marker that the record holds; only for a record that is not a reference.
    pub(crate) fn as_marker(self) -> Marker {
        match (self.0 >> COUNT_SHIFT) & 3 {
            0 => Marker::End,
            1 => Marker::SystemCall((self.0 >> FRAME_SHIFT) as u32),
            _ => Marker::Synchronise(self.0 >> FRAME_SHIFT),
        }
    }

    /// The number of references that the record stands for.
    pub fn count(self) -> u64 {
        (self.0 >> COUNT_SHIFT) & COUNT_MAX
    }

    /// This record with this number of references.
    pub(crate) fn with_count(self, count: u64) -> Self {
        Self(self.0 & !(COUNT_MAX << COUNT_SHIFT) | (count << COUNT_SHIFT))
    }

    /// Whether the page belongs to one task.
    pub fn is_private(self) -> bool {
        self.0 & PRIVATE != 0
    }

    /// This record with the mark for a private or a shared page.
    pub(crate) fn with_private(self, private: bool) -> Self {
        let data = self.0 & 3 == 1 || self.0 & 3 == STORE;
        let tracked = if data && !private { TRACKED } else { 0 };
        Self(self.0 & !(PRIVATE | TRACKED) | tracked | if private { PRIVATE } else { 0 })
    }

    /// The frame of physical memory.
    pub fn frame(self) -> u32 {
        (self.0 >> FRAME_SHIFT) as u32
    }

    /// The offset of the first byte in the page.
    pub fn offset(self) -> u64 {
        (self.0 >> OFFSET_SHIFT) & (PAGE_BYTES - 1)
    }

    /// The touched words of a block of `block_bytes`, one bit each.
    pub fn words(self, block_bytes: u64) -> u64 {
        let words = (self.0 >> WORDS_SHIFT) & 7;
        let first = (self.offset() & (block_bytes - 1)) / WORD_BYTES;
        ((2 << words) - 1) << first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let record = Record::new(Kind::Store, 77, 0x7f8, 8, 1);
        assert_eq!(record.kind(), Some(Kind::Store));
        assert_eq!((record.frame(), record.offset(), record.count()), (77, 0x7f8, 1));
        assert_eq!(record.words(32), 0b1100_0000);
        assert_eq!(record.words(64), 0b1100_0000 << 8);
        assert!(record.with_private(true).is_private() && !record.with_private(false).is_private());
        assert_eq!(record.with_count(9).count(), 9);
    }

    #[test]
    fn the_whole_granule_is_eight_words() {
        assert_eq!(Record::new(Kind::Load, 1, 32, 32, 1).words(32), 0xff);
        assert_eq!(Record::new(Kind::Load, 1, 35, 1, 1).words(256), 1 << 8);
    }

    #[test]
    fn markers_come_back() {
        let call = Record::marker(Marker::SystemCall(u32::MAX));
        for (bytes, expected) in [(0, 0), (1, 8), (4096, 4096), (u32::MAX, (1 << 21) - 8)] {
            let moved = call.with_moved(77).with_moved(bytes);
            assert_eq!((moved.moved(), moved.kind()), (expected, None), "{bytes}");
            assert_eq!(moved.as_marker(), Marker::SystemCall(u32::MAX));
        }
        for marker in [Marker::End, Marker::SystemCall(231), Marker::Synchronise(1 << 37)] {
            assert_eq!(Record::marker(marker).as_marker(), marker);
            assert_eq!(Record::marker(marker).kind(), None);
        }
    }
}
