//! Good replies with every kind of framing, cut into packets at any place.

use load::error_kind::ErrorKind;
use load::plan::{ConnectionUse, Expected, ExpectedBody, Verify};
use testkit::scripted::{Action, Body, Reply, Scripted};
use testkit::undisturbed;
use workload::content::Content;

use crate::setup::{
    Step, errors, get, log, millis, plan, run_to_end, scripted, scripted_by_target, send, targets,
};

const BODY: &[u8] = b"The quick brown fox jumps over the lazy dog.";

/// Checks that three requests, each answered by `actions`, get three good replies of [`BODY`] over
/// `connections` connections.
#[track_caller]
fn check(actions: &[Action], connections: usize) {
    let server = scripted(actions);
    let mut plan = plan(server.address(), log(&[&[get("/a"), get("/b"), get("/c")]]));
    let (bytes, body) = (Some(BODY.len() as u64), ExpectedBody::Stored(BODY.into()));
    plan.expected = vec![Expected { bytes, body, kind: 0 }; 3].into();
    plan.verify = Verify::Bytes;
    let outcome = run_to_end(&plan);
    assert_eq!((errors(&outcome), outcome.first_bad), (vec![], None));
    assert_eq!(targets(&server.requests()), ["/a", "/b", "/c"]);
    assert_eq!(server.connections().len(), connections);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.replies, counts.status[2]), (3, 3));
    assert_eq!(counts.body_bytes, 3 * BODY.len() as u64);
    assert_eq!(outcome.measures.files[0].bytes_got, 3 * BODY.len() as u64);
    assert_eq!(counts.connections, connections as u64);
    assert_eq!(outcome.measures.times.connection.len(), connections as u64);
}

fn good() -> Reply {
    Reply::ok(BODY)
}

#[test]
fn framed_by_length() {
    check(&[send(&good())], 1);
    check(&[send(&good().field("Connection: close")), Action::Close], 3);
    // The server announces the close and leaves the closing to the client.
    check(&[send(&good().field("Connection: close"))], 3);
}

#[test]
fn chunked() {
    for sizes in [vec![1], vec![7, 1, 30], vec![1_000]] {
        check(&[send(&good().framed(Body::Chunks(sizes)))], 1);
    }
    let mut trailed = good().framed(Body::Chunks(vec![5])).cut(2);
    trailed.extend_from_slice(b"X-Checked: yes\r\n\r\n");
    check(&[Action::Send(trailed)], 1);
}

#[test]
fn until_close() {
    check(&[send(&good().framed(Body::UntilClose)), Action::Close], 3);
    let delayed = Action::Wait(millis(5));
    check(&[send(&good().framed(Body::UntilClose)), delayed, Action::Close], 3);
}

#[test]
fn version_1_0() {
    let old = Reply { version: "HTTP/1.0", ..good() };
    check(&[send(&old), Action::Close], 3);
    check(&[send(&old.clone().framed(Body::UntilClose)), Action::Close], 3);
    check(&[send(&old.field("Connection: keep-alive"))], 1);
}

#[test]
fn interim_replies_are_passed_over() {
    let early = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".to_vec();
    let first = Action::Send([&early[..], b"HTTP/1.1 100 Continue\r\n\r\n"].concat());
    check(&[first.clone(), send(&good())], 1);
    check(&[first, Action::Wait(millis(5)), send(&good())], 1);
    let whole = [early, good().bytes()].concat();
    check(&[Action::SendSingly(whole)], 1);
}

#[test]
fn byte_by_byte() {
    for framing in [Body::Length, Body::Chunks(vec![3, 9])] {
        check(&[Action::SendSingly(good().framed(framing).bytes())], 1);
    }
    let until_close = good().framed(Body::UntilClose);
    check(&[Action::SendSingly(until_close.bytes()), Action::Close], 3);
}

/// In one session the n-th reply arrives in two packets, the first of n bytes.
#[test]
fn cut_anywhere() {
    for framing in [Body::Length, Body::Chunks(vec![10])] {
        let bytes = good().framed(framing).bytes();
        let count = bytes.len();
        let server = Scripted::start(os::clock::now, move |asked| {
            let (before, after) = bytes.split_at(asked.request);
            [before, after]
                .map(|part| vec![Action::Send(part.to_vec()), Action::Wait(millis(1))])
                .concat()
        });
        let outcome = run_to_end(&plan(server.address(), log(&[&vec![get("/a"); count]])));
        assert_eq!(errors(&outcome), []);
        assert_eq!(outcome.measures.counts.body_bytes, (count * BODY.len()) as u64);
        assert_eq!(server.connections().len(), 1);
    }
}

