//! Programs of Go and Node behind each engine, as users have them: their servers read requests and
//! frame replies in ways of their own, and close connections when they like.
//!
//! Both programs answer with the last name of the path, but for: `connection`, the port of the
//! connection's other end; `upload`, length and sum of the body; `refuse`, 413 without a look at
//! the body; `chunks`, 1 MB in pieces; `events`, the three events after the one that
//! `Last-Event-ID` names; `stream`, the same without an end; `ws`, WebSocket frames back.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use server::Server;
use testkit::{comes_true, has};

use crate::harness::{connect, for_each_engine, site, take_head};
use crate::real_servers::{GO_HTTP, Kind, NODE_HTTP, RealServer};
use crate::{answer, ask, in_front_of, upload};

const GO_AND_NODE: [&Kind; 2] = [&GO_HTTP, &NODE_HTTP];

/// Runs a test with each program, which keeps connections for `idle_ms`, behind each engine.
fn for_each_program(idle_ms: u32, test: impl Fn(&Server, &RealServer, &str) + Sync) {
    for kind in GO_AND_NODE.into_iter().filter(|kind| has(kind.tool)) {
        let program = RealServer::start_with(kind, &[], idle_ms);
        let directory = site();
        for_each_engine(|spec| {
            let server = in_front_of(spec, &directory, &[program.address()], "");
            test(&server, &program, &format!("{} before {}", spec.name, kind.tool.name));
        });
    }
}

fn get(name: &str) -> String {
    format!("GET /app/{name} HTTP/1.1\r\nHost: h\r\n\r\n")
}

#[test]
fn bodies_of_any_size_and_framing_pass_over_one_kept_connection() {
    let body: Vec<u8> = (0..500_000_u32).map(|n| b'a' + (n % 23) as u8).collect();
    let sum: u64 = body.iter().map(|byte| u64::from(*byte)).sum();
    let told = format!("{} {sum} true", body.len());
    for_each_program(60_000, |server, _, context| {
        let mut client = connect(server);
        let port = ask(&mut client, &get("connection"));
        assert_eq!(port.0, 200, "{context}");
        for is_chunked in [false, true] {
            upload(&mut client, "/app/upload", &body, is_chunked);
            let answered = answer(&mut BufReader::new(&mut client));
            assert_eq!(answered, (200, told.clone()), "{context}: {is_chunked}");
        }
        let (status, reply) = ask(&mut client, &get("chunks"));
        assert_eq!((status, reply.len()), (200, 1_000_000), "{context}");
        let is_right = |(n, byte): (usize, u8)| byte == b'0' + (n / 10_000 % 10) as u8;
        assert!(reply.bytes().enumerate().all(is_right), "{context}");
        assert_eq!(ask(&mut client, &get("connection")), port, "{context}");
    });
}

/// Node closes a connection after five seconds at rest unless told otherwise, and a proxy that uses
/// it then has lost a request (caddy 6452, jetty 2306). Here it is so short that it is met often.
#[test]
fn a_program_that_closes_kept_connections_early_costs_no_request() {
    const IDLE_MS: u32 = 20;
    for_each_program(IDLE_MS, |server, _, context| {
        let mut client = connect(server);
        let mut ports = Vec::new();
        for number in 0..20 {
            let (status, port) = ask(&mut client, &get("connection"));
            assert_eq!(status, 200, "{context}: {number}");
            ports.push(port);
            // The one closes when the other sends, or a little before or after.
            thread::sleep(Duration::from_millis(u64::from(IDLE_MS) - 4 + number % 8));
        }
        ports.dedup();
        assert!(ports.len() > 1, "{context}: it has closed none");
    });
}

