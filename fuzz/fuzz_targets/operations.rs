//! Arbitrary sequences of events on a connection: bytes in any pieces, windows of any size, jobs
//! that take their time or fail, files that change, time that passes, ends at any moment. The
//! connection never panics or spins, and what the client receives is well-formed.
//!
//! An input is read byte by byte, so that seeds can be written by hand: `@` to `_` send one of the
//! [`FRAGMENTS`], digits open one of the [`WINDOWS`], small letters are operations of
//! [`Machine::control`], a byte from 0x80 on sends that many of the bytes after it, and all others
//! are sent.

#![no_main]

use std::sync::Arc;

use http1::{BodyFraming, BodySkipper, Expectation, Head, Method, Parsed, Version};
use http1::{begins_head_request, parse_head};
use libfuzzer_sys::fuzz_target;
use session::{Limits, Phase};
use testkit::response::parse_responses;

#[path = "../../server/session/tests/it/grammar.rs"]
mod grammar;

#[allow(dead_code)] // the session's own tests use the rest of it
#[path = "../../server/session/tests/it/memory.rs"]
mod memory;

use grammar::shape;
use memory::{MemoryFiles, Pair, open_files};

/// The bytes that are sent for `@`, `A` to `Z`, `[`, `\`, `]`, `^`, `_`.
const FRAGMENTS: [&str; 32] = [
    "GET /big HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
    "HEAD /a.txt HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
    "GET /sub HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /missing HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /list/ HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /list/ HTTP/1.0\r\n\r\n",
    "GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0,4-5\r\n\r\n",
    "GET /big HTTP/1.1\r\nHost: h\r\nRange: bytes=0-99,200-299\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
    "3\r\nabc\r\n",
    "0\r\n\r\n",
    "GET ",
    "/a.txt ",
    "HTTP/1.1\r\n",
    "Host: h\r\n",
    "\r\n",
    "X: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n",
    "Content-Length: 10\r\n",
    "0123456789",
    "BAD\r\n\r\n",
    "Range: bytes=1-\r\n",
    "If-None-Match: *\r\n",
    "Expect: magic\r\n",
    "GET /a%2 HTTP/1.1\r\nHost: h\r\n\r\n",
    "Accept-Encoding: br\r\n",
];

/// How far the client's window opens for `0` to `9`.
const WINDOWS: [usize; 10] = [0, 1, 2, 7, 40, 100, 300, 1000, 10_000, usize::MAX];

/// A limit that is small enough for the fuzzer to exceed.
fn limits() -> Limits {
    let mut limits = Limits {
        requests_per_connection_max: 20,
        unread_body_bytes_max: 40,
        ranges_max: 3,
        ..Limits::default()
    };
    limits.head.head_bytes_max = 300;
    limits.head.request_line_bytes_max = 100;
    limits.head.fields_max = 6;
    limits
}

fuzz_target!(|input: &[u8]| {
    let mut machine = Machine::new(input.len());
    let mut rest = input;
    while let Some((&first, after)) = rest.split_first() {
        rest = machine.operate(first, after);
        machine.check_rest();
    }
    machine.end();
    assert_eq!(open_files(), 0, "a file is open that is not in use");
});

/// A pair, and the bytes that the client has sent on its connection.
struct Machine {
    pair: Pair,
    sent: Vec<u8>,
    /// Whether an event has happened that may keep a request from being answered.
    is_disturbed: bool,
    /// Whether a head has been waited for too long: bytes sent from then on are not read.
    is_timed_out: bool,
    /// Complete responses on earlier connections.
    received: u64,
}

