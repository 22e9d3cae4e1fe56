//! What passes between a client and an application, and when: heads and interim replies, errors,
//! targets, and requests whose first server has gone.

use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engines::EngineSpec;
use os::socket::Readiness;
use testkit::scripted::{Action, Body, Reply, Scripted};
use testkit::{Temporary, comes_true};

use crate::harness::{Running, connect, for_each_engine, site, start, take_head};
use crate::{
    GET, answer, ask, for_all_engines_at_once, front, in_front_of, nobody, scripted, upload,
};

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";

/// An interim reply reaches its client before the reply does (RFC 9110 §15.2), but none of HTTP/1.0
/// (Go 26089).
#[test]
fn interim_replies_are_passed_on() {
    let directory = site();
    let application = scripted(|_| {
        let pause = Action::Wait(Duration::from_millis(50));
        vec![Action::Send(HINTS.into()), pause, Action::Send(Reply::ok(b"ok").bytes())]
    });
    for_all_engines_at_once(|spec| {
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        assert_eq!(take_head(&mut client), HINTS.as_bytes(), "{}", spec.name);
        assert_eq!(answer(&mut BufReader::new(client)), (200, "ok".into()), "{}", spec.name);
        let mut old = connect(&server);
        old.write_all(b"GET /app/a HTTP/1.0\r\n\r\n").unwrap();
        let mut response = String::new();
        old.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 "), "{}: {response}", spec.name);
    });
}

/// A head goes out although nothing of its content has come (caddy 4247, 6293).
#[test]
fn a_head_goes_out_before_its_content_has_come() {
    let directory = site();
    let application = scripted(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        vec![Action::Send(head.into()), Action::Stall]
    });
    for_all_engines_at_once(|spec| {
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        assert!(take_head(&mut client).starts_with(b"HTTP/1.1 200 "), "{}", spec.name);
    });
}

/// A reply that goes silent in its content is broken off: its end would look whole.
#[test]
fn silence_in_a_reply_breaks_it_off() {
    let directory = site();
    let half = Reply::ok(b"hello").framed(Body::ClaimedLength(10)).bytes();
    let application = scripted(move |_| vec![Action::Send(half.clone()), Action::Stall]);
    for_all_engines_at_once(|spec| {
        let server = front(spec, &directory, &[&application], ", silence_ms = 200");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        let end = client.read_to_end(&mut Vec::new());
        let cause = end.expect_err("it is not whole").kind();
        assert_eq!(cause, std::io::ErrorKind::ConnectionReset, "{}", spec.name);
    });
}

/// An application's own error is sent as it is, whatever pages the host has, and no other server is
/// asked (openresty 190, angie 169, caddy 6259).
#[test]
fn an_error_of_the_application_is_its_own() {
    let directory = site();
    directory.file("site/ours.html", "ours");
    for_all_engines_at_once(|spec| {
        let failing = |status: &'static str| {
            let page = format!("HTTP/1.1 {status}\r\nContent-Length: 6\r\n\r\ntheirs");
            scripted(move |_| vec![Action::Send(page.clone().into_bytes())])
        };
        let servers = [failing("502 Bad Gateway"), failing("502 Bad Gateway")];
        let [one, other] = servers.each_ref().map(|it| format!("\"http://{}\"", it.address()));
        let server = start(
            &directory,
            &[
                &format!("engine.name={}", spec.name),
                &format!("host.route=[{{ path = \"/app/**\", proxy = [{one}, {other}] }}]"),
                "host.error_pages={ 502 = \"/ours.html\" }",
            ],
        );
        let post = "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
        let answered = ask(&mut connect(&server), post);
        assert_eq!(answered, (502, "theirs".into()), "{}", spec.name);
        let asked: usize = servers.iter().map(|it| it.requests().len()).sum();
        assert_eq!(asked, 1, "{}", spec.name);
    });
}

