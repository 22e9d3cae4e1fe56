//! Byte ranges: from a Range field and the length of a file to the ranges to send (RFC 9110 section
//! 14). The caller decides whether Range applies: only to GET, and only while If-Range holds.

use std::ops::Deref;

/// How many ranges a request may name before it counts as an attack and gets the whole file.
pub const RANGES_MAX: usize = 100;

/// The cost of a part of a multipart response besides its bytes: delimiter, Content-Type and
/// Content-Range, rounded. It is counted so that many small ranges never cost more than the file.
pub const PART_OVERHEAD_BYTES: u64 = 100;

/// A part of a file: `0 < len`, and `start + len` is at most the length of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The number of bytes; never zero.
    pub len: u64,
}

impl ByteRange {
    /// The byte after the last one.
    pub fn end(self) -> u64 {
        self.start + self.len
    }
}

/// The result of a Range field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranges {
    /// Send the whole file (200): the field is not valid, has another unit, or costs more than the
    /// file.
    Ignore,
    /// No range contains a byte of the file (416).
    Unsatisfiable,
    /// Send these ranges (206).
    Some(RangeSet),
}

/// One or more ranges; a single one is kept without an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSet(Repr);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Repr {
    One(ByteRange),
    /// At least two ranges.
    Many(Box<[ByteRange]>),
}

impl RangeSet {
    /// The only range, if there is just one: the response is not multipart then.
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
///   For an empty file these are all ranges but a suffix, which is satisfiable (section 14.1.2);
///   as Content-Range cannot express an empty range, it gets the whole file.
/// - A number that does not fit 64 bits is beyond the end of any file.
/// - While there is at least one byte between any two ranges, the client's order is kept (section
///   15.3.7.2: it may have a reason). Where ranges overlap or touch, all are sorted and joined.
/// - Several ranges that with [`PART_OVERHEAD_BYTES`] each cost more than the file are ignored.
pub fn parse(value: &[u8], file_len: u64, ranges_max: usize) -> Ranges {
    let Some(list) = strip_unit(value) else { return Ranges::Ignore };
    let mut first = None;
    let mut more = Vec::new(); // allocates when there is a second range
    let mut members = 0;
    let mut asks_for_an_empty_end = false;
    for member in list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        if member.is_empty() {
            continue; // section 5.6.1.2: empty list elements are no elements
        }
        members += 1;
        let Some(spec) = Spec::parse(member).filter(|_| members <= ranges_max) else {
            return Ranges::Ignore;
        };
        asks_for_an_empty_end |= file_len == 0 && matches!(spec, Spec::Suffix { len } if len > 0);
        let Some(range) = spec.within(file_len) else { continue };
        match first {
            None => first = Some(range),
            Some(_) => more.push(range),
        }
    }
    match first {
        None if members == 0 || asks_for_an_empty_end => Ranges::Ignore,
        None => Ranges::Unsatisfiable,
        Some(first) => settle(first, more, file_len),
    }
}

/// Returns the text after `bytes=`; range units are case-insensitive (section 14.1).
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
    /// Parses a member (section 14.1.1); `None` if it violates the grammar or the order of its
    /// positions.
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

    /// The part that is within the file; `None` if that is empty.
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

/// Parses digits only; a number that does not fit becomes the greatest one.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let push = |number: u64, &digit: &u8| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    };
    Some(digits.iter().fold(0, push))
}

/// Joins ranges that overlap or touch, and compares the cost of the result with the whole file.
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
    let cost = |range: &ByteRange| u128::from(range.len) + u128::from(PART_OVERHEAD_BYTES);
    if ranges.iter().map(cost).sum::<u128>() > u128::from(file_len) {
        return Ranges::Ignore;
    }
    Ranges::Some(RangeSet(Repr::Many(ranges.into())))
}

