//! A file that only one process at a time can have locked (`flock`).
//!
//! It is not for locking between threads, for which there are the standard library's locks.

use std::fs::{File, TryLockError};

/// A file that is locked until this is dropped, or until the process ends.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Locks a file.
    ///
    /// # Errors
    /// When another process holds the lock, or the file system has no such locks.
    pub fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }

    /// The locked file, for a process that is to have it open as well: a process with a duplicate
    /// of it keeps the lock when this process is killed.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file is not enough. The lock belongs to the open file, which a child started
        // by any thread shares, close-on-exec or not, until it executes its program.
        let _ = self.0.unlock(); // it can only fail for what is no lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_though_a_child_still_has_the_file_open() {
        let path = std::env::temp_dir().join(format!("ropewalk-lock-{}", std::process::id()));
        let open = || File::create(&path).expect("the folder for temporary files is writable");
        let lock = FileLock::take(open()).expect("it is not locked");
        // What a process has from fork to exec: another descriptor of the same open file.
        let child = lock.file().try_clone().expect("it is open");
        assert!(matches!(FileLock::take(open()), Err(TryLockError::WouldBlock)));
        drop(lock);
        FileLock::take(open()).expect("it has been released");
        drop(child);
        std::fs::remove_file(&path).expect("it is ours");
    }
}
