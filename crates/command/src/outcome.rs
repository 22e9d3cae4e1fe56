//! How a command ends: what it prints, and its exit status.

use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command failed, which decides the exit status.
#[derive(Debug)]
pub enum Failure {
    /// What was typed or configured is wrong: status 2.
    Usage(String),
    /// What was typed and configured is right, and the operation failed: status 1.
    Operation(String),
    /// The operation ended before it was done, and can go on once the cause is mended: status 4.
    Stopped(String),
    /// All has been said; only the status is left.
    Reported(u8),
}

/// The status of a comparison or a search after which nobody knows which is best.
pub const UNDECIDED: u8 = 3;

/// The status of a study or a search that can be gone on with.
pub const UNFINISHED: u8 = 4;

/// Prints to standard output. A reader that has seen enough (`| head`) is no failure.
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

/// Says in a line on standard error what a person should know. That it is closed is no failure.
pub fn say(message: &str) {
    let _ = io::stderr().write_all(format!("ropewalk: {message}\n").as_bytes());
}

/// The notice of a name in a user's file or command that is another since 0.1. The old one is read
/// until 0.2.
pub fn renamed(before: &str, now: &str) -> String {
    format!("`{before}` is called `{now}` now; the old name is read until 0.2")
}

/// The exit status of a command that ended so, after its message, if any, has been given to `say`:
/// [`say()`], or what a server reports with.
pub fn exit_code(outcome: Result<(), Failure>, say: fn(&str)) -> ExitCode {
    let (message, status) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Reported(status)) => return ExitCode::from(status),
        Err(Failure::Usage(message)) => (message, 2),
        Err(Failure::Operation(message)) => (message, 1),
        Err(Failure::Stopped(message)) => (message, UNFINISHED),
    };
    say(&message);
    ExitCode::from(status)
}
