//! More clients than the server has room for, clients that are slow on purpose, and clients that
//! vanish.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use server::Server;
use testkit::response::{Response, parse_responses};
use testkit::{Temporary, comes_true, side_by_side, wait_until};

use crate::harness::{connect, start, take_head};
use crate::serving::get;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// Runs `test` for each engine with one worker, so that all connections belong to it, and for one
/// of the engines with each event mechanism.
fn with(settings: &[&str], test: impl Fn(&Server) + Sync) {
    let directory = site();
    side_by_side(&variants(), |(name, knob)| {
        let engine = format!("engine.name={name}");
        let mut all = vec![engine.as_str(), "partitions.cpus=[\"0\"]"];
        all.extend(knob);
        all.extend_from_slice(settings);
        let server = start(&directory, &all);
        test(&server);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

/// A site with a small file, and one that a socket's buffer does not hold.
pub(crate) fn site() -> Temporary {
    let directory = Temporary::new();
    directory.file("site/index.html", "<h1>Rope</h1>");
    directory.file("site/large.bin", large());
    directory.file("site/408.html", "took too long");
    directory
}

/// The content of the large file.
pub(crate) fn large() -> &'static [u8] {
    static LARGE: OnceLock<Vec<u8>> = OnceLock::new();
    LARGE.get_or_init(|| (0..20_000_000_u32).map(|at| (at % 251) as u8).collect())
}

fn variants() -> Vec<(&'static str, Option<&'static str>)> {
    let mut all: Vec<_> = crate::engines().iter().map(|spec| (spec.name, None)).collect();
    if all.contains(&("event-loop", None)) {
        let knobs = [
            "engine.knobs.events=epoll-level",
            "engine.knobs.events=poll",
            "engine.knobs.events=select",
        ];
        all.extend(knobs.map(|knob| ("event-loop", Some(knob))));
    }
    all
}

/// Sends one request on a connection that stays open. Returns whether it was answered with 200 and
/// the whole body, which may come apart from its head.
pub(crate) fn is_answered(stream: &mut TcpStream) -> bool {
    stream.write_all(GET).is_ok() && takes_response(stream).is_some_and(|one| one.status == 200)
}

/// Takes a response to its end, or nothing where it is cut short.
fn takes_response(stream: &mut TcpStream) -> Option<Response> {
    let (mut taken, mut next) = (Vec::new(), [0; 4096]);
    loop {
        let count = os::uninterrupted(|| stream.read(&mut next)).ok().filter(|count| *count > 0)?;
        taken.extend(&next[..count]);
        let parsed = parse_responses(&taken, &[false], false).unwrap();
        if let Some(response) = parsed.responses.into_iter().next() {
            return Some(response);
        }
    }
}

pub(crate) fn counter(server: &Server, field: impl Fn(&session::Counters) -> u64) -> u64 {
    // A connection may be counted up by one worker and down by another: only the sum is meaningful.
    server.counters().iter().map(|counters| field(counters)).fold(0, u64::wrapping_add)
}

#[test]
fn a_full_house_closes_the_connection_that_has_rested_longest() {
    full_house("timeouts.idle_ms=60000");
}

#[test]
fn a_full_house_closes_it_when_connections_may_rest_for_hours() {
    full_house("timeouts.idle_ms=36000000");
}

fn full_house(idle: &str) {
    with(&["limits.connections_max=4", idle], longest_resting_connection_makes_room);
}

/// Checks a server that serves four connections at a time.
pub(crate) fn longest_resting_connection_makes_room(server: &Server) {
    let mut streams: Vec<TcpStream> = (0..4).map(|_| connect(server)).collect();
    for stream in &mut streams {
        assert!(is_answered(stream));
        thread::sleep(Duration::from_millis(300)); // longer than a bucket of the timer wheel
    }
    // The first connection was used last, so the second has rested longest.
    assert!(is_answered(&mut streams[0]));
    assert!(is_answered(&mut connect(server)));
    assert_eq!(
        os::uninterrupted(|| streams[1].read(&mut [0; 16])).unwrap(),
        0,
        "the second is closed"
    );
    assert_eq!(counter(server, |c| c.connections_evicted.get()), 1);
    for index in [0, 2, 3] {
        assert!(is_answered(&mut streams[index]), "connection {index} is still served");
    }
}

#[test]
fn a_full_house_of_busy_connections_makes_the_next_wait_its_turn() {
    with(&["limits.connections_max=2"], |server| {
        let mut busy: Vec<TcpStream> = (0..2).map(|_| connect(server)).collect();
        for stream in &mut busy {
            stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            stream.read_exact(&mut [0; 16]).unwrap();
        }
        let mut waiting = connect(server);
        waiting.write_all(GET).unwrap();
        wait_until(|| counter(server, |c| c.accept_pauses.get()) > 0);
        waiting.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let refused = os::uninterrupted(|| waiting.read(&mut [0; 16])).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        drop(busy);
        waiting.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut response = [0; 15];
        waiting.read_exact(&mut response).unwrap();
        assert_eq!(&response, b"HTTP/1.1 200 OK");
    });
}

#[test]
fn a_client_with_a_request_is_answered_before_it_makes_room() {
    with(&["limits.connections_max=2"], |server| {
        let mut busy: Vec<TcpStream> = (0..2).map(|_| connect(server)).collect();
        for stream in &mut busy {
            stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            stream.read_exact(&mut [0; 16]).unwrap();
        }
        // All clients have sent a request before one is accepted.
        let mut waiting: Vec<TcpStream> = (0..50).map(|_| connect(server)).collect();
        waiting.iter_mut().for_each(|stream| stream.write_all(GET).unwrap());
        drop(busy);
        for (index, stream) in waiting.iter_mut().enumerate() {
            let mut response = [0; 15];
            stream.read_exact(&mut response).unwrap_or_else(|why| panic!("{index}: {why}"));
            assert_eq!(&response, b"HTTP/1.1 200 OK");
        }
    });
}

#[test]
fn a_head_that_trickles_is_answered_with_408() {
    with(&[&TRICKLE[..], &["timeouts.head_bytes_per_s_min=1000"]].concat(), |server| {
        // A byte in 100 ms extends the time by 1 ms.
        let pause = Duration::from_millis(100);
        let response = refusal_of_a_trickle(server, &head_of("GET", 300), pause);
        assert!(response.ends_with("took too long"), "{response}");
        // RFC 9110 §9.3.2: no content, whatever the answer to HEAD.
        let response = refusal_of_a_trickle(server, &head_of("HEAD", 300), pause);
        assert!(response.ends_with("\r\n\r\n"), "{response}");
        assert!(response.contains("\r\nContent-Length: 13\r\n"), "{response}");
    });
}

/// Settings with which a head that takes long is refused soon, and a client that takes long to
/// begin one, or to read the answer, is not.
const TRICKLE: [&str; 5] = [
    "timeouts.head_ms=400",
    "timeouts.linger_ms=60000",
    "socket.defer_accept_s=60",
    "limits.head_bytes_max=128 KiB",
    "host.error_pages={408=\"/408.html\"}",
];

/// The beginning of a head. A busy server has half a minute to refuse it before its end.
fn head_of(method: &str, bytes: usize) -> Vec<u8> {
    let mut head = format!("{method} / HTTP/1.1\r\nHost: h\r\nX: ").into_bytes();
    head.resize(bytes, b'x');
    head
}

/// Where each step on a connection has another owner, the connection may be on its way between
/// owners whenever deadlines are checked.
#[test]
fn a_head_that_never_pauses_for_long_is_answered_with_408() {
    with(&[&TRICKLE[..], &["timeouts.head_bytes_per_s_min=1000000"]].concat(), |server| {
        refusal_of_a_trickle(server, &head_of("GET", 100_000), Duration::from_micros(250));
    });
}

/// Sends a head byte by byte after its first line, and checks that it is answered with 408 before
/// its end. Returns the response.
fn refusal_of_a_trickle(server: &Server, head: &[u8], pause: Duration) -> String {
    let mut stream = connect(server);
    stream.set_nodelay(true).unwrap();
    stream.set_nonblocking(true).unwrap();
    let line = 1 + head.iter().position(|byte| *byte == b'\n').unwrap();
    stream.write_all(&head[..line]).unwrap();
    let is_answered = head[line..].iter().any(|byte| {
        let _ = stream.write_all(&[*byte]);
        thread::sleep(pause);
        stream.peek(&mut [0]).is_ok()
    });
    assert!(is_answered, "all {} bytes were sent", head.len());
    stream.set_nonblocking(false).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
    assert!(response.contains("\r\nConnection: close\r\n"), "{response}");
    response
}

#[test]
fn a_client_that_says_nothing_is_closed() {
    with(&SHORT_SILENCE, silence_ends_connections);
}

/// Settings with which a silent connection is closed soon, before its first request and after it.
pub(crate) const SHORT_SILENCE: [&str; 3] =
    ["timeouts.head_ms=300", "timeouts.idle_ms=300", "socket.defer_accept_s=0"];

/// Checks a server with [`SHORT_SILENCE`].
pub(crate) fn silence_ends_connections(server: &Server) {
    let mut silent = connect(server);
    let (mut idle, late) = answered(server);
    assert_eq!(os::uninterrupted(|| silent.read(&mut [0; 16])).unwrap(), 0);
    assert_eq!(os::uninterrupted(|| idle.read(&mut [0; 16])).unwrap(), 0);
    assert_eq!(counter(server, |c| c.connections_expired.get()), 2 + late);
}

/// A connection that has had an answer, and how many expired before: on a busy machine this thread
/// may get no CPU for as long as a head may take.
fn answered(server: &Server) -> (TcpStream, u64) {
    let mut attempts = (0..20).map(|late| (connect(server), late));
    attempts.find_map(|(mut idle, late)| is_answered(&mut idle).then_some((idle, late))).unwrap()
}

/// Checks a server of [`site`].
pub(crate) fn downloads_under_way_finish(server: &Server) {
    let mut streams: Vec<TcpStream> = (0..4).map(|_| connect(server)).collect();
    for stream in &mut streams {
        let request = b"GET /large.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
    }
    assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
    for mut stream in streams {
        take_head(&mut stream);
        take_body(&mut stream, large(), 100_000);
        assert_eq!(os::uninterrupted(|| stream.read(&mut [0])).unwrap(), 0, "nothing follows");
    }
}

#[test]
fn a_reader_that_stalls_is_cut_off_and_others_are_served_meanwhile() {
    with(&[SHORT_WRITES], stalled_reader);
}

const SHORT_WRITES: &str = "timeouts.write_ms=500";

/// Checks a server with [`SHORT_WRITES`].
fn stalled_reader(server: &Server) {
    let mut stalled = connect(server);
    // Not the first request of its connection, so that the server has waited for this one.
    assert!(is_answered(&mut stalled));
    stalled.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    stalled.read_exact(&mut [0; 16]).unwrap();
    let is_cut_off = || {
        assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
        counter(server, |c| c.connections_expired.get()) == 1
    };
    assert!(comes_true(is_cut_off), "the stalled reader is still there");
}

/// Checks these limits on a server with these settings; where one worker serves all connections,
/// also which connection makes room.
pub(crate) fn limits_hold(set: &[&str]) {
    let directory = site();
    let of_one = ["partitions.cpus=[\"0\"]", "limits.connections_max=4", "timeouts.idle_ms=60000"];
    type Test<'t> = (&'t [&'t str], fn(&Server));
    let tests: [Test<'_>; 5] = [
        (&[], misbehave),
        (&[], downloads_under_way_finish),
        (&SHORT_SILENCE, silence_ends_connections),
        (&[SHORT_WRITES], stalled_reader),
        (&of_one, longest_resting_connection_makes_room),
    ];
    let has_processes = set.iter().any(|set| set.starts_with("engine.processes="));
    let count = if has_processes { tests.len() - 1 } else { tests.len() };
    for (more, test) in &tests[..count] {
        let server = start(&directory, &[set, more].concat());
        test(&server);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    }
}

/// A client that sends requests faster than they are answered and reads all answers must not keep
/// the loop to itself: others are served, and the server can be stopped.
#[test]
fn a_client_that_pipelines_without_end_leaves_room_for_others() {
    with(&["timeouts.drain_ms=1000"], |server| {
        let mut greedy = connect(server);
        let mut reader = greedy.try_clone().unwrap();
        let writer = thread::spawn(move || while greedy.write_all(&GET.repeat(1000)).is_ok() {});
        let drain = thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            for _ in 0..2000 {
                match os::uninterrupted(|| reader.read(&mut buffer)) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
            }
            let _ = reader.shutdown(std::net::Shutdown::Both);
        });
        for _ in 0..50 {
            assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
        }
        drain.join().unwrap();
        writer.join().unwrap();
    });
}

#[test]
fn bytes_are_right_among_clients_that_misbehave() {
    with(&[], misbehave);
}

/// Runs many clients at once, some of which read slowly, vanish in the middle or send garbage;
/// every byte that arrives is checked.
pub(crate) fn misbehave(server: &Server) {
    let address = server.addresses()[0];
    thread::scope(|scope| {
        for client in 0..16_usize {
            scope.spawn(move || {
                for round in 0..8 {
                    let stream = TcpStream::connect(address).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                    match (client + round) % 4 {
                        0 => vanish(stream, round * 100_000),
                        1 => garbage(stream),
                        _ => ranges(stream, client * 7919 + round),
                    }
                }
            });
        }
    });
    assert!(get(server, "/").ends_with("<h1>Rope</h1>"));
    wait_until(|| counter(server, |c| c.connections_open.get()) == 0);
}

fn vanish(mut stream: TcpStream, after: usize) {
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut received = vec![0; after];
    let _ = os::uninterrupted(|| stream.read(&mut received));
}

fn garbage(mut stream: TcpStream) {
    let _ = stream.write_all(&[0x16, 3, 1, 0, 200, 1, 0]);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    assert!(response.starts_with(b"HTTP/1.1 400 "));
}

/// Requests several ranges on one connection, and reads them in small pieces.
fn ranges(mut stream: TcpStream, seed: usize) {
    for step in 0..3 {
        let start = seed.wrapping_mul(2_654_435_761).wrapping_add(step * 1_000_003) % 19_000_000;
        let len = 1 + (seed * 31 + step * 200_003) % 900_000;
        let request = format!(
            "GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes={start}-{}\r\n\r\n",
            start + len - 1
        );
        stream.write_all(request.as_bytes()).unwrap();
        let head = take_head(&mut stream);
        assert!(head.starts_with(b"HTTP/1.1 206 "), "{}", String::from_utf8_lossy(&head));
        take_body(&mut stream, &large()[start..start + len], 500 + seed % 50_000);
    }
}

/// Reads a body in pieces of `size` bytes, which must be those of `right`.
fn take_body(stream: &mut TcpStream, right: &[u8], size: usize) {
    let mut buffer = vec![0; size];
    for (index, right) in right.chunks(size).enumerate() {
        let piece = &mut buffer[..right.len()];
        stream.read_exact(piece).unwrap();
        if piece != right {
            let at = (0..right.len()).find(|&at| piece[at] != right[at]);
            panic!("a wrong byte at {at:?} of piece {index}, of {size} bytes each");
        }
    }
}
