//! Findings on the highest throughputs: which servers serve more and which tie, their throughput
//! beyond the peak, and reasons to doubt a peak.

use super::super::comparison::{
    Comparison, SPREAD_POINTS, Verdict, no_peak_was_seen, pairs, ranked,
};
use super::super::measure::Measure;
use super::super::number;
use super::super::summary::{Found, Panel, Peak, Series};
use super::{Findings, Head, did_better, listed_at_most};
use crate::record::{Kind, Search};

/// A server whose throughput falls below this part of its peak is reported to have collapsed.
const COLLAPSE_SHARE: f64 = 0.8;
/// A throughput above this part of the path's limit is taken to be the path's.
const LIMIT_SHARE: f64 = 0.9;
/// A larger part of failures at a peak is reported.
const ERROR_SHARE: f64 = 0.01;
/// The most items of a list in a sentence.
const LISTED_MAX: usize = 8;
/// The most servers beside the best that a sentence names; the matrix has all.
const TIES_MAX: usize = 4;

/// Compares the servers of a panel at their peaks.
pub(super) fn compare(findings: &mut Findings, panel: &Panel, confidence: f64) {
    let ranked = ranked(panel);
    let Some((best, peak)) = ranked.first().filter(|(_, peak)| peak.per_s > 0.0) else { return };
    if ranked.len() == 1 {
        findings.add_for_panel(
            panel,
            Head::Verdict,
            &format!(": {}.", sentence(best, peak, panel)),
        );
        return;
    }
    let pairs = pairs(panel, confidence);
    if no_peak_was_seen(&ranked) {
        findings.add_for_panel(panel, Head::Verdict, &no_ranking(panel, &ranked));
        return;
    }
    let against: Vec<&Comparison> = pairs.iter().filter(|pair| pair.first == best.name).collect();
    let is_ahead =
        |pair: &&&Comparison| pair.verdict == Verdict::Differ && pair.ratio.interval.low > 1.0;
    let next = against.iter().find(is_ahead);
    let doubt = match next.is_none() && against.iter().any(seems_ahead) {
        true => ", but no other is certain to serve less",
        false => "",
    };
    let mut text = format!(": {}{doubt}.", sentence(best, peak, panel));
    // The others are in the matrix.
    if let Some(next) = next {
        let is_next = against.len() > 1 && ranked[1].0.name == next.second;
        let which = if is_next { ", the next" } else { "" };
        text.push_str(&format!(
            " It serves {} times the requests of {}{which}.",
            next.shown(),
            next.second
        ));
    }
    let ties = named(&against, Verdict::Tie);
    if !ties.is_empty() {
        let ties = listed_at_most(&ties, TIES_MAX);
        text.push_str(&format!(" Between {} and {ties}: a tie.", best.name));
    }
    let is_bound = |name: &String| {
        ranked.iter().any(|(one, peak)| one.name == *name && peak.found.is_lower_bound())
    };
    let open = named(&against, Verdict::NotReached);
    let (open, passed): (Vec<_>, Vec<_>) = open.into_iter().partition(is_bound);
    if !open.is_empty() {
        let open = listed_at_most(&open, LISTED_MAX);
        text.push_str(&format!(" {open} may serve more: what was seen is a lower bound."));
    }
    if !passed.is_empty() {
        let passed = listed_at_most(&passed, LISTED_MAX);
        text.push_str(&match peak.found.is_lower_bound() {
            true => {
                format!(" {} may serve more than was seen, and so more than {passed}.", best.name)
            }
            false => format!(
                " Between {} and {passed} it is open: in some blocks one of them may serve more \
                 than was seen.",
                best.name
            ),
        });
    }
    let is_behind = |pair: &&&Comparison| {
        matches!(pair.verdict, Verdict::Differ | Verdict::Indicated) && pair.ratio.median < 1.0
    };
    let better: Vec<String> =
        against.iter().filter(is_behind).map(|pair| pair.second.clone()).collect();
    text.push_str(&did_better(&better));
    findings.add_for_panel(panel, Head::Verdict, &text);
    indicated(findings, panel, &against);
    tally(findings, panel, &pairs, confidence);
}

/// The finding for a panel in which no server was driven to its peak.
fn no_ranking(panel: &Panel, ranked: &[(&Series, Peak)]) -> String {
    let all = format!("All servers{}", but(&unseen(panel)));
    let why = match ranked.iter().all(|(_, peak)| peak.found == Found::NotReached) {
        true => format!("{all} kept up with the highest rate offered, so no peak was seen"),
        false => format!("{all} may serve more than was seen: no rate is known to break"),
    };
    format!(
        ": no ranking by throughput. {why}; CPU time per request and response times can be \
         compared."
    )
}

