//! A running server from a configuration: listeners, partitions, the access log, signals.
//!
//! It puts the parts together and holds no policy of HTTP and no event loop: what is answered is
//! decided by `site` and `session`, and how connections share the CPUs by `engines`.

#![forbid(unsafe_code)]

use std::io::Write;

pub mod access_log;
pub mod config;

/// One line on standard error. That it may be closed is no reason to stop serving.
pub fn report(message: &str) {
    let _ = writeln!(std::io::stderr(), "ropewalk: {message}");
}
