//! Conditional requests: how validators are compared, and whether a request may go on (RFC 9110
//! section 13). The caller has chosen the representation that is compared, and it exists. How
//! entity tags are made is in `entity_tag.rs`.

use http1::{FieldName, Head, Method};

/// The validators of the representation that a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Validators<'a> {
    /// The entity tag in quotes, with its mark if it is weak.
    pub etag: Option<&'a [u8]>,
    /// Unix seconds, as sent in Last-Modified; `None` where that field is not sent.
    pub modified: Option<i64>,
    /// Whether that time vouches for the bytes, as a strong tag does (section 8.8.2.2).
    pub has_strong_date: bool,
}

/// The result of the preconditions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Answer as if there were no preconditions.
    Proceed,
    /// 304
    NotModified,
    /// 412
    PreconditionFailed,
}

/// Evaluates all preconditions except If-Range.
///
/// CONNECT, OPTIONS and TRACE have no representation to compare with, so that preconditions do not
/// apply to them (section 13.2.1). The representation exists: the caller answers a request with 404
/// before it evaluates preconditions.
pub fn evaluate(head: &Head<'_>, validators: &Validators<'_>) -> Verdict {
    match head.method {
        Method::Connect | Method::Options | Method::Trace => Verdict::Proceed,
        Method::Get | Method::Head => decide(|name| head.values(name), true, validators),
        _ => decide(|name| head.values(name), false, validators),
    }
}

/// Whether the date or the tag in If-Range is that of the representation, so that parts that the
/// client has and parts that the server has fit together (section 13.1.5).
///
/// A tag is compared strongly, so that a weak one never holds; and a date holds only if it is
/// exactly the Last-Modified time and that is a strong validator.
pub fn if_range_holds(value: &[u8], validators: &Validators<'_>) -> bool {
    if let Some((tag, rest)) = split_tag(value) {
        return rest.is_empty() && validators.etag.is_some_and(|etag| strongly_equal(tag, etag));
    }
    let date = http1::parse_date(value).filter(|_| validators.has_strong_date);
    date.is_some() && date == validators.modified
}

/// Decides in the order of section 13.2.2, without If-Range. `lines` returns the lines of a field,
/// none where the request lacks it; `is_read` is true for GET and HEAD.
fn decide<'v, L: Iterator<Item = &'v [u8]>>(
    lines: impl Fn(FieldName) -> L,
    is_read: bool,
    validators: &Validators<'_>,
) -> Verdict {
    let present = |name| {
        let mut lines = lines(name).peekable();
        lines.peek().is_some().then_some(lines)
    };
    let may_act = match present(FieldName::IfMatch) {
        Some(tags) => any_matches(tags, validators.etag, Comparison::Strong),
        None => present(FieldName::IfUnmodifiedSince)
            .is_none_or(|date| is_unmodified_since(date, validators.modified)),
    };
    if !may_act {
        return Verdict::PreconditionFailed;
    }
    let is_current = match present(FieldName::IfNoneMatch) {
        Some(tags) => any_matches(tags, validators.etag, Comparison::Weak),
        None => {
            is_read
                && present(FieldName::IfModifiedSince)
                    .is_some_and(|date| is_not_modified_since(date, validators.modified))
        }
    };
    match (is_current, is_read) {
        (false, _) => Verdict::Proceed,
        (true, true) => Verdict::NotModified,
        (true, false) => Verdict::PreconditionFailed,
    }
}

/// How two tags are compared (section 8.8.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Strong comparison: both tags are strong, and they are equal.
    Strong,
    /// Weak comparison: the opaque tags are equal, whether either is weak or not.
    Weak,
}

/// Whether the representation has one of the tags. A line that is `*` stands for any tag, and is
/// true because the representation exists.
fn any_matches<'v>(
    mut lines: impl Iterator<Item = &'v [u8]>,
    etag: Option<&[u8]>,
    comparison: Comparison,
) -> bool {
    let equal = match comparison {
        Comparison::Strong => strongly_equal,
        Comparison::Weak => weakly_equal,
    };
    lines.any(|line| {
        line == b"*" || etag.is_some_and(|etag| Tags { rest: line }.any(|tag| equal(tag, etag)))
    })
}

fn strongly_equal(one: &[u8], other: &[u8]) -> bool {
    one == other && !one.starts_with(b"W/")
}

fn weakly_equal(one: &[u8], other: &[u8]) -> bool {
    opaque(one) == opaque(other)
}

/// A tag without its weakness mark, which is case-sensitive (section 8.8.3).
fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// The tags of a comma-separated line. Empty elements are skipped; the line ends at the first
/// element that is not a tag, since commas may be part of tags and the start of the next tag is
/// unknown.
struct Tags<'v> {
    rest: &'v [u8],
}

impl<'v> Iterator for Tags<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let is_gap = |byte: &u8| b", \t".contains(byte);
        let start = self.rest.iter().position(|byte| !is_gap(byte))?;
        let (tag, rest) = split_tag(&self.rest[start..])?;
        self.rest = rest;
        matches!(rest.trim_ascii_start().first(), None | Some(b',')).then_some(tag)
    }
}

/// Splits `bytes` after the entity tag that they start with, quotes and mark included.
fn split_tag(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let quoted = opaque(bytes).strip_prefix(b"\"")?;
    let close = quoted.iter().position(|&byte| !is_tag_byte(byte))?;
    let len = bytes.len() - quoted.len() + close + 1;
    (quoted[close] == b'"').then(|| bytes.split_at(len))
}

/// `etagc` of section 8.8.3: no quote, no control byte, no space.
fn is_tag_byte(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..)
}

/// Evaluates If-Unmodified-Since (section 13.1.4): true as well if the date is invalid or the file
/// has none.
fn is_unmodified_since<'v>(lines: impl Iterator<Item = &'v [u8]>, modified: Option<i64>) -> bool {
    let dates = modified.zip(only_date(lines));
    dates.is_none_or(|(modified, date)| modified <= date)
}

/// Evaluates If-Modified-Since (section 13.1.3): false if the date is invalid or the file has none.
/// A date in the future counts like any other; ignoring it was a rule of RFC 2616.
fn is_not_modified_since<'v>(lines: impl Iterator<Item = &'v [u8]>, modified: Option<i64>) -> bool {
    let dates = modified.zip(only_date(lines));
    dates.is_some_and(|(modified, date)| modified <= date)
}

/// The date of a field with a single line; a list of dates is no date.
fn only_date<'v>(mut lines: impl Iterator<Item = &'v [u8]>) -> Option<i64> {
    let date = lines.next().and_then(http1::parse_date);
    date.filter(|_| lines.next().is_none())
}

#[cfg(test)]
mod tests;
