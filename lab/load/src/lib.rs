//! The load generator: arrivals, clients, their measurements, and the reports of these.
//!
//! It drives any HTTP/1.1 server. The requests come from `workload`; this crate decides when each
//! is sent and over which connection, and measures the replies.

#![forbid(unsafe_code)]

pub mod arguments;
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
pub mod milestone;
mod neighbours;
pub mod options;
pub mod outcome;
pub mod plan;
pub mod report;
pub mod run;
pub mod run_error;
pub mod schedule;
mod server_processes;
mod starts;
pub mod target;
pub mod void;
