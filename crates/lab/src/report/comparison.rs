//! Two series against each other: how much more one serves, and whether that can be said. Pure.

use statistics::{Estimate, median_estimate, values_min};

use super::measure::Measure;
use super::number;
use super::summary::{Found, Measured, Panel, Peak, Series};

/// What can be said of two series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) first: String,
    pub(crate) second: String,
    /// The figure of the first series divided by that of the second.
    pub(crate) ratio: Estimate,
    /// Blocks in which both were measured; none: brackets of single searches were compared.
    pub(crate) pairs: Option<usize>,
    pub(crate) verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The interval holds 1.
    Tie,
    /// The interval does not hold 1.
    Differ,
    /// The interval does not hold 1, but there are too few pairs to rely on it.
    Indicated,
    /// One of the two series may serve more than was seen, and that may change the verdict.
    NotReached,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tie => "tie",
            Self::Differ => "differ",
            Self::Indicated => "indicated",
            Self::NotReached => "peak not reached",
        }
    }

    fn of(ratio: &Estimate, pairs: usize, confidence: f64) -> Self {
        match (ratio.interval.contains(1.0), pairs < values_min(confidence)) {
            (true, _) => Self::Tie,
            (false, true) => Self::Indicated,
            (false, false) => Self::Differ,
        }
    }
}

impl Comparison {
    /// At the peaks of two series; none if they cannot be compared.
    pub(crate) fn of_peaks(first: &Series, second: &Series, confidence: f64) -> Option<Self> {
        if let Some(comparison) = Self::of_searches(first, second, confidence) {
            return Some(comparison);
        }
        let (own, others) = (first.peak()?, second.peak()?);
        let mut comparison = match (own.found, others.found) {
            (Found::Swept | Found::NotReached, Found::Swept | Found::NotReached) => {
                let (own, others) = (first.best()?, second.best()?);
                Self::of_points((&first.name, own), (&second.name, others), MOST, confidence)?
            }
            _ => Self::of_brackets((first, &own), (second, &others))?,
        };
        if comparison.rests_on_a_bound(own.found, others.found) {
            comparison.verdict = Verdict::NotReached;
        }
        Some(comparison)
    }

    /// Whether the lesser of the two may in truth be the greater. That one serves at least so
    /// much more than another is known of its lower bound, too.
    fn rests_on_a_bound(&self, own: Found, others: Found) -> bool {
        match (own.is_lower_bound(), others.is_lower_bound()) {
            (true, false) => self.ratio.interval.low <= 1.0,
            (false, true) => self.ratio.interval.high >= 1.0,
            (both, _) => both,
        }
    }

    /// Two points, block by block.
    pub(crate) fn of_points(
        (first, own): (&str, &Measured),
        (second, others): (&str, &Measured),
        measure: Measure,
        confidence: f64,
    ) -> Option<Self> {
        let (ratio, pairs) = own.ratio(others, measure, confidence)?;
        Some(Self {
            first: first.to_owned(),
            second: second.to_owned(),
            ratio,
            pairs: Some(pairs),
            verdict: Verdict::of(&ratio, pairs, confidence),
        })
    }

    /// What two searches found in the same blocks; none if they have less than two in common.
    fn of_searches(first: &Series, second: &Series, confidence: f64) -> Option<Self> {
        // As seen, and what it is at least and at most where a limit may be higher.
        let (mut seen, mut least, mut most) = (Vec::new(), Vec::new(), Vec::new());
        for (block, own) in &first.limits {
            let Some(others) = second.limits.get(block) else { continue };
            let ratio = own.max(RATE_MIN) / others.max(RATE_MIN);
            seen.push(ratio);
            least.push(if second.bounds.contains(block) { 0.0 } else { ratio });
            most.push(if first.bounds.contains(block) { f64::MAX } else { ratio });
        }
        let of = |ratios: &[f64]| median_estimate(ratios, confidence).filter(|_| ratios.len() > 1);
        let ratio = of(&seen)?;
        let is_above = of(&least)?.interval.low > 1.0;
        let is_below = of(&most)?.interval.high < 1.0;
        let is_known = is_above || is_below || (least == seen && most == seen);
        Some(Self {
            first: first.name.clone(),
            second: second.name.clone(),
            ratio,
            pairs: Some(seen.len()),
            verdict: match is_known {
                true => Verdict::of(&ratio, seen.len(), confidence),
                false => Verdict::NotReached,
            },
        })
    }

