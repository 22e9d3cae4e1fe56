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

/// Returns a function that makes workers that share a small cache, each with its own log, if any,
/// and its own counters.
pub(crate) fn maker(
    site: Arc<Site>,
    limits: Limits,
) -> impl Fn(Option<Box<dyn AccessLog>>, Arc<Counters>) -> Worker + Send + Sync {
    let budget = Budget { bytes: 1 << 20, descriptors: 8, entries: 8 };
    let cache = Arc::new(Cache::new(PolicyKind::Lru, budget, 1));
    let limits = Arc::new(limits);
    move |log, counters| {
        Worker::new(WorkerParts {
            site: Arc::clone(&site),
            limits: Arc::clone(&limits),
            listings: Listings::new(1),
            cache: Arc::clone(&cache),
            first_level_slots_max: 4,
            revalidate_us: u64::MAX,
            reads_files: false,
            log,
            counters,
        })
    }
}
