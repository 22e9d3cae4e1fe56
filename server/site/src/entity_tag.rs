//! Entity tags (RFC 9110 §8.8.3): what the tag of a file is made of. How tags are compared is in
//! `conditional.rs`.
//!
//! A strong tag promises that the bytes are the same. A file's length and modification time do not:
//! every file of an npm package was modified at the same moment of 1985, those of a zip archive in
//! 1980, those of a reproducible build whenever `SOURCE_DATE_EPOCH` says, and `cp -p` and `rsync
//! -t` set the time to what it was elsewhere. So a tag is, in this order,
//!
//! 1. the hash of the content, where that is in memory anyway: it agrees between hosts and between
//!    builds, too;
//! 2. the moment of the last change and the length, where that was written here
//!    ([`Identity::was_written_here`]);
//! 3. the hash of the content, which is read for it, of files up to a size;
//! 4. a weak tag of that moment and the length. It cannot be set back, but moves with a change of
//!    mode, and two changes within a tick of the kernel's clock have it in common.

use std::fmt;

use crate::negotiate::Coding;
use crate::resource::Identity;

/// An entity tag, in its quoted form. It differs for each coding of a file, since their bytes
/// differ (§8.8.3.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EntityTag {
    bytes: [u8; Self::LEN_MAX],
    len: u8,
}

/// The hash of a whole file's content: XXH3 of 64 bits.
///
/// The hash is only compared with hashes of other versions under the same URL. Of a million
/// versions two have the same hash with a probability of one in 37 million; 128 bits would add
/// sixteen bytes to each head without need. It is no defence against a person that writes two files
/// with the same hash: with write access to the files of a site, no trick is needed to send clients
/// any content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash(pub u64);

impl ContentHash {
    /// Hashes content that is in memory.
    #[must_use]
    pub fn compute(content: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(content))
    }
}

impl EntityTag {
    /// The longest tag: the mark of a weak tag, two quotes, 16 digits, a dash, 16 digits and
    /// `-zst`.
    const LEN_MAX: usize = 2 + 2 + 16 + 1 + 16 + 4;

    /// Makes the tag `"<hash>"` in hexadecimal, always 16 digits, with the coding after it.
    #[must_use]
    pub fn from_content(hash: ContentHash, coding: Coding) -> Self {
        Self::from_parts("", format_args!("{:016x}", hash.0), coding)
    }

    /// Makes the tag `"<change>-<len>"` in hexadecimal, with the coding after it. The dash is
    /// needed: without it different pairs would give the same tag.
    #[must_use]
    pub fn from_change(file: &Identity, coding: Coding) -> Self {
        Self::from_change_marked("", file, coding)
    }

    /// Makes the tag `W/"<change>-<len>"` in hexadecimal, with the coding after it: a weak tag,
    /// since the file may have changed though the tag is the same.
    #[must_use]
    pub fn weak_from_change(file: &Identity, coding: Coding) -> Self {
        Self::from_change_marked("W/", file, coding)
    }

    fn from_change_marked(mark: &str, file: &Identity, coding: Coding) -> Self {
        // Nanoseconds since 1970 fit 64 bits until 2262; a file from later keeps the last moment.
        let changed_ns = i64::try_from(file.changed_ns).unwrap_or(i64::MAX);
        Self::from_parts(mark, format_args!("{changed_ns:x}-{:x}", file.len), coding)
    }

    /// Restores a tag from the bytes that [`EntityTag::as_bytes`] returned.
    pub(crate) fn from_bytes(tag: &[u8]) -> Option<Self> {
        let is_sound = tag.len() >= 2 && tag.iter().all(u8::is_ascii_graphic);
        let mut bytes = [0; Self::LEN_MAX];
        bytes.get_mut(..tag.len()).filter(|_| is_sound)?.copy_from_slice(tag);
        Some(Self { bytes, len: tag.len() as u8 }) // at most LEN_MAX
    }

    /// The tag with its quotes, as the ETag field carries it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn from_parts(mark: &str, opaque: fmt::Arguments<'_>, coding: Coding) -> Self {
        let mut tag = Self { bytes: [0; Self::LEN_MAX], len: 0 };
        let suffix = match coding {
            Coding::Identity => "",
            Coding::Gzip => "-gz",
            Coding::Zstd => "-zst",
            Coding::Brotli => "-br",
        };
        fmt::write(&mut tag, format_args!("{mark}\"{opaque}{suffix}\""))
            .expect("LEN_MAX holds each form");
        tag
    }
}

impl fmt::Write for EntityTag {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = usize::from(self.len);
        let space = self.bytes[start..].get_mut(..text.len()).ok_or(fmt::Error)?;
        space.copy_from_slice(text.as_bytes());
        self.len = (start + text.len()) as u8; // at most LEN_MAX
        Ok(())
    }
}

impl fmt::Debug for EntityTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(changed_ns: i128, len: u64) -> Identity {
        Identity { device: 1, inode: 2, len, modified_ns: 3, changed_ns }
    }

    #[test]
    fn tags_of_files() {
        let check =
            |tag: EntityTag, expected: &str| assert_eq!(tag.as_bytes(), expected.as_bytes());
        let small = file(0x1234, 0xabc);
        check(EntityTag::from_change(&small, Coding::Identity), "\"1234-abc\"");
        check(EntityTag::from_change(&small, Coding::Brotli), "\"1234-abc-br\"");
        check(EntityTag::weak_from_change(&small, Coding::Identity), "W/\"1234-abc\"");
        check(EntityTag::from_change(&file(0, 0), Coding::Gzip), "\"0-0-gz\"");
        let widest = "W/\"ffffffffffffffff-ffffffffffffffff-zst\"";
        check(EntityTag::weak_from_change(&file(-1, u64::MAX), Coding::Zstd), widest);
        check(EntityTag::from_content(ContentHash(0xff), Coding::Identity), "\"00000000000000ff\"");
        let empty = EntityTag::from_content(ContentHash::compute(b""), Coding::Zstd);
        check(empty, "\"2d06800538d394c2-zst\""); // XXH3_64bits of nothing, as its authors publish it
        assert!(size_of::<EntityTag>() <= 48);
    }

    proptest! {
        /// Tags differ where their input differs, and survive encoding.
        #[test]
        fn tags_are_injective(a in any::<(i64, u64)>(), b in any::<(i64, u64)>()) {
            let codings = Coding::ALL.map(|one| Coding::ALL.map(|other| (one, other)));
            for (one, other) in codings.into_iter().flatten() {
                let (first, second) = (file(a.0.into(), a.1), file(b.0.into(), b.1));
                let tag = EntityTag::from_change(&first, one);
                let others = [
                    (EntityTag::from_change(&second, other), a == b && one == other),
                    (EntityTag::weak_from_change(&first, one), false),
                    (EntityTag::from_content(ContentHash(a.1), one), false),
                ];
                for (second, is_same) in others {
                    prop_assert_eq!(tag == second, is_same);
                    prop_assert_eq!(EntityTag::from_bytes(second.as_bytes()), Some(second));
                }
            }
        }
    }
}
