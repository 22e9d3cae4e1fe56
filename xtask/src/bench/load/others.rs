//! Other load generators: how they are started, and how their reports are read.
//!
//! wrk is handled in the lab crate.

use lab::client::{Client, Finished};
use std::net::SocketAddr;
use std::time::Duration;

/// How much longer than expected a client may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The rate at which sessions are started that are all to start at once.
const AT_ONCE: f64 = 1e6;

/// The counts of a client, and its use of resources.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Count {
    /// Good answers.
    pub(super) requests: u64,
    /// How long the run took, by the client's own clock.
    pub(super) seconds: f64,
    /// Requests that failed, for any reason.
    pub(super) errors: u64,
    /// Sessions that were completed; only for httperf.
    pub(super) sessions: u64,
    pub(super) cpu: Duration,
}

/// Runs h2load: closed loop, over HTTP/1.1, with one thread.
pub(super) fn h2load(
    cpu: usize,
    url: &str,
    connections: usize,
    window: Duration,
) -> Result<Count, String> {
    let (connections, duration) = (connections.to_string(), format!("{}ms", window.as_millis()));
    let arguments =
        ["h2load", "--h1", "-t", "1", "-c", &connections, "-m", "1", "-D", &duration, url];
    let finished = run(cpu, &arguments, window)?;
    read(&finished, "h2load", parse_h2load).map(|count| Count { cpu: finished.cpu, ..count })
}

/// Sessions for httperf.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sessions {
    /// The number of sessions.
    pub(super) sessions: u64,
    /// The number of requests of each.
    pub(super) requests: u64,
    /// Sessions per second; none: all at once.
    pub(super) rate: Option<f64>,
}

/// Runs httperf, which ends when all sessions have ended.
pub(super) fn httperf(
    cpu: usize,
    address: SocketAddr,
    path: &str,
    load: Sessions,
) -> Result<Count, String> {
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let sessions = format!("{},{},0", load.sessions, load.requests);
    let rate = format!("{:.1}", load.rate.unwrap_or(AT_ONCE));
    let arguments = [
        "httperf",
        "--server",
        &ip,
        "--port",
        &port,
        "--uri",
        path,
        "--wsess",
        &sessions,
        "--rate",
        &rate,
        "--timeout",
        "10",
    ];
    let finished = run(cpu, &arguments, Duration::ZERO)?;
    read(&finished, "httperf", parse_httperf).map(|count| Count { cpu: finished.cpu, ..count })
}

fn run(cpu: usize, arguments: &[&str], expected: Duration) -> Result<Finished, String> {
    let command: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    Client::start(cpu, &command)?.finish(expected + PATIENCE)
}

fn read(
    finished: &Finished,
    name: &str,
    parse: fn(&str) -> Option<Count>,
) -> Result<Count, String> {
    parse(&finished.output)
        .ok_or_else(|| format!("{name} did not report: {}", finished.complaint()))
}

fn parse_h2load(report: &str) -> Option<Count> {
    let seconds = between(report, "finished in ", ",")?;
    let requests = report.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let number = |name: &str| {
        let part = requests.split(", ").find_map(|part| part.strip_suffix(name))?;
        part.trim().parse::<u64>().ok()
    };
    Some(Count {
        requests: number(" succeeded")?,
        seconds: seconds_of(seconds)?,
        errors: number(" failed")? + number(" errored")? + number(" timeout")?,
        ..Count::default()
    })
}

/// Parses `1.10s`, `401.25ms` or `900us`.
fn seconds_of(text: &str) -> Option<f64> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
    let (number, unit) =
        units.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))?;
    Some(number.parse::<f64>().ok()? * unit)
}

fn parse_httperf(report: &str) -> Option<Count> {
    let sessions = report.lines().find_map(|line| line.strip_prefix("Session rate "))?;
    Some(Count {
        requests: between(report, " replies ", " test-duration")?.parse().ok()?,
        seconds: between(report, " test-duration ", " s")?.parse().ok()?,
        errors: between(report, "Errors: total ", " ")?.parse().ok()?,
        sessions: between(sessions, "(", "/")?.parse().ok()?,
        cpu: Duration::ZERO,
    })
}

/// The text between the first `start` and the next `end`.
fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    text.split_once(start)?.1.split_once(end).map(|(found, _)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_h2load_is_read() {
        let report = "progress: 93% of clients started\n\n\
            finished in 1.11s, 8162.73 req/s, 10.10MB/s\n\
            requests: 8979 total, 9043 started, 8979 done, 8976 succeeded, 1 failed, 2 errored, \
            0 timeout\nstatus codes: 8979 2xx, 0 3xx, 0 4xx, 0 5xx\n";
        let expected = Count { requests: 8976, seconds: 1.11, errors: 3, ..Count::default() };
        assert_eq!(parse_h2load(report), Some(expected));
        assert_eq!(parse_h2load("h2load: unrecognized option"), None);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(seconds_of("2.50s"), Some(2.5));
        assert_eq!(seconds_of("250.00ms"), Some(0.25));
        assert_eq!(seconds_of("250"), None);
    }

    #[test]
    fn a_report_of_httperf_is_read() {
        let report = "Total: connections 1444 requests 10108 replies 10107 test-duration 1.583 s\n\
            \nErrors: total 3556 client-timo 0 socket-timo 0 connrefused 0 connreset 0\n\
            Errors: fd-unavail 3556 addrunavail 0 ftab-full 0 other 0\n\n\
            Session rate [sess/s]: min 0.00 avg 911.98 max 0.00 stddev 0.00 (1444/5000)\n";
        let expected = Count {
            requests: 10107,
            seconds: 1.583,
            errors: 3556,
            sessions: 1444,
            cpu: Duration::ZERO,
        };
        assert_eq!(parse_httperf(report), Some(expected));
        assert_eq!(parse_httperf("httperf: connection failed\n"), None);
    }
}
