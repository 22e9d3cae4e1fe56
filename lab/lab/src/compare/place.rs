//! The folder for the records of a comparison.

use crate::error::Error;
use crate::record::Folder;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A folder that is made before a server is started, so that a mistake in it is known early, and
/// that is removed if nothing is written into it.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    is_new: bool,
}

impl Place {
    /// Makes the folder that was typed, or else a new one in the scratch directory.
    ///
    /// # Errors
    /// When the folder holds records, or it cannot be made.
    pub fn make(typed: Option<&Path>, scratch: &Path) -> Result<Self, Error> {
        let Some(path) = typed else { return Self::new_in(scratch) };
        if Folder::has_records(path) {
            let path = path.display();
            return Err(Error::Usage(format!(
                "{path}: there are records in it already: choose another directory (-o)"
            )));
        }
        let is_new = !path.exists();
        fs::create_dir_all(path).map_err(|why| cannot_make(path, &why))?;
        Ok(Self { path: path.to_owned(), is_new })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the first `compare-N` that does not exist yet.
    fn new_in(scratch: &Path) -> Result<Self, Error> {
        let mut number = 1;
        loop {
            let path = scratch.join(format!("compare-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, is_new: true }),
                Err(why) if why.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(why) => return Err(cannot_make(&path, &why)),
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_dir(&self.path); // only if it is empty
        }
    }
}

fn cannot_make(path: &Path, why: &io::Error) -> Error {
    Error::Failed(format!("{}: {why}", path.display()))
}
