//! Finds where the warm-up of a series ends: MSER-5 (White, Simulation 69, 1997; White, Cobb and
//! Spratt, WSC 2000).
//!
//! The method cuts off the beginning without which the mean of the rest is known best: the cut
//! minimises the squared standard error of the rest. It does not test whether a series settles at
//! all: where the best cut is not in the first half it gives no answer rather than a wrong one.

/// Values that are averaged before the cut is sought.
const BATCH: usize = 5;

/// How many values of `series` to leave out at its beginning; none if it does not settle in its
/// first half, or is too short to say (fewer than 4 batches of 5).
pub fn warm_up_end(series: &[f64]) -> Option<usize> {
    let batches: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    if batches.len() < 4 {
        return None;
    }
    // Cuts that leave a few values can be best by chance, so those of the second half do not
    // compete; where the last that does is best, later ones would be better.
    let last = batches.len() / 2;
    let error_of = |cut: &usize| error(&batches[*cut..]);
    let cut = (0..=last).min_by(|a, b| error_of(a).total_cmp(&error_of(b)))?;
    (cut < last).then_some(cut * BATCH)
}

/// The squared deviations from the mean over the squared count.
fn error(rest: &[f64]) -> f64 {
    let count = rest.len() as f64;
    let mean = rest.iter().sum::<f64>() / count;
    rest.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count * count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generator;

    #[track_caller]
    fn check(warm_up: impl Fn(usize) -> f64, expected: std::ops::RangeInclusive<usize>) {
        let mut generator = Generator::new(1);
        let noisy = |n| warm_up(n) * (1.0 + 0.04 * (generator.unit() - 0.5));
        let series: Vec<f64> = (0..200).map(noisy).collect();
        let end = warm_up_end(&series);
        assert!(end.is_some_and(|end| expected.contains(&end)), "{end:?}");
    }

    #[test]
    fn a_step_is_found() {
        check(|n| if n < 40 { 50.0 } else { 100.0 }, 40..=45);
        check(|n| if n < 42 { 50.0 } else { 100.0 }, 45..=45);
    }

    #[test]
    fn a_slow_approach_is_cut_where_it_is_lost_in_the_noise() {
        check(|n| 100.0 * (1.0 - (-(n as f64) / 10.0).exp()), 25..=60);
    }

    #[test]
    fn a_steady_series_keeps_nearly_all() {
        check(|_| 100.0, 0..=20);
    }

    #[test]
    fn what_does_not_settle_says_nothing() {
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(warm_up_end(&rising), None);
        assert_eq!(warm_up_end(&[1.0; 19]), None);
        assert_eq!(warm_up_end(&[1.0; 20]), Some(0));
    }

    /// By hand: batch means 0, 10, 10, 10, 10, 10; every cut from the first on leaves no error, and
    /// the earliest of equals is taken.
    #[test]
    fn the_earliest_of_equal_cuts() {
        let series: Vec<f64> = (0..30).map(|n| if n < 5 { 0.0 } else { 10.0 }).collect();
        assert_eq!(warm_up_end(&series), Some(5));
    }
}
