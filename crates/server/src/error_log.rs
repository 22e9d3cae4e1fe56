//! The error log: what operators are told of paths that were refused although something is there,
//! and of those that could not be looked at. Clients only get the status.
//!
//! A line on standard error, for which nobody waits. Whoever asks for such paths again and again
//! does not fill a disk by that: so many lines a second, and the number of those that were left
//! out.

use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

use engines::jobs::{TellTrouble, Trouble, TroubleCause};

use crate::config::ErrorLogging;
use crate::report;

/// Enough to see what is wrong, and a megabyte in ten minutes at most.
const LINES_PER_S_MAX: u32 = 10;

/// Something that tells operators, if they want to be told.
pub(crate) fn teller(logging: ErrorLogging) -> Option<TellTrouble> {
    let budget = Mutex::new(Budget::default());
    match logging {
        ErrorLogging::Off => None,
        ErrorLogging::StandardError => Some(Arc::new(move |trouble| tell(&budget, trouble))),
    }
}

fn tell(budget: &Mutex<Budget>, trouble: &Trouble<'_>) {
    let taken = {
        let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
        budget.take(os::clock::now())
    };
    if let Some(left_out) = taken {
        report(&line(trouble, left_out));
    }
}

/// `"/srv/www/a.txt": permission denied`. Whatever bytes a name has, it is one line.
fn line(trouble: &Trouble<'_>, left_out: u64) -> String {
    let path = trouble.root.join(std::ffi::OsStr::from_bytes(trouble.path));
    let left_out = match left_out {
        0 => String::new(),
        more => format!(" ({more} more such lines were left out before this)"),
    };
    match &trouble.cause {
        TroubleCause::Refused(why) => format!("refused {path:?}: {why}{left_out}"),
        TroubleCause::Failed(why) => format!("cannot look at {path:?}: {why}{left_out}"),
    }
}

/// How many lines may be written in the second under way.
#[derive(Debug, Default)]
struct Budget {
    began_us: u64,
    written: u32,
    left_out: u64,
}

impl Budget {
    /// Takes a line out of it: how many were left out before; none if this one is to be, too.
    fn take(&mut self, now_us: u64) -> Option<u64> {
        if self.began_us == 0 || now_us.saturating_sub(self.began_us) >= 1_000_000 {
            (self.began_us, self.written) = (now_us, 0);
        }
        if self.written == LINES_PER_S_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use site::refusal::Refusal;

    use super::*;

    #[test]
    fn so_many_lines_a_second_and_the_rest_is_counted() {
        let mut budget = Budget::default();
        let second = |s: u64| 5 + s * 1_000_000;
        let mut take = |s, times: u32| -> Vec<Option<u64>> {
            (0..times).map(|_| budget.take(second(s))).collect()
        };
        assert_eq!(take(1, LINES_PER_S_MAX), vec![Some(0); LINES_PER_S_MAX as usize]);
        assert_eq!(take(1, 3), [None; 3]);
        assert_eq!(take(2, 2), [Some(3), Some(0)]);
        assert_eq!(take(9, 1), [Some(0)]);
    }

    #[test]
    fn a_line_has_the_path_and_the_reason() {
        let line = |path: &[u8], cause, left_out| {
            line(&Trouble { root: Path::new("/srv"), path, cause }, left_out)
        };
        let refused = TroubleCause::Refused(Refusal::Permission);
        assert_eq!(line(b"a/b.txt", refused, 0), "refused \"/srv/a/b.txt\": permission denied");
        let text = line(b"a\nb\xff", TroubleCause::Refused(Refusal::NotRegular), 7);
        assert!(
            text.starts_with("refused \"/srv/a\\nb\\xFF\": not a regular file (7 more"),
            "{text}"
        );
        let error = std::io::Error::other("broken");
        assert_eq!(line(b"", TroubleCause::Failed(&error), 0), "cannot look at \"/srv/\": broken");
    }
}
