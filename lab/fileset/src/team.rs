//! Threads that share numbered pieces of work, while the caller reports their progress.

use std::convert::Infallible;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use os::clock;

use crate::error::Error;

/// The interval at which progress is reported.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// The stage of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Examining existing files.
    Checking,
    /// Writing missing or wrong files.
    Writing,
}

/// The progress of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// The number of files done.
    pub files: u64,
    /// The number of files in all.
    pub files_total: u64,
    /// The number of bytes done.
    pub bytes: u64,
    /// The number of bytes in all.
    pub bytes_total: u64,
    /// How long the stage has taken so far, in microseconds.
    pub elapsed_us: u64,
}

/// A stage of the work: its size, and how much is done.
pub(crate) struct Tally {
    pub(crate) stage: Stage,
    pub(crate) files_total: u64,
    pub(crate) bytes_total: u64,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    pub(crate) fn new(stage: Stage, files_total: u64, bytes_total: u64) -> Self {
        let (files, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { stage, files_total, bytes_total, files, bytes }
    }

    pub(crate) fn add_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn progress(&self, start_us: u64) -> Progress {
        Progress {
            stage: self.stage,
            files: self.files.load(Ordering::Relaxed),
            files_total: self.files_total,
            bytes: self.bytes.load(Ordering::Relaxed),
            bytes_total: self.bytes_total,
            elapsed_us: clock::now() - start_us,
        }
    }
}

/// Does `work` for each number below `count` and returns the results in that order. After an error
/// no further piece is begun.
pub(crate) fn share<R: Send>(
    threads: usize,
    count: usize,
    tally: &Tally,
    progress: &mut dyn FnMut(&Progress),
    work: impl Fn(usize) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let start_us = clock::now();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let member = || {
        let mut results = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= count {
                break;
            }
            let result = work(piece).inspect_err(|_| failed.store(true, Ordering::Relaxed));
            results.push((piece, result?));
        }
        Ok(results)
    };
    let parts: Vec<Result<Vec<(usize, R)>, Error>> = thread::scope(|scope| {
        // Nothing is ever sent: the channel is closed when the last member drops its end.
        let (end, ended) = mpsc::channel::<Infallible>();
        let start = |_| {
            let end = end.clone();
            scope.spawn(move || {
                let _end = end;
                member()
            })
        };
        let members: Vec<_> = (0..threads.clamp(1, count.max(1))).map(start).collect();
        drop(end);
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REPORT_EVERY) {
            progress(&tally.progress(start_us));
        }
        let join = |member: thread::ScopedJoinHandle<'_, _>| {
            member.join().unwrap_or_else(|payload| panic::resume_unwind(payload))
        };
        members.into_iter().map(join).collect()
    });
    let mut results = Vec::with_capacity(count);
    for part in parts {
        results.extend(part?);
    }
    results.sort_unstable_by_key(|(piece, _)| *piece);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::path::Path;

    #[test]
    fn results_are_in_order_and_complete() {
        for (threads, count) in [(0, 5), (1, 0), (3, 1), (4, 1000)] {
            let tally = Tally::new(Stage::Checking, 0, 0);
            let results = share(threads, count, &tally, &mut |_| {}, |piece| Ok(piece * 2));
            assert_eq!(results.unwrap(), (0..count).map(|piece| piece * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let tally = Tally::new(Stage::Writing, 0, 0);
        let work = |piece| {
            tally.add_file();
            let error = || Error::io("read", Path::new("x"), io::ErrorKind::Other.into());
            if piece == 10 { Err(error()) } else { Ok(()) }
        };
        assert!(share(2, 1_000_000, &tally, &mut |_| {}, work).is_err());
        assert!(tally.progress(0).files < 1_000_000);
    }
}
