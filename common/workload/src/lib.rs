//! The requests of clients: file sets, popularity, session lengths, think times, request logs.
//!
//! Pure: no files, no sockets, no clock. Everything random is seeded and comes out the same on
//! every machine. Writing a file set to disk is the business of `fileset`, sending requests that of
//! `load`.

#![forbid(unsafe_code)]

pub mod content;
pub mod describe;
pub mod distribution;
pub mod fileset;
pub mod fit;
pub mod generate;
pub mod mix;
pub mod model;
mod parse_error;
pub mod popularity;
pub mod request_log;
pub mod session_length;
pub mod working_set;

pub use parse_error::ParseError;
