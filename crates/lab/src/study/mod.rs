//! Studies: many servers, workloads, domains and rates, in an order that is drawn, kept in a folder
//! that can be gone on with.
//!
//! `experiment` reads an experiment's file, `definition` is what it says, `sizes` what differs in
//! another size, `schedule` says what to measure next, `stage` makes one run, `run` goes from the
//! first to the last, `utilisation` finds the rate that makes a server so busy, `ceiling` measures
//! the path itself. What the runs mean is `report`'s business.

mod ceiling;
mod definition;
mod experiment;
mod run;
mod schedule;
pub(crate) mod sizes;
mod stage;
pub(crate) mod utilisation;

pub use ceiling::{ceiling, reckoned_ceiling_s};
pub use definition::{Definition, OfferedPlan};
pub use experiment::Experiment;
pub use run::{End, Study, Tally, Watch, describe, estimate_s, minutes, reckoned_run_s};
pub use schedule::{Next, Schedule};
pub use stage::{Cell, Entrant, Stage};
