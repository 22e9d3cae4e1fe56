//! How locks are taken. A thread that panics with a lock does not lock the others out: the data
//! behind a lock are never inconsistent at a point where code can panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
