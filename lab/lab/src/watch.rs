//! The interface to the user who started a study or a comparison and watches it.

/// Receives progress, and may end the work.
pub trait Watch {
    /// Shows a line of progress, in the place of the line before where there is one place for it.
    fn report(&mut self, line: &str);

    /// Shows a line that stays.
    fn note(&mut self, line: &str) {
        self.report(line);
    }

    /// Whether the work is to end after the run under way.
    fn is_interrupted(&mut self) -> bool;
}