/// Long bodies are received in other ways than short ones, with and without verification.
#[test]
fn long_bodies() {
    const LEN: usize = 3_000_000;
    let content = Content::for_path(b"size3000000");
    let mut body = vec![0; LEN];
    content.fill(0, &mut body);
    for framing in [Body::Length, Body::Chunks(vec![1, 100_000, 20_000]), Body::UntilClose] {
        let close = (framing == Body::UntilClose).then_some(Action::Close);
        let reply = Reply::ok(&body).framed(framing);
        let actions: Vec<_> = [send(&reply)].into_iter().chain(close).collect();
        let server = scripted(&actions);
        for verify in [Verify::None, Verify::Length, Verify::Bytes] {
            let mut plan = plan(server.address(), log(&[&[get("/a"), get("/a")]]));
            let expected = ExpectedBody::Derived(content);
            let expected = Expected { bytes: Some(LEN as u64), body: expected, kind: 0 };
            (plan.expected, plan.verify) = ([expected].into(), verify);
            let outcome = run_to_end(&plan);
            assert_eq!((errors(&outcome), outcome.first_bad), (vec![], None));
            assert_eq!(outcome.measures.counts.body_bytes, 2 * LEN as u64);
        }
    }
}

#[test]
fn without_body() {
    let server = scripted_by_target(|target| match target {
        "/head" => vec![send(&Reply { is_to_head: true, ..good() })],
        "/204" => vec![send(&Reply::status(204, b"").framed(Body::None))],
        // The length is that of the body that was not sent.
        "/304" => vec![send(&Reply { is_to_head: true, ..Reply::status(304, BODY) })],
        _ => vec![send(&Reply::ok(b""))],
    });
    let steps = [get("/head").method("HEAD"), get("/204"), get("/304"), get("/empty")];
    let mut plan = plan(server.address(), log(&[&steps]));
    let [known, unknown] = [Some(0), None].map(Expected::other);
    plan.expected = vec![known.clone(), unknown.clone(), unknown, known].into();
    plan.verify = Verify::Bytes;
    let outcome = run_to_end(&plan);
    assert_eq!(errors(&outcome), []);
    assert_eq!(server.connections().len(), 1);
    let counts = &outcome.measures.counts;
    assert_eq!((counts.replies, counts.body_bytes), (4, 0));
    assert_eq!((counts.status[2], counts.status[3]), (3, 1));
}

#[test]
fn heads_and_framing_are_counted_apart() {
    let reply = good().framed(Body::Chunks(vec![20]));
    let server = scripted(&[send(&reply)]);
    let outcome = run_to_end(&plan(server.address(), log(&[&[get("/a"), get("/b")]])));
    let counts = &outcome.measures.counts;
    assert_eq!(counts.head_bytes, 2 * reply.head().len() as u64);
    let framing_len = reply.bytes().len() - reply.head().len() - BODY.len();
    assert_eq!(counts.framing_bytes, 2 * framing_len as u64);
}

#[test]
fn requests_are_sent_as_the_log_has_them() {
    let server = scripted(&[send(&good())]);
    let steps = [get("/a?b=c%20d"), get("/form").method("POST").body(b"x=1\r\n\r\n&y=2")];
    let outcome = run_to_end(&plan(server.address(), log(&[&steps])));
    let seen = server.requests();
    let host = format!("Host: {}\r\n", server.address());
    assert_eq!(seen[0].head, format!("GET /a?b=c%20d HTTP/1.1\r\n{host}\r\n"));
    let length = "Content-Length: 11\r\n";
    assert_eq!(seen[1].head, format!("POST /form HTTP/1.1\r\n{host}{length}\r\n"));
    assert_eq!(seen[1].body, b"x=1\r\n\r\n&y=2");
    let sent: usize = seen.iter().map(|asked| asked.head.len() + asked.body.len()).sum();
    assert_eq!(outcome.measures.counts.bytes_sent, sent as u64);
}

