//! The parts of a trace: a head with a checksum of its own, and a compressed, checked payload.
//!
//! Both sums are XXH3 of 64 bits. The head has its own to distinguish a damaged length, which could
//! be anything, from a file that ends too early.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::Fault;

/// The first bytes of a file. The first byte is not text, and programs that take the file for text
/// damage the line ends: each of these mistakes is noticed, as with PNG.
pub(crate) const MAGIC: [u8; 8] = *b"\x89RWTR\r\n\x1a";
/// The version of the format that is written. Readers of version 1 would take the event `MOVED` for
/// damage; because of the new version they report that the version is too new.
pub(crate) const VERSION: u32 = 2;
/// The oldest version that is read: it lacks that event.
const VERSION_MIN: u32 = 1;
/// The magic, the version, and half a checksum of both.
pub(crate) const PREAMBLE_BYTES: usize = 16;
/// The head of a frame.
pub(crate) const HEAD_BYTES: usize = 40;
/// The length of the end mark: the offset of the index, a checksum of it, and `END`.
pub(crate) const TRAILER_BYTES: usize = 24;
const END: [u8; 8] = *b"RWTR end";

/// The maximum number of events in a block: a mebibyte of them in memory.
pub(crate) const EVENTS_MAX: usize = 1 << 16;
/// The maximum size of a decompressed payload. An event needs at most 14 bytes; descriptions may be
/// larger.
pub(crate) const RAW_BYTES_MAX: usize = 1 << 28;
const _: () = assert!(EVENTS_MAX * 14 < RAW_BYTES_MAX);

/// zstd's default: higher levels gain little on these columns and cost several times as much.
const LEVEL: i32 = 3;

/// The content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    Header,
    Process,
    Events,
    Index,
}

const TAGS: [(Tag, [u8; 4]); 4] = [
    (Tag::Header, *b"HEAD"),
    (Tag::Process, *b"PROC"),
    (Tag::Events, *b"EVNT"),
    (Tag::Index, *b"INDX"),
];

/// The head of a frame, after its checksum has been verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) tag: Tag,
    /// The process; 0 where there is none.
    pub(crate) process: u32,
    /// The number of bytes of the payload in the file.
    pub(crate) stored: u32,
    /// The number of bytes after decompression.
    pub(crate) raw: u32,
    /// The number of events, and how many of them are references to memory.
    pub(crate) events: u32,
    pub(crate) references: u32,
    pub(crate) sum: u64,
}

/// Makes a frame.
pub(crate) fn frame(
    tag: Tag,
    process: u32,
    counts: (u32, u32),
    raw: &[u8],
) -> Result<Vec<u8>, Fault> {
    if raw.len() > RAW_BYTES_MAX {
        return Err(Fault::TooLarge("a description of more than 256 MiB"));
    }
    let stored = zstd::bulk::compress(raw, LEVEL).map_err(Fault::Io)?;
    let head = Head {
        tag,
        process,
        stored: stored.len() as u32,
        raw: raw.len() as u32,
        events: counts.0,
        references: counts.1,
        sum: xxh3_64(&stored),
    };
    let mut out = head.to_bytes().to_vec();
    out.extend_from_slice(&stored);
    Ok(out)
}

impl Head {
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let (_, tag) = TAGS.iter().find(|(tag, _)| *tag == self.tag).expect("all tags are there");
        let mut out = [0; HEAD_BYTES];
        out[0..4].copy_from_slice(tag);
        let numbers = [self.process, self.stored, self.raw, self.events, self.references];
        for (at, number) in numbers.iter().enumerate() {
            out[4 + 4 * at..8 + 4 * at].copy_from_slice(&number.to_le_bytes());
        }
        out[24..32].copy_from_slice(&self.sum.to_le_bytes());
        let sum = xxh3_64(&out[..32]);
        out[32..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Parses a head; none if the bytes are not those of a head.
    pub(crate) fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        if xxh3_64(&bytes[..32]) != u64_at(bytes, 32) {
            return None;
        }
        let (tag, _) = *TAGS.iter().find(|(_, tag)| tag == &bytes[..4])?;
        let head = Self {
            tag,
            process: u32_at(bytes, 4),
            stored: u32_at(bytes, 8),
            raw: u32_at(bytes, 12),
            events: u32_at(bytes, 16),
            references: u32_at(bytes, 20),
            sum: u64_at(bytes, 24),
        };
        let sane = head.raw as usize <= RAW_BYTES_MAX && head.events as usize <= EVENTS_MAX;
        sane.then_some(head)
    }

    /// The payload, verified and decompressed.
    pub(crate) fn open(&self, stored: &[u8]) -> Option<Vec<u8>> {
        if stored.len() != self.stored as usize || xxh3_64(stored) != self.sum {
            return None;
        }
        // No memory is reserved before zstd confirms the size: the sum may be forged.
        let known = zstd::zstd_safe::get_frame_content_size(stored).ok()??;
        if known != u64::from(self.raw) {
            return None;
        }
        let raw = zstd::bulk::decompress(stored, self.raw as usize).ok()?;
        (raw.len() == self.raw as usize).then_some(raw)
    }
}

/// The first bytes of a file.
pub(crate) fn preamble() -> [u8; PREAMBLE_BYTES] {
    let mut out = [0; PREAMBLE_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let sum = xxh3_64(&out[..12]) as u32;
    out[12..].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Checks whether a file with this beginning can be read.
pub(crate) fn check_preamble(bytes: &[u8]) -> Result<(), Fault> {
    if bytes.len() < MAGIC.len() || bytes[..MAGIC.len()] != MAGIC {
        return Err(Fault::Foreign);
    }
    let Some(bytes) = bytes.get(..PREAMBLE_BYTES) else {
        return Err(Fault::Truncated("file head"));
    };
    if xxh3_64(&bytes[..12]) as u32 != u32_at(bytes, 12) {
        return Err(Fault::Damaged("file head"));
    }
    match u32_at(bytes, 8) {
        VERSION_MIN..=VERSION => Ok(()),
        other => Err(Fault::Version(other)),
    }
}

/// The last bytes of a file.
pub(crate) fn trailer(index_at: u64) -> [u8; TRAILER_BYTES] {
    let mut out = [0; TRAILER_BYTES];
    out[..8].copy_from_slice(&index_at.to_le_bytes());
    out[8..16].copy_from_slice(&xxh3_64(&index_at.to_le_bytes()).to_le_bytes());
    out[16..].copy_from_slice(&END);
    out
}

/// The offset of the index, if these are the bytes of an end mark.
pub(crate) fn index_at(trailer: &[u8; TRAILER_BYTES]) -> Option<u64> {
    (trailer[16..] == END && xxh3_64(&trailer[..8]) == u64_at(trailer, 8))
        .then(|| u64_at(trailer, 0))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
