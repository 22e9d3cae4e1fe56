//! Runs against servers with scripted behaviour: each failure is counted in its own counter, times
//! equal the ones that arithmetic gives, and connections are used as the plan says.
//!
//! No test judges speed: the machine may be busy, so that only lower bounds of times are exact.

mod bursts;
mod connections;
mod coordinated_omission;
mod failures;
mod idle;
mod models;
mod others;
mod own_failures;
mod replies;
mod setup;
mod times;
