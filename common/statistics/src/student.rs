//! Student's t distribution, and its applications: intervals of a mean and Welch's comparison of
//! two samples that were not measured in pairs.
//!
//! For means of few values of about equal scatter. Paired measurements are compared by
//! `equivalence` and `anytime`; medians by `order`.

use crate::beta::regularised_beta;
use crate::order::Interval;

/// The probability that a t variable of `degrees` degrees of freedom lies above `t`.
pub fn student_above(t: f64, degrees: f64) -> f64 {
    let outside = regularised_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t));
    if t >= 0.0 { outside / 2.0 } else { 1.0 - outside / 2.0 }
}

/// The t below which a `share` of the distribution lies, `0 < share < 1`.
pub fn student_quantile(share: f64, degrees: f64) -> f64 {
    if share < 0.5 {
        return -student_quantile(1.0 - share, degrees);
    }
    let above = 1.0 - share;
    let mut high = 1.0;
    while student_above(high, degrees) > above && high < 1e300 {
        high *= 2.0;
    }
    let mut low = 0.0;
    // Halving a range of doubles ends after their 53 digits and the preceding doublings.
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if student_above(middle, degrees) > above {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// The size of a sample, its mean, and the square of the mean's standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The number of values.
    pub count: usize,
    /// The mean of the values.
    pub mean: f64,
    /// The variance of the values, divided by their count.
    pub error_squared: f64,
}

impl Mean {
    /// The mean of a sample; none for fewer than two values.
    pub fn from_sample(sample: &[f64]) -> Option<Self> {
        let count = sample.len();
        if count < 2 {
            return None;
        }
        let mean = sample.iter().sum::<f64>() / count as f64;
        let squares: f64 = sample.iter().map(|value| (value - mean) * (value - mean)).sum();
        let variance = squares / (count - 1) as f64;
        Some(Self { count, mean, error_squared: variance / count as f64 })
    }

    /// An interval that contains the true mean with this confidence, if the values are normal.
    pub fn interval(&self, confidence: f64) -> Interval {
        let degrees = (self.count - 1) as f64;
        around(self.mean, self.error_squared, degrees, confidence)
    }
}

/// Welch's comparison of two means (1947), which does not assume equal variances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// The difference of the means, `a - b`.
    pub difference: f64,
    /// The difference of the means in standard errors.
    pub t: f64,
    /// Degrees of freedom by Satterthwaite's formula.
    pub degrees: f64,
    /// The probability of so large a difference, either way, between samples of equal means.
    pub p_value: f64,
    error_squared: f64,
}

impl Welch {
    /// An interval that contains the true difference with this confidence.
    pub fn interval(&self, confidence: f64) -> Interval {
        around(self.difference, self.error_squared, self.degrees, confidence)
    }
}

/// Welch's comparison of the means of `a` and `b`. None for fewer than two values in either, or
/// where neither varies.
pub fn welch_test(a: &[f64], b: &[f64]) -> Option<Welch> {
    let (a, b) = (Mean::from_sample(a)?, Mean::from_sample(b)?);
    let error_squared = a.error_squared + b.error_squared;
    if error_squared <= 0.0 {
        return None;
    }
    let part = |of: Mean| of.error_squared * of.error_squared / (of.count - 1) as f64;
    let degrees = error_squared * error_squared / (part(a) + part(b));
    let difference = a.mean - b.mean;
    let t = difference / error_squared.sqrt();
    let p_value = 2.0 * student_above(t.abs(), degrees);
    Some(Welch { difference, t, degrees, p_value, error_squared })
}

fn around(middle: f64, error_squared: f64, degrees: f64, confidence: f64) -> Interval {
    let reach = student_quantile(f64::midpoint(1.0, confidence), degrees) * error_squared.sqrt();
    Interval { low: middle - reach, high: middle + reach }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-10 * expected.abs().max(1e-2), "{got} != {expected}");
    }

    /// Expected values: scipy.stats.t.sf.
    #[test]
    fn tails_agree_with_scipy() {
        check(student_above(0.0, 3.0), 0.5);
        check(student_above(1.0, 1.0), 0.25);
        check(student_above(2.5, 7.3), 0.019_825_117_332_800_214);
        check(student_above(6.0, 4.0), 0.001_941_268_523_480_255_4);
        check(student_above(-1.5, 12.0), 0.920_271_248_243_396_6);
        let far = student_above(40.0, 9.0) / 9.491_499_224_669_911e-12;
        assert!((far - 1.0).abs() < 1e-9, "{far}");
    }

    /// Expected values: scipy.stats.t.ppf; the first three are in every table.
    #[test]
    fn quantiles_agree_with_scipy() {
        check(student_quantile(0.975, 1.0), 12.706_204_736_174_694);
        check(student_quantile(0.975, 4.0), 2.776_445_105_197_793_4);
        check(student_quantile(0.95, 10.0), 1.812_461_122_811_675_6);
        check(student_quantile(0.995, 29.5), 2.753_133_270_256_325);
        check(student_quantile(0.9999, 5.0), 9.677_566_300_882_814);
        check(student_quantile(0.025, 4.0), -2.776_445_105_197_793_4);
    }

    /// Expected values: scipy.stats.ttest_ind(a, b, equal_var=False) and its
    /// confidence_interval(0.95).
    #[test]
    fn welch_agrees_with_scipy() {
        let a = [
            27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7,
            21.4,
        ];
        let b = [
            27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 40.5,
            24.4,
        ];
        let welch = welch_test(&a, &b).expect("both vary");
        check(welch.t, -2.425_181_573_707_493_8);
        check(welch.degrees, 22.465_258_523_558_003);
        check(welch.p_value, 0.023_768_665_773_360_06);
        check(welch.interval(0.95).low, -6.489_404_970_705_3);
        check(welch.interval(0.95).high, -0.510_595_029_294_699_9);
    }

    #[test]
    fn too_little_is_nothing() {
        assert_eq!(welch_test(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(welch_test(&[1.0, 1.0], &[2.0, 2.0]), None);
        assert_eq!(Mean::from_sample(&[1.0]), None);
    }
}
