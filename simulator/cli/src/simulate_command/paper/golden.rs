//! Compares the page of a paper, for planted outcomes, with `golden.txt`: each finding and table as
//! text, each figure by a digest of its drawing and its table, and the findings of many outcomes
//! that are drawn by one digest.
//!
//! To change the page, put the output of the test into `golden.txt`.

use std::fmt::Write;

use page::document;

use super::findings::tests::{as_in_the_paper, disagree};
use crate::simulate_command::measured::Runs;

const GOLDEN: &str = include_str!("golden.txt");

/// Outcomes as in the paper; with wide intervals; with one seed, few tasks and no kernel; with
/// zeros only.
fn planted() -> [(&'static str, Runs); 4] {
    let paper = as_in_the_paper(28);
    let mut wide = as_in_the_paper(16);
    for (spec, one) in &mut wide.by_spec {
        disagree(one);
        one.gsp.half = f64::from(spec.cpus) * 0.05;
        one.bus_percent.half = f64::from(spec.ways);
    }
    let few = Runs { kernel: false, seeds: 1, ..as_in_the_paper(8) };
    let mut nothing = as_in_the_paper(28);
    nothing.by_spec.values_mut().for_each(|one| *one = Default::default());
    [("paper", paper), ("wide", wide), ("few", few), ("nothing", nothing)]
}

/// Outcomes as in the paper with drawn deviations, whose size depends on the seed.
fn drawn(seed: u32) -> Runs {
    let mut runs = as_in_the_paper(28);
    let mut state = u64::from(seed);
    let apart = f64::from(seed % 4 + 1) * 0.05;
    let mut factor = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1.0 + apart * ((state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0)
    };
    for one in runs.by_spec.values_mut() {
        for value in [&mut one.gsp, &mut one.bus_percent, &mut one.cpu_percent] {
            value.mean *= factor();
            value.half = value.mean * (factor() - 1.0).abs() * 0.2;
        }
        one.rates = vec![one.rates[0]; 3];
        for seed in &mut one.rates {
            seed.misses.iter_mut().flatten().for_each(|rate| *rate *= factor());
            seed.coherence.iter_mut().flatten().for_each(|rate| *rate *= factor());
            seed.coherence_of_bus *= factor();
        }
    }
    runs
}

/// A digest by FNV-1a, which detects accidental differences.
fn digest(text: &str) -> String {
    let add = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, add))
}

#[test]
fn the_page_is_as_it_was() {
    let paper = super::shipped();
    let mut told = String::new();
    for (name, runs) in planted() {
        for one in super::findings(&paper, &runs) {
            let super::Finding { claim, place, verdict, numbers } = one;
            writeln!(told, "{name}: {claim} ({place}): {verdict:?}. {numbers}").expect("memory");
        }
        for section in super::sections(&paper, &runs).into_iter().flatten() {
            let rows = [&section.table.heads].into_iter().chain(&section.table.rows);
            for row in rows {
                writeln!(told, "{name}: {}: {}", section.id, row.join(" | ")).expect("memory");
            }
        }
        for figure in super::figures(&paper, &runs) {
            let id = figure.id.clone();
            let drawing = digest(&document::figures("", &[figure]));
            writeln!(told, "{name}: {id}: {drawing}").expect("memory");
        }
    }
    let found = |seed| super::findings(&paper, &drawn(seed));
    let line = |one: super::Finding| {
        let super::Finding { claim, place, verdict, numbers } = one;
        format!("{claim}, {place}, {verdict:?}, {numbers}\n")
    };
    let drawn: String = (0..100).flat_map(found).map(line).collect();
    writeln!(told, "drawn: {}", digest(&drawn)).expect("memory");
    assert!(told == GOLDEN, "it is now:\n{told}");
}
