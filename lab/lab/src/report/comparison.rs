//! Comparison of two series: how much more one serves, and whether the data support that. All
//! functions are pure.

use statistics::{Estimate, Interval, median_estimate, values_min};

use super::measure::Measure;
use super::number;
use super::summary::{Found, Measured, Panel, Peak, Series};

/// The result of comparing two series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) first: String,
    pub(crate) second: String,
    /// The figure of the first series divided by that of the second.
    pub(crate) ratio: Estimate,
    /// Where the ratio is known to lie: in its interval, and also beyond it where a peak may be
    /// higher than was seen.
    pub(crate) known: Interval,
    /// The number of blocks in which both were measured; none if brackets of single searches were
    /// compared.
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
    /// One of the two series may serve more than observed, and that may change the verdict.
    NotReached,
}

impl Verdict {
    fn judge(ratio: &Estimate, pairs: usize, confidence: f64) -> Self {
        match (ratio.interval.contains(1.0), pairs < values_min(confidence)) {
            (true, _) => Self::Tie,
            (false, true) => Self::Indicated,
            (false, false) => Self::Differ,
        }
    }
}

impl Comparison {
    /// Compares two series at their peaks; none if they cannot be compared.
    pub(crate) fn compare_peaks(first: &Series, second: &Series, confidence: f64) -> Option<Self> {
        if let Some(comparison) = Self::compare_searches(first, second, confidence) {
            return Some(comparison);
        }
        let (own, others) = (first.peak()?, second.peak()?);
        let comparison = match (own.found, others.found) {
            (Found::Swept | Found::NotReached, Found::Swept | Found::NotReached) => {
                let (own, others) = (first.best()?, second.best()?);
                Self::compare_points((&first.name, own), (&second.name, others), MOST, confidence)?
            }
            _ => Self::compare_brackets((first, &own), (second, &others))?,
        };
        let Interval { low, high } = comparison.ratio.interval;
        Some(comparison.known_within(Interval {
            low: if others.found.is_lower_bound() { 0.0 } else { low },
            high: if own.found.is_lower_bound() { f64::INFINITY } else { high },
        }))
    }

    /// Enters where the ratio is known to lie. If that leaves open which is greater, the verdict
    /// depends on a peak that may be higher. A lower bound of the greater one's peak is enough to
    /// call it greater.
    fn known_within(mut self, known: Interval) -> Self {
        if known != self.ratio.interval && known.contains(1.0) {
            self.verdict = Verdict::NotReached;
        }
        Self { known, ..self }
    }

    /// The comparison of the second to the first.
    pub(crate) fn reversed(self) -> Self {
        let ratio =
            Estimate { median: 1.0 / self.ratio.median, interval: inverse(self.ratio.interval) };
        Self { first: self.second, second: self.first, ratio, known: inverse(self.known), ..self }
    }

    /// Compares two points, block by block.
    pub(crate) fn compare_points(
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
            known: ratio.interval,
            pairs: Some(pairs),
            verdict: Verdict::judge(&ratio, pairs, confidence),
        })
    }

    /// Compares the processor time of a request at the load that all of the panel have in common.
    pub(crate) fn compare_costs(
        panel: &Panel,
        (first, second): (&Series, &Series),
        confidence: f64,
    ) -> Option<Self> {
        let load = common_load(panel)?;
        let own = (&*first.name, first.point_at(load)?);
        let others = (&*second.name, second.point_at(load)?);
        Self::compare_points(own, others, Measure::CpuPerRequest, confidence)
    }

    /// Compares the limits that searches found in the same blocks; none if fewer than two blocks
    /// are in common.
    fn compare_searches(first: &Series, second: &Series, confidence: f64) -> Option<Self> {
        // The ratios as observed, and their bounds where a limit may be higher.
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
        let known = Interval { low: of(&least)?.interval.low, high: of(&most)?.interval.high };
        let comparison = Self {
            first: first.name.clone(),
            second: second.name.clone(),
            ratio,
            known: ratio.interval,
            pairs: Some(seen.len()),
            verdict: Verdict::judge(&ratio, seen.len(), confidence),
        };
        Some(comparison.known_within(known))
    }

    fn compare_brackets(
        (first, own): (&Series, &Peak),
        (second, others): (&Series, &Peak),
    ) -> Option<Self> {
        let ratio = bracket_ratio(own, others)?;
        let tie = ratio.interval.contains(1.0);
        Some(Self {
            first: first.name.clone(),
            second: second.name.clone(),
            ratio,
            known: ratio.interval,
            pairs: None,
            // There is one search for each.
            verdict: if tie { Verdict::Tie } else { Verdict::Indicated },
        })
    }

    /// The ratio with its interval.
    pub(crate) fn shown(&self) -> String {
        number::estimate(&self.ratio, number::ratio)
    }
}

fn inverse(Interval { low, high }: Interval) -> Interval {
    Interval { low: 1.0 / high, high: 1.0 / low }
}

