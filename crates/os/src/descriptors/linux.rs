//! The kernel as it is asked about a common table: by numbers, because what is open under one may
//! be anybody's.

use super::protocol::Kernel;
use crate::call::check;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The kernel. Nothing outside of `descriptors.rs` gets one: it closes whatever has a number.
pub(super) struct Linux;

impl Kernel for Linux {
    /// A window lasts microseconds, unless its process has lost its CPU within.
    const ATTEMPTS: u32 = 64;

    fn duplicate(&self, number: RawFd) -> io::Result<RawFd> {
        duplicate(number)
    }

    fn close(&self, number: RawFd) {
        // SAFETY: the caller owns it; or no process that lives owns it, by the rule at the head of
        // `descriptors.rs`, so that none closes it, or uses it, or gets its number meanwhile.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }

    /// It asks no file system, which may not answer for long.
    fn is_socket(&self, number: RawFd) -> Option<bool> {
        let mut kind: libc::c_int = 0;
        let mut len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the pointers are to a live, writable int of this frame and to its length. Nothing
        // changes, whatever the number stands for.
        let returned = unsafe {
            let pointer = (&raw mut kind).cast();
            libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_TYPE, pointer, &raw mut len)
        };
        if returned == 0 { Some(true) } else { is_open(number).then_some(false) }
    }

    /// kcmp(2). A number that is not open is nothing's.
    fn is_same(&self, one: RawFd, other: RawFd) -> Option<bool> {
        const KCMP_FILE: libc::c_int = 0;
        let own = std::process::id();
        // SAFETY: all arguments are numbers, and nothing changes.
        let order = unsafe { libc::syscall(libc::SYS_kcmp, own, own, KCMP_FILE, one, other) };
        let is_refused = || io::Error::last_os_error().raw_os_error() != Some(libc::EBADF);
        match order {
            -1 if is_refused() => None,
            order => Some(order == 0),
        }
    }
}

/// Another descriptor of the same open file. It refuses a number that is not open, and leaves one
/// that is as it is.
pub(super) fn duplicate(number: RawFd) -> io::Result<RawFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes a number; nothing that is open changes.
    check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) })
}

fn is_open(number: RawFd) -> bool {
    // SAFETY: F_GETFD takes no pointers and changes nothing, whatever the number stands for.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}
