//! Heads that are refused, each with its reason and its status.

use http1::{HeadError, HeadLimits};

use crate::support::parse;

const SMALL: HeadLimits =
    HeadLimits { head_bytes_max: 128, request_line_bytes_max: 64, fields_max: 4 };

fn check_bytes(input: &[u8], expected: HeadError) {
    let text = input.escape_ascii();
    assert_eq!(parse(input, &HeadLimits::default()), Err(expected), "{text}");
}

fn check_line(line: &str, expected: HeadError) {
    check_bytes(format!("{line}\r\nHost: a\r\n\r\n").as_bytes(), expected);
}

fn check_fields(fields: &str, expected: HeadError) {
    check_bytes(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes(), expected);
}

/// RFC 9112, section 2.2.
#[test]
fn line_ends() {
    use HeadError::{BareLineFeed, BlankLines, FieldName, FieldValue, Target};
    check_bytes(b"GET / HTTP/1.1\nHost: a\n\n", BareLineFeed);
    check_bytes(b"GET / HTTP/1.1\nHost: a\r\n\r\n", BareLineFeed);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\n\r\n", BareLineFeed);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\r\n\n", BareLineFeed);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", BareLineFeed);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a \nX: y\r\n\r\n", BareLineFeed);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\r\nX:\nY: z\r\n\r\n", BareLineFeed);
    check_bytes(b"GET / HTTP/1.0\r\n\n", BareLineFeed);
    check_bytes(b"GET / HTTP/1.0\n\r\n", BareLineFeed);
    check_bytes(b"\nGET / HTTP/1.0\r\n\r\n", BareLineFeed);
    check_bytes(b"\r\n\r\nGET / HTTP/1.0\r\n\r\n", BlankLines);
    check_bytes(b"\r\n\nGET / HTTP/1.0\r\n\r\n", BlankLines);
    check_bytes(b"\rGET / HTTP/1.0\r\n\r\n", BlankLines);
    check_bytes(b"\r\r\nGET / HTTP/1.0\r\n\r\n", BlankLines);
    check_bytes(b"GET /\r HTTP/1.0\r\n\r\n", Target);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", FieldValue);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", FieldValue);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\r\nX\r: y\r\n\r\n", FieldName);
    check_bytes(b"GET / HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n", FieldValue);
}

/// Bytes that cannot be a request are refused before their line ends.
#[test]
fn no_request_at_all() {
    for input in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[..],
        b"\x16",
        b"\0",
        b" ",
        b"\x80",
        b"\xff\xfe",
        b"GE\0",
        b"G@T",
        b"{\"a\"",
        b"\r\n\x16",
        b"\t",
        b":",
        b"GET\r",
        b"GET\t/",
    ] {
        check_bytes(input, HeadError::Method);
    }
}

/// RFC 9112, section 3.
#[test]
fn request_lines() {
    use HeadError::{Method, Target, Version, VersionSyntax};
    check_line(" GET / HTTP/1.1", Method);
    check_line("GET", Method);
    check_line("G(T / HTTP/1.1", Method);
    check_line("G\u{e9}T / HTTP/1.1", Method);
    check_line(&"M".repeat(100), Method);
    check_line(&format!("{}\u{1} / HTTP/1.1", "M".repeat(100)), Method);
    check_line("GET ", VersionSyntax);
    check_line("GET /", VersionSyntax);
    check_line("GET /index.html", VersionSyntax);
    check_line("GET / ", VersionSyntax);
    check_line("GET / HTTP/1.1 ", VersionSyntax);
    check_line("GET / HTTP/1.1\t", VersionSyntax);
    check_line("GET / http/1.1", VersionSyntax);
    check_line("GET / HTTP/1", VersionSyntax);
    check_line("GET / HTTP/1.", VersionSyntax);
    check_line("GET / HTTP/1.10", VersionSyntax);
    check_line("GET / HTTP/11.1", VersionSyntax);
    check_line("GET / HTTP/+1.1", VersionSyntax);
    check_line("GET / HTTP/1,1", VersionSyntax);
    check_line("GET / HTTP 1.1", VersionSyntax);
    check_line("GET / HTTPS/1.1", VersionSyntax);
    check_line("GET / ICY/1.1", VersionSyntax);
    check_line("GET /HTTP/1.1", VersionSyntax);
    check_line("GET HTTP/1.1", VersionSyntax);
    check_line("GET /\tHTTP/1.1", VersionSyntax);
    check_line("GET / HTTP/0.9", Version);
    check_line("GET / HTTP/2.0", Version);
    check_line("GET / HTTP/3.0", Version);
    check_line("PRI * HTTP/2.0", Version);
    check_line("GET  / HTTP/1.1", Target);
    check_line("GET  HTTP/1.1", Target);
    check_line("GET /  HTTP/1.1", Target);
    check_line("GET /a b HTTP/1.1", Target);
    check_line("GET /a\tb HTTP/1.1", Target);
}

