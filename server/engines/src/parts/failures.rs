//! Counts failures of one place: a place that fails again and again is not filled once more, or not
//! at once. Not the replacing: each owner of places has threads or processes of its own kind.

use std::collections::VecDeque;
use std::fmt;

/// The recent failures in one place: of a thread or a process.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    /// The times of the failures, in microseconds of the process's clock, the latest last.
    times_us: VecDeque<u64>,
}

impl Failures {
    /// The number of failures within [`Self::WITHIN_S`] that is too many.
    pub(crate) const MAX: usize = 5;
    /// The time in which [`Self::MAX`] failures are too many, in seconds.
    const WITHIN_S: u64 = 10;

    /// Records a failure at `now_us`.
    pub fn note(&mut self, now_us: u64) {
        self.times_us.push_back(now_us);
        if self.times_us.len() > Self::MAX {
            self.times_us.pop_front();
        }
    }

    /// Whether there have been too many failures to fill the place again.
    pub(crate) fn are_too_many(&self, now_us: u64) -> bool {
        let is_recent = |then: &&u64| now_us.saturating_sub(**then) < Self::WITHIN_S * 1_000_000;
        self.times_us.iter().filter(is_recent).count() >= Self::MAX
    }

    /// The end of a pause after the last failure, unless it is over.
    pub(crate) fn pause_end_us(&self, now_us: u64, pause_us: u64) -> Option<u64> {
        let end = self.times_us.back().map(|last| last + pause_us);
        end.filter(|end| *end > now_us)
    }

    /// Whether another process takes the place of one that has ended.
    #[must_use]
    pub fn replacement(&self, now_us: u64) -> Replacement {
        if self.are_too_many(now_us) { Replacement::GivenUp } else { Replacement::Due }
    }
}

/// What becomes of the place of a process that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Another process takes it.
    Due,
    /// It stays empty, because there have been too many failures: the engine has failed.
    GivenUp,
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due => f.write_str("another takes its place"),
            Self::GivenUp => write!(
                f,
                "{} times within {} s: not replaced any more",
                Failures::MAX,
                Failures::WITHIN_S
            ),
        }
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
        let check = |now_us, expected, text: &str| {
            let replacement = failures.replacement(now_us);
            assert_eq!((replacement, &*replacement.to_string()), (expected, text));
        };
        check(10_000_000, Replacement::GivenUp, "5 times within 10 s: not replaced any more");
        check(20_000_000, Replacement::Due, "another takes its place");
    }

    #[test]
    fn a_pause_begins_with_the_last_failure() {
        let mut failures = Failures::default();
        assert_eq!(failures.pause_end_us(5, 10), None);
        failures.note(1);
        failures.note(5);
        assert_eq!(failures.pause_end_us(14, 10), Some(15));
        assert_eq!(failures.pause_end_us(15, 10), None);
    }
}
