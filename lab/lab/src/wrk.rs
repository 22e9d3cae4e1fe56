//! Load from wrk, the generator that Debian ships: running it for a while and reading what it
//! printed.
//!
//! wrk takes whole seconds only, so it is started for long and interrupted; it then reports what
//! it has counted so far. Closed loop: each connection waits for its answer, so its rates say what
//! a server costs and not how it behaves under more load than it can sustain.

use crate::client::Client;
use crate::http::Connection;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// What to run.
#[derive(Debug, Clone)]
pub struct Load<'a> {
    /// The URL with the path; a script may choose other paths.
    pub url: &'a str,
    /// Connections open at a time.
    pub connections: usize,
    /// Whether connections are used again.
    pub connection: Connection,
    /// A Lua script that makes the requests.
    pub script: Option<&'a Path>,
    /// The processor wrk may use.
    pub cpu: usize,
    /// How long to load.
    pub duration: Duration,
}

/// What a run of wrk counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outcome {
    /// Answers received.
    pub requests: u64,
    /// How long it took, in seconds, by wrk's own clock.
    pub seconds: f64,
    /// Bytes received, heads included, to the three digits that wrk prints.
    pub bytes: f64,
    /// Answers other than 2xx and 3xx.
    pub not_successful: u64,
    /// Connections that ended where wrk expected an answer, or to be used again.
    pub read_errors: u64,
    /// Connections that failed to open or to write.
    pub other_errors: u64,
    /// Answers that took more than 2 seconds; they count as requests all the same.
    pub late: u64,
    /// The processor time that wrk itself used.
    pub cpu: Duration,
}

impl Outcome {
    /// Whether the requests were answered well, but for a few.
    pub fn is_clean(&self, connection: Connection) -> bool {
        // A server may close as asked without repeating `Connection: close` (RFC 9112 section
        // 9.6 says it should); wrk then counts an error after each answer.
        let closed_as_asked = match connection {
            Connection::KeepAlive => 0,
            Connection::Close => self.requests,
        };
        let few_refused = self.not_successful as f64 <= REFUSED_SHARE_MAX * self.requests as f64;
        self.requests > 0
            && few_refused
            && self.other_errors == 0
            && self.read_errors <= closed_as_asked
    }
}

/// A window with more answers of failure than this share does not count.
const REFUSED_SHARE_MAX: f64 = 0.01;

/// How long wrk may take to report after it has been interrupted.
const REPORT_WITHIN: Duration = Duration::from_secs(60);

/// Runs wrk, with one thread.
///
/// # Errors
/// When it is not installed, or prints something unknown.
pub fn run(load: &Load<'_>) -> Result<Outcome, String> {
    let wrk = Client::start(load.cpu, &arguments(load))?;
    thread::sleep(load.duration);
    wrk.interrupt();
    let finished = wrk.finish(REPORT_WITHIN)?;
    let outcome = parse(&finished.output).ok_or_else(|| {
        format!("wrk (apt-get install wrk) did not report: {}", finished.complaint())
    })?;
    Ok(Outcome { cpu: finished.cpu, ..outcome })
}

fn arguments(load: &Load<'_>) -> Vec<String> {
    // Should the interrupt get lost, wrk ends by itself.
    let seconds = format!("{}s", load.duration.as_secs() + 10);
    let connections = load.connections.to_string();
    let mut arguments: Vec<String> =
        ["wrk", "-t", "1", "-d", &seconds, "-c", &connections].map(str::to_owned).into();
    if load.connection == Connection::Close {
        arguments.extend(["-H".into(), "Connection: close".into()]);
    }
    if let Some(script) = load.script {
        arguments.extend(["-s".into(), script.display().to_string()]);
    }
    arguments.push(load.url.to_owned());
    arguments
}