/// RFC 9112, section 3.2.
#[test]
fn targets() {
    for target in [
        "/a#b",
        "/#",
        "/a\\b",
        "/\u{1}",
        "/\u{7f}",
        "/\u{e9}",
        "a",
        "index.html",
        "*",
        "?a",
        "a:80",
        "ftp://a/",
        "file:///etc/passwd",
        "http:/a/",
        "http:a",
        "http//a/",
        "http://",
        "http:///x",
        "http://?x",
        "http://u@a/",
        "http://u:p@a/",
        "http://a:b/",
        "http://a:65536/",
        "http://a,b/",
        "http://[::1/",
        "http://[a]/",
        "http://[::1]x/",
        "http://:80/",
        "http://a%/",
        "http://a%4/",
    ] {
        check_line(&format!("GET {target} HTTP/1.1"), HeadError::Target);
    }
    for line in
        ["OPTIONS a", "OPTIONS **", "CONNECT /", "CONNECT a", "CONNECT a:", "CONNECT http://a/"]
    {
        check_line(&format!("{line} HTTP/1.1"), HeadError::Target);
    }
}

/// RFC 9112, section 3.2.
#[test]
fn hosts() {
    check_bytes(b"GET / HTTP/1.1\r\n\r\n", HeadError::HostMissing);
    check_bytes(b"GET / HTTP/1.2\r\nX: y\r\n\r\n", HeadError::HostMissing);
    check_bytes(b"GET http://a/ HTTP/1.1\r\n\r\n", HeadError::HostMissing);
    check_fields("Host: a\r\n", HeadError::HostRepeated);
    check_fields("X: y\r\nhost: b\r\n", HeadError::HostRepeated);
    check_bytes(b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", HeadError::HostRepeated);
    for host in [
        "",
        ":80",
        "u@a",
        "a b",
        "a,b",
        "a, a",
        "a/b",
        "/",
        "a?b",
        "a#b",
        "a\\b",
        "http://a",
        "a:b",
        "a:-1",
        "a:+80",
        "a:65536",
        "a:99999999999999999999",
        "a:80:80",
        "a:8 0",
        "::1",
        "[::1",
        "[]",
        "::1]",
        "[::1]]",
        "[::1]80",
        "[::1%25eth0]",
        "[v1.]",
        "[v.a]",
        "[vx.a]",
        "[v1a]",
        "[v1.a/]",
        "[w1.a]",
        "[1.2.3.4]",
        "a\u{e9}",
        "a%",
        "a%zz",
        "<a>",
        "a\"",
        "a\tb",
        "{a}",
        "a|b",
        "a^b",
        "a`",
    ] {
        for version in ["1.0", "1.1"] {
            let head = format!("GET / HTTP/{version}\r\nHost: {host}\r\n\r\n");
            check_bytes(head.as_bytes(), HeadError::Host);
        }
    }
}

/// A deviation from RFC 9112, section 3.2.2, by which the target would replace `Host`.
#[test]
fn absolute_targets_of_another_host() {
    for (target, host) in [
        ("http://a/", "b"),
        ("http://a/", "a.b"),
        ("http://a/", "a."),
        ("http://a:80/", "b:80"),
        ("http://[::1]/", "[::2]"),
    ] {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        check_bytes(head.as_bytes(), HeadError::HostDisagrees);
    }
}

/// RFC 9110, section 5.5 and 5.6.2; RFC 9112, section 5.
#[test]
fn fields() {
    use HeadError::{FieldName, FieldValue};
    check_fields("X : y\r\n", FieldName);
    check_fields("X\t: y\r\n", FieldName);
    check_fields(" X: y\r\n", FieldName);
    check_fields("\tX: y\r\n", FieldName);
    check_fields("X: y\r\n z\r\n", FieldName);
    check_fields("X: y\r\n\tz\r\n", FieldName);
    check_fields("X: y\r\n \r\n", FieldName);
    check_fields(": y\r\n", FieldName);
    check_fields("X\r\n", FieldName);
    check_fields("X y\r\n", FieldName);
    check_fields("X(: y\r\n", FieldName);
    check_fields("X/Y: y\r\n", FieldName);
    check_fields("X\"Y: y\r\n", FieldName);
    check_fields("X@Y: y\r\n", FieldName);
    check_fields("X[0]: y\r\n", FieldName);
    check_fields("X{Y}: y\r\n", FieldName);
    check_fields("X\0: y\r\n", FieldName);
    check_fields("X\u{e9}: y\r\n", FieldName);
    check_fields("X: a\0b\r\n", FieldValue);
    check_fields("X: \0\r\n", FieldValue);
    check_fields("X: a\u{1}\r\n", FieldValue);
    check_fields("X: a\u{b}\r\n", FieldValue);
    check_fields("X: a\u{1b}[0m\r\n", FieldValue);
    check_fields("X: a\u{7f}\r\n", FieldValue);
    check_fields(&format!("X: {}\u{7f}{}\r\n", "a".repeat(40), "b".repeat(40)), FieldValue);
    check_bytes(b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", FieldName);
}

/// RFC 9112, section 6.
#[test]
fn body_lengths() {
    use HeadError::{ContentLength, ContentLengthRepeated, TransferEncoding, TwoLengths};
    for value in [
        "",
        "+5",
        "-5",
        "5, 5",
        "5,",
        ",5",
        "0x5",
        "5 5",
        "5.0",
        "5e3",
        "a",
        "5a",
        "\"5\"",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        check_fields(&format!("Content-Length: {value}\r\n"), ContentLength);
    }
    check_fields("Content-Length: 5\r\nContent-Length: 5\r\n", ContentLengthRepeated);
    check_fields("Content-Length: 5\r\nContent-length: 6\r\n", ContentLengthRepeated);
    for value in [
        "",
        "gzip",
        "identity",
        "chunked, gzip",
        "gzip, deflate",
        "gzip, chunked, chunked",
        "gzip, , chunked",
        "g zip, chunked",
        "chunked, chunked",
        "chunked,",
        ",chunked",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
        "chunke",
        "chunked chunked",
        "\u{b}chunked",
    ] {
        let expected = match value {
            "\u{b}chunked" => HeadError::FieldValue,
            _ => TransferEncoding,
        };
        check_fields(&format!("Transfer-Encoding: {value}\r\n"), expected);
    }
    for value in ["gzip, chunked", "x-gzip;level=9 , Chunked", "identity,gzip,chunked"] {
        check_fields(&format!("Transfer-Encoding: {value}\r\n"), HeadError::TransferCoding);
    }
    let chunked = "Transfer-Encoding: chunked\r\n";
    check_fields(&chunked.repeat(2), TransferEncoding);
    let gzip = "Transfer-Encoding: gzip\r\n";
    check_fields(&format!("{gzip}{chunked}"), HeadError::TransferCoding);
    check_fields(&format!("{chunked}{gzip}"), TransferEncoding);
    check_fields(&format!("{chunked}Transfer-Encoding: identity\r\n"), TransferEncoding);
    check_fields(&format!("{chunked}Content-Length: 5\r\n"), TwoLengths);
    check_fields(&format!("Content-Length: 0\r\n{chunked}"), TwoLengths);
    let version = HeadError::TransferEncodingVersion;
    check_bytes(format!("GET / HTTP/1.0\r\n{chunked}\r\n").as_bytes(), version);
    check_bytes(
        format!("GET / HTTP/1.0\r\n{chunked}Content-Length: 1\r\n\r\n").as_bytes(),
        version,
    );
}

fn check_small(input: &str, expected: Result<(), HeadError>) {
    assert_eq!(parse(input.as_bytes(), &SMALL).map(|_| ()), expected, "{input:?}");
}

/// Each limit is met exactly and exceeded by one, by complete and by incomplete heads.
#[test]
fn limits() {
    let line = |bytes: usize| format!("GET /{} HTTP/1.0", "a".repeat(bytes - 14));
    check_small(&format!("{}\r\n\r\n", line(64)), Ok(()));
    check_small(&format!("\r\n{}\r\n\r\n", line(64)), Ok(()));
    check_small(&format!("{}\r\n\r\n", line(65)), Err(HeadError::RequestLineTooLong));
    check_small(&"G".repeat(65), Ok(()));
    check_small(&"G".repeat(66), Err(HeadError::RequestLineTooLong));

    let field = |bytes: usize| format!("X: {}\r\n", "y".repeat(bytes - 5));
    let head = |bytes: usize| format!("{}\r\n{}\r\n", line(64), field(bytes - 68));
    assert_eq!(head(128).len(), 128);
    check_small(&head(128), Ok(()));
    check_small(&head(129), Err(HeadError::HeadTooLarge));
    check_small(&head(129)[..127], Ok(()));
    check_small(&head(129)[..128], Err(HeadError::HeadTooLarge));

    let fields = |count: usize| format!("{}\r\n{}", line(14), "X: y\r\n".repeat(count));
    check_small(&(fields(4) + "\r\n"), Ok(()));
    check_small(&(fields(5) + "\r\n"), Err(HeadError::TooManyFields));
    check_small(&fields(4), Ok(()));
    check_small(&fields(5), Err(HeadError::TooManyFields));
}

/// More fields than fit the small arrays, up to the largest possible number.
#[test]
fn field_counts() {
    let limits = HeadLimits { fields_max: usize::MAX, ..HeadLimits::default() };
    for (count, expected) in [
        (8, Ok(())),
        (9, Ok(())),
        (24, Ok(())),
        (25, Ok(())),
        (http1::FIELDS_MAX, Ok(())),
        (http1::FIELDS_MAX + 1, Err(HeadError::TooManyFields)),
    ] {
        let head = format!("GET / HTTP/1.0\r\n{}\r\n", "X: y\r\n".repeat(count));
        assert_eq!(parse(head.as_bytes(), &limits).map(|_| ()), expected, "{count}");
    }
}

#[test]
fn statuses() {
    for (error, status) in [
        (HeadError::RequestLineTooLong, 414),
        (HeadError::HeadTooLarge, 431),
        (HeadError::TooManyFields, 431),
        (HeadError::Version, 505),
        (HeadError::VersionSyntax, 400),
        (HeadError::TransferEncoding, 400),
        (HeadError::TwoLengths, 400),
    ] {
        assert_eq!(error.status(), status, "{error}");
        assert!(!http1::reason_phrase(status).is_empty());
    }
}
