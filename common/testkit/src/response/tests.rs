//! Tests of the response parser: what it accepts, what it waits for, what it refuses.

use super::*;

fn parse(bytes: &str, closed: bool) -> Result<Vec<(u16, String)>, String> {
    let parsed = parse_responses(bytes.as_bytes(), &[], closed).map_err(|error| error.reason)?;
    let pair = |response: &Response| {
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    };
    Ok(parsed.responses.iter().map(pair).collect())
}

#[test]
fn complete_responses() {
    let check = |bytes: &str, expected: &[(u16, &str)]| {
        let expected: Vec<_> = expected.iter().map(|(s, b)| (*s, (*b).to_owned())).collect();
        assert_eq!(parse(bytes, true), Ok(expected), "{bytes:?}");
    };
    check("", &[]);
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", &[(200, "hi")]);
    check("HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", &[(200, "")]);
    check("HTTP/1.1 200 OK\r\n\r\nto the end", &[(200, "to the end")]);
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", &[(304, "")]);
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", &[(100, ""), (204, "")]);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(&format!("{chunked}3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n"), &[(200, "abc0123456789")]);
}

#[test]
fn malformed_responses() {
    let check = |bytes: &str, reason: &str| match parse(bytes, true) {
        Ok(responses) => panic!("{bytes:?} was taken: {responses:?}"),
        Err(message) => assert!(message.contains(reason), "{bytes:?}: {message}"),
    };
    check("HTTP/1.0 200 OK\r\n\r\n", "no status line");
    check("http/1.1 200 OK\r\n\r\n", "no status line");
    check("HTTP/1.1 200\r\n\r\n", "bad status line");
    check("HTTP/1.1 20 OK\r\n\r\n", "bad status line");
    check("HTTP/1.1 900 OK\r\n\r\n", "bad status line");
    check("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", "bad field line");
    check("HTTP/1.1 200 OK\r\nnothing\r\n\r\n", "bad field line");
    check("HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", "control byte");
    check("HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", "control byte");
    check("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nhi", "Content-Length: +2");
    check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", "cut short");
    check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nhi", "no status line");
    check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nh", "two Content");
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding: gzip");
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(both, "Content-Length with");
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(&format!("{chunked}3\r\nabcd\r\n0\r\n\r\n"), "without CRLF");
    check(&format!("{chunked}x\r\n"), "chunk size");
    check("HTTP/1.1 204 No Content\r\n\r\nbody", "no status line");
}

#[test]
fn every_prefix_is_waited_for_and_every_cut_is_noticed() {
    let bytes = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
                 HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone";
    let first = bytes.find("HTTP/1.1 404").expect("it is there");
    for len in 0..bytes.len() {
        let count = usize::from(len >= first);
        assert_eq!(parse(&bytes[..len], false).expect("a prefix").len(), count, "{len}");
        assert_eq!(parse(&bytes[..len], true).is_ok(), len == 0 || len == first, "{len}");
    }
}

#[test]
fn the_answer_to_a_head_has_no_body() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let parsed = parse_responses(bytes, &[true, false], true).expect("two responses");
    assert_eq!(parsed.responses.len(), 2);
    assert_eq!(parsed.responses[0].framing, Framing::None);
    assert_eq!(parsed.responses[1].body, b"x");
}
