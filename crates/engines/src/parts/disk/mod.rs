//! What waits for the disk, and who does so.

pub(crate) mod blocking_work;
pub(crate) mod helpers;
pub(crate) mod in_memory;
