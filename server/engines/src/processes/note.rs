//! Reports of a master on its processes, each in one number: the master has no log of its own, and
//! the reader of a report may come when the processes are gone.

use std::fmt;
use std::io;

use os::fork::{Ended, STATUS_OF_PANIC};

/// A report of a failure that was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    kind: Kind,
    /// The id of the process; 0 for none.
    pid: u32,
    /// The status, the signal or the error.
    number: u16,
    was_serving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Exit = 0,
    Signal = 1,
    Error = 2,
    CannotFork = 3,
}

impl Note {
    /// The report of a process that has failed, with an error if that was the reason.
    pub(super) fn ended(pid: u32, how: Ended, error: u64, was_serving: bool) -> Self {
        let (kind, number) = match how {
            _ if error != 0 => (Kind::Error, error as u16),
            Ended::Exit(status) => (Kind::Exit, status as u16),
            Ended::Signal(signal) => (Kind::Signal, signal as u16),
        };
        Self { kind, pid, number, was_serving }
    }

    /// The report of a fork that the system has refused.
    pub(super) fn cannot_fork(error: u64) -> Self {
        Self { kind: Kind::CannotFork, pid: 0, number: error as u16, was_serving: false }
    }

    pub(super) fn to_cell(self) -> u64 {
        u64::from(self.pid) << 32
            | u64::from(self.was_serving) << 24
            | (self.kind as u64) << 16
            | u64::from(self.number)
    }

    pub(super) fn from_cell(cell: u64) -> Self {
        let kind = match cell >> 16 & 3 {
            0 => Kind::Exit,
            1 => Kind::Signal,
            2 => Kind::Error,
            _ => Kind::CannotFork,
        };
        let was_serving = cell >> 24 & 1 != 0;
        Self { kind, pid: (cell >> 32) as u32, number: cell as u16, was_serving }
    }

    fn reason(self) -> String {
        let number = self.number;
        let error = || {
            os::errors::from_number(number.into()).unwrap_or_else(|| io::ErrorKind::Other.into())
        };
        match self.kind {
            Kind::Exit if i32::from(number) == STATUS_OF_PANIC => "panicked".to_string(),
            Kind::Exit => format!("ended with status {number}"),
            Kind::Signal => format!("was killed by signal {number}"),
            Kind::Error => format!("failed ({})", error()),
            Kind::CannotFork => format!("cannot fork another ({})", error()),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pid, reason) = (self.pid, self.reason());
        let consequence = match self.was_serving {
            true => "its connection is lost",
            false => "it had no connection",
        };
        match self.kind {
            Kind::CannotFork => {
                let limits = "ulimit -u, TasksMax=, kernel.pid_max";
                write!(f, "processes: {reason}: raise the limit ({limits})")
            }
            _ => write!(f, "processes: process {pid} {reason}: {consequence}"),
        }
    }
}
