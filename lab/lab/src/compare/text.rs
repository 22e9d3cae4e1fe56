//! A comparison in a few lines, for people.

use super::{Comparison, Figure, Side, Verdict};
use crate::conclusion::Conclusion;
use crate::search::FREE_CPUS;
use page::number;
use statistics::{median, values_min};
use std::fmt::Write as _;

/// What stands in the table. The ratio of two medians may be another.
const COLUMNS: &str = "A and B are medians, A / B is the median of the pairs' ratios.";

/// How many void windows are listed one by one.
const VOID_MAX: usize = 6;

/// The table and the caveats, and the verdict.
pub fn conclude(comparison: &Comparison, sides: &[Side; 2]) -> Conclusion {
    Conclusion { details: details(comparison, sides), verdict: verdict(comparison, sides) }
}

fn details(comparison: &Comparison, sides: &[Side; 2]) -> String {
    let mut text = String::new();
    for (letter, side) in ["A", "B"].into_iter().zip(sides) {
        let _ = writeln!(text, "{letter}  {} {}", side.label(), side.version);
    }
    let rate = comparison.rate_per_s;
    let confidence = number::percent(comparison.confidence);
    let _ = writeln!(text, "\nThe common rate is {rate:.0} requests/s. {COLUMNS}\n");
    let _ = writeln!(text, "{:<28} {:>10} {:>10}   A / B [{confidence}]", "", "A", "B");
    for (figure, verdict) in &comparison.figures {
        text.push_str(&line(figure, verdict));
    }
    for void in comparison.void.iter().take(VOID_MAX) {
        let _ = writeln!(text, "void: {}", void.describe(sides));
    }
    if let Some(more @ 1..) = comparison.void.len().checked_sub(VOID_MAX) {
        let _ = writeln!(text, "void: and {more} more, in the records");
    }
    for caveat in &comparison.caveats {
        let _ = writeln!(text, "Mind: {caveat}.");
    }
    text
}

fn line(figure: &Figure, verdict: &Verdict) -> String {
    let middle = |values: &[f64]| {
        let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        median(&known).map_or_else(|| "-".to_owned(), three_digits)
    };
    let ratio = verdict.ratio().map_or_else(
        || "-".to_owned(),
        |ratio| {
            let (low, high) = (ratio.interval.low, ratio.interval.high);
            format!("{:.2} [{low:.2}, {high:.2}]", ratio.median)
        },
    );
    let (a, b) = (middle(&figure.first), middle(&figure.second));
    format!("{:<28} {a:>10} {b:>10}   {ratio:<19}  {verdict}\n", figure.name)
}

/// Three digits where there are decimals, all of them where there are none.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// What helps: `usual`, or, where others disturbed windows, to keep them away.
fn advice(comparison: &Comparison, usual: &str) -> String {
    match comparison.disturbed() {
        0 => usual.to_owned(),
        windows => {
            format!(
                ". Other processes disturbed {}: {FREE_CPUS}.",
                number::counted(windows, "window")
            )
        }
    }
}

/// The verdict in a sentence. The first figure that was measured decides: processor time for the
/// same work, or throughput where that is not known.
fn verdict(comparison: &Comparison, sides: &[Side; 2]) -> String {
    let Some((figure, verdict)) = comparison.deciding() else {
        let advice = advice(comparison, ".");
        return format!("Verdict: none. In no pair were both windows good{advice}");
    };
    let Some(ratio) = verdict.ratio() else { return "Verdict: none.".into() };
    let (low, high) = (ratio.interval.low, ratio.interval.high);
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let interval = format!("{} [{}, {}]", percent(ratio.median), percent(low), percent(high));
    let judged = format!("A against B in {}: {interval}", figure.name);
    let winner = match verdict {
        Verdict::First(_) => &sides[0],
        Verdict::Second(_) => &sides[1],
        Verdict::Tie(_) => return format!("Verdict: a tie. {judged}."),
        Verdict::Open(_) | Verdict::Nothing => {
            let advice = advice(comparison, ". More pairs (--pairs) may.");
            return format!("Verdict: cannot tell{advice} {judged}.");
        }
        Verdict::TooFew(_) => {
            let least = values_min(comparison.confidence);
            let advice = advice(comparison, " (--pairs).");
            return format!(
                "Verdict: cannot tell. It takes {least} good pairs at least{advice} {judged}."
            );
        }
    };
    let failed = if comparison.caveats.is_empty() { "" } else { " But see the caveats." };
    format!("Verdict: {}. {judged}.{failed}", winner.label())
}
