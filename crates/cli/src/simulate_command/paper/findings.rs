//! What a paper's text finds, and whether this run shows it: each with the numbers that decide.
//!
//! Two values differ only if their intervals over the seeds do not explain it: a difference within
//! them is a tie, and shows nothing.

#[cfg(test)]
pub(super) mod tests;

use super::data::{Claim, Paper};
use super::expression::{Found, Names};
use crate::simulate_command::measured::Runs;

/// Fewer have no spread, which is what a difference is judged by.
const SEEDS_MIN: usize = 2;

/// A sentence of the paper's and what became of it here.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::simulate_command) struct Finding {
    pub(in crate::simulate_command) claim: String,
    /// Where the paper has it.
    pub(in crate::simulate_command) place: String,
    pub(in crate::simulate_command) verdict: Verdict,
    /// The numbers that decide, or why there are none.
    pub(in crate::simulate_command) told: String,
}

/// What became of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::simulate_command) enum Verdict {
    /// The numbers are as it says.
    Shown,
    /// The numbers are not as it says, or their intervals leave it open.
    NotShown,
    /// There are no intervals: with one seed any two numbers differ.
    Undecided,
}

/// All, in the paper's order.
pub(super) fn all(paper: &Paper, runs: &Runs) -> Result<Vec<Finding>, String> {
    let names = Names::of(paper, runs);
    let found = |claim| {
        let judged = judge(claim, names);
        let judged = judged.map_err(|why| format!("finding {:?}: {why}", claim.claim))?;
        Ok(finding(claim, runs, judged))
    };
    paper.findings.iter().map(found).collect()
}

fn finding(claim: &Claim, runs: &Runs, judged: Option<(bool, String)>) -> Finding {
    let (verdict, told) = match judged {
        None => {
            let why = "the machines that it needs have more processors than the trace has tasks";
            (Verdict::NotShown, why.into())
        }
        Some((_, told)) if runs.seeds < SEEDS_MIN => (Verdict::Undecided, told),
        Some((true, told)) => (Verdict::Shown, told),
        Some((false, told)) => (Verdict::NotShown, told),
    };
    Finding { claim: claim.claim.clone(), place: claim.place.clone(), verdict, told }
}

/// Whether it is shown, and by which numbers; nothing where machines for it are missing.
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
