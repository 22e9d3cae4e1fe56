//! Response heads and dates.

use http1::{HeadWriter, format_date, parse_date, reason_phrase};
use proptest::prelude::*;

#[test]
fn a_head_is_written() {
    let mut out = b"before".to_vec();
    let mut head = HeadWriter::new(&mut out, 206);
    head.field("Content-Type", b"text/html; charset=utf-8");
    head.content_length(0);
    head.content_length(u64::MAX);
    head.field("X-Empty", b"");
    head.field("X-Tab", b"a\tb\xff");
    head.finish();
    let expected = b"beforeHTTP/1.1 206 Partial Content\r\n\
        Content-Type: text/html; charset=utf-8\r\n\
        Content-Length: 0\r\n\
        Content-Length: 18446744073709551615\r\n\
        X-Empty: \r\n\
        X-Tab: a\tb\xff\r\n\
        \r\n";
    assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn a_status_without_a_phrase_keeps_its_space() {
    let mut out = Vec::new();
    HeadWriter::new(&mut out, 299).finish();
    assert_eq!(out, b"HTTP/1.1 299 \r\n\r\n");
}

fn write_field(name: &'static str, value: &'static [u8]) -> bool {
    std::panic::catch_unwind(|| HeadWriter::new(&mut Vec::new(), 200).field(name, value)).is_ok()
}

#[test]
fn a_head_cannot_be_split() {
    assert!(write_field("Location", b"/a"));
    for value in [&b"/\r\nX: y"[..], b"/\n", b"/\r", b"\0", b"\x7f"] {
        assert!(!write_field("Location", value), "{value:?}");
    }
    for name in ["", "X:", "X Y", "X\r\n"] {
        assert!(!write_field(name, b""), "{name:?}");
    }
}

#[test]
fn phrases() {
    assert_eq!(reason_phrase(200), "OK");
    assert_eq!(reason_phrase(414), "URI Too Long");
    assert_eq!(reason_phrase(416), "Range Not Satisfiable");
    assert_eq!(reason_phrase(799), "");
}

#[track_caller]
fn check_date(unix_seconds: i64, expected: &str) {
    assert_eq!(str::from_utf8(&format_date(unix_seconds)), Ok(expected));
}

#[test]
fn dates_are_written() {
    check_date(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
    check_date(0, "Thu, 01 Jan 1970 00:00:00 GMT");
    check_date(-1, "Wed, 31 Dec 1969 23:59:59 GMT");
    check_date(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
    check_date(951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT");
    check_date(4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT");
    check_date(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT");
    check_date(253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT");
    check_date(i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT");
    check_date(i64::MIN, "Mon, 01 Jan 0001 00:00:00 GMT");
}

/// RFC 9110, section 5.6.7.
#[test]
fn dates_are_read() {
    for (text, expected) in [
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
        ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
        ("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799)),
        ("Mon, 06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 UTC", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sun, 6 Nov 1994 08:49:37 GMT", None),
        ("Wed, 31 Dec 1969 23:59:59 GMT", None),
        ("Thu, 30 Feb 2000 00:00:00 GMT", None),
        ("Sun, 06 Nov 1994 24:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:61 GMT", None),
        ("784111777", None),
        ("", None),
        ("\u{e9}", None),
    ] {
        assert_eq!(parse_date(text.as_bytes()), expected, "{text:?}");
    }
    assert_eq!(parse_date(b"\xff"), None);
}

proptest! {
    #[test]
    fn a_date_survives(unix_seconds in 0..253_402_300_800_i64) {
        prop_assert_eq!(parse_date(&format_date(unix_seconds)), Some(unix_seconds));
    }

    #[test]
    fn no_text_makes_the_date_parser_panic(text in prop::collection::vec(any::<u8>(), 0..40)) {
        let _ = parse_date(&text);
    }

    #[test]
    fn a_damaged_date_does_not_make_it_panic(
        form in 0..3_usize, place in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut text = [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ][form].as_bytes().to_vec();
        let place = place.index(text.len());
        text[place] = byte;
        let _ = parse_date(&text);
    }
}
