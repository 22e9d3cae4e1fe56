//! Kolmogorov and Smirnov's test: does a sample come from a continuous distribution?
//!
//! The test is not for parameters estimated from the same sample: the p-value would be too large.

/// The distance of a sample from a distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KolmogorovSmirnov {
    /// The greatest distance between the two cumulative distributions.
    pub statistic: f64,
    /// How probable a distance at least this large is if the sample does come from the
    /// distribution.
    pub p_value: f64,
}

/// Compares `sample` with the distribution whose cumulative function is `cdf`. `None` for an empty
/// sample. The p-value is the asymptotic one with Stephens' correction (J. Royal Statistical
/// Society B 32, 1970), good for 5 values and more.
pub fn kolmogorov_smirnov(sample: &[f64], cdf: impl Fn(f64) -> f64) -> Option<KolmogorovSmirnov> {
    if sample.is_empty() {
        return None;
    }
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    // The sample's function is a staircase: both edges of each step are compared.
    let distance = |(index, &value): (usize, &f64)| {
        let expected = cdf(value);
        (expected - index as f64 / n).max((index + 1) as f64 / n - expected)
    };
    let statistic = sorted.iter().enumerate().map(distance).fold(0.0, f64::max);
    let root = n.sqrt();
    let p_value = tail((root + 0.12 + 0.11 / root) * statistic);
    Some(KolmogorovSmirnov { statistic, p_value })
}

/// Kolmogorov's distribution beyond `x`: 2 * sum of (-1)^(j-1) exp(-2 j^2 x^2). Below 0.2 it is 1
/// to twelve digits, and the sum converges slowly.
fn tail(x: f64) -> f64 {
    if x < 0.2 {
        return 1.0;
    }
    let term = |j: i32| {
        let sign = if j % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(j * j) * x * x).exp()
    };
    (1..=30).map(term).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Generator;

    #[test]
    fn the_distribution_agrees_with_the_tables() {
        // Critical values of Kolmogorov's distribution (Smirnov, Ann. Math. Stat. 19, 1948).
        for (x, p_value) in [(1.2238, 0.10), (1.3581, 0.05), (1.5174, 0.02), (1.6276, 0.01)] {
            assert!((tail(x) - p_value).abs() < 1e-4, "{x}: {}", tail(x));
        }
        assert!((tail(0.5) - 0.9639).abs() < 1e-4);
        assert_eq!(tail(0.1), 1.0);
    }

    #[test]
    fn the_statistic_is_the_greatest_distance() {
        let uniform = |x: f64| x.clamp(0.0, 1.0);
        let check = |sample: &[f64], expected: f64| {
            let found = kolmogorov_smirnov(sample, uniform).unwrap().statistic;
            assert!((found - expected).abs() < 1e-12, "{found}");
        };
        check(&[0.5], 0.5);
        check(&[0.9, 0.1], 0.4);
        check(&[0.0, 0.0], 1.0);
        check(&[0.125, 0.375, 0.625, 0.875], 0.125);
        assert_eq!(kolmogorov_smirnov(&[], uniform), None);
    }

    #[test]
    fn one_sample_in_a_hundred_has_a_p_value_below_one_percent() {
        let mut generator = Generator::new(11);
        let mut low = 0;
        for _ in 0..2000 {
            let sample: Vec<f64> = (0..50).map(|_| generator.below(1 << 40) as f64).collect();
            let scale = (1_u64 << 40) as f64;
            let found = kolmogorov_smirnov(&sample, |x| x / scale).unwrap();
            low += usize::from(found.p_value < 0.01);
        }
        assert!((8..36).contains(&low), "{low} of 2000");
    }
}