/// The logs of the University of Waterloo leave out the slash that a path begins with.
#[test]
fn a_slash_that_the_log_leaves_out_is_put_in() {
    let server = scripted(&[send(&good())]);
    run_to_end(&plan(
        server.address(),
        log(&[&[get("specweb99/a"), get("/b"), get("http://c/d")]]),
    ));
    assert_eq!(targets(&server.requests()), ["/specweb99/a", "/b", "http://c/d"]);
}

/// A request with a body that does not fit into the kernel's buffers, read slowly by the server.
#[test]
fn a_long_request() {
    let server =
        scripted(&[Action::LeaveBody, Action::Wait(millis(50)), Action::TakeBody, send(&good())]);
    let body: Vec<u8> = (0..20_000_000_u32).map(|at| at as u8).collect();
    let outcome = run_to_end(&plan(
        server.address(),
        log(&[&[get("/a").method("POST").body(&body), get("/b")]]),
    ));
    assert_eq!(errors(&outcome), []);
    assert_eq!(targets(&server.requests()), ["/a", "/b"]);
    assert!(outcome.measures.counts.bytes_sent > 20_000_000);
}

/// The server answers before it has read the request: the rest of the request is not the beginning
/// of the next one.
#[test]
fn an_early_reply() {
    let server = scripted_by_target(|target| match target {
        "/long" => vec![Action::LeaveBody, send(&good()), Action::Wait(millis(50))],
        _ => vec![send(&good())],
    });
    let long = get("/long").method("POST").body(&vec![b'x'; 20_000_000]);
    let outcome = run_to_end(&plan(server.address(), log(&[&[long, get("/b"), get("/c")]])));
    assert_eq!(errors(&outcome), []);
    assert_eq!(targets(&server.requests()), ["/long", "/b", "/c"]);
}

/// Unrequested bytes that follow a reply are not taken for the next reply.
#[test]
fn extra_bytes_are_no_reply() {
    let extra = Reply::status(404, b"who asked for this?").bytes();
    for connection_use in [ConnectionUse::Session, ConnectionUse::Keep] {
        for pause_ms in [0, 5] {
            let both = [good().bytes(), extra.clone()].concat();
            let server = scripted(&[Action::Send(both)]);
            let steps: [Step; 3] = ["/a", "/b", "/c"].map(|uri| get(uri).pause_ms(pause_ms));
            let mut plan = plan(server.address(), log(&[&steps]));
            plan.connection_use = connection_use;
            let outcome = run_to_end(&plan);
            assert_eq!(errors(&outcome), []);
            assert_eq!(targets(&server.requests()), ["/a", "/b", "/c"]);
            assert_eq!(server.connections().len(), 3);
        }
    }
}

/// Extra bytes may also come later, during the client's think time.
#[test]
fn extra_bytes_in_a_pause() {
    let extra = Action::Send(b"\0\0\0\0".to_vec());
    let actions = [send(&good()), Action::Wait(millis(10)), extra];
    let steps = [get("/a").pause_ms(100), get("/b").pause_ms(100), get("/c")];
    // A server that is kept from its CPU sends them after the pause, as the beginning of a reply.
    undisturbed(|| {
        let server = scripted(&actions);
        let outcome = run_to_end(&plan(server.address(), log(&[&steps])));
        let found = (errors(&outcome), server.connections().len());
        if found == (vec![], 3) { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

/// If the expected body is known, a reply with another status than 200 is wrong.
#[test]
fn a_part_is_not_the_whole() {
    let server = scripted(&[send(&Reply::status(206, b"hello"))]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.expected = vec![Expected::other(Some(100))].into();
    for (verify, expected) in
        [(Verify::Length, vec![(ErrorKind::BadStatus, 1)]), (Verify::None, vec![])]
    {
        plan.verify = verify;
        assert_eq!(errors(&run_to_end(&plan)), expected, "{verify:?}");
    }
}

/// A reply whose body ends with the connection is complete only when the connection ends.
#[test]
fn the_end_of_the_connection_takes_its_time() {
    let head = Action::Send(b"HTTP/1.1 200 OK\r\n\r\nbody".to_vec());
    let server = scripted(&[head, Action::Wait(millis(40)), Action::Close]);
    let outcome = run_to_end(&plan(server.address(), log(&[&[get("/a")]])));
    assert_eq!(errors(&outcome), []);
    let times = &outcome.measures.times;
    assert!(times.corrected.min() >= 40_000, "{}", times.corrected.min());
}
