//! The time that a worker goes by: read when something may have happened, not at each look.

use session::{Tick, Worker};

/// Sets a worker's clock.
#[inline]
pub(crate) fn read_clock(worker: &mut Worker) {
    let (seconds, nanoseconds) = os::clock::unix_time();
    let unix_us = seconds.cast_unsigned() * 1_000_000 + u64::from(nanoseconds / 1000);
    worker.set_time(Tick(os::clock::now()), unix_us);
}
