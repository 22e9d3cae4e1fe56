//! What one application may hold of a server, and what becomes of requests beyond that.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use engines::EngineSpec;
use os::socket::Readiness;
use server::Server;
use testkit::scripted::{Action, Reply, Scripted};
use testkit::sockets::{CLOSE_WAIT, ESTABLISHED, TcpSocket, tcp_sockets};
use testkit::{Temporary, comes_true};

use crate::harness::{Running, connect, for_each_engine, site, start, take_head};
use crate::{GET, answer, ask, for_all_engines_at_once, front, in_front_of, scripted};

/// As many requests as may be are with the application, some wait, and more are refused.
#[test]
fn what_one_application_may_hold_is_bounded() {
    let directory = site();
    for_each_engine(|spec| {
        let application = scripted(|asked| match asked.target.as_str() {
            "/app/first" => vec![
                Action::Wait(Duration::from_millis(500)),
                Action::Send(Reply::ok(b"first").bytes()),
            ],
            _ => vec![Action::Send(Reply::ok(b"later").bytes())],
        });
        let directory = &directory;
        let keys = ", in_flight_max = 1, queue_max = 1";
        let server = front(spec, directory, &[&application], keys);
        let send = |path: &str| {
            let mut client = connect(&server);
            write!(client, "GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            client
        };
        // On an engine with several loops each has bounds of its own: all clients are of one.
        let mut first = send("/app/first");
        assert!(comes_true(|| application.requests().len() == 1));
        let others: Vec<_> = (0..8).map(|_| send("/app/later")).collect();
        let mut file = connect(&server);
        assert_eq!(ask(&mut file, "GET / HTTP/1.1\r\nHost: h\r\n\r\n").0, 200);
        let statuses = others.into_iter().map(|client| answer(&mut BufReader::new(client)).0);
        let statuses: Vec<u16> = statuses.collect();
        assert!(statuses.contains(&503), "{}: {statuses:?}", spec.name);
        assert!(statuses.contains(&200), "{}: {statuses:?}", spec.name);
        assert!(statuses.iter().all(|status| [200, 503].contains(status)));
        assert_eq!(answer(&mut BufReader::new(&mut first)), (200, "first".into()));
        assert!(application.under_way_max() <= server_workers(&server));
    });
}

/// Requests for files never wait for an application: it gets half of the threads, also where its
/// own bounds allow for more.
#[test]
fn an_application_has_half_of_a_bounded_engines_threads() {
    let directory = site();
    // Where a request that waits keeps a thread, none waits beyond those.
    for (parks, keys) in
        [("engine.knobs.park_idle=1", ", queue_max = 0"), ("engine.knobs.park_idle=0", "")]
    {
        let application = scripted(|_| vec![Action::Stall]);
        let server = front_of_four_threads(&directory, &application, parks, keys);
        let mut stalled: Vec<TcpStream> = (0..2).map(|_| connect(&server)).collect();
        stalled.iter_mut().for_each(|client| client.write_all(GET.as_bytes()).unwrap());
        assert!(comes_true(|| application.requests().len() == 2));
        for _ in 0..8 {
            assert_eq!(ask(&mut connect(&server), GET).0, 503);
            let file = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            assert_eq!(ask(&mut connect(&server), file).0, 200);
        }
        assert_eq!(application.requests().len(), 2);
        // A client that leaves makes room for another.
        drop(stalled.pop());
        let mut others = Vec::new();
        assert!(comes_true(|| {
            let mut next = connect(&server);
            next.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            next.write_all(GET.as_bytes()).unwrap();
            let _ = next.read(&mut [0; 16]);
            others.push(next);
            application.requests().len() == 3
        }));
    }
}

/// However few connections there may be, an application that hangs leaves half of them to others:
/// those that ask it wait neither with it nor for it beyond that.
#[test]
fn an_application_has_half_of_the_connections() {
    const CONNECTIONS: usize = 8;
    let directory = site();
    for_all_engines_at_once(|spec| {
        let application = scripted(|_| vec![Action::Stall]);
        let route = format!(
            "host.route=[{{ path = \"/app/**\", proxy = [\"http://{}\"] }}]",
            application.address()
        );
        let engine = format!("engine.name={}", spec.name);
        let most = format!("limits.connections_max={CONNECTIONS}");
        let server = start(&directory, &[&engine, &most, "partitions.cpus=[\"0\"]", &route]);
        let mut asking: Vec<TcpStream> = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut client = connect(&server);
            client.write_all(GET.as_bytes()).unwrap();
            asking.push(client);
        }
        // Those that are refused rest, and make room.
        for _ in 0..CONNECTIONS {
            assert_eq!(ask(&mut connect(&server), "GET / HTTP/1.1\r\nHost: h\r\n\r\n").0, 200);
        }
        assert!(application.under_way_max() <= CONNECTIONS / 2, "{}", spec.name);
    });
}

