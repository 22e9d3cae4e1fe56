//! How much room a file system has left (statvfs).

use rustix::fs::fstatvfs;
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::BorrowedFd;

/// The room on a file system that a process without privileges may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free bytes.
    pub free_bytes: u64,
    /// Files take whole blocks of this many bytes.
    pub block_bytes: u64,
    /// How many more files there can be. None: the file system makes room for them as needed.
    pub free_files: Option<u64>,
}

impl Space {
    /// The space of the file system that an open file or directory is on.
    pub fn from_file(file: BorrowedFd<'_>) -> io::Result<Self> {
        let raw = retry_on_intr(|| fstatvfs(file))?;
        Ok(Self {
            // Blocks are counted in fragments (statvfs(3)).
            free_bytes: raw.f_bavail.saturating_mul(raw.f_frsize),
            block_bytes: raw.f_frsize.max(1),
            free_files: (raw.f_files != 0).then_some(raw.f_favail),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::process::Command;

    #[test]
    fn agrees_with_df() {
        let directory = std::env::temp_dir();
        let space = Space::from_file(File::open(&directory).unwrap().as_fd()).unwrap();
        let df = Command::new("df").args(["-B1", "--output=avail"]).arg(directory).output();
        let text = String::from_utf8(df.unwrap().stdout).unwrap();
        let available: u64 = text.lines().nth(1).unwrap().trim().parse().unwrap();
        // Other programs write and delete meanwhile.
        assert!(space.free_bytes.abs_diff(available) < 4 << 30, "{space:?}, df {available}");
        assert!(space.block_bytes.is_power_of_two(), "{space:?}");
    }

    #[test]
    fn a_file_system_without_files_has_no_room() {
        let proc = Space::from_file(File::open("/proc").unwrap().as_fd()).unwrap();
        assert_eq!((proc.free_bytes, proc.free_files), (0, None));
    }
}
