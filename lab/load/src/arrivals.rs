//! When sessions are due: arrival processes, without a clock.
//!
//! Every process is a function of its arguments, so that several generators find the same times
//! and each takes its share of them.

use statistics::Generator;

use crate::schedule::Schedule;

/// The intended start times of all sessions of a run, in ascending order.
pub trait Arrivals: Send {
    /// The next start time, in microseconds from the start of the run; none after the last session.
    fn next_us(&mut self) -> Option<u64>;
}

impl<A: Arrivals + ?Sized> Arrivals for Box<A> {
    fn next_us(&mut self) -> Option<u64> {
        (**self).next_us()
    }
}

/// Evenly spaced sessions: session k is due when the schedule's count reaches k. Each time is
/// computed from k, so that rounding errors do not accumulate.
#[derive(Clone, Debug)]
pub struct Constant {
    schedule: Schedule,
    next: u64,
}

impl Constant {
    /// Arrivals at the rates of `schedule`.
    #[must_use]
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule, next: 0 }
    }
}

impl Arrivals for Constant {
    fn next_us(&mut self) -> Option<u64> {
        let time_us = self.schedule.time_us(self.next as f64)?;
        self.next += 1;
        Some(time_us.round() as u64)
    }
}

/// A Poisson process: users that act independently of each other. Under a changing rate it is the
/// inhomogeneous process: a process of rate 1, each of whose times is mapped back through the
/// schedule's count (Cinlar, Introduction to Stochastic Processes, 1975, section 4.7).
#[derive(Clone, Debug)]
pub struct Poisson {
    schedule: Schedule,
    generator: Generator,
    /// The time reached in the process of rate 1.
    sum: f64,
}

impl Poisson {
    /// A process at the rates of `schedule`. Equal seeds give equal times.
    #[must_use]
    pub fn new(schedule: Schedule, seed: u64) -> Self {
        Self { schedule, generator: Generator::new(seed), sum: 0.0 }
    }
}

impl Arrivals for Poisson {
    fn next_us(&mut self) -> Option<u64> {
        // 53 random bits, above 0, because 0 has no logarithm.
        let uniform = ((self.generator.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        self.sum -= libm::log(uniform);
        Some(self.schedule.time_us(self.sum)?.round() as u64)
    }
}

/// The times of a log, faster or slower.
#[derive(Clone, Debug)]
pub struct Trace {
    starts_us: std::vec::IntoIter<u64>,
    speed: f64,
}

impl Trace {
    /// The start times `starts_us`, which may be in any order, replayed `speed` times as fast.
    ///
    /// # Panics
    /// If the speed is not above 0.
    #[must_use]
    pub fn new(mut starts_us: Vec<u64>, speed: f64) -> Self {
        assert!(speed > 0.0 && speed.is_finite(), "a speed of {speed}");
        starts_us.sort_unstable();
        Self { starts_us: starts_us.into_iter(), speed }
    }
}

impl Arrivals for Trace {
    fn next_us(&mut self) -> Option<u64> {
        Some((self.starts_us.next()? as f64 / self.speed).round() as u64)
    }
}

/// One generator's part of all sessions: of the sessions, numbered from 0, each whose number leaves
/// the remainder `index` when divided by `of`.
#[derive(Clone, Debug)]
pub struct Share<A> {
    inner: A,
    index: u64,
    of: u64,
    next: u64,
}

impl<A: Arrivals> Share<A> {
    /// Share `index` of `of`.
    ///
    /// # Panics
    /// If there is no such share.
    #[must_use]
    pub fn new(inner: A, index: u64, of: u64) -> Self {
        assert!(index < of, "share {index} of {of}");
        Self { inner, index, of, next: 0 }
    }
}

/// Numbers of sessions and when they are due, in microseconds.
impl<A: Arrivals> Iterator for Share<A> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        loop {
            let time_us = self.inner.next_us()?;
            let number = self.next;
            self.next += 1;
            if number % self.of == self.index {
                return Some((number, time_us));
            }
        }
    }
}

#[cfg(test)]
mod tests;
