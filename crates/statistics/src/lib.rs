//! Quantiles and confidence intervals.

#![forbid(unsafe_code)]
