//! What the paper's text finds, and whether this run shows it: each with the numbers that decide.
//!
//! A judge is given the run alone. Two values differ only if their intervals over the seeds do not
//! explain it: a difference within them is a tie, and shows nothing.

mod affinity;
mod blocks;
mod caches;
mod protocols;
#[cfg(test)]
pub(super) mod tests;

use page::number;

use crate::simulate_command::lists::Scheduler;
use crate::simulate_command::measured::{Measured, Runs, Value};
use crate::simulate_command::spec::Spec;

/// Kibibytes of a cache: Figures 1 to 7.
const SIZES_KIB: [u64; 5] = [128, 256, 512, 1024, 2048];
/// Figures 1 to 4.
const WAYS: [u32; 3] = [1, 2, 4];
/// Section 5, where it speaks of blocks.
const BLOCKS: [u64; 4] = [32, 64, 128, 256];
/// Figures 8 to 11.
const CPUS: [u32; 3] = [8, 12, 16];
const PROTOCOLS: [&str; 3] = ["mesi", "amsd", "pscr"];
const SCHEDULERS: [Scheduler; 2] = [Scheduler::Random, Scheduler::Affinity];

/// Fewer have no spread, which is what a difference is judged by.
const SEEDS_MIN: usize = 2;

/// A sentence of the paper's and what became of it here.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::simulate_command) struct Finding {
    pub(in crate::simulate_command) claim: &'static str,
    /// Where the paper has it.
    pub(in crate::simulate_command) place: &'static str,
    pub(in crate::simulate_command) verdict: Verdict,
    /// The numbers that decide, or why there are none.
    pub(in crate::simulate_command) told: String,
}

/// What became of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::simulate_command) enum Verdict {
    /// The numbers are as it says.
    Shown,
    /// They are not, or their intervals leave it open.
    NotShown,
    /// There are no intervals: with one seed any two numbers differ.
    Undecided,
}

/// Whether it is shown, and by which numbers; nothing where machines for it are missing.
type Judged = Option<(bool, String)>;

/// A finding and who judges it.
struct Claim {
    claim: &'static str,
    place: &'static str,
    judge: fn(&Runs) -> Judged,
}

const fn claim(claim: &'static str, place: &'static str, judge: fn(&Runs) -> Judged) -> Claim {
    Claim { claim, place, judge }
}

/// All, in the paper's order.
pub(super) fn all(runs: &Runs) -> Vec<Finding> {
    let claims = [caches::CLAIMS, blocks::CLAIMS, affinity::CLAIMS, protocols::CLAIMS];
    claims.into_iter().flatten().map(|one| found(one, runs)).collect()
}

fn found(claim: &Claim, runs: &Runs) -> Finding {
    let (verdict, told) = match (claim.judge)(runs) {
        None => {
            let why = "the machines that it needs have more processors than the trace has tasks";
            (Verdict::NotShown, why.into())
        }
        Some((_, told)) if runs.seeds < SEEDS_MIN => (Verdict::Undecided, told),
        Some((true, told)) => (Verdict::Shown, told),
        Some((false, told)) => (Verdict::NotShown, told),
    };
    Finding { claim: claim.claim, place: claim.place, verdict, told }
}

/// What is compared along a chain of machines.
type Of = fn(&Measured) -> Value;

fn gsp(one: &Measured) -> Value {
    one.gsp
}

fn bus(one: &Measured) -> Value {
    one.bus_percent
}

/// Along each chain the value never falls, and at the end of each it is higher than at its
/// beginning. Told: where it falls.
fn rises(runs: &Runs, chains: &[Vec<Spec>], of: Of) -> Option<(bool, String)> {
    let mut falls = Vec::new();
    for chain in chains {
        let values: Vec<Value> =
            chain.iter().map(|spec| runs.get(spec).map(of)).collect::<Option<_>>()?;
        for (specs, pair) in chain.windows(2).zip(values.windows(2)) {
            if pair[0].exceeds(pair[1]) {
                falls.push(format!("{} to {}", specs[0].cache(), specs[1].cache()));
            }
        }
        if let (Some(first), Some(last)) = (values.first(), values.last())
            && !last.exceeds(*first)
        {
            let [from, to] = [chain.first(), chain.last()].map(|spec| spec.map(Spec::cache));
            falls.push(format!(
                "{} to {} as a whole",
                from.unwrap_or_default(),
                to.unwrap_or_default()
            ));
        }
    }
    Some(match falls.is_empty() {
        true => (true, "at each step".into()),
        false => (false, format!("not from {}", falls.join("; "))),
    })
}

/// The same downwards.
fn falls(runs: &Runs, chains: &[Vec<Spec>], of: Of) -> Option<(bool, String)> {
    let turned: Vec<Vec<Spec>> =
        chains.iter().map(|chain| chain.iter().rev().copied().collect()).collect();
    rises(runs, &turned, of)
}

/// Within so many percent of each other, and their intervals leave no doubt of it.
fn about_as_many(one: Value, other: Value, percent: f64) -> bool {
    let apart = one.less(other);
    (apart.mean.abs() + apart.half) * 100.0 <= percent * f64::max(one.mean, other.mean)
}

/// `GSP 3.3 (4 CPUs), 5.6 (8 CPUs)`: the numbers that decide.
fn both(name: &str, one: (&str, Value), other: (&str, Value)) -> String {
    let [first, second] = [one.1, other.1].map(shown);
    format!("{name} {first} ({}), {second} ({})", one.0, other.0)
}

/// A mean with as many digits as it needs, and half of its interval if it has one.
fn shown(value: Value) -> String {
    let mean = number::figure(value.mean);
    match value.half > 0.0 {
        true => format!("{mean} ±{}", number::figure(value.half)),
        false => mean,
    }
}
