//! Worker processes: a supervisor that starts and replaces them, and what runs in each.
//!
//! The server's own process opens the listeners and starts each worker process by exec of its own
//! program, never by fork alone: what a copied address space holds (locks, threads that are not
//! there) is no concern of anybody then. A worker process is given descriptors: its listeners, the
//! effective configuration as a text, the cells that it counts in, one end of a socket pair, on
//! which the supervisor tells it what to do and it says how it fares, and one of another, on which
//! it sends what is to be written: lines of the access log, and what it reports. When the first
//! socket closes, the supervisor has died, and the worker process drains and ends.

mod ledger;
mod place;
mod supervisor;
mod uplink;
mod worker;

pub(crate) use ledger::{Ledger, PlaceLedger};
pub(crate) use place::WorkerCommand;
pub(crate) use supervisor::Supervisor;
#[cfg(test)]
pub(crate) use uplink::MESSAGE_BYTES_MAX;
pub(crate) use uplink::Uplink;
pub use worker::run_worker;

/// What a worker process says when it serves.
const READY: u8 = b'r';

/// What a worker process says before the reason why it ends, in one line.
const FAILED: u8 = b'f';
