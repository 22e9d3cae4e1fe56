//! Why a folder of records cannot be opened. Who is at fault decides the exit status, which is then
//! the same whichever command has opened it.

use super::folder::{HEADER, RESUMED_FROM};
use super::{Folder, VERSION};
use crate::error::Error;
use command::near::near_path;
use std::io;
use std::path::{Path, PathBuf};

/// Why a folder of records cannot be opened: a line that begins with its path.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A new study was to begin where there is one.
    #[error(
        "{}: there is a study in it already; resume it (--resume) or choose another directory",
        .0.display()
    )]
    Taken(PathBuf),
    /// A new study was to begin where runs of another are left, which would be taken for its own.
    #[error(
        "{}: there is a {list} in it, of a study whose {HEADER} is gone: choose another directory",
        .path.display()
    )]
    Remains {
        /// The folder.
        path: PathBuf,
        /// The name of what is left.
        list: &'static str,
    },
    /// It holds no records.
    #[error(
        "{}: {}: name the directory of a study, a tuning or a comparison",
        .0.display(),
        absence(.0)
    )]
    Absent(PathBuf),
    /// Its header is another program's.
    #[error("{}: not a study: {why}", .path.display())]
    Foreign {
        /// The header.
        path: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// A later program wrote it.
    #[error(
        "{}: its version is {version}, this program reads versions 1 to {VERSION}",
        .path.display()
    )]
    Later {
        /// The header.
        path: PathBuf,
        /// The header's version.
        version: u32,
    },
    /// It is to be gone on with, and an earlier program wrote it, which wrote less.
    #[error(
        "{}: its version is {version}, and this program goes on with version {RESUMED_FROM} and \
         later: finish it with the program that began it, or choose another directory; a report \
         can be made of it",
        .path.display()
    )]
    Earlier {
        /// The folder.
        path: PathBuf,
        /// The header's version.
        version: u32,
    },
    /// Another process has it open.
    #[error("{}: another process works on this study", .0.display())]
    Locked(PathBuf),
    /// A line within a list cannot be read.
    #[error("{}: line {line}: {why}", .path.display())]
    Damaged {
        /// The list.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        why: serde_json::Error,
    },
    /// The system refused to read or write it.
    #[error("{}: {why}", .path.display())]
    System {
        /// What was to be read or written.
        path: PathBuf,
        /// The reason.
        why: io::Error,
    },
}

impl FolderError {
    /// A function that explains what the system has said about `path`.
    pub(super) fn of_system(path: &Path) -> impl Fn(io::Error) -> Self {
        move |why| Self::System { path: path.to_owned(), why }
    }
}

/// The wrong folder was named, or what is in it, or another process, is in the way.
impl From<FolderError> for Error {
    fn from(error: FolderError) -> Self {
        use FolderError as E;
        let why = error.to_string();
        match error {
            E::Taken(_)
            | E::Remains { .. }
            | E::Absent(_)
            | E::Foreign { .. }
            | E::Later { .. }
            | E::Earlier { .. } => Self::Usage(why),
            E::Locked(_) | E::Damaged { .. } | E::System { .. } => Self::Failed(why),
        }
    }
}

/// Why there are no records, and which folder may have been meant.
fn absence(path: &Path) -> String {
    match path.is_dir() {
        true => "there are no records in it".into(),
        false => format!("there is no such directory{}", near_path(path, Folder::has_records)),
    }
}
