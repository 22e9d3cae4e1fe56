//! Requests to scripts over FastCGI: what a server of it gets, and what its records become.

mod environment;
mod script_heads;

use std::sync::Arc;

use proptest::prelude::*;
use upstream::{Application, Failure, Length, Origin, Protocol, RecordError, ScriptRequest};

use crate::memory::{PEER, Pair, application};

pub(super) const GET: &str = "GET /a.php HTTP/1.1\r\nHost: a.test\r\n\r\n";
pub(super) const OK: &str = "Content-Type: text/html\r\n\r\n";

pub(super) fn server(children: u64) -> Arc<Application> {
    application(Protocol::FastCgi, children)
}

pub(super) fn script() -> ScriptRequest<'static> {
    ScriptRequest {
        origin: Origin {
            peer: PEER.parse().unwrap(),
            is_trusted: false,
            authority: "default.test",
        },
        peer_port: 4711,
        root: b"/srv/site",
        script_name: b"/a.php",
        path_info: b"",
        body_bytes: None,
        asked: None,
    }
}

/// A call that has sent what it can.
pub(super) fn asked(head: &str) -> Pair {
    asked_of(&server(0), head, &script())
}

pub(super) fn asked_of(server: &Arc<Application>, head: &str, script: &ScriptRequest<'_>) -> Pair {
    let mut pair = Pair::of_script(server, head, script);
    pair.drive();
    pair
}

/// A record that a server sends.
fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let mut bytes = vec![1, kind, 0, 1, high, low, padding, 0];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), 0xff);
    bytes
}

pub(super) fn output(content: impl AsRef<[u8]>) -> Vec<u8> {
    record(6, content.as_ref(), 3)
}

pub(super) fn error(content: impl AsRef<[u8]>) -> Vec<u8> {
    record(7, content.as_ref(), 0)
}

pub(super) fn end() -> Vec<u8> {
    ended(0, 0)
}

pub(super) fn ended(status: u8, protocol_status: u8) -> Vec<u8> {
    record(3, &[0, 0, 0, status, protocol_status, 0, 0, 0], 0)
}

/// The records that were sent: type and content.
pub(super) fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    while let [1, kind, 0, 1, high, low, padding, _, rest @ ..] = bytes {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        records.push((*kind, rest[..len].to_vec()));
        bytes = &rest[len + usize::from(*padding)..];
    }
    assert!(bytes.is_empty(), "{bytes:?}");
    records
}

fn stream(pair: &Pair, kind: u8) -> Vec<u8> {
    let records = records(&pair.sent);
    let of_kind: Vec<_> = records.into_iter().filter(|record| record.0 == kind).collect();
    let (last, rest) = of_kind.split_last().expect("a stream has an end");
    assert!(last.1.is_empty() && rest.iter().all(|it| !it.1.is_empty()), "only the last is empty");
    rest.iter().flat_map(|it| it.1.clone()).collect()
}

/// The variables that were sent, in their order.
pub(super) fn variables(pair: &Pair) -> Vec<(String, String)> {
    let bytes = stream(pair, 4);
    let (mut rest, mut found) = (&*bytes, Vec::new());
    let length = |rest: &mut &[u8]| match **rest {
        [a @ 128..=255, b, c, d, ..] => {
            *rest = &rest[4..];
            u32::from_be_bytes([a & 127, b, c, d]) as usize
        }
        _ => {
            let short = rest[0];
            *rest = &rest[1..];
            usize::from(short)
        }
    };
    while !rest.is_empty() {
        let (name, value) = (length(&mut rest), length(&mut rest));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.push((text(&rest[..name]), text(&rest[name..][..value])));
        rest = &rest[name + value..];
    }
    found
}

pub(super) fn variable(pair: &Pair, name: &str) -> Option<String> {
    let mut all = variables(pair).into_iter().filter(|(it, _)| it == name);
    let value = all.next().map(|(_, value)| value);
    assert!(all.next().is_none(), "{name} is there once");
    value
}

/// Replies in pieces of many sizes.
#[track_caller]
pub(super) fn check_reply(
    request: &str,
    reply: &[u8],
    expected: (u16, Length, &str),
    content: &str,
) {
    for size in (1..30).chain([reply.len()]) {
        let mut pair = asked(request);
        reply.chunks(size).for_each(|piece| pair.receive(piece));
        assert_eq!(pair.client.failure, None, "in pieces of {size}");
        let (status, length, lines) = pair.client.heads.pop().expect("a head");
        assert_eq!((status, length, &*lines), expected, "in pieces of {size}");
        assert_eq!(String::from_utf8_lossy(&pair.client.content), content);
        assert!(pair.client.is_complete);
        assert_eq!(pair.over, Some(false), "connections are not kept by default");
    }
}

