//! Studies of the cache of file metadata by itself (Radhakrishnan 2019, Appendix A): no server and
//! no load, but the same order, records, budgets and reports as any study.
//!
//! What is measured is the business of the crate `cache-study`, which nothing else uses.

mod definition;
mod header;
mod run;

pub use ::cache_study::{Cell, Design, Numbers, Pair, Part, Store, clock_ns};
pub use definition::Definition;
pub use run::{Study, estimate_s};
