//! Requests that applications answer, with bytes that pass in pieces of any size.

use proptest::prelude::*;
use session::{Op, Phase};
use upstream::Failure;

use crate::chain::{AMPLE, Chain, Sizes, TRAILER, body, request, request_to, with_trailer};

#[test]
fn requests_follow_each_other_on_one_connection() {
    let mut chain = Chain::new(AMPLE);
    for number in 1..4 {
        chain.send(&request(&body(number * 100), None));
        assert_eq!(chain.connection.phase(), Phase::Idle);
    }
    chain.send(&[request(b"one", None), request(b"two", Some(&[2]))].concat());
    let bodies: Vec<_> = chain.responses().into_iter().map(|(_, body)| body).collect();
    assert_eq!(bodies[..3], [body(100), body(200), body(300)]);
    assert_eq!(bodies[3..], [b"one", b"two"]);
    assert_eq!((chain.application.requests, chain.counters.requests.get()), (5, 5));
    let content = bodies.iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!(chain.counters.body_bytes.get(), content);
}

/// A client that takes nothing holds back the application, and not the other way round.
#[test]
fn what_is_kept_for_a_client_is_bounded() {
    let mut chain = Chain::new(Sizes { application: (4096, 4096), ..AMPLE });
    chain.is_blocked = true;
    chain.send(&request(&body(90_000), None));
    // The client's own bytes, the reply's bound, and what the application has read and sent: it
    // answers as it reads, so that it is held back itself.
    let taken = 90_000 - chain.to_send.len() - chain.application.sent.len();
    assert!((64_000..90_000).contains(&taken), "{taken}");
    assert!(chain.application.sent.len() + chain.to_send.len() > 0);
    chain.is_blocked = false;
    chain.run();
    assert_eq!(chain.responses(), [(200, body(90_000))]);
}

#[test]
fn a_stalled_application_holds_back_its_client() {
    let mut chain = Chain::new(Sizes { client: (1000, 1000), ..AMPLE });
    chain.application.is_stalled = true;
    let body = body(90_000);
    chain.send(&request(&body, None));
    // The application's socket would take it all here; that it reads nothing shows in the reply.
    assert!(chain.received.is_empty());
    chain.application.is_stalled = false;
    chain.application.take(b"");
    chain.run();
    assert_eq!(chain.responses(), [(200, body)]);
}

#[test]
fn a_body_above_the_bound_is_refused() {
    let with_length = b"POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 100001\r\n\r\n";
    let chunked = request(&body(100_001), Some(&[5000]));
    for bytes in [&with_length[..], &chunked] {
        let mut chain = Chain::new(Sizes { client: (3000, 3000), ..AMPLE });
        chain.application.is_stalled = true;
        chain.send(bytes);
        assert!(chain.text().starts_with("HTTP/1.1 413 "), "{}", chain.text());
        assert!(chain.text().contains("\r\nConnection: close\r\n"));
        assert!(chain.call.is_none(), "the application's connection is closed");
    }
}

#[test]
fn a_broken_body_is_the_clients_fault() {
    let mut chain = Chain::new(AMPLE);
    chain.application.is_stalled = true;
    chain.send(b"POST /app/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokX\r\n");
    assert!(chain.text().starts_with("HTTP/1.1 400 "), "{}", chain.text());
    assert_eq!(chain.failures, [Failure::Request(400)]);
}

/// RFC 9110 §6.5: forwarded if the message is in chunks on both sides, and only then.
#[test]
fn trailers_have_their_place_after_chunks_and_nowhere_else() {
    let chunked = with_trailer(&request(b"abc", Some(&[2])));
    let mut chain = Chain::new(AMPLE);
    chain.send(&chunked);
    assert!(chain.text().ends_with(&format!("\r\n0\r\n{TRAILER}\r\n")), "{}", chain.text());
    // The client does not say that it takes any.
    let text = String::from_utf8(chunked).expect("it is text");
    let mut chain = Chain::new(AMPLE);
    chain.send(text.replace("Connection: TE\r\n", "").as_bytes());
    assert_eq!(
        (chain.responses(), chain.trailers()),
        (vec![(200, b"abc".into())], vec![String::new()])
    );
}

#[test]
fn a_trailer_has_its_bounds() {
    let status = |trailer: &str| {
        let mut chain = Chain::new(AMPLE);
        let request = String::from_utf8(request(b"", Some(&[1]))).expect("it is text");
        let body = request.strip_suffix("\r\n").expect("it is in chunks");
        chain.send(format!("{body}{trailer}\r\n").as_bytes());
        chain.text()[9..12].to_owned()
    };
    let long = |bytes: u16| format!("X: {}\r\n", "a".repeat(usize::from(bytes) - 7));
    let many = |fields: u8| "X:\r\n".repeat(fields.into());
    assert_eq!(status(&long(http1::TRAILER_BYTES_MAX)), "200");
    assert_eq!(status(&long(http1::TRAILER_BYTES_MAX + 1)), "431");
    assert_eq!(status(&many(http1::TRAILER_FIELDS_MAX)), "200");
    assert_eq!(status(&many(http1::TRAILER_FIELDS_MAX + 1)), "431");
    assert_eq!(status("X : bad\r\n"), "400");
}

