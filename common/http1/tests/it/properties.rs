//! Properties of heads: nothing panics, a cut changes nothing, a written head can be read back.

use http1::{FieldName, HeadError, HeadLimits, Parsed, Target, parse_head};
use proptest::prelude::*;

use crate::support::{parse, parse_in_pieces};

const SMALL: HeadLimits =
    HeadLimits { head_bytes_max: 200, request_line_bytes_max: 64, fields_max: 5 };

/// Bytes that are often similar to a head.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            &b"GET "[..], b"/", b" HTTP/1.1", b"\r\n", b"\r\n\r\n", b"Host: a\r\n", b"\n", b"\r", b":", b" ",
            b"X: y\r\n", b"Content-Length: 1\r\n", b"http://a", b"*", b"HTTP/1.0\r\n", b"Range: x\r\n",
        ]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_at_all(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        scanned in 0..500_usize,
    ) {
        let _ = parse(&bytes, &SMALL);
        let _ = parse_head(&bytes, scanned, &HeadLimits::default());
    }

    #[test]
    fn a_cut_changes_nothing(
        bytes in nearly(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(parse_in_pieces(&bytes, cuts, &SMALL), parse(&bytes, &SMALL));
        prop_assert_eq!(parse_in_pieces(&bytes, 0..bytes.len(), &SMALL), parse(&bytes, &SMALL));
    }

    #[test]
    fn a_valid_head_is_read_as_it_was_written(
        method in "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}",
        path in "/[!-\"$->@-\\[\\]-~]{0,60}",
        query in prop::option::of("[!-\"$-\\[\\]-~]{0,30}"),
        host in "[a-z0-9.-]{1,20}(:[0-9]{1,4})?",
        names in prop::collection::vec("x-[!#$%&'*+.^_`|~0-9A-Za-z-]{0,12}", 0..40),
        value in "([!-~\u{e0}-\u{ff}]([\t -~]{0,30}[!-~])?)?",
        host_at in any::<prop::sample::Index>(),
    ) {
        prop_assume!(method != "CONNECT");
        let mut lines: Vec<String> = names.iter().map(|name| format!("{name}:{value} \r\n")).collect();
        lines.push(format!("Referer: \t{value}\t \r\n"));
        lines.insert(host_at.index(lines.len()), format!("hOST: {host}\r\n"));
        let target = path.clone() + &query.as_ref().map_or(String::new(), |query| format!("?{query}"));
        let input = format!("{method} {target} HTTP/1.1\r\n{}\r\nrest", lines.concat());
        let parsed = parse_head(input.as_bytes(), 0, &HeadLimits::default());
        let Ok(Parsed::Complete(head)) = parsed else {
            return Err(TestCaseError::fail(input));
        };
        prop_assert_eq!(head.len, input.len() - 4);
        prop_assert_eq!(head.method_bytes, method.as_bytes());
        prop_assert_eq!(head.target_bytes, target.as_bytes());
        let query = query.as_deref().map(str::as_bytes);
        prop_assert_eq!(head.target, Target::Path { path: path.as_bytes(), query });
        prop_assert_eq!(head.host, Some(host.as_bytes()));
        prop_assert_eq!(head.field(FieldName::Referer), Some(value.as_bytes()));
    }
}

/// Each error is recognisable in a log: no two have the same words.
#[test]
fn reasons_differ() {
    let errors = [
        HeadError::BareLineFeed,
        HeadError::BlankLines,
        HeadError::Method,
        HeadError::Target,
        HeadError::VersionSyntax,
        HeadError::Version,
        HeadError::RequestLineTooLong,
        HeadError::HeadTooLarge,
        HeadError::TooManyFields,
        HeadError::FieldName,
        HeadError::FieldValue,
        HeadError::HostMissing,
        HeadError::HostRepeated,
        HeadError::Host,
        HeadError::HostDisagrees,
        HeadError::ContentLength,
        HeadError::ContentLengthRepeated,
        HeadError::TransferEncoding,
        HeadError::TransferEncodingVersion,
        HeadError::TwoLengths,
        HeadError::TransferCoding,
    ];
    let mut reasons: Vec<_> = errors.map(HeadError::reason).to_vec();
    reasons.sort_unstable();
    reasons.dedup();
    assert_eq!(reasons.len(), errors.len());
}
