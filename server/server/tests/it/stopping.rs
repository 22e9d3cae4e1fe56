//! Stopping: requests under way finish, resting connections are closed, new connections are
//! refused.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use testkit::{Temporary, comes_true};

use crate::harness::{connect, site, start, take_head};
use crate::overload::is_answered;

/// More than the kernel's buffers of both ends hold, so that it cannot be sent at once.
const LARGE_BYTES: u64 = 64 << 20;

/// A site with a file whose download takes a while.
fn large_site() -> Temporary {
    let directory = site();
    let path = directory.file("site/large.bin", "");
    File::options().write(true).open(path).unwrap().set_len(LARGE_BYTES).unwrap();
    directory
}

/// Requests the large file and reads its first byte only.
fn begin_download(stream: &mut TcpStream) {
    stream.write_all(b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

/// Returns how many bytes arrive until the end of the connection.
fn rest(mut stream: TcpStream) -> std::io::Result<u64> {
    std::io::copy(&mut stream, &mut std::io::sink())
}

#[test]
fn a_graceful_stop_finishes_responses_and_closes_the_rest() {
    crate::for_each_engine(|spec| stops_gracefully(&[&format!("engine.name={}", spec.name)]));
}

/// Checks a graceful stop of a server with these settings.
pub(crate) fn stops_gracefully(set: &[&str]) {
    let directory = large_site();
    // Connections are accepted without a request: a deferred one stays in the kernel until its
    // first byte.
    let server = start(&directory, &[set, &["socket.defer_accept_s=0"]].concat());
    let address = server.addresses()[0];
    let (mut busy, fresh, mut idle) = (connect(&server), connect(&server), connect(&server));
    begin_download(&mut busy);
    assert!(is_answered(&mut idle));
    let stopping = thread::spawn(move || server.stop_gracefully(Duration::from_secs(30)));

    assert_eq!(rest(idle).unwrap(), 0, "{set:?}: an idle connection is closed");
    assert_eq!(rest(fresh).unwrap(), 0, "{set:?}: so is one without a request");
    wait_until_refused(address);
    assert!(!stopping.is_finished(), "{set:?}: a download is under way");
    assert!(rest(busy).unwrap() >= LARGE_BYTES, "{set:?}: it is finished");
    let summary = stopping.join().unwrap().unwrap();
    assert!(!summary.aborted, "{set:?}");
}

/// A client in the middle of a request when the server is stopped is answered, and its last answer
/// says that it is the last (RFC 9112 §9.6).
#[test]
fn the_last_answer_says_that_it_is_the_last() {
    crate::for_each_engine(|spec| {
        announces_the_last_answer(&[&format!("engine.name={}", spec.name)]);
    });
}

#[test]
fn the_last_answer_says_so_where_threads_wait_otherwise() {
    let variants: &[(&str, &[&str])] = &[
        ("thread-pool", &["engine.knobs.park_idle=0"]),
        ("thread-pool", &["socket.sendfile=nonblocking"]),
        ("threads", &["socket.sendfile=nonblocking"]),
        ("processes", &["engine.knobs.preforked=0"]),
    ];
    let is_under_test = |name: &str| crate::engines().iter().any(|spec| spec.name == name);
    let wanted: Vec<_> = variants.iter().filter(|(name, _)| is_under_test(name)).collect();
    testkit::side_by_side(&wanted, |(name, set)| {
        announces_the_last_answer(&[&[&*format!("engine.name={name}")], *set].concat());
    });
}

fn announces_the_last_answer(set: &[&str]) {
    const HALVES: [&[u8]; 2] = [b"GET / HTTP/1.1\r\n", b"Host: h\r\n\r\n"];
    let directory = site();
    // The time for a head is long: it passes while the client waits until others are refused.
    let server = start(&directory, &[set, &["timeouts.head_ms=600000"]].concat());
    let address = server.addresses()[0];
    let mut stream = connect(&server);
    // The second request has begun when the first is answered: they arrive together.
    stream.write_all(&[HALVES[0], HALVES[1], HALVES[0]].concat()).unwrap();
    assert!(!is_last(&mut stream), "{set:?}");
    let stopping = thread::spawn(move || server.stop_gracefully(Duration::from_secs(30)));
    wait_until_refused(address);
    // A worker may get the order later than another: the next request begins with the rest of this
    // one, so that the connection never rests. The last answer is followed by the end.
    let mut answers = 0;
    loop {
        stream.write_all(&[HALVES[1], HALVES[0]].concat()).unwrap();
        answers += 1;
        if is_last(&mut stream) {
            break;
        }
        assert!(answers < 10_000, "{set:?}: it is not told to end");
    }
    assert_eq!(os::uninterrupted(|| stream.read(&mut [0])).unwrap(), 0, "{set:?}");
    assert!(!stopping.join().unwrap().unwrap().aborted, "{set:?}");
}

/// Reads an answer. Returns whether it says that it is the last.
fn is_last(stream: &mut TcpStream) -> bool {
    let head = String::from_utf8(take_head(stream)).unwrap();
    stream.read_exact(&mut [0; "<h1>Rope</h1>".len()]).unwrap();
    head.contains("\r\nConnection: close\r\n")
}

/// Waits until connections are refused: workers close their listeners one after the other.
fn wait_until_refused(address: SocketAddr) {
    let is_refused =
        || TcpStream::connect(address).is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused);
    assert!(comes_true(is_refused), "{address} still accepts connections");
}

#[test]
fn when_patience_ends_connections_are_cut_off() {
    crate::for_each_engine(|spec| cuts_off(&[&format!("engine.name={}", spec.name)]));
}

/// Checks that a server with these settings cuts connections off when its time is over.
pub(crate) fn cuts_off(set: &[&str]) {
    let directory = large_site();
    let server = start(&directory, set);
    let mut busy = connect(&server);
    begin_download(&mut busy);
    let summary = server.stop_gracefully(Duration::from_millis(50)).unwrap();
    assert!(summary.aborted, "{set:?}");
    let received = rest(busy).unwrap_or(0);
    assert!(received < LARGE_BYTES, "{set:?}: {received} bytes came");
}
