//! Connections at rest as bytes.

use session::{Connection, Limits, Phase, Tick};

use crate::memory::{MemoryFiles, PEER, Pair};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn pair() -> Pair {
    Pair::new(MemoryFiles::new(&[("index.html", b"<p>hello")]), Limits::default())
}

/// The time of a process that has just started.
const NOW: Tick = Tick(5);

fn unpacked(bytes: &[u8], limits: &Limits) -> Option<Connection> {
    Connection::unpack(bytes, NOW, limits)
}

#[test]
fn a_connection_goes_on_after_it_was_packed() {
    for requests in [0, 1, 2] {
        let mut pair = pair();
        (0..requests).for_each(|_| pair.send(GET));
        let deadline = pair.connection.deadline().unwrap();
        let now = Tick(deadline.0 - 7_000_000);
        let packed = pair.connection.pack(now).expect("it rests");
        let limits = Limits { requests_per_connection_max: 2, ..Limits::default() };
        let connection = unpacked(&packed, &limits).expect("it was just packed");
        assert_eq!(connection.peer().to_string(), PEER);
        assert_eq!(
            (connection.phase(), connection.deadline()),
            (Phase::Idle, Some(Tick(7_000_005)))
        );
        let site = pair.site.clone();
        let _ = pair.change_connection();
        pair.connection = connection;
        pair.move_to(site, limits);
        pair.send(GET);
        assert_eq!(pair.statuses(), [200]);
        assert_eq!(pair.is_shut, requests > 0, "the second request is the last, or one beyond");
    }
}

/// It may have been due a long time from now where other limits hold.
#[test]
fn no_connection_rests_for_longer_than_it_may() {
    let mut pair = pair();
    let limits = Limits { head_ms: 20, idle_ms: 30, ..Limits::default() };
    for most_us in [20_000, 30_000] {
        let packed = pair.connection.pack(Tick(0)).unwrap();
        let deadline = unpacked(&packed, &limits).unwrap().deadline().unwrap();
        assert_eq!(deadline, Tick(NOW.0 + most_us));
        pair.send(GET);
    }
}

#[test]
fn only_what_rests_is_packed() {
    let is_packed = |pair: &Pair| pair.connection.pack(NOW).is_some();
    let mut reading = pair();
    reading.send(&GET[..10]);
    assert!(!is_packed(&reading));
    let mut writing = pair();
    writing.window = 10;
    writing.send(GET);
    assert!(!is_packed(&writing));
    let mut ending = pair();
    ending.send(GET);
    ending.connection.end_with_next();
    assert!(!is_packed(&ending));
    let mut at_end = pair();
    at_end.finish();
    assert!(!is_packed(&at_end));
}

#[test]
fn other_bytes_are_no_connection() {
    let packed = pair().connection.pack(NOW).unwrap();
    let limits = Limits::default();
    // What is cut off in the port is a port.
    assert!((0..22).all(|len| unpacked(&packed[..len], &limits).is_none()));
    for (index, byte) in [(0, 0), (0, 2), (1, 2), (packed.len() - 1, b'x'), (14, 0xff)] {
        let mut other = packed.clone();
        other[index] = byte;
        assert!(unpacked(&other, &limits).is_none(), "{index}: {byte}");
    }
}
