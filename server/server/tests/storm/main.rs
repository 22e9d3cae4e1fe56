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

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The lock that a test holds while it runs. A test that has failed does not keep the others from
/// running.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static DESCRIPTORS: OnceLock<usize> = OnceLock::new();
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Threads of the test before may still close some; if it has failed, it may have left some.
    let before = *DESCRIPTORS.get_or_init(os::limits::open_descriptors);
    let _ = testkit::comes_true(|| os::limits::open_descriptors() <= before);
    alone
}
