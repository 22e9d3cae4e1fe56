//! What the source of a study of the cache found, beside what was measured: each claim is
//! confirmed, contradicted or not decided by the ratios of all cells that compare its stores.

use statistics::{Estimate, values_min};

use super::measure::Measure;
use super::number::{counted, ratio};
use super::summary::Summary;
use crate::cache_study::{Claim, ClaimMeasure};
use crate::report::findings::{Finding, Head, labelled};

/// Of this part of the ratios the intervals must lie beyond the bounds, at a confidence raised
/// accordingly, to contradict a claim (Rüger 1978): of many some do so by chance.
const BEYOND_SHARE: f64 = 2.0 / 3.0;

/// What the numbers say of each claim.
pub(super) fn judge(claims: &[Claim], summary: &Summary) -> Vec<Finding> {
    let told = |claim: &Claim| {
        let text = format!(" ({}): {}.", bounds(claim), judged(claim, summary));
        Finding::with_subject(&labelled(&claim.text), Head::Expected, &text)
    };
    claims.iter().map(told).collect()
}

fn measure(claim: &Claim) -> Measure {
    match claim.measure {
        ClaimMeasure::Cpu => Measure::Cpu,
        ClaimMeasure::Get => Measure::GetMedian,
        ClaimMeasure::Set => Measure::SetMedian,
        ClaimMeasure::Eviction => Measure::EvictMedian,
    }
}

/// What is claimed, as numbers.
fn bounds(claim: &Claim) -> String {
    let bounds = match (claim.at_least, claim.at_most) {
        (Some(least), Some(most)) => format!("{} to {}", ratio(least), ratio(most)),
        (Some(least), None) => format!("more than {}", ratio(least)),
        (None, most) => format!("less than {}", ratio(most.unwrap_or(1.0))),
    };
    format!("{} {bounds} times that of {}", measure(claim).title(), claim.than)
}

/// The judgement, and the figures that decide.
fn judged(claim: &Claim, summary: &Summary) -> String {
    let least = values_min(summary.confidence);
    let ratios = ratios(claim, summary, summary.confidence);
    let raised = 1.0 - (1.0 - summary.confidence) * BEYOND_SHARE;
    let beyond = self::ratios(claim, summary, raised);
    let beyond = beyond.iter().filter(|(_, one)| is_beyond(claim, one)).count();
    let within = ratios.iter().filter(|(_, one)| is_within(claim, one)).count();
    let all = ratios.len();
    let medians = || ratios.iter().map(|(_, one)| one.median);
    let (low, high) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
    let figures = format!(
        "of {} {within} within, {beyond} beyond; {} to {} times",
        counted(all, "ratio"),
        ratio(low),
        ratio(high)
    );
    match () {
        () if all == 0 => "not decided: nothing that it compares was measured".into(),
        () if ratios.iter().any(|(blocks, _)| *blocks < least) => {
            format!("not decided: {figures} (fewer than {least} blocks: see --repetitions)")
        }
        () if within == all => format!("confirmed: {figures}"),
        () if beyond as f64 >= BEYOND_SHARE * all as f64 => format!("contradicted: {figures}"),
        () => format!("not decided: {figures}"),
    }
}

/// The ratios of all cells in which the claim's stores are compared, each with its blocks.
fn ratios(claim: &Claim, summary: &Summary, confidence: f64) -> Vec<(usize, Estimate)> {
    let rows = summary.rows_of_part(claim.part);
    let rows = rows.filter(|row| claim.stores.contains(&row.cell.store));
    let of = |row| summary.against(row, claim.than, measure(claim), confidence);
    rows.filter_map(|row| Some((row.blocks.len(), of(row)?))).collect()
}

fn is_within(claim: &Claim, Estimate { interval, .. }: &Estimate) -> bool {
    claim.at_least.is_none_or(|least| interval.low > least)
        && claim.at_most.is_none_or(|most| interval.high < most)
}

fn is_beyond(claim: &Claim, Estimate { interval, .. }: &Estimate) -> bool {
    claim.at_least.is_some_and(|least| interval.high < least)
        || claim.at_most.is_some_and(|most| interval.low > most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_study::{Cell, Numbers, Part, Store};
    use crate::report::cache::summary::Row;

    /// Six blocks of a store that takes these times as long as 100 ns.
    fn row(store: Store, alpha: f64, times: f64, blocks: u32) -> Row {
        let cell = Cell { part: Part::Locks, store, alpha, ..Cell::default() };
        let numbers = |block: u32| Numbers {
            cpu_ns: (100.0 + f64::from(block)) * times,
            ..Numbers::default()
        };
        Row { cell, blocks: (0..blocks).map(|block| (block, numbers(block))).collect() }
    }

    #[test]
    fn a_claim_is_judged_by_all_cells_that_it_compares() {
        let check = |times: [f64; 3], blocks, expected: &str| {
            let alphas = [0.5, 0.8, 1.0];
            let rows = alphas.into_iter().zip(times).flat_map(|(alpha, times)| {
                let own = row(Store::LockFree, alpha, times, blocks);
                [row(Store::BucketMutexes, alpha, 1.0, blocks), own]
            });
            let summary = Summary { rows: rows.collect(), confidence: 0.95, ..Summary::default() };
            let claim = Claim {
                text: "It pays.".into(),
                part: Part::Locks,
                stores: vec![Store::LockFree],
                than: Store::BucketMutexes,
                measure: ClaimMeasure::Cpu,
                at_least: Some(1.0),
                at_most: None,
            };
            let told = &judge(&[claim], &summary)[0].text;
            let head = "Expected: It pays (CPU, ns/request more than 1.00 times that of map, a \
                        mutex for each bucket): ";
            assert_eq!(*told, format!("{head}{expected}."));
        };
        check([1.2, 1.3, 1.5], 6, "confirmed: of 3 ratios 3 within, 0 beyond; 1.20 to 1.50 times");
        check(
            [1.2, 0.8, 0.7],
            6,
            "contradicted: of 3 ratios 1 within, 2 beyond; 0.70 to 1.20 times",
        );
        check(
            [1.2, 1.3, 0.7],
            6,
            "not decided: of 3 ratios 2 within, 1 beyond; 0.70 to 1.30 times",
        );
        let few = "not decided: of 3 ratios 3 within, 0 beyond; 1.20 to 1.50 times (fewer than 6 \
                   blocks: see --repetitions)";
        check([1.2, 1.3, 1.5], 3, few);
        let nothing = "not decided: nothing that it compares was measured";
        check([1.0; 3], 0, nothing);
    }
}
