//! The load generator: arrivals, clients, what they measured, how it is reported.
//!
//! It drives any HTTP/1.1 server. What is asked for comes from `workload`; this crate decides when
//! it is asked, over which connection, and what is learned from the replies.

#![forbid(unsafe_code)]

pub mod arrivals;
pub mod backlog;
mod client;
pub mod error_kind;
pub mod expected;
pub mod filling;
pub mod find_limit;
mod idle;
pub mod interrupt;
pub mod measures;
pub mod merge;
mod neighbours;
pub mod options;
pub mod outcome;
pub mod plan;
pub mod report;
pub mod run;
pub mod schedule;
mod starts;
pub mod target;
pub mod void;
mod who_serves;
