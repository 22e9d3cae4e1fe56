//! Requests that applications answer, on every engine: real servers, and
//! applications that do as a script says.

mod ahead;
mod balancing;
mod bounds;
mod browser;
mod cgi;
mod changes;
mod fastcgi;
mod fastcgi_server;
mod gateways;
mod go_and_node;
#[path = "../it/harness.rs"]
mod harness;
mod health;
mod hostile_replies;
mod local_redirects;
mod passing;
mod php;
mod real_servers;
#[path = "../it/sender.rs"]
mod sender;
mod sendfile;
mod smuggling;
mod stages;
mod trailers;
#[path = "../it/under_test.rs"]
mod under_test;
mod upgrades;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

use engines::EngineSpec;
use testkit::scripted::{Action, Body, ReceivedRequest, Reply, Scripted};
use testkit::{Temporary, comes_true};

use bounds::server_workers;
use harness::{Running, connect, for_each_engine, site, start, take_head};

/// A server of a site whose route `/app/**` leads to an application.
fn front(
    spec: &EngineSpec,
    directory: &Temporary,
    applications: &[&Scripted],
    keys: &str,
) -> Running {
    let servers: Vec<SocketAddr> = applications.iter().map(|it| it.address()).collect();
    in_front_of(spec, directory, &servers, keys)
}

/// Runs `test`, which does little but wait, for every engine under test, all of them at a time.
fn for_all_engines_at_once(test: impl Fn(&'static EngineSpec) + Sync) {
    let names: Vec<&str> = under_test::engines().iter().map(|spec| spec.name).collect();
    let test = |name: &&str| test(engines::find(name).expect("it was just listed"));
    testkit::at_a_time(names.len(), &names, test);
}

fn in_front_of(
    spec: &EngineSpec,
    directory: &Temporary,
    servers: &[SocketAddr],
    keys: &str,
) -> Running {
    let servers: Vec<String> = servers.iter().map(|it| format!("\"http://{it}\"")).collect();
    let servers = servers.join(", ");
    let route = format!("host.route=[{{ path = \"/app/**\", proxy = [{servers}]{keys} }}]");
    start(directory, &[&format!("engine.name={}", spec.name), &route])
}

/// An address at which no process listens: a port that was free a moment ago may be another's.
fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 1))
}

fn scripted(script: impl Fn(&ReceivedRequest) -> Vec<Action> + Send + Sync + 'static) -> Scripted {
    Scripted::start(os::clock::now, script)
}

/// An application that repeats the target and the body of each request.
fn echo() -> Scripted {
    scripted(|_| vec![Action::Send(Reply::ok(b"echo").bytes())])
}

fn ask(stream: &mut TcpStream, request: &str) -> (u16, String) {
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut BufReader::new(stream))
}

/// Reads a response with a length, or in chunks. Returns its status and its body.
fn answer(stream: &mut impl BufRead) -> (u16, String) {
    let (head, body) = response(stream);
    (head[9..12].parse().unwrap(), String::from_utf8(body).unwrap())
}

/// Reads a response with a length, or in chunks. Returns its head and its body.
fn response(stream: &mut impl BufRead) -> (String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_until(b'\n', &mut head).unwrap(), 0, "closed in a head");
    }
    let head = String::from_utf8(head).unwrap();
    let body = body(&head, stream);
    (head, body)
}

/// Reads the body that a head announces.
fn body(head: &str, stream: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    if let Some((_, rest)) = head.split_once("Content-Length: ") {
        let len: usize = rest.split("\r\n").next().unwrap().parse().unwrap();
        body.resize(len, 0);
        stream.read_exact(&mut body).unwrap();
    } else if head.contains("Transfer-Encoding: chunked") {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).unwrap();
            assert!(chunk.ends_with(b"\r\n"));
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    body
}

/// An application that takes one connection and answers each of its requests, with bodies framed in
/// either way, until the connection ends. Returns the bodies then.
fn takes_bodies(listener: TcpListener) -> JoinHandle<Vec<Vec<u8>>> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut bodies = Vec::new();
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                if reader.read_until(b'\n', &mut head).unwrap_or(0) == 0 {
                    return bodies;
                }
            }
            bodies.push(body(&String::from_utf8(head).unwrap(), &mut reader));
            stream.write_all(&Reply::ok(b"taken").bytes()).unwrap();
        }
    })
}

