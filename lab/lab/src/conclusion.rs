//! What a comparison or a search ends with: the details, and then the verdict, which is what a
//! reader looks for.

use std::fmt;

/// A result in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conclusion {
    /// Lines that explain the verdict, each with a line feed.
    pub details: String,
    /// The verdict: a line or a few, without the last line feed.
    pub verdict: String,
}

/// The details, and the verdict after a blank line.
impl fmt::Display for Conclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}", self.details, self.verdict)
    }
}
