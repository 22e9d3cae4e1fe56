//! Servers under test, described by files, started and measured.
//!
//! A [`ServerDescription`] is read from a file (`servers/NAME.toml`, [`catalogue()`]), found on the
//! machine ([`Found::detect`]), and started under one of its settings ([`RunningServer`]) in a
//! control group ([`Group`]) of its own, so that the processor time of all its processes counts,
//! including processes that live only for a moment. Servers are driven from outside ([`client`],
//! wrk, [`http`]) and observed from outside ([`memory`]): no server is linked with, ours
//! included.
//!
//! Which servers to compare, and how often, is decided by the callers. An [`Error`] says what can
//! be done about it; an error that is a mere sentence is for the person at the terminal, and a
//! program could do nothing about it.

#![forbid(unsafe_code)]

mod application;
mod binding;
pub mod cache_study;
mod catalogue;
pub mod client;
pub mod compare;
mod conclusion;
pub mod doctor;
mod environment;
mod error;
mod former_names;
mod group;
pub mod http;
mod install;
mod knob;
mod lab;
pub mod membench;
pub mod memory;
#[cfg(test)]
mod needs;
pub mod observe;
mod port;
mod process;
pub mod record;
pub mod report;
mod ropewalk;
pub mod search;
mod server;
mod server_description;
mod server_spec;
pub mod study;
mod template;
pub mod testbed;
pub mod trial;
mod void;
pub mod warm_up;
pub mod watch;
pub mod workload;
mod wrk;

pub use catalogue::catalogue;
pub use conclusion::Conclusion;
pub use environment::{Environment, SettingsInside, settings_inside};
pub use error::Error;
pub use group::{Accounting, Group};
pub use install::{Absence, Found, Installed, Skipped, SourceTree};
pub use knob::Knob;
pub use lab::{Lab, divide_cpus};
pub use process::listed_cpus;
pub use ropewalk::{configuration_file, engine_descriptions};
pub use server::{Launch, RunningServer, StartError, configuration, configuration_text};
pub use server_description::{
    Build, ConfigurationFile, Detect, Needs, Ready, ServerDescription, Setting, Start, Stop,
    Workers,
};
pub use server_spec::{ServerSpec, with_knobs};
pub use template::Values;
pub use void::{Neighbour, Void};

/// Microseconds since 1970.
pub fn unix_us() -> u64 {
    let (seconds, nanoseconds) = os::clock::unix_time();
    seconds.unsigned_abs() * 1_000_000 + u64::from(nanoseconds / 1000)
}
