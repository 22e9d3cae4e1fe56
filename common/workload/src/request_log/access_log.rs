//! Access logs of web servers, converted to sessions that can be replayed.
//!
//! The formats are NCSA's common and combined formats (Apache, nginx, Ropewalk) and JSON lines
//! (Ropewalk's, Caddy's, nginx's as usually set up). A session is the requests of one client,
//! identified by address and user agent, until it is silent for longer than a gap. The pause after
//! a request is the time until the client's next one: the time that the reply took is part of it,
//! and a server that writes its line when the reply has ended shifts it further. Times in NCSA's
//! formats are whole seconds: pauses are wrong by up to a second, and sessions begin in bunches.
//!
//! Only GET and HEAD are replayed. A log does not record which requests were conditional or carried
//! cookies; files that were answered with 304 are requested in full.

mod json;
mod ncsa;
mod sessions;
mod time;

use std::fmt;

use super::{BuildError, Request, RequestLog};

/// How lines become sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// A client that is silent for longer begins a new session.
    pub session_gap_us: u64,
    /// Longer pauses within a session are shortened to this.
    pub think_us_max: u64,
    /// Whether images, scripts and the like within at most a second after a page become one burst
    /// with it.
    pub bursts: bool,
    /// Whether only requests that were answered with 2xx or 304 are replayed.
    pub good_only: bool,
}

impl Default for ImportOptions {
    /// Half an hour of silence ends a session, as in most traffic statistics.
    fn default() -> Self {
        Self {
            session_gap_us: 1_800_000_000,
            think_us_max: Request::PAUSE_US_MAX,
            bursts: false,
            good_only: false,
        }
    }
}

/// The format of a file, by its first good line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// NCSA's common log format.
    Common,
    /// NCSA's common log format with referrer and user agent.
    Combined,
    /// One JSON object a line.
    Json,
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Common => "common",
            Self::Combined => "combined",
            Self::Json => "JSON lines",
        })
    }
}

/// Why a line could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say what the variants are")]
pub enum MalformedReason {
    #[error("another format than the lines before")]
    OtherFormat,
    #[error("not a line of an access log")]
    NotALine,
    #[error("not JSON")]
    NotJson,
    #[error("no time")]
    NoTime,
    #[error("the time cannot be read")]
    BadTime,
    #[error("the request is not in quotes")]
    UnquotedRequest,
    #[error("no request")]
    NoRequest,
    #[error("no request: the connection was opened and closed, or was no HTTP")]
    NotHttp,
    #[error("the status is no number")]
    BadStatus,
    #[error("the URI has no path")]
    NoPath,
    #[error("the URI holds white space or control characters")]
    BadPath,
}

/// Lines that could not be read, of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The reason.
    pub reason: MalformedReason,
    /// The number of these lines.
    pub lines: u64,
    /// The number of the first of these lines, from 1.
    pub first_line: u64,
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// The format of the file; none if no line was good.
    pub format: Option<Format>,
    /// The number of lines except empty ones.
    pub lines: u64,
    /// The number of requests that are replayed.
    pub requests: u64,
    /// The number of clients: pairs of an address and a user agent.
    pub clients: u64,
    /// Requests left out for their method, by method, most frequent first.
    pub other_methods: Vec<(String, u64)>,
    /// Requests left out because they were redirected (3xx except 304).
    pub redirected: u64,
    /// Requests left out because they were not answered with 2xx or 3xx.
    pub failed: u64,
    /// Lines that could not be read, in the order in which their kinds occurred.
    pub malformed: Vec<Malformed>,
    /// Replayed requests by the first digit of their status, index 0 for any other.
    pub status: [u64; 6],
    /// Lines with a time before that of a line above them.
    pub out_of_order: u64,
    /// Pauses that were shortened.
    pub pauses_shortened: u64,
    /// Replayed requests without a known client: those with one user agent count as one client's.
    pub without_client: u64,
    /// Whether all times are whole seconds.
    pub whole_seconds: bool,
    /// The first and the last time, in microseconds since 1970.
    pub span_unix_us: Option<(u64, u64)>,
}

impl ImportReport {
    fn malformed(&mut self, reason: MalformedReason, line: u64) {
        match self.malformed.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.lines += 1,
            None => self.malformed.push(Malformed { reason, lines: 1, first_line: line }),
        }
    }

    fn other_method(&mut self, method: &str) {
        match self.other_methods.iter_mut().find(|(known, _)| known == method) {
            Some((_, count)) => *count += 1,
            None => self.other_methods.push((method.to_owned(), 1)),
        }
    }
}

