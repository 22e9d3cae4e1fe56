//! A log that is turned on and off while requests are under way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use session::{AccessLog, Limits, Record};

use crate::memory::{MemoryFiles, PEER, Pair};

const FILES: [(&str, &[u8]); 1] = [("a.txt", b"0123456789")];

/// What is configured, and what was recorded.
#[derive(Clone, Default)]
struct Log {
    is_wanted: Arc<AtomicBool>,
    lines: Arc<Mutex<Vec<String>>>,
    is_on: bool,
}

impl AccessLog for Log {
    fn renew(&mut self) -> bool {
        self.is_on = self.is_wanted.load(Ordering::Relaxed);
        self.is_on
    }

    fn record(&mut self, record: &Record<'_>) -> bool {
        if self.is_on {
            let [method, target] = [record.method, record.target].map(String::from_utf8_lossy);
            let line = format!("{} {method} {target} {}", record.peer, record.status);
            self.lines.lock().unwrap().push(line);
        }
        self.is_on
    }

    fn flush(&mut self) {}
}

/// A connection whose worker has a log that is off.
struct Logged {
    pair: Pair,
    log: Log,
}

impl Logged {
    fn new() -> Self {
        let (mut pair, log) =
            (Pair::new(MemoryFiles::new(&FILES), Limits::default()), Log::default());
        pair.log_to(Box::new(log.clone()));
        pair.small_body_bytes_max = 0;
        Self { pair, log }
    }

    /// Turns the log on or off, and has the worker go by that.
    fn turn(&mut self, is_on: bool) {
        self.log.is_wanted.store(is_on, Ordering::Relaxed);
        let site = Arc::clone(&self.pair.site);
        self.pair.take_over(site, MemoryFiles::new(&FILES), Limits::default());
    }

    /// Asks, and receives so many bytes of the answer for now.
    fn begin(&mut self, query: &str, window: usize) {
        self.pair.window = window;
        let request = format!("GET /a.txt?{query} HTTP/1.1\r\nHost: h\r\n\r\n");
        self.pair.send(request.as_bytes());
    }

    /// Receives the rest.
    fn finish(&mut self) {
        self.pair.window = usize::MAX;
        self.pair.drive();
    }

    fn assert_logged(&self, expected: &[&str]) {
        assert_eq!(*self.log.lines.lock().unwrap(), expected);
        assert_eq!(self.pair.counters.logged.get(), expected.len() as u64);
    }
}

#[test]
fn requests_are_logged_that_begin_and_end_while_the_log_is_on() {
    let mut logged = Logged::new();
    logged.begin("off", usize::MAX);
    logged.begin("from-off-to-on", 1);
    logged.turn(true);
    logged.finish();
    logged.begin("on", usize::MAX);
    let expected = format!("{PEER} GET /a.txt?on 200");
    logged.assert_logged(&[&expected]);
    logged.begin("from-on-to-off", 1);
    logged.turn(false);
    logged.finish();
    logged.assert_logged(&[&expected]);
    assert_eq!(logged.pair.counters.requests.get(), 4);
}

/// Only once the worker goes by another revision: an answer that the client has got already is
/// logged as it was configured when it was asked for.
#[test]
fn the_log_changes_with_the_revision() {
    let mut logged = Logged::new();
    logged.turn(true);
    logged.begin("on", 1);
    logged.log.is_wanted.store(false, Ordering::Relaxed);
    logged.finish();
    logged.assert_logged(&[&format!("{PEER} GET /a.txt?on 200")]);
}

#[test]
fn what_is_no_request_is_logged_if_the_log_is_on() {
    let mut logged = Logged::new();
    logged.turn(true);
    logged.pair.send(b"no request\r\n\r\n");
    logged.assert_logged(&[&format!("{PEER}   400")]);
}

/// Where clients' addresses were of no interest, they are not known for requests that came before
/// the log was on.
#[test]
fn a_request_of_an_unknown_client_is_not_logged() {
    let mut logged = Logged::new();
    logged.turn(true);
    logged.pair.connection.set_peer("0.0.0.0:0".parse().unwrap());
    logged.begin("unknown", usize::MAX);
    logged.assert_logged(&[]);
    logged.pair.connection.set_peer(PEER.parse().unwrap());
    logged.begin("known", usize::MAX);
    logged.assert_logged(&[&format!("{PEER} GET /a.txt?known 200")]);
}