#[track_caller]
pub(super) fn check_failure(reply: &[u8], failure: Failure, status: u16) {
    for size in [1, 3, reply.len().max(1)] {
        let mut pair = asked(GET);
        reply.chunks(size).for_each(|piece| pair.receive(piece));
        if pair.over.is_none() {
            pair.end();
        }
        assert_eq!(pair.client.failure, Some(failure), "in pieces of {size}");
        assert_eq!((failure.status(), pair.over), (status, Some(false)));
    }
}

/// The streams of a request, each with the empty record that ends it, also without a body.
#[test]
fn a_request_is_begun_and_its_streams_are_ended() {
    let pair = asked(GET);
    let records = records(&pair.sent);
    assert_eq!(records.first(), Some(&(1, vec![0, 1, 0, 0, 0, 0, 0, 0])), "a responder");
    assert_eq!(records.last(), Some(&(5, Vec::new())));
    assert_eq!(records.iter().filter(|record| record.0 == 5).count(), 1);
    assert_eq!(variable(&pair, "SCRIPT_FILENAME").unwrap(), "/srv/site/a.php");
}

/// A body, whose pieces and windows are of a few bytes.
#[test]
fn a_body_is_a_stream_however_it_comes() {
    for (window, piece) in [(1, 1), (3, 2), (usize::MAX, 7), (usize::MAX, usize::MAX)] {
        let head = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n\r\n";
        let mut pair = Pair::of_script(&server(0), head, &script());
        (pair.window, pair.client.piece_bytes_max) = (window, piece);
        pair.client.body = b"abcdefghijklm".to_vec();
        pair.client.is_whole = false;
        pair.drive();
        assert!(pair.call.deadline().is_none(), "the client's time");
        pair.client.body = b"nopqrstuvwxyz".to_vec();
        pair.client.is_whole = true;
        pair.drive();
        assert_eq!(stream(&pair, 5), b"abcdefghijklmnopqrstuvwxyz");
        assert_eq!(variable(&pair, "CONTENT_LENGTH").as_deref(), Some("26"));
        pair.receive(&[output(OK), end()].concat());
        assert!(pair.client.is_complete);
    }
}

#[test]
fn a_body_larger_than_a_record_is_several() {
    let head = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n";
    let mut pair = Pair::of_script(&server(0), head, &script());
    pair.client.body = vec![b'x'; 200_000];
    pair.drive();
    assert_eq!(stream(&pair, 5), vec![b'x'; 200_000]);
}

/// Both streams interleaved, with padding, across any cut; the empty output at the end is
/// optional.
#[test]
fn a_reply_is_read_across_any_cut() {
    let reply = |with_end: bool| {
        let mut reply = [
            output("Content-"),
            error("Warning"),
            output("Type: text/html\r\n\r"),
            record(11, &[4; 8], 1),
            output("\n<p>"),
            error(": x\n"),
            output("ok"),
        ]
        .concat();
        if with_end {
            reply.extend(output(""));
        }
        reply.extend(end());
        reply
    };
    for with_end in [false, true] {
        let expected = (200, Length::Unknown, "Content-Type: text/html");
        check_reply(GET, &reply(with_end), expected, "<p>ok");
    }
}

/// What is not a record of request 1 is a failure of the application.
#[test]
fn what_is_no_record_of_the_request_is_answered_with_502() {
    let record = |why| Failure::Record(why);
    check_failure(b"HTTP/1.1 400 Bad Request\r\n\r\n", record(RecordError::Version(b'H')), 502);
    check_failure(&[1, 6, 0, 2, 0, 1, 0, 0, b'x'], record(RecordError::Request(2)), 502);
    check_failure(&[1, 3, 0, 1, 0, 4, 0, 0, 0], record(RecordError::EndLength(4)), 502);
}

/// The statuses of `END_REQUEST`.
#[test]
fn a_server_may_refuse_a_request() {
    check_failure(&ended(0, 1), Failure::Declined(1), 502);
    check_failure(&ended(0, 2), Failure::Overloaded, 503);
    check_failure(&ended(0, 3), Failure::Declined(3), 502);
}

