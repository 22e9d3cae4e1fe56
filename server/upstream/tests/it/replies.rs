//! What a reply becomes.

use http1::BodyError;
use proptest::prelude::*;
use upstream::{Failure, Length};

use crate::memory::Pair;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HEAD: &str = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A call whose application sends this reply in pieces of `size`, and closes if `closes`.
fn replied(request: &str, reply: &str, size: usize, closes: bool) -> Pair {
    let mut pair = Pair::new(request);
    pair.drive();
    for piece in reply.as_bytes().chunks(size) {
        pair.receive(piece);
    }
    if closes {
        pair.end();
    }
    pair
}

struct Expected<'e> {
    status: u16,
    length: Length,
    content: &'e str,
    keeps: bool,
}

#[track_caller]
fn check(request: &str, reply: &str, expected: &Expected<'_>) {
    for size in [1, 2, 7, reply.len()] {
        let pair = replied(request, reply, size, !expected.keeps);
        let (status, length, _) = pair.client.heads.last().expect("a head");
        assert_eq!((*status, *length), (expected.status, expected.length), "in pieces of {size}");
        assert_eq!(String::from_utf8_lossy(&pair.client.content), expected.content);
        assert!(pair.client.is_complete && pair.client.failure.is_none());
        assert_eq!(pair.over, Some(expected.keeps), "in pieces of {size}: {reply}");
    }
}

#[test]
fn the_end_of_a_reply_is_found_by_its_framing() {
    let ok = |length, content, keeps| Expected { status: 200, length, content, keeps };
    let known = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    check(GET, known, &ok(Length::Known(5), "hello", true));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n\
                   0\r\nX-Sum: 1\r\n\r\n";
    check(GET, chunked, &ok(Length::Unknown, "hello", true));
    check(GET, "HTTP/1.1 200 OK\r\n\r\nhello", &ok(Length::Unknown, "hello", false));
    let old = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    check(GET, old, &ok(Length::Known(5), "hello", false));
    let custom = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello";
    check(GET, custom, &ok(Length::Known(5), "hello", false));
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    check(GET, closing, &ok(Length::Known(0), "", false));
}

const TAKES_TRAILERS: &str = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n";

/// RFC 9110 §6.5.1: a client gets trailers only if it says that it takes them, and none that are
/// for a head.
#[test]
fn trailers_reach_a_client_that_takes_them() {
    let reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: x-hop\r\n\r\n\
                 5\r\nhello\r\n0\r\nX-Sum:1\r\nSet-Cookie: a=b\r\nX-Hop: 2\r\nX_End: 3\r\n\r\n";
    for (request, expected) in [(TAKES_TRAILERS, "X-Sum: 1\r\nX_End: 3\r\n"), (GET, "")] {
        for size in [1, 2, 7, reply.len()] {
            let pair = replied(request, reply, size, false);
            assert_eq!(pair.client.content, b"hello");
            assert_eq!((&*pair.client.trailers, pair.over), (expected, Some(true)), "{size}");
            assert_eq!(pair.client.heads[0].2, "", "no trailer becomes a field of the head");
        }
    }
    let without = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
    assert_eq!(replied(TAKES_TRAILERS, without, 1, false).client.trailers, "");
    let known = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(replied(TAKES_TRAILERS, known, 1, false).client.trailers, "");
}

#[test]
fn a_trailer_has_its_bounds() {
    let of = |trailer: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let pair = replied(TAKES_TRAILERS, &format!("{head}0\r\n{trailer}\r\n"), 1000, false);
        (pair.client.trailers.len(), pair.client.failure)
    };
    let bytes = usize::from(http1::TRAILER_BYTES_MAX);
    // Two bytes are the blank line's.
    let long = |bytes: usize| format!("X: {}\r\n", "a".repeat(bytes - 7));
    assert_eq!(of(&long(bytes)), (bytes - 2, None));
    assert_eq!(of(&long(bytes + 1)), (0, Some(Failure::Content(BodyError::TrailerTooLong))));
    let fields = usize::from(http1::TRAILER_FIELDS_MAX);
    assert_eq!(of(&"X: \r\n".repeat(fields)), (fields * 5, None));
    let too_many = of(&"X: \r\n".repeat(fields + 1));
    assert_eq!(too_many, (0, Some(Failure::Content(BodyError::TooManyTrailers))));
}

