//! Trailer fields of requests and replies in chunks (RFC 9110 §6.5), on every engine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::harness::{connect, for_each_engine, site, start};

const CHUNKED: &str =
    "POST /app/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n";
const TAKES: &str = "TE: trailers\r\nConnection: TE\r\n";

/// Requests from the fields after the first on, what of their trailers reaches the application, and
/// the end of the reply. Each is on a connection of its own, so that all of a reply is seen.
fn table() -> Vec<(String, &'static str, &'static str)> {
    let body = "\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nContent-Length: 5\r\nProxy: p\r\n\r\n";
    let long = format!("\r\n0\r\nX: {}\r\n\r\n", "a".repeat(4090));
    let many = format!("\r\n0\r\n{}\r\n", "X:\r\n".repeat(101));
    vec![
        (format!("{CHUNKED}{TAKES}{body}"), "[X-Sum: 1]", "\r\n0\r\nX-End: 2\r\n\r\n"),
        (format!("{CHUNKED}{body}"), "[X-Sum: 1]", "\r\n0\r\n\r\n"),
        (
            format!("GET /app/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{TAKES}\r\n"),
            "[]",
            "\r\n0\r\nX-End: 2\r\n\r\n",
        ),
        (format!("GET /app/ HTTP/1.0\r\nHost: h\r\n{TAKES}\r\n"), "[]", "[]"),
        (format!("{CHUNKED}{long}"), "HTTP/1.1 431 ", ""),
        (format!("{CHUNKED}{many}"), "HTTP/1.1 431 ", ""),
    ]
}

#[test]
fn trailers_pass_from_chunks_to_chunks() {
    let directory = site();
    for_each_engine(|spec| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let route = route(listener.local_addr().unwrap());
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer_all(&stream)));
        let engine = format!("engine.name={}", spec.name);
        let rule = "host.header=[{ path = \"/**\", name = \"X-Ruled\", value = \"r\" }]";
        let server = start(&directory, &[&engine, &route, rule]);
        for (request, taken, end) in table() {
            let mut client = connect(&server);
            client.write_all(request.as_bytes()).unwrap();
            let mut reply = String::new();
            client.read_to_string(&mut reply).unwrap();
            let context = format!("{}: {request:?}: {reply:?}", spec.name);
            assert!(reply.contains(taken) && reply.ends_with(end), "{context}");
            assert!(!reply.contains("evil"), "{context}");
        }
    });
}

fn route(address: SocketAddr) -> String {
    format!("host.route=[{{ path = \"/app/**\", proxy = \"http://{address}\" }}]")
}

/// An application that says which trailers it has got, and has some of its own.
fn answer_all(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    while let Some(head) = lines(&mut reader) {
        let mut trailer = String::new();
        if head.contains("chunked") {
            while let Some(chunk) = line(&mut reader).filter(|size| size != "0\r\n") {
                let size = usize::from_str_radix(chunk.trim_end(), 16).unwrap();
                reader.read_exact(&mut vec![0; size + 2]).unwrap();
            }
            let Some(read) = lines(&mut reader) else { return };
            trailer = read.trim_end().replace("\r\n", ", ");
        }
        let content = format!("[{trailer}]");
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n";
        let own = "0\r\nX-End: 2\r\nX-Ruled: evil\r\nSet-Cookie: evil=1\r\nHost: evil\r\n\r\n";
        let reply = format!("{head}{:x}\r\n{content}\r\n{own}", content.len());
        if (&*stream).write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// Lines up to an empty one.
fn lines(reader: &mut impl BufRead) -> Option<String> {
    let mut all = String::new();
    while !all.ends_with("\r\n\r\n") && all != "\r\n" {
        all.push_str(&line(reader)?);
    }
    Some(all)
}

fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    (reader.read_line(&mut line).ok()? > 0).then_some(line)
}
