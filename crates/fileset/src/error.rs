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
        /// Where.
        root: PathBuf,
        /// Bytes, in whole blocks.
        needed: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// Fewer free inodes than missing files and directories.
    Inodes {
        /// Where.
        root: PathBuf,
        /// Files and directories.
        needed: u64,
        /// Inodes that there are.
        free: u64,
    },
    /// Another run is at work there.
    Busy(PathBuf),
    /// The file system refused.
    Io {
        /// A verb.
        action: &'static str,
        /// Of what.
        path: PathBuf,
        /// What it said.
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
