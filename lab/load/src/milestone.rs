//! The lines by which a generator with `--start-at -` says how far it is, for the program that has
//! started it and answers each with a line.

use std::fmt;

/// How far a generator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Milestone {
    /// It can begin, and waits for the start time.
    Ready,
    /// It has measured, and keeps its connections until its input has a line or ends.
    Measured,
}

/// The line that it prints, without its end.
impl fmt::Display for Milestone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Ready => "ready",
            Self::Measured => "measured",
        })
    }
}
