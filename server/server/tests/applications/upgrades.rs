//! Requests that ask for another protocol, on every engine: what follows an agreed one passes as it
//! is, in both directions at once, and a refused one was a request like any other.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use server::Server;
use testkit::comes_true;
use testkit::scripted::Action;

use crate::harness::{connect, for_each_engine, site, start, take_head};
use crate::{answer, for_all_engines_at_once, front, in_front_of, scripted};

/// What an application does with a connection whose first request has come: its head, and the
/// connection.
type Serve = dyn Fn(&str, &TcpStream) + Send + Sync;

/// An application that serves each connection in a thread of its own, and closes it then. It ends
/// with the test's process.
pub(crate) fn application(serve: impl Fn(&str, &TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let serve: Arc<Serve> = Arc::new(serve);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, serve) = (stream.unwrap(), Arc::clone(&serve));
            thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                let head = take_head(&mut stream);
                serve(&String::from_utf8(head).unwrap(), &stream);
            });
        }
    });
    address
}

pub(crate) const ASKED: &str = "GET /app/ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n\
                     Upgrade: websocket, Other/2\r\nSec-WebSocket-Key: k\r\n\r\n";

pub(crate) const AGREED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                        Connection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\r\n";

/// Sends back what comes until nothing more does.
pub(crate) fn echo(mut stream: &TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
}

/// Agrees, and passes on to another protocol.
fn agrees(protocol: impl Fn(&TcpStream) + Send + Sync + 'static) -> SocketAddr {
    application(move |head, mut stream| {
        assert!(head.contains("\r\nUpgrade: websocket, Other/2\r\nConnection: upgrade\r\n"));
        assert!(head.contains("\r\nSec-WebSocket-Key: k\r\n"), "{head}");
        stream.write_all(AGREED).unwrap();
        protocol(stream);
    })
}

/// A client whose request was agreed to.
pub(crate) fn switched(server: &Server) -> TcpStream {
    let mut client = connect(server);
    client.write_all(ASKED.as_bytes()).unwrap();
    expect_agreed(&mut client);
    client
}

fn expect_agreed(client: &mut TcpStream) {
    let head = String::from_utf8(take_head(client)).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(head.contains("\r\nUpgrade: websocket\r\n"), "{head}");
    assert!(head.contains("\r\nConnection: upgrade\r\n"), "{head}");
    assert!(head.contains("\r\nSec-WebSocket-Accept: a\r\n"), "{head}");
    assert!(!head.contains("Content-Length") && !head.contains("Transfer-Encoding"), "{head}");
}

pub(crate) fn pass(client: &mut TcpStream, bytes: &[u8]) {
    client.write_all(bytes).unwrap();
    let mut got = vec![0; bytes.len()];
    client.read_exact(&mut got).unwrap();
    assert_eq!(got, bytes);
}

#[test]
fn bytes_pass_as_they_are_after_an_upgrade() {
    let directory = site();
    for_each_engine(|spec| {
        let server = in_front_of(spec, &directory, &[agrees(echo)], "");
        // The engine watches a client as soon as it may speak.
        let is_prompt = || {
            let mut client = switched(&server);
            let began = os::clock::now();
            pass(&mut client, b"first");
            os::clock::now() - began < 50_000
        };
        assert!((0..20).any(|_| is_prompt()), "{}", spec.name);
        let mut client = switched(&server);
        // Also those that look like HTTP, and one by one.
        let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n0\r\n\r\n";
        pass(&mut client, request);
        request.iter().for_each(|byte| pass(&mut client, &[*byte]));
        pass(&mut client, &[0, 0xff, 0x81]);
    });
}

/// The status counts them for each application, on all workers, for as long as they last.
#[test]
fn tunnels_are_counted_in_the_status() {
    let directory = site();
    for_each_engine(|spec| {
        let address = agrees(echo);
        let server = in_front_of(spec, &directory, &[address], "");
        let are_open = |count: &str| {
            let line = format!("http://{address}: 1 server, {count} open");
            assert!(comes_true(|| server.status().contains(&line)), "{}: {line}", spec.name);
        };
        are_open("0 tunnels");
        let first = switched(&server);
        are_open("1 tunnel");
        let second = switched(&server);
        are_open("2 tunnels");
        drop(first);
        are_open("1 tunnel");
        drop(second);
        are_open("0 tunnels");
    });
}

