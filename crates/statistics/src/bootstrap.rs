//! Confidence intervals of a median by the percentile bootstrap (Efron 1979).
//!
//! Chosen because the distribution of a server's measurements is unknown and skewed: a neighbour
//! on the machine makes some rounds slow and none fast. No test of significance: an interval of
//! a paired ratio that holds 1 is called a tie by whoever prints it.

use crate::Generator;
use crate::quantile::{median, quantile_of_sorted};

/// How many times a sample is drawn anew. The ends of a 95 % interval then rest on 50 values each.
const RESAMPLES: usize = 2000;

/// The ends of a confidence interval, `low <= high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies in the interval, its ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Of a ratio: whether it lies where the two differ by no more than `margin`, such as 0.02.
    pub fn is_within(&self, margin: f64) -> bool {
        self.low >= 1.0 / (1.0 + margin) && self.high <= 1.0 + margin
    }
}

/// A median and where the true one lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The sample's median.
    pub median: f64,
    /// Its confidence interval.
    pub interval: Interval,
}

/// The median of `sample` with its `confidence` (say 0.95) interval; `None` for an empty sample.
/// With fewer than six values the interval is the sample's whole range, and still too narrow.
pub fn bootstrap_median(sample: &[f64], confidence: f64, seed: u64) -> Option<Estimate> {
    let middle = median(sample)?;
    let mut generator = Generator::new(seed);
    let mut drawn = vec![0.0; sample.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        drawn.fill_with(|| sample[generator.below(sample.len())]);
        medians.extend(median(&drawn));
    }
    medians.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0;
    let low = quantile_of_sorted(&medians, tail)?;
    let high = quantile_of_sorted(&medians, 1.0 - tail)?;
    Some(Estimate { median: middle, interval: Interval { low, high } })
}

/// Of fewer pairs no interval of their median can be trusted 95 times in 100: it is their whole
/// range at most, and five coins fall on the same side once in 16 times.
pub const PAIRS_MIN: usize = 6;

/// The median of `numerators[i] / denominators[i]` with its interval. The two were measured in
/// pairs, one after the other, so what slows a whole round cancels. Pairs in which either is
/// missing (not finite, or a denominator of 0) are left out.
pub fn paired_ratio(
    numerators: &[f64],
    denominators: &[f64],
    confidence: f64,
    seed: u64,
) -> Option<Estimate> {
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .map(|(numerator, denominator)| numerator / denominator)
        .filter(|ratio| ratio.is_finite())
        .collect();
    bootstrap_median(&ratios, confidence, seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_values_no_estimate() {
        assert_eq!(bootstrap_median(&[], 0.95, 1), None);
        assert_eq!(paired_ratio(&[1.0], &[0.0], 0.95, 1), None);
    }

    #[test]
    fn equal_values_leave_no_doubt() {
        let estimate = bootstrap_median(&[3.0; 9], 0.95, 1).expect("not empty");
        assert_eq!(estimate, Estimate { median: 3.0, interval: Interval { low: 3.0, high: 3.0 } });
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let sample: Vec<f64> = (0..40).map(|n| f64::from(n * n % 41)).collect();
        assert_eq!(bootstrap_median(&sample, 0.95, 9), bootstrap_median(&sample, 0.95, 9));
    }

    /// The percentile bootstrap of a median can be had exactly: the chance that the median of a
    /// resample is at most the k-th order statistic is a binomial tail. For the values 1..=15
    /// and 90 % the ends are the 5th and the 11th.
    #[test]
    fn the_interval_agrees_with_the_exact_one() {
        let sample: Vec<f64> = (1..=15).map(f64::from).collect();
        let estimate = bootstrap_median(&sample, 0.90, 42).expect("not empty");
        assert_eq!(estimate.median, 8.0);
        assert_eq!(estimate.interval, Interval { low: 5.0, high: 11.0 });
    }

    /// The promise itself: over many samples with a known median, about 95 % of the intervals
    /// hold it.
    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        let mut generator = Generator::new(3);
        let held = (0..400)
            .filter(|&round| {
                let sample: Vec<f64> = (0..25).map(|_| generator.below(10_000) as f64).collect();
                let estimate = bootstrap_median(&sample, 0.95, round).expect("not empty");
                estimate.interval.contains(4999.5)
            })
            .count();
        assert!((360..=398).contains(&held), "{held} of 400");
    }

    #[test]
    fn a_slow_round_cancels_in_a_paired_ratio() {
        let slowness = [1.0, 1.0, 5.0, 1.0, 3.0, 1.0, 9.0];
        let ours: Vec<f64> = slowness.iter().map(|s| 4.0 * s).collect();
        let theirs: Vec<f64> = slowness.iter().map(|s| 5.0 * s).collect();
        let estimate = paired_ratio(&ours, &theirs, 0.95, 1).expect("not empty");
        assert!((estimate.median - 0.8).abs() < 1e-12);
        assert!(estimate.interval.high < 1.0);
    }
}
