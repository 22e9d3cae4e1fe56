//! The conclusions that the numbers of a study of the cache support, and those that they do not, in
//! words.

use page::document::Fact;
use page::number::counted;
use statistics::values_min;

use super::claims;
use super::measure::Measure;
use super::number::{self, figure, ratio};
use super::summary::Summary;
use crate::cache_study::{Cell, Part, Store};
use crate::observe::{Disturbed, INTERFERENCE_REPORTED};
use crate::record::{CacheRun, Opened};
use crate::report::findings::{self, Finding, Head};
use crate::void::Void;

/// Makes all findings, in the order of reading.
pub(super) fn findings(opened: &Opened, summary: &Summary) -> Vec<Finding> {
    let mut findings: Vec<Finding> = match summary.claims.is_empty() {
        true => findings::unjudged(&opened.header).into_iter().collect(),
        false => findings::expectation(&opened.header, "").into_iter().collect(),
    };
    findings.extend(claims::judge(&summary.claims, summary));
    findings.extend(Part::ALL.into_iter().filter_map(|part| cheapest(summary, part)));
    let blocks = summary.rows.iter().map(|row| row.blocks.len()).min().unwrap_or(0);
    let least = values_min(summary.confidence);
    if blocks >= least {
        findings.extend(Part::ALL.into_iter().flat_map(|part| compared(summary, part)));
    } else {
        let text = format!(
            "Some cells rest on {blocks} blocks. Below {least} an interval is the whole range, \
             and still too narrow: no difference of times is called certain."
        );
        findings.push(Finding::new(Head::NotSupported, text));
    }
    findings.extend(best_hits(summary, Part::Policies));
    findings.extend(best_hits(summary, Part::Crawler));
    findings.extend(missing(opened, summary));
    findings.extend(void(&opened.cache));
    findings.extend(disturbed(&opened.cache));
    findings.extend(findings::machine_findings(opened));
    let damage = opened.damage.iter().map(|line| format!("The records are damaged: {line}."));
    findings.extend(damage.map(|text| Finding::new(Head::NotObserved, text)));
    findings.sort_by_key(|finding| finding.head);
    findings
}

/// Compares each store of a part with its first: in how many cells it takes more, less, or neither.
fn compared(summary: &Summary, part: Part) -> Vec<Finding> {
    let measures = Measure::compared(part).iter();
    let pairs = measures.flat_map(|&measure| part.stores()[1..].iter().map(move |s| (measure, *s)));
    pairs.filter_map(|(measure, store)| one_compared(summary, part, store, measure)).collect()
}

fn one_compared(summary: &Summary, part: Part, store: Store, measure: Measure) -> Option<Finding> {
    let rows = summary.rows_of_part(part).filter(|row| row.cell.store == store);
    let ratios: Vec<_> = rows.filter_map(|row| summary.against_first(row, measure)).collect();
    if ratios.is_empty() {
        return None;
    }
    let more = ratios.iter().filter(|ratio| ratio.interval.low > 1.0).count();
    let less = ratios.iter().filter(|ratio| ratio.interval.high < 1.0).count();
    let (all, ties) = (ratios.len(), ratios.len() - more - less);
    let medians = || ratios.iter().map(|ratio| ratio.median);
    let least = medians().fold(f64::INFINITY, f64::min);
    let most = medians().fold(0.0, f64::max);
    let head = if ties == all { Head::NotSupported } else { Head::Supported };
    let text = format!(
        ", {}: {store} against {}, {all} cells: it takes more in {more}, less in {less}, \
         neither in {ties}; {} to {} times.",
        measure.title(),
        part.stores()[0],
        ratio(least),
        ratio(most)
    );
    Some(Finding::with_subject(part.title(), head, &text))
}

/// Names the store of a part with the lowest median of processor time in most cells.
fn cheapest(summary: &Summary, part: Part) -> Option<Finding> {
    let (store, won, all) = most_often_cheapest(summary, part)?;
    let text = format!(": {store} has the lowest median CPU time in {won} of {all} conditions.");
    Some(Finding::with_subject(part.title(), Head::Verdict, &text))
}

