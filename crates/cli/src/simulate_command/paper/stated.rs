//! The numbers that the paper states, each with the place where it stands.
//!
//! P. Foglia, R. Giorgi, C. A. Prete: Boosting the performance of three-tier web servers deploying
//! SMP architecture, 2001. Only what its text, captions and tables say; nothing is read off a
//! drawing. "More than 90 %" of the bus with 8 processors (section 5) is not here, because its
//! cache is not told and Table 5 has another number.

use crate::simulate_command::lists::Scheduler;
use crate::simulate_command::spec::Spec;

/// What a number is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Global system power.
    Gsp,
    /// Percent of the time for which the bus is busy.
    Bus,
    /// Percent of the bus's work that is for coherence.
    CoherenceOfBus,
    /// Processors to which this kind of machine scales; the spec's `cpus` mean nothing.
    ScalesTo,
    /// GSP there.
    GspThere,
}

/// A number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stated {
    pub(super) place: &'static str,
    pub(super) spec: Spec,
    pub(super) quantity: Quantity,
    pub(super) value: f64,
}

/// A row of Table 5.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) spec: Spec,
    pub(super) gsp: f64,
    pub(super) bus_percent: f64,
    pub(super) scales_to: u32,
    /// "Estimated", with a tilde.
    pub(super) gsp_there: f64,
}

const fn row(spec: Spec, gsp: f64, bus_percent: f64, scales_to: u32, gsp_there: f64) -> Row {
    Row { spec, gsp, bus_percent, scales_to, gsp_there }
}

const fn stated(place: &'static str, spec: Spec, quantity: Quantity, value: f64) -> Stated {
    Stated { place, spec, quantity, value }
}

const SMALLEST: Spec = Spec { size_kib: 128, ways: 1, ..Spec::FIRST };
const LARGEST: Spec = Spec { ways: 4, ..Spec::FIRST };
const EIGHT: Spec = Spec { cpus: 8, ..Spec::FIRST };
const WIDE: Spec = Spec { block_bytes: 256, ..Spec::SECOND };
const AFFINE: Spec = Spec { scheduler: Scheduler::Affinity, ..Spec::SECOND };
const BEST: Spec = Spec { cpus: 16, protocol: "pscr", ..AFFINE };

/// Table 5.
pub(super) const ROWS: [Row; 5] = [
    row(Spec::FIRST, 3.3, 38.0, 9, 6.0),
    row(EIGHT, 5.6, 71.0, 9, 6.0),
    row(WIDE, 7.0, 43.0, 18, 14.0),
    row(AFFINE, 7.4, 32.0, 14, 11.0),
    row(BEST, 14.0, 55.0, 20, 16.0),
];

const FIGURE_1: &str = "caption of Fig. 1";
const FIGURE_1_TEXT: &str = "section 5, on Fig. 1";
const FIGURES_3_4: &str = "section 5, on Figs. 3 and 4";
const BLOCKS: &str = "section 5, on block sizes";
const AFFINITY: &str = "section 5, on Fig. 5";
const COMBINED: &str = "section 5, last but one paragraph";

/// What stands elsewhere than in Table 5.
pub(super) const STATED: [Stated; 20] = [
    stated(FIGURE_1, SMALLEST, Quantity::Gsp, 2.2),
    stated(FIGURE_1, LARGEST, Quantity::Gsp, 3.4),
    stated(FIGURE_1_TEXT, SMALLEST, Quantity::ScalesTo, 4.0),
    stated(FIGURE_1_TEXT, LARGEST, Quantity::ScalesTo, 9.0),
    stated(FIGURES_3_4, SMALLEST, Quantity::CoherenceOfBus, 5.0),
    stated(FIGURES_3_4, LARGEST, Quantity::CoherenceOfBus, 20.0),
    stated(BLOCKS, EIGHT, Quantity::Gsp, 5.6),
    stated(BLOCKS, EIGHT, Quantity::Bus, 71.0),
    stated(BLOCKS, WIDE, Quantity::Gsp, 7.0),
    stated(BLOCKS, WIDE, Quantity::Bus, 43.0),
    stated(BLOCKS, WIDE, Quantity::ScalesTo, 18.0),
    stated(BLOCKS, WIDE, Quantity::GspThere, 14.5),
    stated(AFFINITY, Spec::SECOND, Quantity::Gsp, 6.9),
    stated(AFFINITY, AFFINE, Quantity::Gsp, 7.4),
    stated(AFFINITY, Spec::SECOND, Quantity::Bus, 47.0),
    stated(AFFINITY, AFFINE, Quantity::Bus, 32.0),
    stated(AFFINITY, AFFINE, Quantity::ScalesTo, 14.0),
    stated(AFFINITY, AFFINE, Quantity::GspThere, 11.3),
    stated(COMBINED, BEST, Quantity::ScalesTo, 20.0),
    stated(COMBINED, BEST, Quantity::GspThere, 16.0),
];

impl Quantity {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gsp => "GSP",
            Self::Bus => "bus utilisation, %",
            Self::CoherenceOfBus => "coherence's part of the bus's work, %",
            Self::ScalesTo => "scales to, CPUs",
            Self::GspThere => "GSP there",
        }
    }
}

/// What the paper says of a machine: in its text, else in Table 5.
pub(super) fn value(spec: &Spec, quantity: Quantity) -> Option<f64> {
    let told = STATED.iter().find(|one| one.spec == *spec && one.quantity == quantity);
    let row = || ROWS.iter().find(|row| row.spec == *spec);
    let of_row = || match quantity {
        Quantity::Gsp => row().map(|row| row.gsp),
        Quantity::Bus => row().map(|row| row.bus_percent),
        _ => None,
    };
    told.map(|one| one.value).or_else(of_row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_goes_before_the_table() {
        assert_eq!(value(&Spec::FIRST, Quantity::Gsp), Some(3.3));
        assert_eq!(value(&WIDE, Quantity::GspThere), Some(14.5));
        assert_eq!(value(&BEST, Quantity::Bus), Some(55.0));
        assert_eq!(value(&SMALLEST, Quantity::Bus), None);
    }
}
