//! The machines of Foglia, Giorgi and Prete (2001) as one sweep, and what the paper says beside
//! what this run gives: Figures 1 to 11, Table 5, and each finding of its text.
//!
//! Whether a finding is shown is computed from the run; nothing is assumed from the paper but the
//! numbers that it states, which are all in `stated.rs`. Nothing is simulated here.

mod figures;
mod findings;
#[cfg(test)]
mod golden;
mod plan;
mod stated;
mod tables;

use page::chart::Figure;
use page::document::Section;

use super::measured::Runs;
pub(super) use findings::{Finding, Verdict};
pub(super) use plan::Plan;

/// The figures in their order.
pub(super) fn figures(runs: &Runs) -> Vec<Figure> {
    figures::all(runs)
}

/// What the text says, and whether the run shows it.
pub(super) fn findings(runs: &Runs) -> Vec<Finding> {
    findings::all(runs)
}

/// Table 5, and the other numbers that are stated.
pub(super) fn sections(runs: &Runs) -> [Section; 2] {
    [tables::table_5(runs), tables::stated(runs)]
}
