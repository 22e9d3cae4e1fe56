//! What the queues are made of; for their model `tests/model.rs` has loom's in their place.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
