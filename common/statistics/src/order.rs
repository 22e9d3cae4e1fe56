//! Confidence intervals of a median from order statistics, interpolated between those of the sign
//! test (Hettmansperger and Sheather, "Confidence intervals based on interpolated order
//! statistics", Statistics & Probability Letters 4 (1986)).
//!
//! Chosen because the distribution of a server's measurements is unknown and skewed: other load on
//! the machine makes some rounds slow and none fast. The number of values, of `n`, on one side of
//! the median has the distribution of coin tosses whatever that of the values, and so the interval
//! contains the median as often as stated from six values on, where the percentile bootstrap of
//! seven at 95 % contains it 87 times in 100. This is not a test of significance: reports call an
//! interval of a paired ratio that contains 1 a tie.

use crate::quantile::quantile_of_sorted;

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

    /// For a ratio: whether the whole interval lies where the two sides differ by no more than
    /// `margin`, such as 0.02.
    pub fn is_within(&self, margin: f64) -> bool {
        self.low >= 1.0 / (1.0 + margin) && self.high <= 1.0 + margin
    }
}

/// A median with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The sample's median.
    pub median: f64,
    /// Its confidence interval.
    pub interval: Interval,
}

/// The median of `sample` with its `confidence` (say 0.95) interval; `None` for an empty sample.
/// Of fewer than [`values_min`] values the interval is the whole range, and still too narrow.
pub fn median_estimate(sample: &[f64], confidence: f64) -> Option<Estimate> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = quantile_of_sorted(&sorted, 0.5)?;
    let (rank, share) = rank(sorted.len(), confidence);
    let (outer, inner) = (rank - 1, rank.min(sorted.len() - 1));
    let last = sorted.len() - 1;
    let end = |at: usize, towards: usize| sorted[at] + share * (sorted[towards] - sorted[at]);
    let interval = Interval { low: end(outer, inner), high: end(last - outer, last - inner) };
    Some(Estimate { median, interval })
}

/// The least number of values that supports an interval of their median with this confidence: 6 for
/// 95 %. The range of fewer values contains it less often, as five coins fall on the same side once
/// in 16 times.
pub fn values_min(confidence: f64) -> usize {
    let doubt = (1.0 - confidence).max(f64::EPSILON);
    let mut one_sided = 1.0;
    let mut values = 1;
    while one_sided > doubt {
        one_sided /= 2.0;
        values += 1;
    }
    values
}

/// The rank of the value, the first of `count` in order being 1, at which an interval begins, and
/// the share of the way to the next value; it ends symmetrically at the other end.
fn rank(count: usize, confidence: f64) -> (usize, f64) {
    let n = count as f64;
    // The logarithm of the probability that `rank` values lie below the median; the probability
    // itself is too small a number for many values.
    let mut ln_chance = -n * core::f64::consts::LN_2;
    // The probability that the median lies between the values `rank` from either end.
    let mut coverage = 1.0 - 2.0 * libm::exp(ln_chance);
    if coverage < confidence {
        return (1, 0.0);
    }
    let mut rank = 1;
    loop {
        let k = rank as f64;
        ln_chance += libm::log((n - k + 1.0) / k);
        let narrower = coverage - 2.0 * libm::exp(ln_chance);
        if narrower < confidence || 2 * rank >= count {
            let part = ((coverage - confidence) / (coverage - narrower)).clamp(0.0, 1.0);
            return (rank, (n - k) * part / (k + (n - 2.0 * k) * part));
        }
        coverage = narrower;
        rank += 1;
    }
}

