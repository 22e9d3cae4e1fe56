//! Shared by all test suites of the server: conformance cases as data, the document root that they
//! use, a raw client, and the comparison of responses with expectations.
//!
//! The crate knows nothing of the server: no type of it, only bytes. So the same cases run over
//! real sockets, against a connection in memory, and against other web servers.
//!
//! To run cases over sockets:
//!
//! 1. [`DocumentRoot::temporary`] builds the tree, [`Suite::load`] the cases;
//! 2. for each of [`Suite::profiles`], start a server with [`Profile::configuration`];
//! 3. [`runner::run`] sends each of [`Suite::cases_for`] and returns the failures, each of which
//!    prints the case, its RFC section, and the difference.
//!
//! In memory: [`Prepared::new`] fills a case's placeholders, the caller moves the bytes, and
//! [`check::check`] compares the [`Transcript`].

#![forbid(unsafe_code)]

pub mod accessibility;
pub mod browser;
mod busy;
pub mod case;
pub mod check;
mod circuit;
pub mod client;
pub mod differential;
pub mod document_root;
mod invariants;
pub mod layout;
pub mod loop_disk;
mod memory_disk;
pub mod multipart;
mod one_by_one;
mod patience;
mod processes;
mod programs;
pub mod request;
pub mod response;
pub mod runner;
pub mod scripted;
pub mod server_process;
mod side_by_side;
mod silence;
mod skip;
pub mod sockets;
pub mod stalled_disk;
pub mod template;
mod temporary;
mod terminal;
pub mod tools;
pub mod tutorial;
mod victim;
pub mod virtual_server;

pub use browser::Browser;
pub use busy::Busy;
pub use case::{Case, Profile, Suite};
pub use circuit::circuit;
pub use client::{Client, Delivery, End, Transcript};
pub use document_root::DocumentRoot;
pub use loop_disk::LoopDisk;
pub use memory_disk::MemoryDisk;
pub use one_by_one::{Test, one_by_one};
pub use patience::{comes_true, undisturbed, wait_until};
pub use processes::{
    ENDINGS, finished, heeded, install, install_script, succeeded, thread_folders,
};
pub use programs::built;
pub use server_process::ServerProcess;
pub use side_by_side::{at_a_time, side_by_side};
pub use skip::{NEEDS_ROOT, SKIPPED, Skipped, in_ci, is_root, leave_out, skip};
pub use stalled_disk::{StalledDisk, StalledFile};
pub use template::Prepared;
pub use temporary::Temporary;
pub use terminal::{Terminal, Written};
pub use tools::{Tool, has};
pub use victim::{Victim, ignores_hangup};
