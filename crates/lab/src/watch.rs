//! Whoever started a study or a comparison, and looks on.

/// What they hear and say.
pub trait Watch {
    /// A line on how it goes on.
    fn report(&mut self, line: &str);

    /// Whether it shall end after the run under way.
    fn is_interrupted(&mut self) -> bool;
}
