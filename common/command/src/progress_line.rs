//! The progress of a command, printed on a terminal as one line that the next replaces, and that is
//! cleared before anything else is printed, and when the command is interrupted.

use std::env;
use std::io::{self, IsTerminal, Stderr, Write};

use os::terminal;

/// Erases the line and goes to its start.
const CLEAR: &str = "\r\x1b[K";

/// The columns of a terminal that does not know them.
const COLUMNS: usize = 80;

/// A line on standard error. It is cleared when it is dropped, whatever ends the command.
pub struct ProgressLine<W: Write = Stderr> {
    errors: W,
    is_terminal: bool,
    is_there: bool,
    columns: fn() -> usize,
}

impl ProgressLine {
    /// A line in which nothing has been printed yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it looks at standard error")]
    pub fn new() -> Self {
        let errors = io::stderr();
        let is_terminal = errors.is_terminal();
        if is_terminal {
            // Without it remains of the line may be left, and nothing else is lost.
            let _ = terminal::write_when_ended(CLEAR.as_bytes());
        }
        Self { errors, is_terminal, is_there: false, columns }
    }

    /// Shows `line` on a terminal while `work` is done.
    pub fn during<T>(line: &str, work: impl FnOnce() -> T) -> T {
        let mut progress = Self::new();
        progress.print_on_terminal(line);
        work()
    }
}

/// The columns of the terminal now: a user may have changed them since the last line.
fn columns() -> usize {
    let typed = || env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    terminal::columns(io::stderr()).or_else(typed).unwrap_or(COLUMNS)
}

impl<W: Write> ProgressLine<W> {
    /// Prints `line` in place of the line before; elsewhere than on a terminal, after it.
    pub fn print_line(&mut self, line: &str) {
        self.is_there = self.is_terminal;
        // That progress cannot be printed is no reason to fail, here and below.
        let _ = match self.is_terminal {
            true => write!(self.errors, "{CLEAR}{}", cut(line, (self.columns)())),
            false => writeln!(self.errors, "{line}"),
        };
    }

    /// Prints `line` on a terminal, in place of the line before; elsewhere it prints nothing.
    pub fn print_on_terminal(&mut self, line: &str) {
        if self.is_terminal {
            self.print_line(line);
        }
    }

    /// Prints a line that stays, in place of the line before.
    pub fn print_lasting(&mut self, line: &str) {
        self.clear();
        let _ = writeln!(self.errors, "{line}");
    }

    /// Removes the line, if there is one, before something else is printed.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _ = write!(self.errors, "{CLEAR}");
        }
    }
}

/// What of a line fits these columns, of which the last is left free: a line that reaches the edge
/// would be continued below, where nothing clears it.
fn cut(line: &str, columns: usize) -> String {
    let fitting = columns.saturating_sub(1);
    match line.chars().count() > fitting {
        true => line.chars().take(fitting.saturating_sub(1)).chain(['…']).take(fitting).collect(),
        false => line.to_owned(),
    }
}

impl<W: Write> Drop for ProgressLine<W> {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(is_terminal: bool, say: fn(&mut ProgressLine<&mut Vec<u8>>), expected: &str) {
        let mut written = Vec::new();
        let columns = || 8;
        let mut line = ProgressLine { errors: &mut written, is_terminal, is_there: false, columns };
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
    fn a_terminal_is_never_filled_to_its_edge() {
        check(true, |line| line.print_line("1234567"), "\r\x1b[K1234567\r\x1b[K");
        check(true, |line| line.print_line("12345678"), "\r\x1b[K123456…\r\x1b[K");
        assert_eq!(["é€é", "é€"].map(|line| cut(line, 3)), ["é…", "é€"]);
        assert_eq!([0, 1, 2].map(|columns| cut("ab", columns)), ["", "", "…"]);
    }

    #[test]
    fn a_lasting_line_takes_the_place_of_progress() {
        let say = |line: &mut ProgressLine<&mut Vec<u8>>| {
            line.print_line("one");
            line.print_lasting("stays for good");
        };
        check(true, say, "\r\x1b[Kone\r\x1b[Kstays for good\n");
        check(false, say, "one\nstays for good\n");
    }

    #[test]
    fn elsewhere_nothing_is_cleared_or_cut() {
        let both = |line: &mut ProgressLine<&mut Vec<u8>>| {
            line.print_line("one line that is long");
            line.print_on_terminal("two");
            line.print_line("three");
        };
        check(false, both, "one line that is long\nthree\n");
    }
}
