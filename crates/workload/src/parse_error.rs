//! Why a typed distribution or length is none.

use std::fmt;

/// Text that does not say what it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// As it was typed.
    pub typed: String,
    /// What is wrong with it, and what to write.
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