/// More than all buffers on the way hold, both ways at once: neither end may wait for the other.
#[test]
fn both_directions_pass_at_once() {
    const BYTES: usize = 5 << 20;
    fn talk(stream: &TcpStream, own: u8, theirs: u8) {
        thread::scope(|scope| {
            scope.spawn(move || {
                let (mut stream, mut rest) = (stream, BYTES);
                let piece: Vec<u8> = (0..50_000_u32).map(|n| own.wrapping_add(n as u8)).collect();
                while rest > 0 {
                    let n = rest.min(piece.len());
                    stream.write_all(&piece[..n]).unwrap();
                    rest -= n;
                }
            });
            // Both ends begin to read late, when nothing fits any more.
            thread::sleep(Duration::from_millis(100));
            let (mut stream, mut got) = (stream, vec![0; BYTES]);
            stream.read_exact(&mut got).unwrap();
            let is_right =
                |(n, byte): (usize, &u8)| *byte == theirs.wrapping_add((n % 50_000) as u8);
            assert!(got.iter().enumerate().all(is_right));
        });
    }
    let directory = site();
    for_each_engine(|spec| {
        let other = agrees(|stream| talk(stream, 1, 7));
        let server = in_front_of(spec, &directory, &[other], "");
        let mut client = switched(&server);
        talk(&client, 7, 1);
        assert_eq!(client.read(&mut [0; 16]).unwrap(), 0, "{}", spec.name);
    });
}

/// What a client sends before the answer may be its next request: only the answer tells (pingora
/// 946, 947, CVE-2026-2833).
#[test]
fn nothing_is_passed_on_before_the_application_has_agreed() {
    let directory = site();
    for_each_engine(|spec| {
        let (told, asked) = channel();
        let told = Mutex::new(told);
        let late = application(move |_, mut stream| {
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let early = stream.read(&mut [0; 16]);
            told.lock().unwrap().send(early.is_err()).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.write_all(&[AGREED, b"first "].concat()).unwrap();
            echo(stream);
        });
        let server = in_front_of(spec, &directory, &[late], "");
        let mut client = connect(&server);
        client.write_all(&[ASKED.as_bytes(), b"early "].concat()).unwrap();
        thread::sleep(Duration::from_millis(50));
        client.write_all(b"later ").unwrap();
        expect_agreed(&mut client);
        let mut got = [0; 18];
        client.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"first early later ", "{}", spec.name);
        assert!(asked.recv().unwrap(), "{}: bytes came before the answer", spec.name);
    });
}

/// What follows a refused request is HTTP, and none of it is the application's (kemal 767).
#[test]
fn a_refused_upgrade_is_a_request_like_any_other() {
    let directory = site();
    for_each_engine(|spec| {
        for refusal in ["200 OK", "426 Upgrade Required"] {
            let reply = format!("HTTP/1.1 {refusal}\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nno");
            let refuses = scripted(move |_| vec![Action::Send(reply.clone().into_bytes())]);
            let server = front(spec, &directory, &[&refuses], "");
            let mut client = connect(&server);
            let file = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
            client.write_all([ASKED, file, ASKED, file].concat().as_bytes()).unwrap();
            let mut reader = BufReader::new(client);
            let status = refusal[..3].parse().unwrap();
            for _ in 0..2 {
                assert_eq!(answer(&mut reader), (status, "no".into()), "{}", spec.name);
                assert_eq!(answer(&mut reader), (200, "<h1>Rope</h1>".into()), "{}", spec.name);
            }
            let requests = refuses.requests();
            assert_eq!(requests.len(), 2, "{}", spec.name);
            assert_eq!(refuses.connections().len(), 1, "{}: it is kept", spec.name);
        }
    });
}

#[test]
fn only_what_was_asked_for_is_switched_to() {
    let directory = site();
    for_each_engine(|spec| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let heads = Arc::clone(&seen);
        let hasty = application(move |head, mut stream| {
            heads.lock().unwrap().push(head.to_owned());
            stream.write_all(AGREED).unwrap();
        });
        let server = in_front_of(spec, &directory, &[hasty], ", first_byte_ms = 20000");
        let fields = "Host: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
        let requests = [
            "GET /app/ HTTP/1.1\r\nHost: h\r\n\r\n".into(),
            "GET /app/ HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n".into(),
            "GET /app/ HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n\r\n".into(),
            format!("GET /app/ HTTP/1.0\r\n{fields}\r\n"),
            format!("POST /app/ HTTP/1.1\r\n{fields}\r\n"),
            format!("GET /app/ HTTP/1.1\r\n{fields}Content-Length: 1\r\n\r\nx"),
            format!("GET /app/ HTTP/1.1\r\n{}\r\n", fields.replace("websocket", "h2c")),
        ];
        for request in &requests {
            let mut client = connect(&server);
            client.write_all(request.as_bytes()).unwrap();
            let head = String::from_utf8(take_head(&mut client)).unwrap();
            assert!(head.starts_with("HTTP/1.1 502 "), "{}: {request}: {head}", spec.name);
        }
        let heads = seen.lock().unwrap();
        assert_eq!(heads.len(), requests.len());
        assert!(heads.iter().all(|head| !head.to_lowercase().contains("upgrade")), "{heads:?}");
    });
}

