//! The system calls that open files: openat2 with its limits on resolution, and plain openat.

use super::root::Symlinks;
use crate::call::{check, error, uninterrupted};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
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
    pub(super) const fn flags(self) -> libc::c_int {
        match self {
            Self::Read => libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC,
            Self::Path => libc::O_PATH | libc::O_CLOEXEC,
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

/// Opens a directory as a starting point, following links.
pub(super) fn open_directory(path: &[u8]) -> io::Result<OwnedFd> {
    open_raw(libc::AT_FDCWD, path, How::Path.flags() | libc::O_DIRECTORY)
}

/// Opens `path` by plain openat. The caller is responsible for where the path leads.
pub(super) fn openat(
    directory: BorrowedFd<'_>,
    path: &[u8],
    flags: libc::c_int,
) -> io::Result<OwnedFd> {
    open_raw(directory.as_raw_fd(), path, flags)
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
    let how = OpenHow { flags: how.flags() as u64, mode: 0, resolve: resolve_flags(symlinks) };
    let path = if path.is_empty() { b"." } else { path };
    with_c_path(path, |path| {
        for _ in 0..ATTEMPTS_MAX {
            match uninterrupted(|| openat2_once(directory.as_raw_fd(), path, &how)) {
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                result => return result,
            }
        }
        Err(error(libc::EBUSY))
    })
}

/// Opens what `path` names as a mere place, within the limits of `symlinks`, if the kernel has
/// every name on the way in its cache of names; nothing if it would have to read a disk, or cannot
/// tell. (Linux 5.12; older kernels fail the call, which counts as nothing as well.)
pub(super) fn openat2_if_cached(
    directory: BorrowedFd<'_>,
    path: &[u8],
    symlinks: Symlinks,
) -> io::Result<Option<OwnedFd>> {
    let resolve = resolve_flags(symlinks) | libc::RESOLVE_CACHED;
    let how = OpenHow { flags: How::Path.flags() as u64, mode: 0, resolve };
    let path = if path.is_empty() { b"." } else { path };
    let open = |path: &CStr| uninterrupted(|| openat2_once(directory.as_raw_fd(), path, &how));
    match with_c_path(path, open) {
        Ok(descriptor) => Ok(Some(descriptor)),
        Err(error) if is_about_the_path(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether an error depends on the path only, and neither on the moment nor on this process.
fn is_about_the_path(error: &io::Error) -> bool {
    const OF_PATHS: [libc::c_int; 6] =
        [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::ELOOP, libc::ENAMETOOLONG, libc::EXDEV];
    error.raw_os_error().is_some_and(|number| OF_PATHS.contains(&number))
}

/// Calls `body` with `path` as a C string; NUL bytes in it are EINVAL.
pub(super) fn with_c_path<T>(
    path: &[u8],
    body: impl FnOnce(&CStr) -> io::Result<T>,
) -> io::Result<T> {
    const INLINE: usize = 384; // most paths are shorter: no allocation
    if path.len() >= INLINE {
        return body(&CString::new(path).map_err(|_| error(libc::EINVAL))?);
    }
    let mut buffer = [0_u8; INLINE];
    buffer[..path.len()].copy_from_slice(path);
    body(CStr::from_bytes_with_nul(&buffer[..=path.len()]).map_err(|_| error(libc::EINVAL))?)
}

/// struct open_how (openat2(2)); the one in libc cannot be written as a literal.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const fn resolve_flags(symlinks: Symlinks) -> u64 {
    match symlinks {
        Symlinks::Beneath => libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS,
        Symlinks::Never => {
            libc::RESOLVE_BENEATH | libc::RESOLVE_NO_MAGICLINKS | libc::RESOLVE_NO_SYMLINKS
        }
        Symlinks::Anywhere => libc::RESOLVE_NO_MAGICLINKS,
    }
}

fn openat2_once(directory: RawFd, path: &CStr, how: &OpenHow) -> io::Result<OwnedFd> {
    let how: *const OpenHow = how;
    // SAFETY: `path` is a NUL-terminated string and `how` a struct of the size given, in the
    // layout of openat2(2); both live through the call, and the kernel only reads them. A
    // non-negative return is a new descriptor, which nothing else can own.
    unsafe {
        let size = size_of::<OpenHow>();
        let raw = libc::syscall(libc::SYS_openat2, directory, path.as_ptr(), how, size);
        Ok(OwnedFd::from_raw_fd(check(raw as RawFd)?))
    }
}

fn open_raw(directory: RawFd, path: &[u8], flags: libc::c_int) -> io::Result<OwnedFd> {
    with_c_path(path, |path| {
        uninterrupted(|| {
            // SAFETY: `path` is a NUL-terminated string that lives through the call. The flags
            // never include O_CREAT, so there is no third argument. A non-negative return is a
            // new descriptor, which nothing else can own.
            unsafe {
                let raw = check(libc::openat(directory, path.as_ptr(), flags))?;
                Ok(OwnedFd::from_raw_fd(raw))
            }
        })
    })
}

/// Opening `/` as a path cannot fail for any other reason than the call itself: ENOSYS from an
/// old kernel, EPERM from a filter that knows no such call.
fn probe_openat2() -> bool {
    let how = OpenHow { flags: How::Path.flags() as u64, mode: 0, resolve: 0 };
    let opened = uninterrupted(|| openat2_once(libc::AT_FDCWD, c"/", &how));
    !matches!(opened.map_err(|error| error.raw_os_error()), Err(Some(libc::ENOSYS | libc::EPERM)))
}
