//! Whether the rates of groups are equal: exact binomial tails of each against all (Clopper and
//! Pearson 1934), with Bonferroni's bound over the groups. Exact, because rare groups have few
//! events or none.

use crate::beta::regularised_beta;

/// An upper bound of the probability that groups of equal rates differ by chance as much as these.
/// Each group is a pair of events and trials. None where there is nothing to compare.
pub fn homogeneity_p_value(groups: &[(u64, u64)]) -> Option<f64> {
    let (events, trials) = groups.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let compared = groups.iter().filter(|group| group.1 > 0).count();
    if compared < 2 || events == 0 || events >= trials {
        return None;
    }
    let share = events as f64 / trials as f64;
    let tails = groups.iter().filter(|group| group.1 > 0).map(|&(events, trials)| {
        let below = 1.0 - upper_tail(events + 1, trials, share);
        upper_tail(events, trials, share).min(below)
    });
    let least = tails.fold(1.0, f64::min);
    Some((2.0 * compared as f64 * least).clamp(0.0, 1.0))
}

/// The probability of this many events or more.
fn upper_tail(events: u64, trials: u64, share: f64) -> f64 {
    match events {
        0 => 1.0,
        events if events > trials => 0.0,
        events => regularised_beta(events as f64, (trials - events + 1) as f64, share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values: scipy.stats.binom.sf(events - 1, trials, share).
    #[test]
    fn tails_are_those_of_the_binomial_distribution() {
        let check = |events, trials, share, expected: f64| {
            let found = upper_tail(events, trials, share);
            assert!((found / expected - 1.0).abs() < 1e-9, "{events} of {trials}: {found}");
        };
        check(1, 10, 0.1, 0.6513215599);
        check(5, 10, 0.5, 0.623046875);
        check(10, 10, 0.5, 0.0009765625);
        assert_eq!((upper_tail(0, 9, 0.3), upper_tail(10, 9, 0.3)), (1.0, 0.0));
    }

    #[test]
    fn differences_by_chance_are_distinguished_from_others() {
        let check = |groups: &[(u64, u64)], range: std::ops::Range<f64>| {
            let p = homogeneity_p_value(groups).expect("two groups");
            assert!(range.contains(&p), "{groups:?}: {p}");
        };
        // One in twenty-five everywhere, give or take what chance does: 4.6 points apart.
        check(&[(40, 1000), (396, 10_000), (2, 49), (10, 120), (4, 100)], 0.1..1.1);
        // A rare group that is starved, and a common one that is spared a little.
        check(&[(30, 10_000), (30, 100)], 0.0..1e-9);
        check(&[(4000, 100_000), (4600, 100_000)], 0.0..1e-5);
        // None of a hundred where one in twenty-five fails elsewhere: 1.7 % twice.
        check(&[(400, 10_000), (0, 100)], 0.05..0.09);
    }

    #[test]
    fn nothing_is_not_compared() {
        for groups in
            [&[][..], &[(5, 10)], &[(0, 10), (0, 20)], &[(3, 3), (4, 4)], &[(1, 2), (0, 0)]]
        {
            assert_eq!(homogeneity_p_value(groups), None, "{groups:?}");
        }
    }
}
