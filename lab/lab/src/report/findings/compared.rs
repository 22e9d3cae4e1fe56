//! The verdict on two servers, or two settings, that were measured in pairs.

use super::super::comparison::Comparison;
use super::super::measure::Measure;
use super::super::number;
use super::super::summary::{Measured, Panel, Series, Summary};
use super::{Findings, Head, listed};
use crate::compare::{RatioVerdict, judge_ratio};
use crate::record::Opened;

/// The measures that are compared, and their names. Less is better for all but the first.
const COMPARED: [(Measure, &str); 4] = [
    (Measure::Throughput, "throughput"),
    (Measure::CpuPerRequest, "CPU time per request"),
    (Measure::P50, "median response time"),
    (Measure::P99, "99th percentile of response times"),
];

/// Two servers compared by one of the measures.
pub(crate) struct ByMeasure {
    /// The place of the measure among all.
    pub(crate) index: usize,
    /// The measure's name, with a `*` if it is a time that is mostly the generator's own lag.
    pub(crate) name: String,
    pub(crate) pair: Comparison,
    pub(crate) first_is_better: bool,
}

/// Compares two servers at a load that both had, by each measure that says something of them there:
/// the throughput of servers that keep up is the offered load.
pub(crate) fn by_measure(
    panel: &Panel,
    (first, own): (&Series, &Measured),
    (second, others): (&Series, &Measured),
    confidence: f64,
) -> Vec<ByMeasure> {
    let has_part = |measure| measure != Measure::Throughput || !keep_up(panel, [own, others]);
    let compared = COMPARED.into_iter().enumerate().filter(|(_, (measure, _))| has_part(*measure));
    let compared = compared.filter_map(|(index, (measure, name))| {
        let points = ((&*first.name, own), (&*second.name, others));
        let pair = Comparison::compare_points(points.0, points.1, measure, confidence)?;
        let name = format!("{name}{}", own.mark(measure).max(others.mark(measure)));
        let first_is_better = (pair.ratio.median > 1.0) == (measure == Measure::Throughput);
        Some(ByMeasure { index, name, pair, first_is_better })
    });
    compared.collect()
}

/// Whether both keep up with the requests that are sent.
pub(crate) fn keep_up(panel: &Panel, points: [&Measured; 2]) -> bool {
    !panel.closed && points.into_iter().all(Measured::kept_up)
}

pub(super) fn verdicts(findings: &mut Findings, opened: &Opened, summary: &Summary) {
    for panel in &summary.panels {
        let competing: Vec<&Series> =
            panel.series.iter().filter(|series| series.server != opened.header.floor).collect();
        let [first, second, ..] = competing[..] else {
            findings.add_for_panel(panel, Head::NotSupported, ": only one took part.");
            continue;
        };
        let margin = opened.header.margin;
        verdict(findings, panel, (first, second), (summary.confidence, margin));
    }
}

fn verdict(
    findings: &mut Findings,
    panel: &Panel,
    (first, second): (&Series, &Series),
    (confidence, margin): (f64, f64),
) {
    let Some((own, others)) = common(first, second) else {
        let text = format!(": {} and {} have no point in common.", first.name, second.name);
        findings.add_for_panel(panel, Head::NotSupported, &text);
        return;
    };
    let at = format!("{} {}", number::plain(own.offered), panel.unit());
    let served_all = keep_up(panel, [own, others]);
    let mut better: [Vec<String>; 2] = [Vec::new(), Vec::new()];
    let (mut ties, mut weak, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for compared in by_measure(panel, (first, own), (second, others), confidence) {
        let ByMeasure { name, pair, first_is_better, .. } = compared;
        let text = format!("{name} ({} times)", pair.shown());
        let interval = pair.ratio.interval;
        match judge_ratio(interval, margin, pair.pairs.unwrap_or(0), confidence) {
            RatioVerdict::Higher | RatioVerdict::Lower => {
                better[usize::from(!first_is_better)].push(text);
            }
            RatioVerdict::TooFew if !interval.contains(1.0) => {
                let ahead = if first_is_better { &first.name } else { &second.name };
                weak.push(format!("{ahead} in {text}"));
            }
            RatioVerdict::Tie => ties.push(text),
            RatioVerdict::Open | RatioVerdict::TooFew => open.push(text),
        }
    }
    let mut text = format!(", at {at}:");
    if served_all {
        text.push_str(&format!(" both {} and {} keep up.", first.name, second.name));
    }
    for (series, better) in [first, second].into_iter().zip(&better) {
        if !better.is_empty() {
            text.push_str(&format!(" {} is better in {}.", series.name, listed(better)));
        }
    }
    if !ties.is_empty() {
        let all = better.iter().chain([&weak, &open]).all(Vec::is_empty);
        let head = if all { "A tie in all that was compared:" } else { "A tie:" };
        text.push_str(&format!(" {head} {}.", listed(&ties)));
    }
    if !open.is_empty() {
        text.push_str(&format!(" More pairs would tell: {}.", listed(&open)));
    }
    let (first, second) = (&first.name, &second.name);
    text.push_str(&format!(" Ratios are {first} to {second}, the median of those of the pairs."));
    findings.add_for_panel(panel, Head::Verdict, &text);
    if !weak.is_empty() {
        let text = format!(
            ", at {at}: indicated by too few pairs to be sure: {}. Repeat to decide.",
            listed(&weak)
        );
        findings.add_for_panel(panel, Head::NotSupported, &text);
    }
}

/// The points of both series at the highest load that both have.
pub(crate) fn common<'s>(
    first: &'s Series,
    second: &'s Series,
) -> Option<(&'s Measured, &'s Measured)> {
    first.points.iter().rev().find_map(|point| Some((point, second.point_at(point.offered)?)))
}
