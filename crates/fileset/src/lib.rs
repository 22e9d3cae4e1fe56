//! File sets on disk: written in parallel, checked, repaired.
//!
//! Which files a set has and what is in them is `workload`'s business. What is already there and
//! right is left alone, what is not of the set is counted and never touched. A file gets its name
//! when it is whole: whatever ends a run, no file of the set is ever half written.
//!
//! Nothing here is for sets that several runs write at once: the second one is turned away.

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

/// How to go about it.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many threads share the work; at least one does it.
    pub threads: usize,
    /// Whether to read every byte of the files that are there. Otherwise their lengths, their
    /// first and last bytes and some between vouch for them.
    pub every_byte: bool,
}

/// What [`write()`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files that were missing and now are there.
    pub written: u64,
    /// Files that were there, were wrong, and were replaced.
    pub repaired: u64,
    /// Files that were there and right.
    pub untouched: u64,
    /// Files in the tree that are not of the set.
    pub foreign: u64,
    /// The bytes of the files written and repaired.
    pub bytes: u64,
    /// How long all of it took.
    pub elapsed_us: u64,
}

/// Looks at the files of `set` below `root`. A root that is not there lacks them all.
///
/// # Errors
/// What could not be read; a file that is missing or wrong is no error.
pub fn check(
    root: &Path,
    set: &FileSet,
    options: Options,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Survey, Error> {
    examine::survey(root, set, options, progress)
}

/// Makes `root` hold the files of `set`: writes what is missing, replaces what is wrong.
///
/// # Errors
/// No room for what is missing, another run at work on the same root, or what the file system
/// says. What has been written by then is whole, and another run goes on from there.
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
