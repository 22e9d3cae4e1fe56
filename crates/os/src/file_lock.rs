//! A file that one process at a time may have locked (`flock`).
//!
//! Not a lock between threads: those have the standard library's.

use std::fs::{File, TryLockError};

/// A file that is locked until this is dropped, or until the process ends.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Locks a file.
    ///
    /// # Errors
    /// When somebody else has it, or its file system knows no such locks.
    pub fn take(file: File) -> Result<Self, TryLockError> {
        file.try_lock()?;
        Ok(Self(file))
    }

    /// What is locked, for whoever is to have it open as well: a process with a duplicate of it
    /// keeps the lock when this process is killed.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file is not enough. The lock is the open file's, which a child that any
        // thread has started has as well, close-on-exec or not, until its program begins.
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
        let lock = FileLock::take(open()).expect("nobody has it");
        // What a process has from fork to exec: another descriptor of the same open file.
        let child = lock.file().try_clone().expect("it is open");
        assert!(matches!(FileLock::take(open()), Err(TryLockError::WouldBlock)));
        drop(lock);
        FileLock::take(open()).expect("nobody has it any more");
        drop(child);
        std::fs::remove_file(&path).expect("it is ours");
    }
}
