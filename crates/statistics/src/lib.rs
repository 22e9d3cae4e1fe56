//! Quantiles and confidence intervals.
//!
//! What the bench, the load generator, the lab and the simulator need to say how sure they are,
//! and no more: no distributions, no regression. Everything is a pure function of its arguments;
//! resampling is seeded, so a report computed twice from the same numbers says the same.

#![forbid(unsafe_code)]

mod bootstrap;
mod quantile;
mod random;

pub use bootstrap::{Estimate, Interval, bootstrap_median, paired_ratio};
pub use quantile::{median, quantile};
pub use random::Generator;
