//! Conditional requests: the order of the fields, and the comparison of tags and dates, on heads
//! as they come over the wire.

use http1::{HeadLimits, Parsed, parse_head};
use proptest::prelude::*;

use super::Verdict::{NotModified, PreconditionFailed, Proceed};
use super::*;

/// Sun, 06 Nov 1994 08:49:37 GMT
const MODIFIED: i64 = 784_111_777;

const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";
const FUTURE: &str = "Fri, 01 Jan 2100 00:00:00 GMT";

const FILE: Validators<'static> =
    Validators { etag: Some(b"\"a\""), modified: Some(MODIFIED), has_strong_date: true };

fn verdict(method: &str, fields: &str, validators: &Validators<'_>) -> Verdict {
    let fields = fields.replace('\n', "\r\n");
    let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    match parse_head(bytes.as_bytes(), 0, &HeadLimits::default()) {
        Ok(Parsed::Complete(head)) => evaluate(&head, validators),
        other => panic!("{bytes}: {other:?}"),
    }
}

fn check(fields: &str, expected: Verdict) {
    assert_eq!(verdict("GET", fields, &FILE), expected, "{fields}");
}

#[test]
fn if_none_match() {
    check("If-None-Match: \"a\"", NotModified);
    check("If-None-Match: W/\"a\"", NotModified);
    check("If-None-Match: *", NotModified);
    check("If-None-Match: \"b\"", Proceed);
    check("If-None-Match: \"b\", \"a\"", NotModified);
    check("If-None-Match: ,, \"b\" ,\t\"a\",", NotModified);
    check("If-None-Match: \"b\"\nIf-None-Match: \"a\"", NotModified);
    check("If-None-Match: \"b\"\nIf-None-Match: W/\"a\", \"c\"", NotModified);
    check("If-None-Match: \"A\"", Proceed);
    check("If-None-Match: \"b,\", \"a\"", NotModified); // a comma in a tag
    check("If-None-Match: \"\"", Proceed);
}

#[test]
fn what_is_not_a_tag_never_matches() {
    for value in [
        "",
        "a",
        "'a'",
        "\"a",
        "a\"",
        "w/\"a\"",
        "W/a",
        "W/ \"a\"",
        "/\"a\"",
        "\"a\"b",
        "\"a\" b",
        "a, \"a\"",
        "\"b\" \"a\"",
        "\"b\"; \"a\"",
        "\" a\"",
        "**",
        "\"*\"",
        "W/*",
        "\"b\", *",
    ] {
        check(&format!("If-None-Match: {value}"), Proceed);
        check(&format!("If-Match: {value}"), PreconditionFailed);
    }
    check("If-None-Match: \"a\", b", NotModified); // the tags before it count
}

#[test]
fn if_match() {
    check("If-Match: \"a\"", Proceed);
    check("If-Match: *", Proceed);
    check("If-Match: \"b\", \"a\"", Proceed);
    check("If-Match: \"b\"\nIf-Match: \"a\"", Proceed);
    check("If-Match: \"b\"", PreconditionFailed);
    check("If-Match: W/\"a\"", PreconditionFailed); // strong comparison
    check("If-Match: W/\"a\", \"a\"", Proceed);
}

#[test]
fn if_modified_since() {
    let check_date = |date: &str, expected| check(&format!("If-Modified-Since: {date}"), expected);
    check_date(SAME, NotModified);
    check_date(AFTER, NotModified);
    check_date(BEFORE, Proceed);
    check_date("Sunday, 06-Nov-94 08:49:37 GMT", NotModified);
    check_date("Sun Nov  6 08:49:37 1994", NotModified);
    check_date(FUTURE, NotModified);
    check_date("yesterday", Proceed);
    check_date("", Proceed);
    check_date("784111777", Proceed);
    check_date(&format!("{SAME}, {SAME}"), Proceed);
}

#[test]
fn if_unmodified_since() {
    let check_date =
        |date: &str, expected| check(&format!("If-Unmodified-Since: {date}"), expected);
    check_date(SAME, Proceed);
    check_date(AFTER, Proceed);
    check_date(FUTURE, Proceed);
    check_date(BEFORE, PreconditionFailed);
    check_date("yesterday", Proceed);
    check_date(&format!("{BEFORE}, {BEFORE}"), Proceed);
}

#[test]
fn a_list_of_dates_is_no_date() {
    let two = [&SAME.as_bytes(), &SAME.as_bytes()];
    assert_eq!(only_date(two.into_iter().copied()), None);
    assert_eq!(only_date(std::iter::once(SAME.as_bytes())), Some(MODIFIED));
    assert_eq!(only_date(std::iter::empty()), None);
}

