//! The live line, which shows the last interval. It is rendered anew for each interval; the caller
//! prints it over the last one.

use super::format;
use crate::measures::Interval;

/// The most columns of a line.
pub const COLUMNS_MAX: usize = 100;

/// Renders a line for each interval: rates and times are of the interval, errors are of the run so
/// far.
#[derive(Clone, Debug)]
pub struct Progress {
    interval_us: u64,
    duration_us: Option<u64>,
    errors: u64,
}

impl Progress {
    /// The line of a run with intervals of `interval_us` that is to take `duration_us`, if that is
    /// known.
    #[must_use]
    pub fn new(interval_us: u64, duration_us: Option<u64>) -> Self {
        Self { interval_us, duration_us, errors: 0 }
    }

    /// The line for `interval`, which ended `seconds` after the start.
    pub fn line(&mut self, seconds: f64, interval: &Interval) -> String {
        self.errors = self.errors.saturating_add(interval.errors);
        let per_second =
            |count: u64| format::short(count as f64 * 1e6 / self.interval_us.max(1) as f64);
        let of = self
            .duration_us
            .map_or(String::new(), |duration_us| format!("/{:.0}", duration_us as f64 / 1e6));
        let line = format!(
            "{seconds:.0}{of} s  sent {}/s  served {}/s  errors {}  p50 {} p99 {} ms  in flight {}",
            per_second(interval.requests),
            per_second(interval.replies),
            format::short(self.errors as f64),
            format::quantile_ms(&interval.times, 0.5),
            format::quantile_ms(&interval.times, 0.99),
            format::short(interval.in_flight as f64),
        );
        // Only numbers far beyond any machine's make a line so long that it is cut.
        line.chars().take(COLUMNS_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn golden() {
        let outcome = sample::run();
        let mut progress = Progress::new(1_000_000, Some(12_000_000));
        let lines: Vec<_> = (outcome.measures.series.iter().zip(1_u32..).take(4))
            .map(|(interval, second)| progress.line(f64::from(second), interval) + "\n")
            .collect();
        sample::check_golden("progress.txt", &lines.concat());
    }

    #[test]
    fn large_numbers_fit_and_larger_ones_are_cut() {
        let mut interval = Interval { requests: 99_940, replies: 99_930, ..Interval::default() };
        (interval.errors, interval.in_flight) = (99_900, 99_900);
        interval.times.record_n(9_999_000, 2).unwrap();
        let mut progress = Progress::new(1_000_000, Some(86_400_000_000));
        let line = progress.line(86_399.9, &interval);
        assert!(line.len() <= COLUMNS_MAX && line.ends_with("in flight 99.9k"), "{line}");
        (interval.requests, interval.replies, interval.errors) = (u64::MAX, u64::MAX, u64::MAX);
        let line = progress.line(1e15, &interval);
        assert_eq!(line.len(), COLUMNS_MAX, "{line}");
    }
}
