//! Deadlines: slow heads, idle connections, slow readers, clients that linger.

use session::{Limits, Phase};

use crate::memory::{MemoryFiles, Pair};

const GET: &[u8] = b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n";

fn pair() -> Pair {
    let content = vec![b'x'; 1 << 20];
    Pair::new(MemoryFiles::new(&[("big", &content)]), Limits::default())
}

#[test]
fn a_silent_client_is_closed_without_a_response() {
    let mut pair = pair();
    pair.advance(9_999);
    assert_eq!(pair.closed, None);
    pair.advance(1);
    assert_eq!(pair.closed, Some(false));
    assert!(pair.received.is_empty());
}

#[test]
fn a_head_of_a_byte_a_second_gets_408() {
    let mut pair = pair();
    for (second, byte) in GET.iter().enumerate() {
        if pair.is_shut {
            assert!((9..13).contains(&second), "closed after {second} s");
            assert_eq!(pair.statuses(), [408]);
            return;
        }
        pair.send(&[*byte]);
        pair.advance(1_000);
    }
    panic!("a head of {} s was accepted", GET.len());
}

#[test]
fn the_first_head_is_timed_from_the_connection() {
    let mut pair = pair();
    pair.advance(9_000);
    pair.send(b"GET ");
    pair.advance(999);
    assert!(!pair.is_shut);
    pair.advance(10);
    assert_eq!(pair.statuses(), [408]);
}

#[test]
fn a_later_head_is_timed_from_its_first_byte() {
    let mut pair = pair();
    pair.send(GET);
    pair.advance(50_000);
    pair.received.clear();
    pair.send(b"GET ");
    pair.advance(9_999);
    assert!(!pair.is_shut);
    pair.advance(10);
    assert_eq!(pair.statuses(), [408]);
}

#[test]
fn a_blank_line_asks_for_nothing_and_is_not_answered() {
    for blank in [&b"\r"[..], b"\r\n"] {
        let mut pair = pair();
        pair.send(GET);
        pair.received.clear();
        pair.send(blank);
        pair.advance(10_010);
        assert_eq!(pair.closed, Some(false));
        assert!(pair.received.is_empty(), "{}", String::from_utf8_lossy(&pair.received));
    }
}

#[test]
fn a_head_above_the_minimum_rate_gets_more_time() {
    let mut pair = pair();
    pair.send(b"GET /big HTTP/1.1\r\nHost: h\r\n");
    for _ in 0..15 {
        pair.send(format!("X: {}\r\n", "y".repeat(1000)).as_bytes());
        pair.advance(1_000);
        assert!(!pair.is_shut);
    }
    pair.send(b"\r\n");
    assert_eq!(pair.statuses(), [200]);
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    let mut pair = pair();
    pair.send(GET);
    assert_eq!(pair.phase(), Phase::Idle);
    pair.advance(59_999);
    assert_eq!(pair.closed, None);
    pair.advance(1);
    assert_eq!(pair.closed, Some(false));
}

#[test]
fn a_reader_that_stalls_is_reset() {
    let mut pair = pair();
    pair.window = 1000;
    pair.send(GET);
    pair.advance(30_000);
    assert_eq!(pair.closed, Some(true));
    assert_eq!(pair.counters.connections_expired.get(), 1);
}

#[test]
fn a_slow_reader_that_makes_progress_gets_everything() {
    let mut pair = pair();
    pair.window = 0;
    pair.send(GET);
    let mut seconds = 0;
    while pair.phase() == Phase::Writing {
        pair.window = 1024;
        pair.drive();
        pair.advance(1_000);
        seconds += 1;
    }
    assert!(seconds > 1000, "the download took {seconds} s, far longer than any deadline");
    assert_eq!(pair.closed, None);
    assert!(pair.received.len() > 1 << 20);
}

#[test]
fn a_trickle_below_the_minimum_progress_is_reset() {
    let mut pair = pair();
    pair.window = 0;
    pair.send(GET);
    for second in 0..60 {
        pair.window = 100;
        pair.drive();
        pair.advance(1_000);
        if pair.closed.is_some() {
            assert!((29..32).contains(&second), "reset after {second} s");
            assert_eq!(pair.closed, Some(true));
            return;
        }
    }
    panic!("100 bytes a second were tolerated");
}

#[test]
fn a_connection_whose_job_is_out_does_not_expire() {
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(GET);
    assert_eq!(pair.connection.deadline(), None);
    pair.advance(3_600_000);
    assert_eq!(pair.closed, None);
    pair.finish_job();
    assert_eq!(pair.statuses(), [200]);
}

#[test]
fn an_unwanted_body_that_stalls_is_given_up() {
    let mut pair = pair();
    pair.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
    assert_eq!(pair.statuses(), [405]);
    assert_eq!(pair.phase(), Phase::Draining);
    pair.advance(10_000);
    assert_eq!(pair.closed, Some(false));
}

#[test]
fn a_client_that_never_closes_is_closed_on_after_lingering() {
    let mut pair = pair();
    pair.send(b"BAD\r\n\r\n");
    assert_eq!(pair.statuses(), [400]);
    assert!(pair.is_shut);
    assert_eq!(pair.closed, None);
    pair.advance(2_000);
    assert_eq!(pair.closed, Some(false));
}
