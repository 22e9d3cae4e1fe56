//! Each kind of failure of a request is counted in its own counter and in no other.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use load::error_kind::ErrorKind;
use load::measures::SINGLE;
use load::outcome::Outcome;
use load::plan::{ConnectionUse, Expected, ExpectedBody, Plan, Verify};
use testkit::scripted::{Action, Body, Reply, Scripted};
use testkit::undisturbed;

use crate::setup::{
    MS, Step, closed, errors, get, log, millis, plan, run_to_end, scripted, scripted_by_target,
    send, target, targets,
};

/// Two sessions of two requests: each session must fail at its first request with `kind`, once.
#[track_caller]
fn check(actions: &[Action], kind: ErrorKind) -> Outcome {
    let server = scripted(actions);
    check_at(server.address(), kind)
}

#[track_caller]
fn check_at(server: SocketAddr, kind: ErrorKind) -> Outcome {
    let mut plan = plan(server, log(&[&[get("/a"), get("/b")]]));
    plan.sessions_max = Some(2);
    // Timeouts that are not tested are so long that a busy machine does not reach them.
    if !kind.is_timeout() {
        return checked_failure(run_to_end(&plan), kind);
    }
    plan.timeout_us = 1_000 * MS;
    plan.connect_timeout_us = 800 * MS;
    // A server that is kept from its CPU has not come as far as it is scripted to.
    let mut last = None;
    undisturbed(|| {
        let outcome = last.insert(run_to_end(&plan));
        let errors = errors(outcome);
        if errors == [(kind, 2)] { Ok(()) } else { Err(format!("{errors:?}")) }
    });
    checked_failure(last.unwrap(), kind)
}

/// Checks the counts of two sessions that failed at their first request.
#[track_caller]
fn checked_failure(outcome: Outcome, kind: ErrorKind) -> Outcome {
    let counts = &outcome.measures.counts;
    assert_eq!(errors(&outcome), [(kind, 2)]);
    assert_eq!((counts.requests, counts.replies, counts.requests_abandoned), (2, 0, 2));
    assert_eq!((counts.sessions_failed, counts.sessions_completed), (2, 0));
    assert_eq!(outcome.measures.times.session_failed.len(), 2);
    assert_eq!(outcome.measures.replies_per_session[0], 2);
    assert_eq!(outcome.measures.lengths[2].timeouts, if kind.is_timeout() { 2 } else { 0 });
    assert_eq!(outcome.first_bad, None);
    outcome
}

fn hello() -> Reply {
    Reply::ok(b"hello, world")
}

fn truncated(outcome: &Outcome) -> u64 {
    outcome.measures.files.iter().map(|row| row.truncated).sum()
}

#[test]
fn refused() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = check_at(address, ErrorKind::Refused);
    assert_eq!(outcome.measures.counts.connections_tried, 2);
    assert_eq!(outcome.measures.counts.connections, 0);
    assert_eq!(outcome.void, []);
}

#[test]
fn reset_before_the_reply() {
    check(&[Action::Reset], ErrorKind::Reset);
}

#[test]
fn reset_in_the_head() {
    let part = hello().bytes()[..20].to_vec();
    check(&[Action::Send(part.clone()), Action::Reset], ErrorKind::Reset);
    check(&[Action::Send(part), Action::Wait(millis(20)), Action::Reset], ErrorKind::Reset);
}

#[test]
fn reset_in_the_body() {
    let outcome = check(&[Action::Send(hello().cut(4)), Action::Reset], ErrorKind::Reset);
    assert_eq!(outcome.measures.counts.body_bytes, 2 * 8);
    let until_close = hello().framed(Body::UntilClose);
    check(&[send(&until_close), Action::Wait(millis(20)), Action::Reset], ErrorKind::Reset);
}

#[test]
fn closed_before_the_reply() {
    check(&[Action::Close], ErrorKind::ClosedEarly);
}

#[test]
fn closed_in_the_head() {
    let part = hello().bytes()[..20].to_vec();
    check(&[Action::Send(part), Action::Close], ErrorKind::ClosedEarly);
}

#[test]
fn closed_in_the_body() {
    let outcome = check(&[Action::Send(hello().cut(4)), Action::Close], ErrorKind::ShortBody);
    assert_eq!(outcome.measures.counts.body_bytes, 2 * 8);
    assert_eq!(truncated(&outcome), 2);
}

#[test]
fn closed_in_a_chunk() {
    let chunked = hello().framed(Body::Chunks(vec![4]));
    // Without the last chunk the body is complete, but its end is missing.
    for missing in [5, 9] {
        check(&[Action::Send(chunked.cut(missing)), Action::Close], ErrorKind::ShortBody);
    }
}

