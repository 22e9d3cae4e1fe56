//! The server, as other packages build it.

use std::path::{Path, PathBuf};

use testkit::{ServerProcess, built};

/// The program of the lab.
pub(crate) const ROPEWALK_LAB: &str = env!("CARGO_BIN_EXE_ropewalk-lab");

/// The program of the server.
pub(crate) fn ropewalk_server() -> PathBuf {
    built("ropewalk")
}

/// Starts a server of a directory with further arguments.
pub(crate) fn served(directory: &Path, arguments: &[&str]) -> ServerProcess {
    ServerProcess::for_directory(&ropewalk_server(), directory, arguments)
}
