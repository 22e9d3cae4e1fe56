//! What a command says of its progress: on a terminal in one line that the next replaces, and that
//! is gone before anything else is said.

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

    /// Says it in the place of what was said before; elsewhere than on a terminal in a line of its
    /// own.
    pub(crate) fn say(&mut self, line: &str) {
        self.is_there = self.is_terminal;
        // Whoever cannot be told need not be, here and below.
        let _ = match self.is_terminal {
            true => write!(io::stderr(), "\r\x1b[K{line}"),
            false => writeln!(io::stderr(), "{line}"),
        };
    }

    /// Says it on a terminal, in the place of what was said before; elsewhere it says nothing.
    pub(crate) fn say_to_people(&mut self, line: &str) {
        if self.is_terminal {
            self.say(line);
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