/// Section 13.2.2, step by step.
#[test]
fn the_order_of_the_fields() {
    let (same, before) = (SAME, BEFORE);
    // If-Match rules out If-Unmodified-Since.
    check(&format!("If-Match: \"a\"\nIf-Unmodified-Since: {before}"), Proceed);
    check(&format!("If-Match: \"b\"\nIf-Unmodified-Since: {same}"), PreconditionFailed);
    // Failing comes before not modified.
    check("If-Match: \"b\"\nIf-None-Match: \"a\"", PreconditionFailed);
    check(&format!("If-None-Match: *\nIf-Unmodified-Since: {before}"), PreconditionFailed);
    // When If-Match has passed, the other fields are evaluated.
    check("If-Match: \"a\"\nIf-None-Match: \"a\"", NotModified);
    check(&format!("If-Match: *\nIf-Modified-Since: {same}"), NotModified);
    check(&format!("If-Unmodified-Since: {same}\nIf-Modified-Since: {same}"), NotModified);
    // If-None-Match overrides If-Modified-Since, whether it is valid or not.
    check(&format!("If-None-Match: \"b\"\nIf-Modified-Since: {same}"), Proceed);
    check(&format!("If-None-Match: \"a\"\nIf-Modified-Since: {before}"), NotModified);
    check(&format!("If-None-Match:\nIf-Modified-Since: {same}"), Proceed);
    // If-Range is not a precondition.
    check("If-Range: \"b\"", Proceed);
    check("", Proceed);
}

#[test]
fn methods() {
    let since = format!("If-Modified-Since: {SAME}");
    let check = |method: &str, fields: &str, expected| {
        assert_eq!(verdict(method, fields, &FILE), expected, "{method} {fields}");
    };
    check("HEAD", "If-None-Match: \"a\"", NotModified);
    check("HEAD", &since, NotModified);
    for method in ["PUT", "DELETE", "POST", "PATCH", "FOO"] {
        check(method, "If-None-Match: \"a\"", PreconditionFailed);
        check(method, "If-None-Match: \"b\"", Proceed);
        check(method, "If-Match: \"b\"", PreconditionFailed);
        check(method, &since, Proceed);
    }
    for fields in ["If-None-Match: \"a\"", "If-Match: \"b\"", &since] {
        check("OPTIONS", fields, Proceed);
        check("TRACE", fields, Proceed);
    }
}

#[test]
fn missing_validators() {
    let check = |fields: &str, expected| {
        assert_eq!(verdict("GET", fields, &Validators::default()), expected, "{fields}");
    };
    check("If-None-Match: \"a\"", Proceed);
    check("If-None-Match: *", NotModified);
    check("If-Match: \"a\"", PreconditionFailed);
    check("If-Match: *", Proceed);
    check(&format!("If-Modified-Since: {AFTER}"), Proceed);
    check(&format!("If-Unmodified-Since: {BEFORE}"), Proceed);
}

#[test]
fn if_range() {
    let holds = |value: &str, file: &Validators<'_>| if_range_holds(value.as_bytes(), file);
    let check = |value: &str, expected| assert_eq!(holds(value, &FILE), expected, "{value}");
    check("\"a\"", true);
    check("W/\"a\"", false);
    check("\"b\"", false);
    check("a", false);
    check("*", false);
    check("", false);
    check("\"a\", \"b\"", false);
    check("\"a\" ", false);
    check(SAME, true);
    check("Sun Nov  6 08:49:37 1994", true);
    check(BEFORE, false);
    check(AFTER, false);
    check(FUTURE, false);
    let weak = Validators { etag: Some(b"W/\"a\""), has_strong_date: false, ..FILE };
    let undated = Validators { modified: None, ..weak };
    for file in [weak, undated] {
        for value in ["W/\"a\"", "\"a\"", SAME, "soon"] {
            assert!(!holds(value, &file), "{value} {file:?}");
        }
    }
    // Other bytes may have a time that was set, whatever tag they have.
    assert!(!holds(SAME, &Validators { has_strong_date: false, ..FILE }));
    assert!(!holds("soon", &Validators { modified: None, ..FILE }));
}

proptest! {
    /// However tags are listed, the matching one is found.
    #[test]
    fn lists_are_read_whole(
        before in proptest::collection::vec("(W/)?\"[!#-~]{0,6}\"", 0..4),
        gap in "[ \t]{0,2},[ \t,]{0,3}",
    ) {
        let list = [before, vec!["\"needle-9\"".to_owned()]].concat().join(&gap);
        let lines = || std::iter::once(list.as_bytes());
        prop_assert!(any_matches(lines(), Some(b"\"needle-9\""), Comparison::Strong));
        prop_assert!(!any_matches(lines(), Some(b"\"needle-8\""), Comparison::Weak));
    }
}
