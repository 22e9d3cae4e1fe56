//! Tests that need the process to themselves: they count its descriptors and use most of them.
//! Tests that can run beside others are in `tests/it`.

mod changes;
mod client;
mod cold_files;
mod direct;
mod storm;
mod swarm;
#[path = "../it/under_test.rs"]
mod under_test;
mod upload_application;
mod uploads;

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The lock that a test takes before anything else, also before it asks which engines are under
/// test, and holds while it runs. A test that has failed does not keep the others from running.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static OPEN: OnceLock<usize> = OnceLock::new();
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Threads of the test before may still close some; if it has failed, it may have left some.
    let before = *OPEN.get_or_init(|| Open::now().len());
    let _ = testkit::comes_true(|| Open::now().len() <= before);
    alone
}

/// The descriptors that the process has open, by number and what they lead to.
#[derive(Debug)]
struct Open(Vec<String>);

impl Open {
    fn now() -> Self {
        let links = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
        let read = |link: PathBuf| {
            let target = fs::read_link(&link).ok()?;
            Some(format!("{} {}", link.file_name()?.display(), target.display()))
        };
        Self(links.filter_map(read).collect())
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// Fails if there are more or fewer than there were, and says which. Files of caches are closed
    /// by a thread of their own, which is not waited for.
    #[track_caller]
    fn assert_as_before(&self, context: &str) {
        let is_as_before = testkit::comes_true(|| Self::now().len() == self.len());
        assert!(is_as_before, "{context}: {:?}, before {self:?}", Self::now());
    }
}
