//! What the kernel offers this process and whom it runs as: facts for diagnosis.

use crate::call::check;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The kernel's release as `uname -r` prints it.
pub fn kernel_release() -> String {
    let mut names = MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the pointer is to a live, writable utsname of this frame. The struct is arrays of
    // bytes, so zeroes are a valid value even if the call wrote nothing.
    let (returned, names) = unsafe {
        let returned = libc::uname(names.as_mut_ptr());
        (returned, names.assume_init())
    };
    assert_eq!(returned, 0, "uname fails only for bad pointers");
    // SAFETY: `release` is a NUL-terminated string: the kernel promises the terminator, and
    // `names` lives until the string has been copied.
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) };
    release.to_string_lossy().into_owned()
}

/// Whether this process may create an io_uring; the error tells why not (ENOSYS: the kernel has
/// none; EPERM: switched off by sysctl or by a container's system call filter).
pub fn io_uring_available() -> io::Result<()> {
    // struct io_uring_params is 120 bytes of 32-bit and 64-bit integers; zeroes ask for defaults.
    let mut parameters = [0_u64; 15];
    // SAFETY: the pointer is to 120 writable bytes, aligned to 8, which is all that the kernel
    // reads and writes. A non-negative return is a new descriptor, which nothing else can own.
    let _ring = unsafe {
        let returned = libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr());
        OwnedFd::from_raw_fd(check(returned as RawFd)?)
    };
    Ok(())
}

/// Whether the process runs as the superuser (effective user 0).
pub fn is_root() -> bool {
    // SAFETY: geteuid takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_release_is_what_proc_says() {
        let expected = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(kernel_release(), expected.trim_end());
    }

    #[test]
    fn the_user_is_who_owns_proc_self() {
        assert_eq!(is_root(), fs::metadata("/proc/self").unwrap().uid() == 0);
    }

    #[test]
    fn the_io_uring_probe_gives_a_ring_or_a_reason() {
        if let Err(error) = io_uring_available() {
            let known = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::ENOMEM];
            assert!(known.contains(&error.raw_os_error().unwrap()), "{error}");
        }
    }
}
