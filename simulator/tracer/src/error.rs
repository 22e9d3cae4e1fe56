//! Errors of recordings; each is one line.

use memory_trace::TraceError;

use crate::recipe_names;

/// Why no trace was made.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// This machine lacks something that the recorder needs. The text says how to install it.
    #[error("{0}")]
    Unavailable(String),
    /// A signal asked to end before there was anything to make a trace of, or while the trace was
    /// made.
    #[error("interrupted")]
    Interrupted,
    /// The recorded command, a step of a recipe, or the system failed.
    #[error("{0}")]
    Failed(String),
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A recipe failed.
    #[error("{why} ({printed})")]
    Recipe {
        /// The cause.
        why: Box<Self>,
        /// The file with the output of the recipe's commands until then.
        printed: String,
    },
}

/// Why a recipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// No recipe of the program has this name, and it is not the name of a file.
    #[error("no recipe {}: there are {}, or name a .toml file", .0, recipe_names().join(", "))]
    Unknown(String),
    /// The file of this name cannot be read.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// The text of the recipe of this name is not valid: the message of the TOML parser.
    #[error("recipe {0}: {1}")]
    Text(String, String),
}

impl From<String> for RecordingError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}
