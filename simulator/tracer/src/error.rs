//! Errors of recordings; each is one line.

use std::fmt;

use memory_trace::TraceError;

/// Why no trace was made.
#[derive(Debug)]
pub enum RecordingError {
    /// This machine lacks something that the recorder needs. The text says how to install it.
    Unavailable(String),
    /// A signal asked to end before there was anything to make a trace of, or while the trace was
    /// made.
    Interrupted,
    /// The recorded command, a step of a recipe, or the system failed.
    Failed(String),
    /// The trace cannot be written.
    Trace(TraceError),
    /// A recipe failed.
    Recipe {
        /// The cause.
        why: Box<Self>,
        /// The file with the output of the recipe's commands until then.
        printed: String,
    },
}

/// Why a recipe cannot be used.
#[derive(Debug)]
pub enum RecipeError {
    /// No recipe of the program has this name, and it is not the name of a file.
    Unknown(String),
    /// The file of this name cannot be read.
    File(String, std::io::Error),
    /// The text of the recipe of this name is not valid: the message of the TOML parser.
    Text(String, String),
}

impl fmt::Display for RecordingError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) | Self::Failed(why) => write!(to, "{why}"),
            Self::Interrupted => write!(to, "interrupted"),
            Self::Trace(why) => why.fmt(to),
            Self::Recipe { why, printed } => write!(to, "{why} ({printed})"),
        }
    }
}

impl fmt::Display for RecipeError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(typed) => {
                let names = crate::recipe_names().join(", ");
                write!(to, "no recipe {typed}: there are {names}, or name a .toml file")
            }
            Self::File(path, why) => write!(to, "{path}: {why}"),
            Self::Text(name, why) => write!(to, "recipe {name}: {why}"),
        }
    }
}

impl From<String> for RecordingError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<TraceError> for RecordingError {
    fn from(why: TraceError) -> Self {
        Self::Trace(why)
    }
}

impl std::error::Error for RecordingError {}
impl std::error::Error for RecipeError {}
