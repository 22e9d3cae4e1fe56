//! The time that a worker goes by: read when something may have happened, not each time it is used.

use session::{Tick, Worker};

/// How long to wait for the earliest of these moments, in milliseconds; none is for ever.
#[inline]
pub(crate) fn timeout_ms<const N: usize>(now: Tick, moments: [Option<Tick>; N]) -> Option<u32> {
    let next = moments.into_iter().flatten().min()?;
    Some(u32::try_from(next.since(now).div_ceil(1000)).unwrap_or(u32::MAX))
}

/// Sets a worker's clock.
#[inline]
pub(crate) fn read_clock(worker: &mut Worker) {
    let (seconds, nanoseconds) = os::clock::unix_time();
    let unix_us = seconds.cast_unsigned() * 1_000_000 + u64::from(nanoseconds / 1000);
    worker.set_time(Tick(os::clock::now()), unix_us);
}
