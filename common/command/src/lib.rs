//! Shared by all commands: how they end, their progress, files written whole, JSON output,
//! durations and numbers as users type them, estimates of time, what may have been meant by an
//! unknown word, and what is made from the definition of a command line: scripts of shells and man
//! pages.
//!
//! The crate knows which program has which command, and of how arguments are parsed only what a
//! mistake in them is.

#![forbid(unsafe_code)]

pub mod compressed;
mod emphasis;
pub mod estimate;
pub mod generated;
pub mod help;
pub mod json;
pub mod near;
pub mod numbers;
mod outcome;
mod parser_error;
pub mod programs;
mod progress_line;
pub mod units;
pub mod whole_file;

pub use emphasis::Emphasis;
pub use outcome::{
    Failure, UNDECIDED, UNFINISHED, escaped, exit_code, notify, print, renamed, takes_stdout,
};
pub use parser_error::{exit_code_of_parser, faults_of_values, refusal};
pub use progress_line::ProgressLine;

/// Typed in place of a file's name, it stands for standard input or standard output.
pub const DASH: &str = "-";
