//! The findings of a paper's text, and the verdict of this run on each of them, with the numbers
//! that decide or what leaves it open.
//!
//! Two values differ only if their intervals over the seeds do not explain the difference: a
//! difference within the intervals is a tie, and decides nothing.

#[cfg(test)]
pub(super) mod tests;

use super::data::{Claim, Paper};
use super::expression::{Names, Tested};
use super::verdict::Verdict;
use crate::simulate_command::measured::Runs;

/// The least number of seeds: one alone has no spread, by which differences are judged.
pub(in crate::simulate_command) const SEEDS_MIN: usize = 2;

/// Why a finding whose machines were left out is not decided.
const LEFT_OUT: &str = "the machines that it needs have more processors than the trace has tasks";

/// A sentence of the paper, and what the run says of it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::simulate_command) struct Finding {
    pub(in crate::simulate_command) claim: String,
    /// The place of the sentence in the paper.
    pub(in crate::simulate_command) place: String,
    pub(in crate::simulate_command) verdict: Verdict,
    /// The numbers that decide, or what leaves it open.
    pub(in crate::simulate_command) numbers: String,
}

/// All findings, in the paper's order.
pub(super) fn all(paper: &Paper, runs: &Runs) -> Result<Vec<Finding>, String> {
    let names = Names::new(paper, runs);
    let found = |claim: &Claim| {
        let judged = judge(claim, names, runs);
        let (verdict, numbers) =
            judged.map_err(|why| format!("finding {:?}: {why}", claim.claim))?;
        Ok(Finding { claim: claim.claim.clone(), place: claim.place.clone(), verdict, numbers })
    };
    paper.findings.iter().map(found).collect()
}

/// The verdict on a claim, and the numbers that decide or what leaves it open.
fn judge(claim: &Claim, names: Names<'_>, runs: &Runs) -> Result<(Verdict, String), String> {
    if claim.confirmed_if.is_empty() {
        return Err("confirmed_if: say what confirms it".into());
    }
    let tested = claim.confirmed_if.iter().map(|test| names.test(test));
    let tested: Vec<Option<Tested>> = tested.collect::<Result<_, _>>()?;
    let steps: String = tested.iter().flatten().map(|one| &*one.steps).collect();
    let numbers = names.sentence(&claim.told, &steps)?;
    if let Some((of, told)) = &claim.none {
        let told = names.sentence(told, &steps)?;
        if names.sum(of)?.is_some_and(|value| value.mean == 0.0) {
            return Ok((Verdict::NotDecided, told));
        }
    }
    // The zeros of a kernel that was not simulated say nothing about one.
    if !runs.kernel && claim.rests_on_kernel() {
        return Ok((Verdict::NotDecided, numbers));
    }
    Ok(weigh(&tested, runs.seeds, numbers))
}

/// The verdict of all tests, some of which could not be made. One that is contradicted decides.
fn weigh(tested: &[Option<Tested>], seeds: usize, numbers: String) -> (Verdict, String) {
    let made = || tested.iter().flatten();
    let is_contradicted = made().any(|one| one.verdict == Verdict::Contradicted);
    let mut open = made().filter(|one| one.verdict == Verdict::NotDecided);
    match open.next() {
        _ if seeds >= SEEDS_MIN && is_contradicted => (Verdict::Contradicted, numbers),
        _ if made().count() < tested.len() => (Verdict::NotDecided, LEFT_OUT.into()),
        _ if seeds < SEEDS_MIN => {
            let numbers = format!("one seed tells nothing of the spread: {numbers}");
            (Verdict::NotDecided, numbers)
        }
        Some(first) => {
            let part = if 1 + open.count() < tested.len() { "in part " } else { "" };
            (Verdict::NotDecided, format!("{part}{}: {numbers}", first.doubt))
        }
        None => (Verdict::Confirmed, numbers),
    }
}
