//! Quantiles, confidence intervals and tests of fit.
//!
//! What the bench, the load generator, the lab and the simulator need to say how sure they are,
//! and no more: no regression. Everything is a pure function of its arguments;
//! resampling is seeded, so a report computed twice from the same numbers says the same.

#![forbid(unsafe_code)]

mod bootstrap;
mod chi_square;
mod gamma;
mod kolmogorov_smirnov;
mod quantile;
mod random;

pub use bootstrap::{Estimate, Interval, bootstrap_median, paired_ratio};
pub use chi_square::{ChiSquare, chi_square_p_value, chi_square_test};
pub use gamma::{regularised_gamma, regularised_gamma_above};
pub use kolmogorov_smirnov::{KolmogorovSmirnov, kolmogorov_smirnov};
pub use quantile::{median, quantile};
pub use random::Generator;
