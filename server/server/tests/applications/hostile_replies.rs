//! Replies that are none, are two, or could be read in two ways: the client gets exactly what was
//! meant for it or 502, and a connection that says more than it was asked for is not used again.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use testkit::response::{Response, parse_responses};
use testkit::scripted::{Action, ReceivedRequest, Reply, Scripted};

use crate::harness::{Running, connect, for_each_engine, site, start};
use crate::{ask, scripted};

/// What becomes of a reply.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The client gets it, with this status and body, and the connection is kept.
    Kept(u16, &'static str),
    /// The client gets it, and the connection is not used again.
    Closed(u16, &'static str),
    /// The client gets 502.
    Refused,
    /// The client gets the beginning, and sees that the rest is missing.
    Broken,
}

use Fate::{Broken, Closed, Kept, Refused};

const FORGED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";

/// Replies. `K` at the beginning stands for the status line of 200, and `{forged}` for a reply to
/// no request.
const REPLIES: &[(Fate, &str)] = &[
    (Kept(200, "hello"), "KContent-Length: 5\r\n\r\nhello"),
    (Kept(200, "hello"), "KTransfer-Encoding: chunked\r\n\r\n05;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"),
    (Kept(200, "hello"), "KConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello"),
    (Kept(204, ""), "HTTP/1.1 204 No Content\r\n\r\n"),
    (Kept(204, ""), "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
    // Two framings, or one that is none.
    (Refused, "KContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{forged}"),
    (Refused, "KTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{forged}"),
    (Refused, "KContent-Length: 0\r\nContent-Length: 65\r\n\r\n{forged}"),
    (Refused, "KContent-Length: 5, 5\r\n\r\nhello"),
    (Refused, "KContent-Length: +5\r\n\r\nhello"),
    (
        Refused,
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n{forged}",
    ),
    (Refused, "KTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{forged}"),
    (Refused, "KTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n{forged}"),
    // Lines that are none, or are two.
    (Refused, "KContent-Length : 5\r\n\r\nhello"),
    (Refused, "KX y: 1\r\nContent-Length: 5\r\n\r\nhello"),
    (Refused, "KX: a\r\n Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello"),
    (Refused, "KX: a\0b\r\nContent-Length: 5\r\n\r\nhello"),
    (Refused, "KX: a\rY: b\r\nContent-Length: 5\r\n\r\nhello"),
    (Refused, "KContent-Length 5\r\n\r\nhello"),
    (Refused, "hello\r\n\r\n"),
    (Refused, "HTTP/2 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    (Refused, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n{forged}"),
    // Bytes behind a reply.
    (Closed(200, "hello"), "KContent-Length: 5\r\n\r\nhello{forged}"),
    (Closed(200, "hello"), "KContent-Length: 5\r\n\r\nhello\r\n"),
    (Closed(200, "hello"), "KTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n{forged}"),
    (Closed(200, ""), "KContent-Length: 0\r\n\r\n{forged}"),
    (Closed(204, ""), "HTTP/1.1 204 No Content\r\nContent-Length: 65\r\n\r\n{forged}"),
    (Closed(304, ""), "HTTP/1.1 304 Not Modified\r\nContent-Length: 65\r\n\r\n{forged}"),
    // A server that is not known to frame its replies as it says.
    (Closed(200, "hello"), "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    (Closed(200, "a"), "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na"),
    (Closed(200, "a"), "KConnection: close\r\nContent-Length: 1\r\n\r\na"),
    // Chunks.
    (Broken, "KTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"),
    (Broken, "KTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
    (Broken, "KTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n"),
    (Broken, "KTransfer-Encoding: chunked\r\n\r\n5\r\nhello0\r\n\r\n"),
    (Broken, "KTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n"),
    (Broken, "KTransfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n"),
];

/// pingora 945, CVE-2026-2835, and their kin.
#[test]
fn a_reply_is_exactly_one_or_none() {
    for_each_engine(|spec| {
        let front = Front::start(spec.name, |asked| {
            let number: usize = asked.target.rsplit('?').next().unwrap().parse().unwrap();
            let text = REPLIES[number].1.replace("{forged}", FORGED);
            let whole = text.strip_prefix('K').map(|rest| format!("HTTP/1.1 200 OK\r\n{rest}"));
            vec![Action::Send(whole.unwrap_or(text).into_bytes())]
        });
        for (number, (fate, reply)) in REPLIES.iter().enumerate() {
            front.check("GET", number, *fate, &format!("{}: {}", spec.name, reply.escape_debug()));
        }
    });
}

/// Too large, or without end.
#[test]
fn what_is_read_of_a_reply_before_its_content_is_bounded() {
    for_each_engine(|spec| {
        let front = Front::start(spec.name, |asked| {
            let head =
                |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
            let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
            let text = match asked.target.rsplit('?').next().unwrap() {
                "0" => head(&format!("X: {}\r\n", "y".repeat(70_000))),
                "1" => head(&"X: y\r\n".repeat(101)),
                "2" => "HTTP/1.1 200 ".to_owned() + &"y".repeat(70_000),
                "3" => hints.repeat(3) + &head(""),
                _ => hints.repeat(2000) + &head(""),
            };
            vec![Action::Send(text.into_bytes())]
        });
        let fates = [Refused, Refused, Refused, Kept(200, ""), Refused];
        for (number, fate) in fates.into_iter().enumerate() {
            front.check("GET", number, fate, &format!("{}: {number}", spec.name));
        }
    });
}

#[test]
fn a_reply_to_head_has_no_content() {
    for_each_engine(|spec| {
        let front = Front::start(spec.name, |asked| {
            let body = if asked.target.ends_with('0') { "" } else { "hello" };
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
            vec![Action::Send([head, body].concat().into_bytes())]
        });
        front.check("HEAD", 0, Kept(200, ""), spec.name);
        front.check("HEAD", 1, Closed(200, ""), spec.name);
    });
}

/// The second reply comes when the connection is at rest.
#[test]
fn a_reply_that_comes_late_is_for_nobody() {
    for_each_engine(|spec| {
        let front = Front::start(spec.name, |_| {
            let late = Action::Send(FORGED.as_bytes().to_vec());
            let reply = Reply::ok(b"hello").bytes();
            vec![Action::Send(reply), Action::Wait(Duration::from_millis(50)), late]
        });
        let response = front.get("GET", 0);
        assert_eq!((response[0].status, &*response[0].body), (200, &b"hello"[..]));
        // Only what has come before the next request is sent can be told from its reply.
        std::thread::sleep(Duration::from_millis(2000));
        front.check_next(0, false, spec.name);
    });
}

/// h2o 2010, 2602, caddy 782: what is left of the body would be the beginning of the next request.
#[test]
fn a_reply_before_the_end_of_its_request_ends_the_connection() {
    for_each_engine(|spec| {
        let front = Front::start(spec.name, |_| {
            vec![Action::LeaveBody, Action::Send(Reply::status(403, b"no").bytes())]
        });
        let mut client = connect(&front.server);
        let head = "POST /app/bad?0 HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n";
        assert_eq!(ask(&mut client, head), (403, "no".into()), "{}", spec.name);
        front.check_next(0, false, spec.name);
        // The rest of the body is no request.
        let rest = "GET /app/hidden HTTP/1.1\r\nHost: h\r\n\r\n".repeat(1000);
        let _ = client.write_all(rest.as_bytes()); // it may be closed
        client.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        assert!(!matches!(client.read(&mut [0]), Ok(1..)), "{}: an answer", spec.name);
        let hidden = |asked: &ReceivedRequest| asked.target == "/app/hidden";
        assert!(!front.application.requests().iter().any(hidden), "{}", spec.name);
    });
}

/// A server before an application that answers `/app/bad` as a script says, and everything else
/// with its target.
struct Front {
    application: Scripted,
    server: Running,
    has_processes: bool,
}

impl Front {
    fn start(
        engine: &str,
        script: impl Fn(&ReceivedRequest) -> Vec<Action> + Send + Sync + 'static,
    ) -> Self {
        let application = scripted(move |asked| match asked.target.starts_with("/app/bad") {
            true => script(asked),
            false => vec![Action::Send(Reply::ok(asked.target.as_bytes()).bytes())],
        });
        let route = format!(
            "host.route=[{{ path = \"/app/**\", proxy = [\"http://{}\"] }}]",
            application.address()
        );
        let has_processes = engine == "processes";
        let engine = format!("engine.name={engine}");
        // One loop, so that all clients share connections to the application.
        let server = start(&site(), &[&engine, &route, "partitions.cpus=[\"0\"]"]);
        Self { application, server, has_processes }
    }

    /// Requests a bad reply on a connection of its own. Returns what is complete of the answer.
    fn get(&self, method: &str, number: usize) -> Vec<Response> {
        let mut client = connect(&self.server);
        let line = format!("{method} /app/bad?{number} HTTP/1.1\r\n");
        write!(client, "{line}Host: h\r\nConnection: close\r\n\r\n").unwrap();
        let bytes = read_to_end(&mut client);
        let parsed = parse_responses(&bytes, &[method == "HEAD"], true);
        let mut responses = parsed.map_or_else(|_| Vec::new(), |parsed| parsed.responses);
        responses.retain(|response| response.status >= 200);
        responses
    }

    fn check(&self, method: &str, number: usize, fate: Fate, context: &str) {
        let responses = self.get(method, number);
        let got = responses.first().map(|it| (it.status, String::from_utf8_lossy(&it.body)));
        assert!(responses.len() < 2, "{context}: {responses:?}");
        match fate {
            Kept(status, body) | Closed(status, body) => {
                assert_eq!(got, Some((status, body.into())), "{context}");
            }
            Refused => assert_eq!(got.map(|it| it.0), Some(502), "{context}"),
            Broken => assert_eq!(got, None, "{context}"),
        }
        self.check_next(number, matches!(fate, Kept(..)), context);
    }

    /// Checks that the next request gets its own reply, and whether it uses the same connection.
    fn check_next(&self, number: usize, is_kept: bool, context: &str) {
        let target = format!("/app/next?{number}");
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
        let answered = ask(&mut connect(&self.server), &request);
        assert_eq!(answered, (200, target), "{context}");
        let requests = self.application.requests();
        let [.., bad, next] = &*requests else { panic!("{context}: {requests:?}") };
        // Of several processes each has connections of its own.
        let is_same = bad.connection == next.connection;
        let may_differ = is_kept && self.has_processes;
        assert!(is_same == is_kept || may_differ, "{context}: {is_same}");
    }
}

fn read_to_end(client: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match client.read_to_end(&mut bytes) {
        Err(why) if why.kind() == ErrorKind::WouldBlock => {
            let text = String::from_utf8_lossy(&bytes);
            panic!("{} bytes, and then neither more nor an end: {text:.300}", bytes.len());
        }
        _ => bytes, // a reset is an end
    }
}