const GET: &str = "GET /app/a?b HTTP/1.1\r\nHost: h\r\n\r\n";

#[test]
fn requests_go_to_the_application_and_others_to_files() {
    let directory = site();
    for_each_engine(|spec| {
        let application = echo();
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        for _ in 0..5 {
            assert_eq!(ask(&mut client, GET), (200, "echo".into()), "{}", spec.name);
            let file = ask(&mut client, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(file, (200, "<h1>Rope</h1>".into()));
        }
        // All on one connection, which is kept from request to request.
        assert_eq!(application.connections().len(), 1, "{}", spec.name);
        let requests = application.requests();
        assert_eq!(requests.len(), 5);
        assert!(requests.iter().all(|asked| asked.target == "/app/a?b"));
        assert!(requests[0].head.contains("\r\nX-Forwarded-For: 127.0.0.1\r\n"));
        drop(client);
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!((summary.requests, summary.aborted), (10, false));
        assert!(comes_true(|| application.open() == 0), "{}: kept connections end too", spec.name);
    });
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let directory = site();
    for_each_engine(|spec| {
        let application = scripted(|asked| {
            // Later requests are answered sooner.
            let ms = if asked.target.ends_with('0') { 100 } else { 0 };
            let reply = Reply::ok(asked.target.as_bytes());
            vec![Action::Wait(Duration::from_millis(ms)), Action::Send(reply.bytes())]
        });
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        let requests: String = (0..6)
            .map(|number| match number % 2 {
                0 => format!("GET /app/{number} HTTP/1.1\r\nHost: h\r\n\r\n"),
                _ => "GET / HTTP/1.1\r\nHost: h\r\n\r\n".into(),
            })
            .collect();
        client.write_all(requests.as_bytes()).unwrap();
        let mut reader = BufReader::new(client);
        for number in 0..6 {
            let expected = match number % 2 {
                0 => format!("/app/{number}"),
                _ => "<h1>Rope</h1>".into(),
            };
            assert_eq!(answer(&mut reader), (200, expected), "{}", spec.name);
        }
    });
}

/// Replies framed in each way, of sizes that fit no buffer.
#[test]
fn replies_arrive_whole_however_they_are_framed() {
    let directory = site();
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    for_each_engine(|spec| {
        for framing in [Body::Length, Body::Chunks(vec![1, 70_000, 9]), Body::UntilClose] {
            let ends = framing == Body::UntilClose;
            let reply = Reply::ok(&body).framed(framing.clone()).bytes();
            let application = scripted(move |_| {
                let close = ends.then_some(Action::Close);
                [Action::Send(reply.clone())].into_iter().chain(close).collect()
            });
            let server = front(spec, &directory, &[&application], "");
            let mut client = connect(&server);
            client.write_all(GET.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(50)); // sockets and queues fill
            let (status, got) = answer(&mut BufReader::new(&mut client));
            assert!(status == 200 && got.as_bytes() == body, "{}: {framing:?}", spec.name);
            let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
            assert_eq!(summary.requests, 1);
        }
    });
}

/// caddy 677, nginx 1505.
#[test]
fn an_event_arrives_before_the_reply_ends() {
    let directory = site();
    for_each_engine(|spec| {
        let application = scripted(|_| {
            let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            vec![Action::Send(head.to_vec()), Action::Send(b"data: 1\n\n".to_vec()), Action::Stall]
        });
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        takes_event(&mut client, spec);
    });
}

/// Takes the beginning of a reply without end: its head and one event.
fn takes_event(client: &mut TcpStream, spec: &EngineSpec) {
    let head = String::from_utf8(take_head(client)).unwrap();
    assert!(head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{head}");
    let mut event = [0; 14];
    client.read_exact(&mut event).unwrap();
    assert_eq!(&event, b"9\r\ndata: 1\n\n\r\n", "{}", spec.name);
}

/// Sends a request with a body.
fn upload(client: &mut TcpStream, target: &str, body: &[u8], is_chunked: bool) {
    let framing = match is_chunked {
        true => "Transfer-Encoding: chunked".into(),
        false => format!("Content-Length: {}", body.len()),
    };
    let head = format!("POST {target} HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    for piece in body.chunks(50_000) {
        if is_chunked {
            write!(client, "{:x}\r\n", piece.len()).unwrap();
        }
        client.write_all(piece).unwrap();
        if is_chunked {
            client.write_all(b"\r\n").unwrap();
        }
    }
    if is_chunked {
        client.write_all(b"0\r\n\r\n").unwrap();
    }
}

/// Uploads larger than all buffers on their way, with a length and in chunks.
#[test]
fn bodies_of_requests_arrive_whole() {
    let directory = site();
    let body: Vec<u8> = (0..2_000_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    for_each_engine(|spec| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let servers = [listener.local_addr().unwrap()];
        let application = takes_bodies(listener);
        let server = in_front_of(spec, &directory, &servers, "");
        let mut client = connect(&server);
        for is_chunked in [false, true] {
            upload(&mut client, "/app/up", &body, is_chunked);
            assert_eq!(answer(&mut BufReader::new(&mut client)).0, 200, "{}", spec.name);
        }
        assert_eq!(ask(&mut client, GET).0, 200, "the connection goes on");
        drop(client);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
        let bodies = application.join().unwrap();
        assert!(bodies == [&*body, &*body, b""], "{}", spec.name);
    });
}

#[test]
fn a_client_that_waits_is_invited_when_the_application_is_there() {
    let directory = site();
    for_each_engine(|spec| {
        let application = echo();
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        let head = "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\
                    Expect: 100-continue\r\n\r\n";
        client.write_all(head.as_bytes()).unwrap();
        assert_eq!(take_head(&mut client), b"HTTP/1.1 100 Continue\r\n\r\n", "{}", spec.name);
        assert_eq!(ask(&mut client, "abc").0, 200);
        assert_eq!(application.requests()[0].body, b"abc");
        // Without an application no client is invited: the status comes at once.
        let without = in_front_of(spec, &directory, &[nobody()], "");
        let mut late = connect(&without);
        late.write_all(head.as_bytes()).unwrap();
        let refusal = take_head(&mut late);
        assert!(refusal.starts_with(b"HTTP/1.1 502 "), "{}", String::from_utf8_lossy(&refusal));
    });
}

/// What becomes of a request if its application does not answer in order.
#[test]
fn failures_have_their_status_and_the_server_goes_on() {
    let directory = site();
    for_each_engine(|spec| {
        let application = scripted(|asked| match asked.target.as_str() {
            "/app/close" => vec![Action::Close],
            "/app/reset" => vec![Action::Reset],
            "/app/nonsense" => vec![Action::Send(b"SSH-2.0-x\r\n\r\n".to_vec())],
            "/app/stall" => vec![Action::Stall],
            _ => vec![Action::Send(Reply::ok(b"ok").bytes())],
        });
        // Only a request that is to be late may be: on a busy machine each of them takes its time.
        let server = front(spec, &directory, &[&application], "");
        let impatient = front(spec, &directory, &[&application], ", first_byte_ms = 200");
        let (mut client, mut hurried) = (connect(&server), connect(&impatient));
        for (path, status) in [
            ("/app/close", 502),
            ("/app/reset", 502),
            ("/app/nonsense", 502),
            ("/app/stall", 504),
            ("/app/ok", 200),
        ] {
            let client = if status == 504 { &mut hurried } else { &mut client };
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(ask(client, &request).0, status, "{}: {path}", spec.name);
        }
    });
}

#[test]
fn a_reply_that_breaks_off_is_broken_off() {
    let directory = site();
    for_each_engine(|spec| {
        let reply = Reply::ok(b"hello").framed(Body::ClaimedLength(10)).bytes();
        let application = scripted(move |_| vec![Action::Send(reply.clone()), Action::Close]);
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        let mut got = Vec::new();
        let end = client.read_to_end(&mut got);
        assert!(end.is_err(), "{}: an orderly end would look whole: {got:?}", spec.name);
    });
}

/// hyper 2136: a server closes a kept connection just when the next request is on its way.
#[test]
fn a_kept_connection_that_has_ended_costs_no_request() {
    let directory = site();
    for_each_engine(|spec| {
        // Each connection answers once and then closes, without saying so.
        let application = scripted(|_| vec![Action::Send(Reply::ok(b"ok").bytes()), Action::Close]);
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        for number in 0..200 {
            assert_eq!(ask(&mut client, GET), (200, "ok".into()), "{}: {number}", spec.name);
        }
    });
}

/// hyper 2136: of several kept connections that have ended, none is tried after another.
#[test]
fn a_request_is_sent_again_on_a_new_connection() {
    let directory = site();
    for_each_engine(|spec| {
        // Each connection ends with its second request.
        let application = scripted(|request| match request.request {
            0 => vec![
                Action::Wait(Duration::from_millis(100)),
                Action::Send(Reply::ok(b"ok").bytes()),
            ],
            _ => vec![Action::Close],
        });
        let server = front(spec, &directory, &[&application], "");
        let mut clients = [(); 4].map(|()| connect(&server));
        clients.iter_mut().for_each(|client| client.write_all(GET.as_bytes()).unwrap());
        for client in &mut clients {
            assert_eq!(answer(&mut BufReader::new(client)).0, 200, "{}", spec.name);
        }
        let before = application.requests().len();
        assert_eq!(ask(&mut clients[0], GET), (200, "ok".into()), "{}", spec.name);
        assert_eq!(application.requests().len(), before + 2, "{}", spec.name);
    });
}

#[test]
fn a_server_that_is_down_is_left_out() {
    let directory = site();
    for_each_engine(|spec| {
        let there = echo();
        let server = in_front_of(spec, &directory, &[nobody(), there.address()], "");
        let mut client = connect(&server);
        for number in 0..20 {
            assert_eq!(ask(&mut client, GET).0, 200, "{}: {number}", spec.name);
        }
        let without = in_front_of(spec, &directory, &[nobody()], "");
        assert_eq!(ask(&mut connect(&without), GET).0, 502, "{}", spec.name);
    });
}

/// A server that neither accepts connections nor refuses them: its backlog is full.
fn deaf() -> (SocketAddr, (TcpListener, Vec<OwnedFd>)) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    os::socket::set_backlog(listener.as_fd(), 0).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = |_| os::socket::connect_start(address, None).unwrap();
    (address, (listener, (0..3).map(connect).collect()))
}

#[test]
fn a_server_that_does_not_answer_is_passed_over() {
    let (deaf, _full) = deaf();
    let application = echo();
    let keys = ", connect_ms = 200, balance = \"round-robin\"";
    for_all_engines_at_once(|spec| {
        let directory = site();
        let alone = in_front_of(spec, &directory, &[deaf], keys);
        assert_eq!(ask(&mut connect(&alone), GET).0, 504, "{}", spec.name);
        let both = in_front_of(spec, &directory, &[deaf, application.address()], keys);
        let post = "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
        for request in [GET, post, GET, post] {
            assert_eq!(ask(&mut connect(&both), request).0, 200, "{}: {request}", spec.name);
        }
    });
}

#[test]
fn a_client_that_leaves_takes_its_request_with_it() {
    let directory = site();
    for_each_engine(|spec| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = in_front_of(spec, &directory, &[listener.local_addr().unwrap()], "");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        take_head(&mut stream);
        drop(client);
        // The application is told by the end of its connection, in order or not.
        assert!(!matches!(stream.read(&mut [0]), Ok(1..)), "{}", spec.name);
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert_eq!(summary.requests, 1, "{}: it is logged", spec.name);
    });
}