const MOST: Measure = Measure::Throughput;
/// The lowest rate of searches, in requests per second. It replaces a limit of 0 in ratios, which 0
/// would make infinite.
const RATE_MIN: f64 = 1.0;

/// Compares all pairs of a panel but those with the floor, which is no competitor.
pub(crate) fn pairs(panel: &Panel, confidence: f64) -> Vec<Comparison> {
    let ranked = ranked(panel);
    let pairs = ranked.iter().enumerate().flat_map(|(index, (first, _))| {
        ranked[index + 1..].iter().map(move |(second, _)| (*first, *second))
    });
    pairs.filter_map(|(a, b)| Comparison::compare_peaks(a, b, confidence)).collect()
}

/// The series with a peak, highest first, without the floor.
pub(crate) fn ranked(panel: &Panel) -> Vec<(&Series, Peak)> {
    let others = panel.series.iter().filter(|series| Some(&series.name) != panel.floor.as_ref());
    let mut ranked: Vec<(&Series, Peak)> =
        others.filter_map(|series| Some((series, series.peak()?))).collect();
    ranked.sort_by(|(_, a), (_, b)| b.per_s.total_cmp(&a.per_s));
    ranked
}

/// Whether there are several, and each may serve more than was seen: none is known to serve most.
pub(crate) fn no_peak_was_seen(ranked: &[(&Series, Peak)]) -> bool {
    ranked.len() > 1 && ranked.iter().all(|(_, peak)| peak.found.is_lower_bound())
}

/// Series with their peaks.
type Peaks<'p> = Vec<(&'p Series, Peak)>;

/// The settings of a tuning, the best first, and those that neglect kinds of file, which are none
/// of its candidates.
pub(crate) fn candidates(panel: &Panel) -> (Peaks<'_>, Peaks<'_>) {
    let is_candidate =
        |(series, _): &(&Series, Peak)| !is_unfair(series) || is_winner(series, panel);
    let (mut fair, unfair): (Vec<_>, Vec<_>) = ranked(panel).into_iter().partition(is_candidate);
    fair.sort_by_key(|(series, _)| place(series, panel));
    (fair, unfair)
}

/// The highest load at which all servers were measured that were measured at all.
pub(crate) fn common_load(panel: &Panel) -> Option<f64> {
    let measured: Vec<&Series> =
        panel.series.iter().filter(|series| !series.points.is_empty()).collect();
    let loads = measured.first()?.points.iter().rev().map(|point| point.offered);
    let is_common = |load: &f64| measured.iter().all(|series| series.point_at(*load).is_some());
    loads.into_iter().find(is_common)
}

/// The series by the processor time of a request at the load that all have in common, the cheapest
/// first, without the floor.
pub(crate) fn by_cost(panel: &Panel) -> Vec<(&Series, Estimate)> {
    let Some(load) = common_load(panel) else { return Vec::new() };
    let cost =
        |series: &Series| series.point_at(load)?.estimates.get(&Measure::CpuPerRequest).copied();
    let others = panel.series.iter().filter(|series| Some(&series.name) != panel.floor.as_ref());
    let costs = others.filter_map(|series| Some((series, cost(series)?)));
    let mut costs: Vec<(&Series, Estimate)> = costs.collect();
    costs.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    costs
}

/// The largest difference in timeouts between kinds of file, in percentage points, that is still
/// fair.
pub(crate) const SPREAD_POINTS: f64 = 2.0;

/// Whether the series is the winner of a tuning.
pub(crate) fn is_winner(series: &Series, panel: &Panel) -> bool {
    panel.tuning.as_ref().is_some_and(|tuning| tuning.winner == series.setting)
}

/// The reason, in a few words, why a series is not the best of its panel, however much it serves. A
/// tuning records its winner and the rivals of its last race; of records without these it is
/// guessed.
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
    // A setting that was given up early has few searches, and may have been lucky.
    (2 * series.limits.len() < most).then_some("given up early")
}

/// The rank of a series, however much it serves; lower is better: the winner is first, and refused
/// series are last.
pub(crate) fn place(series: &Series, panel: &Panel) -> u8 {
    match (is_winner(series, panel), refusal(series, panel)) {
        (true, _) => 0,
        (false, None) => 1,
        (false, Some(_)) => 2,
    }
}

/// Whether the server reached its peak by neglect of some kinds of file.
pub(crate) fn is_unfair(series: &Series) -> bool {
    let spread = series.at_peak().and_then(|point| point.median(Measure::Spread));
    spread.is_some_and(|spread| spread > SPREAD_POINTS)
}

/// The ratio of two brackets. Brackets are no samples: the ratio lies between the ratios of their
/// opposite ends.
fn bracket_ratio(own: &Peak, others: &Peak) -> Option<Estimate> {
    if own.per_s <= 0.0 || others.per_s <= 0.0 {
        return None;
    }
    let interval = Interval { low: own.low / others.high, high: own.high / others.low };
    Some(Estimate { median: own.per_s / others.per_s, interval })
}
