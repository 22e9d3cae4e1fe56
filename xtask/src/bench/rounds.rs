//! Alternating rounds: the order of turns, and messages about them.

/// The order in a round. Rounds begin with one contestant after the other, and every other round
/// runs backwards: so no contestant always follows the same other one.
pub(crate) fn order(round: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).map(|index| (index + round) % count).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

/// Prints on the terminal what is going on; not part of the report.
pub(crate) fn progress(what: &str) {
    eprintln!("  {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_every_server_once() {
        for round in 0..7 {
            let mut order = order(round, 5);
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4]);
        }
        assert_eq!(order(0, 3), [0, 1, 2]);
        assert_eq!(order(1, 3), [0, 2, 1]);
        assert_eq!(order(2, 3), [2, 0, 1]);
    }
}
