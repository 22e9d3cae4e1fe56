//! For tests: workers that serve nothing in particular. Not for tests of caches or of limits.
//!
//! The tests in this crate and those beside it share this file, so it names other crates only.

use std::sync::Arc;

use file_cache::{Budget, Cache, PolicyKind};
use session::{AccessLog, Counters, Limits, Listings, Worker, WorkerParts};
use site::Site;
use site::host::HostSettings;

/// A site of one directory, whose files are hashed by no job: a request is one job, whoever has
/// written the files when.
pub(crate) fn site_of(root: impl Into<std::path::PathBuf>) -> Arc<Site> {
    let settings = HostSettings { etag_hash_bytes_max: 0, ..HostSettings::new(root.into()) };
    Arc::new(Site::new(vec![settings]).expect("one host is a site"))
}

/// Makes workers that share a small cache, each with a log, if any, and counters of its own.
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
            log,
            counters,
        })
    }
}
