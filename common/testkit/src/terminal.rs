//! Commands on a pseudo-terminal, as a user sees them: what is written, and what is left of it on
//! the screen.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A command on a terminal, by script(1) ([`SCRIPT`](crate::tools::SCRIPT)).
pub struct Terminal {
    script: Child,
    input: ChildStdin,
    output: ChildStdout,
    written: Vec<u8>,
    columns: usize,
}

/// What a command wrote to a terminal until it ended.
#[derive(Debug)]
pub struct Written {
    /// The exit status; for one that a signal ended 128 and its number.
    pub status: i32,
    /// Everything, with its control sequences.
    pub all: String,
    /// The lines that are left on the screen, without emphasis.
    pub screen: Vec<String>,
}

impl Terminal {
    /// Starts a command, its words without blanks and quotes, on a terminal of so many columns.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(words: &[&str], columns: usize, environment: &[(&str, &str)]) -> Self {
        let command = format!("stty rows 24 columns {columns}; exec {}", words.join(" "));
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
        script.env("SHELL", "/bin/sh").env("TERM", "xterm").env_remove("NO_COLOR");
        script.envs(environment.iter().copied());
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        // Tests may run in the background of a shell, where interrupts are ignored.
        os::signals::restore_in_child(&mut script);
        let mut script = script.spawn().unwrap();
        let (input, output) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        Self { script, input, output, written: Vec::new(), columns }
    }

    /// Waits until the command has written `text`.
    ///
    /// # Panics
    /// When the command ends before.
    pub fn wait_for(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.written).contains(text) {
            let mut more = [0; 4096];
            let count = self.output.read(&mut more).unwrap();
            assert!(count > 0, "{text}: {}", String::from_utf8_lossy(&self.written));
            self.written.extend_from_slice(&more[..count]);
        }
    }

    /// Types Ctrl-C.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn interrupt(&mut self) {
        self.input.write_all(b"\x03").unwrap();
        self.input.flush().unwrap();
    }

    /// Waits for the end of the command.
    ///
    /// # Panics
    /// When what it wrote cannot be read.
    pub fn finish(mut self) -> Written {
        self.output.read_to_end(&mut self.written).unwrap();
        let status = self.script.wait().unwrap().code().unwrap();
        let all = String::from_utf8(self.written).unwrap();
        let screen = screen(&all, self.columns);
        Written { status, all, screen }
    }
}

/// The lines of a screen after this text, without blanks at their ends, and without the empty lines
/// at the end. Of control sequences it knows what erases to the end of a line, and emphasis.
fn screen(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![Vec::new()];
    let mut at = 0;
    let mut rest = text.chars();
    while let Some(one) = rest.next() {
        let line = lines.last_mut().expect("there is always one");
        match one {
            '\r' => at = 0,
            '\n' => lines.push(Vec::new()),
            '\x1b' => {
                let mut sequence = String::new();
                for one in rest.by_ref() {
                    sequence.push(one);
                    if one.is_ascii_alphabetic() {
                        break;
                    }
                }
                if sequence == "[K" {
                    line.truncate(at);
                }
            }
            shown => {
                if at == columns {
                    lines.push(Vec::new());
                    at = 0;
                }
                let line = lines.last_mut().expect("there is always one");
                line.resize(line.len().max(at + 1), ' ');
                line[at] = shown;
                at += 1;
            }
        }
    }
    let text = |line: Vec<char>| line.into_iter().collect::<String>().trim_end().to_owned();
    let mut lines: Vec<String> = lines.into_iter().map(text).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_what_was_not_overwritten() {
        let check = |text, expected: &[&str]| assert_eq!(screen(text, 4), expected, "{text:?}");
        check("one\r\ntwo\r\n", &["one", "two"]);
        check("one\rtw\x1b[K", &["tw"]);
        check("one\r\x1b[K", &[]);
        check("\x1b[1mone\x1b[0m", &["one"]);
        check("abcdef\r\x1b[K", &["abcd"]);
    }
}
