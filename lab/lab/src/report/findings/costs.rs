//! Findings on servers that were loaded together: how much processor time a request takes in each.
//! Their throughputs are shares of the same CPUs.

use super::super::comparison::{Comparison, Verdict};
use super::super::measure::Measure;
use super::super::number;
use super::super::summary::{Measured, Panel, Series};
use super::{Findings, Head, listed_at_most};

/// The most servers that a sentence names; the matrix has all.
const LISTED_MAX: usize = 4;

/// What such a study does not show.
pub(super) const SHARED: &str = "The servers were loaded together and waited for each other: \
    throughputs and times are those of a shared CPU, and say nothing of what a server can do by \
    itself. CPU time per request can be compared.";

/// Compares the servers of a panel with the one whose requests take the least processor time, at
/// the highest load that all have.
pub(super) fn compare(findings: &mut Findings, panel: &Panel, confidence: f64) {
    let Some(offered) = common_load(panel) else { return };
    let of = |series| Some((series, Series::point_at(series, offered)?));
    let mut measured: Vec<(&Series, &Measured)> = panel.series.iter().filter_map(of).collect();
    let cost = |point: &Measured| point.median(Measure::CpuPerRequest).unwrap_or(f64::INFINITY);
    measured.sort_by(|(_, one), (_, other)| cost(one).total_cmp(&cost(other)));
    let Some(((best, least), others)) = measured.split_first() else { return };
    let Some(estimate) = least.estimates.get(&Measure::CpuPerRequest) else { return };
    let shown = number::interval(
        estimate.median,
        estimate.interval.low,
        estimate.interval.high,
        number::figure,
    );
    let mut text = format!(
        ": {} needs the least processor time, {shown} us/request at {} {}.",
        best.name,
        number::plain(offered),
        panel.unit()
    );
    let (mut ties, mut indicated, mut next) = (Vec::new(), Vec::new(), None);
    for (series, point) in others {
        let (one, other) = ((&*series.name, *point), (&*best.name, *least));
        let pair = Comparison::compare_points(one, other, Measure::CpuPerRequest, confidence);
        match pair.as_ref().map(|pair| (pair.verdict, pair.shown())) {
            // Of the others the matrix has the numbers.
            Some((Verdict::Differ, shown)) => {
                let told = || format!(" The next, {}, needs {shown} times as much.", series.name);
                next = next.or_else(|| Some(told()));
            }
            Some((Verdict::Indicated, _)) => indicated.push(series.name.clone()),
            Some(_) => ties.push(series.name.clone()),
            None => {}
        }
    }
    if !ties.is_empty() {
        let ties = listed_at_most(&ties, LISTED_MAX);
        text.push_str(&format!(" Between {} and {ties}: a tie.", best.name));
    }
    text.push_str(&next.unwrap_or_default());
    findings.add_for_panel(panel, Head::Verdict, &text);
    if !indicated.is_empty() {
        let all = listed_at_most(&indicated, LISTED_MAX);
        let text =
            format!(": {} seems to need less than {all}, on too few pairs to be sure.", best.name);
        findings.add_for_panel(panel, Head::NotSupported, &text);
    }
}

/// The highest load at which all servers were measured that were measured at all.
pub(crate) fn common_load(panel: &Panel) -> Option<f64> {
    let measured: Vec<&Series> =
        panel.series.iter().filter(|series| !series.points.is_empty()).collect();
    let loads = measured.first()?.points.iter().rev().map(|point| point.offered);
    let is_common = |load: &f64| measured.iter().all(|series| series.point_at(*load).is_some());
    loads.into_iter().find(is_common)
}