/// The body is shorter than its Content-Length.
#[test]
fn a_length_that_is_not_kept() {
    let reply = hello().framed(Body::ClaimedLength(100));
    check(&[send(&reply), Action::Close], ErrorKind::ShortBody);
    check(&[send(&reply), Action::Stall], ErrorKind::TimeoutReceiving);
}

/// A server whose queue of connections is full: the kernel ignores new connections.
struct Full {
    address: SocketAddr,
    _queue: (OwnedFd, Vec<TcpStream>),
}

impl Full {
    fn new() -> Self {
        let options = os::socket::ListenOptions { backlog: 0, ..Default::default() };
        let listener = os::socket::listen("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = os::socket::local_addr(listener.as_fd()).unwrap();
        let mut queue = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, millis(300)) {
            queue.push(stream);
        }
        Self { address, _queue: (listener, queue) }
    }
}

#[test]
fn timeout_connecting() {
    let full = Full::new();
    let outcome = check_at(full.address, ErrorKind::TimeoutConnecting);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.connections_tried, counts.connections), (2, 0));
    assert_eq!(outcome.measures.times.connect.len(), 0);
    assert!(outcome.measures.times.session_failed.min() >= 799 * MS);
}

#[test]
fn timeout_sending() {
    const BODY_LEN: usize = 32 << 20;
    let server = scripted(&[Action::LeaveBody, Action::Stall]);
    let steps = [get("/a").method("POST").body(&vec![b'x'; BODY_LEN])];
    let mut plan = plan(server.address(), log(&[&steps]));
    plan.timeout_us = 300 * MS;
    let outcome = run_to_end(&plan);
    assert_eq!(errors(&outcome), [(ErrorKind::TimeoutSending, 1)]);
    let sent = outcome.measures.counts.bytes_sent;
    assert!(sent > 0 && sent < BODY_LEN as u64, "{sent}");
}

#[test]
fn timeout_waiting() {
    let outcome = check(&[Action::Stall], ErrorKind::TimeoutWaiting);
    assert!(outcome.measures.times.session_failed.min() >= 999 * MS);
}

#[test]
fn timeout_receiving() {
    let actions = [Action::Send(hello().cut(4)), Action::Stall];
    let outcome = check(&actions, ErrorKind::TimeoutReceiving);
    assert_eq!((truncated(&outcome), outcome.measures.counts.body_bytes), (2, 2 * 8));
}

/// The deadline is for the whole reply: progress does not put it off.
#[test]
fn a_reply_that_trickles_times_out() {
    let mut actions = vec![Action::Send(hello().head().into_bytes())];
    for byte in &hello().body {
        actions.extend([Action::Wait(millis(200)), Action::Send(vec![*byte])]);
    }
    check(&actions, ErrorKind::TimeoutReceiving);
}

/// Checks that the first reply that cannot be parsed is reported, with the reason.
#[track_caller]
fn check_refused(bytes: &[u8], why: &str) {
    let outcome = check(&[Action::Send(bytes.to_vec()), Action::Stall], ErrorKind::BadReply);
    let refused = outcome.first_refused.unwrap();
    assert!(refused.starts_with("/a from 127.0.0.1:") && refused.ends_with(why), "{refused}");
}

#[test]
fn heads_that_are_refused() {
    let with = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").into_bytes();
    let not_http = "not an HTTP/1 response head";
    check_refused(b"SSH-2.0-OpenSSH_9.9\r\n", not_http);
    check_refused(b"HTTP/1.1 abc\r\n\r\n", not_http);
    check_refused(&[0; 100], not_http);
    check_refused(&with("Content-Length: many"), "Content-Length is no number, or there are two");
    check_refused(&with(&"A: b\r\n".repeat(101)), "more than 100 fields");
    check_refused(&with("A: b\r\n c"), "a folded field line (RFC 9112, section 5.2)");
    check_refused(&with("Transfer-Encoding: gzip"), "a Transfer-Encoding other than chunked");
    check_refused(
        &with("Content-Length: 5\r\nTransfer-Encoding: chunked"),
        "Content-Length beside Transfer-Encoding (RFC 9112, section 6.3)",
    );
}

#[test]
fn chunks_that_are_refused() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let with = |body: &str| format!("{head}{body}").into_bytes();
    check_refused(&with("xyz\r\n"), "invalid chunk size");
    check_refused(&with("5\nhello\n0\n\n"), "invalid chunk size");
    check_refused(&with("5  \r\nhello\r\n0\r\n\r\n"), "invalid chunk extension");
    check_refused(&with("5\r\nhello world\r\n"), "chunk without line end");
}

