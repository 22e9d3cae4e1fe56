//! The cost of a cache of file metadata by itself: lists, locks, copies and references, levels, and
//! policies, after Radhakrishnan, "Comparative study of concurrent programming models" (2019),
//! Appendix A, and beyond it. There is no server and no load, but order, records, budgets and
//! reports are as in any study.
//!
//! A [`Design`] gives the factors that are varied; its [`Cell`]s are measured one by one with
//! `Inputs`, which holds the keys and the Zipf requests. The server's own cache (`file_cache`) is
//! compared with the alternatives that the appendix names, each as short as it can be written
//! (`stores.rs`). Every answer is checked: a wrong value is an error, not a number.

mod cell;
mod definition;
mod design;
mod drive;
mod header;
mod measure;
mod requests;
mod run;
mod stores;

pub use cell::{Cell, Part, Store};
pub use definition::Definition;
pub use design::Design;
pub use measure::{Numbers, Pair, clock_ns};
pub use run::{Study, estimate_s};
