//! A running server from a configuration: listeners, partitions, the access log, signals.
//!
//! This crate puts the parts together and contains neither rules of HTTP nor an event loop: `site`
//! and `session` decide what is answered, and `engines` how connections share the CPUs.

#![forbid(unsafe_code)]

pub mod access_log;
mod applications;
mod auto;
pub mod config;
pub mod control;
pub mod doctor;
mod engine_choice;
mod error_log;
mod forked;
mod generation;
mod health;
mod helper_process;
mod interrupt_affinity;
mod layout;
mod line_writer;
mod listeners;
mod local;
mod modes;
mod names;
mod partitions;
mod passage;
mod processes;
mod reach;
mod ready;
mod report;
mod run;
mod server;
mod services;
mod signals;
mod site_size;
mod spawner;
mod spool;
mod start_error;
mod start_line;
mod start_pages;
mod stop_deadline;
mod topology;
mod upgrade;
mod worker_error;

pub use line_writer::OutputError;
pub use processes::run_worker;
pub use report::{Reported, report};
pub use run::{Load, run};
pub use server::{Server, Summary};
pub use start_error::StartError;
pub use worker_error::WorkerError;

use config::{Config, ConfigError};

/// A configuration that can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// All settings as TOML, each with the place it comes from.
    pub effective: String,
    /// Settings that have no effect, a line each. A server reports them when it starts.
    pub without_effect: Vec<String>,
}

/// Checks everything that can be checked without opening a socket.
///
/// # Errors
/// The first mistake that is found.
pub fn check(config: &Config) -> Result<Checked, ConfigError> {
    let machine = partitions::Machine::inspect();
    let ready = ready::make_ready(&auto::resolve(config, &machine).config, &machine)?;
    Ok(Checked { effective: config.show(), without_effect: ready.without_effect })
}
