//! Changes from each thing to each.

/// An order in which each of `count` things follows each, itself too, once; the first follows the
/// last.
#[must_use]
pub fn circuit(count: usize) -> Vec<usize> {
    let beginning_with = |first| {
        let later = (first + 1..count).flat_map(move |second| [first, second]);
        [first].into_iter().chain(later)
    };
    (0..count).flat_map(beginning_with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circuit_has_each_pair_once() {
        let order = circuit(14);
        let mut pairs: Vec<_> = order.iter().zip(order.iter().cycle().skip(1)).collect();
        pairs.sort();
        pairs.dedup();
        assert_eq!((order.len(), pairs.len()), (14 * 14, 14 * 14));
    }
}
