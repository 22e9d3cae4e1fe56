//! Counters of one worker, which any thread can read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One counter. Only its worker writes it, so an increment is a load and a store.
#[derive(Debug)]
pub struct Counter(Cell);

/// The memory that a counter's number is in.
#[derive(Debug)]
enum Cell {
    Own(AtomicU64),
    /// In memory that outlives the worker's process.
    Shared(&'static AtomicU64),
}

impl Counter {
    /// Creates a counter that continues from the number in `cell`.
    #[must_use]
    pub fn shared(cell: &'static AtomicU64) -> Self {
        Self(Cell::Shared(cell))
    }

    /// Adds `n`. Only the worker that owns the counter may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        let cell = self.cell();
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Adds `n`; for counters with several writers, all of which must use this method.
    pub fn add_together(&self, n: u64) {
        self.cell().fetch_add(n, Ordering::Relaxed);
    }

    /// Subtracts `n`. Only the worker that owns the counter may call it.
    #[inline]
    pub fn subtract(&self, n: u64) {
        let cell = self.cell();
        cell.store(cell.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// Sets the counter to 0. Only when there is no other writer.
    pub fn reset(&self) {
        self.cell().store(0, Ordering::Relaxed);
    }

    /// The value, which may be a moment old.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.cell().load(Ordering::Relaxed)
    }

    #[inline]
    fn cell(&self) -> &AtomicU64 {
        match &self.0 {
            Cell::Own(cell) => cell,
            Cell::Shared(cell) => cell,
        }
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self(Cell::Own(AtomicU64::new(0)))
    }
}

/// The counters of one worker. Aligned so that two workers never share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Connections accepted.
    pub connections_accepted: Counter,
    /// Connections open now.
    pub connections_open: Counter,
    /// Idle connections closed to make room for new ones.
    pub connections_evicted: Counter,
    /// Connections closed because a deadline passed.
    pub connections_expired: Counter,
    /// Times that accepting paused for want of descriptors or memory.
    pub accept_pauses: Counter,
    /// Responses that were finished or broken off.
    pub requests: Counter,
    /// Those of them that the access log has taken.
    pub logged: Counter,
    /// Body bytes sent.
    pub body_bytes: Counter,
    /// Responses by status class, 1xx to 5xx.
    pub responses: [Counter; 5],
    /// Requests that found their entry in the cache.
    pub cache_hits: Counter,
    /// Requests that had to look at the file system.
    pub cache_misses: Counter,
    /// Jobs that did not run on a thread that serves connections, but in helpers or in threads that
    /// may block. 0 in engines that hand out no jobs.
    pub jobs_handed_out: Counter,
    /// Sends that would have waited for the disk, and were left to threads or processes that may
    /// wait for it, or held back until those had fetched the bytes.
    pub cold_sends: Counter,
    /// Responses that were broken off because the file became shorter or could not be read.
    pub bodies_cut_short: Counter,
    /// Connections whose protocol was switched and that are open now, by the number of the
    /// application. All applications from the last of these numbers on are counted together.
    pub tunnels_open: [Counter; Self::TUNNELS],
}

impl Counters {
    /// The number of cells that [`Counters::shared`] takes.
    pub const CELLS: usize = 32;

    /// The number of counters of tunnels.
    pub const TUNNELS: usize = 8;

    /// Creates counters whose numbers are in `cells`, and continue from there.
    ///
    /// # Panics
    /// If there are fewer than [`Counters::CELLS`].
    #[must_use]
    pub fn shared(cells: &'static [AtomicU64]) -> Self {
        let mut cells = cells.iter().map(Counter::shared);
        let mut next = || cells.next().expect("there are enough cells");
        Self {
            connections_accepted: next(),
            connections_open: next(),
            connections_evicted: next(),
            connections_expired: next(),
            accept_pauses: next(),
            requests: next(),
            logged: next(),
            body_bytes: next(),
            responses: std::array::from_fn(|_| next()),
            cache_hits: next(),
            cache_misses: next(),
            jobs_handed_out: next(),
            cold_sends: next(),
            bodies_cut_short: next(),
            tunnels_open: std::array::from_fn(|_| next()),
        }
    }

    /// Adds the numbers of `other`, whose worker has ended. Only for one thread at a time.
    pub fn absorb(&self, other: &Self) {
        let pairs = self.all().zip(other.all());
        pairs.for_each(|(own, other)| own.add(other.get()));
    }

    /// All counters, in the order of their cells.
    fn all(&self) -> impl Iterator<Item = &Counter> {
        let connections = [
            &self.connections_accepted,
            &self.connections_open,
            &self.connections_evicted,
            &self.connections_expired,
            &self.accept_pauses,
        ];
        let requests = [&self.requests, &self.logged, &self.body_bytes];
        let rest = [
            &self.cache_hits,
            &self.cache_misses,
            &self.jobs_handed_out,
            &self.cold_sends,
            &self.bodies_cut_short,
        ];
        let requests = requests.into_iter().chain(&self.responses);
        connections.into_iter().chain(requests).chain(rest).chain(&self.tunnels_open)
    }

    /// Takes back the counts of connections that are open: their process has ended, and may have
    /// been killed.
    pub fn forget_connections(&self) {
        self.connections_open.reset();
        self.tunnels_open.iter().for_each(Counter::reset);
    }
}

/// A connection whose protocol was switched, which is counted for as long as this is there.
pub(crate) struct CountedTunnel {
    counters: Arc<Counters>,
    application: usize,
}

impl CountedTunnel {
    pub(crate) fn new(counters: &Arc<Counters>, application: usize) -> Self {
        let counted = Self { counters: Arc::clone(counters), application };
        counted.counter().add_together(1);
        counted
    }

    fn counter(&self) -> &Counter {
        &self.counters.tunnels_open[self.application.min(Counters::TUNNELS - 1)]
    }
}

impl Drop for CountedTunnel {
    fn drop(&mut self) {
        // Its connection may have come to another worker.
        self.counter().add_together(1_u64.wrapping_neg());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_counters_go_on_where_others_ended() {
        let cells: &'static [AtomicU64] =
            Vec::leak((0..Counters::CELLS).map(|_| AtomicU64::new(0)).collect());
        let one = Counters::shared(cells);
        one.requests.add(3);
        one.bodies_cut_short.add(1);
        let next = Counters::shared(cells);
        next.requests.add_together(2);
        next.connections_open.add(2);
        next.connections_open.subtract(1);
        assert_eq!((one.requests.get(), one.bodies_cut_short.get()), (5, 1));
        assert_eq!(one.connections_open.get(), 1);
        next.forget_connections();
        assert_eq!(one.connections_open.get(), 0);
    }

    #[test]
    fn tunnels_are_counted_by_application_as_long_as_they_are_there() {
        let counters = Arc::new(Counters::default());
        let counts = || counters.tunnels_open.each_ref().map(Counter::get);
        let open = |application| CountedTunnel::new(&counters, application);
        let tunnels = [open(1), open(1), open(7), open(100)];
        assert_eq!(counts(), [0, 2, 0, 0, 0, 0, 0, 2]);
        drop(tunnels);
        assert_eq!(counts(), [0; Counters::TUNNELS]);
    }
}
