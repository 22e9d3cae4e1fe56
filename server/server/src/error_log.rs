//! The error log: reports to operators paths that were refused although a file is there, paths that
//! could not be inspected, applications that have not answered, and what these write to standard
//! error. Clients only get the status.
//!
//! Each report is a line on standard error; no thread waits for it to be written. A client that
//! requests such paths again and again cannot fill a disk by that: the number of lines per second
//! is limited for all processes together, and the number of lines left out is reported.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engines::jobs::{ReportTrouble, Trouble, TroubleCause};
use upstream::ReportDiagnostic;

use crate::config::ErrorLogging;
use crate::report;

/// Enough to see what is wrong, and at most a megabyte in ten minutes.
const LINES_PER_S_MAX: u64 = 10;

/// Whether a server writes lines, and those that it may write in the second under way, in memory
/// that its processes share.
#[derive(Clone, Copy)]
pub(crate) struct Budget(&'static [AtomicU64]);

/// A function that reports to operators.
pub(crate) fn trouble_logger(budget: Budget) -> ReportTrouble {
    Arc::new(move |trouble| log(budget, |left_out| line(trouble, left_out)))
}

/// A function that reports what applications write to standard error.
pub(crate) fn diagnostic_logger(budget: Budget) -> ReportDiagnostic {
    Arc::new(move |diagnostic| {
        log(budget, |left_out| diagnostic.to_string() + &left_out_before(left_out));
    })
}

/// A function that reports what was found out about applications.
pub(crate) fn line_logger(budget: Budget) -> impl Fn(&str) + Send {
    move |line| log(budget, |left_out| line.to_owned() + &left_out_before(left_out))
}

/// Writes a line, unless operators have turned that off or there were enough of them: it gets the
/// number of those that were left out.
fn log(budget: Budget, line: impl FnOnce(u64) -> String) {
    const NS_PER_S: u64 = 1_000_000_000;
    if budget.is_off() {
        return;
    }
    if let Some(left_out) = budget.take(os::clock::now_ns() / NS_PER_S) {
        report(&line(left_out));
    }
}

fn left_out_before(left_out: u64) -> String {
    match left_out {
        0 => String::new(),
        more => format!(" ({more} more such lines were left out before this)"),
    }
}

/// Formats `"/srv/www/a.txt": permission denied`: one line, whatever bytes a name has.
fn line(trouble: &Trouble<'_>, left_out: u64) -> String {
    let text = match trouble {
        Trouble::Path { root, path, cause } => {
            let path = root.join(std::ffi::OsStr::from_bytes(path));
            match cause {
                TroubleCause::Refused(why) => format!("refused {path:?}: {why}"),
                TroubleCause::Failed(why) => format!("cannot look at {path:?}: {why}"),
            }
        }
        Trouble::Application { name, failure } => {
            format!("{name}: {}: {failure}", failure.status())
        }
        Trouble::PassedOver { name, is_late } => {
            let why = match is_late {
                true => "no connection was made in time",
                false => "it accepts no connections",
            };
            format!("{name}: {why}: another server or address is tried")
        }
    };
    text + &left_out_before(left_out)
}

impl Budget {
    /// The number of cells that a budget takes.
    pub(crate) const CELLS: usize = 3;
    /// The cell with the current second, above the number of lines that were written in it.
    const SECOND: usize = 0;
    const LEFT_OUT: usize = 1;
    /// The cell that is not 0 if no lines are written.
    const IS_OFF: usize = 2;
    const WRITTEN_BITS: u32 = 8;

    /// Creates a budget in cells of its own, for a server that is one process.
    pub(crate) fn new() -> io::Result<Self> {
        let file = os::shared_memory::create_cells(Self::CELLS)?;
        os::shared_memory::map_cells(file.as_fd()).map(|cells| Self::in_cells(cells.leak()))
    }

    /// Creates a budget in the given cells, which were all 0 at the beginning.
    pub(crate) fn in_cells(cells: &'static [AtomicU64]) -> Self {
        Self(cells)
    }

    /// Has lines written or not from now on, by all processes.
    pub(crate) fn set(self, logging: ErrorLogging) {
        let is_off = match logging {
            ErrorLogging::Off => 1,
            ErrorLogging::StandardError => 0,
        };
        self.0[Self::IS_OFF].store(is_off, Ordering::Relaxed);
    }

    fn is_off(self) -> bool {
        self.0[Self::IS_OFF].load(Ordering::Relaxed) != 0
    }

    /// Takes a line out of the budget. Returns how many lines were left out before it; none if this
    /// one is to be left out, too. `second` is on the machine's clock.
    fn take(self, second: u64) -> Option<u64> {
        let add = |cell: u64| {
            let (under_way, written) =
                (cell >> Self::WRITTEN_BITS, cell & ((1 << Self::WRITTEN_BITS) - 1));
            match under_way >= second {
                true if written >= LINES_PER_S_MAX => None,
                true => Some(cell + 1),
                false => Some(second << Self::WRITTEN_BITS | 1),
            }
        };
        let order = Ordering::Relaxed;
        match self.0[Self::SECOND].fetch_update(order, order, add) {
            Ok(_) => Some(self.take_left_out()),
            Err(_) => {
                self.0[Self::LEFT_OUT].fetch_add(1, order);
                None
            }
        }
    }

    /// Takes the number of lines left out since the last one was written, for a caller that reports
    /// it.
    pub(crate) fn take_left_out(self) -> u64 {
        self.0[Self::LEFT_OUT].swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use site::refusal::Refusal;

    use super::*;

    #[test]
    fn lines_per_second_are_limited_and_the_rest_is_counted() {
        let budget = Budget::new().unwrap();
        let take = |second, times: u64| -> Vec<Option<u64>> {
            (0..times).map(|_| budget.take(second)).collect()
        };
        assert_eq!(take(1, LINES_PER_S_MAX), vec![Some(0); LINES_PER_S_MAX as usize]);
        assert_eq!(take(1, 3), [None; 3]);
        assert_eq!(take(2, 2), [Some(3), Some(0)]);
        assert_eq!(take(9, 1), [Some(0)]);
        assert_eq!(take(8, LINES_PER_S_MAX).last(), Some(&None), "a clock that was read earlier");
        assert_eq!((budget.take_left_out(), budget.take_left_out()), (1, 0));
    }

    #[test]
    fn a_line_has_the_path_and_the_reason() {
        let line = |path: &[u8], cause, left_out| {
            line(&Trouble::Path { root: Path::new("/srv"), path, cause }, left_out)
        };
        let refused = TroubleCause::Refused(Refusal::Permission);
        assert_eq!(line(b"a/b.txt", refused, 0), "refused \"/srv/a/b.txt\": permission denied");
        let text = line(b"a\nb\xff", TroubleCause::Refused(Refusal::NotRegular), 7);
        assert!(
            text.starts_with("refused \"/srv/a\\nb\\xFF\": not a regular file (7 more"),
            "{text}"
        );
        let error = io::Error::other("broken");
        assert_eq!(line(b"", TroubleCause::Failed(&error), 0), "cannot look at \"/srv/\": broken");
    }
}
