//! The list of a trace's frames, which is written at its end and rebuilt if that is missing.

use crate::frame::{Head, Tag};
use crate::varint::{Cursor, Malformed, put};

/// One frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The offset of the frame's head.
    pub(crate) offset: u64,
    pub(crate) tag: Tag,
    pub(crate) process: u32,
    pub(crate) events: u32,
    pub(crate) references: u32,
}

impl Entry {
    pub(crate) fn new(offset: u64, head: &Head) -> Self {
        let Head { tag, process, events, references, .. } = *head;
        Self { offset, tag, process, events, references }
    }
}

/// Encodes the list. Offsets are stored as distances, since they grow.
pub(crate) fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut previous = 0;
    for entry in entries {
        put(&mut out, entry.offset - previous);
        out.push(match entry.tag {
            Tag::Header => 0,
            Tag::Process => 1,
            Tag::Events => 2,
            Tag::Index => 3,
        });
        put(&mut out, u64::from(entry.process));
        put(&mut out, u64::from(entry.events));
        put(&mut out, u64::from(entry.references));
        previous = entry.offset;
    }
    out
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Entry>, Malformed> {
    let from = &mut Cursor::new(bytes);
    let mut entries = Vec::new();
    let mut offset = 0_u64;
    while !from.is_at_end() {
        offset = offset.checked_add(from.number()?).ok_or(Malformed)?;
        let tag = match from.byte()? {
            0 => Tag::Header,
            1 => Tag::Process,
            2 => Tag::Events,
            _ => return Err(Malformed),
        };
        let (process, events) = (from.small()?, from.small()?);
        entries.push(Entry { offset, tag, process, events, references: from.small()? });
    }
    Ok(entries)
}