#[test]
fn a_body_is_sent_when_the_program_asks_for_it() {
    for_each_program(60_000, |server, _, context| {
        let expecting = |name, length| {
            format!(
                "POST /app/{name} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\
                 Content-Length: {length}\r\n\r\n"
            )
        };
        let mut client = connect(server);
        client.write_all(expecting("upload", 3).as_bytes()).unwrap();
        assert_eq!(take_head(&mut client), b"HTTP/1.1 100 Continue\r\n\r\n", "{context}");
        assert_eq!(ask(&mut client, "abc"), (200, "3 294 true".into()), "{context}");
        // A refusal comes without an invitation, and also to a client that sends already.
        assert_eq!(ask(&mut client, &expecting("refuse", 3)).0, 413, "{context}");
        let mut hasty = connect(server);
        let head = "POST /app/refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 900000000\r\n\r\n";
        hasty.write_all(&[head.as_bytes(), &[b'x'; 100_000]].concat()).unwrap();
        assert_eq!(answer(&mut BufReader::new(hasty)).0, 413, "{context}");
        assert_eq!(ask(&mut connect(server), &get("x")), (200, "x".into()), "{context}");
    });
}

#[test]
fn events_pass_at_once_and_the_program_hears_of_a_client_that_leaves() {
    for_each_program(60_000, |server, program, context| {
        let target = format!("/app/stream?{}", context.replace(' ', "-"));
        let mut client = connect(server);
        write!(client, "GET {target} HTTP/1.1\r\nHost: h\r\nLast-Event-ID: 4\r\n\r\n").unwrap();
        let head = String::from_utf8(take_head(&mut client)).unwrap();
        assert!(head.contains("\r\nContent-Type: text/event-stream\r\n"), "{context}: {head}");
        let mut text = String::new();
        let mut buffer = [0; 4096];
        while !text.contains("data: 7 after 4\n\n") {
            let n = client.read(&mut buffer).unwrap();
            assert_ne!(n, 0, "{context}: {text}");
            text += std::str::from_utf8(&buffer[..n]).unwrap();
        }
        drop(client);
        let left = format!("LEFT {target} ");
        assert!(comes_true(|| program.log().contains(&left)), "{context}");
    });
}

/// The handshake is that of RFC 6455 §1.3.
#[test]
fn web_socket_frames_pass_both_ways() {
    for_each_program(60_000, |server, _, context| {
        let mut client = connect(server);
        let asked = "GET /app/ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\n\
                     Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        client.write_all(asked.as_bytes()).unwrap();
        let head = String::from_utf8(take_head(&mut client)).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{context}: {head}");
        let accepted = "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
        assert!(head.contains(accepted), "{context}: {head}");
        for (kind, payload) in [(1, &b"hello"[..]), (2, &[0, 255, 10, 13]), (2, &[7; 60_000])] {
            assert_eq!(echoed(&mut client, kind, payload), payload, "{context}: {kind}");
        }
        // The program ends the connection after it has answered a frame that closes.
        assert_eq!(echoed(&mut client, 8, &[3, 232]), [3, 232], "{context}");
        assert_eq!(client.read(&mut [0; 16]).unwrap(), 0, "{context}");
    });
}

/// Sends a frame (RFC 6455 §5.2), and returns the payload of the one that comes back.
fn echoed(client: &mut TcpStream, kind: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [1, 2, 3, 4];
    let length = u16::try_from(payload.len()).unwrap();
    let is_short = length < 126;
    let extended = if is_short { Vec::new() } else { length.to_be_bytes().to_vec() };
    let length = if is_short { length as u8 } else { 126 };
    let masked = payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    let rest: Vec<u8> = extended.iter().copied().chain(MASK).chain(masked).collect();
    client.write_all(&[&[0x80 | kind, 0x80 | length], &*rest].concat()).unwrap();
    let mut head = vec![0; 2 + extended.len()];
    client.read_exact(&mut head).unwrap();
    assert_eq!(head, [&[0x80 | kind, length], &*extended].concat());
    let mut got = vec![0; payload.len()];
    client.read_exact(&mut got).unwrap();
    got
}