/// Unrequested bytes are dropped and counted, and the connection is not used again.
#[test]
fn surplus_bytes_are_counted() {
    let mut long = hello().bytes();
    long.extend_from_slice(b"HTTP/1.1 404 Not asked for\r\n\r\n");
    let server = scripted(&[Action::Send(long)]);
    let outcome = run_to_end(&plan(server.address(), log(&[&[get("/a"), get("/b")]])));
    assert_eq!(errors(&outcome), []);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.replies, counts.surplus_replies, counts.connections), (2, 2, 2));
    let server = scripted(&[send(&hello())]);
    let outcome = run_to_end(&plan(server.address(), log(&[&[get("/a"), get("/b")]])));
    assert_eq!(outcome.measures.counts.surplus_replies, 0);
}

#[test]
fn a_head_without_end() {
    let line = format!("X-Filler: {}\r\n", "x".repeat(1000));
    let head = format!("HTTP/1.1 200 OK\r\n{}", line.repeat(80));
    check_refused(head.as_bytes(), "no end of the head within 64 KiB");
}

/// A plan of one session with `steps`, each of which should get `body`.
fn checked(server: &Scripted, steps: &[Step], verify: Verify, body: &[u8]) -> Plan {
    let mut plan = plan(server.address(), log(&[steps]));
    let expected = Expected {
        bytes: Some(body.len() as u64),
        body: ExpectedBody::Stored(body.into()),
        kind: SINGLE as u8,
    };
    plan.expected = vec![expected; plan.log.templates().len()].into();
    plan.verify = verify;
    plan
}

#[test]
fn a_wrong_status_does_not_end_the_session() {
    let server = scripted_by_target(|target| {
        let status = if target == "/b" { 404 } else { 200 };
        vec![send(&Reply::status(status, b"body"))]
    });
    let outcome = run_to_end(&plan(server.address(), log(&[&[get("/a"), get("/b"), get("/c")]])));
    assert_eq!(errors(&outcome), [(ErrorKind::BadStatus, 1)]);
    assert_eq!(targets(&server.requests()), ["/a", "/b", "/c"]);
    assert_eq!(server.connections().len(), 1);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.replies, counts.requests_abandoned), (2, 0));
    assert_eq!((counts.status[2], counts.status[4]), (2, 1));
    assert_eq!((counts.sessions_failed, counts.sessions_completed), (1, 0));
    assert_eq!(outcome.measures.replies_per_session[2], 1);
}

#[test]
fn statuses_by_their_first_digit() {
    let server = scripted_by_target(|target| {
        let status = target[1..].parse().unwrap();
        vec![send(&Reply::status(status, b""))]
    });
    let steps = ["/200", "/206", "/301", "/400", "/404", "/500", "/503", "/700"].map(get);
    let outcome = run_to_end(&plan(server.address(), log(&[&steps])));
    assert_eq!(outcome.measures.counts.status, [1, 0, 2, 1, 2, 2]);
    assert_eq!(errors(&outcome), [(ErrorKind::BadStatus, 5)]);
}

#[test]
fn a_wrong_length() {
    for (sent, is_short) in [(&b"hello"[..], 1), (b"hello, wide world", 0)] {
        for framing in [Body::Length, Body::Chunks(vec![3]), Body::UntilClose] {
            let reply = Reply::ok(sent).framed(framing);
            let server = scripted(&[send(&reply), Action::Close]);
            let mut plan = checked(&server, &[get("/a")], Verify::Length, b"hello, world");
            let outcome = run_to_end(&plan);
            assert_eq!(errors(&outcome), [(ErrorKind::BadLength, 1)], "{reply:?}");
            assert_eq!(outcome.measures.files[SINGLE].truncated, is_short, "{reply:?}");
            assert_eq!(outcome.first_bad, None);
            plan.verify = Verify::None;
            assert_eq!(errors(&run_to_end(&plan)), []);
        }
    }
}

#[test]
fn a_wrong_byte_ends_the_run() {
    let body: Vec<u8> = (0..100_000_u32).map(|at| b'a' + (at % 23) as u8).collect();
    for offset in [0, 1, 4_095, 99_999] {
        for framing in [Body::Length, Body::Chunks(vec![1_000]), Body::UntilClose] {
            let right = body.clone();
            let server = Scripted::start(os::clock::now, move |asked| {
                let reply = Reply::ok(&right).framed(framing.clone());
                let reply =
                    if asked.target == "/b" { reply.with_wrong_byte(offset) } else { reply };
                let close = (reply.framing == Body::UntilClose).then_some(Action::Close);
                [send(&reply)].into_iter().chain(close).collect()
            });
            let steps = [get("/a"), get("/b"), get("/c")];
            let mut plan = checked(&server, &steps, Verify::Bytes, &body);
            plan.sessions_max = Some(1_000);
            let outcome = run_to_end(&plan);
            assert_eq!(errors(&outcome), [(ErrorKind::BadBytes, 1)]);
            assert_eq!(targets(&server.requests()), ["/a", "/b"], "it went on");
            let (right, got) = (body[offset], body[offset] ^ 1);
            let what = format!("/b from {}", server.address());
            let which = format!("byte {offset} is {got:#04x} instead of {right:#04x}");
            let message = outcome.first_bad.unwrap();
            assert!(message.contains(&what) && message.contains(&which), "{message}");
        }
    }
}

