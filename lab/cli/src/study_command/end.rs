//! What a study prints while it runs, and how it ends.

use std::path::Path;

use command::{Failure, ProgressLine, UNFINISHED, print};
use lab::study::{End, Tally};
use lab::watch::Watch;
use load::interrupt::Interrupt;

/// Reports how the study ended, in a line and by the exit status.
pub(super) fn conclude(end: End, tally: Tally, path: &Path) -> Result<(), Failure> {
    let path = path.display();
    let Tally { wanted, unknown } = tally;
    let (line, status) = match end {
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
    };
    print(&format!("{line}\n"))?;
    if status == 0 { Ok(()) } else { Err(Failure::Reported(status)) }
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
