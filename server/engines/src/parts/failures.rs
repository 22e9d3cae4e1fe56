//! Counts failures of one place: a place that fails again and again is not filled once more.

use std::collections::VecDeque;

/// The recent failures in one place: of a thread or a process.
#[derive(Debug, Default)]
pub struct Failures {
    /// The times of the failures, in microseconds of the process's clock, the latest last.
    times_us: VecDeque<u64>,
}

impl Failures {
    /// The number of failures within [`Self::WITHIN_S`] that is too many.
    pub const MAX: usize = 5;
    /// The time in which [`Self::MAX`] failures are too many, in seconds.
    pub const WITHIN_S: u64 = 10;

    /// Records a failure at `now_us`.
    pub fn note(&mut self, now_us: u64) {
        self.times_us.push_back(now_us);
        if self.times_us.len() > Self::MAX {
            self.times_us.pop_front();
        }
    }

    /// Whether there have been too many failures to fill the place again.
    #[must_use]
    pub fn are_too_many(&self, now_us: u64) -> bool {
        let is_recent = |then: &&u64| now_us.saturating_sub(**then) < Self::WITHIN_S * 1_000_000;
        self.times_us.iter().filter(is_recent).count() >= Self::MAX
    }

    /// The time of the last failure.
    #[must_use]
    pub fn last_us(&self) -> Option<u64> {
        self.times_us.back().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_within_ten_seconds_are_too_many() {
        let mut failures = Failures::default();
        assert!(!failures.are_too_many(0));
        for second in [0, 1, 8, 9] {
            failures.note(second * 1_000_000);
            assert!(!failures.are_too_many(second * 1_000_000), "{second}");
        }
        failures.note(9_999_999);
        assert!(failures.are_too_many(9_999_999));
        assert!(!failures.are_too_many(10_000_000), "the first was ten seconds ago");
        failures.note(10_000_000);
        assert!(failures.are_too_many(10_000_000));
        assert_eq!(failures.last_us(), Some(10_000_000));
    }
}
