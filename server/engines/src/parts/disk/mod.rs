//! Work that waits for the disk, and the threads that do it.

pub(crate) mod blocking_work;
pub(crate) mod helpers;
pub(crate) mod in_memory;
pub(crate) mod work_queue;
