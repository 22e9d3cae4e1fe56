//! Directories that vanish with the test that made them. For tests only: failures are panics. The
//! tree that the conformance cases use is in `document_root.rs`.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An empty directory that all users may read; it is removed when the value is dropped.
#[derive(Debug)]
pub struct Temporary(PathBuf);

impl Temporary {
    /// A new directory under the system's temporary one.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default that writes to a disk surprises")]
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// A new directory in `parent`.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn below(parent: &Path) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("ropewalk-test-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // The directory of a killed process that had the same number.
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => panic!("{}: {why}", path.display()),
            }
        }
    }

    /// The directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file below the directory, and the directories that lead to it.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = made.and_then(|()| fs::write(&path, contents));
        written.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // An ordinary user cannot list a directory without permissions, root can.
        if fs::remove_dir_all(&self.0).is_err() {
            open(&self.0);
            let _ = fs::remove_dir_all(&self.0); // a test that fails has worse to tell
        }
    }
}

/// Gives the owner all rights to a directory and to the directories below it.
fn open(directory: &Path) {
    let _ = fs::set_permissions(directory, Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_empty_and_its_own_and_vanishes() {
        let parent = Temporary::new();
        let (one, other) = (Temporary::below(parent.path()), Temporary::below(parent.path()));
        assert_ne!(one.path(), other.path());
        assert_eq!(fs::read_dir(one.path()).unwrap().count(), 0);
        let file = one.file("deep/below/file.txt", "content");
        assert_eq!(fs::read_to_string(file).unwrap(), "content");
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }

    /// Permissions do not apply to root: the test is meaningful for ordinary users only.
    #[test]
    fn it_vanishes_whatever_the_permissions_within() {
        let directory = Temporary::new();
        let file = directory.file("shut/below/file.txt", "content");
        for closed in file.ancestors().skip(1).take(3) {
            fs::set_permissions(closed, Permissions::from_mode(0o000)).unwrap();
        }
        let path = directory.path().to_owned();
        drop(directory);
        assert!(!path.exists());
    }
}
