//! The findings of a paper's text, and whether this run shows them: each with the numbers that
//! decide.
//!
//! Two values differ only if their intervals over the seeds do not explain the difference: a
//! difference within the intervals is a tie, and shows nothing.

#[cfg(test)]
pub(super) mod tests;

use super::data::{Claim, Paper};
use super::expression::{Found, Names};
use crate::simulate_command::measured::Runs;

/// The least number of seeds: one alone has no spread, by which differences are judged.
const SEEDS_MIN: usize = 2;

/// A sentence of the paper, and whether the run shows it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::simulate_command) struct Finding {
    pub(in crate::simulate_command) claim: String,
    /// The place of the sentence in the paper.
    pub(in crate::simulate_command) place: String,
    pub(in crate::simulate_command) verdict: Verdict,
    /// The numbers that decide, or why there are none.
    pub(in crate::simulate_command) numbers: String,
}

/// Whether the run shows a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::simulate_command) enum Verdict {
    /// The numbers agree with the sentence.
    Shown,
    /// The numbers do not agree with the sentence, or their intervals leave it open.
    NotShown,
    /// There are no intervals: with one seed any two numbers differ.
    Undecided,
}

/// All findings, in the paper's order.
pub(super) fn all(paper: &Paper, runs: &Runs) -> Result<Vec<Finding>, String> {
    let names = Names::new(paper, runs);
    let found = |claim| {
        let judged = judge(claim, names);
        let judged = judged.map_err(|why| format!("finding {:?}: {why}", claim.claim))?;
        Ok(finding(claim, runs, judged))
    };
    paper.findings.iter().map(found).collect()
}

fn finding(claim: &Claim, runs: &Runs, judged: Option<(bool, String)>) -> Finding {
    let (verdict, numbers) = match judged {
        None => {
            let why = "the machines that it needs have more processors than the trace has tasks";
            (Verdict::NotShown, why.into())
        }
        Some((_, numbers)) if runs.seeds < SEEDS_MIN => (Verdict::Undecided, numbers),
        Some((true, numbers)) => (Verdict::Shown, numbers),
        Some((false, numbers)) => (Verdict::NotShown, numbers),
    };
    Finding { claim: claim.claim.clone(), place: claim.place.clone(), verdict, numbers }
}

/// Whether a claim is shown, and by which numbers; none where machines for it are missing.
fn judge(claim: &Claim, names: Names<'_>) -> Found<(bool, String)> {
    if claim.shown_if.is_empty() {
        return Err("shown_if: say what shows it".into());
    }
    let tested = claim.shown_if.iter().map(|test| names.test(test));
    let tested: Vec<_> = tested.collect::<Result<_, _>>()?;
    let steps: String = tested.iter().flatten().map(|one| &*one.steps).collect();
    let told = names.sentence(&claim.told, &steps)?;
    if let Some((of, told)) = &claim.none {
        let told = names.sentence(told, &steps)?;
        if names.sum(of)?.is_some_and(|value| value.mean == 0.0) {
            return Ok(told.map(|told| (false, told)));
        }
    }
    let holds: Option<Vec<bool>> = tested.into_iter().map(|one| one.map(|one| one.holds)).collect();
    Ok(holds.zip(told).map(|(holds, told)| (holds.into_iter().all(|one| one), told)))
}