#[test]
fn the_end_of_each_direction_is_passed_on() {
    let directory = site();
    for_each_engine(|spec| {
        // The client ends first: the application hears all of it, and then answers.
        let (told, heard) = channel();
        let told = Mutex::new(told);
        let patient = agrees(move |mut stream| {
            let mut all = Vec::new();
            // All is full when it begins to read, and the client has ended when it answers.
            thread::sleep(Duration::from_millis(200));
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
            thread::sleep(Duration::from_millis(1500));
            stream.write_all(b"!").unwrap();
            told.lock().unwrap().send(()).unwrap();
        });
        let server = in_front_of(spec, &directory, &[patient], "");
        let long = vec![b'x'; 3_000_000];
        let mut client = switched(&server);
        client.write_all(&long).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert!(got == [&*long, b"!"].concat(), "{}: {}", spec.name, got.len());
        heard.recv_timeout(Duration::from_secs(10)).unwrap();
        // The application ends first.
        let brief = agrees(move |mut stream| {
            stream.write_all(&[b'y'; 300_000]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let _ = stream.read_to_end(&mut Vec::new()); // or else it would be a reset
        });
        let server = in_front_of(spec, &directory, &[brief], "");
        let mut client = switched(&server);
        client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap(); // no request any more
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert!(got == [b'y'; 300_000], "{}: {}", spec.name, got.len());
        // A client that has gone takes the connection of the application with it.
        let (told, heard) = channel();
        let told = Mutex::new(told);
        let server = in_front_of(
            spec,
            &directory,
            &[agrees(move |stream| {
                echo(stream);
                told.lock().unwrap().send(()).unwrap();
            })],
            "",
        );
        drop(switched(&server));
        heard.recv_timeout(Duration::from_secs(10)).unwrap();
    });
}

#[test]
fn a_connection_on_which_nothing_passes_is_ended() {
    let directory = site();
    for_all_engines_at_once(|spec| {
        // It is the time of the connection that counts, and no other that is shorter.
        let keys = ", tunnel_idle_ms = 8000, silence_ms = 200, first_byte_ms = 20000";
        let (told, heard) = channel();
        let told = Mutex::new(told);
        let other = agrees(move |stream| {
            echo(stream);
            told.lock().unwrap().send(()).unwrap();
        });
        let address =
            format!("host.route=[{{ path = \"/app/**\", proxy = [\"http://{other}\"]{keys} }}]");
        let name = format!("engine.name={}", spec.name);
        let server = start(&directory, &[&name, &address, "timeouts.write_ms=2000"]);
        let mut client = switched(&server);
        let began = os::clock::now();
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(3000));
            pass(&mut client, b"still there");
        }
        assert_eq!(client.read(&mut [0; 16]).unwrap(), 0, "{}: an orderly end", spec.name);
        assert!(os::clock::now() - began >= 13_900_000, "{}", spec.name);
        heard.recv_timeout(Duration::from_secs(10)).unwrap();
    });
}

/// caddy 5471, 6420, 7222, 4895.
#[test]
fn a_stop_leaves_a_switched_connection_its_time_and_no_more() {
    let directory = site();
    for_each_engine(|spec| {
        // One that ends in time is no reason to cut anything off.
        let server = in_front_of(spec, &directory, &[agrees(echo)], "");
        let mut client = switched(&server);
        let ending = thread::spawn(move || {
            for _ in 0..3 {
                thread::sleep(Duration::from_millis(100));
                pass(&mut client, b"goes on");
            }
        });
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        ending.join().unwrap();
        assert_eq!((summary.requests, summary.aborted), (1, false), "{}", spec.name);
        // It is in the log when it was cut off, with the bytes that its client got.
        let log = directory.path().join(format!("{}.log", spec.name));
        let route =
            format!("host.route=[{{ path = \"/app/**\", proxy = [\"http://{}\"] }}]", agrees(echo));
        let name = format!("engine.name={}", spec.name);
        let path = format!("log.path={}", log.display());
        let server = start(&directory, &[&name, &route, "log.access=combined", &path]);
        let mut client = switched(&server);
        pass(&mut client, b"seven b");
        let summary = server.stop_gracefully(Duration::from_millis(300)).unwrap();
        assert!(summary.aborted, "{}", spec.name);
        assert!(!matches!(client.read(&mut [0; 16]), Ok(1..)), "{}", spec.name);
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains("\"GET /app/ws HTTP/1.1\" 101 7 "), "{}: {log}", spec.name);
        assert_eq!(log.lines().count(), 1, "{}: {log}", spec.name);
    });
}