/// With every byte checked, a body of another length whose bytes are right is a wrong length.
#[test]
fn a_wrong_length_with_right_bytes() {
    for sent in [&b"hello"[..], b"hello, world and more"] {
        let server = scripted(&[send(&Reply::ok(sent))]);
        let outcome = run_to_end(&checked(&server, &[get("/a")], Verify::Bytes, b"hello, world"));
        assert_eq!(errors(&outcome), [(ErrorKind::BadLength, 1)]);
        assert_eq!(outcome.first_bad, None);
    }
}

/// An error page has a body of its own, which is not verified.
#[test]
fn the_body_of_a_wrong_status_is_not_looked_at() {
    let server = scripted(&[send(&Reply::status(500, b"oops"))]);
    let outcome = run_to_end(&checked(&server, &[get("/a")], Verify::Bytes, b"hello, world"));
    assert_eq!(errors(&outcome), [(ErrorKind::BadStatus, 1)]);
    assert_eq!(outcome.first_bad, None);
}

#[test]
fn the_session_after_a_failed_one_is_done() {
    let server = Scripted::start(os::clock::now, |asked| {
        if asked.connection == 0 { vec![Action::Reset] } else { vec![send(&hello())] }
    });
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b")]]));
    plan.sessions_max = Some(2);
    let outcome = run_to_end(&plan);
    assert_eq!(errors(&outcome), [(ErrorKind::Reset, 1)]);
    assert_eq!(targets(&server.requests()), ["/a", "/a", "/b"]);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.sessions_failed, counts.sessions_completed), (1, 1));
}

/// All kinds at once, in one run of many clients and threads: each is counted exactly.
#[test]
fn kinds_do_not_mix() {
    let server = scripted_by_target(|target| match target {
        "/reset" => vec![Action::Reset],
        "/closed" => vec![Action::Close],
        "/short" => vec![Action::Send(hello().cut(1)), Action::Close],
        "/garbage" => vec![Action::Send(b"?\r\n\r\n".to_vec()), Action::Close],
        "/waiting" => vec![Action::Stall],
        "/receiving" => vec![Action::Send(hello().cut(1)), Action::Stall],
        "/status" => vec![send(&Reply::status(503, b"full"))],
        _ => vec![send(&hello())],
    });
    let uris =
        ["/reset", "/closed", "/short", "/garbage", "/waiting", "/receiving", "/status", "/good"];
    let sessions = uris.map(|uri| [get("/first"), get(uri), get("/last")]);
    let sessions: Vec<&[Step]> = sessions.iter().map(|session| &session[..]).collect();
    for connection_use in [ConnectionUse::Session, ConnectionUse::Request, ConnectionUse::Keep] {
        let mut plan = plan(server.address(), log(&sessions));
        (plan.model, plan.threads, plan.sessions_max) = (closed(40), 2, Some(80));
        (plan.timeout_us, plan.connection_use) = (3_000 * MS, connection_use);
        let kinds = [
            ErrorKind::Reset,
            ErrorKind::ClosedEarly,
            ErrorKind::TimeoutWaiting,
            ErrorKind::TimeoutReceiving,
            ErrorKind::ShortBody,
            ErrorKind::BadStatus,
            ErrorKind::BadReply,
        ];
        let expected = kinds.map(|kind| (kind, 10));
        // A server that gets no CPU for a long time fails in another way than it is scripted to.
        undisturbed(|| {
            let outcome = run_to_end(&plan);
            if errors(&outcome) != expected {
                return Err(format!("{connection_use:?}: {:?}", errors(&outcome)));
            }
            let counts = &outcome.measures.counts;
            assert_eq!((counts.sessions_failed, counts.sessions_completed), (70, 10));
            // Six of eight kinds of sessions never send the last request, and seven get no good
            // reply to the second.
            assert_eq!((counts.requests_abandoned, counts.replies), (60, 80 + 10 + 20));
            Ok(())
        });
    }
}

#[test]
fn a_target_that_refuses_spoils_only_its_own_sessions() {
    let server = scripted(&[send(&hello())]);
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.targets = vec![target(server.address()), target(refusing)];
    plan.sessions_max = Some(10);
    let outcome = run_to_end(&plan);
    assert_eq!(errors(&outcome), [(ErrorKind::Refused, 5)]);
    assert_eq!(outcome.measures.counts.replies, 5);
}
