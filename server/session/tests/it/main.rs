//! Tests of connections in memory and in virtual time.

mod allocations;
mod applications;
mod closing;
mod deadlines;
mod failures;
mod files;
mod memory;
mod replies;
mod shared_level;
mod splits;
mod streams;
mod upgrades;
