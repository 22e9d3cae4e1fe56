//! Why something was not done, by what can be done about it: the exit status of a command depends
//! on that.

use command::Failure;
use load::options::OptionsError;
use std::fmt::Display;

/// Why something was not done, in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub enum Error {
    /// The request makes no sense, or differs from the one that is being resumed.
    Usage(String),
    /// The request makes sense, and cannot be met here or did not work out.
    Failed(String),
    /// Runs can no longer be made, or written down. The runs made so far are kept: once the cause
    /// is fixed, the command can go on.
    Stopped(String),
}

impl Error {
    /// The same, with the place of what failed before it.
    #[must_use]
    pub(crate) fn at(self, place: impl Display) -> Self {
        let line = format!("{place}: {self}");
        match self {
            Self::Usage(_) => Self::Usage(line),
            Self::Failed(_) => Self::Failed(line),
            Self::Stopped(_) => Self::Stopped(line),
        }
    }
}

impl From<OptionsError> for Error {
    fn from(error: OptionsError) -> Self {
        match error {
            OptionsError::Typed(why) => Self::Usage(why),
            OptionsError::System(why) => Self::Failed(why),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Usage(why) => Self::Usage(why),
            Error::Failed(why) => Self::Operation(why),
            Error::Stopped(why) => Self::Stopped(why),
        }
    }
}
