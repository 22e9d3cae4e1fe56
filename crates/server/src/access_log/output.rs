//! Where lines go: a file, or standard output.
//!
//! Written without a buffer in between: lines come in buffers. A file is opened for appending, so
//! that the kernel keeps what several processes write apart. Standard output may be a pipe, where
//! large pieces mix: there processes take turns.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process;

use super::Tally;
use crate::processes::PlaceLedger;

/// How a process shares the log with others.
#[derive(Clone)]
pub(crate) struct Sharing {
    /// Where lines are counted.
    pub(crate) ledger: PlaceLedger,
    /// A file that all these processes can open and lock.
    pub(crate) lock_path: String,
    /// Whether the process is not to have a thread that writes.
    pub(crate) is_single_threaded: bool,
}

impl Sharing {
    pub(super) fn tally(&self) -> Tally {
        Tally { written: self.ledger.lines_written(), dropped: self.ledger.lines_dropped() }
    }
}

/// Where lines go.
pub(super) enum Output {
    File(File),
    Standard(Option<Turn>),
}

impl Output {
    pub(super) fn open(path: &str, sharing: Option<&Sharing>) -> Result<Self, String> {
        if path == "-" {
            let turn = |sharing: &Sharing| Turn::new(sharing.lock_path.clone());
            return Ok(Self::Standard(sharing.map(turn)));
        }
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.map(Self::File).map_err(|why| format!("cannot open the access log {path:?}: {why}"))
    }

    /// The file's descriptor, to be put in the place of another's.
    pub(super) fn into_file(self) -> Option<OwnedFd> {
        match self {
            Self::File(file) => Some(file.into()),
            Self::Standard(_) => None,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Standard(None) => write_standard(bytes),
            Self::Standard(Some(turn)) => turn.take(|| write_standard(bytes)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(()) // nothing is held back
    }
}

fn write_standard(bytes: &[u8]) -> io::Result<usize> {
    // The standard library's buffer ends at the last newline, and so does ours.
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map(|()| bytes.len())
}

/// A process's turn among several. The kernel ends it if the process does.
pub(super) struct Turn {
    path: String,
    /// The lock, and the process that opened it: a fork of it would hold the same.
    lock: Option<(u32, File)>,
}

impl Turn {
    pub(super) fn new(path: String) -> Self {
        Self { path, lock: None }
    }

    /// Does `work` while no other process does. Without a lock to take, lines may mix, which is
    /// better than to have none.
    pub(super) fn take<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let own = process::id();
        if self.lock.as_ref().is_none_or(|(opener, _)| *opener != own) {
            self.lock = File::open(&self.path).ok().map(|file| (own, file));
            // It stays open.
            self.lock.iter().for_each(|(_, file)| os::descriptors::note(file.as_fd()));
        }
        let lock = self.lock.as_ref().map(|(_, file)| file);
        let locked = lock.filter(|file| file.lock().is_ok());
        let outcome = work();
        if let Some(file) = locked {
            let _ = file.unlock(); // what was locked can be unlocked
        }
        outcome
    }
}
