//! One program that was started, until nothing of it is left.

use std::ffi::CStr;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};

use os::fork::Ended;
use os::programs::{Group, Program};
use upstream::{Diagnostics, ReportDiagnostic, StartProgram};

use super::folders::Found;

/// How long a program may go on when no worker hears it any more: it may have something to do
/// after its reply, which was whole for a client that knew its length and left.
const UNHEARD_US: u64 = 1_000_000;

/// How long the processes of a program may take to end after SIGTERM.
const TERMINATE_US: u64 = 2_000_000;

/// How long the processes that a program leaves in its group may outlive it.
const ORPHANS_US: u64 = 1_000_000;

/// Where programs find others, as a shell script needs it.
const SEARCH_PATH: &CStr = c"PATH=/usr/local/bin:/usr/bin:/bin";

/// The name of all programs in the error log, which has the target of the request as well.
pub(super) const NAME: &str = "cgi";

/// Pieces of standard error that are read before other programs get their turn.
const PIECES_MAX: usize = 8;

/// Bytes of standard error that are read at once.
const READ_BYTES: usize = 16 * 1024;

/// A program and what it has started.
pub(super) struct Running {
    group: Group,
    /// Standard error, until its end.
    pub(super) errors: Option<PipeReader>,
    diagnostics: Diagnostics,
    /// Whether the program itself has ended.
    has_ended: bool,
    /// Whether no worker hears it any more: then it does not matter how it ends.
    is_unheard: bool,
    /// When it is asked to end.
    terminate_at: Option<u64>,
    /// When what is left is killed.
    kill_at: Option<u64>,
}

impl Running {
    /// Starts a program.
    pub(super) fn start(
        found: &Found,
        start: &StartProgram<'_>,
        input: BorrowedFd<'_>,
        output: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        let (errors, theirs) = io::pipe()?;
        os::socket::set_blocking(errors.as_fd(), false)?;
        let mut environment = vec![SEARCH_PATH];
        environment.extend(start.variables().filter(|it| is_told(it)));
        let group = os::programs::start(&Program {
            path: &found.path,
            directory: &found.directory,
            environment: &environment,
            input,
            output,
            errors: theirs.as_fd(),
        })?;
        Ok(Self {
            group,
            errors: Some(errors),
            diagnostics: Diagnostics::new(NAME, start.target),
            has_ended: false,
            is_unheard: false,
            terminate_at: None,
            kill_at: None,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.group.id()
    }

    /// The worker has closed its end of the connection.
    pub(super) fn hung_up(&mut self, now: u64) {
        self.is_unheard = true;
        self.terminate_at = Some(now + UNHEARD_US);
    }

    /// Asks all of its processes to end, and has them killed if they do not.
    pub(super) fn terminate(&mut self, now: u64) {
        (self.is_unheard, self.terminate_at) = (true, None);
        self.group.terminate();
        self.kill_at = Some(self.kill_at.unwrap_or(u64::MAX).min(now + TERMINATE_US));
    }

    /// The program has ended.
    pub(super) fn ended(&mut self, ended: Ended, now: u64, log: &ReportDiagnostic) {
        self.has_ended = true;
        self.read_errors(log);
        let report = |line: &upstream::Diagnostic<'_>| log(line);
        match ended {
            _ if self.is_unheard => self.diagnostics.end(0, report),
            Ended::Exit(status) => self.diagnostics.end(status.cast_unsigned(), report),
            Ended::Signal(_) => {
                self.diagnostics.end(0, report);
                self.diagnostics.report_line(&ended.to_string(), report);
            }
        }
        self.kill_at = Some(self.kill_at.unwrap_or(u64::MAX).min(now + ORPHANS_US));
    }

    /// Whether nothing is left of it but what has left its group.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended && !self.group.has_members()
    }

    /// When [`Running::end_if_due`] is to be called.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.terminate_at.into_iter().chain(self.kill_at).min()
    }

    /// Ends it if it has had its time. Returns whether its processes were killed now.
    pub(super) fn end_if_due(&mut self, now: u64) -> bool {
        if self.terminate_at.is_some_and(|at| at <= now) {
            self.terminate(now);
        }
        let is_due = self.kill_at.take_if(|at| *at <= now).is_some();
        if is_due {
            self.group.kill();
        }
        is_due
    }

    /// Reads what there is on standard error. The end of it is taken note of.
    pub(super) fn read_errors(&mut self, log: &ReportDiagnostic) {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..PIECES_MAX {
            let Some(errors) = &mut self.errors else { return };
            match errors.read(&mut buffer) {
                Ok(0) => self.errors = None,
                Ok(n) => self.diagnostics.take(&buffer[..n], |line| log(line)),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return, // nothing is there
            }
        }
    }
}

/// Whether a variable is one of CGI's: a worker can set no other, as those by which programs load
/// code.
fn is_told(variable: &CStr) -> bool {
    const NAMES: [&[u8]; 22] = [
        b"CONTENT_LENGTH",
        b"CONTENT_TYPE",
        b"DOCUMENT_ROOT",
        b"GATEWAY_INTERFACE",
        b"HTTPS",
        b"PATH_INFO",
        b"PATH_TRANSLATED",
        b"QUERY_STRING",
        b"REDIRECT_STATUS",
        b"REMOTE_ADDR",
        b"REMOTE_PORT",
        b"REQUEST_METHOD",
        b"REQUEST_SCHEME",
        b"REQUEST_URI",
        b"SCRIPT_FILENAME",
        b"SCRIPT_NAME",
        b"SERVER_ADDR",
        b"SERVER_NAME",
        b"SERVER_PORT",
        b"SERVER_PROTOCOL",
        b"SERVER_SOFTWARE",
        b"REMOTE_USER",
    ];
    let name = variable.to_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
    name.starts_with(b"HTTP_") && name != b"HTTP_PROXY" || NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CVE-2016-5385, and variables by which other code is loaded.
    #[test]
    fn a_worker_sets_no_variable_but_those_of_cgi() {
        for told in [c"HTTP_HOST=a", c"HTTP_X_PROXY=a", c"QUERY_STRING=", c"SCRIPT_NAME=/a"] {
            assert!(is_told(told), "{told:?}");
        }
        for untold in [
            c"HTTP_PROXY=http://evil",
            c"HTTP_PROXY",
            c"LD_PRELOAD=/tmp/evil.so",
            c"PATH=/tmp",
            c"BASH_ENV=/tmp/evil",
            c"QUERY_STRINGS=a",
            c"=HTTP_HOST",
            c"",
        ] {
            assert!(!is_told(untold), "{untold:?}");
        }
    }
}
