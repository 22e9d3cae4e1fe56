//! Conditional requests: entity tags, and whether a request may go on (RFC 9110 section 13). Not
//! about which representation is compared: the caller has chosen it, and it exists.

use std::fmt;

use crate::negotiate::Coding;

/// A strong entity tag, in its quoted form. It differs for each coding of a file, since their
/// bytes differ (section 8.8.3.3).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EntityTag {
    bytes: [u8; Self::LEN_MAX],
    len: u8,
}

impl EntityTag {
    /// Two quotes, `h`, 32 digits and `-zst`; or 16 digits, a dash, 16 digits and `-zst`.
    const LEN_MAX: usize = 2 + 1 + 32 + 4;

    /// `"<time>-<len>"` in hexadecimal, with the coding after it. The dash matters: without it
    /// different pairs give the same tag.
    pub fn from_modified(modified_ns: i64, len: u64, coding: Coding) -> Self {
        Self::from_parts(format_args!("{modified_ns:x}-{len:x}"), coding)
    }

    /// `"h<hash>"` in hexadecimal, with the coding after it: for files whose time says nothing
    /// (reproducible builds). The `h` keeps it apart from the other form.
    pub fn from_hash(hash: u128, coding: Coding) -> Self {
        Self::from_parts(format_args!("h{hash:032x}"), coding)
    }

    /// The tag with its quotes, as the ETag field carries it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn from_parts(opaque: fmt::Arguments<'_>, coding: Coding) -> Self {
        let mut tag = Self { bytes: [0; Self::LEN_MAX], len: 0 };
        let suffix = match coding {
            Coding::Identity => "",
            Coding::Gzip => "-gz",
            Coding::Zstd => "-zst",
            Coding::Brotli => "-br",
        };
        fmt::write(&mut tag, format_args!("\"{opaque}{suffix}\"")).expect("LEN_MAX holds each form");
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

/// What is known of the representation that a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Validators<'a> {
    /// The entity tag in quotes; strong.
    pub etag: Option<&'a [u8]>,
    /// Unix seconds, as sent in Last-Modified; `None` where that field is not sent.
    pub modified: Option<i64>,
}

/// What the preconditions of a request come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Answer as if there were none.
    Proceed,
    /// 304
    NotModified,
    /// 412
    PreconditionFailed,
}
