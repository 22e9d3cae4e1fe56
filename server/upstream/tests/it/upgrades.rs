//! Requests that ask for another protocol, and what becomes of their connections.

use upstream::{CallLimits, Failure, Length};

use crate::memory::Pair;

const ASKED: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
                     Upgrade: websocket, other/1\r\nupgrade: third\r\nX: 1\r\n\r\n";
const AGREED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\
                        Upgrade: other/1\r\nX-Hop: 1\r\nY: 2\r\n\r\n";

/// A call that asks for another protocol, whose client sends more than its request.
fn asked() -> Pair {
    let mut pair = Pair::new(ASKED);
    pair.client.body = b"ahead".to_vec();
    pair.client.is_whole = false;
    pair.drive();
    pair
}

/// A call whose application has agreed.
fn agreed() -> Pair {
    let mut pair = asked();
    pair.sent.clear();
    pair.receive(AGREED);
    pair
}

#[test]
fn the_wish_for_another_protocol_is_passed_on() {
    let sent = asked().sent_text();
    assert!(sent.contains("\r\nUpgrade: websocket, other/1\r\nUpgrade: third\r\n"), "{sent}");
    assert_eq!(sent.matches("Connection: upgrade\r\n").count(), 1, "{sent}");
    assert_eq!(sent.matches("onnection").count(), 1, "{sent}");
    assert!(sent.ends_with("\r\n\r\n"), "what follows the head may be a request: {sent}");
}

#[test]
fn other_requests_do_not_ask_for_one() {
    let fields = "Host: a\r\nConnection: upgrade\r\nUpgrade: x\r\n";
    for request in [
        format!("POST / HTTP/1.1\r\n{fields}\r\n"),
        format!("HEAD / HTTP/1.1\r\n{fields}\r\n"),
        format!("GET / HTTP/1.0\r\n{fields}\r\n"),
        format!("GET / HTTP/1.1\r\n{fields}Content-Length: 1\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{fields}Transfer-Encoding: chunked\r\n\r\n"),
        format!("GET / HTTP/1.1\r\n{fields}Expect: 100-continue\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: other\r\nUpgrade: x\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: ,\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x, H2C/1\r\n\r\n".into(),
    ] {
        let mut pair = Pair::new(&request);
        pair.client.is_whole = false;
        pair.drive();
        assert!(!pair.sent_text().to_lowercase().contains("upgrade"), "{}", pair.sent_text());
        pair.receive(AGREED);
        assert_eq!(pair.client.failure, Some(Failure::Switched), "{request}");
    }
}

#[test]
fn bytes_pass_as_they_are_when_it_is_agreed_to() {
    let mut pair = agreed();
    assert_eq!(pair.client.heads, [(101, Length::Unknown, "X-Hop: 1\nY: 2".into())]);
    assert_eq!(pair.sent_text(), "ahead");
    pair.receive(b"5\r\nhello");
    pair.client.body = b"0\r\n\r\n".to_vec();
    pair.drive();
    assert_eq!(pair.client.content, b"5\r\nhello");
    assert_eq!(pair.sent_text(), "ahead0\r\n\r\n");
    assert_eq!(pair.over, None);
}

#[test]
fn what_follows_the_agreement_is_of_the_other_protocol_however_it_is_cut() {
    for size in 1..AGREED.len() + 2 {
        let mut pair = asked();
        [AGREED, b"HTTP/1.1 200 OK\r\n\r\n"].concat().chunks(size).for_each(|it| pair.receive(it));
        assert_eq!(pair.client.content, b"HTTP/1.1 200 OK\r\n\r\n", "in pieces of {size}");
        assert!(pair.sent_text().ends_with("\r\n\r\nahead"), "{}", pair.sent_text());
    }
}

#[test]
fn a_refused_request_is_one_like_any_other() {
    let mut pair = asked();
    pair.receive(b"HTTP/1.1 103 Early Hints\r\n\r\n");
    pair.receive(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno");
    assert_eq!(pair.over, Some(true), "the connection can be kept");
    assert!(pair.client.is_complete && pair.client.content == b"no");
    assert_eq!(pair.client.body, b"ahead", "nothing of it was for the application");
}

#[test]
fn the_end_of_each_direction_is_passed_on_once() {
    let mut pair = agreed();
    pair.client.is_whole = true;
    assert!(!pair.has_ended_sending);
    pair.drive();
    assert!(pair.has_ended_sending, "the client's end");
    pair.receive(b"and yet");
    assert_eq!((pair.client.content.as_slice(), pair.over), (&b"and yet"[..], None));
    pair.end();
    assert_eq!(pair.over, Some(false), "its connection is not kept");
    assert!(pair.client.is_complete && pair.client.failure.is_none());
    let mut other = agreed();
    other.end();
    assert_eq!(other.over, Some(false));
    assert!(other.client.is_complete && other.client.failure.is_none());
}

#[test]
fn an_end_waits_for_what_was_sent_before_it() {
    let mut pair = agreed();
    pair.window = 0;
    pair.client.body = b"rest".to_vec();
    pair.client.is_whole = true;
    pair.drive();
    assert!(!pair.has_ended_sending);
    pair.window = 1;
    pair.drive();
    assert!(pair.has_ended_sending && pair.sent.ends_with(b"rest"));
}

#[test]
fn silence_of_both_sides_ends_it_in_order() {
    let idle_ms = CallLimits::default().tunnel_idle_ms;
    let mut pair = agreed();
    pair.advance(idle_ms - 1);
    pair.receive(b"x");
    pair.advance(idle_ms - 1);
    pair.client.body = b"y".to_vec();
    pair.drive();
    pair.advance(idle_ms - 1);
    assert_eq!(pair.over, None);
    pair.advance(1);
    assert_eq!(pair.over, Some(false));
    assert!(pair.client.is_complete && pair.client.failure.is_none());
}

#[test]
fn nothing_is_received_without_room_and_nothing_is_lost() {
    let mut pair = agreed();
    pair.client.room = 3;
    pair.receive(b"abcd");
    assert!(!pair.call.wants_input(&mut pair.client));
    pair.client.body = b"up".to_vec();
    pair.drive();
    assert!(pair.sent.ends_with(b"up"), "the other direction goes on");
    pair.client.room = 5;
    assert!(pair.call.wants_input(&mut pair.client));
    assert_eq!(pair.client.content, b"abcd");
}
