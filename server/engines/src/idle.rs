//! Workers for tests: of a small site, with a small cache. Not for tests of caches or of limits.
//!
//! Unit tests in this crate and integration tests beside it share this file, so it names other
//! crates only.

use std::sync::Arc;

use file_cache::{Budget, Cache, PolicyKind};
use session::{AccessLog, Counters, Limits, Listings, Worker, WorkerParts};
use site::Site;
use site::host::HostSettings;

/// A site of one directory, whose files are never hashed: each request is one job, whenever the
/// files were written.
pub(crate) fn directory_site(root: impl Into<std::path::PathBuf>) -> Arc<Site> {
    let settings = HostSettings { etag_hash_bytes_max: 0, ..HostSettings::new(root.into()) };
    Arc::new(Site::new(vec![settings]).expect("one host is a site"))
}

/// The parts of a worker with a small cache, default limits and no log.
pub(crate) fn parts(site: &Arc<Site>) -> WorkerParts {
    let budget = Budget { bytes: 1 << 20, descriptors: 8, entries: 8 };
    WorkerParts {
        site: Arc::clone(site),
        limits: Arc::default(),
        listings: Listings::new(1),
        cache: Arc::new(Cache::new(PolicyKind::Lru, budget, 1)),
        first_level_slots_max: 4,
        revalidate_us: u64::MAX,
        reads_files: false,
        log: None,
        counters: Arc::default(),
    }
}

/// Returns a function that makes workers that share a small cache, each with its own log, if any,
/// and its own counters.
pub(crate) fn maker(
    site: Arc<Site>,
    limits: Limits,
) -> impl Fn(Option<Box<dyn AccessLog>>, Arc<Counters>) -> Worker + Send + Sync {
    let (cache, limits) = (parts(&site).cache, Arc::new(limits));
    move |log, counters| {
        let (cache, limits) = (Arc::clone(&cache), Arc::clone(&limits));
        Worker::new(WorkerParts { cache, limits, log, counters, ..parts(&site) })
    }
}