fn front_of_four_threads(
    directory: &Temporary,
    application: &Scripted,
    parks: &str,
    keys: &str,
) -> Running {
    let address = application.address();
    let route =
        format!("host.route=[{{ path = \"/app/**\", proxy = [\"http://{address}\"]{keys} }}]");
    let pool = ["engine.name=thread-pool", "engine.knobs.threads=4", parks];
    start(directory, &[&pool[..], &[&route]].concat())
}

/// A pool has fewer threads than clients: requests beyond half of them wait without a thread.
#[test]
fn requests_wait_parked_for_an_application() {
    let directory = site();
    // The application holds requests until it is opened.
    let (is_open, held) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (opened, holding) = (Arc::clone(&is_open), Arc::clone(&held));
    let application = scripted(move |asked| {
        holding.lock().unwrap().push(asked.target.clone());
        while !opened.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        vec![Action::Wait(Duration::from_millis(20)), Action::Send(Reply::ok(b"slow").bytes())]
    });
    let parks = "engine.knobs.park_idle=1";
    let server = front_of_four_threads(&directory, &application, parks, ", queue_ms = 600000");
    let target = |number: usize| format!("/app/{number}");
    let mut clients: Vec<Option<TcpStream>> = (0..20).map(|_| Some(connect(&server))).collect();
    for (number, client) in clients.iter_mut().flatten().enumerate() {
        write!(client, "GET {} HTTP/1.1\r\nHost: h\r\n\r\n", target(number)).unwrap();
    }
    assert!(comes_true(|| held.lock().unwrap().len() == 2));
    // One that leaves while it waits is not served.
    let waits = |number: &usize| !held.lock().unwrap().contains(&target(*number));
    let left = (0..20).find(waits).expect("two are with the application");
    let port = clients[left].take().expect("it is there").local_addr().unwrap().port();
    let is_its = |socket: &TcpSocket| {
        socket.remote_port == port && [ESTABLISHED, CLOSE_WAIT].contains(&socket.state)
    };
    assert!(comes_true(|| !tcp_sockets().iter().any(is_its)), "the server closes it, too");
    let file = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    assert_eq!(ask(&mut connect(&server), file).0, 200);
    assert_eq!(held.lock().unwrap().len(), 2, "the others wait");
    is_open.store(true, Ordering::Release);
    for client in clients.iter_mut().flatten() {
        assert_eq!(answer(&mut BufReader::new(client)), (200, "slow".into()));
    }
    assert_eq!((application.under_way_max(), application.requests().len()), (2, 19));
    // One that waits for too long is told so.
    let impatient = front_of_four_threads(&directory, &application, parks, ", queue_ms = 20");
    let mut clients: Vec<TcpStream> = (0..20).map(|_| connect(&impatient)).collect();
    clients.iter_mut().for_each(|client| client.write_all(GET.as_bytes()).unwrap());
    let status = |client: &mut TcpStream| answer(&mut BufReader::new(client)).0;
    let statuses: Vec<u16> = clients.iter_mut().map(status).collect();
    assert!(statuses.contains(&503) && statuses.contains(&200), "{statuses:?}");
}

/// A front before an application that listens in the file system with room for few connections.
fn front_of_a_socket_file(spec: &EngineSpec, directory: &Temporary, keys: &str) -> Running {
    let path = directory.path().join("app.sock");
    let route =
        format!("host.route=[{{ path = \"/**\", proxy = [\"unix:{}\"]{keys} }}]", path.display());
    start(directory, &[&format!("engine.name={}", spec.name), &route])
}

/// Makes connections until the backlog of a socket in the file system is full.
fn fill_backlog(listener: &UnixListener) -> Vec<OwnedFd> {
    os::socket::set_backlog(listener.as_fd(), 1).unwrap();
    let path = listener.local_addr().unwrap().as_pathname().unwrap().to_owned();
    std::iter::from_fn(|| os::socket::connect_unix(&path).ok()).collect()
}

/// Takes connections until one of them brings something, and answers that.
fn answer_next(listener: UnixListener) -> JoinHandle<UnixStream> {
    std::thread::spawn(move || {
        let mut taken = listener.incoming().map(Result::unwrap);
        let brings = |stream: &UnixStream| {
            let socket = stream.as_fd();
            os::socket::wait_ready(socket, Readiness::Readable, 20_000).unwrap();
            os::socket::has_input(socket)
        };
        let mut stream = taken.find(brings).unwrap();
        stream.write_all(&Reply::ok(b"room").bytes()).unwrap();
        stream
    })
}

