//! Arbitrary bytes as a Range field, against a model that has a bit for each byte of the file. The
//! first two bytes of the input are the length of the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use site::range::{ByteRange, PART_OVERHEAD_BYTES, Ranges, parse};

const RANGES_MAX: usize = 8;

fuzz_target!(|input: &[u8]| {
    let Some((file_len, value)) = input.split_first_chunk::<2>() else { return };
    let file_len = u64::from(u16::from_le_bytes(*file_len) % 2048);
    let found = match parse(value, file_len, RANGES_MAX) {
        Ranges::Ignore => None,
        Ranges::Unsatisfiable => Some(Vec::new()),
        Ranges::Some(set) => Some(set.to_vec()),
    };
    assert_eq!(found, model(value, file_len), "{} of {file_len}", value.escape_ascii());
});

/// The expected ranges; none for 416, and `None` for the whole file.
fn model(value: &[u8], file_len: u64) -> Option<Vec<ByteRange>> {
    let text = value.iter().map(|&byte| char::from(byte)).collect::<String>();
    let is_bytes = text.get(..6).is_some_and(|unit| unit.eq_ignore_ascii_case("bytes="));
    let list = if is_bytes { &text[6..] } else { return None };
    let trimmed = list.split(',').map(|member| member.trim_matches(is_space));
    let members: Vec<_> = trimmed.filter(|member| !member.is_empty()).collect();
    if members.is_empty() || members.len() > RANGES_MAX {
        return None;
    }
    let is_suffix = |member: &&str| {
        member.strip_prefix('-').and_then(number).is_some_and(|count| count > Some(0))
    };
    let are_valid = members.iter().all(|member| bitmap(member, 0).is_some());
    if file_len == 0 && are_valid && members.iter().any(is_suffix) {
        return None;
    }
    let maps: Vec<_> =
        members.iter().map(|member| bitmap(member, file_len)).collect::<Option<_>>()?;
    let union = (0..file_len as usize).map(|byte| maps.iter().any(|map| map[byte])).collect();
    let (asked, joined) = (maps.iter().flat_map(runs).collect::<Vec<_>>(), runs(&union));
    let sent = if asked.len() == joined.len() { asked } else { joined };
    let cost: u64 = sent.iter().map(|range| range.len + PART_OVERHEAD_BYTES).sum();
    (sent.len() < 2 || cost <= file_len).then_some(sent)
}

/// The white space of `trim_ascii`.
fn is_space(letter: char) -> bool {
    letter.is_ascii_whitespace()
}

/// The bytes that a member requests; `None` if it is not valid.
fn bitmap(member: &str, file_len: u64) -> Option<Vec<bool>> {
    let (first, last) = member.split_once('-')?;
    let bytes = 0..u128::from(file_len);
    Some(match (number(first)?, number(last)?) {
        (None, None) => return None,
        (Some(first), Some(last)) if last < first => return None,
        (None, Some(count)) => bytes.map(|byte| u128::from(file_len) <= byte + count).collect(),
        (Some(first), last) => {
            bytes.map(|byte| first <= byte && last.is_none_or(|last| byte <= last)).collect()
        }
    })
}

/// Parses digits, or nothing at all; `None` for anything else. A number of more than 64 bits
/// becomes the greatest number.
fn number(digits: &str) -> Option<Option<u128>> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let limit = u128::from(u64::MAX);
    let significant = digits.trim_start_matches('0');
    let value = if significant.len() > 30 { limit } else { significant.parse().unwrap_or(0) };
    Some((!digits.is_empty()).then_some(value.min(limit)))
}

/// The runs of set bits.
fn runs(map: &Vec<bool>) -> Vec<ByteRange> {
    let mut runs: Vec<ByteRange> = Vec::new();
    for byte in (0..map.len()).filter(|&byte| map[byte]) {
        match runs.last_mut() {
            Some(run) if run.end() == byte as u64 => run.len += 1,
            _ => runs.push(ByteRange { start: byte as u64, len: 1 }),
        }
    }
    runs
}
