//! When sessions are due: rate schedules and arrival processes, without a clock.

/// The intended start times of all sessions of a run, in ascending order.
pub trait Arrivals: Send {
    /// The next one, in microseconds from the start of the run; none after the last.
    fn next_us(&mut self) -> Option<u64>;
}
