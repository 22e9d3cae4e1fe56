//! Applications that do not answer, or not in order.

use http1::ResponseError;
use upstream::{CallLimits, Failure};

use crate::memory::Pair;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";

fn started(request: &str) -> Pair {
    let mut pair = Pair::new(request);
    pair.client.body = b"hello".to_vec();
    pair.drive();
    pair
}

#[track_caller]
fn check(pair: &Pair, failure: Failure, status: u16) {
    assert_eq!((pair.client.failure, pair.call.failure()), (Some(failure), Some(failure)));
    assert_eq!((failure.status(), pair.over), (status, Some(false)));
    assert!(!failure.to_string().is_empty());
}

#[test]
fn a_connection_that_ends_too_early_is_a_failure() {
    for (before, failure) in [
        ("", Failure::Closed),
        ("HTTP/1.1 200 OK\r\nContent-", Failure::Closed),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", Failure::Closed),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", Failure::CutShort),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", Failure::CutShort),
    ] {
        let mut pair = started(GET);
        if !before.is_empty() {
            pair.receive(before.as_bytes());
        }
        pair.end();
        check(&pair, failure, 502);
    }
}

/// What two recipients could read in two ways, or what is no HTTP, reaches no client.
#[test]
fn replies_that_cannot_be_read_are_failures() {
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (reply, failure) in [
        ("SSH-2.0-OpenSSH\r\n\r\n", Failure::Head(ResponseError::Syntax)),
        (both, Failure::Head(ResponseError::LengthAndChunks)),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Failure::Head(ResponseError::Folded)),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Failure::Switched),
    ] {
        let mut pair = started(GET);
        pair.receive(reply.as_bytes());
        check(&pair, failure, 502);
    }
    let mut pair = started(GET);
    pair.receive(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nX");
    assert!(matches!(pair.call.failure(), Some(Failure::Content(_))));
}

#[test]
fn a_head_has_a_bound() {
    let mut pair = started(GET);
    pair.receive(b"HTTP/1.1 200 OK\r\nX: ");
    for _ in 0..64 {
        assert_eq!(pair.over, None);
        pair.receive(&[b'x'; 1024]);
    }
    check(&pair, Failure::HeadTooLarge, 502);
    let mut whole = started(GET);
    whole.receive(format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(65_536)).as_bytes());
    check(&whole, Failure::HeadTooLarge, 502);
}

/// Each is progress, so that no deadline ends them.
#[test]
fn interim_responses_have_a_bound() {
    let mut pair = started(GET);
    for _ in 0..1000 {
        pair.receive(b"HTTP/1.1 102 Processing\r\n\r\n");
        assert_eq!(pair.over, None);
    }
    pair.receive(b"HTTP/1.1 102 Processing\r\n\r\n");
    check(&pair, Failure::Interims, 502);
}

/// A kept connection may end just when a request is sent on it (hyper 2136). The request is sent
/// again only if that does no harm.
#[test]
fn a_kept_connection_that_had_ended_is_no_failure() {
    let mut pair = Pair::new(GET);
    pair.is_reused = true;
    pair.drive();
    let first = pair.sent_text();
    pair.end();
    assert_eq!((pair.connections, pair.sent_text()), (2, first));
    pair.end();
    check(&pair, Failure::Closed, 502);
}

#[test]
fn a_request_that_may_have_been_heard_is_not_sent_again() {
    let reused = |request| {
        let mut pair = Pair::new(request);
        pair.is_reused = true;
        pair.client.body = b"hello".to_vec();
        pair
    };
    let mut posted = reused(POST);
    posted.drive();
    posted.end();
    check(&posted, Failure::Closed, 502);
    let mut put = reused("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
    put.drive();
    put.end();
    check(&put, Failure::Closed, 502); // its body is consumed
    let mut answered = reused(GET);
    answered.drive();
    answered.receive(b"HTTP/1.1 2");
    answered.end();
    check(&answered, Failure::Closed, 502);
    let mut unsent = reused(POST);
    unsent.window = 0;
    unsent.drive();
    unsent.end();
    unsent.window = usize::MAX;
    unsent.drive();
    assert!(unsent.connections == 2 && unsent.sent_text().ends_with("\r\n\r\nhello"));
}

#[test]
fn a_body_at_fault_is_the_clients_failure() {
    for status in [400, 413] {
        let mut pair = Pair::new(POST);
        pair.client.broken = Some(status);
        pair.drive();
        check(&pair, Failure::Request(status), status);
        assert!(!Failure::Request(status).is_servers());
    }
}

#[test]
fn each_wait_has_its_time() {
    let limits = CallLimits::default();
    let mut silent = started(GET);
    silent.advance(limits.first_byte_ms - 1);
    assert_eq!(silent.over, None);
    silent.advance(1);
    check(&silent, Failure::NoReply, 504);

    let mut stopped = started(GET);
    stopped.advance(limits.first_byte_ms - 1);
    stopped.receive(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell");
    stopped.advance(limits.silence_ms - 1);
    assert_eq!(stopped.over, None);
    stopped.advance(1);
    check(&stopped, Failure::Silent, 504);

    let mut blocked = Pair::new(GET);
    blocked.window = 0;
    blocked.drive();
    blocked.advance(limits.silence_ms);
    check(&blocked, Failure::Silent, 504);
}

/// The time for the reply begins with the end of the request, which is the client's business.
#[test]
fn a_slow_upload_is_not_the_applications_fault() {
    let limits = CallLimits::default();
    let mut pair = Pair::new(POST);
    pair.client.is_whole = false;
    pair.drive();
    pair.advance(10 * limits.first_byte_ms);
    assert_eq!((pair.over, pair.call.deadline()), (None, None));
    pair.client.body = b"hello".to_vec();
    pair.client.is_whole = true;
    pair.drive();
    pair.advance(limits.first_byte_ms - 1);
    assert_eq!(pair.over, None);
    pair.advance(1);
    check(&pair, Failure::NoReply, 504);
}
