//! Load from wrk, the generator that Debian ships: running it for a while and reading what it
//! printed.
//!
//! wrk takes whole seconds only, so it is started for long and interrupted; it then reports what
//! it has counted so far. Closed loop: each connection waits for its answer, so its rates say what
//! a server costs and not how it behaves under more load than it can sustain. A script makes wrk
//! request the files of a log in the log's order; sessions and pauses it does not have.

use crate::client::Client;
use crate::error::Error;
use crate::http::Connection;
use crate::process::{self, CommandError};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use workload::request_log::RequestLog;

/// How wrk is installed.
const INSTALL: &str = "apt-get install wrk";

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Load<'a> {
    /// The URL with the path; a script may choose other paths.
    pub(crate) url: &'a str,
    /// Connections open at a time.
    pub(crate) connections: usize,
    /// Whether connections are used again.
    pub(crate) connection: Connection,
    /// A Lua script that makes the requests.
    pub(crate) script: Option<&'a Path>,
    /// The processors wrk may use; it has a thread for each.
    pub(crate) cpus: &'a [usize],
    /// How long to load.
    pub(crate) duration: Duration,
}

impl Load<'_> {
    /// How many threads wrk has: each needs a connection.
    pub(crate) fn threads(&self) -> usize {
        self.cpus.len().clamp(1, self.connections.max(1))
    }

    /// wrk with its arguments.
    pub(crate) fn command(&self) -> Vec<String> {
        // Should the interrupt get lost, wrk ends by itself.
        let seconds = format!("{}s", self.duration.as_secs() + 10);
        let (threads, connections) = (self.threads().to_string(), self.connections.to_string());
        let mut command: Vec<String> =
            ["wrk", "-t", &threads, "-d", &seconds, "-c", &connections].map(str::to_owned).into();
        if self.connection == Connection::Close {
            command.extend(["-H".into(), "Connection: close".into()]);
        }
        if let Some(script) = self.script {
            command.extend(["-s".into(), script.display().to_string()]);
        }
        command.push(self.url.to_owned());
        command
    }
}

/// What a run of wrk counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Outcome {
    /// Answers received.
    pub(crate) requests: u64,
    /// How long it took, in seconds, by wrk's own clock.
    pub(crate) seconds: f64,
    /// Answers other than 2xx and 3xx.
    pub(crate) not_successful: u64,
    /// Connections that ended where wrk expected an answer, or to be used again.
    pub(crate) read_errors: u64,
    /// Connections that failed to open or to write.
    pub(crate) other_errors: u64,
    /// The processor time that wrk itself used.
    pub(crate) cpu: Duration,
}

/// How long wrk may take to report after it has been interrupted.
const REPORT_WITHIN: Duration = Duration::from_secs(60);

/// Starts wrk, which then runs for a little longer than it should.
pub(crate) fn start(load: &Load<'_>) -> Result<Client, String> {
    Client::start_in(&[], load.cpus, &load.command())
}

/// Ends wrk, and reads what it counted.
pub(crate) fn finish(wrk: Client) -> Result<Outcome, String> {
    wrk.interrupt();
    let finished = wrk.finish(REPORT_WITHIN)?;
    let outcome = parse(&finished.output)
        .ok_or_else(|| format!("wrk ({INSTALL}) did not report: {}", finished.failure_reason()))?;
    Ok(Outcome { cpu: finished.cpu, ..outcome })
}

/// Writes a script that requests what the log requests, in its order, again and again; none where
/// the log requests one path only. The list of paths is written beside the script.
///
/// # Errors
/// What of the log is beyond wrk, in a line; that wrk is not installed; or why the script cannot be
/// written.
pub(crate) fn script(log: &RequestLog, script: &Path) -> Result<Option<PathBuf>, Error> {
    if let Err(CommandError::NotStarted(..)) = process::run(&["wrk", "-v"].map(str::to_owned), None)
    {
        return Err(Error::Failed(format!("wrk is not installed: {INSTALL}")));
    }
    if log.longest_session() > 1 {
        let why = "wrk knows no sessions and no pauses: requests must come one by one \
                   (`--lengths 1`)";
        return Err(Error::Usage(why.into()));
    }
    if log.templates().iter().any(|template| &*template.method != "GET") {
        let why = "wrk sends nothing but GET here, and its log has other methods";
        return Err(Error::Usage(why.into()));
    }
    if log.templates().len() == 1 {
        return Ok(None);
    }
    let requests = (0..log.sessions()).flat_map(|index| log.session(index));
    let paths = requests.map(|request| &*log.templates()[request.template()].uri);
    let list = script.with_extension("order");
    let text = format!(
        "local requests, at = {{}}, 0\n\
         function init(args)\n  \
           for path in io.lines({:?}) do\n    \
             requests[#requests + 1] = wrk.format('GET', path)\n  \
           end\n\
         end\n\
         function request()\n  \
           at = at % #requests + 1\n  \
           return requests[at]\n\
         end\n",
        list.display().to_string()
    );
    let write = |path: &Path, text: &[u8]| {
        fs::write(path, text).map_err(|why| Error::Failed(format!("{}: {why}", path.display())))
    };
    write(&list, &paths.collect::<Vec<_>>().join(&b'\n'))?;
    write(script, text.as_bytes())?;
    Ok(Some(script.to_owned()))
}

fn parse(report: &str) -> Option<Outcome> {
    let mut outcome = None;
    for line in report.lines().map(str::trim) {
        if let Some((requests, rest)) = line.split_once(" requests in ") {
            let seconds = seconds_of(rest.split_once(", ")?.0)?;
            let requests = requests.parse().ok()?;
            outcome = Some(Outcome { requests, seconds, ..Outcome::default() });
        } else if let Some(rest) = line.strip_prefix("Socket errors: ") {
            let outcome = outcome.as_mut()?;
            outcome.read_errors = errors(rest, |name| name == "read");
            outcome.other_errors = errors(rest, |name| matches!(name, "connect" | "write"));
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

const UNITS: &[(&str, f64)] = &[("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

fn seconds_of(text: &str) -> Option<f64> {
    let number_len = text.find(|c: char| c != '.' && !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(number_len);
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::request_log::wsesslog;

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
    }

    #[test]
    fn a_log_of_several_files_is_a_script() {
        let folder = testkit::Temporary::new();
        let place = folder.path().join("log.lua");
        let check = |log: &[u8], expected: Result<bool, &str>| {
            let log = wsesslog::read(log, 0).expect("it is a log");
            let made = script(&log, &place).map(|path| path.is_some());
            assert_eq!(made, expected.map_err(|why| Error::Usage(why.into())));
        };
        if !testkit::has(&testkit::tools::WRK) {
            return;
        }
        check(b"/a\n\n/a\n", Ok(false));
        check(b"/a\n\n/b\n\n/a\n", Ok(true));
        assert_eq!(fs::read_to_string(folder.path().join("log.order")).unwrap(), "/a\n/b\n/a");
        let sessions = "wrk knows no sessions and no pauses: requests must come one by one \
                        (`--lengths 1`)";
        check(b"/a\n/b\n", Err(sessions));
        check(
            b"/a method=POST\n",
            Err("wrk sends nothing but GET here, and its log has other methods"),
        );
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
        assert_eq!(outcome.seconds, 90.0);
    }

    #[test]
    fn anything_else_is_no_report() {
        assert_eq!(parse("unable to connect to 127.0.0.1:1 Connection refused\n"), None);
    }
}
