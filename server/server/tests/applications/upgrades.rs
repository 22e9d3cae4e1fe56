//! Requests that ask for another protocol, on every engine: what follows an agreed one passes as it
//! is, in both directions at once, and a refused one was a request like any other.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use engines::EngineSpec;
use server::Server;
use testkit::{Temporary, comes_true};

use crate::harness::{connect, for_each_engine, site, start, take_head};
use crate::{answer, in_front_of, scripted};

/// What an application does with a connection whose first request has come: its head, and the
/// connection.
type Serve = dyn Fn(&str, &TcpStream) + Send + Sync;

/// An application that serves each connection in a thread of its own, and closes it then. It ends
/// with the test's process.
fn application(serve: impl Fn(&str, &TcpStream) + Send + Sync + 'static) -> SocketAddr {
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

const ASKED: &str = "GET /app/ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n\
                     Upgrade: websocket, Other/2\r\nSec-WebSocket-Key: k\r\n\r\n";

const AGREED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                        Connection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\r\n";

/// Sends back what comes until nothing more does.
fn echo(mut stream: &TcpStream) {
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
fn switched(server: &Server) -> TcpStream {
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

fn pass(client: &mut TcpStream, bytes: &[u8]) {
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
        let mut client = switched(&server);
        // Also those that look like HTTP, and one by one.
        let request = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n0\r\n\r\n";
        pass(&mut client, request);
        request.iter().for_each(|byte| pass(&mut client, &[*byte]));
        pass(&mut client, &[0, 0xff, 0x81]);
    });
}
