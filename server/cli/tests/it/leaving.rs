//! Workers that leave: what cannot be moved to others ends when the time for that is over, and
//! nothing of them is left.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use testkit::server_process::{ServerProcess, serve, take_until};
use testkit::{comes_true, thread_folders, undisturbed};

use crate::ctl::{Place, ROPEWALK, ask};
use crate::processes::children;

/// An application that agrees to another protocol, and never answers anything else.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = |mut stream: TcpStream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let mut head = lines.by_ref().take_while(|line| !line.is_empty());
        if head.any(|line| line.starts_with("Upgrade:")) {
            let agreed = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                          Connection: Upgrade\r\n\r\n";
            stream.write_all(agreed.as_bytes()).unwrap();
        }
        lines.for_each(drop); // to the end
    };
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| drop(thread::spawn(move || serve(stream))));
    });
    address
}

/// A client that sends this, and stays.
fn stays(server: &ServerProcess, sent: &str) -> TcpStream {
    let mut client = server.connect();
    client.write_all(sent.as_bytes()).unwrap();
    client
}

/// How many connections were cut off when their time was over, by the only line that says so: a
/// WebSocket and an upload stay, and a client at rest is moved or closed.
fn cut_off(name: &str, route: &str) -> String {
    let place = Place::new();
    let mut command = place.command_of(ROPEWALK.as_ref());
    let served = serve(&mut command, place.path("a").as_ref());
    let set = ["--engine", "event-loop", "--set", "timeouts.drain_ms=500", "--set", route];
    let server = ServerProcess::start(served.args(set));
    let workers = || (thread_folders(server.pid()).len(), children(server.pid()));
    let change = |name: &str, backlog: u32| {
        // Another backlog, so that workers of the same engine do not stay.
        let set = [format!("engine.name={name}"), format!("socket.backlog={backlog}")];
        let (status, _, err) = place.ctl(&["change", &set[0], &set[1]]);
        assert_eq!((status, &*err), (0, ""), "{name}");
    };
    let before = workers();
    change(name, 1000);
    let asked = "GET /app/s HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\n\r\n";
    let mut socket = stays(&server, asked);
    take_until(&mut socket, b"\r\n\r\n");
    let begun = "POST /app/u HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nthe first";
    let mut upload = stays(&server, begun);
    let mut resting = server.connect();
    assert_eq!(ask(&mut resting, "/"), 200);
    change("event-loop", 2000);
    for client in [&mut socket, &mut upload] {
        // The end, or a reset, but no wait for more.
        let read = client.read(&mut [0; 512]).map_err(|why| why.kind());
        assert!(matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)), "{name}: {read:?}");
    }
    // A thread that has made something at the start may still have been there.
    let is_as_before = || workers().0 <= before.0 && workers().1 == before.1;
    assert!(comes_true(is_as_before), "{name}: {:?}, {before:?} before", workers());
    drop((socket, upload, resting));
    let said = "could not be moved in time and are cut off";
    let mut lines = server.stop();
    lines.retain(|line| line.contains(said));
    assert_eq!(lines.len(), 1, "{name}: {lines:?}");
    lines.remove(0)
}

#[test]
fn what_cannot_be_moved_is_cut_off_in_time_and_counted() {
    let application = application();
    let route =
        format!("host.route=[{{ path = \"/app/**\", proxy = [\"http://{application}\"] }}]");
    let names: Vec<&str> = engines::ENGINES.iter().map(|spec| spec.name).collect();
    testkit::side_by_side(&names, |name| {
        if (engines::find(name).unwrap().obstacle)().is_some() {
            return;
        }
        // Workers that get no CPU for a while do not close what rests in time.
        undisturbed(|| {
            let line = cut_off(name, &route);
            let is_right = line.starts_with(&format!("ropewalk: 2 connections of {name} could"));
            if is_right { Ok(()) } else { Err(line) }
        });
    });
}

/// Each change leaves a client that cannot be moved, and has another log.
#[test]
fn two_sets_of_former_workers_have_all_time() {
    let application = application();
    let place = Place::new();
    let mut command = place.command_of(ROPEWALK.as_ref());
    let served = serve(&mut command, place.path("a").as_ref());
    let route =
        format!("host.route=[{{ path = \"/app/**\", proxy = [\"http://{application}\"] }}]");
    let set = ["--engine", "event-loop", "--log", "json", "--set", "timeouts.drain_ms=600000"];
    let server = ServerProcess::start(served.args(set).args(["--set", &route]));
    let asked = "GET /app/s HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\n\r\n";
    let threads = || thread_folders(server.pid()).len();
    let (mut sockets, mut counts) = (Vec::new(), Vec::new());
    for number in 0..5 {
        let mut socket = stays(&server, asked);
        take_until(&mut socket, b"\r\n\r\n");
        sockets.push(socket);
        let log = format!("log.path={}", place.path(&number.to_string()));
        // Another backlog, so that the workers do not stay.
        let backlog = format!("socket.backlog={}", 1000 + number);
        let (status, _, err) = place.ctl(&["change", &log, &backlog]);
        assert_eq!((status, &*err), (0, ""));
        counts.push(threads());
    }
    for socket in &mut sockets[..3] {
        let read = socket.read(&mut [0; 512]).map_err(|why| why.kind());
        assert!(matches!(read, Ok(0) | Err(ErrorKind::ConnectionReset)), "{read:?}");
    }
    for socket in &mut sockets[3..] {
        socket.set_nonblocking(true).unwrap();
        let read = socket.read(&mut [0; 512]).map_err(|why| why.kind());
        assert_eq!(read, Err(ErrorKind::WouldBlock), "it goes on");
    }
    assert!(comes_true(|| threads() <= counts[1]), "{}, {counts:?}", threads());
    drop(sockets);
    let said = "ropewalk: 1 connections of event-loop could not be moved in time and are cut off";
    let mut lines = server.stop();
    lines.retain(|line| line == said);
    assert_eq!(lines.len(), 3);
}
