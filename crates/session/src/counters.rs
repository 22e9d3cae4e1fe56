//! Counters: what one worker has done, readable from any thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// One counter. Only its worker writes it, so an increment is a load and a store.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the worker that owns the counter may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Takes `n` off. Only the worker that owns the counter may call it.
    #[inline]
    pub fn subtract(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(n), Ordering::Relaxed);
    }

    /// The value, which may be a moment old.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
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
    /// Responses finished or broken off.
    pub requests: Counter,
    /// Body bytes sent.
    pub body_bytes: Counter,
    /// Responses by status class, 1xx to 5xx.
    pub responses: [Counter; 5],
    /// Requests that found their entry in the cache.
    pub cache_hits: Counter,
    /// Requests that had to look at the file system.
    pub cache_misses: Counter,
    /// Responses broken off because the file became shorter or could not be read.
    pub bodies_cut_short: Counter,
}