/// Sorts ranges by start, and joins those without a byte between them.
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Formats a result in one line: `ignore`, `416`, or `start+len` of each range.
    fn show(ranges: &Ranges) -> String {
        match ranges {
            Ranges::Ignore => "ignore".to_owned(),
            Ranges::Unsatisfiable => "416".to_owned(),
            Ranges::Some(set) => {
                let texts = set.iter().map(|range| format!("{}+{}", range.start, range.len));
                texts.collect::<Vec<_>>().join(" ")
            }
        }
    }

    fn check(value: &str, file_len: u64, expected: &str) {
        let found = parse(value.as_bytes(), file_len, RANGES_MAX);
        assert_eq!(show(&found), expected, "{value} of {file_len}");
    }

    #[test]
    fn single_ranges() {
        check("bytes=0-8", 1000, "0+9");
        check("bytes=0-0", 1000, "0+1");
        check("bytes=999-", 1000, "999+1");
        check("bytes=0-", 1000, "0+1000");
        check("bytes=990-2000", 1000, "990+10");
        check("bytes=-5", 1000, "995+5");
        check("bytes=-5000", 1000, "0+1000");
        check("Bytes=0-8", 1000, "0+9");
        check("BYTES=007-08", 1000, "7+2");
        check("bytes=0-0", 1, "0+1");
        check("bytes=0-18446744073709551615", 1000, "0+1000");
        check("bytes=0-99999999999999999999999", 1000, "0+1000");
        check("bytes=-99999999999999999999999", 1000, "0+1000");
        check("bytes=18446744073709551614-", u64::MAX, "18446744073709551614+1");
        check("bytes=0-", u64::MAX, "0+18446744073709551615");
    }

    #[test]
    fn unsatisfiable_ranges() {
        check("bytes=1000-", 1000, "416");
        check("bytes=5000-6000", 1000, "416");
        check("bytes=-0", 1000, "416");
        check("bytes=-0,1000-1000", 1000, "416");
        check("bytes=18446744073709551615-", u64::MAX, "416");
        check("bytes=99999999999999999999-", 1000, "416");
        check("bytes=0-", 0, "416");
        check("bytes=0-0", 0, "416");
        check("bytes=-0", 0, "416");
    }

    #[test]
    fn an_empty_file_has_an_end() {
        check("bytes=-5", 0, "ignore");
        check("bytes=0-0,-1", 0, "ignore");
        check("bytes=-5,x", 0, "ignore");
    }

    #[test]
    fn ignored_fields() {
        let values = [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes= , ,",
            "bytes=-",
            "bytes=--5",
            "bytes=a-b",
            "bytes=5",
            "bytes=5-4",
            "bytes=0-1-2",
            "bytes=+0-1",
            "bytes=0 -1",
            "bytes=0- 1",
            "bytes=0x0-1",
            "bytes=0-1;2-3",
            "bytes =0-1",
            "byte=0-1",
            "bytess=0-1",
            "items=0-1",
            "none",
            "0-1",
            "bytes:0-1",
            "bytes=0-1,x",
            "bytes=0-1,5-4",
            "bytes=1000-,x",
        ];
        for value in values {
            check(value, 1000, "ignore");
        }
    }

    #[test]
    fn several_ranges() {
        check("bytes=0-1,5-8", 1000, "0+2 5+4");
        check("bytes=5-8,0-1", 1000, "5+4 0+2"); // the client's order
        check("bytes= 0-1 ,\t, 5-8,", 1000, "0+2 5+4");
        check("bytes=0-1,-1", 1000, "0+2 999+1");
        check("bytes=0-1,5000-", 1000, "0+2");
        check("bytes=0-1,-0", 1000, "0+2");
        check("bytes=0-1,2-3", 1000, "0+4"); // they touch
        check("bytes=0-1,3-4", 1000, "0+2 3+2"); // they do not
        check("bytes=0-9,5-20", 1000, "0+21");
        check("bytes=50-60,5-20,0-9", 1000, "0+21 50+11"); // sorted, since two were joined
        check("bytes=0-,0-,0-,0-,0-", 1000, "0+1000");
        check("bytes=0-99,10-20,5-6", 1000, "0+100");
    }

    #[test]
    fn several_ranges_cost_less_than_the_file() {
        check("bytes=0-0,2-2", 202, "0+1 2+1");
        check("bytes=0-0,2-2", 201, "ignore");
        check("bytes=0-499,501-", 1000, "ignore");
        check("bytes=0-9,-10", u64::MAX, "0+10 18446744073709551605+10");
        check("bytes=0-9223372036854775807,9223372036854775809-", u64::MAX, "ignore");
    }

    #[test]
    fn too_many_ranges() {
        let list = |count| format!("bytes={}", ["0-0"].repeat(count).join(","));
        check(&list(RANGES_MAX), 1000, "0+1");
        check(&list(RANGES_MAX + 1), 1000, "ignore");
        assert_eq!(parse(b"bytes=0-0,4-4", 1000, 1), Ranges::Ignore);
        assert_eq!(show(&parse(b"bytes=,0-0,", 1000, 1)), "0+1");
        assert_eq!(parse(b"bytes=0-0", 1000, 0), Ranges::Ignore);
    }

    #[test]
    fn one_range_is_kept_inline() {
        let Ranges::Some(set) = parse(b"bytes=3-4", 10, RANGES_MAX) else { panic!("is valid") };
        assert_eq!(set.single(), Some(ByteRange { start: 3, len: 2 }));
        let Ranges::Some(set) = parse(b"bytes=3-4,9-9", 1000, RANGES_MAX) else {
            panic!("is valid")
        };
        assert_eq!((set.single(), set.len()), (None, 2));
    }

    /// The numbers before and after the dash.
    type Member = (Option<usize>, Option<usize>);

    /// The bytes of the file that a member requests.
    fn requested_bytes(first: Option<usize>, last: Option<usize>, file: usize) -> Vec<bool> {
        let is_in = |byte: usize| match (first, last) {
            (Some(first), Some(last)) => first <= byte && byte <= last,
            (Some(first), None) => first <= byte,
            (None, Some(count)) => file <= byte + count,
            (None, None) => false,
        };
        (0..file).map(is_in).collect()
    }

    fn write_member(first: Option<usize>, last: Option<usize>) -> String {
        let show = |number: Option<usize>| number.map_or(String::new(), |n| n.to_string());
        format!("{}-{}", show(first), show(last))
    }

    /// The runs of set bytes in a bitmap.
    fn runs(map: &[bool]) -> Vec<String> {
        let mut runs = Vec::new();
        let mut start = None;
        for byte in 0..=map.len() {
            match (start, map.get(byte) == Some(&true)) {
                (None, true) => start = Some(byte),
                (Some(from), false) => {
                    runs.push(format!("{from}+{}", byte - from));
                    start = None;
                }
                _ => {}
            }
        }
        runs
    }

    /// The rules of [`parse`], computed with a bit for each byte of the file.
    fn model(members: &[Member], file: usize) -> String {
        let is_invalid = |member: &Member| match *member {
            (Some(first), Some(last)) => last < first,
            (first, last) => first.or(last).is_none(),
        };
        if members.is_empty() || members.iter().any(is_invalid) {
            return "ignore".to_owned();
        }
        let is_suffix = |&(first, last): &Member| first.is_none() && last > Some(0);
        if file == 0 && members.iter().any(is_suffix) {
            return "ignore".to_owned();
        }
        let maps: Vec<_> = members.iter().map(|&(a, b)| requested_bytes(a, b, file)).collect();
        let in_order: Vec<_> = maps.iter().flat_map(|map| runs(map)).collect();
        let union: Vec<_> = (0..file).map(|byte| maps.iter().any(|map| map[byte])).collect();
        let joined = runs(&union);
        let sent = if in_order.len() == joined.len() { &in_order } else { &joined };
        let bytes = union.iter().filter(|&&is_set| is_set).count();
        match sent.len() {
            0 => "416".to_owned(),
            1 => sent[0].clone(),
            count if bytes + 100 * count > file => "ignore".to_owned(),
            _ => sent.join(" "),
        }
    }

    fn member(file: usize) -> impl Strategy<Value = Member> {
        let number = move || 0..file + 3;
        let short = (number(), 0..30_usize);
        prop_oneof![
            8 => short.prop_map(|(first, more)| (Some(first), Some(first + more))),
            1 => number().prop_map(|first| (Some(first), None)),
            2 => number().prop_map(|count| (None, Some(count))),
            1 => (number(), number()).prop_map(|(first, last)| (Some(first), Some(last))),
        ]
    }

    fn request() -> impl Strategy<Value = (usize, Vec<Member>)> {
        let file = prop_oneof![0..20_usize, 180..900_usize];
        file.prop_flat_map(|file| (Just(file), proptest::collection::vec(member(file), 0..6)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_bitmap_agrees((file, members) in request()) {
            let texts = members.iter().map(|&(first, last)| write_member(first, last));
            let value = format!("bytes={}", texts.collect::<Vec<_>>().join(", "));
            let found = parse(value.as_bytes(), file as u64, RANGES_MAX);
            prop_assert_eq!(show(&found), model(&members, file), "{} of {}", value, file);
        }

        #[test]
        fn any_bytes_are_survived(list in "[0-9, -]{0,60}", file_len in any::<u64>()) {
            let value = format!("bytes={list}");
            if let Ranges::Some(set) = parse(value.as_bytes(), file_len, RANGES_MAX) {
                for range in &*set {
                    let end = range.start.checked_add(range.len);
                    prop_assert!(range.len > 0 && end.is_some_and(|end| end <= file_len));
                }
            }
        }
    }
}
