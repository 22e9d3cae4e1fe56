//! The knobs of the engine, and the sizes that follow from them.

use os::ring::Sizes;

use crate::knobs::{Knob, KnobValues};
use crate::parts::accept::listeners::BACKLOG_MAX;
use crate::parts::loops::reactor::FILE_CHUNK_KIB;

pub(super) const WORKERS: Knob = Knob::number("workers", 0..=1024, 0)
    .about("rings in a partition; 0 means one for each of its CPUs");

pub(super) const ENTRIES: Knob = Knob::number("entries", 1..=32_768, 1024)
    .about("operations handed to the kernel with one call");

pub(super) const BUFFERS: Knob = Knob::number("buffers", 1..=32_768, 512)
    .about("buffers to receive into, for all connections of a ring together");

/// Many receives under way need no buffer each, so that a short one is enough for a head; a record
/// of TLS would span several.
pub(super) const BUFFER_BYTES: Knob =
    Knob::number("buffer_bytes", 64..=1 << 20, 4096).about("the size of each of these buffers");

pub(super) const MULTISHOT: Knob = Knob::switch("multishot", 1)
    .about("1: an accept or a receive is submitted once, for all that come; 0: one for each");

pub(super) const DIRECT: Knob = Knob::switch("direct", 0)
    .about("1: connections are in the ring's own table, and get a descriptor for what needs one");

pub(super) const HELPERS: Knob = Knob::number("helpers", 0..=1024, 0)
    .about("threads of each ring that look files up, and fetch them if set; 0: the ring itself");

pub(super) const KNOBS: &[Knob] =
    &[WORKERS, ENTRIES, BUFFERS, BUFFER_BYTES, MULTISHOT, DIRECT, HELPERS, FILE_CHUNK_KIB];

/// The sizes that the knobs configure, each within the kernel's limits. Connections that are
/// accepted while all places are taken wait in the table as well: a whole queue may be accepted at
/// once.
pub(super) fn sizes(knobs: &KnobValues, connections_max: usize) -> Sizes {
    let places = u32::try_from(connections_max + BACKLOG_MAX).unwrap_or(u32::MAX);
    Sizes {
        entries: knobs.get(ENTRIES.name) as u32,
        buffers: knobs.get(BUFFERS.name) as u16,
        buffer_bytes: knobs.get(BUFFER_BYTES.name) as u32,
        direct: if knobs.get(DIRECT.name) == 1 { places } else { 0 },
    }
}

/// How many bytes a ring may receive, for all of its connections together, that they did not want:
/// as many as its buffers hold, or two MiB. A multishot receive ends when it is cancelled, and by
/// then may have filled all buffers: 32 at a time, again and again, since Linux 6.8.
pub(super) fn excess_bytes_max(sizes: &Sizes) -> u64 {
    (u64::from(sizes.buffers) * u64::from(sizes.buffer_bytes)).max(2 << 20)
}

/// How many times as much may come while requests are with applications: every client sends its
/// body ahead.
pub(super) const BODIES: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_knobs() {
        let mut knobs = KnobValues::defaults(KNOBS);
        knobs.set("entries", 8).unwrap();
        knobs.set("buffers", 32_768).unwrap();
        let expected = Sizes { entries: 8, buffers: 32_768, buffer_bytes: 4096, direct: 0 };
        assert_eq!(sizes(&knobs, 100), expected);
        knobs.set("direct", 1).unwrap();
        assert_eq!(excess_bytes_max(&expected), 128 << 20);
        let direct = 100 + BACKLOG_MAX as u32;
        assert_eq!(sizes(&knobs, 100), Sizes { direct, ..expected });
    }
}
