//! The content of a file: a function of its name and the offset, so that any byte of any reply can
//! be checked without a copy of the file.
//!
//! Lines of 64 bytes, 63 printable ASCII characters and a line feed. The seed of a file is the
//! finaliser of SplitMix64 over FNV-1a (64 bits) of its path; the eight bytes at offset 8w are the
//! w-th output of SplitMix64 from that seed, least significant byte first, six bits of each kept
//! and 0x3F added: `?` to `~`, nothing that HTML or a terminal would interpret. Six bits of eight
//! are random, so that no compression gets far below three quarters.
//!
//! The content is not proof against deliberate forgery: that would cost more than the reply.

/// The bytes of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    seed: u64,
}

/// The first wrong byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The offset in the file.
    pub offset: u64,
    /// The expected byte.
    pub expected: u8,
    /// The byte that was found.
    pub got: u8,
}

/// The length of a line in bytes, its line feed included.
const LINE_LEN: usize = 64;
const WORDS_PER_LINE: usize = LINE_LEN / 8;

impl Content {
    /// The content of the file with this path below its set's root.
    #[must_use]
    pub fn for_path(path: &[u8]) -> Self {
        Self { seed: finalise(fnv_1a(path)) }
    }

    /// Writes the bytes from `offset` on.
    pub fn fill(&self, offset: u64, out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(head_len(offset, out.len()));
        let (lines, tail) = rest.as_chunks_mut::<LINE_LEN>();
        let lines_offset = offset + head.len() as u64;
        let tail_offset = lines_offset + lines.as_flattened().len() as u64;

        self.fill_part(offset, head);
        let mut words = self.words(lines_offset);
        for line in lines {
            for (bytes, word) in line.as_chunks_mut::<8>().0.iter_mut().zip(words.next_line()) {
                *bytes = word.to_le_bytes();
            }
        }
        self.fill_part(tail_offset, tail);
    }

    /// Compares `bytes`, whose first byte is expected to be at `offset`.
    ///
    /// # Errors
    /// The first byte that differs.
    pub fn check(&self, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        let (head, rest) = bytes.split_at(head_len(offset, bytes.len()));
        let (lines, tail) = rest.as_chunks::<LINE_LEN>();
        let lines_offset = offset + head.len() as u64;
        let tail_offset = lines_offset + lines.as_flattened().len() as u64;

        self.check_part(offset, head)?;
        let mut words = self.words(lines_offset);
        for (number, line) in lines.iter().enumerate() {
            // One branch for a line: the differences of its words are collected first.
            let pairs = line.as_chunks::<8>().0.iter().zip(words.next_line());
            let difference =
                pairs.fold(0, |all, (got, expected)| all | (u64::from_le_bytes(*got) ^ expected));
            if difference != 0 {
                self.check_part(lines_offset + (number * LINE_LEN) as u64, line)?;
            }
        }
        self.check_part(tail_offset, tail)
    }

    /// [`fill`](Self::fill) for bytes of one line.
    fn fill_part(&self, offset: u64, out: &mut [u8]) {
        if !out.is_empty() {
            let start = (offset % LINE_LEN as u64) as usize;
            out.copy_from_slice(&self.line_around(offset)[start..start + out.len()]);
        }
    }

    /// [`check`](Self::check) for bytes of one line.
    fn check_part(&self, offset: u64, bytes: &[u8]) -> Result<(), Mismatch> {
        if bytes.is_empty() {
            return Ok(());
        }
        let line = self.line_around(offset);
        let expected = &line[(offset % LINE_LEN as u64) as usize..];
        match bytes.iter().zip(expected).position(|(got, expected)| got != expected) {
            None => Ok(()),
            Some(at) => {
                Err(Mismatch { offset: offset + at as u64, expected: expected[at], got: bytes[at] })
            }
        }
    }

    /// The whole line that the byte at `offset` is in.
    fn line_around(&self, offset: u64) -> [u8; LINE_LEN] {
        let mut line = [0; LINE_LEN];
        let words = self.words(offset - offset % LINE_LEN as u64).next_line();
        for (bytes, word) in line.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        line
    }

    /// The words from `offset` on, which is the start of a line.
    fn words(&self, offset: u64) -> Words {
        Words { state: self.seed.wrapping_add((offset / 8).wrapping_mul(STEP)) }
    }
}

/// How many of `len` bytes from `offset` on belong to a line that began before them.
fn head_len(offset: u64, len: usize) -> usize {
    let begun = (offset % LINE_LEN as u64) as usize;
    (LINE_LEN - begun).rem_euclid(LINE_LEN).min(len)
}

/// The SplitMix64 sequence from any place on, which makes any offset cheap.
struct Words {
    state: u64,
}