impl Machine {
    /// A machine whose files are sent, or are read, in pieces of one of these sizes, by `choice`.
    fn new(choice: usize) -> Self {
        let big = b"0123456789abcdef".repeat(200);
        let files = MemoryFiles::new(&[
            ("a.txt", b"0123456789"),
            ("a.txt.br", b"compressed"),
            ("big", &big),
            ("index.html", b"<p>hello"),
            ("list/empty", b""),
            ("sub/index.html", b"<p>sub"),
        ]);
        let mut pair = match choice % 2 {
            0 => Pair::new(files, limits()),
            _ => Pair::reading(files, limits()),
        };
        pair.read_bytes_max = [1, 7, 100, usize::MAX][choice / 2 % 4];
        pair.small_body_bytes_max = 100;
        Self { pair, sent: Vec::new(), is_disturbed: false, is_timed_out: false, received: 0 }
    }

    /// Performs one operation and returns what follows it in the input.
    fn operate<'i>(&mut self, first: u8, after: &'i [u8]) -> &'i [u8] {
        match first {
            b'@'..=b'_' => self.send(FRAGMENTS[usize::from(first - b'@')].as_bytes()),
            b'0'..=b'9' => {
                self.pair.window = WINDOWS[usize::from(first - b'0')];
                self.pair.drive();
            }
            b'a'..=b'z' => return self.control(first, after),
            0x80.. => {
                let (bytes, after) = after.split_at(after.len().min(usize::from(first - 0x7f)));
                self.send(bytes);
                return after;
            }
            other => self.send(&[other]),
        }
        after
    }

    fn control<'i>(&mut self, letter: u8, after: &'i [u8]) -> &'i [u8] {
        let pair = &mut self.pair;
        let is_reading = pair.connection.phase() == Phase::Reading;
        self.is_disturbed |= b"abcdefgqsz".contains(&letter);
        match letter {
            b'h' => pair.holds_jobs = true,
            b'i' => {
                pair.holds_jobs = false;
                pair.finish_job();
                pair.drive();
            }
            b'j' => pair.finish_job(),
            b'f' => pair.fail_job(),
            b'k' => pair.answer_again(),
            b'l' => pair.puts_off ^= true,
            b'a' => pair.advance(100),
            b'b' => pair.advance(1_000),
            b'c' => pair.advance(10_000),
            b'd' => pair.advance(100_000),
            b'e' => {
                pair.connection.expire(&mut pair.worker);
                pair.drive();
            }
            b'z' => pair.finish(),
            b'q' => {
                pair.connection.drain();
                pair.drive();
            }
            b'g' => {
                pair.connection.end_with_next();
                pair.drive();
            }
            // A client does not notice that its connection moves.
            b'o' if pair.connection.is_movable() => {
                pair.move_to(Arc::clone(&pair.site), limits());
                pair.drive();
            }
            b'm' => pair.files.put("a.txt", b"changed"),
            b'n' => self.reconnect(),
            b's' => pair.files.truncate("big", 150),
            b't' => pair.files.put("big", &[b'x'; 5000]),
            b'u' => pair.files.put("a.txt", &[b'y'; 300]),
            // A fragment sent in two pieces.
            b'p' => {
                let (&[fragment, at], after) = after.split_first_chunk().unwrap_or((&[0, 0], &[]));
                let fragment = FRAGMENTS[usize::from(fragment) % FRAGMENTS.len()].as_bytes();
                let (one, other) = fragment.split_at(usize::from(at) % fragment.len());
                self.send(one);
                self.check_rest();
                self.send(other);
                return after;
            }
            other => self.send(&[other]),
        }
        let has_left_off = is_reading && self.pair.connection.phase() != Phase::Reading;
        self.is_timed_out |= has_left_off && b"abcde".contains(&letter);
        after
    }

    fn send(&mut self, bytes: &[u8]) {
        if self.pair.closed.is_none() && !self.is_timed_out {
            self.sent.extend_from_slice(bytes);
        }
        self.pair.send(bytes);
    }

    fn reconnect(&mut self) {
        self.check_received();
        self.pair.reconnect();
        self.sent.clear();
        self.is_timed_out = false;
    }

    /// Lets everything proceed to its end.
    fn end(mut self) {
        self.pair.window = usize::MAX;
        self.pair.holds_jobs = false;
        self.pair.drive();
        self.pair.finish_job();
        self.pair.finish();
        assert!(self.pair.closed.is_some(), "the client has closed, the server has not");
        self.check_rest();
        let (received, due) = (self.check_received(), answers_due(&self.sent));
        assert!(self.is_disturbed || received >= due, "{received} responses, but {due} are due");
        self.pair.connection.close(&mut self.pair.worker);
        assert_eq!(self.pair.connection.phase(), Phase::Closed);
        let counters = &self.pair.counters;
        let classes: u64 = counters.responses.iter().map(|class| class.get()).sum();
        assert_eq!(counters.requests.get(), classes);
        assert!(counters.requests.get() >= self.received, "a response was not counted");
    }

    /// Checks the properties of a connection that waits.
    fn check_rest(&mut self) {
        let op = shape(&self.pair.connection.next());
        let Some(reset) = self.pair.closed else {
            assert!(op.0 != "bytes" || self.pair.window == 0, "it does not send");
            assert!(!["job", "stream", "read"].contains(&op.0), "it does not {}", op.0);
            return;
        };
        assert_eq!(op, (if reset { "reset" } else { "close" }, 0, 0));
        let received = self.pair.received.len();
        self.pair.connection.ingest(&mut self.pair.worker, FRAGMENTS[1].as_bytes());
        self.pair.drive();
        assert_eq!((self.pair.received.len(), self.pair.closed), (received, Some(reset)));
    }

    /// Checks that the client has received well-formed responses, and none without a request;
    /// unless the connection was reset or the client stopped reading, the last is complete. Returns
    /// their number.
    fn check_received(&mut self) -> usize {
        let heads = requests(&self.sent);
        let is_over = self.pair.is_shut && self.pair.closed != Some(true);
        let received = &self.pair.received;
        let parsed = parse_responses(received, &heads, is_over);
        let parsed = parsed.unwrap_or_else(|e| panic!("{e} in {}", received.escape_ascii()));
        let count = parsed.responses.len();
        assert!(parsed.responses.iter().all(|response| response.status >= 200), "an interim one");
        assert!(count <= heads.len(), "{count} responses to {} requests", heads.len());
        self.received += count as u64;
        count
    }
}

