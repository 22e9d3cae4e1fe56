//! A log that was given: its sessions, and why requests in it are not used. Not what is done with
//! the sessions.

use ::workload::request_log::RequestLog;
use ::workload::request_log::access_log::{ImportOptions, ImportReport, import};
use command::compressed::decompressor;
use page::number::counted;
use std::fmt;
use std::path::Path;

/// Which requests of a log are used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    /// Requests that are in the log, or lines that might be requests.
    all: u64,
    /// Why some are not used, with how many.
    unused: Vec<(u64, String)>,
}

impl Tally {
    /// All requests of sessions are used.
    pub(super) fn of_sessions(log: &RequestLog) -> Self {
        Self { all: log.requests() as u64, unused: Vec::new() }
    }

    fn of_import(report: &ImportReport) -> Self {
        let mut tally = Self { all: report.lines, unused: Vec::new() };
        tally.leave_out(report.redirected, counted(report.redirected as usize, "redirect"));
        tally.leave_out(report.failed, format!("{} answered with 4xx or 5xx", report.failed));
        for (method, count) in &report.other_methods {
            tally.leave_out(*count, format!("{count} {method}"));
        }
        let unread = report.malformed.iter().map(|kind| kind.lines).sum();
        tally.leave_out(unread, format!("{unread} that cannot be read"));
        tally
    }

    /// Some requests are for no file: this is one of their paths.
    pub(super) fn leave_out_missing(&mut self, count: u64, uri: &[u8]) {
        let uri = String::from_utf8_lossy(uri);
        self.leave_out(count, format!("{count} for no file, such as {uri}"));
    }

    fn leave_out(&mut self, count: u64, why: String) {
        if count > 0 {
            self.unused.push((count, why));
        }
    }
}

/// Says how many are used and why the others are not; nothing if all are.
impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unused.is_empty() {
            return Ok(());
        }
        let used = self.all - self.unused.iter().map(|(count, _)| count).sum::<u64>();
        let why: Vec<&str> = self.unused.iter().map(|(_, why)| why.as_str()).collect();
        write!(out, "{used} of {} requests are used: {}", self.all, why.join(", "))
    }
}

/// The sessions in a web server's log: of requests that were answered with 2xx or 304.
pub(super) fn sessions(bytes: &[u8], path: &Path) -> Result<(RequestLog, Tally), String> {
    let name = path.display();
    if let Some(program) = decompressor(bytes) {
        return Err(format!("{name}: compressed: unpack it first: {program} {name} > access.log"));
    }
    let options = ImportOptions { good_only: true, ..ImportOptions::default() };
    let (log, report) = import(bytes, &options).map_err(|why| format!("{name}: {why}"))?;
    if log.requests() == 0 {
        let report = report.to_string().trim_end().replace('\n', "; ");
        return Err(format!("{name}: nothing to replay: {report}"));
    }
    Ok((log, Tally::of_import(&report)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(request: &str, status: u16) -> String {
        format!("::1 - - [22/Nov/2026:10:00:00 +0000] \"{request} HTTP/1.1\" {status} 5\n")
    }

    #[test]
    fn requests_that_are_not_used_are_counted_by_reason() {
        let good = [line("GET /a", 200), line("HEAD /a", 304), line("GET /b", 206)].concat();
        let tally = |more: &[String]| {
            let text = good.clone() + &more.concat();
            let (log, tally) = sessions(text.as_bytes(), Path::new("l")).expect("three are good");
            assert_eq!(log.requests(), 3);
            tally
        };
        assert_eq!(tally(&[]).to_string(), "");
        let mut others = tally(&[
            line("GET /old", 301),
            line("GET /x", 404),
            line("GET /x", 500),
            line("POST /a", 200),
            "nonsense\n".into(),
        ]);
        let expected = "3 of 8 requests are used: 1 redirect, 2 answered with 4xx or 5xx, 1 POST, \
                        1 that cannot be read";
        assert_eq!(others.to_string(), expected);
        others.leave_out_missing(1, b"/about");
        let told = others.to_string();
        assert!(told.starts_with("2 of 8 ") && told.ends_with(", 1 for no file, such as /about"));
    }

    #[test]
    fn a_log_of_which_nothing_can_be_used_is_a_mistake() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(sessions(bytes, Path::new("l")).expect_err("nothing is left"), expected);
        };
        let none = "l: nothing to replay: 1 lines, common; 0 requests of 0 clients; 1 left out for \
                    their status";
        check(line("GET /x", 404).as_bytes(), none);
        check(b"\x1f\x8b\x08", "l: compressed: unpack it first: zcat l > access.log");
    }
}