impl Words {
    #[inline]
    fn next_line(&mut self) -> [u64; WORDS_PER_LINE] {
        let mut line = [0; WORDS_PER_LINE];
        for word in &mut line {
            self.state = self.state.wrapping_add(STEP);
            *word = printable(finalise(self.state));
        }
        let last = &mut line[WORDS_PER_LINE - 1];
        *last = *last & (u64::MAX >> 8) | u64::from(b'\n') << 56;
        line
    }
}

/// Maps a word to eight characters of 64: no byte of the sum exceeds 0x7E, so that none carries
/// into the next.
fn printable(word: u64) -> u64 {
    (word & 0x3F3F_3F3F_3F3F_3F3F) + 0x3F3F_3F3F_3F3F_3F3F
}

/// The increment of SplitMix64's state for each output.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn finalise(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The FNV-1a hash with 64 bits (draft-eastlake-fnv).
fn fnv_1a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::FileSet;
    use proptest::prelude::*;
    use statistics::Generator;
    use std::collections::HashSet;

    /// The content exactly as the documentation defines it, byte by byte, for other
    /// implementations.
    fn by_the_book(path: &[u8], len: usize) -> Vec<u8> {
        let mut words = Generator::new(Generator::new(fnv_1a(path).wrapping_sub(STEP)).next_u64());
        let mut out = Vec::new();
        while out.len() < len {
            out.extend(words.next_u64().to_le_bytes().map(|byte| (byte & 0x3F) + 0x3F));
        }
        (63..out.len()).step_by(64).for_each(|at| out[at] = b'\n');
        out.truncate(len);
        out
    }

    #[test]
    fn is_what_the_documentation_says() {
        for path in ["dir00000/class0_0", "dir00679/class3_8", "size51200", ""] {
            let mut filled = vec![0; 5000];
            Content::for_path(path.as_bytes()).fill(0, &mut filled);
            assert_eq!(filled, by_the_book(path.as_bytes(), 5000), "{path}");
        }
    }

    #[test]
    fn the_first_bytes_never_change() {
        let mut start = [0; 24];
        Content::for_path(b"dir00000/class0_0").fill(0, &mut start);
        assert_eq!(std::str::from_utf8(&start), Ok("tYpQR?tekNweT}Wmy}TrspeB"));
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // The test vectors of draft-eastlake-fnv.
        assert_eq!(fnv_1a(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv_1a(b"a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn every_two_files_differ_in_the_first_bytes() {
        let set = FileSet::directories(942).unwrap();
        let starts: HashSet<[u8; 16]> = set
            .iter()
            .map(|file| {
                let mut start = [0; 16];
                file.content().fill(0, &mut start);
                start
            })
            .collect();
        assert_eq!(starts.len() as u64, set.files());
    }

    #[test]
    fn the_end_of_the_largest_file_is_as_cheap_as_its_start() {
        let content = Content::for_path(b"size9223372036854775807");
        let mut end = [0; 100];
        let offset = i64::MAX as u64 - 100;
        content.fill(offset, &mut end);
        assert_eq!(content.check(offset, &end), Ok(()));
    }

    proptest! {
        #[test]
        fn filled_in_pieces_it_is_the_same(
            path in "[a-z0-9/]{0,20}",
            start in 0..10_000_u64,
            cuts in prop::collection::vec(0..700_usize, 0..8),
        ) {
            let content = Content::for_path(path.as_bytes());
            let len = cuts.iter().sum();
            let mut whole = vec![0; len];
            content.fill(start, &mut whole);
            let mut pieces = Vec::new();
            for cut in cuts {
                let mut piece = vec![0; cut];
                let offset = start + pieces.len() as u64;
                content.fill(offset, &mut piece);
                prop_assert_eq!(content.check(offset, &piece), Ok(()));
                pieces.extend(piece);
            }
            prop_assert_eq!(&pieces, &whole);
            let from_the_start = by_the_book(path.as_bytes(), start as usize + len);
            prop_assert_eq!(&from_the_start[start as usize..], &whole[..]);
        }

        #[test]
        fn a_wrong_byte_is_found_where_it_is(
            start in 0..10_000_u64,
            len in 1..1500_usize,
            at in any::<prop::sample::Index>(),
            flip in 1..=255_u8,
            also in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let content = Content::for_path(b"dir00000/class1_4");
            let mut bytes = vec![0; len];
            content.fill(start, &mut bytes);
            let at = at.index(len);
            let expected = bytes[at];
            bytes[at] ^= flip;
            let got = bytes[at];
            // A second wrong byte, later, changes nothing.
            if let Some(later) = also {
                let later = at + later.index(len - at);
                if later > at { bytes[later] ^= flip; }
            }
            let mismatch = Mismatch { offset: start + at as u64, expected, got };
            prop_assert_eq!(content.check(start, &bytes), Err(mismatch));
        }
    }
}
