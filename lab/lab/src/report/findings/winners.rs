//! Findings on the winner of a tuning: the setting, and others that may be as good. The tuning has
//! recorded its races and their results; for records without these they are guessed from the
//! searches of each setting.

use super::super::comparison::{Comparison, Verdict, candidates};
use super::super::number;
use super::super::summary::{Panel, Peak, Series, Summary};
use super::{Findings, Head, did_better, listed_at_most};
use crate::record::{RaceOutcome, Tuning};

/// The most items of a list in a sentence.
const LISTED_MAX: usize = 8;

/// Reports the best setting of each panel.
pub(super) fn winners(findings: &mut Findings, summary: &Summary) {
    for panel in &summary.panels {
        let (fair, unfair) = candidates(panel);
        let served = fair.first().map_or(0.0, |(_, peak)| peak.per_s);
        let refused = unfair.iter().filter(|(_, peak)| peak.per_s >= served);
        let refused: Vec<String> = refused.map(|(series, _)| series.name.clone()).collect();
        if !refused.is_empty() {
            let refused = listed_at_most(&refused, LISTED_MAX);
            let text = match fair.is_empty() {
                true => format!("no setting is crowned: {refused} did not serve"),
                false => format!("{refused} served more than the winner, but not"),
            };
            let text = format!(": {text} all kinds of file alike.");
            findings.add_for_panel(panel, Head::NotSupported, &text);
        }
        let Some((best, peak)) = fair.first() else { continue };
        let text = match &panel.tuning {
            Some(tuning) => {
                let all = panel.series.len();
                crowned((best, peak), (all, tuning.is_decided())) + &raced(panel, tuning)
            }
            None => {
                let others: Vec<&Series> = fair[1..].iter().map(|(series, _)| *series).collect();
                crowned((best, peak), (fair.len(), true))
                    + &compared(best, &others, summary.confidence)
            }
        };
        findings.add_for_panel(panel, Head::Verdict, &text);
    }
}

fn crowned((best, peak): (&Series, &Peak), (settings, is_decided): (usize, bool)) -> String {
    // Knobs without a value are left out.
    let knobs = best.knobs.iter().filter(|(_, value)| !value.is_empty());
    let knobs: Vec<String> = knobs.map(|(k, v)| format!("{k} = {v}")).collect();
    let what = match is_decided {
        true => "the best of",
        false => "which is best was not decided; ahead of",
    };
    format!(
        ": {what} {} is {} ({}): {} requests/s.{}",
        number::counted(settings, "setting"),
        best.name,
        if knobs.is_empty() { "no knobs".to_owned() } else { knobs.join(", ") },
        peak.shown(),
        if peak.found.is_lower_bound() { " It may sustain more than was seen." } else { "" }
    )
}

/// Describes the results of the winner's last race.
fn raced(panel: &Panel, tuning: &Tuning) -> String {
    let with = |outcome: RaceOutcome| -> Option<String> {
        let chosen = tuning.rivals.iter().filter(|rival| rival.outcome == outcome);
        let names: Vec<String> = chosen.map(|rival| name_of(panel, &rival.setting)).collect();
        (!names.is_empty()).then(|| listed_at_most(&names, LISTED_MAX))
    };
    let mut text = String::new();
    if let Some(ties) = with(RaceOutcome::Tie) {
        text.push_str(&format!(" A tie with {ties}: any of these may be the best."));
    }
    if let Some(open) = with(RaceOutcome::Open) {
        text.push_str(&format!(" Too close to tell from {open}."));
    }
    if let Some(beaten) = with(RaceOutcome::Better) {
        text.push_str(&format!(" In its last race it was better than {beaten}."));
    }
    if let Some(ahead) = with(RaceOutcome::Worse) {
        text.push_str(&format!(" In its last race it was worse than {ahead}."));
    }
    match panel.series.len().saturating_sub(1 + tuning.rivals.len()) {
        0 => text,
        others => text + &format!(" Given up before: {}.", number::counted(others, "other")),
    }
}

fn name_of(panel: &Panel, setting: &str) -> String {
    let known = panel.series.iter().find(|series| series.setting == setting);
    known.map_or_else(|| setting.to_owned(), |series| series.name.clone())
}

/// Compares the best setting with the others by their peaks, where no tuning has recorded the
/// results.
fn compared(best: &Series, others: &[&Series], confidence: f64) -> String {
    let compared =
        others.iter().filter_map(|other| Comparison::compare_peaks(best, other, confidence));
    let compared: Vec<Comparison> = compared.collect();
    let with = |verdict: Verdict| -> Vec<String> {
        let chosen = compared.iter().filter(|pair| pair.verdict == verdict);
        chosen.map(|pair| pair.second.clone()).collect()
    };
    let (ties, weak) = (with(Verdict::Tie), with(Verdict::Indicated));
    let mut text = String::new();
    if !ties.is_empty() {
        let ties = listed_at_most(&ties, LISTED_MAX);
        text.push_str(&format!(" A tie with {ties}: any of these may be the best."));
    }
    if !weak.is_empty() {
        text.push_str(&format!(
            " It seems better than {}, on too few pairs to be sure.",
            number::counted(weak.len(), "other")
        ));
    }
    let open = with(Verdict::NotReached);
    if !open.is_empty() {
        let open = listed_at_most(&open, LISTED_MAX);
        text.push_str(&format!(
            " Whether it is better than {open} is not decided: one of them may sustain more than \
             was seen."
        ));
    }
    let differ = compared.iter().filter(|pair| pair.verdict == Verdict::Differ);
    let (better, worse): (Vec<&Comparison>, Vec<&Comparison>) =
        differ.partition(|pair| pair.ratio.interval.low > 1.0);
    if !better.is_empty() {
        text.push_str(&format!(" It is better than {}.", number::counted(better.len(), "other")));
    }
    let worse: Vec<String> = worse.iter().map(|pair| pair.second.clone()).collect();
    text + &did_better(&worse)
}
