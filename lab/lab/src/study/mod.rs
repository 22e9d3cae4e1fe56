//! Studies: many servers, workloads, testbeds and rates, in a randomised order, kept in a folder
//! and resumed from it.
//!
//! `experiment` reads an experiment's file, `definition` is what it says, `claims` what its source
//! found, `sizes` what differs in another size, `repetitions` how often it is measured, `budget`
//! whether there is time for it, `selection` which servers take part, `header` is what is written
//! down first. `schedule` says what to measure next, `stage` makes one run, `run` goes from the
//! first run to the last, `utilisation` finds the rate that makes a server busy to a given degree,
//! `ceiling` and `ceilings` measure the paths themselves. What the runs mean is the part of
//! `report`.

pub(crate) mod budget;
mod ceiling;
mod ceilings;
mod claims;
mod definition;
mod experiment;
mod header;
mod repetitions;
mod run;
mod schedule;
mod selection;
pub(crate) mod sizes;
mod stage;
pub(crate) mod utilisation;

pub(crate) use claims::check_bounds;
pub use claims::{Claim, Side};
pub use definition::{Definition, OfferedPlan};
pub use experiment::Experiment;
pub use run::{End, Study, Tally, describe, estimate_s, estimated_run_s, estimates_s};
pub use schedule::{Next, Schedule};
pub use selection::{Selection, check_testbeds};
pub use stage::{Cell, Participant, Stage};
