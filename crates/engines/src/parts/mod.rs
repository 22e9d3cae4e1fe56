//! What two or more engines are made of. Each part knows nothing of the engines that use it.

pub(crate) mod accept;
pub(crate) mod disk;
pub(crate) mod kernel_threads;
pub(crate) mod loops;
pub(crate) mod process_count;
