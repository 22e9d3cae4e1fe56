//! The progress of a command, printed on a terminal as one line that the next replaces, and that is
//! cleared before anything else is printed.

use std::io::{self, IsTerminal, Stderr, Write};

/// Erases the line and goes to its start.
const CLEAR: &str = "\r\x1b[K";

/// A line on standard error. It is cleared when it is dropped, whatever ends the command.
pub struct ProgressLine<W: Write = Stderr> {
    errors: W,
    is_terminal: bool,
    is_there: bool,
}

impl ProgressLine {
    /// A line in which nothing has been printed yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it looks at standard error")]
    pub fn new() -> Self {
        let errors = io::stderr();
        let is_terminal = errors.is_terminal();
        Self { errors, is_terminal, is_there: false }
    }
}

impl<W: Write> ProgressLine<W> {
    /// Prints `line` in place of the line before; elsewhere than on a terminal, after it.
    pub fn print_line(&mut self, line: &str) {
        self.is_there = self.is_terminal;
        // That progress cannot be printed is no reason to fail, here and below.
        let _ = match self.is_terminal {
            true => write!(self.errors, "{CLEAR}{line}"),
            false => writeln!(self.errors, "{line}"),
        };
    }

    /// Prints `line` on a terminal, in place of the line before; elsewhere it prints nothing.
    pub fn print_on_terminal(&mut self, line: &str) {
        if self.is_terminal {
            self.print_line(line);
        }
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        if self.is_there {
            let _ = write!(self.errors, "{CLEAR}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is_terminal: bool, say: fn(&mut ProgressLine<&mut Vec<u8>>), expected: &str) {
        let mut written = Vec::new();
        let mut line = ProgressLine { errors: &mut written, is_terminal, is_there: false };
        say(&mut line);
        drop(line);
        assert_eq!(String::from_utf8(written).expect("text"), expected);
    }

    #[test]
    fn a_terminal_has_one_line_that_is_gone_in_the_end() {
        let both = |line: &mut ProgressLine<&mut Vec<u8>>| {
            line.print_line("one");
            line.print_on_terminal("two");
        };
        check(true, both, "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K");
        check(true, |_| (), "");
    }

    #[test]
    fn elsewhere_nothing_is_cleared() {
        let both = |line: &mut ProgressLine<&mut Vec<u8>>| {
            line.print_line("one");
            line.print_on_terminal("two");
            line.print_line("three");
        };
        check(false, both, "one\nthree\n");
    }
}
