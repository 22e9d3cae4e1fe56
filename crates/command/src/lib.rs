//! What all commands share: how they end, files written whole, JSON that they print, durations as
//! users type them.
//!
//! It knows no command by name, and nothing of how arguments are parsed.

#![forbid(unsafe_code)]

pub mod compressed;
pub mod json;
mod outcome;
pub mod units;
pub mod whole_file;

pub use outcome::{Failure, UNDECIDED, UNFINISHED, exit_code, print, renamed, say};

/// What is typed in place of a file's name for standard input or standard output.
pub const DASH: &str = "-";
