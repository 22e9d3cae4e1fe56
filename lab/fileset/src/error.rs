//! Why a file set could not be written or read, each on one line.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::size;

/// What went wrong.
#[derive(Debug)]
pub enum Error {
    /// Fewer free bytes than the missing files need.
    Space {
        /// The root of the set.
        root: PathBuf,
        /// The bytes needed, in whole blocks.
        needed: u64,
        /// The free bytes.
        free: u64,
    },
    /// Fewer free inodes than missing files and directories.
    Inodes {
        /// The root of the set.
        root: PathBuf,
        /// The number of files and directories to create.
        needed: u64,
        /// The free inodes.
        free: u64,
    },
    /// Another run is at work on this root.
    Busy(PathBuf),
    /// The file system refused.
    Io {
        /// The refused operation, a verb.
        action: &'static str,
        /// The path that it was tried on.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, why: io::Error) -> Self {
        Self::Io { action, path: path.into(), why }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Space { root, needed, free } => {
                let (needed, free) = (size::show(*needed), size::show(*free));
                write!(out, "{}: {needed} more are needed and {free} are free", root.display())
            }
            Self::Inodes { root, needed, free } => write!(
                out,
                "{}: {needed} more files are needed and the file system has room for {free} \
                 (inodes)",
                root.display()
            ),
            Self::Busy(root) => {
                write!(out, "{}: another run is writing a file set there", root.display())
            }
            Self::Io { action, path, why } => {
                write!(out, "cannot {action} {}: {why}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { why, .. } => Some(why),
            _ => None,
        }
    }
}
