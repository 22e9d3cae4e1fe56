//! The end of a command that judges: the verdict is the last that it prints, where a reader at a
//! terminal looks first.

use std::io;

use command::{Emphasis, Failure, print};

/// Prints a verdict after a blank line, emphasised on a terminal, and below it where more is to be
/// found. Nothing is printed after it.
pub(crate) fn print_verdict(verdict: &str, more: &str) -> Result<(), Failure> {
    let verdict = Emphasis::of_stream(&io::stdout()).strong(verdict).into_owned();
    print(&format!("\n{verdict}\n{more}\n"))
}