/// Its application takes nothing of the body, so that the server receives no more of it.
#[test]
fn a_client_that_is_cut_off_in_its_body_takes_its_request_with_it() {
    let directory = site();
    for_each_engine(|spec| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = in_front_of(spec, &directory, &[listener.local_addr().unwrap()], "");
        let mut client = connect(&server);
        let head = "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 900000000\r\n\r\n";
        client.write_all(head.as_bytes()).unwrap();
        client.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        while client.write(&[b'a'; 100_000]).is_ok() {}
        os::socket::set_linger_zero(client.as_fd()).unwrap();
        drop(client);
        let summary = server.stop_gracefully(Duration::from_secs(10)).unwrap();
        assert!(!summary.aborted, "{}: it goes on", spec.name);
    });
}

/// Time is the client's own only while it is waited for, and then it is bounded.
#[test]
fn clients_that_stop_do_not_hold_an_application() {
    let directory = site();
    for_each_engine(|spec| {
        let reply = Reply::ok(&vec![b'x'; 20_000_000]).bytes();
        let application = scripted(move |_| vec![Action::Send(reply.clone())]);
        let route = format!(
            "host.route=[{{ path = \"/app/**\", proxy = [\"http://{}\"] }}]",
            application.address()
        );
        let engine = format!("engine.name={}", spec.name);
        let server = start(&directory, &[&engine, "timeouts.write_ms=300", &route]);
        // One stops in its body.
        let mut client = connect(&server);
        let part = "POST /app/ HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhello";
        assert_eq!(ask(&mut client, part).0, 408, "{}", spec.name);
        // One takes nothing of its response.
        let mut other = connect(&server);
        other.write_all(GET.as_bytes()).unwrap();
        assert!(comes_true(|| application.connections().len() == 2), "{}", spec.name);
        assert!(comes_true(|| application.open() == 0), "{}", spec.name);
        let end = other.read_to_end(&mut Vec::new());
        assert!(end.is_err(), "{}: an orderly end would look whole", spec.name);
    });
}

