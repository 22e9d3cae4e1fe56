//! Tests of connections in memory and in virtual time.

mod allocations;
mod applications;
mod chain;
mod closing;
mod deadlines;
mod failures;
mod files;
mod grammar;
mod local_redirects;
mod logging;
mod memory;
mod moving;
mod named_files;
mod packed;
mod replies;
mod shared_level;
mod splits;
mod streams;
mod upgrades;