/// A socket in the file system refuses at once where TCP would wait (connect(2), EAGAIN).
#[test]
fn a_full_backlog_is_waited_for_and_then_answered_with_503() {
    for_each_engine(|spec| {
        let directory = site();
        let listener = UnixListener::bind(directory.path().join("app.sock")).unwrap();
        let waiting = fill_backlog(&listener);
        let impatient = front_of_a_socket_file(spec, &directory, ", connect_ms = 200");
        let mut client = connect(&impatient);
        client.write_all(GET.as_bytes()).unwrap();
        let head = String::from_utf8(take_head(&mut client)).unwrap();
        assert!(head.starts_with("HTTP/1.1 503 "), "{}: {head}", spec.name);
        assert!(head.contains("\r\nRetry-After: "), "{}: {head}", spec.name);
        let patient = front_of_a_socket_file(spec, &directory, "");
        let mut client = connect(&patient);
        client.write_all(GET.as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50)); // it is turned away more than once
        drop(waiting);
        let answered = answer_next(listener);
        assert_eq!(answer(&mut BufReader::new(client)), (200, "room".into()), "{}", spec.name);
        answered.join().unwrap();
    });
}

/// The kept connection ends just when the application is to get a body, and another finds no room.
#[test]
fn a_body_may_come_while_a_backlog_is_full() {
    for_each_engine(|spec| {
        let directory = site();
        let listener = UnixListener::bind(directory.path().join("app.sock")).unwrap();
        let server = front_of_a_socket_file(spec, &directory, "");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        let (mut kept, _) = listener.accept().unwrap();
        take_request_head(&mut kept);
        kept.write_all(&Reply::ok(b"first").bytes()).unwrap();
        assert_eq!(answer(&mut BufReader::new(&mut client)), (200, "first".into()));
        let waiting = fill_backlog(&listener);
        let put = "PUT /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";
        client.write_all(put.as_bytes()).unwrap();
        take_request_head(&mut kept);
        kept.shutdown(Shutdown::Write).unwrap();
        assert_eq!(kept.read(&mut [0]).unwrap(), 0, "it has noticed");
        std::thread::sleep(Duration::from_millis(50)); // it is turned away more than once
        client.write_all(b"hello").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        drop(waiting);
        let answered = answer_next(listener);
        assert_eq!(answer(&mut BufReader::new(client)), (200, "room".into()), "{}", spec.name);
        let mut stream = answered.join().unwrap();
        take_request_head(&mut stream);
        stream.read_exact(&mut [0; 5]).unwrap();
    });
}

/// Reads the head of a request, and nothing of its body.
fn take_request_head(stream: &mut UnixStream) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut next = [0];
        stream.read_exact(&mut next).unwrap();
        head.extend(next);
    }
}

/// The number of loops of a server: bounds are for each.
pub(crate) fn server_workers(_: &Server) -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A client takes nothing of a reply: most of it stays with the application.
#[test]
fn little_of_a_reply_is_received_before_the_client_takes_it() {
    const RECEIVED_BYTES_MAX: usize = 2 * 64 * 1024;
    let directory = site();
    for_each_engine(|spec| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = in_front_of(spec, &directory, &[listener.local_addr().unwrap()], "");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        let (mut application, _) = listener.accept().unwrap();
        take_head(&mut application);
        application.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").unwrap();
        application.set_nonblocking(true).unwrap();
        let (mut sent, piece) = (0, vec![b'x'; 64 * 1024]);
        let mut idle_ms = 0;
        while idle_ms < 500 {
            match application.write(&piece) {
                Ok(n) => (sent, idle_ms) = (sent + n, 0),
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(10));
                    idle_ms += 10;
                }
            }
        }
        let kept = sent.saturating_sub(between(&application) + between(&client));
        assert!(sent < 100_000_000, "{}: {sent}", spec.name);
        assert!(kept <= RECEIVED_BYTES_MAX, "{}: {kept} of {sent}", spec.name);
        server.stop_gracefully(Duration::from_millis(1)).unwrap();
    });
}

/// How many bytes are in the queues of a connection, in both directions.
fn between(stream: &TcpStream) -> usize {
    let [own, peer] = [stream.local_addr(), stream.peer_addr()].map(|at| at.unwrap().port());
    let is_either = |socket: &TcpSocket| {
        let ports = [socket.local_port, socket.remote_port];
        socket.state == ESTABLISHED && (ports == [own, peer] || ports == [peer, own])
    };
    let sockets = tcp_sockets().into_iter().filter(is_either);
    sockets.map(|socket| socket.unsent + socket.unread).sum()
}