    fn of_brackets(
        (first, own): (&Series, &Peak),
        (second, others): (&Series, &Peak),
    ) -> Option<Self> {
        let ratio = bracket_ratio(own, others)?;
        let tie = ratio.interval.contains(1.0);
        Some(Self {
            first: first.name.clone(),
            second: second.name.clone(),
            ratio,
            pairs: None,
            // Each was looked for once.
            verdict: if tie { Verdict::Tie } else { Verdict::Indicated },
        })
    }

    /// The ratio with its interval.
    pub(crate) fn shown(&self) -> String {
        number::estimate(&self.ratio, number::ratio)
    }
}

const MOST: Measure = Measure::Throughput;
/// No search looks below it, requests a second. In a ratio it stands for a limit of 0, to which
/// there is none.
const RATE_MIN: f64 = 1.0;

/// All pairs of a panel but those with the floor, which is no competitor.
pub(crate) fn pairs(panel: &Panel, confidence: f64) -> Vec<Comparison> {
    let ranked = ranked(panel);
    let pairs = ranked.iter().enumerate().flat_map(|(index, (first, _))| {
        ranked[index + 1..].iter().map(move |(second, _)| (*first, *second))
    });
    pairs.filter_map(|(a, b)| Comparison::of_peaks(a, b, confidence)).collect()
}

/// The series with a peak, highest first, without the floor.
pub(crate) fn ranked(panel: &Panel) -> Vec<(&Series, Peak)> {
    let others = panel.series.iter().filter(|series| Some(&series.name) != panel.floor.as_ref());
    let mut ranked: Vec<(&Series, Peak)> =
        others.filter_map(|series| Some((series, series.peak()?))).collect();
    ranked.sort_by(|(_, a), (_, b)| b.per_s.total_cmp(&a.per_s));
    ranked
}

/// Timeouts of kinds of file further apart than this, in percentage points, are unfair.
pub(crate) const SPREAD_POINTS: f64 = 2.0;

/// Whether a tuning has named it its winner.
pub(crate) fn is_winner(series: &Series, panel: &Panel) -> bool {
    panel.tuning.as_ref().is_some_and(|tuning| tuning.winner == series.setting)
}

/// Why a series is not the best of its panel, however much it serves: in a word or two. Who wins a
/// tuning, the tuning knows. Where that is not on record it is guessed.
pub(crate) fn refusal(series: &Series, panel: &Panel) -> Option<&'static str> {
    if is_winner(series, panel) {
        return None;
    }
    if is_unfair(series) {
        return Some("not all kinds of file alike");
    }
    if let Some(tuning) = &panel.tuning {
        let has_raced = tuning.rivals.iter().any(|rival| rival.setting == series.setting);
        return (!has_raced).then_some("given up");
    }
    let most = panel.series.iter().map(|other| other.limits.len()).max().unwrap_or(0);
    // One that was given up early has few searches, and may have been lucky.
    (2 * series.limits.len() < most).then_some("given up early")
}

/// What has a low place is better, however much the others serve: the winner is first, and those
/// that are refused are last.
pub(crate) fn place(series: &Series, panel: &Panel) -> u8 {
    match (is_winner(series, panel), refusal(series, panel)) {
        (true, _) => 0,
        (false, None) => 1,
        (false, Some(_)) => 2,
    }
}

/// Whether it bought its peak by neglect of some kinds of file.
pub(crate) fn is_unfair(series: &Series) -> bool {
    let spread = series.at_peak().and_then(|point| point.median(Measure::Spread));
    spread.is_some_and(|spread| spread > SPREAD_POINTS)
}

/// Brackets are no samples: the ratio lies somewhere between those of their opposite ends.
fn bracket_ratio(own: &Peak, others: &Peak) -> Option<Estimate> {
    if own.per_s <= 0.0 || others.per_s <= 0.0 {
        return None;
    }
    let interval = statistics::Interval { low: own.low / others.high, high: own.high / others.low };
    Some(Estimate { median: own.per_s / others.per_s, interval })
}
