//! Why options give no plan, by whose fault: the exit status depends on that.

use std::fmt::Display;
use std::io::{self, ErrorKind};

use command::near::is_named_wrongly;

/// Why options give no plan, in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// What was typed is wrong.
    #[error("{0}")]
    Typed(String),
    /// What was typed may be right, and the system does not give what it names: the address of a
    /// host, the content of a file.
    #[error("{0}")]
    System(String),
}

impl OptionsError {
    /// The error for a file or an address that was typed: it does not exist, or cannot be had.
    pub(crate) fn of_named(why: &io::Error, line: String) -> Self {
        match is_named_wrongly(why) || why.kind() == ErrorKind::AddrNotAvailable {
            true => Self::Typed(line),
            false => Self::System(line),
        }
    }

    /// The same, with the place of the options before it.
    #[must_use]
    pub fn at(self, place: impl Display) -> Self {
        match self {
            Self::Typed(why) => Self::Typed(format!("{place}: {why}")),
            Self::System(why) => Self::System(format!("{place}: {why}")),
        }
    }
}

impl From<String> for OptionsError {
    fn from(why: String) -> Self {
        Self::Typed(why)
    }
}
