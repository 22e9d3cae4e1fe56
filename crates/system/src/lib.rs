//! What only the lab needs of the kernel and of the processor, one file each, and the unsafe code
//! for it: hardware counters, memory bandwidth, network namespaces.
//!
//! As in `os`, functions are safe and hold no policy. What a server or a load generator needs, too,
//! is in `os`.

pub mod counters;
pub mod memory_bandwidth;
pub mod namespaces;
