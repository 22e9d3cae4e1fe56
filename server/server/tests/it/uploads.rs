//! Clients that send the whole body of a request before they take any of the response's, as simple
//! programs do. The body is dropped while the response has no room; if it were left lying, both
//! sides would wait for each other.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use server::Server;
use testkit::side_by_side;

use crate::harness::{connect, start, take_head};
use crate::overload::{is_answered, large, site};

/// More than the buffers of both sockets hold while the server does not receive.
const BODY_BYTES: usize = 12 << 20;

const BODY_LIMIT: &str = "limits.unread_body_bytes_max=\"64 MiB\"";

/// Engines with settings under which they wait for a full socket in other ways.
const SET: &[(&str, &[&str])] = &[
    ("event-loop", &["engine.knobs.events=epoll-level"]),
    ("event-loop", &["engine.knobs.events=poll"]),
    ("event-loop", &["engine.knobs.events=select"]),
    ("event-loop", &["socket.sendfile=off"]),
    ("event-loop-helpers", &["socket.sendfile=probe"]),
    ("fibers", &["engine.knobs.threads_per_cluster=2"]),
    ("fibers", &["engine.knobs.blocking_threads=1", "socket.sendfile=probe"]),
    ("fibers", &["engine.knobs.park_idle=1"]),
    ("rings", &["engine.knobs.direct=1"]),
    ("rings", &["engine.knobs.helpers=1", "socket.sendfile=probe"]),
    ("rings", &["engine.knobs.multishot=0"]),
    ("staged", &["engine.knobs.pools=1"]),
    ("staged", &["socket.sendfile=blocking"]),
    ("thread-pool", &["engine.knobs.park_idle=0"]),
    ("thread-pool", &["engine.knobs.park_idle=0", "socket.sendfile=nonblocking"]),
    ("thread-pool", &["socket.sendfile=blocking"]),
    ("thread-pool", &["socket.sendfile=nonblocking"]),
    ("threads", &["socket.sendfile=nonblocking"]),
    ("threads", &["socket.sendfile=off"]),
];

/// Runs `test` for every engine that receives while it sends, in every way: `threads-direct`, the
/// control, does one after the other.
fn for_each_way(test: impl Fn(&Server) + Sync) {
    let names: Vec<&str> = crate::engines().iter().map(|spec| spec.name).collect();
    let plain = names.iter().filter(|name| **name != "threads-direct").map(|name| (*name, &[][..]));
    let set = SET.iter().copied().filter(|(engine, _)| names.contains(engine));
    let all: Vec<(&str, &[&str])> = plain.chain(set).collect();
    let directory = site();
    side_by_side(&all, |(engine, set)| {
        let engine = format!("engine.name={engine}");
        let first = [engine.as_str(), "partitions.cpus=[\"0\"]", BODY_LIMIT];
        let server = start(&directory, &[&first, *set].concat());
        println!("{engine} {set:?}");
        test(&server);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
    });
}

/// Less than the time after which a client that takes nothing is cut off.
const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn a_client_that_sends_all_before_it_reads_gets_its_response() {
    for_each_way(|server| {
        let mut stream = connect(server);
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "GET /large.bin HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY_BYTES}\r\n\r\n"
        )
        .unwrap();
        take_head(&mut stream);
        let piece = [b'x'; 1 << 16];
        (0..BODY_BYTES / piece.len()).for_each(|_| stream.write_all(&piece).expect("it is taken"));
        let mut body = vec![0; large().len()];
        stream.read_exact(&mut body).unwrap();
        assert!(body == large());
        assert!(is_answered(&mut stream));
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(os::uninterrupted(|| stream.read(&mut [0])).unwrap(), 0);
    });
}
