//! Why a trace cannot be written or read: one line that says where, what, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What is wrong.
#[derive(Debug)]
pub enum Fault {
    /// The system refuses to read or write.
    Io(io::Error),
    /// The file is not a trace at all.
    Foreign,
    /// A trace of a version that this program does not know.
    Version(u32),
    /// The trace ends before its end mark.
    Truncated(&'static str),
    /// The bytes differ from those that were written.
    Damaged(&'static str),
    /// No process of the trace has this number.
    NoProcess(u32),
    /// A value to be written cannot be expressed in the format.
    TooLarge(&'static str),
    /// An imported trace is not of the stated form.
    Import(String),
}

/// A fault and its place.
#[derive(Debug)]
pub struct TraceError {
    /// The file; `-` or the like if it is not a file.
    pub path: PathBuf,
    /// The offset of the first byte of the faulty part, if it is known.
    pub offset: Option<u64>,
    /// What is wrong.
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

impl fmt::Display for TraceError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: ", self.path.display())?;
        if let Some(offset) = self.offset {
            write!(to, "byte {offset}: ")?;
        }
        self.fault.fmt(to)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(why) => write!(to, "{why}"),
            Self::Foreign => write!(to, "not a trace of ropewalk; foreign ones: {IMPORT}"),
            Self::Version(version) => {
                write!(to, "format version {version} is not known here: use a newer ropewalk")
            }
            Self::Truncated(what) => {
                write!(to, "truncated {what}: what precedes it is whole; {AGAIN}")
            }
            Self::Damaged(what) => write!(to, "damaged {what}: {AGAIN}"),
            Self::NoProcess(id) => {
                write!(to, "no process {id}: `ropewalk trace info` lists those there are")
            }
            Self::TooLarge(what) => write!(to, "too large for the format: {what}"),
            Self::Import(why) => write!(to, "{why}"),
        }
    }
}

const IMPORT: &str = "`ropewalk trace import`";
const AGAIN: &str = "copy or record it again";

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Io(why) => Some(why),
            _ => None,
        }
    }
}
