//! Facilities of the kernel and of the processor that only the lab needs, one file each, and the
//! unsafe code for them: hardware counters, memory bandwidth, network namespaces.
//!
//! As in `os`, functions are safe and hold no policy. Facilities that a server or a load generator
//! needs, too, are in `os`.

pub mod counters;
pub mod memory_bandwidth;
pub mod namespaces;
