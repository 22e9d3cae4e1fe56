//! However the bytes of requests are cut, and however small the client's window is, the answers are
//! the same.

use proptest::prelude::*;
use session::Limits;

use crate::memory::{MemoryFiles, Pair};

const REQUESTS: &str = "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n\
    HEAD /a.txt HTTP/1.1\r\nHost: h\r\n\r\n\
    POST /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\
    GET /missing HTTP/1.1\r\nHost: h\r\n\r\n\
    GET /page HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
    GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0,4-5\r\n\r\n\
    OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n\
    GET /sub HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

const STATUSES: [u16; 8] = [200, 200, 405, 404, 200, 206, 204, 301];

/// A pair with files whose content must not look like a status line.
fn pair() -> Pair {
    let content = b"0123456789".repeat(100);
    let files = MemoryFiles::new(&[
        ("a.txt", &content),
        ("page.html", b"<p>page"),
        ("sub/index.html", b"<p>sub"),
    ]);
    Pair::new(files, Limits::default())
}

fn answers(cuts: &[usize]) -> Vec<u8> {
    let mut pair = pair();
    let mut from = 0;
    for &cut in cuts.iter().chain([&REQUESTS.len()]) {
        pair.send(&REQUESTS.as_bytes()[from..cut]);
        from = cut;
    }
    assert!(pair.is_shut, "the last request asked for the close");
    assert_eq!(pair.statuses(), STATUSES);
    without_boundary(pair.received)
}

/// Replaces the boundary, which differs with the cache's seed.
fn without_boundary(mut bytes: Vec<u8>) -> Vec<u8> {
    let marker = b"boundary=";
    let at = bytes.windows(marker.len()).position(|w| w == marker).expect("a multipart response");
    let boundary = bytes[at + marker.len()..][..24].to_vec();
    while let Some(at) = bytes.windows(24).position(|w| w == boundary) {
        bytes.splice(at..at + 24, *b"------------------------");
    }
    bytes
}

#[test]
fn any_single_cut_gives_the_same_answers() {
    let expected = answers(&[]);
    for cut in 1..REQUESTS.len() {
        assert!(answers(&[cut]) == expected, "cut at {cut}");
    }
}

#[test]
fn one_byte_at_a_time_gives_the_same_answers() {
    let cuts: Vec<usize> = (1..REQUESTS.len()).collect();
    assert!(answers(&cuts) == answers(&[]));
}

#[test]
fn a_small_window_gives_the_same_answers() {
    let expected = answers(&[]);
    for window in [1, 2, 3, 7, 100, 1000] {
        let mut pair = pair();
        pair.window = 0;
        pair.send(REQUESTS.as_bytes());
        for _ in 0..100_000 {
            if pair.is_shut {
                break;
            }
            pair.window = window;
            pair.drive();
        }
        pair.finish();
        assert!(without_boundary(pair.received) == expected, "window of {window}");
    }
}

#[test]
fn jobs_that_take_their_time_give_the_same_answers() {
    let expected = answers(&[]);
    let mut pair = pair();
    pair.holds_jobs = true;
    pair.send(REQUESTS.as_bytes());
    while pair.held.is_some() {
        pair.finish_job();
    }
    assert!(without_boundary(pair.received) == expected);
}

/// What happens next, at the client's end or where jobs are run.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// So many bytes come, if any are wanted.
    Bytes(usize),
    /// The client has room for so many bytes.
    Room(usize),
    /// The job that is out has its answer.
    Answer,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (1_usize..80).prop_map(Happening::Bytes),
        (1_usize..300).prop_map(Happening::Room),
        Just(Happening::Answer),
    ]
}

/// The answers if these things happen in this order, and then all that is left.
fn answers_after(happenings: &[Happening]) -> Vec<u8> {
    const REST: [Happening; 3] = [Happening::Bytes(50), Happening::Answer, Happening::Room(100)];
    let mut pair = pair();
    (pair.holds_jobs, pair.window) = (true, 0);
    let (mut at, rest) = (0, REST.iter().cycle().take(10_000));
    for it in happenings.iter().chain(rest) {
        match *it {
            Happening::Bytes(n) if pair.connection.wants_input() => {
                let end = REQUESTS.len().min(at + n);
                pair.send(&REQUESTS.as_bytes()[at..end]);
                at = end;
            }
            Happening::Bytes(_) => {}
            Happening::Room(n) => {
                pair.window = n;
                pair.turn();
                pair.window = 0;
                pair.drive();
            }
            Happening::Answer => {
                pair.finish_job();
                pair.drive();
            }
        }
    }
    assert!(pair.is_shut, "all has happened");
    without_boundary(pair.received)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_cuts_give_the_same_answers(
        mut cuts in proptest::collection::vec(1..REQUESTS.len(), 0..12),
    ) {
        cuts.sort_unstable();
        prop_assert!(answers(&cuts) == answers(&[]));
    }

    #[test]
    fn whatever_happens_first_the_answers_are_the_same(
        happenings in proptest::collection::vec(happening(), 0..300),
    ) {
        prop_assert!(answers_after(&happenings) == answers(&[]));
    }
}
