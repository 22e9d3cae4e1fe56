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

/// The newest revision, of all workers of a process.
pub struct Published {
    /// The number of the newest one that this process knows.
    number: AtomicU64,
    newest: Mutex<(u64, Arc<Revision>)>,
    source: Option<RevisionSource>,
}

/// Where a process finds revisions that another publishes, from which it was forked.
pub struct RevisionSource {
    /// The number of the newest one, which all of them see.
    pub number: &'static AtomicU64,
    /// Reads the newest one. It does not return if that is not possible: what does not go by it may
    /// not serve.
    pub read: Box<dyn Fn() -> Revision + Send + Sync>,
}

/// Where the workers that share a cache find the newest revision.
pub struct Revisions {
    published: Arc<Published>,
    /// The cache for answers by the newest one.
    cache: Mutex<Arc<Cache<Entry>>>,
}

/// The newest revision, as a worker takes it over.
pub(crate) struct Newest {
    pub(crate) number: u64,
    pub(crate) revision: Arc<Revision>,
    pub(crate) cache: Arc<Cache<Entry>>,
}

impl Published {
    /// Begins with a revision. If processes are to be forked from this one, they find others at the
    /// `source`.
    #[must_use]
    pub fn new(revision: Revision, source: Option<RevisionSource>) -> Arc<Self> {
        let newest = Mutex::new((0, Arc::new(revision)));
        Arc::new(Self { number: AtomicU64::new(0), newest, source })
    }

    /// Has all workers go by another revision: whatever request a worker reads after this is
    /// answered by it.
    pub fn publish(&self, revision: Revision) {
        let mut newest = lock(&self.newest);
        *newest = (newest.0 + 1, Arc::new(revision));
        self.cell().store(newest.0, Ordering::Release);
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> Arc<Revision> {
        self.newest().1
    }

    fn cell(&self) -> &AtomicU64 {
        match &self.source {
            Some(source) => source.number,
            None => &self.number,
        }
    }

    fn newest(&self) -> (u64, Arc<Revision>) {
        let mut newest = lock(&self.newest);
        if let Some(source) = &self.source {
            let number = source.number.load(Ordering::Acquire);
            if number != newest.0 {
                *newest = (number, Arc::new((source.read)()));
            }
        }
        newest.clone()
    }
}

impl Revisions {
    /// Begins with the cache for answers by the newest revision.
    #[must_use]
    pub fn new(published: &Arc<Published>, cache: Arc<Cache<Entry>>) -> Arc<Self> {
        Arc::new(Self { published: Arc::clone(published), cache: Mutex::new(cache) })
    }

    /// Has workers that take another revision over use this cache, in which there is nothing yet.
    pub fn set_cache(&self, cache: Arc<Cache<Entry>>) {
        *lock(&self.cache) = cache;
    }

    /// The newest revision.
    #[must_use]
    pub fn revision(&self) -> Arc<Revision> {
        self.published.revision()
    }

    /// The cache for answers by the newest revision.
    #[must_use]
    pub fn cache(&self) -> Arc<Cache<Entry>> {
        Arc::clone(&lock(&self.cache))
    }

    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.published.cell().load(Ordering::Acquire)
    }

    pub(crate) fn newest(&self) -> Newest {
        let (number, revision) = self.published.newest();
        Newest { number, revision, cache: self.cache() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
