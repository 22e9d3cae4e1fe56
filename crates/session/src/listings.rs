//! How many directory listings may be under way. Each holds an open directory and all its names
//! until the client has taken all but the last of it, and no budget of the cache counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the listings under way of all workers that share it.
#[derive(Debug)]
pub struct Listings {
    under_way: AtomicUsize,
    max: usize,
}

/// A place among the listings under way; dropping it gives it back.
#[derive(Debug)]
pub struct ListingPermit(Arc<Listings>);

impl Listings {
    /// At most `max` at a time.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { under_way: AtomicUsize::new(0), max })
    }

    /// A place for one more, unless all are taken.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Option<ListingPermit> {
        let one_more = |n| (n < self.max).then_some(n + 1);
        let begun = self.under_way.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        begun.ok().map(|_| ListingPermit(Arc::clone(self)))
    }
}

impl Drop for ListingPermit {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_were_agreed_and_no_more() {
        let listings = Listings::new(2);
        let (one, other) = (listings.begin(), listings.begin());
        assert!(one.is_some() && other.is_some() && listings.begin().is_none());
        drop(one);
        assert!(listings.begin().is_some());
        assert!(Listings::new(0).begin().is_none());
    }
}
