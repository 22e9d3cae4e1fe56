//! Quantiles of a sample: Hyndman and Fan's type 7, the default of R and NumPy.
//!
//! This is not a streaming estimate: the whole sample is needed.

/// The `p`-quantile of `sample`, 0 <= p <= 1, linearly interpolated between order statistics.
/// `None` for an empty sample. The sample need not be sorted.
pub fn quantile(sample: &[f64], p: f64) -> Option<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, p)
}

/// The middle of `sample`; of an even number of values the mean of the middle two.
pub fn median(sample: &[f64]) -> Option<f64> {
    quantile(sample, 0.5)
}

/// The `p`-quantile of values in ascending order, 0 <= p <= 1, linearly interpolated between them
/// as by [`quantile`]. `None` if there are none.
pub(crate) fn quantile_of_sorted(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let share = position - below as f64;
    Some(sorted[below] + share * (sorted[above] - sorted[below]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sample: &[f64], p: f64, expected: Option<f64>) {
        match (quantile(sample, p), expected) {
            (Some(got), Some(wanted)) => assert!((got - wanted).abs() < 1e-12, "{got} != {wanted}"),
            (got, wanted) => assert_eq!(got, wanted),
        }
    }

    #[test]
    fn quantiles_agree_with_r_type_7() {
        // R: quantile(c(2, 3, 5, 7, 11, 13, 17), c(0, .1, .25, .5, .9, 1), type = 7)
        let primes = [17.0, 2.0, 13.0, 3.0, 11.0, 5.0, 7.0];
        check(&primes, 0.0, Some(2.0));
        check(&primes, 0.1, Some(2.6));
        check(&primes, 0.25, Some(4.0));
        check(&primes, 0.5, Some(7.0));
        check(&primes, 0.9, Some(14.6));
        check(&primes, 1.0, Some(17.0));
    }

    #[test]
    fn small_samples() {
        check(&[], 0.5, None);
        check(&[4.0], 0.99, Some(4.0));
        check(&[1.0, 2.0], 0.5, Some(1.5));
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), Some(2.5));
    }

    #[test]
    fn a_probability_out_of_range_is_clamped() {
        check(&[1.0, 2.0], -1.0, Some(1.0));
        check(&[1.0, 2.0], 2.0, Some(2.0));
    }
}
