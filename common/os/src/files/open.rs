//! The system calls that open files: openat2 with its limits on resolution, and plain openat.

use super::root::Symlinks;
use crate::call::error;
use crate::errors::Cause;
use rustix::fs::{self, Access, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::retry_on_intr;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

/// What a descriptor is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// For reading. O_NONBLOCK: a FIFO without writers must not hold up the server.
    Read,
    /// Only as a name for the file: allows fstat and opening other files relative to it.
    Path,
}

impl How {
    pub(super) fn flags(self) -> OFlags {
        match self {
            Self::Read => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC,
            Self::Path => OFlags::PATH | OFlags::CLOEXEC,
        }
    }
}

/// Whether the kernel (5.6 or newer) has openat2 and lets this process use it; some system call
/// filters of containers do not. Asked once per process.
pub fn openat2_available() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => {
            let available = probe_openat2();
            ANSWER.store(if available { YES } else { NO }, Ordering::Relaxed);
            available
        }
        answer => answer == YES,
    }
}

/// Opens a file for appending, creating it if it does not exist. The call does not wait for the
/// reader of a FIFO: without a reader it fails with `ENXIO`. The descriptor does not block, which
/// matters only for FIFOs and terminals.
pub fn open_appending(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    File::options().append(true).create(true).custom_flags(flags).open(path)
}

/// Checks that this user may write to a file, or make files in a directory, without opening it.
///
/// # Errors
/// Why not: permission, a file system that can only be read, or nothing there.
pub fn check_writable(path: &Path) -> io::Result<()> {
    Ok(retry_on_intr(|| fs::access(path, Access::WRITE_OK))?)
}

/// Opens a directory as a starting point, following links.
pub(super) fn open_directory(path: &[u8]) -> io::Result<OwnedFd> {
    openat(CWD, path, How::Path.flags() | OFlags::DIRECTORY)
}

/// Opens `path` by plain openat. The caller is responsible for where the path leads.
pub(super) fn openat(directory: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    // The flags never include O_CREAT, so there is no mode.
    Ok(retry_on_intr(|| fs::openat(directory, path, flags, Mode::empty()))?)
}

/// Opens `path`, resolved by the kernel within the limits of `symlinks`. Empty is `directory`.
pub(super) fn openat2(
    directory: BorrowedFd<'_>,
    path: &[u8],
    symlinks: Symlinks,
    how: How,
) -> io::Result<OwnedFd> {
    // During a rename or a mount elsewhere the kernel may be unable to tell whether a `..` in a
    // link has left the root; it then wants the call to be repeated (EAGAIN).
    const ATTEMPTS_MAX: u32 = 64;
    for _ in 0..ATTEMPTS_MAX {
        match resolve(directory, path, how, resolve_flags(symlinks)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
    Err(error(libc::EBUSY))
}

/// Opens what `path` names as a mere place, within the limits of `symlinks`, if the kernel has
/// every name on the way in its cache of names; nothing if it would have to read a disk, or cannot
/// tell. (Linux 5.12; older kernels fail the call, which counts as nothing as well.)
pub(super) fn openat2_if_cached(
    directory: BorrowedFd<'_>,
    path: &[u8],
    symlinks: Symlinks,
) -> io::Result<Option<OwnedFd>> {
    match resolve(directory, path, How::Path, resolve_flags(symlinks) | ResolveFlags::CACHED) {
        Ok(descriptor) => Ok(Some(descriptor)),
        Err(error) if is_about_the_path(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether an error depends on the path only, and neither on the moment nor on this process.
fn is_about_the_path(error: &io::Error) -> bool {
    let cause = Cause::from_error(error);
    matches!(cause, Cause::NoAccess | Cause::SymbolicLink | Cause::NameTooLong)
        || matches!(
            error.kind(),
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::CrossesDevices
        )
}

fn resolve_flags(symlinks: Symlinks) -> ResolveFlags {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match symlinks {
        Symlinks::Beneath => beneath,
        Symlinks::Never => beneath | ResolveFlags::NO_SYMLINKS,
        Symlinks::Anywhere => ResolveFlags::NO_MAGICLINKS,
    }
}

/// One call of openat2, repeated only if a signal interrupts it.
fn resolve(
    directory: BorrowedFd<'_>,
    path: &[u8],
    how: How,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    let path = if path.is_empty() { b"." } else { path };
    Ok(retry_on_intr(|| fs::openat2(directory, path, how.flags(), Mode::empty(), resolve))?)
}

/// Opening `/` as a path cannot fail for any other reason than the call itself: ENOSYS from an
/// old kernel, EPERM from a filter that knows no such call.
fn probe_openat2() -> bool {
    let opened = resolve(CWD, b"/", How::Path, ResolveFlags::empty());
    !opened.is_err_and(|why| {
        matches!(why.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied)
    })
}
