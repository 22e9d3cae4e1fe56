//! Why something was not done, by who can mend it: the exit status of a command depends on that.

use command::Failure;
use std::fmt;

/// Why something was not done, in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// What was asked for makes no sense, or is another thing than before.
    Asked(String),
    /// What was asked for makes sense, and cannot be done here or did not work out.
    Failed(String),
    /// Runs can no longer be made, or written down. Those that there are remain: once that is
    /// mended, it can go on.
    Stopped(String),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Asked(why) | Self::Failed(why) | Self::Stopped(why)) = self;
        formatter.write_str(why)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Asked(why) => Self::Usage(why),
            Error::Failed(why) => Self::Operation(why),
            Error::Stopped(why) => Self::Stopped(why),
        }
    }
}
