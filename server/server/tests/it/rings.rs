//! Failures that only `rings` can have: queues that are full, buffers that run out, operations that
//! end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use server::Server;
use testkit::Temporary;
use testkit::scripted::{Action, Reply, Scripted};

use crate::conformance;
use crate::harness::{connect, site, start};
use crate::serving::get;

/// Queues with hardly any room, and one buffer that no head fits into.
const TINY: [&str; 5] = [
    "engine.name=rings",
    "partitions.cpus=[\"0\"]",
    "engine.knobs.entries=1",
    "engine.knobs.buffers=1",
    "engine.knobs.buffer_bytes=64",
];

/// Whether rings are under test.
fn rings() -> bool {
    crate::engines().iter().any(|spec| spec.name == "rings")
}

#[test]
fn every_case_holds_in_tiny_rings() {
    if rings() {
        conformance::run_variant("rings", &TINY[2..]);
    }
}

#[test]
fn every_case_holds_without_standing_orders_and_with_helpers() {
    if rings() {
        let knobs = ["engine.knobs.multishot=0", "engine.knobs.helpers=2"];
        conformance::run_variant("rings", &knobs);
    }
}

/// Files are sent even for small bodies, so that descriptors are needed in the middle of a
/// response.
#[test]
fn every_case_holds_with_direct_descriptors() {
    if rings() {
        let direct = "engine.knobs.direct=1";
        conformance::run_variant("rings", &[direct]);
        let anew = [direct, "engine.knobs.multishot=0", "cache.small_body_bytes_max=0"];
        conformance::run_variant("rings", &anew);
    }
}

/// Fifty clients need the only buffer at once, again and again.
#[test]
fn connections_that_want_the_same_buffer_all_get_their_turn() {
    if !rings() {
        return;
    }
    let directory = site();
    for multishot in ["engine.knobs.multishot=1", "engine.knobs.multishot=0"] {
        let server = start(&directory, &[&TINY[..], &[multishot]].concat());
        let mut streams: Vec<TcpStream> = (0..50).map(|_| connect(&server)).collect();
        for _ in 0..5 {
            for stream in &mut streams {
                send_requests(stream, 1);
            }
            for stream in &mut streams {
                assert_eq!(answers(stream, 1), 1, "{multishot}");
            }
        }
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    }
}

/// The client sends more requests than are received ahead: the receive is cancelled and begun
/// again.
#[test]
fn requests_sent_far_ahead_are_all_answered() {
    const REQUESTS: usize = 5000;
    if !rings() {
        return;
    }
    let directory = site();
    let server = start(&directory, &TINY[..2]);
    let mut stream = connect(&server);
    let mut writer = stream.try_clone().unwrap();
    let writing = thread::spawn(move || send_requests(&mut writer, REQUESTS));
    assert_eq!(answers(&mut stream, REQUESTS), REQUESTS);
    writing.join().unwrap();
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

/// The end of the stream may be known before the earlier requests are answered.
#[test]
fn requests_before_the_end_of_the_stream_are_all_answered() {
    if !rings() {
        return;
    }
    let directory = site();
    let server = start(&directory, &TINY[..2]);
    let mut stream = connect(&server);
    send_requests(&mut stream, 20);
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(answers(&mut stream, usize::MAX), 20);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

/// What comes at once of bodies that no application takes yet is more than clients may send ahead
/// of responses.
#[test]
fn clients_whose_application_is_slow_are_not_cut_off() {
    const CLIENTS: usize = 60;
    if !rings() {
        return;
    }
    let directory = site();
    let application = Scripted::start(os::clock::now, |_| {
        let reply = Reply::ok(b"<h1>Rope</h1>").bytes();
        let pause = Action::Wait(Duration::from_secs(1));
        vec![Action::LeaveBody, pause, Action::TakeBody, Action::Send(reply)]
    });
    let address = application.address();
    let route = format!("host.route=[{{ path = \"/app\", proxy = [\"http://{address}\"] }}]");
    let server = start(&directory, &[TINY[0], TINY[1], &route]);
    let body = vec![b'b'; 1 << 20];
    let head = format!("POST /app HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
    let upload = |mut stream: TcpStream| {
        stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        answers(&mut stream, 1)
    };
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(&server)).collect();
    let answered: usize = thread::scope(|scope| {
        let upload = &upload;
        let uploads = clients.into_iter().map(|stream| scope.spawn(move || upload(stream)));
        let uploads: Vec<_> = uploads.collect();
        uploads.into_iter().map(|upload| upload.join().unwrap()).sum()
    });
    assert_eq!(answered, CLIENTS);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

/// Connections that rest hold no buffer: one buffer serves another client beside a hundred of them.
#[test]
fn connections_at_rest_hold_no_buffer() {
    if !rings() {
        return;
    }
    let directory = site();
    // The clients send their first requests one after the other.
    let server = start(&directory, &[&TINY[..], &["timeouts.head_ms=600000"]].concat());
    let mut resting: Vec<TcpStream> = (0..100).map(|_| connect(&server)).collect();
    for stream in &mut resting {
        send_requests(stream, 1);
        assert_eq!(answers(stream, 1), 1);
    }
    assert!(get(&server, "/").ends_with("<h1>Rope</h1>"));
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

/// A connection is closed for its client at once, even if the kernel has not yet ended its
/// operations.
#[test]
fn a_connection_closed_in_the_middle_of_operations_is_gone() {
    if !rings() {
        return;
    }
    let directory = Temporary::new();
    directory.file("site/large.bin", vec![7_u8; 30_000_000]);
    let server = start(&directory, &[&TINY[..2], &["timeouts.write_ms=300"]].concat());
    let mut stalled = connect(&server);
    stalled.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    stalled.read_exact(&mut [0; 16]).unwrap();
    assert!(until(|| open(&server) == 0));
    // The response was broken off, not ended: the bytes on their way may be followed by a reset.
    let received = std::io::copy(&mut stalled, &mut std::io::sink()).unwrap_or(0);
    assert!(received < 30_000_000, "{received}");
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
}

fn open(server: &Server) -> u64 {
    server.counters().iter().map(|counters| counters.connections_open.get()).sum()
}

fn until(mut holds: impl FnMut() -> bool) -> bool {
    (0..800).any(|_| {
        thread::sleep(Duration::from_millis(25));
        holds()
    })
}

fn send_requests(stream: &mut TcpStream, count: usize) {
    stream.write_all(&b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(count)).unwrap();
}

/// Counts responses, up to `count` or the end of the stream.
fn answers(stream: &mut TcpStream, count: usize) -> usize {
    const END: &[u8] = b"<h1>Rope</h1>";
    let (mut found, mut bytes, mut buffer) = (0, Vec::new(), [0; 16_384]);
    while found < count {
        match os::uninterrupted(|| stream.read(&mut buffer)) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(why) => panic!("after {found} answers: {why}"),
        }
        while let Some(at) = bytes.windows(END.len()).position(|window| window == END) {
            bytes.drain(..at + END.len());
            found += 1;
        }
    }
    found
}