/// h2o 276: a wait for a body that never comes.
#[test]
fn some_replies_have_no_content_whatever_their_fields_say() {
    let none = |status, announced| Expected {
        status,
        length: Length::None(announced),
        content: "",
        keeps: true,
    };
    check(HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", &none(200, Some(5)));
    check(HEAD, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &none(200, None));
    check(GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", &none(304, None));
    check(GET, "HTTP/1.1 204 No Content\r\n\r\n", &none(204, None));
}

#[test]
fn fields_for_one_hop_are_left_out_of_replies_too() {
    let reply = "HTTP/1.1 200 OK\r\nServer: x\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
                 Keep-Alive: timeout=5\r\nSet-Cookie: a\r\nset-cookie: b\r\nUpgrade: h2c\r\n\
                 Content-Length: 0\r\n\r\n";
    let pair = replied(GET, reply, 1000, false);
    assert_eq!(pair.client.heads[0].2, "Server: x\nSet-Cookie: a\nset-cookie: b");
}

#[test]
fn interim_responses_come_before_the_reply() {
    let reply = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                 HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for size in [1, 5, reply.len()] {
        let pair = replied(GET, reply, size, false);
        let statuses: Vec<u16> = pair.client.heads.iter().map(|head| head.0).collect();
        assert_eq!(statuses, [103, 200], "the client does not wait for the 100");
        assert_eq!(pair.client.heads[0].2, "Link: </a>");
        assert_eq!((pair.client.content.as_slice(), pair.over), (&b"ok"[..], Some(true)));
    }
}

/// Bytes after a reply would be the reply to the next request: the connection is not used again.
#[test]
fn bytes_after_a_reply_end_the_connection() {
    for more in ["x", "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny"] {
        let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok{more}");
        let pair = replied(GET, &reply, 1000, false);
        assert_eq!((pair.client.content.as_slice(), pair.over), (&b"ok"[..], Some(false)));
    }
}

/// A final status while the body is still on its way (h2o 2010): the reply goes on at once, and the
/// connection, on which the rest of the body would come, ends with it.
#[test]
fn an_early_reply_is_passed_on_and_the_connection_not_kept() {
    let mut pair = Pair::new("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    pair.client.is_whole = false;
    pair.client.body = b"hello".to_vec();
    pair.drive();
    pair.receive(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!((pair.client.heads[0].0, pair.over), (413, Some(false)));
}

#[test]
fn nothing_is_received_without_room() {
    let mut pair = Pair::new(GET);
    pair.client.room = 4;
    pair.drive();
    pair.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    assert!(!pair.call.wants_input(&mut pair.client), "five bytes are more than four");
    assert_eq!(pair.call.deadline(), None, "the client's time, not the application's");
    pair.client.room = 100;
    assert!(pair.call.wants_input(&mut pair.client));
    pair.drive();
    assert!(pair.call.deadline().is_some());
    pair.receive(b"world");
    assert_eq!(pair.over, Some(true));
}

proptest! {
    /// However a reply is cut, it becomes the same.
    #[test]
    fn a_reply_is_the_same_however_it_is_cut(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        cuts in prop::collection::vec(1_usize..60, 1..40),
        is_chunked: bool,
        trailer in "(X-[a-z]{1,4}: [!-~]{0,9}\r\n){0,3}",
    ) {
        let content = chunks.concat();
        let mut reply = b"HTTP/1.1 200 OK\r\nX: y\r\n".to_vec();
        if is_chunked {
            reply.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in &chunks {
                http1::put_chunk_size(&mut reply, chunk.len());
                reply.extend_from_slice(chunk);
                reply.extend_from_slice(b"\r\n");
            }
            reply.extend_from_slice(format!("0\r\n{trailer}\r\n").as_bytes());
        } else {
            reply.extend_from_slice(format!("Content-Length: {}\r\n\r\n", content.len()).as_bytes());
            reply.extend_from_slice(&content);
        }
        let mut pair = Pair::new(TAKES_TRAILERS);
        pair.drive();
        let mut rest = reply.as_slice();
        for cut in cuts.iter().cycle() {
            let (piece, more) = rest.split_at((*cut).min(rest.len()));
            pair.receive(piece);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&pair.client.content, &content);
        prop_assert_eq!(pair.over, Some(true));
        prop_assert_eq!(&pair.client.heads[0].2, "X: y");
        prop_assert_eq!(&pair.client.trailers, if is_chunked { &trailer } else { "" });
    }
}
