//! What the workers of a server go by and what may change while they work. A worker takes the
//! newest revision over between two requests; a request that waits for something keeps the one that
//! it began with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use file_cache::Cache;
use site::Site;
use site::resource::Entry;

use crate::limits::Limits;

/// The hosts with their rules, and the bounds of connections.
#[derive(Clone)]
pub struct Revision {
    /// The hosts and their rules.
    pub site: Arc<Site>,
    /// The bounds of every connection.
    pub limits: Arc<Limits>,
}

/// Where the workers that share a cache find the newest revision.
pub struct Revisions {
    /// The number of the newest one.
    number: AtomicU64,
    newest: Mutex<Newest>,
}

/// The newest revision.
#[derive(Clone)]
pub(crate) struct Newest {
    pub(crate) number: u64,
    pub(crate) revision: Arc<Revision>,
    /// The cache for answers by it: no entry of another revision is in it.
    pub(crate) cache: Arc<Cache<Entry>>,
}

impl Revisions {
    /// Begins with a revision, and the cache for answers by it.
    #[must_use]
    pub fn new(revision: Arc<Revision>, cache: Arc<Cache<Entry>>) -> Arc<Self> {
        let newest = Mutex::new(Newest { number: 0, revision, cache });
        Arc::new(Self { number: AtomicU64::new(0), newest })
    }

    /// Has all workers go by another revision: whatever request a worker reads after this is
    /// answered by it.
    pub fn publish(&self, revision: Arc<Revision>, cache: Arc<Cache<Entry>>) {
        let mut newest = self.lock();
        *newest = Newest { number: newest.number + 1, revision, cache };
        self.number.store(newest.number, Ordering::Release);
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> Arc<Revision> {
        Arc::clone(&self.lock().revision)
    }

    /// The cache for answers by the newest revision.
    #[must_use]
    pub fn cache(&self) -> Arc<Cache<Entry>> {
        Arc::clone(&self.lock().cache)
    }

    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    pub(crate) fn newest(&self) -> Newest {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