#[test]
fn a_client_that_waits_is_invited_once_its_body_is_wanted() {
    let mut chain = Chain::new(AMPLE);
    chain.application.is_stalled = true;
    let head =
        "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    chain.send(head.as_bytes());
    assert_eq!(chain.text(), "", "the application is asked first");
    chain.application.sent.extend(b"HTTP/1.1 100 Continue\r\n\r\n");
    chain.run();
    assert_eq!(chain.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    chain.application.is_stalled = false;
    chain.send(b"abc");
    assert!(chain.text().ends_with("\r\n\r\nabc"), "{}", chain.text());
}

/// What a client has not taken yet costs it neither the next interim reply (RFC 9110 §15.2) nor its
/// invitation.
#[test]
fn interim_replies_wait_for_a_slow_client() {
    let head =
        "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
    let hints = |number: usize| format!("HTTP/1.1 103 Early Hints\r\nLink: <{number}>\r\n\r\n");
    let invitation = "HTTP/1.1 100 Continue\r\n\r\n";
    for (sends_late, is_blocked) in [(false, true), (true, false)] {
        let mut chain = Chain::new(AMPLE);
        chain.application.is_stalled = true;
        (chain.sends_late, chain.is_blocked) = (sends_late, is_blocked);
        chain.send(head.as_bytes());
        for sent in [&hints(1), &hints(2), invitation] {
            chain.application.sent.extend(sent.as_bytes());
            chain.step_call();
        }
        chain.is_blocked = false;
        chain.run();
        assert_eq!(chain.text(), hints(1) + &hints(2) + invitation);
        chain.application.is_stalled = false;
        chain.send(b"abc");
        assert!(chain.text().ends_with("\r\n\r\nabc"), "{}", chain.text());
    }
}

#[test]
fn interim_replies_to_a_client_that_takes_nothing_are_bounded() {
    const INTERIMS: usize = 1000;
    let mut chain = Chain::new(AMPLE);
    chain.is_blocked = true;
    let hints = format!("HTTP/1.1 103 Early Hints\r\nLink: <{}>\r\n\r\n", "x".repeat(1000));
    chain.application.sent.extend(hints.repeat(INTERIMS).bytes());
    chain.send(&request(b"hello", None));
    chain.is_blocked = false;
    chain.run();
    let count = chain.text().matches(&hints).count();
    assert!(count > 1 && count * hints.len() < AMPLE.reply_bytes_max + hints.len(), "{count}");
    assert!(chain.text().ends_with("\r\n\r\nhello"), "{count}");
}

#[test]
fn an_upload_that_stops_is_timed_out() {
    let mut chain = Chain::new(AMPLE);
    chain.application.is_stalled = true;
    chain.send(b"POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello");
    let deadline = chain.connection.deadline().expect("the client's body is awaited");
    chain.worker.set_time(deadline, 1_700_000_000_000_000);
    assert!(chain.connection.expire_if_due(&mut chain.worker));
    chain.run();
    assert!(chain.text().starts_with("HTTP/1.1 408 "), "{}", chain.text());
    assert!(chain.call.is_none());
}

/// While an application works, the time is its own: the session waits.
#[test]
fn an_application_that_works_is_not_the_clients_fault() {
    let mut chain = Chain::new(AMPLE);
    chain.application.is_stalled = true;
    chain.send(&request(b"hello", None));
    assert_eq!(chain.connection.deadline(), None);
}

#[test]
fn the_end_of_a_clients_stream_ends_its_call() {
    let mut chain = Chain::new(AMPLE);
    chain.application.is_stalled = true;
    chain.send(&request(b"hello", None));
    chain.end_of_client();
    assert!(matches!(chain.connection.next(), Op::Close { reset: false }));
    chain.connection.close(&mut chain.worker);
    assert_eq!(chain.counters.responses[3].get(), 1, "it is counted with 499");
}

/// A script gets nothing of a body before all of it is there, in memory or in a file.
#[test]
fn a_body_of_unknown_length_is_gathered_for_a_script() {
    for len in [0, 1, 65_535, 65_536, 65_537, 99_999, 100_000] {
        let mut chain = Chain::new(Sizes { client: (3000, 3000), ..AMPLE });
        let bytes = request_to("/script/x", &body(len), Some(&[1000, 3]));
        let (most, rest) = bytes.split_at(bytes.len() - 2);
        chain.send(most);
        assert!(chain.call.is_none() && chain.application.requests == 0, "{len}");
        assert!(chain.connection.deadline().is_some(), "the client's time");
        chain.send(rest);
        assert_eq!(chain.responses(), [(200, body(len))], "{len}");
        assert_eq!(chain.connection.phase(), Phase::Idle);
    }
}

#[test]
fn a_body_that_is_not_gathered_has_its_status() {
    let large = request_to("/script/x", &body(100_001), Some(&[5000]));
    let broken = b"POST /script/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokX";
    let cramped = request_to("/cramped/x", &body(70_000), Some(&[5000]));
    for (bytes, status) in [(&*large, 413), (broken, 400), (&cramped, 503)] {
        let mut chain = Chain::new(Sizes { client: (3000, 3000), ..AMPLE });
        chain.send(bytes);
        let head = format!("HTTP/1.1 {status} ");
        assert!(chain.text().starts_with(&head), "{head}: {}", chain.text());
        assert!(chain.text().contains("\r\nConnection: close\r\n"));
        assert_eq!((chain.application.requests, chain.counters.requests.get()), (0, 1));
    }
}

/// In time, and if its client leaves.
#[test]
fn a_body_that_is_being_gathered_ends_with_its_client() {
    let begun = b"POST /script/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\no";
    let mut late = Chain::new(AMPLE);
    late.send(begun);
    let deadline = late.connection.deadline().expect("the client's body is awaited");
    late.worker.set_time(deadline, 1_700_000_000_000_000);
    assert!(late.connection.expire_if_due(&mut late.worker));
    late.run();
    assert!(late.text().starts_with("HTTP/1.1 408 "), "{}", late.text());
    let mut gone = Chain::new(AMPLE);
    gone.send(begun);
    gone.end_of_client();
    assert!(matches!(gone.connection.next(), Op::Close { reset: false }));
    gone.connection.close(&mut gone.worker);
    assert_eq!(gone.counters.responses[3].get(), 1, "it is counted with 499");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// With all bounds of a few bytes: whatever passes in whatever pieces, both ends get what the
    /// other has sent, and none waits for ever, however late a send is reported.
    #[test]
    fn bodies_pass_in_both_directions_in_pieces_of_any_size(
        bodies in prop::collection::vec((0_usize..400, 0_usize..3, 0_usize..3), 1..4),
        chunks in prop::collection::vec(1_usize..30, 1..5),
        client in (1_usize..20, prop_oneof![1_usize..20, Just(usize::MAX)]),
        application in (1_usize..20, 1_usize..20),
        reply_bytes_max in prop_oneof![1_usize..30, Just(1000)],
        sends_late in any::<bool>(),
    ) {
        let mut chain = Chain::new(Sizes { client, application, reply_bytes_max });
        chain.sends_late = sends_late;
        let mut bytes = Vec::new();
        for (len, framing, protocol) in &bodies {
            let path = ["/app/x", "/script/x", "/program/x"][*protocol];
            let request = request_to(path, &body(*len), (*framing > 0).then_some(&chunks[..]));
            bytes.extend(if *framing == 2 { with_trailer(&request) } else { request });
        }
        chain.send(&bytes);
        let expected: Vec<_> = bodies.iter().map(|(len, ..)| (200, body(*len))).collect();
        prop_assert_eq!(chain.responses(), expected);
        let trailers = bodies.iter().map(|of| if matches!(of, (_, 2, 0)) { TRAILER } else { "" });
        prop_assert_eq!(chain.trailers(), trailers.collect::<Vec<_>>());
        prop_assert!(chain.failures.is_empty() && chain.closed.is_none());
        prop_assert_eq!(chain.connection.phase(), Phase::Idle);
    }
}

/// A client is invited to send the body of a script as soon as there is room for it to be told, and
/// what it sends meanwhile is taken.
#[test]
fn an_invitation_waits_for_room() {
    let mut chain = Chain::new(AMPLE);
    chain.is_blocked = true;
    chain.send(
        b"POST /script/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\
          Expect: 100-continue\r\n\r\n",
    );
    assert!(matches!(chain.connection.next(), Op::Send { .. }), "{:?}", chain.connection.next());
    assert_eq!(chain.connection.phase(), Phase::Writing);
    chain.send(b"5\r\nhel");
    chain.is_blocked = false;
    chain.run();
    assert_eq!(chain.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(chain.connection.phase(), Phase::Working);
    chain.received.clear();
    chain.send(b"lo\r\n0\r\n\r\n");
    assert_eq!(chain.responses(), [(200, b"hello".to_vec())]);
}