/// A connection that one request has kept is used by the next, which may be another client's.
#[test]
fn clients_at_the_same_time_get_their_own_answers() {
    let directory = site();
    for_each_engine(|spec| {
        let application =
            scripted(|asked| vec![Action::Send(Reply::ok(asked.target.as_bytes()).bytes())]);
        let server = front(spec, &directory, &[&application], "");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let mut client = connect(&server);
                scope.spawn(move || {
                    for count in 0..100 {
                        let target = format!("/app/{number}/{count}");
                        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
                        assert_eq!(ask(&mut client, &request), (200, target), "{}", spec.name);
                    }
                });
            }
        });
        let connections = application.connections().len();
        assert!(connections <= 8 + server_workers(&server), "{}: {connections}", spec.name);
    });
}

#[test]
fn a_kept_connection_is_closed_when_no_request_uses_it() {
    let directory = site();
    for_each_engine(|spec| {
        let application = echo();
        let server = front(spec, &directory, &[&application], ", idle_ms = 300");
        let mut client = connect(&server);
        assert_eq!(ask(&mut client, GET).0, 200);
        assert!(comes_true(|| application.open() == 0), "{}", spec.name);
        assert_eq!(ask(&mut client, GET).0, 200);
    });
}

#[test]
fn requests_under_way_are_finished_before_a_stop() {
    let directory = site();
    for_each_engine(|spec| {
        let application = scripted(|_| {
            let reply = Reply::ok(b"late").bytes();
            vec![Action::Wait(Duration::from_millis(300)), Action::Send(reply)]
        });
        let server = front(spec, &directory, &[&application], "");
        let mut client = connect(&server);
        client.write_all(GET.as_bytes()).unwrap();
        assert!(comes_true(|| application.requests().len() == 1));
        let summary = server.stop_gracefully(Duration::from_secs(60)).unwrap();
        assert!(!summary.aborted, "{}", spec.name);
        assert_eq!(answer(&mut BufReader::new(client)), (200, "late".into()));
    });
}

#[test]
fn requests_under_way_are_cut_off_when_patience_ends() {
    let directory = site();
    for_each_engine(|spec| {
        let application = scripted(|_| vec![Action::Stall]);
        // One request is with the application, and another may wait for that.
        let server = front(spec, &directory, &[&application], ", in_flight_max = 1");
        let mut clients = [connect(&server), connect(&server), connect(&server)];
        clients.iter_mut().for_each(|client| client.write_all(GET.as_bytes()).unwrap());
        assert!(comes_true(|| !application.requests().is_empty()));
        let summary = server.stop_gracefully(Duration::from_millis(200)).unwrap();
        assert!(summary.aborted, "{}", spec.name);
        for mut client in clients {
            assert!(!matches!(client.read(&mut [0; 4096]), Ok(1..)), "{}", spec.name);
        }
    });
}
