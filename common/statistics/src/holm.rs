//! Many comparisons at once: Holm's correction of p-values (Scandinavian Journal of Statistics 6,
//! 1979).
//!
//! Of twenty true nulls one comes out below 5 % by chance. After the correction the chance that any
//! does is 5 %, whatever the dependence between the comparisons.

/// The corrected p-values, in their order: each may be compared with the level that is to hold for
/// all of them together.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut highest = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        let factor = (p_values.len() - rank) as f64;
        highest = highest.max((p_values[index] * factor).min(1.0));
        corrected[index] = highest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") = 0.03 0.06 0.06 0.02
    #[test]
    fn agrees_with_r() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, expected) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - expected).abs() < 1e-15, "{corrected:?}");
        }
    }

    #[test]
    fn ends() {
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.2]), [0.2]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }
}
