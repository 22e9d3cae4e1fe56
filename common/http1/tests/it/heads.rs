//! Accepted heads, and the values that are parsed from them.

use http1::{FieldName, Head, HeadLimits, Parsed, begins_head_request, parse_head};

use crate::support::parse;

/// The rest of a row with a valid host and no other field.
const HOST: &str = "Host: a\r\n\r\n";

/// Checks the description of a head without its length, which must be that of the input.
fn check(input: &str, expected: &str) {
    let expected = format!("{expected} {}", input.len());
    assert_eq!(parse(input.as_bytes(), &HeadLimits::default()), Ok(expected), "{input:?}");
}

fn check_line(line: &str, expected: &str) {
    check(&format!("{line}\r\n{HOST}"), &format!("{expected} a keep None None"));
}

fn check_fields(version: &str, fields: &str, expected: &str) {
    check(&format!("GET / HTTP/{version}\r\nHost: a\r\n{fields}\r\n"), expected);
}

fn with_head(fields: &str, look: impl FnOnce(&Head<'_>)) {
    let input = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    match parse_head(input.as_bytes(), 0, &HeadLimits::default()) {
        Ok(Parsed::Complete(head)) => look(&head),
        other => panic!("{fields:?}: {other:?}"),
    }
}

/// RFC 9110, section 9.1: methods are case-sensitive, and any token may be one.
#[test]
fn methods() {
    check_line("GET / HTTP/1.1", "Get / Http11");
    check_line("HEAD / HTTP/1.1", "Head / Http11");
    check_line("OPTIONS / HTTP/1.1", "Options / Http11");
    check_line("POST / HTTP/1.1", "Post / Http11");
    check_line("PUT / HTTP/1.1", "Put / Http11");
    check_line("DELETE / HTTP/1.1", "Delete / Http11");
    check_line("PATCH / HTTP/1.1", "Patch / Http11");
    check_line("TRACE / HTTP/1.1", "Trace / Http11");
    check_line("CONNECT a:443 HTTP/1.1", "Connect authority Http11");
    check_line("get / HTTP/1.1", "Unknown / Http11");
    check_line("Get / HTTP/1.1", "Unknown / Http11");
    check_line("FOO / HTTP/1.1", "Unknown / Http11");
    check_line("G / HTTP/1.1", "Unknown / Http11");
    check_line("!#$%&'*+-.^_`|~9 / HTTP/1.1", "Unknown / Http11");
    check_line(&format!("{} / HTTP/1.1", "M".repeat(100)), "Unknown / Http11");
}

/// RFC 9112, section 3.2.
#[test]
fn targets() {
    check_line("GET /a/b.html HTTP/1.1", "Get /a/b.html Http11");
    check_line("GET // HTTP/1.1", "Get // Http11");
    check_line("GET /../x HTTP/1.1", "Get /../x Http11");
    check_line("GET /%zz%00 HTTP/1.1", "Get /%zz%00 Http11");
    check_line("GET /? HTTP/1.1", "Get / ?  Http11");
    check_line("GET /a?b=c HTTP/1.1", "Get /a ? b=c Http11");
    check_line("GET /a?b?c HTTP/1.1", "Get /a ? b?c Http11");
    check_line("GET /:80@x HTTP/1.1", "Get /:80@x Http11");
    check_line("GET /{}|^`<> HTTP/1.1", "Get /{}|^`<> Http11");
    check_line("OPTIONS * HTTP/1.1", "Options * Http11");
    check_line("GET http://a HTTP/1.1", "Get / Http11");
    check_line("GET http://a/ HTTP/1.1", "Get / Http11");
    check_line("GET http://a/b?c HTTP/1.1", "Get /b ? c Http11");
    check_line("GET http://a?c HTTP/1.1", "Get / ? c Http11");
    check_line("GET HTTP://a/x HTTP/1.1", "Get /x Http11");
    check_line("GET https://a/x HTTP/1.1", "Get /x Http11");
    check_line("FOO http://a/x HTTP/1.1", "Unknown /x Http11");
    check_line("OPTIONS http://a HTTP/1.1", "Options * Http11");
    check_line("OPTIONS http://a/ HTTP/1.1", "Options / Http11");
    check_line("OPTIONS http://a?b HTTP/1.1", "Options / ? b Http11");
    check_line("CONNECT [::1]:443 HTTP/1.1", "Connect authority Http11");
}

/// RFC 9110, section 2.5.
#[test]
fn versions() {
    check_line("GET / HTTP/1.2", "Get / Http11");
    check_line("GET / HTTP/1.9", "Get / Http11");
    check("GET / HTTP/1.0\r\n\r\n", "Get / Http10 - close None None");
    check("GET / HTTP/1.0\r\nHost: a\r\n\r\n", "Get / Http10 a close None None");
    check("GET http://b/ HTTP/1.0\r\n\r\n", "Get / Http10 b close None None");
}

/// RFC 9112, section 2.2.
#[test]
fn one_blank_line_before() {
    check("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "Get / Http11 a keep None None");
    check("\r\nGET / HTTP/1.0\r\n\r\n", "Get / Http10 - close None None");
}

fn check_host(host: &str) {
    let expected = host.trim_matches([' ', '\t']);
    check(
        &format!("GET / HTTP/1.1\r\nHost:{host}\r\n\r\n"),
        &format!("Get / Http11 {} keep None None", expected.replace('\'', "\\'")),
    );
}

/// RFC 9110, section 7.2; RFC 3986, section 3.2.2.
#[test]
fn hosts() {
    for host in [
        "a",
        " a",
        " \t a \t",
        "www.example.com",
        "EXAMPLE.com.",
        "a:80",
        "a:",
        "a:0",
        "a:00080",
        "a:65535",
        "127.0.0.1:8080",
        "a_b-c~d",
        "a!$&'()*+;=b",
        "%41%5a.b",
        "[::1]",
        "[::1]:80",
        "[2001:db8::1]:8080",
        "[::ffff:1.2.3.4]",
        "999.999.999.999",
        "[v1.a]",
        "[V1F.fe80::a!$:1]",
        "[v7.x]:80",
    ] {
        check_host(host);
    }
}

/// RFC 9112, section 3.2.2: the authority of an absolute target replaces `Host`.
#[test]
fn absolute_targets() {
    let agree = |target: &str, host: &str, expected: &str| {
        check(
            &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            &format!("Get / Http11 {expected} keep None None"),
        );
    };
    agree("http://a/", "A", "a");
    agree("http://A.b/", "a.B", "A.b");
    agree("http://a/", "a:80", "a");
    agree("http://a:80/", "a", "a:80");
    agree("http://a:/", "a", "a:");
    agree("https://a/", "a:443", "a");
    agree("https://a:443/", "a", "a:443");
    agree("http://a:8080/", "a:8080", "a:8080");
    agree("http://a:08080/", "a:8080", "a:08080");
    agree("http://[::1]/", "[::1]:80", "[::1]");
    agree("http://a:8080/", "a", "a:8080");
    agree("http://a/", "a:8081", "a");
    agree("https://a/", "a:80", "a");
    agree("http://a:8080/", "a:8081", "a:8080");
    let head = |host| format!("GET http://a:81/ HTTP/1.0\r\nHost: {host}\r\n\r\n");
    for host in ["a", "a:80", "b", "b:81"] {
        check(&head(host), "Get / Http10 a:81 close None None");
    }
}

/// Whatever is wrong with the rest of a HEAD request, its answer has no content (RFC 9110, section
/// 9.3.2).
#[test]
fn an_unreadable_request_may_be_recognised_as_head() {
    let check = |bytes: &[u8], expected| assert_eq!(begins_head_request(bytes), expected);
    check(b"HEAD / HTTP/1.1\r\n\r\n", true);
    check(b"HEAD ", true);
    check(b"\r\nHEAD /", true);
    check(b"\nHEAD / HTTP/1.1\n\n", false);
    check(b"\r\x0cHEAD / HTTP/1.1\r\n\r\n", false);
    check(b" HEAD / HTTP/1.1\r\n\r\n", false);
    check(b"HEAD", false);
    check(b"HEADS / HTTP/1.1", false);
    check(b"head / HTTP/1.1", false);
    check(b"GET /HEAD ", false);
    check(b"", false);
}

/// RFC 9112, section 9.3.
#[test]
fn connections() {
    let keep = "Get / Http11 a keep None None";
    let close = "Get / Http11 a close None None";
    check_fields("1.1", "", keep);
    check_fields("1.1", "Connection: close\r\n", close);
    check_fields("1.1", "connection: CLOSE\r\n", close);
    check_fields("1.1", "Connection: keep-alive\r\n", keep);
    check_fields("1.1", "Connection: keep-alive, close\r\n", close);
    check_fields("1.1", "Connection: close, keep-alive\r\n", close);
    check_fields("1.1", "Connection: ,\t, close ,\r\n", close);
    check_fields("1.1", "Connection: keep-alive\r\nConnection: close\r\n", close);
    check_fields("1.1", "Connection: close\r\nConnection: te\r\n", close);
    check_fields("1.1", "Connection: closed\r\n", keep);
    check_fields("1.1", "Connection: not close\r\n", keep);
    check_fields("1.1", "Connection:\r\n", keep);
    check_fields("1.1", "Connection: Upgrade\r\n", keep);
    let keep = "Get / Http10 a keep None None";
    let close = "Get / Http10 a close None None";
    check_fields("1.0", "", close);
    check_fields("1.0", "Connection: keep-alive\r\n", keep);
    check_fields("1.0", "Connection: te, Keep-Alive\r\n", keep);
    check_fields("1.0", "Connection: keep-alive, close\r\n", close);
    check_fields("1.0", "Keep-Alive: 5\r\n", close);
}

/// RFC 9112, section 6.3.
#[test]
fn bodies() {
    let check = check_fields;
    check("1.1", "Content-Length: 0\r\n", "Get / Http11 a keep Length(0) None");
    check("1.1", "CONTENT-LENGTH:5\r\n", "Get / Http11 a keep Length(5) None");
    check("1.1", "Content-Length: 007 \r\n", "Get / Http11 a keep Length(7) None");
    check("1.0", "Content-Length: 5\r\n", "Get / Http10 a close Length(5) None");
    let most = u64::MAX;
    check(
        "1.1",
        &format!("Content-Length: {most}\r\n"),
        &format!("Get / Http11 a keep Length({most}) None"),
    );
    check("1.1", "Transfer-Encoding: chunked\r\n", "Get / Http11 a keep Chunked None");
    check("1.1", "transfer-encoding:\tChUnKeD \r\n", "Get / Http11 a keep Chunked None");
}

/// RFC 9110, section 10.1.1.
#[test]
fn expectations() {
    let check = |fields, expected| {
        check_fields("1.1", fields, &format!("Get / Http11 a keep None {expected}"));
    };
    check("Expect: 100-continue\r\n", "Continue");
    check("expect: 100-Continue\r\n", "Continue");
    check("Expect: 100-continue\r\nExpect: 100-continue\r\n", "Continue");
    check("Expect:\r\n", "None");
    check("Expect: 100\r\n", "Unknown");
    check("Expect: 100-continue, x\r\n", "Unknown");
    check("Expect: x, 100-continue\r\n", "Unknown");
    check("Expect: 100-continue;q=1\r\n", "Unknown");
    check_fields("1.0", "Expect: 100-continue\r\n", "Get / Http10 a close None None");
    check_fields("1.0", "Expect: x\r\n", "Get / Http10 a close None None");
}

/// RFC 9110, section 5.5 and 5.6.2; RFC 9112, section 5.
#[test]
fn unusual_fields() {
    let keep = "Get / Http11 a keep None None";
    check_fields("1.1", "X:\r\n", keep);
    check_fields("1.1", "X: \t \r\n", keep);
    check_fields("1.1", "X: a\tb  c\r\n", keep);
    check_fields("1.1", "X: \u{e9}\u{20ac}\r\n", keep);
    check_fields("1.1", "!#$%&'*+-.^_`|~0aZ: x\r\n", keep);
    check_fields("1.1", "X: a: b\r\n", keep);
    check_fields("1.1", "X::\r\n", keep);
    check_fields("1.1", &"X: y\r\n".repeat(99), keep);
    check_fields("1.1", &format!("X: {}\r\n", "y".repeat(15_000)), keep);
}

#[test]
fn a_head_ends_at_its_blank_line() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for rest in [&b"GET /"[..], b"\r\n\r\n", b"\n", b"\0\x16"] {
        let outcome = parse(&[&head[..], rest].concat(), &HeadLimits::default());
        assert_eq!(outcome, Ok(format!("Get / Http11 a keep None None {}", head.len())));
    }
}

const NAMES: [FieldName; 11] = [
    FieldName::IfMatch,
    FieldName::IfNoneMatch,
    FieldName::IfModifiedSince,
    FieldName::IfUnmodifiedSince,
    FieldName::IfRange,
    FieldName::Range,
    FieldName::AcceptEncoding,
    FieldName::Accept,
    FieldName::UserAgent,
    FieldName::Referer,
    FieldName::SecFetchMode,
];

#[test]
fn every_named_field_is_found_whatever_its_case() {
    for name in NAMES {
        let spellings =
            [name.as_str().to_owned(), name.as_str().to_lowercase(), name.as_str().to_uppercase()];
        for spelling in spellings {
            with_head(&format!("{spelling}: \t some value\t\r\n"), |head| {
                for other in NAMES {
                    let expected = (other == name).then_some(&b"some value"[..]);
                    assert_eq!(head.field(other), expected, "{spelling}: {other:?}");
                    assert!(head.values(other).eq(expected), "{spelling}: {other:?}");
                }
                assert_eq!(head.has_conditions(), name.as_str().starts_with("If-"), "{spelling}");
            });
        }
    }
}

#[test]
fn names_of_the_same_length_are_not_taken_for_each_other() {
    let lines =
        "Ranges: 1\r\nRangd: 1\r\nIf-Mbtch: 1\r\nContent-lengti: 1\r\nTransfer_encoding: 1\r\n";
    with_head(lines, |head| {
        assert_eq!(head.body, http1::BodyFraming::None);
        assert!(NAMES.into_iter().all(|name| head.field(name).is_none()));
    });
}

#[test]
fn repeated_lines_give_the_first_value_and_all_values() {
    let lines = "Accept: a\r\nX: y\r\nACCEPT:\r\nIf-Match: \"1\"\r\naccept: b, c \r\nAccept-Encoding: br\r\n";
    with_head(lines, |head| {
        assert_eq!(head.field(FieldName::Accept), Some(&b"a"[..]));
        assert!(head.values(FieldName::Accept).eq([&b"a"[..], b"", b"b, c"]));
        assert!(head.values(FieldName::AcceptEncoding).eq([b"br"]));
        assert_eq!(head.values(FieldName::Range).count(), 0);
        assert_eq!(head.only(FieldName::IfMatch), Some(&b"\"1\""[..]));
        assert_eq!((head.only(FieldName::Accept), head.only(FieldName::Range)), (None, None));
    });
}

#[test]
fn the_head_keeps_what_was_sent() {
    let input = b"BREW http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n";
    match parse_head(input, 0, &HeadLimits::default()) {
        Ok(Parsed::Complete(head)) => {
            assert_eq!(head.method_bytes, b"BREW");
            assert_eq!(head.target_bytes, b"http://a/x?y");
        }
        other => panic!("{other:?}"),
    }
}
