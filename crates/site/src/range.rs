//! Byte ranges: from a Range field and the length of a file to the ranges to send (RFC 9110
//! section 14). Not about when Range applies: only to GET, and only while If-Range holds.

use std::ops::Deref;

/// How many ranges a request may name before it counts as an attack and gets the whole file.
pub const RANGES_MAX: usize = 100;

/// What a part of a multipart response costs besides its bytes: delimiter, Content-Type and
/// Content-Range, rounded. Counted so that many small ranges never cost more than the file.
pub const PART_OVERHEAD_BYTES: u64 = 100;

/// A part of a file: `0 < len`, and `start + len` is at most the length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// How many bytes; never zero.
    pub len: u64,
}

impl ByteRange {
    /// The byte after the last one.
    pub fn end(self) -> u64 {
        self.start + self.len
    }
}

/// What to do about a Range field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// Send the whole file (200): the field is not valid, of another unit, or costs more than the
    /// file does.
    Ignore,
    /// No range has a byte of the file in it (416).
    Unsatisfiable,
    /// Send these (206).
    Some(RangeSet),
}

/// One range or more; one is kept without an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSet(Repr);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Repr {
    One(ByteRange),
    /// At least two.
    Many(Box<[ByteRange]>),
}

impl RangeSet {
    /// The only range, if there is one: the response is not multipart then.
    pub fn single(&self) -> Option<ByteRange> {
        match self.0 {
            Repr::One(range) => Some(range),
            Repr::Many(_) => None,
        }
    }
}

impl Deref for RangeSet {
    type Target = [ByteRange];

    fn deref(&self) -> &[ByteRange] {
        match &self.0 {
            Repr::One(range) => std::slice::from_ref(range),
            Repr::Many(ranges) => ranges,
        }
    }
}

/// Reads the value of a Range field for a file of `file_len` bytes.
///
/// - Units other than `bytes`, a list with one invalid member, and lists of more than
///   `ranges_max` members are ignored, as section 14.2 allows.
/// - Members without a byte in the file are dropped; if all are, the request is unsatisfiable.
///   That includes every range of an empty file: Content-Range cannot express an empty one.
/// - A number that does not fit 64 bits lies beyond the end of any file.
/// - While there is at least one byte between any two ranges, the client's order is kept (section
///   15.3.7.2: it may have a reason). Where ranges overlap or touch, all are sorted and joined.
/// - Several ranges that with [`PART_OVERHEAD_BYTES`] each come to more than the file are ignored.
pub fn parse(value: &[u8], file_len: u64, ranges_max: usize) -> Ranges {
    let Some(list) = strip_unit(value) else { return Ranges::Ignore };
    let mut first = None;
    let mut more = Vec::new(); // allocates when there is a second range
    let mut members = 0;
    for member in list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        if member.is_empty() {
            continue; // section 5.6.1.2: empty list elements are no elements
        }
        members += 1;
        let Some(spec) = Spec::parse(member).filter(|_| members <= ranges_max) else {
            return Ranges::Ignore;
        };
        let Some(range) = spec.within(file_len) else { continue };
        match first {
            None => first = Some(range),
            Some(_) => more.push(range),
        }
    }
    match first {
        None if members == 0 => Ranges::Ignore,
        None => Ranges::Unsatisfiable,
        Some(first) => settle(first, more, file_len),
    }
}

/// What follows `bytes=`; range units are case-insensitive (section 14.1).
fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, list) = value.split_at_checked(b"bytes=".len())?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(list)
}

/// A member of the list, before the length of the file is known.
enum Spec {
    /// `first-last` or `first-`; `first <= last`.
    Interval { first: u64, last: u64 },
    /// `-len`
    Suffix { len: u64 },
}

impl Spec {
    /// Section 14.1.1; `None` where the grammar or the order of the two positions is violated.
    fn parse(member: &[u8]) -> Option<Self> {
        let dash = member.iter().position(|&byte| byte == b'-')?;
        let (first, last) = (&member[..dash], &member[dash + 1..]);
        if first.is_empty() {
            return Some(Self::Suffix { len: parse_number(last)? });
        }
        let first = parse_number(first)?;
        let last = if last.is_empty() { u64::MAX } else { parse_number(last)? };
        (first <= last).then_some(Self::Interval { first, last })
    }

    /// The part that the file has; `None` if that is nothing.
    fn within(&self, file_len: u64) -> Option<ByteRange> {
        let last_of_file = file_len.checked_sub(1)?;
        let (start, last) = match *self {
            Self::Interval { first, last } => (first, last.min(last_of_file)),
            Self::Suffix { len: 0 } => return None,
            Self::Suffix { len } => (file_len.saturating_sub(len), last_of_file),
        };
        let distance = last.checked_sub(start)?;
        Some(ByteRange { start, len: distance + 1 }) // distance < file_len
    }
}

/// Digits only; what does not fit becomes the greatest number.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let push = |number: u64, &digit: &u8| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    };
    Some(digits.iter().fold(0, push))
}

/// Joins what overlaps or touches, and weighs the result against the whole file.
fn settle(first: ByteRange, more: Vec<ByteRange>, file_len: u64) -> Ranges {
    if more.is_empty() {
        return Ranges::Some(RangeSet(Repr::One(first)));
    }
    let mut asked = more;
    asked.insert(0, first);
    let joined = coalesce(asked.clone());
    let ranges = if joined.len() == asked.len() { asked } else { joined };
    if let [only] = ranges[..] {
        return Ranges::Some(RangeSet(Repr::One(only)));
    }
    let cost = ranges.iter().fold(0_u64, |sum, range| {
        sum.saturating_add(range.len).saturating_add(PART_OVERHEAD_BYTES)
    });
    if cost > file_len {
        return Ranges::Ignore;
    }
    Ranges::Some(RangeSet(Repr::Many(ranges.into())))
}

/// Sorted by start, with at least one byte between any two.
fn coalesce(mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let joins = next.start <= kept.end();
        if joins {
            kept.len = kept.end().max(next.end()) - kept.start;
        }
        joins
    });
    ranges
}

#[cfg(test)]
mod tests {}
