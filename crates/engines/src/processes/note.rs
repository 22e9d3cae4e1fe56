//! What a master has to say about its processes, in one number: it has no voice of its own, and
//! whoever reads the number later may find the processes gone.

use std::fmt;
use std::io;

use os::fork::{Ended, STATUS_OF_PANIC};

/// Something that went wrong and was mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Note {
    what: What,
    /// Which process; 0 for none.
    pid: u32,
    /// The status, the signal or the error.
    number: u16,
    was_serving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Exit = 0,
    Signal = 1,
    Error = 2,
    CannotFork = 3,
}

impl Note {
    /// A process ended against its will, maybe because of an error.
    pub(super) fn ended(pid: u32, how: Ended, error: u64, was_serving: bool) -> Self {
        let (what, number) = match how {
            _ if error != 0 => (What::Error, error as u16),
            Ended::Exit(status) => (What::Exit, status as u16),
            Ended::Signal(signal) => (What::Signal, signal as u16),
        };
        Self { what, pid, number, was_serving }
    }

    /// The system has no process to give.
    pub(super) fn cannot_fork(error: u64) -> Self {
        Self { what: What::CannotFork, pid: 0, number: error as u16, was_serving: false }
    }

    pub(super) fn to_cell(self) -> u64 {
        u64::from(self.pid) << 32
            | u64::from(self.was_serving) << 24
            | (self.what as u64) << 16
            | u64::from(self.number)
    }

    pub(super) fn from_cell(cell: u64) -> Self {
        let what = match cell >> 16 & 3 {
            0 => What::Exit,
            1 => What::Signal,
            2 => What::Error,
            _ => What::CannotFork,
        };
        let was_serving = cell >> 24 & 1 != 0;
        Self { what, pid: (cell >> 32) as u32, number: cell as u16, was_serving }
    }

    fn reason(self) -> String {
        let number = self.number;
        let error = || {
            os::errors::from_number(number.into()).unwrap_or_else(|| io::ErrorKind::Other.into())
        };
        match self.what {
            What::Exit if i32::from(number) == STATUS_OF_PANIC => "panicked".to_string(),
            What::Exit => format!("ended with status {number}"),
            What::Signal => format!("was killed by signal {number}"),
            What::Error => format!("failed ({})", error()),
            What::CannotFork => format!("cannot fork another ({})", error()),
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
        match self.what {
            What::CannotFork => {
                let limits = "ulimit -u, TasksMax=, kernel.pid_max";
                write!(f, "processes: {reason}: raise the limit ({limits})")
            }
            _ => write!(f, "processes: process {pid} {reason}: {consequence}"),
        }
    }
}