/// Routes are found by the canonical path, and the target reaches the application as it was sent
/// (RFC 3986 §6.2.2).
#[test]
fn routes_match_the_canonical_path_and_targets_stay_as_they_are() {
    let directory = site();
    for_all_engines_at_once(|spec| {
        let application = scripted(|_| vec![Action::Send(Reply::ok(b"app").bytes())]);
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        let targets = ["/x/../app/a", "/%61pp/a?b=%2f", "/app/a%20b"];
        for target in targets {
            let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(ask(&mut client, &request), (200, "app".into()), "{}: {target}", spec.name);
        }
        for target in ["/app/../", "/app/%2e%2e/index.html"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
            let (status, body) = ask(&mut client, &request);
            assert!(status < 400 && body != "app", "{}: {target}: {status}", spec.name);
        }
        let passed: Vec<String> = application.requests().into_iter().map(|it| it.target).collect();
        assert_eq!(passed, targets, "{}", spec.name);
    });
}

/// A server that cannot be reached has taken nothing of a body: the next one gets all of it (caddy
/// 1229, 5454, 7546).
#[test]
fn a_server_that_cannot_be_reached_costs_no_body() {
    let directory = site();
    let bodies = [5, 200_000].map(|len| vec![b'x'; len]);
    for_all_engines_at_once(|spec| {
        let application = scripted(|_| vec![Action::Send(Reply::ok(b"taken").bytes())]);
        let servers = [nobody(), application.address()];
        let keys = ", balance = \"round-robin\"";
        let server = in_front_of(spec, &directory, &servers, keys);
        for body in bodies.iter().chain(&bodies) {
            let mut client = connect(&server);
            upload(&mut client, "/app/", body, false);
            let answered = answer(&mut BufReader::new(client));
            assert_eq!(answered, (200, "taken".into()), "{}: {}", spec.name, body.len());
        }
        let taken = application.requests().into_iter().map(|it| it.body);
        assert!(taken.eq([&bodies[..], &bodies].concat()), "{}", spec.name);
    });
}

/// A connection that its application has closed after the last reply is not used for a request that
/// could not be sent again.
#[test]
fn a_post_is_not_lost_to_a_connection_that_has_been_closed() {
    let directory = site();
    for_each_engine(|spec| {
        let application = scripted(|_| vec![Action::Send(Reply::ok(b"ok").bytes()), Action::Close]);
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        let post = "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
        for number in 0..5 {
            assert_eq!(ask(&mut client, post), (200, "ok".into()), "{}: {number}", spec.name);
            assert!(comes_true(|| application.open() == 0)); // the close has arrived
        }
    });
}

/// A front of which one loop, or one partition, knows all calls.
fn on_one_cpu(engine: &str, directory: &Temporary, keys: &str) -> Running {
    let route = format!("host.route=[{{ path = \"/app/**\", {keys} }}]");
    start(directory, &[&format!("engine.name={engine}"), "partitions.cpus=[\"0\"]", &route])
}

/// Of several kept connections the one that was used last is used next, so that the others can end
/// at rest: those that have rested longest are those that their applications close.
#[test]
fn the_connection_that_was_used_last_is_used_next() {
    let directory = site();
    for_all_engines_at_once(|spec| {
        if spec.name == "processes" {
            return; // each process keeps what it has used
        }
        let first_is_over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&first_is_over);
        let application = scripted(move |asked| {
            while asked.target == "/app/second" && !is_over.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            vec![Action::Send(Reply::ok(b"ok").bytes())]
        });
        let proxy = format!("proxy = \"http://{}\"", application.address());
        let server = on_one_cpu(spec.name, &directory, &proxy);
        let [mut one, mut other] = [connect(&server), connect(&server)];
        other.write_all(b"GET /app/second HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert!(comes_true(|| application.open() == 1), "{}", spec.name);
        assert_eq!(ask(&mut one, GET).0, 200);
        // When the next request of a client is answered, the connection of its last one is kept.
        let file = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        assert_eq!(ask(&mut one, file).0, 200);
        first_is_over.store(true, Ordering::Release);
        assert_eq!(answer(&mut BufReader::new(&mut other)).0, 200);
        assert_eq!(ask(&mut other, file).0, 200);
        for _ in 0..3 {
            assert_eq!(ask(&mut one, GET).0, 200);
        }
        let used: Vec<usize> = application.requests().iter().map(|it| it.connection).collect();
        assert_eq!(used[2..], [0; 3], "{}: {used:?}", spec.name);
    });
}

