//! A file's metadata: its kind, its length, when it changed, and which file it is.

use rustix::fs::{AtFlags, FileType, Stat, StatxFlags, fstat, statat, statx};
use std::io;
use std::os::fd::BorrowedFd;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file: the only kind with bytes to serve.
    Regular,
    /// A directory.
    Directory,
    /// A device, a FIFO or a socket.
    Other,
}

/// What the kernel reports about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// The kind of the file.
    pub kind: FileKind,
    /// With `inode`, which file it is.
    pub device: u64,
    /// With `device`, which file it is. May be used again after the file is deleted.
    pub inode: u64,
    /// The length in bytes.
    pub len: u64,
    /// When the contents were last modified, in nanoseconds since 1970 (until the year 2262,
    /// then saturating). Any process that may write the
    /// file can set it at will.
    pub modified_ns: i64,
    /// When the contents or the metadata last changed, in nanoseconds since 1970. Cannot be set.
    pub changed_ns: i64,
}

impl FileStatus {
    /// The status of an open file.
    pub fn from_file(file: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::from_raw(&fstat(file)?))
    }

    /// Whether both describe the same file. Whether the contents are the same too is shown by the
    /// other fields.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.device == other.device && self.inode == other.inode
    }

    /// The kind of an open file, None for a symbolic link itself (O_PATH | O_NOFOLLOW).
    pub(super) fn entry_kind(file: BorrowedFd<'_>) -> io::Result<Option<FileKind>> {
        let raw = fstat(file)?;
        Ok((!is_link(&raw)).then(|| kind(&raw)))
    }

    /// The status of what `path` names, following links. Empty is `directory`.
    pub fn from_path(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<Self> {
        Ok(Self::from_raw(&statat(directory, path, AtFlags::EMPTY_PATH)?))
    }

    /// The status of what `path` names below `directory`, None if `path` ends in a symbolic link;
    /// links before its last name are followed.
    pub(super) fn from_path_unless_link(
        directory: BorrowedFd<'_>,
        path: &[u8],
    ) -> io::Result<Option<Self>> {
        let raw = statat(directory, path, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((!is_link(&raw)).then(|| Self::from_raw(&raw)))
    }

    fn from_raw(raw: &Stat) -> Self {
        Self {
            kind: kind(raw),
            device: raw.st_dev as _,
            inode: raw.st_ino as _,
            len: u64::try_from(raw.st_size).unwrap_or(0),
            modified_ns: nanoseconds(raw.st_mtime as _, raw.st_mtime_nsec as _),
            changed_ns: nanoseconds(raw.st_ctime as _, raw.st_ctime_nsec as _),
        }
    }
}

/// Whether an open file has no name any more, as far as that is known on this machine: no other
/// machine (NFS) and no program (FUSE) is queried, which may not answer for long. A file that was
/// deleted elsewhere counts as having its name until another call has queried the server.
#[must_use]
pub fn is_unlinked(file: BorrowedFd<'_>) -> bool {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    statx(file, c"", flags, StatxFlags::NLINK)
        .is_ok_and(|raw| raw.stx_mask & StatxFlags::NLINK.bits() != 0 && raw.stx_nlink == 0)
}

fn is_link(raw: &Stat) -> bool {
    FileType::from_raw_mode(raw.st_mode) == FileType::Symlink
}

fn kind(raw: &Stat) -> FileKind {
    match FileType::from_raw_mode(raw.st_mode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
