//! Studies: many servers, workloads, domains and rates, in an order that is drawn, kept in a folder
//! that can be gone on with.

mod schedule;

pub use schedule::{Next, Schedule};
