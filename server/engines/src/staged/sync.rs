//! The primitives that the queues are built on; the model in `tests/model.rs` uses loom's instead.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
