//! The directory that served files are below, and the policy for symbolic links in it.

use super::open::{self, How};
use super::status::FileStatus;
use super::walk;
use crate::call::error;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Which symbolic links in a path are followed. In no case is a path allowed to begin with `/`
/// or to contain `..` (EXDEV), and never are the kernel's magic links followed, which lead to
/// things by other ways than their names (`/proc/self/fd/3`: ELOOP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Links are followed that stay below the root at every step. A link with an absolute target or
    /// one that climbs above the root is EXDEV, even if it leads back in.
    #[default]
    Beneath,
    /// No link is followed: a symbolic link anywhere in the path is ELOOP.
    Never,
    /// All links are followed, wherever they lead.
    Anywhere,
}

/// An open directory that paths are resolved from. It stays the same directory when it is
/// renamed. May be shared between threads.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    walks: bool,
}

impl Root {
    /// Opens the directory `path`, following links in it.
    pub fn new(path: &Path) -> io::Result<Self> {
        let directory = open::open_directory(path.as_os_str().as_bytes())?;
        Ok(Self { directory, walks: !open::openat2_available() })
    }

    /// Opens the directory `path`, following links in it, as a root that resolves paths step by
    /// step as if the kernel had no openat2. For tests.
    pub fn with_fallback_forced(path: &Path) -> io::Result<Self> {
        Ok(Self { walks: true, ..Self::new(path)? })
    }

    /// Opens what `relative` names for reading; empty is the root itself. Does not wait for writers
    /// of a FIFO, does not make a terminal the controlling one. The caller checks the descriptor's
    /// kind (a device, a FIFO, a directory) with [`FileStatus::from_file`] before reading.
    pub fn open(&self, relative: &[u8], symlinks: Symlinks) -> io::Result<OwnedFd> {
        self.resolve(relative, symlinks, How::Read)
    }

    /// The status of what [`Self::open`] would open now, without opening it for reading: works
    /// on unreadable files and on sockets too.
    pub fn stat_relative(&self, relative: &[u8], symlinks: Symlinks) -> io::Result<FileStatus> {
        let descriptor = self.resolve(relative, symlinks, How::Path)?;
        FileStatus::from_file(descriptor.as_fd())
    }

    /// The status of what `relative` names when all links are followed, wherever they lead; one
    /// system call. Use it to check whether a file is the one that had that name before (same
    /// device and inode) if the way to it is known to be allowed; whether it is, this call does not
    /// check.
    pub fn stat_at(&self, relative: &[u8]) -> io::Result<FileStatus> {
        check_path(relative)?;
        FileStatus::from_path(self.directory.as_fd(), relative)
    }

    /// The status of what `relative` names, following all links before its last name; None if the
    /// last name is a symbolic link. For checking one file after another in a directory to which
    /// the way is known to be allowed.
    pub fn stat_unless_link(&self, relative: &[u8]) -> io::Result<Option<FileStatus>> {
        check_path(relative)?;
        FileStatus::from_path_unless_link(self.directory.as_fd(), relative)
    }

    /// The status that [`Self::stat_relative`] returns, if the kernel can tell it without waiting
    /// for a disk; `None` if not.
    pub fn stat_if_cached(
        &self,
        relative: &[u8],
        symlinks: Symlinks,
    ) -> io::Result<Option<FileStatus>> {
        check_path(relative)?;
        if self.walks {
            return Ok(None);
        }
        let place = open::openat2_if_cached(self.directory.as_fd(), relative, symlinks)?;
        place.map(|place| FileStatus::from_file(place.as_fd())).transpose()
    }

    fn resolve(&self, relative: &[u8], symlinks: Symlinks, how: How) -> io::Result<OwnedFd> {
        check_path(relative)?;
        if self.walks {
            walk::open(self.directory.as_fd(), relative, symlinks, how)
        } else {
            open::openat2(self.directory.as_fd(), relative, symlinks, how)
        }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Checks the path's text, in addition to the kernel's own check: with links allowed anywhere there
/// is no other.
fn check_path(relative: &[u8]) -> io::Result<()> {
    let leaves = relative.first() == Some(&b'/')
        || relative.split(|&byte| byte == b'/').any(|name| name == b"..");
    if leaves { Err(error(libc::EXDEV)) } else { Ok(()) }
}
