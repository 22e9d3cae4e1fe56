//! A test of the running program in a process of its own, to be killed. For tests only.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::str::SplitWhitespace;

/// A process that a test kills: it is killed when the value is dropped, if it still runs.
#[derive(Debug)]
pub struct Victim {
    process: Child,
    printed: String,
}

impl Victim {
    /// Starts `test`, the full name of a test of this program, which does something only where
    /// `variable` is set, and waits for the line it prints on standard error.
    ///
    /// # Panics
    /// If the process cannot be started.
    #[must_use]
    pub fn start(test: &str, variable: &str, value: impl AsRef<OsStr>) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("Linux says"))
            .args(["--exact", "--nocapture", test])
            .env(variable, value)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the test's own program");
        let stderr = process.stderr.take().expect("it is piped");
        let mut printed = String::new();
        BufReader::new(stderr).read_line(&mut printed).expect("it prints a line");
        Self { process, printed }
    }

    /// The words of the line that it printed.
    pub fn printed_words(&self) -> SplitWhitespace<'_> {
        self.printed.split_whitespace()
    }

    /// Kills the process with SIGKILL, which cannot be caught.
    pub fn kill(&mut self) {
        self.process.kill().expect("it is our child");
        self.process.wait().expect("it is our child");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Skipped if the process was killed before.
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill();
        }
    }
}

/// Whether a process ignores SIGHUP.
#[must_use]
pub fn ignores_hangup(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
    ignored.and_then(|set| u64::from_str_radix(set, 16).ok()).is_some_and(|set| set & 1 == 1)
}