/// The report, one line per fact.
impl fmt::Display for ImportReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(format) = self.format else {
            return writeln!(out, "no line of {} is one of an access log", self.lines);
        };
        writeln!(out, "{} lines, {format}", self.lines)?;
        writeln!(out, "{} requests of {} clients", self.requests, self.clients)?;
        if self.whole_seconds {
            writeln!(out, "times are whole seconds: pauses are wrong by up to a second")?;
        }
        for (method, count) in &self.other_methods {
            writeln!(out, "{count} {method} left out: only GET and HEAD are replayed")?;
        }
        let counts = [
            (self.redirected, "redirects left out"),
            (self.failed, "left out for their status"),
            (self.out_of_order, "lines out of order, sorted"),
            (self.pauses_shortened, "pauses shortened"),
            (self.without_client, "lines without a client address, told apart by user agent only"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(out, "{count} {what}")?;
        }
        for Malformed { reason, lines, first_line } in &self.malformed {
            writeln!(out, "{lines} lines not read, the first is line {first_line}: {reason}")?;
        }
        Ok(())
    }
}

/// One good line.
#[derive(Debug, PartialEq, Eq)]
struct Line<'b> {
    format: Format,
    client: std::borrow::Cow<'b, [u8]>,
    agent: std::borrow::Cow<'b, [u8]>,
    unix_us: u64,
    method: String,
    /// The request target, not checked yet.
    uri: Vec<u8>,
    status: u16,
    /// The bytes of the reply's body.
    bytes: Option<u64>,
}

/// Converts an access log to a request log.
///
/// # Errors
/// If the log is too large.
pub fn import(
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<(RequestLog, ImportReport), BuildError> {
    let mut report = ImportReport { whole_seconds: true, ..ImportReport::default() };
    let mut sessions = sessions::Sessions::default();
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        report.lines += 1;
        match read_line(line, report.format) {
            Err(reason) => report.malformed(reason, index as u64 + 1),
            Ok(line) => {
                report.format.get_or_insert(line.format);
                if let Err(reason) = keep(&line, options, &mut sessions, &mut report) {
                    report.malformed(reason, index as u64 + 1);
                }
            }
        }
    }
    report.other_methods.sort_by_key(|(_, count)| std::cmp::Reverse(*count)); // stable
    report.whole_seconds &= report.requests > 0;
    report.clients = sessions.clients();
    let (log, shortened) = sessions.finish(options)?;
    report.pauses_shortened = shortened;
    Ok((log, report))
}

/// Reads a line; `format` is that of the lines so far.
fn read_line(line: &[u8], format: Option<Format>) -> Result<Line<'_>, MalformedReason> {
    let is_json = line.starts_with(b"{");
    if format.is_some_and(|format| (format == Format::Json) != is_json) {
        return Err(MalformedReason::OtherFormat);
    }
    if is_json { json::read(line) } else { ncsa::read(line) }
}

/// Adds a request if it is to be replayed.
fn keep(
    line: &Line<'_>,
    options: &ImportOptions,
    sessions: &mut sessions::Sessions,
    report: &mut ImportReport,
) -> Result<(), MalformedReason> {
    if !matches!(&*line.method, "GET" | "HEAD") {
        report.other_method(&line.method);
        return Ok(());
    }
    let uri = path_of(&line.uri)?;
    let is_good = matches!(line.status, 200..=299 | 304);
    if options.good_only && !is_good {
        let is_redirect = matches!(line.status, 300..=399);
        *(if is_redirect { &mut report.redirected } else { &mut report.failed }) += 1;
        return Ok(());
    }
    report.requests += 1;
    report.without_client += u64::from(line.client.is_empty());
    let class = usize::from(line.status / 100);
    report.status[if class <= 5 { class } else { 0 }] += 1;
    report.whole_seconds &= line.unix_us.is_multiple_of(1_000_000);
    let (first, last) = report.span_unix_us.unwrap_or((line.unix_us, line.unix_us));
    report.out_of_order += u64::from(line.unix_us < last);
    report.span_unix_us = Some((first.min(line.unix_us), last.max(line.unix_us)));
    sessions.add(uri, line);
    Ok(())
}

/// The path and query of a target, which may be a whole URL if the server is a proxy.
fn path_of(target: &[u8]) -> Result<&[u8], MalformedReason> {
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|one| target.starts_with(one));
    let path = match scheme {
        Some(scheme) => {
            let rest = &target[scheme.len()..];
            let slash = memchr::memchr(b'/', rest).ok_or(MalformedReason::NoPath)?;
            &rest[slash..]
        }
        None => target,
    };
    if !path.starts_with(b"/") {
        Err(MalformedReason::NoPath)
    } else if path.iter().any(|byte| byte.is_ascii_control() || *byte == b' ') {
        Err(MalformedReason::BadPath)
    } else {
        Ok(path)
    }
}

#[cfg(test)]
mod tests;
