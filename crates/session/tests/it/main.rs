//! Tests of connections in memory and in virtual time.

mod allocations;
mod beyond;
mod closing;
mod deadlines;
mod failures;
mod files;
mod memory;
mod splits;
