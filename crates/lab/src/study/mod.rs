//! Studies: many servers, workloads, domains and rates, in an order that is drawn, kept in a folder
//! that can be gone on with.
//!
//! `experiment` reads an experiment's file, `definition` is what it says, `sizes` what differs in
//! another size, `budget` whether that has time for it, `cast` who takes part, `header` is what is
//! written down first. `schedule` says what to measure next, `stage` makes one run, `run` goes from
//! the first to the last, `utilisation` finds the rate that makes a server so busy, `ceiling` and
//! `ceilings` measure the paths themselves. What the runs mean is `report`'s business.

pub(crate) mod budget;
mod cast;
mod ceiling;
mod ceilings;
mod definition;
mod experiment;
mod header;
mod run;
mod schedule;
pub(crate) mod sizes;
mod stage;
pub(crate) mod utilisation;

pub use cast::{Cast, check_domains};
pub use definition::{Definition, OfferedPlan};
pub use experiment::Experiment;
pub use run::{End, Study, Tally, describe, estimate_s, minutes, reckoned_run_s};
pub use schedule::{Next, Schedule};
pub use stage::{Cell, Entrant, Stage};
