//! What a study prints while it runs, and how it ends.

use std::io::Write;
use std::path::Path;

use command::{Failure, UNFINISHED, print};
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

/// Progress goes to standard error, a line for each run.
pub(super) struct Terminal {
    pub(super) interrupt: Interrupt,
}

impl Watch for Terminal {
    fn report(&mut self, line: &str) {
        // A progress line that cannot be written is dropped.
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    fn is_interrupted(&mut self) -> bool {
        self.interrupt.came()
    }
}
