//! The error of a typed distribution or length.

/// A text that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{typed}\": {why}")]
pub struct ParseError {
    /// The text as it was typed.
    pub typed: String,
    /// What is wrong with the text, and what to write.
    pub why: String,
}

impl ParseError {
    pub(crate) fn new(typed: &str, why: String) -> Self {
        Self { typed: typed.to_owned(), why }
    }
}
