//! Requests whose clients wait before they send a body (RFC 9110 §10.1.1).

use crate::memory::Pair;

const HEAD: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

fn waiting() -> Pair {
    let mut pair = Pair::new(HEAD);
    pair.client.body = b"hello".to_vec();
    pair.drive();
    assert!(pair.sent_text().contains("\r\nExpect: 100-continue\r\n"));
    assert!(pair.sent_text().ends_with("\r\n\r\n"), "the body is not sent unasked");
    pair
}

#[test]
fn a_body_is_sent_when_the_application_asks_for_it() {
    let mut pair = waiting();
    pair.receive(b"HTTP/1.1 100 Continue\r\n\r\n");
    assert!(pair.sent_text().ends_with("\r\n\r\nhello"));
    assert!(pair.client.heads.is_empty(), "the session invites its client by itself");
    pair.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(pair.over, Some(true));
}

/// haproxy 3316: a server that does not know expectations waits for the body.
#[test]
fn after_a_second_a_body_is_sent_unasked() {
    let mut pair = waiting();
    pair.advance(999);
    assert!(pair.sent_text().ends_with("\r\n\r\n"));
    pair.advance(1);
    assert!(pair.sent_text().ends_with("\r\n\r\nhello"));
}

/// h2o 3316, fluxzy 625.
#[test]
fn a_final_status_ends_the_expectation() {
    let mut pair = waiting();
    pair.receive(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((pair.client.heads[0].0, pair.over), (417, Some(false)));
    assert_eq!(pair.client.body, b"hello", "no byte of the body was asked for");
}
