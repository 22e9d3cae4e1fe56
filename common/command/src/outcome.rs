//! The end of a command: its output, and its exit status.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::{DASH, Emphasis};

/// Why a command failed, which decides the exit status.
#[derive(Debug)]
pub enum Failure {
    /// What was typed or configured is wrong: status 2.
    Usage(String),
    /// The arguments and the configuration are right, and the operation failed: status 1.
    Operation(String),
    /// The operation ended before it was done, and can be resumed once the cause is fixed: status
    /// 4.
    Stopped(String),
    /// Everything has been reported; only the status is left.
    Reported(u8),
}

/// The status of a comparison or a search that has not determined the best.
pub const UNDECIDED: u8 = 3;

/// The status of a study or a search that can be resumed.
pub const UNFINISHED: u8 = 4;

/// Prints to standard output. It is not a failure that a reader has stopped reading (`| head`).
///
/// # Errors
/// [`Failure::Operation`]: why it cannot be printed.
pub fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Operation(format!("cannot print: {why}")))
        }
        _ => Ok(()),
    }
}

/// Whether a file of these options, given with their names, is standard output. Text for people
/// then belongs elsewhere: another program may read the file.
///
/// # Errors
/// A line: two files are, and standard output takes one.
pub fn takes_stdout<'a>(
    files: impl IntoIterator<Item = (&'static str, &'a Path)>,
) -> Result<bool, String> {
    let mut on_stdout = files.into_iter().filter(|(_, path)| path.as_os_str() == DASH);
    match (on_stdout.next(), on_stdout.next()) {
        (Some((first, _)), Some((second, _))) => Err(format!(
            "{first} - and {second} -: standard output takes one of them: give the other a file"
        )),
        (first, _) => Ok(first.is_some()),
    }
}

/// Prints a line for people on standard error. It is not a failure that standard error is closed.
pub fn notify(message: &str) {
    let program = Emphasis::of_stream(&io::stderr()).strong("ropewalk:").into_owned();
    let _ = io::stderr().write_all(format!("{program} {}\n", escaped(message)).as_bytes());
}

/// A message without control characters, with which a file's name, or what another process says,
/// could end the line or set the terminal.
pub fn escaped(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for letter in message.chars() {
        match letter.is_control() {
            true => line.extend(letter.escape_default()),
            false => line.push(letter),
        }
    }
    line
}

/// The notice of a name in a user's file or command that is another since 0.1. The old one is read
/// until 0.2.
pub fn renamed(before: &str, now: &str) -> String {
    format!("`{before}` is called `{now}` now; the old name is read until 0.2")
}

/// The exit status of a command with this outcome, after its message, if any, has been passed to
/// `notify`: the function [`notify()`], or a server's way of reporting.
pub fn exit_code(outcome: Result<(), Failure>, notify: fn(&str)) -> ExitCode {
    let (message, status) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Reported(status)) => return ExitCode::from(status),
        Err(Failure::Usage(message)) => (message, 2),
        Err(Failure::Operation(message)) => (message, 1),
        Err(Failure::Stopped(message)) => (message, UNFINISHED),
    };
    notify(&message);
    ExitCode::from(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_neither_end_a_line_nor_set_the_terminal() {
        let line = escaped("a\u{1b}[2J\nb\u{9b}: größer \"als\" 1\\2");
        assert_eq!(line, "a\\u{1b}[2J\\nb\\u{9b}: größer \"als\" 1\\2");
    }
}
