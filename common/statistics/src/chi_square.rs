//! Pearson's chi-square test: do counts agree with given probabilities?
//!
//! Continuous distributions cannot be tested: cut them into bins of known probability first.

use crate::gamma::regularised_gamma_above;

/// Cells with a smaller expected count are pooled: the test rests on an approximation, which
/// becomes poor below this (Cochran 1954).
const EXPECTED_MIN: f64 = 5.0;

/// The deviation of counts from their expectations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChiSquare {
    /// The sum of (observed - expected)^2 / expected.
    pub statistic: f64,
    /// The number of cells, after pooling, less one.
    pub degrees: usize,
    /// How probable a statistic at least this large is if the counts do follow the probabilities.
    /// Below 0.001 they most likely do not.
    pub p_value: f64,
}

/// Compares counts with the probabilities of their cells. These need not sum to 1: they are taken
/// as weights. `None` if there is nothing to compare: no counts, or fewer than two cells left
/// after those with small expectations were pooled. A count where none can be gives an infinite
/// statistic.
///
/// # Panics
/// If the slices differ in length.
pub fn chi_square_test(observed: &[u64], weights: &[f64]) -> Option<ChiSquare> {
    assert_eq!(observed.len(), weights.len(), "a weight for each cell");
    let total = observed.iter().sum::<u64>() as f64;
    let scale = total / weights.iter().sum::<f64>();
    let cells = pooled(observed.iter().zip(weights).map(|(&n, weight)| (n as f64, weight * scale)));
    let impossible = observed.iter().zip(weights).any(|(&n, &weight)| n > 0 && weight == 0.0);
    if impossible {
        let degrees = cells.len().saturating_sub(1);
        return Some(ChiSquare { statistic: f64::INFINITY, degrees, p_value: 0.0 });
    }
    let degrees = cells.len().checked_sub(1).filter(|&degrees| degrees > 0 && total > 0.0)?;
    let statistic = cells.iter().map(|(got, expected)| (got - expected).powi(2) / expected).sum();
    Some(ChiSquare { statistic, degrees, p_value: chi_square_p_value(statistic, degrees) })
}

/// The probability that a chi-square variable of `degrees` degrees of freedom, at least 1, is as
/// large as `statistic` or larger.
pub fn chi_square_p_value(statistic: f64, degrees: usize) -> f64 {
    regularised_gamma_above(degrees as f64 / 2.0, statistic / 2.0)
}

/// Pairs of observed and expected counts, those with small expectations summed up in one. If that
/// one is still too small, it is merged with the last of the large ones.
fn pooled(cells: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let (mut kept, small): (Vec<_>, Vec<_>) =
        cells.partition(|&(_, expected)| expected >= EXPECTED_MIN);
    let pool = small.iter().fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
    match kept.last_mut() {
        Some(last) if pool.1 < EXPECTED_MIN => *last = (last.0 + pool.0, last.1 + pool.1),
        _ if pool.1 > 0.0 => kept.push(pool),
        _ => {}
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_p(statistic: f64, degrees: usize, expected: f64) {
        let got = chi_square_p_value(statistic, degrees);
        assert!((got - expected).abs() < 0.005 * expected, "{statistic}, {degrees}: {got}");
    }

    /// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.4: upper critical values.
    #[test]
    fn agrees_with_the_published_table() {
        for (degrees, at_10, at_5, at_1, at_01) in [
            (1, 2.706, 3.841, 6.635, 10.828),
            (2, 4.605, 5.991, 9.210, 13.816),
            (3, 6.251, 7.815, 11.345, 16.266),
            (5, 9.236, 11.070, 15.086, 20.515),
            (10, 15.987, 18.307, 23.209, 29.588),
            (30, 40.256, 43.773, 50.892, 59.703),
            (100, 118.498, 124.342, 135.807, 149.449),
        ] {
            check_p(at_10, degrees, 0.10);
            check_p(at_5, degrees, 0.05);
            check_p(at_1, degrees, 0.01);
            check_p(at_01, degrees, 0.001);
        }
    }

    #[test]
    fn a_die_that_is_fair_and_one_that_is_not() {
        let fair = chi_square_test(&[16, 18, 16, 14, 12, 24], &[1.0; 6]).unwrap();
        assert!((fair.statistic - 5.12).abs() < 1e-9, "{fair:?}");
        assert_eq!(fair.degrees, 5);
        assert!((fair.p_value - 0.4013).abs() < 1e-3, "{fair:?}");
        let loaded = chi_square_test(&[100, 100, 100, 100, 100, 200], &[1.0; 6]).unwrap();
        assert!(loaded.p_value < 1e-9, "{loaded:?}");
    }

    #[test]
    fn cells_expected_to_be_small_are_pooled() {
        let pooled = chi_square_test(&[50, 44, 2, 4], &[0.5, 0.44, 0.03, 0.03]).unwrap();
        assert_eq!((pooled.statistic, pooled.degrees), (0.0, 2));
        let taken_in = chi_square_test(&[50, 47, 3], &[0.5, 0.47, 0.03]).unwrap();
        assert_eq!((taken_in.statistic, taken_in.degrees), (0.0, 1));
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(chi_square_test(&[], &[]), None);
        assert_eq!(chi_square_test(&[0, 0], &[0.5, 0.5]), None);
        assert_eq!(chi_square_test(&[100], &[1.0]), None);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let found = chi_square_test(&[50, 50, 1], &[0.5, 0.5, 0.0]).unwrap();
        assert_eq!((found.statistic, found.p_value), (f64::INFINITY, 0.0));
    }
}
