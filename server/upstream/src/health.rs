//! Checks of servers' health: one check as a conversation, and what a row of results means.

use std::fmt;

use http1::{ResponseError, parse_response_head};

use crate::application::Application;
use crate::http::HEAD_BYTES_MAX;

/// Checks in a row that fail before a server counts as down: one may be chance.
const FAILURES: u32 = 3;

/// Checks in a row that succeed before it counts as up again.
const SUCCESSES: u32 = 2;

/// What the checks of a server so far mean.
#[derive(Debug, Default)]
pub struct Health {
    is_down: bool,
    /// The results in a row that speak against it.
    row: u32,
}

impl Health {
    /// What is known of a server of which earlier checks have found this.
    #[must_use]
    pub fn found(is_up: bool) -> Self {
        Self { is_down: !is_up, row: 0 }
    }

    /// Whether it counts as up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.is_down
    }

    /// Takes the result of a check. Returns whether the server is up, if that has changed.
    pub fn note(&mut self, is_well: bool) -> Option<bool> {
        if is_well != self.is_down {
            self.row = 0;
            return None;
        }
        self.row += 1;
        if self.row < if self.is_down { SUCCESSES } else { FAILURES } {
            return None;
        }
        (self.is_down, self.row) = (!self.is_down, 0);
        Some(!self.is_down)
    }
}

/// Why a check has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckFailure {
    /// There was no connection.
    Unreachable,
    /// There was no reply in time.
    Late,
    /// The connection ended before a reply.
    Closed,
    /// It was no reply.
    Syntax(ResponseError),
    /// Its head was too large.
    HeadTooLarge,
    /// It had this status.
    Status(u16),
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable => out.write_str("it cannot be reached"),
            Self::Late => out.write_str("it did not answer in time"),
            Self::Closed => out.write_str("it closed the connection without an answer"),
            Self::Syntax(why) => write!(out, "its answer cannot be read: {why}"),
            Self::HeadTooLarge => out.write_str("the head of its answer is too large"),
            Self::Status(status) => write!(out, "its answer was {status}"),
        }
    }
}

/// One check: a request on a connection of its own, and the head of its reply.
#[derive(Debug)]
pub struct Check {
    request: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
}

impl Check {
    /// A check of a server.
    #[must_use]
    pub fn new(application: &Application, server: usize) -> Self {
        let target = &application.settings().health.target;
        let host = application.server_authority(server);
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ropewalk\r\n\
             Connection: close\r\n\r\n"
        );
        Self { request: request.into(), sent: 0, received: Vec::new() }
    }

    /// What is left to send.
    #[must_use]
    pub fn to_send(&self) -> &[u8] {
        &self.request[self.sent..]
    }

    /// Reports that `n` bytes were sent.
    pub fn sent(&mut self, n: usize) {
        self.sent += n;
    }

    /// Takes received bytes, or the end of the connection. Returns the result of the check if there
    /// is one by now.
    pub fn ingest(&mut self, bytes: &[u8]) -> Option<Result<(), CheckFailure>> {
        if bytes.is_empty() {
            return Some(Err(CheckFailure::Closed));
        }
        self.received.extend_from_slice(bytes);
        if self.received.len() > HEAD_BYTES_MAX {
            return Some(Err(CheckFailure::HeadTooLarge));
        }
        let mut at = 0;
        loop {
            match parse_response_head(&self.received[at..], false) {
                Ok(None) => return None,
                Ok(Some(head)) if head.status < 200 => at += head.len,
                Ok(Some(head)) if head.status < 400 => return Some(Ok(())),
                Ok(Some(head)) => return Some(Err(CheckFailure::Status(head.status))),
                Err(why) => return Some(Err(CheckFailure::Syntax(why))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Address, ApplicationSettings, HealthSettings, ServerSettings};

    #[test]
    fn three_failures_are_a_fall_and_two_successes_a_rise() {
        let mut health = Health::default();
        let mut changes = |results: &str| -> Vec<Option<bool>> {
            results.bytes().map(|result| health.note(result == b'+')).collect()
        };
        assert_eq!(changes("--+--+++"), [None; 8]);
        assert_eq!(changes("---"), [None, None, Some(false)]);
        assert_eq!(changes("-+-+-"), [None; 5]);
        assert_eq!(changes("++"), [None, Some(true)]);
        assert_eq!(changes("+--+---"), [[None; 6].as_slice(), &[Some(false)]].concat());
        let mut risen = Health::found(false);
        assert_eq!([true, true].map(|is_well| risen.note(is_well)), [None, Some(true)]);
    }

    fn check() -> Check {
        let address = Address::Tcp { host: "::1".into(), port: 81 };
        let servers = vec![ServerSettings { address, weight: 1 }];
        let health = HealthSettings { target: "/up?x".into(), ..HealthSettings::default() };
        let settings = ApplicationSettings { servers, health, ..ApplicationSettings::default() };
        Check::new(&Application::new(settings, 0), 0)
    }

    #[test]
    fn a_check_is_a_request_on_a_connection_of_its_own() {
        let mut check = check();
        let request = "GET /up?x HTTP/1.1\r\nHost: [::1]:81\r\nUser-Agent: ropewalk\r\n\
                       Connection: close\r\n\r\n";
        assert_eq!(check.to_send(), request.as_bytes());
        check.sent(4);
        assert_eq!(check.to_send(), &request.as_bytes()[4..]);
    }

    #[test]
    fn the_head_of_a_reply_decides_however_it_is_cut() {
        for (reply, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\n", Some(Ok(()))),
            ("HTTP/1.0 302 Found\r\nLocation: /x\r\n\r\n", Some(Ok(()))),
            ("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", Some(Ok(()))),
            ("HTTP/1.1 404 Not Found\r\n\r\n", Some(Err(CheckFailure::Status(404)))),
            ("HTTP/1.1 503 \r\n\r\n", Some(Err(CheckFailure::Status(503)))),
            ("SSH-2.0-x\r\n\r\n", Some(Err(CheckFailure::Syntax(ResponseError::Syntax)))),
            ("HTTP/1.1 200 OK\r\nA: b\r\n", None),
        ] {
            assert_eq!(check().ingest(reply.as_bytes()), expected, "{reply}");
            let mut check = check();
            let results = reply.bytes().map(|byte| check.ingest(&[byte]));
            assert_eq!(results.flatten().next(), expected, "{reply}");
        }
    }

    #[test]
    fn a_reply_without_end_is_bounded_and_an_end_is_no_reply() {
        let mut check = check();
        assert_eq!(check.ingest(b"HTTP/1.1 200 OK\r\n"), None);
        let line = [&b"A: "[..], &[b'b'; 4000], b"\r\n"].concat();
        let result = (0..).find_map(|_| check.ingest(&line));
        assert_eq!(result, Some(Err(CheckFailure::HeadTooLarge)));
        assert_eq!(self::check().ingest(b""), Some(Err(CheckFailure::Closed)));
    }
}
