//! Arbitrary bytes as a request head: parsing never panics, the outcome does not depend on how the
//! bytes are cut into reads, and an accepted head is unambiguous. The first four bytes of the input
//! choose the cuts.

#![no_main]

use http1::{BodyFraming, FieldName, Head, HeadError, HeadLimits, Parsed, Version, parse_head};
use libfuzzer_sys::fuzz_target;

/// A limit that is small enough for the fuzzer to exceed.
const LIMITS: HeadLimits =
    HeadLimits { head_bytes_max: 512, request_line_bytes_max: 128, fields_max: 12 };

fuzz_target!(|input: &[u8]| {
    let Some((cuts, bytes)) = input.split_first_chunk::<4>() else { return };
    let whole = parse(&[bytes.len()], bytes);
    let mut ends = cuts.map(|cut| usize::from(cut) * bytes.len() / 255).to_vec();
    ends.sort_unstable();
    ends.push(bytes.len());
    assert_eq!(parse(&ends, bytes), whole, "cut at {ends:?}");
    let singles: Vec<usize> = (0..=bytes.len()).collect();
    assert_eq!(parse(&singles, bytes), whole, "a byte at a time");
});

/// The outcomes for a connection that has read up to each of `ends` in turn.
fn parse(ends: &[usize], bytes: &[u8]) -> Result<Option<String>, HeadError> {
    let mut scanned = 0;
    for &end in ends {
        // A separate allocation, so that the sanitizer detects a byte that is read too far.
        let piece = bytes[..end].to_vec().into_boxed_slice();
        match parse_head(&piece, scanned, &LIMITS)? {
            Parsed::Partial { scanned: now } => scanned = now,
            Parsed::Complete(head) => {
                check(&head, &piece[..head.len]);
                return Ok(Some(describe(&head)));
            }
        }
    }
    Ok(None)
}

/// Checks the properties of every accepted head.
fn check(head: &Head<'_>, bytes: &[u8]) {
    assert!(bytes.ends_with(b"\r\n\r\n"));
    let count = |pattern: &[u8]| bytes.windows(pattern.len()).filter(|w| *w == pattern).count();
    assert_eq!(count(b"\n"), count(b"\r\n"), "a bare line feed");
    assert_eq!(count(b"\r"), count(b"\r\n"), "a bare carriage return");
    assert_eq!(count(b"\0"), 0, "a NUL");
    assert!(bytes.len() <= LIMITS.head_bytes_max + 2);
    assert!(count(b"\n") <= LIMITS.fields_max + 3);
    assert!(head.target_bytes.iter().all(|byte| (0x21..0x7f).contains(byte)));
    assert!(head.version == Version::Http10 || head.host.is_some());
    assert!(head.version == Version::Http11 || head.body != BodyFraming::Chunked);
    let lower = bytes.to_ascii_lowercase();
    let has = |name: &[u8]| lower.windows(name.len()).any(|window| window == name);
    if head.body != BodyFraming::None {
        let fields = (has(b"\ncontent-length:"), has(b"\ntransfer-encoding:"));
        assert!(fields.0 != fields.1, "two lengths, or none");
    }
}

fn describe(head: &Head<'_>) -> String {
    let fields = [FieldName::Range, FieldName::IfMatch, FieldName::Accept, FieldName::Referer]
        .map(|name| (head.field(name).map(<[u8]>::to_vec), head.values(name).count()));
    format!("{head:?} {fields:?}")
}