/// The store with the lowest median of processor time in most conditions, the number of these, and
/// the number of all conditions. Ties count for the first of the stores.
fn most_often_cheapest(summary: &Summary, part: Part) -> Option<(Store, usize, usize)> {
    let mut conditions: Vec<Vec<(f64, Store)>> = Vec::new();
    let mut known: Vec<&Cell> = Vec::new();
    for row in summary.rows_of_part(part) {
        let Some(cpu) = summary.estimate(row, Measure::Cpu) else { continue };
        let same = |other: &&Cell| Cell { store: row.cell.store, ..(*other).clone() } == row.cell;
        let index = known.iter().position(same).unwrap_or_else(|| {
            known.push(&row.cell);
            conditions.push(Vec::new());
            known.len() - 1
        });
        conditions[index].push((cpu.median, row.cell.store));
    }
    conditions.retain(|stores| stores.len() > 1);
    let cheapest = |stores: &Vec<(f64, Store)>| {
        stores.iter().min_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, store)| *store)
    };
    let won: Vec<Store> = conditions.iter().filter_map(cheapest).collect();
    let count = |store: Store| won.iter().filter(|winner| **winner == store).count();
    let stores = part.stores().iter().copied();
    let (count, store) = stores.map(|store| (count(store), store)).rev().max_by_key(|one| one.0)?;
    (count > 0).then_some((store, count, conditions.len()))
}

/// The headline figures.
pub(super) fn facts(opened: &Opened, summary: &Summary) -> Vec<Fact> {
    let cells = counted(summary.rows.len(), "cell");
    let mut facts = vec![Fact::new("Measurements", opened.cache.len().to_string(), cells)];
    let widest = |(part, measure): (Part, Measure)| {
        let rows = summary.rows_of_part(part);
        let ratios = rows.filter_map(|row| Some((summary.against_first(row, measure)?, row)));
        let (most, row) = ratios.max_by(|(a, _), (b, _)| a.median.total_cmp(&b.median))?;
        let note = format!(
            "{} against {}, at worst: {}",
            row.cell.store,
            part.stores()[0],
            number::estimate(&most, ratio)
        );
        let name = format!("{}, {}", part.title(), measure.title());
        Some(Fact::new(&name, format!("{} times", ratio(most.median)), note))
    };
    let parts =
        Part::ALL.into_iter().filter(|part| !matches!(part, Part::Policies | Part::Crawler));
    facts.extend(parts.map(|part| (part, Measure::Cpu)).filter_map(widest));
    facts
}

/// Reports which policy hits most often. One thread makes the same requests in the same order for
/// each policy, so these numbers have no spread.
fn best_hits(summary: &Summary, part: Part) -> Option<Finding> {
    let first = part.stores()[0];
    let mut told = Vec::new();
    for &store in &part.stores()[1..] {
        let rows = summary.rows_of_part(part).filter(|row| row.cell.store == store);
        let gains = rows.filter_map(|row| {
            let of = |row| Some(summary.estimate(row, Measure::Hits)?.median);
            Some(of(row)? - of(summary.first_of(row)?)?)
        });
        let gains: Vec<f64> = gains.collect();
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !gains.is_empty() {
            told.push(format!("{store} {} to {}", signed(least), signed(most)));
        }
    }
    let text =
        format!(": hits against those of {first}, in percentage points: {}.", told.join("; "));
    (!told.is_empty()).then(|| Finding::with_subject(part.title(), Head::Supported, &text))
}

fn signed(points: f64) -> String {
    if points > 0.0 { format!("+{}", figure(points)) } else { figure(points) }
}

