//! Decides from the interval of a ratio whether one of two things is better, or whether they tie.
//!
//! An interval that contains 1 does not show that two things are alike; it may as well show that
//! too little was measured. So there are two answers for it: a *tie* where the whole interval lies
//! within a margin of 1 (two one-sided tests, Schuirmann 1987), and *cannot tell* where it does
//! not.

use crate::order::Interval;
use crate::student::{Mean, student_above};

/// The conclusion from an interval of a ratio, given which difference is too small to matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The ratio is above 1.
    Higher,
    /// The ratio is below 1.
    Lower,
    /// The two sides of the ratio differ by less than matters, if at all.
    Tie,
    /// The two sides of the ratio may differ by more than matters, either way.
    CannotTell,
}

/// The conclusion from `ratio` where a difference of less than the `margin` (0.02: 2 %) does not
/// matter. An interval within the margin is a tie even if it leaves out 1: the difference is
/// certain, and small.
pub fn verdict(ratio: Interval, margin: f64) -> Verdict {
    let bound = 1.0 + margin;
    if ratio.low >= 1.0 / bound && ratio.high <= bound {
        Verdict::Tie
    } else if ratio.low > 1.0 {
        Verdict::Higher
    } else if ratio.high < 1.0 {
        Verdict::Lower
    } else {
        Verdict::CannotTell
    }
}

/// The logarithms of `numerators[i] / denominators[i]`: of pairs that were measured together, so
/// that a disturbance of both cancels. A pair with a value that is not above 0 is left out.
pub fn log_ratios(numerators: &[f64], denominators: &[f64]) -> Vec<f64> {
    let pairs = numerators.iter().zip(denominators);
    pairs
        .filter(|&(&numerator, &denominator)| numerator > 0.0 && denominator > 0.0)
        .map(|(numerator, denominator)| libm::log(numerator / denominator))
        .filter(|logarithm| logarithm.is_finite())
        .collect()
}

/// The interval of a ratio from that of its logarithm.
pub fn ratio_of_logs(logarithms: Interval) -> Interval {
    Interval { low: libm::exp(logarithms.low), high: libm::exp(logarithms.high) }
}

/// The p-value of the two one-sided tests: the chance of log ratios as close to 0 as these if the
/// true ratio were just the margin away from 1. None for fewer than two.
pub fn equivalence_p_value(log_ratios: &[f64], margin: f64) -> Option<f64> {
    let mean = Mean::from_sample(log_ratios)?;
    let bound = libm::log1p(margin);
    let error = mean.error_squared.sqrt();
    let degrees = (mean.count - 1) as f64;
    let above_lower = student_above((mean.mean + bound) / error, degrees);
    let below_upper = student_above((bound - mean.mean) / error, degrees);
    Some(above_lower.max(below_upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(low: f64, high: f64, expected: Verdict) {
        assert_eq!(verdict(Interval { low, high }, 0.02), expected);
    }

    #[test]
    fn four_answers() {
        check(1.01, 1.05, Verdict::Higher);
        check(0.90, 0.99, Verdict::Lower);
        check(0.99, 1.01, Verdict::Tie);
        check(1.005, 1.01, Verdict::Tie);
        check(0.97, 1.01, Verdict::CannotTell);
        check(0.5, 2.0, Verdict::CannotTell);
        check(f64::NEG_INFINITY, f64::INFINITY, Verdict::CannotTell);
    }

    /// Expected values: the larger of scipy.stats.ttest_1samp against either bound, and its
    /// interval of the mean.
    #[test]
    fn agrees_with_scipy() {
        let sample = [0.01, -0.005, 0.012, 0.004, 0.008, -0.002];
        let p_value = equivalence_p_value(&sample, 0.02).expect("six values");
        assert!((p_value - 0.001_348_128_231_422_516_9).abs() < 1e-12, "{p_value}");
        let interval = Mean::from_sample(&sample).expect("six values").interval(0.95);
        assert!((interval.low + 0.002_640_790_713_481_547).abs() < 1e-12, "{interval:?}");
        let ratio = ratio_of_logs(interval);
        assert!((ratio.high - 1.011_708_81).abs() < 1e-8, "{ratio:?}");
    }

    /// At 5 % the tests agree with whether the 90 % interval lies within the margin.
    #[test]
    fn tests_and_interval_agree() {
        let mut generator = crate::Generator::new(5);
        for _ in 0..200 {
            let sample: Vec<f64> = (0..8).map(|_| (generator.unit() - 0.4) * 0.05).collect();
            let interval = Mean::from_sample(&sample).expect("eight values").interval(0.9);
            let within = verdict(ratio_of_logs(interval), 0.02) == Verdict::Tie;
            let p_value = equivalence_p_value(&sample, 0.02).expect("eight values");
            assert_eq!(within, p_value < 0.05, "{sample:?}");
        }
    }

    #[test]
    fn pairs_without_a_ratio_are_left_out() {
        let logs = log_ratios(&[2.0, 0.0, 3.0, f64::NAN], &[1.0, 1.0, 0.0, 1.0]);
        assert_eq!(logs, [libm::log(2.0)]);
    }
}
