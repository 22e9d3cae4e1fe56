//! The locks that inboxes are built on; the model in `tests/model.rs` uses loom's instead.

pub(super) use std::sync::{Mutex, MutexGuard, PoisonError};
