//! Worker processes: a supervisor that starts and replaces them, and what runs in each.
//!
//! The server's own process opens the listeners and starts each worker process by exec of its own
//! program, never by fork alone: a new program does not depend on what a copied address space holds
//! (locks, threads that do not exist any more). A worker process is given descriptors: its
//! listeners, the effective configuration as a text, the cells that it counts in, and one end each
//! of three socket pairs. On the first the supervisor sends orders and the process reports its
//! state; on the second the process sends what is to be written: lines of the access log, and
//! reports; on the third connections come, and go when the process leaves (`passage.rs`). When the
//! first socket closes, the supervisor has died, and the worker process drains and ends.

mod ledger;
mod place;
mod supervisor;
mod uplink;
mod worker;

pub(crate) use ledger::{Ledger, PlaceLedger};
pub(crate) use place::WorkerCommand;
pub(crate) use supervisor::{Supervisor, Travels};
#[cfg(test)]
pub(crate) use uplink::MESSAGE_BYTES_MAX;
pub(crate) use uplink::Uplink;
pub use worker::run_worker;

/// The order to leave in favour of others, who take the connections.
const LEAVE_TO_OTHERS: u8 = b'o';

/// The order to go on by another configuration, whose text comes with it as a descriptor.
const CHANGE: u8 = b'c';

/// The message of a worker process that goes by another configuration, after that order.
const CHANGED: u8 = b'c';

/// The message of a worker process that is ready to serve.
const READY: u8 = b'r';

/// The message of a worker process that accepts no more, after the order to leave.
const LEFT: u8 = b'l';

/// The message of a worker process that ends, followed by the reason, in one line.
const FAILED: u8 = b'f';
