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
    /// The number of the newest one that this process knows.
    number: AtomicU64,
    newest: Mutex<Newest>,
    elsewhere: Option<Elsewhere>,
}

/// Where a process finds revisions that another publishes, from which it was forked.
pub struct Elsewhere {
    /// The number of the newest one, which all of them see.
    pub number: &'static AtomicU64,
    /// Reads the newest one. It does not return if that is not possible: what does not go by it may
    /// not serve.
    pub read: Box<dyn Fn() -> Revision + Send + Sync>,
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
        Self::found_elsewhere(revision, cache, None)
    }

    /// As [`Self::new`], for processes that will be forked from this one.
    #[must_use]
    pub fn found_elsewhere(
        revision: Arc<Revision>,
        cache: Arc<Cache<Entry>>,
        elsewhere: Option<Elsewhere>,
    ) -> Arc<Self> {
        let newest = Mutex::new(Newest { number: 0, revision, cache });
        Arc::new(Self { number: AtomicU64::new(0), newest, elsewhere })
    }

    /// Has all workers go by another revision, the one with this `number`, counted from 1: whatever
    /// request a worker reads after this is answered by it.
    pub fn publish(&self, number: u64, revision: Arc<Revision>, cache: Arc<Cache<Entry>>) {
        *self.lock() = Newest { number, revision, cache };
        self.cell().store(number, Ordering::Release);
    }

    fn cell(&self) -> &AtomicU64 {
        match &self.elsewhere {
            Some(elsewhere) => elsewhere.number,
            None => &self.number,
        }
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
        self.cell().load(Ordering::Acquire)
    }

    pub(crate) fn newest(&self) -> Newest {
        let mut newest = self.lock();
        if let Some(elsewhere) = &self.elsewhere {
            let number = elsewhere.number.load(Ordering::Acquire);
            if number != newest.number {
                newest.revision = Arc::new((elsewhere.read)());
                newest.number = number;
            }
        }
        newest.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
