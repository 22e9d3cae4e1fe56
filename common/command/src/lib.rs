//! Shared by all commands: how they end, their progress, files written whole, JSON output,
//! durations as users type them.
//!
//! The crate knows which program has which command, and nothing of how arguments are parsed.

#![forbid(unsafe_code)]

pub mod compressed;
pub mod json;
mod outcome;
pub mod programs;
mod progress_line;
pub mod units;
pub mod whole_file;

pub use outcome::{
    Failure, UNDECIDED, UNFINISHED, exit_code, exit_code_of_parser, notify, print, renamed,
    takes_stdout,
};

pub use progress_line::ProgressLine;

/// Typed in place of a file's name, it stands for standard input or standard output.
pub const DASH: &str = "-";
