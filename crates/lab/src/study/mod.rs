//! Studies: many servers, workloads, testbeds and rates, in a randomised order, kept in a folder
//! that can be gone on with.
//!
//! `experiment` reads an experiment's file, `definition` is what it says, `sizes` what differs in
//! another size, `budget` whether that has time for it, `selection` who takes part, `header` is what is
//! written down first. `schedule` says what to measure next, `stage` makes one run, `run` goes from
//! the first to the last, `utilisation` finds the rate that makes a server so busy, `ceiling` and
//! `ceilings` measure the paths themselves. What the runs mean is `report`'s business.

pub(crate) mod budget;
mod ceiling;
mod ceilings;
mod definition;
mod experiment;
mod header;
mod run;
mod schedule;
mod selection;
pub(crate) mod sizes;
mod stage;
pub(crate) mod utilisation;

pub use definition::{Definition, OfferedPlan};
pub use experiment::Experiment;
pub use run::{End, Study, Tally, describe, estimate_s, minutes, reckoned_run_s};
pub use schedule::{Next, Schedule};
pub use selection::{Selection, check_testbeds};
pub use stage::{Cell, Participant, Stage};
