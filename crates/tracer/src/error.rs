//! Why there is no recording: each error is one line.

use std::fmt;

use memory_trace::TraceError;

/// Why no trace was made.
#[derive(Debug)]
pub enum RecordingError {
    /// What the recorder needs is not on this machine. The text says how to install it.
    Unavailable(String),
    /// A signal asked to end before there was anything to make a trace of, or while it was made.
    Interrupted,
    /// What was to be recorded, a step of a recipe, or the system failed.
    Failed(String),
    /// The trace cannot be written.
    Trace(TraceError),
    /// A recipe failed.
    Recipe {
        /// Why.
        why: Box<Self>,
        /// Where what its commands have printed up to then is.
        printed: String,
    },
}

/// Why there is no recipe.
#[derive(Debug)]
pub enum RecipeError {
    /// No recipe of the program has this name, and it is not the name of a file.
    Unknown(String),
    /// The file of this name cannot be read.
    File(String, std::io::Error),
    /// The recipe of this name is not one: what the reader of TOML says.
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