/// The median of `numerators[i] / denominators[i]` with its interval. The two were measured in
/// pairs, one after the other, so a disturbance of a whole round cancels. Pairs in which either is
/// missing (not finite, or a denominator of 0) are left out.
pub fn paired_ratio(numerators: &[f64], denominators: &[f64], confidence: f64) -> Option<Estimate> {
    let ratios: Vec<f64> = numerators
        .iter()
        .zip(denominators)
        .map(|(numerator, denominator)| numerator / denominator)
        .filter(|ratio| ratio.is_finite())
        .collect();
    median_estimate(&ratios, confidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generator;

    #[test]
    fn no_values_no_estimate() {
        assert_eq!(median_estimate(&[], 0.95), None);
        assert_eq!(paired_ratio(&[1.0], &[0.0], 0.95), None);
    }

    #[test]
    fn equal_values_leave_no_doubt() {
        let estimate = median_estimate(&[3.0; 9], 0.95).expect("not empty");
        assert_eq!(estimate, Estimate { median: 3.0, interval: Interval { low: 3.0, high: 3.0 } });
    }

    /// The ends lie between the intervals of the sign test, whose probabilities are those of coins:
    /// for 15 values the 4th to the 12th at 96.484 %, the 5th to the 11th at 88.147 %; for 11 the
    /// 2nd to the 10th at 98.828 %, the 3rd to the 9th at 93.457 % (as `SIGN.test` of R's BSDA
    /// prints).
    #[test]
    fn ends_lie_between_those_of_the_sign_test() {
        #[track_caller]
        fn check(count: i32, confidence: f64, low: f64, high: f64) {
            let sample: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let Interval { low: l, high: h } =
                median_estimate(&sample, confidence).expect("not empty").interval;
            assert!((l - low).abs() < 2e-4 && (h - high).abs() < 2e-4, "{l} {h}: {low} {high}");
        }
        check(15, 0.964_843_75, 4.0, 12.0);
        check(15, 0.90, 4.9061, 11.0939);
        check(11, 0.988_281_25, 2.0, 10.0);
        check(11, 0.95, 2.9178, 9.0822);
        check(1, 0.95, 1.0, 1.0);
        check(2, 0.95, 1.0, 2.0);
        check(6, 0.968_75, 1.0, 6.0);
        check(6, 0.0, 3.5, 3.5);
        check(7, 0.0, 4.0, 4.0);
        check(5000, 0.95, 2431.2127, 2569.7873);
    }

    #[test]
    fn the_least_number_of_values_is_of_the_confidence() {
        let counts = [0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 0.999].map(values_min);
        assert_eq!(counts, [2, 3, 4, 5, 6, 8, 11]);
        assert!(values_min(1.0) < 64);
        for (confidence, count) in [(0.8, 4), (0.95, 6), (0.99, 8)] {
            let sample: Vec<f64> = (0..count).map(f64::from).collect();
            let interval = |sample: &[f64]| {
                let Interval { low, high } = median_estimate(sample, confidence).unwrap().interval;
                (low, high)
            };
            let range = (0.0, f64::from(count - 2));
            assert_eq!(interval(&sample[..sample.len() - 1]), range, "{confidence}");
            assert!(interval(&sample).0 > 0.0, "{confidence}");
        }
    }

    /// The guarantee itself: over many skewed samples with a known median, the stated share of the
    /// intervals contains it within two percentage points, for few values and for many.
    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        #[track_caller]
        fn check(count: usize, confidence: f64) {
            const ROUNDS: usize = 20_000;
            let mut generator = Generator::new(3);
            let mut value = || (generator.below(1 << 20) as f64 + 0.5) / f64::from(1 << 20);
            let held = (0..ROUNDS).filter(|_| {
                let sample: Vec<f64> = (0..count).map(|_| -libm::log(value())).collect();
                let estimate = median_estimate(&sample, confidence).expect("not empty");
                estimate.interval.contains(core::f64::consts::LN_2)
            });
            let share = held.count() as f64 / ROUNDS as f64;
            assert!((share - confidence).abs() < 0.02, "{count} at {confidence}: {share}");
        }
        for count in [6, 7, 8, 10, 15, 25] {
            check(count, 0.95);
        }
        for count in [8, 9, 20] {
            check(count, 0.99);
        }
        for count in [4, 5, 12] {
            check(count, 0.8);
        }
    }

    #[test]
    fn a_slow_round_cancels_in_a_paired_ratio() {
        let slowness = [1.0, 1.0, 5.0, 1.0, 3.0, 1.0, 9.0];
        let ours: Vec<f64> = slowness.iter().map(|s| 4.0 * s).collect();
        let theirs: Vec<f64> = slowness.iter().map(|s| 5.0 * s).collect();
        let estimate = paired_ratio(&ours, &theirs, 0.95).expect("not empty");
        assert!((estimate.median - 0.8).abs() < 1e-12);
        assert!(estimate.interval.high < 1.0);
    }
}
