//! TOML that people write, read into types by serde. A mistake is one line, with the number of the
//! line in the file and the nearest right word.
//!
//! The configuration of the server is read elsewhere: its keys are a table, with places of their
//! own (`server/server/src/config`).

#![forbid(unsafe_code)]

mod mistake;
mod value;

use serde::de::DeserializeOwned;
use toml::Table;

pub use mistake::{Mistake, Step};

/// Reads a whole text.
///
/// # Errors
/// What is wrong, and in which line of the text, in a line.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let read = value::read(table(text)?.into());
    read.map_err(|mistake: Mistake| mistake.line_prefix(text, &[]) + &mistake.to_string())
}

/// Reads a table that was read before, and may have been changed since.
///
/// # Errors
/// What is wrong. [`Mistake::line_prefix`] finds its line.
pub fn read_value<T: DeserializeOwned>(value: impl Into<toml::Value>) -> Result<T, Mistake> {
    value::read(value.into())
}

/// Parses a text into a table.
///
/// # Errors
/// Why the text is no TOML, and in which line, in a line.
pub fn table(text: &str) -> Result<Table, String> {
    text.parse().map_err(|why: toml::de::Error| {
        let message = why.message().lines().collect::<Vec<_>>().join(", ");
        match why.span() {
            Some(span) => format!("line {}: {message}", mistake::line_at(text, span.start)),
            None => message,
        }
    })
}

#[cfg(test)]
mod tests;