/// The names of the series without a known peak.
fn unseen(panel: &Panel) -> Vec<String> {
    at_peaks(panel, |series| series.peak().is_none().then(|| series.name.clone()))
}

fn but(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(" but {}", listed_at_most(names, LISTED_MAX)),
    }
}

fn named(pairs: &[&Comparison], verdict: Verdict) -> Vec<String> {
    let chosen = pairs.iter().filter(|pair| pair.verdict == verdict);
    chosen.map(|pair| pair.second.clone()).collect()
}

/// The sentence on the best: `nginx reaches the highest throughput, 12,300 [12,100, 12,500]
/// requests/s at 14,000 offered`.
fn sentence(series: &Series, peak: &Peak, panel: &Panel) -> String {
    let Peak { per_s, low, high, offered, found } = peak;
    let shown = number::interval(*per_s, *low, *high, number::figure);
    let name = &series.name;
    let (offered, unit) = (number::plain(*offered), panel.unit());
    match found {
        Found::Swept => {
            format!(
                "{name} reaches the highest throughput, {shown} requests/s (offered {offered} \
             {unit})"
            )
        }
        Found::NotReached => format!(
            "{name} serves most, {shown} requests/s, which is all that was offered: its peak may \
             lie higher"
        ),
        Found::Searched => {
            format!("{name} has the highest maximum achievable throughput, {shown} requests/s")
        }
        Found::AtLeast => format!(
            "{name} has the highest maximum achievable throughput seen, at least {} requests/s",
            number::figure(*per_s)
        ),
    }
}

/// Whether the first of a pair was ahead in too few blocks to be sure.
fn seems_ahead(pair: &&Comparison) -> bool {
    pair.verdict == Verdict::Indicated && pair.ratio.median > 1.0
}

fn indicated(findings: &mut Findings, panel: &Panel, against: &[&Comparison]) {
    let weak: Vec<&&Comparison> = against.iter().filter(|pair| seems_ahead(pair)).collect();
    let Some(first) = weak.first() else { return };
    let names: Vec<String> = weak.iter().map(|pair| pair.second.clone()).collect();
    let names = listed_at_most(&names, TIES_MAX);
    let pairs = weak.iter().filter_map(|pair| pair.pairs).max();
    let text = format!(
        ": {} seems to serve more than {names} at its peak, but {}. Repeat the runs to be sure.",
        first.first,
        too_few(pairs)
    );
    findings.add_for_panel(panel, Head::NotSupported, &text);
}

/// The reason why so many pairs are no proof; `pairs` is none where each server was searched once.
fn too_few(pairs: Option<usize>) -> String {
    match pairs {
        None => "one search of each is too few".into(),
        Some(0 | 1) => "one run of each is too few: one of them is always ahead".into(),
        Some(pairs) => format!(
            "{pairs} pairs are too few: as many agree by chance once in {} times",
            1_u64 << (pairs - 1).min(30)
        ),
    }
}

/// Reports how many pairs differ, and how many tie; the matrix has each of them.
fn tally(findings: &mut Findings, panel: &Panel, pairs: &[Comparison], confidence: f64) {
    let count = |verdict| pairs.iter().filter(|pair| pair.verdict == verdict).count();
    if pairs.len() < 2 {
        return;
    }
    let open = match count(Verdict::NotReached) {
        0 => String::new(),
        n => format!("of {n} a peak was not reached, "),
    };
    let mut text = format!(
        ": of {} of servers {} differ at their peaks, {} seem to, {open}{}",
        number::counted(pairs.len(), "pair"),
        count(Verdict::Differ),
        count(Verdict::Indicated),
        match count(Verdict::Tie) {
            0 => "none ties.".to_owned(),
            1 => "1 is a tie.".to_owned(),
            n => format!("{n} are ties."),
        }
    );
    let by_chance = (1.0 - confidence) * pairs.len() as f64;
    if by_chance >= 0.5 && count(Verdict::Differ) > 0 {
        text.push_str(&format!(
            " At {} confidence about {} of so many pairs would differ by chance alone.",
            number::percent(confidence),
            by_chance.round().max(1.0)
        ));
    }
    findings.add_for_panel(panel, Head::Supported, &text);
}

