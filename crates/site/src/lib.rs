//! What to answer: from a request and what the file system holds to a response.

#![forbid(unsafe_code)]

pub mod conditional;
pub mod listing;
pub mod mime;
pub mod negotiate;
pub mod path;
pub mod range;
pub mod rules;
