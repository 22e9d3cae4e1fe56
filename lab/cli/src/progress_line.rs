//! The progress of a command, printed on a terminal as one line that the next replaces, and that is
//! cleared before anything else is printed.

use std::io::{self, IsTerminal, Write};

/// A line on standard error. It is cleared when it is dropped, whatever ends the command.
pub(crate) struct ProgressLine {
    is_terminal: bool,
    is_there: bool,
}

impl ProgressLine {
    pub(crate) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal(), is_there: false }
    }

    /// Prints `line` in place of the line before; elsewhere than on a terminal, after it.
    pub(crate) fn print_line(&mut self, line: &str) {
        self.is_there = self.is_terminal;
        // That progress cannot be printed is no reason to fail, here and below.
        let _ = match self.is_terminal {
            true => write!(io::stderr(), "\r\x1b[K{line}"),
            false => writeln!(io::stderr(), "{line}"),
        };
    }

    /// Prints `line` on a terminal, in place of the line before; elsewhere it prints nothing.
    pub(crate) fn print_on_terminal(&mut self, line: &str) {
        if self.is_terminal {
            self.print_line(line);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.is_there {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
