//! What a cache of file metadata costs by itself: lists, locks, copies and references, levels, and
//! policies, after Radhakrishnan, "Comparative study of concurrent programming models" (2019),
//! Appendix A, and beyond it.
//!
//! A [`Design`] says what is varied; its [`Cell`]s are measured one by one with [`Inputs`], which
//! holds the keys and the Zipf requests. In which order, how often, and what it means is the
//! caller's business. The server's own cache (`file_cache`) is compared with the alternatives that
//! the appendix names, each as short as it can be written (`stores.rs`).
//!
//! Every answer is checked: a store that answers a wrong value is an error, not a number.

#![forbid(unsafe_code)]

mod cell;
mod design;
mod drive;
mod measure;
mod requests;
mod stores;

pub use cell::{Cell, Part, Store};
pub use design::{Design, DesignError};
pub use measure::{Inputs, Numbers, Pair, WrongAnswer, clock_ns};
