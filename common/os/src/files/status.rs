//! A file's metadata: its kind, its length, when it changed, and which file it is.

use super::open::with_c_path;
use crate::call::check;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

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
        let mode = fstat(file)?.st_mode;
        Ok((!is_link(mode)).then(|| kind(mode)))
    }

    /// The status of what `path` names, following links. Empty is `directory`.
    pub fn from_path(directory: BorrowedFd<'_>, path: &[u8]) -> io::Result<Self> {
        fstatat(directory, path, 0).map(|raw| Self::from_raw(&raw))
    }

    /// The status of what `path` names below `directory`, None if `path` ends in a symbolic link;
    /// links before its last name are followed.
    pub(super) fn from_path_unless_link(
        directory: BorrowedFd<'_>,
        path: &[u8],
    ) -> io::Result<Option<Self>> {
        let raw = fstatat(directory, path, libc::AT_SYMLINK_NOFOLLOW)?;
        Ok((!is_link(raw.st_mode)).then(|| Self::from_raw(&raw)))
    }

    fn from_raw(raw: &libc::stat) -> Self {
        Self {
            kind: kind(raw.st_mode),
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
    let mut raw = MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the path is a NUL-terminated string; the last pointer is to a live, writable statx of
    // this frame. The struct is all integers, so zeroes are a valid value even if the call wrote
    // nothing.
    let (returned, raw) = unsafe {
        let (path, place) = (c"".as_ptr(), raw.as_mut_ptr());
        let returned = libc::statx(file.as_raw_fd(), path, flags, libc::STATX_NLINK, place);
        (returned, raw.assume_init())
    };
    returned == 0 && raw.stx_mask & libc::STATX_NLINK != 0 && raw.stx_nlink == 0
}

fn fstat(file: BorrowedFd<'_>) -> io::Result<libc::stat> {
    let mut raw = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the pointer is to a live, writable stat of this frame. The struct is all integers,
    // so zeroes are a valid value even if the call wrote nothing.
    let (returned, raw) = unsafe {
        let returned = libc::fstat(file.as_raw_fd(), raw.as_mut_ptr());
        (returned, raw.assume_init())
    };
    check(returned)?;
    Ok(raw)
}

fn fstatat(directory: BorrowedFd<'_>, path: &[u8], flags: libc::c_int) -> io::Result<libc::stat> {
    with_c_path(path, |path| {
        let mut raw = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: `path` is a NUL-terminated string that lives through the call; the pointer is to
        // a live, writable stat of this frame. The struct is all integers, so zeroes are a valid
        // value even if the call wrote nothing.
        let (returned, raw) = unsafe {
            let (directory, flags) = (directory.as_raw_fd(), flags | libc::AT_EMPTY_PATH);
            let returned = libc::fstatat(directory, path.as_ptr(), raw.as_mut_ptr(), flags);
            (returned, raw.assume_init())
        };
        check(returned)?;
        Ok(raw)
    })
}

fn is_link(mode: libc::mode_t) -> bool {
    mode & libc::S_IFMT == libc::S_IFLNK
}

fn kind(mode: libc::mode_t) -> FileKind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => FileKind::Regular,
        libc::S_IFDIR => FileKind::Directory,
        _ => FileKind::Other,
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
