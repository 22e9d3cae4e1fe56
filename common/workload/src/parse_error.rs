//! The error of a typed distribution or length.

use std::fmt;

/// A text that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl fmt::Display for ParseError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{}\": {}", self.typed, self.why)
    }
}

impl std::error::Error for ParseError {}
