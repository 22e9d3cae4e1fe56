//! How connections end: on request, at limits, while draining, at the end of the stream.

use session::{Limits, Op, Phase};

use crate::memory::{MemoryFiles, Pair};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn pair_with(limits: Limits) -> Pair {
    Pair::new(MemoryFiles::new(&[("index.html", b"<p>hello")]), limits)
}

fn pair() -> Pair {
    pair_with(Limits::default())
}

#[test]
fn a_client_that_asks_for_the_close_gets_it_at_once() {
    let mut pair = pair();
    pair.send(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_eq!(pair.statuses(), [200]);
    assert_eq!(pair.closed, Some(false));
}

#[test]
fn after_bad_bytes_the_connection_lingers_until_the_client_closes() {
    let mut pair = pair();
    pair.send(b"GET / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n");
    assert_eq!(pair.statuses(), [400]);
    assert_eq!((pair.is_shut, pair.closed), (true, None));
    pair.send(&[b'x'; 1000]);
    assert_eq!(pair.statuses(), [400], "what follows bad bytes is not a request");
    pair.finish();
    assert_eq!(pair.closed, Some(false));
}

#[test]
fn lingering_has_a_bound_in_bytes() {
    let mut pair = pair();
    pair.send(b"BAD\r\n\r\n");
    for _ in 0..1000 {
        pair.send(&[b'x'; 16 * 1024]);
        if pair.closed.is_some() {
            assert_eq!(pair.closed, Some(true));
            return;
        }
    }
    panic!("16 MB were read for nothing");
}

#[test]
fn the_answer_to_the_last_request_says_so() {
    let mut pair = pair_with(Limits { requests_per_connection_max: 2, ..Limits::default() });
    pair.send(&GET.repeat(3));
    assert_eq!(pair.statuses(), [200, 200]);
    let text = String::from_utf8_lossy(&pair.received).into_owned();
    assert_eq!(text.matches("Connection: close").count(), 1);
    assert!(pair.is_shut);
}

#[test]
fn a_large_unwanted_body_ends_the_connection_after_the_answer() {
    let mut pair = pair();
    pair.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65537\r\n\r\n");
    assert_eq!(pair.statuses(), [405]);
    assert!(pair.is_shut);
}

#[test]
fn a_chunked_unwanted_body_is_read_up_to_the_limit() {
    let mut pair = pair();
    pair.send(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..20 {
        pair.send(b"1000\r\n");
        pair.send(&[b'x'; 0x1000]);
        pair.send(b"\r\n");
    }
    assert_eq!(pair.statuses(), [200]);
    assert!(pair.is_shut, "80 KiB are over the limit of 64");
}

#[test]
fn whether_a_body_is_too_long_does_not_depend_on_how_it_is_cut() {
    let limits = || Limits { unread_body_bytes_max: 20, ..Limits::default() };
    let head = b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let bytes = [head, &b"5\r\nabcde\r\n".repeat(2)[..], b"0\r\n\r\n", GET].concat();
    for size in [1, 7, 25, bytes.len()] {
        let mut pair = pair_with(limits());
        bytes.chunks(size).for_each(|piece| pair.send(piece));
        assert_eq!(pair.statuses(), [200], "in pieces of {size}");
        assert!(pair.is_shut, "in pieces of {size}");
    }
}

/// The limit is for the whole body, wherever the response ends in it.
#[test]
fn an_unwanted_body_that_goes_on_after_the_response_has_the_same_limit() {
    let chunk = [&b"1000\r\n"[..], &[b'x'; 0x1000], b"\r\n"].concat();
    for before in [0, 8, 15] {
        let mut pair = pair();
        pair.holds_jobs = true;
        pair.send(b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
        (0..before).for_each(|_| pair.send(&chunk));
        pair.finish_job();
        assert_eq!(pair.statuses(), [200]);
        (before..15).for_each(|_| pair.send(&chunk));
        assert!(!pair.is_shut, "60 KiB are within the limit, {before} chunks ahead");
        (0..2).for_each(|_| pair.send(&chunk));
        assert!(pair.is_shut, "68 KiB are over the limit of 64, {before} chunks ahead");
    }
}

/// A body that comes with its head is dropped like one that comes later: it is no reason to stop
/// receiving while the job is out.
#[test]
fn an_unwanted_body_behind_its_head_does_not_count_as_ahead() {
    let head = b"GET /other HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n";
    let request = [&head[..], &[b'x'; 20_000]].concat();
    let mut alone = pair();
    alone.holds_jobs = true;
    alone.send(&request);
    let mut behind_another = pair();
    behind_another.holds_jobs = true;
    behind_another.send(GET);
    behind_another.send(&request);
    behind_another.finish_job();
    for (mut pair, statuses) in [(alone, &[404, 200][..]), (behind_another, &[200, 404, 200])] {
        assert!(pair.connection.wants_input(), "a job is out, and nothing is kept");
        pair.send(&[b'x'; 20_000]);
        pair.holds_jobs = false;
        pair.finish_job();
        pair.send(GET);
        assert_eq!(pair.statuses(), statuses);
    }
}

#[test]
fn an_expectation_with_a_body_gets_its_final_status_and_a_close() {
    let mut pair = pair();
    pair.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(pair.statuses(), [405]);
    assert!(pair.is_shut);
}

#[test]
fn requests_before_the_end_of_the_stream_are_answered() {
    let mut pair = pair();
    pair.send(&GET.repeat(3));
    pair.finish();
    assert_eq!(pair.statuses(), [200, 200, 200]);
    assert_eq!(pair.closed, Some(false));
}

#[test]
fn an_end_of_stream_in_a_head_or_a_body_closes() {
    for bytes in [&GET[..10], b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc"] {
        let mut pair = pair();
        pair.send(bytes);
        pair.finish();
        assert_eq!(pair.closed, Some(false));
    }
}

#[test]
fn requests_are_answered_though_the_stream_ends_while_a_job_is_out() {
    for requests in [1, 3] {
        let mut pair = pair();
        pair.holds_jobs = true;
        pair.send(&GET.repeat(requests));
        pair.finish();
        assert!(!pair.connection.wants_input() && pair.closed.is_none());
        pair.finish_job();
        assert_eq!(pair.statuses(), vec![200; requests]);
        assert_eq!(pair.closed, Some(false));
    }
}

#[test]
fn a_client_sends_so_far_ahead_of_its_answers_and_no_further() {
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(GET);
    assert!(matches!(pair.connection.next(), Op::Recv), "while the job is out");
    let mut ahead = 0;
    while pair.connection.wants_input() {
        pair.send(GET);
        ahead += GET.len();
    }
    assert!((16 << 10..(16 << 10) + GET.len()).contains(&ahead), "{ahead}");
    assert!(matches!(pair.connection.next(), Op::Wait));
    pair.window = 0;
    pair.finish_job();
    assert!(!pair.connection.wants_input(), "nor while its client takes nothing");
    pair.window = usize::MAX;
    pair.drive();
    assert_eq!(pair.statuses().len(), 1 + ahead / GET.len());
    assert!(matches!(pair.connection.next(), Op::Recv));
}

/// Its size counts against the limit of bodies, and not as bytes sent ahead.
#[test]
fn an_unwanted_body_is_dropped_while_a_job_is_out() {
    let check = |len: usize, is_last: bool| {
        let mut pair = pair();
        pair.holds_jobs = true;
        let head =
            format!("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{len:x}\r\n");
        pair.send(head.as_bytes());
        for _ in 0..len / 1000 {
            assert!(pair.connection.wants_input(), "{len}");
            pair.send(&[b'x'; 1000]);
        }
        pair.finish_job();
        if !is_last {
            pair.send(b"\r\n0\r\n\r\n");
            pair.send(GET);
        }
        assert_eq!(pair.statuses().len(), if is_last { 1 } else { 2 }, "{len}");
        assert_eq!(pair.is_shut, is_last, "{len}");
        let text = String::from_utf8_lossy(&pair.received).into_owned();
        assert_eq!(text.contains("Connection: close"), is_last, "{len}");
    };
    check(50_000, false);
    check(66_000, true);
}

#[test]
fn draining_closes_the_idle_and_finishes_the_busy() {
    let mut idle = pair();
    idle.send(GET);
    idle.connection.drain();
    idle.drive();
    assert_eq!(idle.closed, Some(false));

    let mut busy = pair();
    busy.holds_jobs = true;
    busy.send(GET);
    busy.connection.drain();
    busy.drive();
    assert_eq!(busy.closed, None);
    busy.finish_job();
    assert_eq!(busy.statuses(), [200]);
    assert!(busy.is_shut);
    assert!(String::from_utf8_lossy(&busy.received).contains("Connection: close"));
}

/// For drivers that read received bytes before they notice the order to drain.
#[test]
fn a_request_that_was_received_while_draining_is_the_last() {
    let mut pair = pair();
    pair.send(GET);
    pair.connection.end_with_next();
    pair.drive();
    assert_eq!(pair.closed, None);
    pair.send(GET);
    assert_eq!(pair.statuses(), [200, 200]);
    let text = String::from_utf8_lossy(&pair.received).into_owned();
    assert_eq!(text.matches("Connection: close").count(), 1);
    assert!(pair.is_shut);
}

/// A client that was not told goes on with its next request, or has sent it already.
#[test]
fn a_response_whose_head_is_written_is_not_the_last() {
    for is_pipelined in [false, true] {
        let mut pair = pair();
        pair.window = 30;
        pair.send(if is_pipelined { [GET, GET].concat() } else { GET.to_vec() }.as_slice());
        pair.connection.end_with_next();
        pair.window = usize::MAX;
        pair.drive();
        if !is_pipelined {
            assert!(!pair.is_shut);
            pair.send(GET);
        }
        assert_eq!(pair.statuses(), [200, 200]);
        let text = String::from_utf8_lossy(&pair.received).into_owned();
        let (first, last) = text.split_at(text.rfind("HTTP/1.1 ").unwrap());
        let says = [first, last].map(|it| it.contains("\r\nConnection: close\r\n"));
        assert_eq!((says, pair.is_shut), ([false, true], true));
    }
}

/// Where the broken part arrives in time, the response says that it is the last (RFC 9112 §9.6).
#[test]
fn the_answer_to_a_request_whose_body_is_broken_says_that_it_is_the_last() {
    const HEAD: &str = "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let check = |body: &str, is_last: bool| {
        let mut pair = pair();
        pair.send(format!("{HEAD}{body}").as_bytes());
        assert_eq!(pair.statuses(), [200], "{body:?}");
        let text = String::from_utf8_lossy(&pair.received).into_owned();
        assert_eq!(
            (text.contains("Connection: close"), pair.is_shut),
            (is_last, is_last),
            "{body:?}"
        );
    };
    check("5\r\nhello\r\n0\r\n\r\n", false);
    check("5\r\nhel", false);
    check("x\r\n", true);
    check("5\r\nhelloworld", true);
    check("5\r\nhello\r\n-1\r\n", true);
}

#[test]
fn an_answer_to_a_job_of_an_earlier_request_is_dropped() {
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(GET);
    let stale = pair.held.take().map(|(id, _)| id);
    pair.reconnect();
    pair.send(GET);
    let (id, _) = pair.held.as_ref().map(|(id, job)| (*id, job)).unwrap();
    assert_eq!(Some(id), stale, "numbers start afresh with a connection");
    pair.finish_job();
    assert_eq!(pair.statuses(), [200]);
    let done = session::Done::Resolved(Err(std::io::ErrorKind::Other.into()));
    pair.connection.done(&mut pair.worker, id, done);
    assert_eq!(pair.statuses(), [200]);
    assert_eq!(pair.phase(), Phase::Idle);
}
