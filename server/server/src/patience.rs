//! How long a stop may take: requests under way have until a deadline, unless the operator is in a
//! hurry.

/// How long, in microseconds, the access log and standard error are waited for even when all other
/// time is used up: they need far less, unless they hang.
const LAST_WORDS_US: u64 = 500_000;

/// The time that a stop may take.
pub(crate) struct Patience<'h> {
    end_us: u64,
    hurry: Box<dyn FnMut() -> bool + 'h>,
    is_over: bool,
}

impl<'h> Patience<'h> {
    /// Creates a patience of `us` microseconds from now on. `hurry` is called again and again,
    /// sleeps a little each time, and ends the patience by returning true.
    pub(crate) fn new(us: u64, hurry: impl FnMut() -> bool + 'h) -> Self {
        let end_us = os::clock::now().saturating_add(us);
        Self { end_us, hurry: Box::new(hurry), is_over: false }
    }

    /// Creates a patience that is over at once, for a stop that has nothing to wait for.
    pub(crate) fn none() -> Self {
        Self::new(0, || false)
    }

    /// Whether the time is over for everything except writing the last lines.
    pub(crate) fn is_over(&mut self) -> bool {
        self.is_over = self.is_over || (self.hurry)() || os::clock::now() >= self.end_us;
        self.is_over
    }

    /// Whether the wait for a writer of last lines is over: the patience is over, and
    /// [`LAST_WORDS_US`] have passed since `since_us`, when the wait began.
    pub(crate) fn is_over_for_last_words(&mut self, since_us: u64) -> bool {
        self.is_over() && os::clock::now() >= since_us + LAST_WORDS_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hurry_ends_patience_for_good() {
        let mut asked = 0;
        let mut patience = Patience::new(u64::MAX, || {
            asked += 1;
            asked == 3
        });
        assert_eq!([(); 5].map(|()| patience.is_over()), [false, false, true, true, true]);
        drop(patience);
        assert_eq!(asked, 3, "asked no more often than needed");
    }

    #[test]
    fn patience_ends_by_itself() {
        let mut patience = Patience::none();
        assert!(patience.is_over());
        while !patience.is_over_for_last_words(0) {
            std::thread::yield_now(); // the clock began with the process
        }
        assert!(!patience.is_over_for_last_words(u64::MAX / 2), "they have not begun");
    }
}
