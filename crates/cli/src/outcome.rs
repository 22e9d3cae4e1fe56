//! How a command ends: what it prints, and its exit status.

use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command failed, which decides the exit status.
pub(crate) enum Failure {
    /// What was typed or configured is wrong: status 2.
    Usage(String),
    /// It was right and did not work out: status 1.
    Operation(String),
    /// It ended before it was done, and can go on once that is mended: status 4.
    Stopped(String),
    /// All has been said; only the status is left.
    Reported(u8),
}

impl From<lab::Error> for Failure {
    fn from(error: lab::Error) -> Self {
        match error {
            lab::Error::Asked(why) => Self::Usage(why),
            lab::Error::Failed(why) => Self::Operation(why),
            lab::Error::Stopped(why) => Self::Stopped(why),
        }
    }
}

/// The status of a comparison or a search after which nobody knows which is best.
pub(crate) const UNDECIDED: u8 = 3;

/// The status of a study or a search that can be gone on with.
pub(crate) const UNFINISHED: u8 = 4;

/// Prints to standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Operation(format!("cannot print: {why}")))
        }
        _ => Ok(()),
    }
}

/// What a command ends with. A message is for standard error.
pub(crate) fn exit_code(outcome: Result<(), Failure>) -> ExitCode {
    let (message, status) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Reported(status)) => return ExitCode::from(status),
        Err(Failure::Usage(message)) => (message, 2),
        Err(Failure::Operation(message)) => (message, 1),
        Err(Failure::Stopped(message)) => (message, UNFINISHED),
    };
    server::report(&message);
    ExitCode::from(status)
}
