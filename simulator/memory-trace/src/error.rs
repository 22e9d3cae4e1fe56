//! Why a trace cannot be written or read: one line that says where, what, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// What is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The system refuses to read or write.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file is not a trace at all.
    #[error("not a trace of ropewalk; foreign ones: `ropewalk trace import`")]
    Foreign,
    /// A trace of a version that this program does not know.
    #[error("format version {0} is not known here: use a newer ropewalk")]
    Version(u32),
    /// The trace ends before its end mark.
    #[error("truncated {0}: what precedes it is whole; {AGAIN}")]
    Truncated(&'static str),
    /// The bytes differ from those that were written.
    #[error("damaged {0}: {AGAIN}")]
    Damaged(&'static str),
    /// No process of the trace has this number.
    #[error("no process {0}: `ropewalk trace info` lists those there are")]
    NoProcess(u32),
    /// A value to be written cannot be expressed in the format.
    #[error("too large for the format: {0}")]
    TooLarge(&'static str),
    /// An imported trace is not of the stated form.
    #[error("{0}")]
    Import(String),
}

const AGAIN: &str = "copy or record it again";

/// A fault and its place.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {}{fault}", offset_prefix(*.offset))]
pub struct TraceError {
    /// The file; `-` or the like if it is not a file.
    pub path: PathBuf,
    /// The offset of the first byte of the faulty part, if it is known.
    pub offset: Option<u64>,
    /// What is wrong.
    #[source]
    pub fault: Fault,
}

impl TraceError {
    pub(crate) fn new(path: &Path, offset: Option<u64>, fault: Fault) -> Self {
        Self { path: path.to_owned(), offset, fault }
    }

    pub(crate) fn with_offset(path: &Path, offset: u64, fault: Fault) -> Self {
        Self::new(path, Some(offset), fault)
    }
}

fn offset_prefix(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!("byte {offset}: "))
}
