//! Bodies from files, files that change, listings, jobs that fail.

use session::{Limits, Phase};

use crate::memory::{MemoryFiles, Pair, open_files};

const GET: &[u8] = b"GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n";

const FILES: [(&str, &[u8]); 2] = [("a.txt", b"0123456789"), ("list/b.txt", b"b")];

/// A pair whose bodies stay in files.
fn pair() -> Pair {
    let mut pair = Pair::new(MemoryFiles::new(&FILES), Limits::default());
    pair.small_body_bytes_max = 0;
    pair
}

/// A pair that asks for the bytes of its files.
fn reading_pair() -> Pair {
    let mut pair = Pair::reading(MemoryFiles::new(&FILES), Limits::default());
    pair.small_body_bytes_max = 0;
    pair
}

fn text(pair: &Pair) -> String {
    String::from_utf8_lossy(&pair.received).into_owned()
}

#[test]
fn a_body_comes_from_its_file() {
    let mut pair = pair();
    pair.send(&GET.repeat(2));
    assert_eq!(pair.statuses(), [200, 200]);
    assert_eq!(text(&pair).matches("\r\n\r\n0123456789").count(), 2);
    assert_eq!(pair.phase(), Phase::Idle);
}

#[test]
fn what_is_read_in_pieces_is_what_is_sent() {
    let requests: [&[u8]; 4] = [
        GET,
        b"GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=3-7\r\n\r\n",
        b"GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1,4-8\r\n\r\n",
        b"HEAD /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
    ];
    for request in requests {
        let mut sent = pair();
        sent.send(&request.repeat(2));
        for read_bytes_max in 1..=10 {
            let mut read = reading_pair();
            read.read_bytes_max = read_bytes_max;
            read.send(&request.repeat(2));
            assert_eq!(without_boundary(&text(&read)), without_boundary(&text(&sent)));
            assert_eq!(read.phase(), Phase::Idle);
        }
    }
}

/// The model of the calls bounds what is read at once.
#[test]
fn a_large_file_is_read_in_pieces() {
    let body: Vec<u8> = (0..100_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    let mut pair = Pair::reading(MemoryFiles::new(&[("a.txt", &body)]), Limits::default());
    pair.small_body_bytes_max = 0;
    pair.send(GET);
    assert!(pair.received.ends_with(&body));
    assert_eq!(pair.phase(), Phase::Idle);
}

/// A response of many parts has a boundary of its own.
fn without_boundary(text: &str) -> String {
    match text.split_once("boundary=") {
        Some((_, rest)) => text.replace(rest.split_once('\r').expect("a line has an end").0, "B"),
        None => text.to_owned(),
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_in_a_reset() {
    ends_in_a_reset(pair());
}

#[test]
fn a_file_that_shrinks_while_it_is_read_ends_in_a_reset() {
    let mut pair = reading_pair();
    pair.read_bytes_max = 1;
    ends_in_a_reset(pair);
}

fn ends_in_a_reset(mut pair: Pair) {
    pair.window = 0;
    pair.send(GET);
    while !text(&pair).ends_with("\r\n\r\n01234") {
        pair.window = 1;
        pair.drive();
    }
    pair.files.truncate("a.txt", 7);
    pair.window = usize::MAX;
    pair.drive();
    assert!(text(&pair).ends_with("\r\n\r\n0123456"), "{}", text(&pair));
    assert_eq!(pair.closed, Some(true));
    assert_eq!(pair.counters.bodies_cut_short.get(), 1);
    pair.advance(60_000);
    pair.finish();
    assert_eq!(pair.closed, Some(true), "what happens later does not make it an orderly end");
}

#[test]
fn a_changed_file_is_noticed_within_a_second() {
    let mut pair = pair();
    pair.send(GET);
    pair.files.put("a.txt", b"new");
    pair.advance(999);
    pair.send(GET);
    pair.advance(1);
    pair.received.clear();
    pair.send(GET);
    assert!(text(&pair).ends_with("\r\n\r\nnew"), "{}", text(&pair));
    assert_eq!(pair.counters.cache_hits.get(), 1);
}

#[test]
fn a_listing_comes_in_chunks() {
    let mut pair = pair();
    pair.send(b"GET /list/ HTTP/1.1\r\nHost: h\r\n\r\n");
    pair.send(GET);
    assert_eq!(pair.statuses(), [200, 200]);
    assert!(text(&pair).contains("\r\n0\r\n\r\nHTTP/1.1 200"), "{}", text(&pair));
}

/// Only one listing at a time is allowed here. Its place is free again when it is complete, and
/// also when its connection is closed in the middle.
#[test]
fn a_listing_too_many_is_answered_with_retry_after() {
    let mut pair = pair();
    let get = b"GET /list/ HTTP/1.1\r\nHost: h\r\n\r\n";
    pair.window = 10;
    pair.send(get);
    let mut first = pair.change_connection();
    pair.window = usize::MAX;
    for _ in 0..2 {
        pair.send(get);
    }
    assert_eq!(pair.statuses(), [503, 503]);
    assert_eq!(text(&pair).matches("Retry-After: 1\r\n").count(), 2, "{}", text(&pair));
    first.close(&mut pair.worker);
    for _ in 0..3 {
        pair.send(get);
    }
    assert_eq!(pair.statuses(), [503, 503, 200, 200, 200]);
}

#[test]
fn a_listing_for_an_old_client_ends_with_the_connection() {
    let mut pair = pair();
    pair.send(b"GET /list/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert!(pair.is_shut);
    pair.finish();
    assert_eq!(pair.closed, Some(false));
    assert!(text(&pair).contains("Connection: close"));
}

#[test]
fn a_job_that_fails_is_a_matter_of_trying_again() {
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(GET);
    pair.fail_job();
    assert_eq!(pair.statuses(), [503]);
    pair.send(GET);
    pair.finish_job();
    assert_eq!(pair.statuses(), [503, 200]);
}

#[test]
fn a_listing_that_fails_half_way_ends_in_a_reset() {
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(b"GET /list/ HTTP/1.1\r\nHost: h\r\n\r\n");
    pair.finish_job();
    pair.finish_job();
    assert_eq!(pair.statuses(), [200]);
    pair.fail_job();
    assert_eq!(pair.closed, Some(true));
}

#[test]
fn files_are_closed_with_what_used_them() {
    let mut pair = pair();
    pair.send(GET);
    assert_eq!(open_files(), 1);
    drop(pair);
    assert_eq!(open_files(), 0);
}