/// Reports servers whose throughput falls when they are offered more than their peak.
pub(super) fn beyond(findings: &mut Findings, panel: &Panel) {
    let fallen = panel.series.iter().filter_map(|series| {
        let (best, last) = (series.best()?, series.points.last()?);
        let peak = best.median(Measure::Throughput).filter(|peak| *peak > 0.0)?;
        let share = last.median(Measure::Throughput)? / peak;
        (share < COLLAPSE_SHARE).then(|| {
            let offered = number::plain(last.offered);
            format!("{} to {:.0} % of its peak at {offered}", series.name, share * 100.0)
        })
    });
    let fallen: Vec<String> = fallen.collect();
    if !fallen.is_empty() {
        let fallen = listed_at_most(&fallen, LISTED_MAX);
        let text = format!(": beyond the peak throughput falls: {fallen}.");
        findings.add_for_panel(panel, Head::Supported, &text);
    }
}

/// Reports reasons to doubt the peaks of a panel.
pub(super) fn doubts(findings: &mut Findings, panel: &Panel, kind: Kind) {
    // In a comparison the load is given, and no search for the highest throughput is made.
    let is_comparison = kind == Kind::Compare;
    let mut add_names = |names: Vec<String>, what: &str| {
        if !names.is_empty() {
            let names = listed_at_most(&names, LISTED_MAX);
            let text = format!(": {}", what.replace("{}", &names));
            findings.add_for_panel(panel, Head::NotSupported, &text);
        }
    };
    add_names(
        unfair(panel),
        "{}: kinds of file were not served alike, so that throughput was bought \
        by neglect and cannot be compared.",
    );
    let failed = match is_comparison {
        true => "requests failed: {}.",
        false => "the highest throughput was reached while requests failed: {}.",
    };
    add_names(failing(panel), failed);
    add_names(
        at_limit(panel),
        "{}: a figure this close to the path's own limit may measure the path.",
    );
    add_names(bound(panel), "the generator, not the server, was the limit of {}.");
    if !is_comparison {
        add_names(
            unreached(panel),
            "the peak of {} lies beyond the highest rate offered; what is shown is a lower bound.",
        );
    }
    add_names(nothing_held(panel), "no rate was held by {}: such a search counts as 0.");
    add_names(nothing_seen(panel), "searches that found no limit do not count: {}.");
}

fn at_peaks(panel: &Panel, say: impl Fn(&Series) -> Option<String>) -> Vec<String> {
    panel.series.iter().filter_map(say).collect()
}

fn unfair(panel: &Panel) -> Vec<String> {
    at_peaks(panel, |series| {
        let spread = series.at_peak()?.median(Measure::Spread)?;
        let points = number::figure(spread);
        (spread > SPREAD_POINTS).then(|| format!("{} (spread {points} points)", series.name))
    })
}

fn failing(panel: &Panel) -> Vec<String> {
    at_peaks(panel, |series| {
        let share = series.at_peak()?.median(Measure::ErrorShare)?;
        let percent = number::percent(share);
        (share > ERROR_SHARE).then(|| format!("{percent} at {}", series.name))
    })
}

fn at_limit(panel: &Panel) -> Vec<String> {
    at_peaks(panel, |series| {
        let share = series.peak()?.per_s / panel.limit_per_s?;
        (share >= LIMIT_SHARE).then(|| format!("{} at {:.0} %", series.name, share * 100.0))
    })
}

fn bound(panel: &Panel) -> Vec<String> {
    at_peaks(panel, |series| {
        let is_bound = |search: &&Search| search.generator_bound && search.held_per_s > 0.0;
        in_searches(series, is_bound).map(|(name, _)| name)
    })
}

fn unreached(panel: &Panel) -> Vec<String> {
    at_peaks(panel, |series| {
        let peak = series.peak()?;
        (peak.found == Found::NotReached).then(|| series.name.clone())
    })
}

fn nothing_held(panel: &Panel) -> Vec<String> {
    with_reason(panel, |search| search.limit_per_s() == Some(0.0))
}

fn nothing_seen(panel: &Panel) -> Vec<String> {
    with_reason(panel, |search| search.limit_per_s().is_none())
}

fn with_reason(panel: &Panel, which: impl Fn(&Search) -> bool) -> Vec<String> {
    at_peaks(panel, |series| {
        let (name, first) = in_searches(series, |search| which(search))?;
        Some(format!("{name} ({})", first.reason()))
    })
}

/// Names a series, with the number of its searches that `which` selects if it is not all; returns
/// the first of these searches too. None if there are none.
fn in_searches(series: &Series, which: impl Fn(&&Search) -> bool) -> Option<(String, &Search)> {
    let (name, all) = (&series.name, series.searches.len());
    let chosen: Vec<&Search> = series.searches.iter().filter(which).collect();
    let name = match chosen.len() {
        some if some < all => format!("{name} in {some} of {all} searches"),
        _ => name.clone(),
    };
    Some((name, chosen.first()?))
}
