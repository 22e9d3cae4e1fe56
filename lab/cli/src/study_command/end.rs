//! What a study prints while it runs, and how it ends.

use std::path::Path;

use command::{Failure, ProgressLine, UNFINISHED, print};
use lab::report::Report;
use lab::study::{End, Tally};
use lab::watch::Watch;
use load::interrupt::Interrupt;

use crate::verdict::print_verdict;

/// How many conclusions are printed; all are in the report.
const CONCLUSIONS_MAX: usize = 4;

/// Reports what the study has found and how it ended, and by the exit status.
pub(super) fn conclude(end: End, tally: Tally, path: &Path) -> Result<(), Failure> {
    let (line, status) = last_line(end, tally, path);
    let conclusions = match end {
        End::Interrupted => Vec::new(),
        End::Complete | End::BudgetSpent => conclusions(path),
    };
    match conclusions.is_empty() {
        true => print(&format!("{line}\n"))?,
        false => print_verdict(&conclusions.join("\n"), &line)?,
    }
    if status == 0 { Ok(()) } else { Err(Failure::Reported(status)) }
}

/// The first conclusions that the records support, and how many there are beside them.
fn conclusions(path: &Path) -> Vec<String> {
    let read = || Report::read(path);
    // Records that cannot be read are the business of `ropewalk report`, which says why.
    let Ok(report) = ProgressLine::during("reading what was measured", read) else {
        return Vec::new();
    };
    let all = report.conclusions();
    let mut shown: Vec<String> =
        all.iter().take(CONCLUSIONS_MAX).map(|text| (*text).to_owned()).collect();
    if let Some(more @ 1..) = all.len().checked_sub(CONCLUSIONS_MAX) {
        shown.push(format!("and {more} more, in the report"));
    }
    shown
}

/// How the study ended and where its records are, and the exit status.
fn last_line(end: End, tally: Tally, path: &Path) -> (String, u8) {
    let path = path.display();
    let Tally { wanted, unknown } = tally;
    match end {
        End::Complete if unknown > 0 && unknown == wanted => {
            (format!("Nothing could be measured: ropewalk report {path} says why"), 1)
        }
        End::Complete if unknown > 0 => (
            format!(
                "{} of {wanted} are measured, the others could not be: ropewalk report {path}",
                wanted - unknown
            ),
            0,
        ),
        End::Complete => (format!("All is measured: ropewalk report {path}"), 0),
        End::BudgetSpent => (
            format!("The budget is spent. ropewalk report {path} shows what was measured"),
            UNFINISHED,
        ),
        End::Interrupted => (format!("Interrupted. Go on with --resume -o {path}"), UNFINISHED),
    }
}

/// Progress goes to standard error, a line for each run; on a terminal in one place.
pub(super) struct Terminal {
    line: ProgressLine,
    interrupt: Interrupt,
}

impl Terminal {
    pub(super) fn new() -> Result<Self, Failure> {
        let interrupt = Interrupt::new().map_err(Failure::Operation)?;
        Ok(Self { line: ProgressLine::new(), interrupt })
    }

    pub(super) fn clear(&mut self) {
        self.line.clear();
    }

    /// Shows what is done before there are runs, on a terminal only.
    pub(super) fn show(&mut self, line: &str) {
        self.line.print_on_terminal(line);
    }
}

impl Watch for Terminal {
    fn report(&mut self, line: &str) {
        self.line.print_line(line);
    }

    fn note(&mut self, line: &str) {
        self.line.print_lasting(line);
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupt.came()
    }
}
