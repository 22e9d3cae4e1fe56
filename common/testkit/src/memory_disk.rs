//! A file system in memory for one test.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::stalled_disk::{require, run};

/// A file system in memory (tmpfs), mounted until this is dropped.
#[derive(Debug)]
pub struct MemoryDisk(PathBuf);

impl MemoryDisk {
    /// Mounts an empty file system on the folder `place`.
    ///
    /// # Errors
    /// Why this machine or this user cannot have one.
    pub fn new(place: &Path) -> Result<Self, String> {
        require(&[])?;
        let disk = Self(place.to_owned());
        run("mount", &["-t", "tmpfs", "tmpfs", disk.place()], Stdio::null())?;
        Ok(disk)
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// The kernel refuses while a process has a file of it open.
    pub fn unmount(&self) -> Result<(), String> {
        run("umount", &[self.place()], Stdio::null()).map(|_| ())
    }

    fn place(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for MemoryDisk {
    fn drop(&mut self) {
        // It is mounted still if the test has failed: it vanishes when the last file is closed.
        let _ = run("umount", &["-l", self.place()], Stdio::null());
    }
}
