//! File sets on disk: written in parallel, checked, repaired.
//!
//! Which files a set has and what is in them is `workload`'s business.

#![forbid(unsafe_code)]