/// Only where the operator says how many processes there are is a connection kept, and then
/// a reply ends with its last record.
#[test]
fn connections_are_kept_only_if_there_are_children() {
    for (children, flags) in [(0, 0), (4, 1)] {
        let mut pair = asked_of(&server(children), GET, &script());
        assert_eq!(records(&pair.sent)[0].1[2], flags);
        pair.receive(&[output(OK), end()].concat());
        assert_eq!(pair.over, Some(children > 0));
    }
}

/// Bytes after a reply, padding that has not come, a body that is not whole.
#[test]
fn a_connection_with_anything_left_on_it_is_not_kept() {
    let mut more = asked_of(&server(4), GET, &script());
    more.receive(&[output(OK), end(), output("x")].concat());
    assert_eq!(more.over, Some(false));
    let mut padded = asked_of(&server(4), GET, &script());
    padded.receive(&[output(OK), record(3, &[0; 8], 5)[..18].to_vec()].concat());
    assert_eq!(padded.over, Some(false));
    let post = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n";
    let mut early = Pair::of_script(&server(4), post, &script());
    early.client.is_whole = false;
    early.drive();
    early.receive(&[output(OK), end()].concat());
    assert_eq!((early.over, early.client.is_complete), (Some(false), true));
}

/// A kept connection that had ended is replaced, if the request may be made twice.
#[test]
fn a_request_is_made_again_only_where_that_does_no_harm() {
    let reused = |head: &str, received: &[u8]| {
        let mut pair = Pair::of_script(&server(4), head, &script());
        pair.is_reused = true;
        pair.client.body = b"abc".to_vec();
        pair.drive();
        pair.receive(received);
        pair.end();
        pair
    };
    let again = reused(GET, b"");
    assert_eq!((again.connections, again.client.failure), (2, None));
    assert_eq!(variable(&again, "SCRIPT_NAME").as_deref(), Some("/a.php"), "all of it is sent");
    assert_eq!(reused(GET, &output("C")).client.failure, Some(Failure::CutShort));
    assert_eq!(reused(GET, &[1, 6]).client.failure, Some(Failure::Closed), "half a header");
    let post = "POST /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(reused(post, b"").client.failure, Some(Failure::Closed));
    let put = "PUT /a.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n";
    assert_eq!(reused(put, b"").client.failure, Some(Failure::Closed), "its body is gone");
}

/// Without an `END_REQUEST` the process may have crashed, unless the length says that all is
/// there.
#[test]
fn a_reply_without_an_end_is_cut_short() {
    check_failure(&[output(OK), output("half")].concat(), Failure::CutShort, 502);
    check_failure(&output("Content-Length: 3\r\nStatus: 200\r\n\r\nab"), Failure::CutShort, 502);
    check_failure(b"", Failure::Closed, 502);
    check_failure(&error("only that"), Failure::Closed, 502);
    check_failure(&end(), Failure::Closed, 502);
    check_failure(&[output("Content-Ty"), end()].concat(), Failure::CutShort, 502);
    let mut whole = asked(GET);
    whole.receive(&output("Content-Length: 2\r\nContent-Type: a/b\r\n\r\nab"));
    whole.end();
    assert!(whole.client.is_complete && whole.over == Some(false));
}

#[test]
fn nothing_is_received_without_room() {
    let mut pair = asked(GET);
    pair.client.room = 4;
    pair.receive(&output(format!("{OK}hello")));
    assert!(!pair.call.wants_input(&mut pair.client));
    assert_eq!(pair.call.deadline(), None, "the client's time, not the application's");
    pair.client.room = 100;
    pair.drive();
    pair.receive(&end());
    assert!(pair.client.is_complete);
}

#[test]
fn an_application_has_its_time() {
    let mut silent = asked(GET);
    silent.advance(60_000);
    assert_eq!(silent.client.failure, Some(Failure::NoReply));
    let mut stopped = asked(GET);
    stopped.receive(&output(OK));
    stopped.advance(60_000);
    assert_eq!(stopped.client.failure, Some(Failure::Silent));
}

proptest! {
    /// However the records of a reply are cut, it becomes the same.
    #[test]
    fn a_reply_is_the_same_however_it_is_cut(
        pieces in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40), any::<u8>()), 0..8),
        cuts in prop::collection::vec(1_usize..60, 1..40),
    ) {
        let mut reply = output(OK);
        let mut content = Vec::new();
        for (is_output, bytes, padding) in &pieces {
            reply.extend(record(if *is_output { 6 } else { 7 }, bytes, *padding));
            if *is_output {
                content.extend_from_slice(bytes);
            }
        }
        reply.extend(end());
        let mut pair = asked(GET);
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
        prop_assert!(pair.client.is_complete && pair.over == Some(false));
    }
}
