//! The cost of a cache of file metadata by itself: lists, locks, copies and references, levels, and
//! policies, after Radhakrishnan, "Comparative study of concurrent programming models" (2019),
//! Appendix A, and beyond it. There is no server and no load, but order, records, budgets and
//! reports are as in any study.
//!
//! A [`Design`] gives the factors that are varied; its [`Cell`]s are measured one by one by a
//! program of its own, `servers/cache-bench`: nothing here depends on a cache.

mod bench;
mod cell;
mod claim;
mod definition;
mod design;
mod header;
mod numbers;
mod run;

pub use bench::program;
pub use cell::{Cell, Part, Store};
pub use claim::{Claim, ClaimMeasure};
pub use definition::Definition;
pub use design::Design;
pub use numbers::{Numbers, Pair};
pub use run::{Study, estimate_s};
