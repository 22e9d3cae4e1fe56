//! Findings on servers that were loaded together: how much processor time a request takes in each.
//! Their throughputs are shares of the same CPUs.

use super::super::comparison::{Comparison, Verdict, by_cost, common_load};
use super::super::number;
use super::super::summary::Panel;
use super::{Findings, Head, did_better, listed_at_most};

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
    let measured = by_cost(panel);
    let Some(((best, estimate), others)) = measured.split_first() else { return };
    let shown = number::interval(
        estimate.median,
        estimate.interval.low,
        estimate.interval.high,
        number::figure,
    );
    let (mut ties, mut indicated, mut better, mut next) =
        (Vec::new(), Vec::new(), Vec::new(), None);
    for (series, _) in others {
        let Some(pair) = Comparison::compare_costs(panel, (series, best), confidence) else {
            continue;
        };
        let name = || series.name.clone();
        match (pair.verdict, pair.ratio.median > 1.0) {
            (Verdict::Differ | Verdict::Indicated, false) => better.push(name()),
            // Of the others the matrix has the numbers.
            (Verdict::Differ, true) => next = next.or(Some((series, pair))),
            (Verdict::Indicated, true) => indicated.push(name()),
            _ => ties.push(name()),
        }
    }
    let at = format!("{shown} us/request at {} {}", number::plain(offered), panel.unit());
    let mut text = match next.is_none() && !others.is_empty() {
        false => format!(": {} needs the least processor time, {at}.", best.name),
        true => format!(
            ": {} has the lowest median processor time, {at}, but no other is certain to need \
             more.",
            best.name
        ),
    };
    if !ties.is_empty() {
        let ties = listed_at_most(&ties, LISTED_MAX);
        text.push_str(&format!(" Between {} and {ties}: a tie.", best.name));
    }
    if let Some((series, pair)) = next {
        let is_next = others.first().is_some_and(|(first, _)| first.name == series.name);
        let name =
            if is_next { format!("The next, {},", series.name) } else { series.name.clone() };
        text.push_str(&format!(" {name} needs {} times as much.", pair.shown()));
    }
    text.push_str(&did_better(&better));
    findings.add_for_panel(panel, Head::Verdict, &text);
    if !indicated.is_empty() {
        let all = listed_at_most(&indicated, LISTED_MAX);
        let text =
            format!(": {} seems to need less than {all}, on too few pairs to be sure.", best.name);
        findings.add_for_panel(panel, Head::NotSupported, &text);
    }
}
