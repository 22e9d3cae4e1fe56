//! `ropewalk serve` of this package.

use std::path::Path;

pub(crate) use testkit::server_process::{
    ServerProcess, conforms, request_status, serve, take_until,
};

pub(crate) const ROPEWALK: &str = env!("CARGO_BIN_EXE_ropewalk");

/// Starts a server of a directory with further arguments.
pub(crate) fn served(directory: &Path, arguments: &[&str]) -> ServerProcess {
    ServerProcess::for_directory(Path::new(ROPEWALK), directory, arguments)
}
