//! A head has the same meaning wherever reads cut it.

use http1::{HeadLimits, Parsed, parse_head};

use crate::support::{parse, parse_in_pieces};

const SMALL: HeadLimits =
    HeadLimits { head_bytes_max: 256, request_line_bytes_max: 64, fields_max: 6 };

fn samples() -> Vec<Vec<u8>> {
    let text = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nGET /a?b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\nIf-Match: *\r\n\r\nGET / HTTP/1.1\r\n",
        "GET / HTTP/1.0\r\n\r\n\r\n\r\n",
        "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
        "GET / HTTP/1.1\r\nBad : a\r\nX: \0\r\nHost: a\nX: y\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/7.0\r\nHost: a\n\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "\u{16}\u{3}\n\r\n",
    ];
    let long = [
        format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(80)),
        format!("{}\n", "G".repeat(80)),
        format!("GET / HTTP/1.1\r\nX: {}\r\nY: \n\r\n\r\n", "a".repeat(300)),
        format!("GET / HTTP/1.1\r\nX: a\n{}\r\n\r\n", "a".repeat(300)),
        format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(10)),
        format!("GET / HTTP/1.1\r\nbad name: {}\r\nX: y\r\n\r\n", "X: y\r\n".repeat(10)),
        format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(5)),
    ];
    text.iter().map(|head| head.as_bytes().to_vec()).chain(long.map(String::into_bytes)).collect()
}

#[test]
fn a_byte_at_a_time() {
    for head in samples() {
        let pieces = parse_in_pieces(&head, 0..head.len(), &SMALL);
        assert_eq!(pieces, parse(&head, &SMALL), "{}", head.escape_ascii());
    }
}

#[test]
fn every_pair_of_cuts() {
    for head in samples() {
        let whole = parse(&head, &SMALL);
        for first in 0..head.len() {
            for second in first..head.len() {
                let pieces = parse_in_pieces(&head, [first, second], &SMALL);
                assert_eq!(pieces, whole, "{} at {first}, {second}", head.escape_ascii());
            }
        }
    }
}

#[test]
fn every_prefix_of_a_good_head_is_partial() {
    let head = b"\r\nGET /a?b HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n";
    for len in 0..head.len() {
        let prefix = head[..len].to_vec().into_boxed_slice();
        match parse_head(&prefix, 0, &HeadLimits::default()) {
            Ok(Parsed::Partial { scanned }) => assert_eq!(scanned, len),
            other => panic!("{len}: {other:?}"),
        }
    }
}
