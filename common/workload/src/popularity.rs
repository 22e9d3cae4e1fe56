//! Drawing one of many with unequal probabilities, Zipf's among them.

use statistics::Generator;

/// The weights of Zipf's law: rank r, counted from 1, gets r^-alpha. `alpha` of 0 is uniform.
#[must_use]
pub fn zipf(ranks: usize, alpha: f64) -> Vec<f64> {
    (1..=ranks).map(|rank| libm::pow(rank as f64, -alpha)).collect()
}

/// Weights scaled to sum to 1.
#[must_use]
pub fn normalised(weights: &[f64]) -> Vec<f64> {
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Draws an index in constant time, by Walker's alias method (1977) in the form of Vose (1991): the
/// probability mass is cut into equal columns, each shared by at most two indices.
#[derive(Clone, Debug)]
pub struct Chooser {
    columns: Vec<Column>,
}

/// A column: below `own` of 2^64 its own index is drawn, else the other.
#[derive(Clone, Copy, Debug)]
struct Column {
    own: u64,
    other: u32,
}

impl Chooser {
    /// A chooser that draws index i with probability `weights[i]` / their sum.
    ///
    /// # Panics
    /// If there are no weights, more than 2^32, a negative one, or none above 0.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        assert!(total > 0.0 && total.is_finite() && weights.iter().all(|&weight| weight >= 0.0));
        assert!(u32::try_from(weights.len()).is_ok());
        let scale = weights.len() as f64 / total;
        let mut masses: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
        let own_only = |index: usize| Column { own: u64::MAX, other: index as u32 };
        let mut columns: Vec<Column> = (0..weights.len()).map(own_only).collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) =
            (0..weights.len()).partition(|&index| masses[index] < 1.0);
        while let (Some(lacking), Some(giving)) = (poor.pop(), rich.pop()) {
            columns[lacking] = Column { own: fraction(masses[lacking]), other: giving as u32 };
            masses[giving] -= 1.0 - masses[lacking];
            if masses[giving] < 1.0 { poor.push(giving) } else { rich.push(giving) }
        }
        // Columns left over lack only what rounding took from them, and are not shared.
        Self { columns }
    }

    /// Draws the next index. Takes one random number: its upper part selects the column, the rest
    /// decides in it.
    pub fn draw(&self, generator: &mut Generator) -> usize {
        let product = u128::from(generator.next_u64()) * self.columns.len() as u128;
        let (column, rest) = ((product >> 64) as usize, product as u64);
        let Column { own, other } = self.columns[column];
        if rest < own { column } else { other as usize }
    }
}

/// Converts `share`, 0 to 1, to a part of 2^64.
fn fraction(share: f64) -> u64 {
    (share * 18_446_744_073_709_551_616.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::chi_square_test;

    fn p_value(drawn: &[f64], claimed: &[f64]) -> f64 {
        let (chooser, mut generator) = (Chooser::new(drawn), Generator::new(99));
        let mut counts = vec![0_u64; drawn.len()];
        for _ in 0..1_000_000 {
            counts[chooser.draw(&mut generator)] += 1;
        }
        chi_square_test(&counts, claimed).expect("cells").p_value
    }

    #[test]
    fn draws_follow_the_weights() {
        for weights in [
            zipf(680, 1.0),
            zipf(942, 0.8),
            zipf(7, 0.0),
            zipf(50_000, 1.2),
            vec![0.35, 0.5, 0.14, 0.01],
            vec![0.0, 1.0, 0.0, 3.0],
        ] {
            let p = p_value(&weights, &weights);
            assert!(p > 0.001, "{} weights: p = {p}", weights.len());
        }
    }

    #[test]
    fn other_weights_are_told_apart() {
        assert!(p_value(&zipf(680, 1.0), &zipf(680, 0.98)) < 0.001);
        assert!(p_value(&[0.35, 0.5, 0.14, 0.01], &[0.353, 0.497, 0.14, 0.01]) < 0.001);
    }

    /// The columns themselves, without sampling: the mass of each index is its probability.
    #[test]
    fn the_columns_hold_the_weights() {
        for weights in [zipf(1000, 1.0), vec![1.0], vec![0.0, 2.0, 0.0], vec![0.35, 0.5, 0.15]] {
            let columns = Chooser::new(&weights).columns;
            let mut mass = vec![0.0; weights.len()];
            for (index, column) in columns.iter().enumerate() {
                let own = (column.own as f64) / 2.0_f64.powi(64);
                mass[index] += own / columns.len() as f64;
                mass[column.other as usize] += (1.0 - own) / columns.len() as f64;
            }
            for (got, expected) in mass.iter().zip(normalised(&weights)) {
                assert!((got - expected).abs() < 1e-12, "{got} for {expected}");
            }
        }
    }

    #[test]
    fn zipf_with_1_is_one_over_the_rank() {
        assert_eq!(zipf(4, 1.0), [1.0, 1.0 / 2.0, 1.0 / 3.0, 1.0 / 4.0]);
        assert_eq!(zipf(2, 2.0), [1.0, 0.25]);
    }
}
