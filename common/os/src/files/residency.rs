//! How much of a file is in memory (mincore(2)), and having it stay there (mlock(2)).

use crate::call::{check, error};
use crate::memory::page_bytes;
use rustix::mm::{MapFlags, ProtFlags, mlock, mmap, munmap};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr;

/// How many bytes of an open file's first `len` are in memory, in whole pages; 0 for an empty file.
/// The check itself reads nothing from the disk.
///
/// # Errors
/// The file cannot be mapped (directories, devices). Files that the user neither owns nor may write
/// are reported as wholly in memory: the kernel does not disclose their state.
pub fn resident_bytes(file: BorrowedFd<'_>, len: u64) -> io::Result<u64> {
    let len = usize::try_from(len).map_err(|_| error(libc::EFBIG))?;
    if len == 0 {
        return Ok(0);
    }
    let page = page_bytes();
    let mut pages = vec![0_u8; len.div_ceil(page)];
    let mapping = Mapping::new(file, len)?;
    // SAFETY: the range is that of the mapping, of whose whole length the state is requested, into
    // a vector with a byte for each page.
    check(unsafe { libc::mincore(mapping.start, len, pages.as_mut_ptr().cast()) })?;
    Ok((pages.iter().filter(|page| **page & 1 == 1).count() * page) as u64)
}

/// The first bytes of a file, locked in memory until this is dropped: the kernel never reclaims
/// them. They stay charged to the control group that they were charged to before.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is there to be dropped")] Mapping);

impl Held {
    /// Locks an open file's first `len` bytes in memory, after reading those that are not there
    /// yet.
    ///
    /// # Errors
    /// An empty file; more than this process may hold (RLIMIT_MEMLOCK, unless it is privileged).
    pub fn new(file: BorrowedFd<'_>, len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(|_| error(libc::EFBIG))?;
        let mapping = Mapping::new(file, len)?;
        // SAFETY: the range is that of the mapping, which lives as long as what is returned.
        unsafe { mlock(mapping.start, len) }?;
        Ok(Self(mapping))
    }
}

/// A mapping of a file's first bytes, which is never read or written through.
#[derive(Debug)]
struct Mapping {
    start: *mut libc::c_void,
    len: usize,
}

// SAFETY: the mapping belongs to the process, is never read or written through, and is removed
// once.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses where to map, so no existing mapping is replaced. The
        // descriptor is open, for it is borrowed.
        let start =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        Ok(Self { start, len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and removed here only.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "it was mapped just so");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::advise_dont_need;
    use std::fs::{self, File};
    use std::os::fd::AsFd;

    #[test]
    fn what_was_written_is_in_memory_until_it_is_evicted() {
        let path = std::env::current_exe().unwrap().with_extension("residency");
        fs::write(&path, vec![1; 10 * page_bytes() + 1]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let len = file.metadata().unwrap().len();
        let whole = resident_bytes(file.as_fd(), len).unwrap();
        advise_dont_need(file.as_fd()).unwrap();
        let evicted = resident_bytes(file.as_fd(), len).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(whole, 11 * page_bytes() as u64);
        assert_eq!(evicted, 0, "the target directory is on a file system in memory");
    }

    #[test]
    fn what_is_held_cannot_be_evicted() {
        let path = std::env::current_exe().unwrap().with_extension("held");
        fs::write(&path, vec![1; 3 * page_bytes()]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let len = file.metadata().unwrap().len();
        let resident = || {
            advise_dont_need(file.as_fd()).unwrap();
            resident_bytes(file.as_fd(), len).unwrap()
        };
        let held = Held::new(file.as_fd(), len).unwrap();
        assert_eq!(resident(), len);
        drop(held);
        let evicted = resident();
        fs::remove_file(&path).unwrap();
        assert_eq!(evicted, 0, "the target directory is on a file system in memory");
        assert!(Held::new(File::open("/dev/null").unwrap().as_fd(), 0).is_err());
    }

    #[test]
    fn empty_files_have_nothing_and_directories_cannot_be_asked() {
        let null = File::open("/dev/null").unwrap();
        assert_eq!(resident_bytes(null.as_fd(), 0).unwrap(), 0);
        let directory = File::open("/").unwrap();
        assert!(resident_bytes(directory.as_fd(), 4096).is_err());
    }
}
