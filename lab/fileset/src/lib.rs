//! File sets on disk: written in parallel, checked, repaired.
//!
//! The files of a set and their contents are defined by `workload`. Existing right files are left
//! alone, files that do not belong to the set are counted and never touched. A file gets its name
//! when it is complete: however a run ends, no file of the set is ever half written.
//!
//! A set cannot be written by several runs at once: the second run is refused.

#![forbid(unsafe_code)]

mod error;
mod examine;
mod make;
mod room;
pub mod size;
mod team;

use std::fs;
use std::path::Path;

use os::clock;
use workload::fileset::{File, FileSet};

pub use error::Error;
pub use examine::{Fault, Survey};
pub use team::{Progress, Stage};

/// How to examine or write a set.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The number of threads that share the work; at least one.
    pub threads: usize,
    /// Whether to read every byte of the existing files. Otherwise their lengths, their first and
    /// last bytes and some in between are checked.
    pub every_byte: bool,
}

/// The result of [`write()`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of missing files that were written.
    pub written: u64,
    /// The number of wrong files that were replaced.
    pub repaired: u64,
    /// The number of files that were right.
    pub untouched: u64,
    /// The number of files in the tree that do not belong to the set.
    pub foreign: u64,
    /// The bytes of the files written and repaired.
    pub bytes: u64,
    /// How long everything took, in microseconds.
    pub elapsed_us: u64,
}

/// Examines the files of `set` below `root`. If the root does not exist all files are missing.
///
/// # Errors
/// The path that could not be read, and why; a file that is missing or wrong is not an error.
pub fn check(
    root: &Path,
    set: &FileSet,
    options: Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Survey, Error> {
    examine::survey(root, set, options, progress)
}

/// Makes `root` hold the files of `set`: writes missing files, replaces wrong ones.
///
/// # Errors
/// No room for missing files, another run at work on the same root, or the file system's error.
/// Files that have been written by then are whole, and another run continues from there.
pub fn write(
    root: &Path,
    set: &FileSet,
    options: Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let start_us = clock::now();
    fs::create_dir_all(root).map_err(|why| Error::io("create", root, why))?;
    let _lock = make::lock(root)?;
    let survey = examine::survey(root, set, options, progress)?;
    for leftover in &survey.leftovers {
        fs::remove_file(leftover).map_err(|why| Error::io("remove", leftover, why))?;
    }
    room::check(root, &survey, options.threads)?;
    make::make(root, &survey, options, progress)?;

    let missing = survey.missing();
    Ok(Summary {
        written: missing,
        repaired: survey.faults.len() as u64 - missing,
        untouched: survey.right,
        foreign: survey.foreign,
        bytes: survey.faults.iter().map(|(file, _)| file.bytes()).sum(),
        elapsed_us: clock::now() - start_us,
    })
}

/// The unit of work: a directory, or one single file. Work within a directory is never shared,
/// because its lock in the kernel would be.
fn unit(file: File) -> u64 {
    match file {
        File::Spec { directory, .. } => u64::from(directory),
        File::Single { bytes } => (1 << 63) | bytes,
    }
}