/// Reports cells of the design that have fewer measurements than requested.
fn missing(opened: &Opened, summary: &Summary) -> Option<Finding> {
    let asked = opened.header.repetitions as usize;
    let all = summary.design.as_ref()?.cells().len();
    let whole = summary.rows.iter().filter(|row| row.blocks.len() >= asked).count();
    let text = format!(
        "{} of {all} cells have fewer measurements than the {asked} that were asked for.",
        all - whole.min(all)
    );
    (whole < all).then(|| Finding::new(Head::NotSupported, text))
}

/// Reports measurements that take no part.
fn void(measured: &[CacheRun]) -> Option<Finding> {
    let reasons: Vec<&Void> = measured.iter().filter_map(|run| run.void.first()).collect();
    let text = format!(
        "{} of the {} are void and take no part, the first because of {}",
        reasons.len(),
        counted(measured.len(), "measurement"),
        reasons.first()?
    );
    Some(Finding::new(Head::NotSupported, text + "."))
}

/// Reports that other processes ran during measurements that count.
fn disturbed(measured: &[CacheRun]) -> Option<Finding> {
    let measured: Vec<&CacheRun> = measured.iter().filter(|run| run.void.is_empty()).collect();
    let shares = measured.iter().filter_map(|run| run.numbers.others_share);
    let reported: Vec<f64> = shares.filter(|share| *share > INTERFERENCE_REPORTED).collect();
    let worst = reported.iter().copied().reduce(f64::max)?;
    let text = format!(
        "{} of the {} were disturbed: at worst {}. Differences by the clock may be the effect; \
         CPU time is less open to it.",
        reported.len(),
        counted(measured.len(), "measurement"),
        Disturbed::SharedCpus.describe(worst)
    );
    Some(Finding::new(Head::NotSupported, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_study::Numbers;

    #[test]
    fn what_is_void_is_told_and_takes_no_part() {
        let of = |share: f64, void: bool| {
            let (disturbed, bound) = (Disturbed::SharedCpus, 0.05);
            let why = Void::Interference { disturbed, share, bound };
            CacheRun {
                numbers: Numbers { others_share: Some(share), ..Numbers::default() },
                void: void.then_some(why).into_iter().collect(),
                ..CacheRun::default()
            }
        };
        let runs = [of(0.4, true), of(0.03, false), of(0.001, false)];
        let told = void(&runs).expect("one is void").text;
        let expected = "1 of the 3 measurements are void and take no part, the first because of \
                        interference: other processes used 40 % of the CPUs, more than the 5 % \
                        allowed.";
        assert_eq!(told, expected);
        let of_rest = disturbed(&runs).expect("one is told").text;
        assert!(of_rest.starts_with("1 of the 2 measurements were"), "{of_rest}");
        assert!(void(&runs[1..]).is_none());
        let rows = |runs: &[CacheRun]| {
            Summary::new(&Opened { cache: runs.to_vec(), ..Opened::default() }).rows.len()
        };
        assert_eq!((rows(&runs[..1]), rows(&runs)), (0, 1), "no claim is judged by what is void");
    }

    /// Records of earlier versions do not say what others had.
    #[test]
    fn what_others_had_of_the_cpus_is_a_finding() {
        let told = |shares: &[Option<f64>]| {
            let runs = shares.iter().map(|&others_share| CacheRun {
                numbers: Numbers { others_share, ..Numbers::default() },
                ..CacheRun::default()
            });
            let found = disturbed(&runs.collect::<Vec<_>>());
            found.map(|finding| (finding.head, finding.text))
        };
        let text = "2 of the 4 measurements were disturbed: at worst other processes used 3 % of \
                    the CPUs. Differences by the clock may be the effect; CPU time is less open \
                    to it.";
        let shares = [Some(0.015), Some(0.03), Some(0.01), None];
        assert_eq!(told(&shares), Some((Head::NotSupported, text.to_owned())));
        assert_eq!(told(&[Some(0.01), None]), None);
        let earlier: Numbers = serde_json::from_str("{\"cpu_ns\": 7.5}").expect("it is read");
        assert_eq!(earlier, Numbers { cpu_ns: 7.5, ..Numbers::default() });
    }
}
