//! What paired measurements of two servers show: which is better, a tie, or neither.

use statistics::{Estimate, Interval, paired_ratio, values_min};
use std::fmt;

/// A figure by which two servers are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The figure's name, with its unit.
    pub name: &'static str,
    /// Whether a lower figure is better.
    pub less_is_better: bool,
    /// The first server's figures, one for each pair. A missing figure is not a number.
    pub first: Vec<f64>,
    /// The second server's figures, one for each pair. A missing figure is not a number.
    pub second: Vec<f64>,
}

/// What a figure says of the two servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The first server is better; its figure over the second's.
    First(Estimate),
    /// The second server is better; the first server's figure over the second's.
    Second(Estimate),
    /// The servers differ by no more than the margin.
    Tie(Estimate),
    /// The interval holds 1 and reaches beyond the margin: more pairs might decide.
    Open(Estimate),
    /// There are fewer than [`values_min`] pairs, which support no interval.
    TooFew(Estimate),
    /// Nothing was measured.
    Nothing,
}

/// What the interval of a ratio says. The rule is the same for the terminal and for the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatioVerdict {
    /// The interval lies above 1, and reaches beyond the margin.
    Higher,
    /// The interval lies below 1, and reaches beyond the margin.
    Lower,
    /// The interval lies within the margin.
    Tie,
    /// The interval holds 1 and reaches beyond the margin: more pairs might decide.
    Open,
    /// The interval is of fewer than [`values_min`] pairs, which support none.
    TooFew,
}

/// Judges the interval of the ratio of this many pairs with that confidence, where a difference of
/// no more than the `margin` (0.02: 2 %) counts as none.
pub fn judge_ratio(interval: Interval, margin: f64, pairs: usize, confidence: f64) -> RatioVerdict {
    match interval {
        _ if pairs < values_min(confidence) => RatioVerdict::TooFew,
        _ if interval.is_within(margin) => RatioVerdict::Tie,
        Interval { low, .. } if low > 1.0 => RatioVerdict::Higher,
        Interval { high, .. } if high < 1.0 => RatioVerdict::Lower,
        _ => RatioVerdict::Open,
    }
}

impl Figure {
    /// Judges the figure. `margin` is the difference that counts as none, such as 0.02;
    /// `confidence` such as 0.95.
    pub fn judge(&self, margin: f64, confidence: f64) -> Verdict {
        let Some(ratio) = paired_ratio(&self.first, &self.second, confidence) else {
            return Verdict::Nothing;
        };
        match judge_ratio(ratio.interval, margin, self.pairs(), confidence) {
            RatioVerdict::TooFew => Verdict::TooFew(ratio),
            RatioVerdict::Tie => Verdict::Tie(ratio),
            RatioVerdict::Open => Verdict::Open(ratio),
            RatioVerdict::Lower if self.less_is_better => Verdict::First(ratio),
            RatioVerdict::Higher if !self.less_is_better => Verdict::First(ratio),
            RatioVerdict::Lower | RatioVerdict::Higher => Verdict::Second(ratio),
        }
    }

    /// How many pairs have both figures.
    fn pairs(&self) -> usize {
        let pairs = self.first.iter().zip(&self.second);
        pairs.filter(|(first, second)| (*first / *second).is_finite()).count()
    }
}

impl Verdict {
    /// Whether the verdict is that one is better, or that neither is.
    pub fn is_decided(&self) -> bool {
        matches!(self, Self::First(_) | Self::Second(_) | Self::Tie(_))
    }

    /// The ratio it rests on.
    pub fn ratio(&self) -> Option<Estimate> {
        match *self {
            Self::First(ratio)
            | Self::Second(ratio)
            | Self::Tie(ratio)
            | Self::Open(ratio)
            | Self::TooFew(ratio) => Some(ratio),
            Self::Nothing => None,
        }
    }
}

/// A word or two for a table.
impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::First(_) => "A is better",
            Self::Second(_) => "B is better",
            Self::Tie(_) => "a tie",
            Self::Open(_) => "cannot tell",
            Self::TooFew(_) => "too few pairs",
            Self::Nothing => "not measured",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty pairs whose ratios are `factor`, more or less by `noise` in turn.
    fn figure(less_is_better: bool, factor: f64, noise: f64) -> Figure {
        let noisy = |n: usize| if n.is_multiple_of(2) { 1.0 + noise } else { 1.0 / (1.0 + noise) };
        let first = (0..20).map(|n| 100.0 * factor * noisy(n)).collect();
        Figure { name: "x", less_is_better, first, second: vec![100.0; 20] }
    }

    #[test]
    fn a_difference_is_told_from_a_tie() {
        let judge = |figure: Figure| figure.judge(0.02, 0.95);
        assert!(matches!(judge(figure(true, 0.8, 0.02)), Verdict::First(_)));
        assert!(matches!(judge(figure(false, 0.8, 0.02)), Verdict::Second(_)));
        assert!(matches!(judge(figure(true, 1.3, 0.02)), Verdict::Second(_)));
        assert!(matches!(judge(figure(true, 1.0, 0.002)), Verdict::Tie(_)));
        assert!(matches!(judge(figure(true, 1.0, 0.3)), Verdict::Open(_)));
    }

    #[test]
    fn an_interval_says_one_of_five_things() {
        #[track_caller]
        fn check(low: f64, high: f64, pairs: usize, expected: RatioVerdict) {
            assert_eq!(judge_ratio(Interval { low, high }, 0.02, pairs, 0.95), expected);
        }
        check(1.01, 1.05, 6, RatioVerdict::Higher);
        check(0.90, 0.99, 6, RatioVerdict::Lower);
        check(0.99, 1.01, 6, RatioVerdict::Tie);
        check(1.005, 1.01, 6, RatioVerdict::Tie);
        check(0.7, 1.4, 6, RatioVerdict::Open);
        check(1.0, 1.05, 6, RatioVerdict::Open);
        check(0.99, 1.01, 5, RatioVerdict::TooFew);
        let of_confidence = |confidence| {
            [3, 4, 7, 8].map(|pairs| {
                judge_ratio(Interval { low: 1.1, high: 1.2 }, 0.02, pairs, confidence)
                    == RatioVerdict::TooFew
            })
        };
        assert_eq!(of_confidence(0.99), [true, true, true, false]);
        assert_eq!(of_confidence(0.8), [true, false, false, false]);
    }

    /// A real difference below the margin is a tie, and is reported as one.
    #[test]
    fn a_difference_within_the_margin_is_none() {
        let verdict = figure(true, 0.99, 0.001).judge(0.02, 0.95);
        assert!(matches!(verdict, Verdict::Tie(ratio) if ratio.interval.high < 1.0));
    }

    #[test]
    fn five_pairs_tell_nothing_and_six_do() {
        let verdict = |pairs: usize| {
            let mut figure = figure(true, 0.5, 0.02);
            figure.first.truncate(pairs);
            figure.first.push(f64::NAN); // a window that was void to the last
            figure.judge(0.02, 0.95)
        };
        assert!(matches!(verdict(5), Verdict::TooFew(_)));
        assert!(matches!(verdict(6), Verdict::First(_)));
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let nothing = Figure { first: vec![f64::NAN], second: vec![1.0], ..figure(true, 1.0, 0.0) };
        assert_eq!(nothing.judge(0.02, 0.95), Verdict::Nothing);
        assert_eq!(nothing.judge(0.02, 0.95).ratio(), None);
    }
}