/// A server that fails three times in a row is left out for a while.
#[test]
fn three_failures_in_a_row_leave_a_server_out() {
    let directory = site();
    testkit::side_by_side(&["event-loop", "threads", "fibers"], |engine| {
        let failing = scripted(|_| vec![Action::Close]);
        let well = scripted(|_| vec![Action::Send(Reply::ok(b"ok").bytes())]);
        let [one, other] = [&failing, &well].map(|it: &Scripted| it.address());
        let proxy = format!("proxy = [\"http://{one}\", \"http://{other}\"]");
        let server = on_one_cpu(engine, &directory, &(proxy + ", balance = \"round-robin\""));
        let mut client = connect(&server);
        let failed = (0..20).filter(|_| ask(&mut client, GET).0 == 502).count();
        assert_eq!((failed, failing.requests().len()), (3, 3), "{engine}");
    });
}

/// A front that leaves requests to their applications though their clients leave.
fn patient(spec: &EngineSpec, directory: &Temporary, keys: &str) -> (Running, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let keys = format!(", ignore_client_abort = true{keys}");
    (in_front_of(spec, directory, &[address], &keys), listener)
}

/// Sends a request, which the application gets, and leaves.
fn ask_and_leave(server: &Running, listener: &TcpListener, request: &str) -> TcpStream {
    let mut client = connect(server);
    client.write_all(request.as_bytes()).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    take_head(&mut stream);
    stream
}

fn is_left_open(stream: &TcpStream) -> bool {
    !os::socket::wait_ready(stream.as_fd(), Readiness::Readable, 200).unwrap()
}

/// Whether it is closed, which may take its time.
fn is_closed(stream: &TcpStream) -> bool {
    os::socket::wait_ready(stream.as_fd(), Readiness::Readable, 20_000).unwrap()
}

/// What has all of its request is not interrupted, and its reply is received.
#[test]
fn an_application_may_finish_though_its_client_leaves() {
    let directory = site();
    for_all_engines_at_once(|spec| {
        let (server, listener) = patient(spec, &directory, "");
        let mut stream = ask_and_leave(&server, &listener, GET);
        assert!(is_left_open(&stream), "{}", spec.name);
        let reply = Reply::ok(&[b'x'; 100_000]).bytes();
        stream.write_all(&reply).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{}: it has been received", spec.name);
        // The server goes on, and ends.
        let half = "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf";
        let mut cut_off = ask_and_leave(&server, &listener, half);
        let end = cut_off.read_to_end(&mut Vec::new());
        assert!(end.is_ok_and(|n| n == 4) || is_closed(&cut_off), "{}", spec.name);
        assert!(!server.stop_gracefully(Duration::from_secs(10)).unwrap().aborted);
    });
}

/// As many go on without a client as may be in flight.
#[test]
fn no_more_finish_without_a_client_than_may_be_in_flight() {
    let directory = site();
    for engine in ["event-loop", "threads"] {
        let spec = engines::find(engine).unwrap();
        let (server, listener) = patient(spec, &directory, ", in_flight_max = 1");
        let first = ask_and_leave(&server, &listener, GET);
        assert!(is_left_open(&first), "{engine}");
        let second = ask_and_leave(&server, &listener, GET);
        assert!(is_closed(&second), "{engine}");
        assert!(is_left_open(&first), "{engine}");
    }
}
