//! Quantiles, confidence intervals and tests of fit.
//!
//! The statistics that the bench, the load generator, the lab and the simulator need for stating
//! their uncertainty, and no more: no regression. Everything is a pure function of its arguments: a
//! report computed twice from the same numbers has the same contents.

#![forbid(unsafe_code)]

mod anytime;
mod beta;
mod chi_square;
mod equivalence;
mod gamma;
mod holm;
mod homogeneity;
mod kolmogorov_smirnov;
mod order;
mod quantile;
mod random;
mod student;
mod warm_up;

pub use anytime::anytime_interval;
pub use beta::regularised_beta;
pub use chi_square::{ChiSquare, chi_square_p_value, chi_square_test};
pub use equivalence::{Verdict, equivalence_p_value, log_ratios, ratio_of_logs, verdict};
pub use gamma::{regularised_gamma, regularised_gamma_above};
pub use holm::holm;
pub use homogeneity::homogeneity_p_value;
pub use kolmogorov_smirnov::{KolmogorovSmirnov, kolmogorov_smirnov};
pub use order::{Estimate, Interval, median_estimate, paired_ratio, values_min};
pub use quantile::{median, quantile};
pub use random::Generator;
pub use student::{Mean, Welch, student_above, student_quantile, welch_test};
pub use warm_up::warm_up_end;
