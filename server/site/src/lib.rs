//! Answers to requests: from a request and the state of the file system to a response.
//!
//! This crate is pure: no sockets, no clock, no system calls; [`resolve::Files`] is the file system
//! as a trait. [`host`] defines what each virtual host serves, [`check`] checks its settings,
//! [`path`] makes paths canonical, [`resolve`] finds the [`resource`] a path stands for, [`answer`]
//! decides which part of it a request gets.

#![forbid(unsafe_code)]

pub mod accept;
pub mod answer;
pub mod check;
pub mod conditional;
pub mod entity_tag;
pub mod fields;
pub mod hashing;
pub mod host;
pub mod listing;
pub mod mime;
pub mod negotiate;
pub mod path;
pub mod range;
pub mod refusal;
pub mod resolve;
pub mod resource;
pub mod routes;
pub mod rules;

pub use host::{Host, HostSettings, Site, SiteError};
