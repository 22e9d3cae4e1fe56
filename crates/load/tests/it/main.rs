//! Runs against servers with scripted behaviour: each failure lands in its own counter, times are
//! what arithmetic gives, connections are used as asked.
//!
//! Nothing here judges speed: the machine may be busy, so that only lower bounds of times are
//! exact.

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
