//! The number of directory listings at a time. Each holds an open directory and all its names until
//! the client has taken all but the last two pieces, and no budget of the cache counts them.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts the current listings of all workers that share it.
#[derive(Debug)]
pub struct Listings {
    places: Places,
    /// The number of workers that share it.
    workers: AtomicU64,
}

#[derive(Debug)]
enum Places {
    /// `taken` places are taken, of `max`.
    Counted { taken: AtomicUsize, max: usize },
    /// Each cell has the number of the worker that has taken the place, or 0: places of a process
    /// that was killed can be taken back.
    Held(Cells),
}

/// The memory of cells.
struct Cells(Box<dyn Deref<Target = [AtomicU64]> + Send + Sync>);

/// A place among the current listings; dropping it gives it back.
#[derive(Debug)]
pub struct ListingPermit {
    listings: Arc<Listings>,
    place: usize,
}

impl Listings {
    /// Creates places for at most `max` listings at a time, within one process.
    #[must_use]
    pub fn new(max: usize) -> Arc<Self> {
        Self::with_places(Places::Counted { taken: AtomicUsize::new(0), max })
    }

    /// Creates places for at most as many listings at a time as there are cells, which are 0 and
    /// may be in memory that processes share: for workers whose process is forked.
    #[must_use]
    pub fn shared(cells: impl Deref<Target = [AtomicU64]> + Send + Sync + 'static) -> Arc<Self> {
        Self::with_places(Places::Held(Cells(Box::new(cells))))
    }

    fn with_places(places: Places) -> Arc<Self> {
        Arc::new(Self { places, workers: AtomicU64::new(0) })
    }

    /// Returns the number of one more worker.
    pub(crate) fn add_worker(&self) -> u64 {
        self.workers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes a place without a worker, unless all are taken.
    #[must_use]
    pub fn begin_without_worker(self: &Arc<Self>) -> Option<ListingPermit> {
        self.begin(self.add_worker())
    }

    /// Takes a place for a worker, unless all are taken.
    pub(crate) fn begin(self: &Arc<Self>, worker: u64) -> Option<ListingPermit> {
        let place = match &self.places {
            Places::Counted { taken, max } => {
                let one_more = |n| (n < *max).then_some(n + 1);
                let begun = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
                begun.ok()?
            }
            Places::Held(cells) => cells.0.iter().position(|cell| {
                let taken = cell.compare_exchange(0, worker, Ordering::Relaxed, Ordering::Relaxed);
                taken.is_ok()
            })?,
        };
        Some(ListingPermit { listings: Arc::clone(self), place })
    }

    /// Takes back the places that an ended process had taken in the name of a worker. It has an
    /// effect only where cells hold the places.
    pub(crate) fn forget(&self, worker: u64) {
        let Places::Held(cells) = &self.places else { return };
        for cell in cells.0.iter() {
            // The exchange fails if another worker has the place, or the place is free.
            let _ = cell.compare_exchange(worker, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Drop for ListingPermit {
    fn drop(&mut self) {
        match &self.listings.places {
            Places::Counted { taken, .. } => drop(taken.fetch_sub(1, Ordering::Relaxed)),
            Places::Held(cells) => cells.0[self.place].store(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_were_agreed_and_no_more() {
        for listings in [Listings::new(2), Listings::shared(cells(2))] {
            let (one, other) = (listings.begin(1), listings.begin(1));
            assert!(one.is_some() && other.is_some() && listings.begin(2).is_none());
            drop(one);
            assert!(listings.begin(2).is_some());
        }
        assert!(Listings::new(0).begin(1).is_none());
    }

    #[test]
    fn what_a_process_that_is_gone_had_taken_is_taken_back() {
        let listings = Listings::shared(cells(3));
        let (first, second) = (listings.add_worker(), listings.add_worker());
        assert_ne!(first, second);
        let kept = listings.begin(second);
        for _ in 0..2 {
            std::mem::forget(listings.begin(first)); // as if a process was killed
        }
        assert!(listings.begin(second).is_none());
        listings.forget(first);
        let again = (listings.begin(second), listings.begin(second));
        assert!(again.0.is_some() && again.1.is_some() && listings.begin(second).is_none());
        drop(kept);
        assert!(listings.begin(first).is_some());
    }

    fn cells(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(0)).collect()
    }
}
