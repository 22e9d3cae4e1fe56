//! Why a file set could not be written or read, each on one line.

use std::io;
use std::path::{Path, PathBuf};

use crate::size::show;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Fewer free bytes than the missing files need.
    #[error("{root}: {} more are needed and {} are free", show(*.needed), show(*.free))]
    Space {
        /// The root of the set.
        root: PathBuf,
        /// The bytes needed, in whole blocks.
        needed: u64,
        /// The free bytes.
        free: u64,
    },
    /// Fewer free inodes than missing files and directories.
    #[error(
        "{root}: {needed} more files are needed and the file system has room for {free} (inodes)"
    )]
    Inodes {
        /// The root of the set.
        root: PathBuf,
        /// The number of files and directories to create.
        needed: u64,
        /// The free inodes.
        free: u64,
    },
    /// Another run is at work on this root.
    #[error("{0}: another run is writing a file set there")]
    Busy(PathBuf),
    /// The file system refused.
    #[error("cannot {action} {path}: {why}")]
    Io {
        /// The refused operation, a verb.
        action: &'static str,
        /// The path that it was tried on.
        path: PathBuf,
        /// The system's error.
        #[source]
        why: io::Error,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, why: io::Error) -> Self {
        Self::Io { action, path: path.into(), why }
    }
}
