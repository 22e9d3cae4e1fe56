//! The interface to the user who started a study or a comparison and watches it.

/// Receives progress, and may end the work.
pub trait Watch {
    /// Shows a line of progress.
    fn report(&mut self, line: &str);

    /// Whether the work is to end after the run under way.
    fn is_interrupted(&mut self) -> bool;
}
