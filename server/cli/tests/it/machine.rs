//! The programs and privileges that tests need and that a machine may lack.
//!
//! A missing one is reported prominently, and counted; where `CI=true` it must not be missing.

pub(crate) use testkit::{has, skip, succeeded as run};