fn parse(report: &str) -> Option<Outcome> {
    let mut outcome = None;
    for line in report.lines().map(str::trim) {
        if let Some((requests, rest)) = line.split_once(" requests in ") {
            let (time, rest) = rest.split_once(", ")?;
            let bytes = scaled(rest.strip_suffix(" read")?, BYTE_UNITS)?;
            let seconds = scaled(time, TIME_UNITS)?;
            let requests = requests.parse().ok()?;
            outcome = Some(Outcome { requests, seconds, bytes, ..Outcome::default() });
        } else if let Some(rest) = line.strip_prefix("Socket errors: ") {
            let outcome = outcome.as_mut()?;
            outcome.read_errors = errors(rest, |name| name == "read");
            outcome.other_errors = errors(rest, |name| matches!(name, "connect" | "write"));
            outcome.late = errors(rest, |name| name == "timeout");
        } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses: ") {
            outcome.as_mut()?.not_successful = count.parse().ok()?;
        }
    }
    outcome
}

/// The sum of the kinds that `counts` selects in `connect 1, read 2, write 3, timeout 4`.
fn errors(text: &str, counts: impl Fn(&str) -> bool) -> u64 {
    let parts = text.split(", ").filter_map(|part| part.split_once(' '));
    parts.filter(|(name, _)| counts(name)).filter_map(|(_, n)| n.parse::<u64>().ok()).sum()
}

const BYTE_UNITS: &[(&str, f64)] = &[
    ("TB", (1_u64 << 40) as f64),
    ("GB", (1_u64 << 30) as f64),
    ("MB", (1_u64 << 20) as f64),
    ("KB", 1024.0),
    ("B", 1.0),
];
const TIME_UNITS: &[(&str, f64)] =
    &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let number_len = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(number_len);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
Running 10m test @ http://127.0.0.1:8080/1k.html
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   611.91us  111.82us   4.12ms   92.16%
    Req/Sec   104.85k     5.03k  111.20k    83.33%
  125171 requests in 1.20s, 152.92MB read
Requests/sec: 104262.10
Transfer/sec:    127.38MB
";

    #[test]
    fn a_report_is_read() {
        let outcome = parse(REPORT).expect("it is one");
        assert_eq!((outcome.requests, outcome.seconds), (125_171, 1.2));
        assert!((outcome.bytes - 160_348_242.0).abs() < 1.0);
        assert!(outcome.is_clean(Connection::KeepAlive));
    }

    #[test]
    fn errors_are_read() {
        let report = "  12 requests in 1.50m, 3.00KB read\n  \
            Socket errors: connect 1, read 20, write 300, timeout 4000\n  \
            Non-2xx or 3xx responses: 7\n";
        let outcome = parse(report).expect("it is one");
        assert_eq!(
            (outcome.read_errors, outcome.other_errors, outcome.not_successful),
            (20, 301, 7)
        );
        assert_eq!((outcome.seconds, outcome.bytes), (90.0, 3072.0));
        assert!(!outcome.is_clean(Connection::Close), "it has connections that failed to open");
    }

    #[test]
    fn anything_else_is_no_report() {
        assert_eq!(parse("unable to connect to 127.0.0.1:1 Connection refused\n"), None);
        let nothing = Outcome::default();
        assert!(!nothing.is_clean(Connection::KeepAlive), "no requests is no success");
    }

    #[test]
    fn a_connection_that_was_to_close_may_end() {
        let outcome = Outcome { requests: 9, read_errors: 9, ..Outcome::default() };
        assert!(outcome.is_clean(Connection::Close));
        assert!(!outcome.is_clean(Connection::KeepAlive));
    }

    #[test]
    fn a_few_refusals_are_let_pass() {
        for (not_successful, expected) in [(0, true), (10, true), (11, false)] {
            let outcome = Outcome { requests: 1000, not_successful, ..Outcome::default() };
            assert_eq!(outcome.is_clean(Connection::KeepAlive), expected, "{not_successful}");
        }
    }
}
