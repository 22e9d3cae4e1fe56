//! Parts that two or more engines share. No part depends on the engines that use it.

pub(crate) mod accept;
pub(crate) mod applications;
pub(crate) mod disk;
pub(crate) mod failures;
pub(crate) mod kernel_threads;
pub(crate) mod loops;
pub(crate) mod process_count;
