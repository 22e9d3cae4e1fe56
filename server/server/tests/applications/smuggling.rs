//! Requests that two recipients could read in two ways, before servers of other projects: what one
//! client sends as one request never becomes two, and no client gets what is another's.
//!
//! Each of the requests has a body, or what looks like one, that is a request itself: the hidden
//! one. A second request follows on the same connection, and another client, whose requests use the
//! same connection to the application, asks after it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use engines::EngineSpec;
use server::Server;
use testkit::response::parse_responses;
use testkit::{has, side_by_side};

use crate::harness::{connect, site, start};
use crate::real_servers::{KINDS, Kind, RealServer};
use crate::{ask, under_test};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is answered by the front with 4xx or 5xx, and ends its connection.
    Refused,
    /// Its head is good and its body is not: the front refuses it, or the application has answered
    /// the head before that was seen. It ends its connection.
    Broken,
    /// It is one request, and what follows its body is the next.
    Taken,
    /// It is answered; whether the next one is as well is the application's affair.
    Either,
    /// It is never complete.
    Unfinished,
}

use Fate::{Broken, Either, Refused, Taken, Unfinished};

/// Requests. `P` at the beginning stands for `POST` with a target and `Host`, `G` for `GET` alike,
/// `{target}` for the target, `{hidden}` for the request that is hidden, and `{length}` and `{hex}`
/// for its length.
const REQUESTS: &[(Fate, &str)] = &[
    // Two framings, or one that is none.
    (Refused, "PContent-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
    (
        Refused,
        "PTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n{hex}\r\n{hidden}\r\n0\r\n\r\n",
    ),
    (Refused, "PContent-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"),
    (Refused, "PContent-Length: {length}\r\nContent-Length: 0\r\n\r\n{hidden}"),
    (Refused, "PContent-Length: 0, {length}\r\n\r\n{hidden}"),
    (Refused, "PContent-Length: +{length}\r\n\r\n{hidden}"),
    (Refused, "PContent-Length: 0x{hex}\r\n\r\n{hidden}"),
    (Refused, "PContent-Length: -1\r\n\r\n{hidden}"),
    (Refused, "PContent-Length: {length} 0\r\n\r\n{hidden}"),
    (Refused, "PContent-Length:\r\n\r\n{hidden}"),
    (Refused, "PContent-Length: 18446744073709551616\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding: identity\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding:\r\nContent-Length: 3\r\n\r\n{hidden}"),
    (Refused, "POST {target} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
    (Taken, "PTransfer-Encoding:\tCHUNKED \r\n\r\n{hex}\r\n{hidden}\r\n0\r\n\r\n"),
    // Lines that are none, or are two.
    (Refused, "PX: a\r\n Content-Length: {length}\r\n\r\n{hidden}"),
    (Refused, "PX: a\nContent-Length: {length}\r\n\r\n{hidden}"),
    (Refused, "PX: a\rContent-Length: {length}\r\n\r\n{hidden}"),
    (Refused, "PX: a\0b\r\nContent-Length: {length}\r\n\r\n{hidden}"),
    (Refused, "PContent-Length : {length}\r\n\r\n{hidden}"),
    (Refused, "PTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n{hidden}"),
    (Refused, "P Content-Length: {length}\r\n\r\n{hidden}"),
    (Refused, "PContent-Length\t: {length}\r\n\r\n{hidden}"),
    (Refused, "PContent-Length\0: {length}\r\n\r\n{hidden}"),
    (Refused, "P: {length}\r\n\r\n{hidden}"),
    (Refused, "PContent-Length {length}\r\n\r\n{hidden}"),
    (Refused, "POST {target} HTTP/1.1\nHost: h\nContent-Length: {length}\n\n{hidden}"),
    (Refused, "PContent-Length: {length}\r\n\n{hidden}"),
    // Chunks.
    (Taken, "PTransfer-Encoding: chunked\r\n\r\n{hex};a=\"b\"\r\n{hidden}\r\n0;c\r\nX: y\r\n\r\n"),
    (
        Taken,
        "PTransfer-Encoding: chunked\r\n\r\n{hex}\r\n{hidden}\r\n0\r\nContent-Length: 9\r\n\
         Transfer-Encoding: x\r\nHost: other\r\nConnection: close\r\nX: y\r\n\r\n",
    ),
    (Taken, "PTransfer-Encoding: chunked\r\n\r\n000000{hex}\r\n{hidden}\r\n000\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n+{hex}\r\n{hidden}\r\n0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n0x{hex}\r\n{hidden}\r\n0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n {hex}\r\n{hidden}\r\n0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n{hex}\n{hidden}\n0\n\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n{hex};a\nb\r\n{hidden}\r\n0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n{hex};a\rb\r\n{hidden}\r\n0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n-1\r\n{hidden}\r\n0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n{hidden}\r\n0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n3\r\n{hidden}\r\n0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n{hex}\r\n{hidden}0\r\n\r\n"),
    (Broken, "PTransfer-Encoding: chunked\r\n\r\n\r\n{hidden}\r\n0\r\n\r\n"),
    (Unfinished, "PTransfer-Encoding: chunked\r\n\r\nfffffff\r\n{hidden}"),
    (Unfinished, "PContent-Length: 100000000\r\n\r\n{hidden}"),
    // Who is asked.
    (Refused, "GET http://other{target} HTTP/1.1\r\nHost: h\r\n\r\n"),
    (Taken, "GET http://h{target} HTTP/1.1\r\nHost: h\r\n\r\n"),
    (Refused, "GHost: other\r\n\r\n"),
    (Refused, "GET {target} HTTP/1.1\r\nHost: a b\r\n\r\n"),
    (Refused, "GET {target} HTTP/1.1\r\nHost: h, other\r\n\r\n"),
    (Refused, "GET {target} HTTP/1.1\r\n\r\n"),
    (Refused, "GET  {target} HTTP/1.1\r\nHost: h\r\n\r\n"),
    (Refused, "GET {target} HTTP/1.1 \r\nHost: h\r\n\r\n"),
    (Refused, "GET {target} x HTTP/1.1\r\nHost: h\r\n\r\n"),
    (Refused, "GET {target}\r\n\r\n{hidden}"),
    (Refused, "GET {target} HTTP/2.0\r\nHost: h\r\n\r\n"),
    (Refused, "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n{hidden}"),
    (Either, "GET {target}%0d%0aContent-Length:%205%0d%0a HTTP/1.1\r\nHost: h\r\n\r\n"),
    // Fields that are for one hop, or look like others.
    (Taken, "GContent_Length: {length}\r\nTransfer_Encoding: chunked\r\n\r\n"),
    (Taken, "PConnection: Content-Length\r\nContent-Length: {length}\r\n\r\n{hidden}"),
    (
        Taken,
        "PConnection: Transfer-Encoding, Host\r\nTransfer-Encoding: chunked\r\n\r\n\
        {hex}\r\n{hidden}\r\n0\r\n\r\n",
    ),
    (
        Taken,
        "GConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    ),
    (
        Taken,
        "GConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    ),
    (Taken, "PConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: {length}\r\n\r\n{hidden}"),
    // Bodies where some servers expect none, or do not wait for one.
    (Taken, "GContent-Length: {length}\r\n\r\n{hidden}"),
    (Taken, "GTransfer-Encoding: chunked\r\n\r\n{hex}\r\n{hidden}\r\n0\r\n\r\n"),
    (Taken, "HEAD {target} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{hidden}"),
    (Taken, "PContent-Length: {length}\r\n\r\n{hidden}"),
    (Either, "PExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n{hidden}"),
    (Refused, "PExpect: 100-continues\r\nContent-Length: {length}\r\n\r\n{hidden}"),
];

/// The files of the servers, which are their names.
const FILES: [&str; 4] = ["first", "second", "other", "hidden"];

/// The servers are the same to all engines, and requests are read in one place: enough engines for
/// each way of moving the bytes.
const ENGINES: [&str; 5] = ["event-loop", "threads", "threads-direct", "rings", "staged"];

/// pingora 945, CVE-2026-2835, and their kin.
#[test]
fn one_request_never_becomes_two() {
    let present: Vec<&str> =
        KINDS.iter().map(|kind| kind.tool).filter(|tool| has(tool)).map(|it| it.name).collect();
    side_by_side(&present, |name| {
        let kind = KINDS.iter().find(|kind| kind.tool.name == *name).expect("it was just listed");
        for spec in under_test::engines().iter().filter(|spec| ENGINES.contains(&spec.name)) {
            check_server(kind, spec);
        }
    });
}

fn check_server(kind: &'static Kind, spec: &EngineSpec) {
    let application = RealServer::start(kind, &FILES);
    let route = format!(
        "host.route=[{{ path = \"/app/**\", proxy = [\"http://{}\"] }}]",
        application.address()
    );
    let engine = format!("engine.name={}", spec.name);
    // One loop, so that all clients share connections to the application.
    let server = start(&site(), &[&engine, &route, "partitions.cpus=[\"0\"]"]);
    let mut other = connect(&server);
    for (number, (fate, template)) in REQUESTS.iter().enumerate() {
        let request = fill(template, number);
        let context =
            format!("{} before {}: {}", spec.name, kind.tool.name, request.escape_debug());
        check_request(&server, &request, number, *fate, &context);
        let next = format!("GET /app/other?{number} HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(ask(&mut other, &next), (200, "other".into()), "{context}");
    }
    drop(other);
    server.stop_gracefully(Duration::from_secs(10)).unwrap();
    check_log(&application.stop(), &format!("{} before {}", spec.name, kind.tool.name));
}

fn fill(template: &str, number: usize) -> String {
    let target = format!("/app/first?{number}");
    let hidden = format!("GET /app/hidden?{number} HTTP/1.1\r\nHost: h\r\n\r\n");
    let begun = match template.as_bytes() {
        [b'P', b'O', ..] | [b'G', b'E', ..] => template.to_owned(),
        [b'P', ..] => format!("POST {{target}} HTTP/1.1\r\nHost: h\r\n{}", &template[1..]),
        [b'G', ..] => format!("GET {{target}} HTTP/1.1\r\nHost: h\r\n{}", &template[1..]),
        _ => template.to_owned(),
    };
    let length = hidden.len();
    let begun = begun.replace("{length}", &length.to_string()).replace("{target}", &target);
    begun.replace("{hex}", &format!("{length:x}")).replace("{hidden}", &hidden)
}

/// Sends a request and a second one, and checks what comes back on the connection.
fn check_request(server: &Server, request: &str, number: usize, fate: Fate, context: &str) {
    let mut client = connect(server);
    let second =
        format!("GET /app/second?{number} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    // A server that refuses the first may close before it has read the second.
    let _ = client.write_all([request, &second].concat().as_bytes());
    if fate == Unfinished {
        client.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    }
    let bytes = read_to_end(&mut client, fate == Unfinished);
    let responses = parse_responses(&bytes, &[request.starts_with("HEAD")], true);
    let mut responses = responses.unwrap_or_else(|why| panic!("{context}: {why}")).responses;
    responses.retain(|response| response.status >= 200);
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("hidden"), "{context}: {text}");
    match (fate, &*responses) {
        (Refused, [only]) => assert!((400..=599).contains(&only.status), "{context}: {text}"),
        (Broken, [only]) => {
            assert!(only.status >= 400 || only.body == b"first", "{context}: {text}");
        }
        (Taken | Either, [_, last]) => {
            assert_eq!((last.status, &*last.body), (200, &b"second"[..]), "{context}: {text}");
        }
        (Either, [only]) => assert!(only.lists("Connection", "close"), "{context}: {text}"),
        (Unfinished, [] | [_]) => assert!(!text.contains("second"), "{context}: {text}"),
        _ => panic!("{context}: {fate:?}, and {} responses: {text}", responses.len()),
    }
}

fn read_to_end(client: &mut TcpStream, may_wait: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    match client.read_to_end(&mut bytes) {
        Err(why) if why.kind() == ErrorKind::WouldBlock => assert!(may_wait, "it does not answer"),
        _ => {}
    }
    bytes
}

/// Checks that each request that has reached a server was one, and that all did that had to.
fn check_log(targets: &[String], context: &str) {
    let count = |target: &str| targets.iter().filter(|seen| *seen == target).count();
    let mut known = 0;
    for (number, (fate, template)) in REQUESTS.iter().enumerate() {
        let [first, second, other, _] = FILES.map(|name| count(&format!("/app/{name}?{number}")));
        assert_eq!(other, 1, "{context}: {template:?}");
        let must = usize::from(*fate == Taken);
        let may = usize::from(matches!(fate, Taken | Either));
        assert!((must..=1).contains(&first), "{context}: {template:?}: {first}");
        assert!((must..=may).contains(&second), "{context}: {template:?}: {second}");
        known += first + second + other;
    }
    let raw = targets.iter().filter(|target| target.contains("%0d%0a")).count();
    assert_eq!(known + raw, targets.len(), "{context}: {targets:?}");
}