/// For each request in `bytes`, whether it is a HEAD. A broken or incomplete request counts as a
/// last one, because it may be answered with an error.
fn requests(bytes: &[u8]) -> Vec<bool> {
    let mut heads = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let Ok(Parsed::Complete(head)) = parse_head(rest, 0, &limits().head) else {
            heads.push(begins_head_request(rest));
            break;
        };
        heads.push(head.method == Method::Head);
        rest = &rest[head.len..];
        if head.body != BodyFraming::None {
            let mut skipper = BodySkipper::new(head.body);
            let Ok(taken) = skipper.skip(rest) else { break };
            rest = &rest[taken..];
        }
    }
    heads
}

/// The number of requests in `bytes` that must be answered whatever follows them: those up to the
/// first that may end the connection.
fn answers_due(bytes: &[u8]) -> usize {
    let mut due = 0;
    let mut rest = bytes;
    while let Ok(Parsed::Complete(head)) = parse_head(rest, 0, &limits().head) {
        due += 1;
        if may_be_last(&head) || due == limits().requests_per_connection_max as usize {
            break;
        }
        rest = &rest[head.len..];
        if let BodyFraming::Length(len) = head.body {
            let Some(after) = rest.get(len as usize..) else { break };
            rest = after;
        }
    }
    due
}

fn may_be_last(head: &Head<'_>) -> bool {
    let has_large_body = match head.body {
        BodyFraming::None => false,
        BodyFraming::Length(len) => len > limits().unread_body_bytes_max,
        BodyFraming::Chunked => true,
    };
    let is_plain = head.keep_alive && head.version == Version::Http11;
    !is_plain
        || has_large_body
        || head.expectation != Expectation::None
        || matches!(head.method, Method::Unknown | Method::Connect)
}
