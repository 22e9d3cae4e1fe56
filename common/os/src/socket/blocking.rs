//! Sockets whose calls wait: for how long they wait, and how another thread ends the wait.

use super::set_option;
use crate::call::{check, uninterrupted};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// What [`wait_ready`] waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Bytes have arrived, or the peer sends no more.
    Readable,
    /// There is room in the socket's send buffer.
    Writable,
}

/// Has the calls on a socket wait until they can do something, or fail with `WouldBlock` instead.
pub fn set_blocking(socket: BorrowedFd<'_>, is_blocking: bool) -> io::Result<()> {
    let is_nonblocking = libc::c_int::from(!is_blocking);
    // SAFETY: FIONBIO reads one integer, which lives through the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONBIO, &raw const is_nonblocking) })?;
    Ok(())
}

/// Limits how long a receive waits: then it fails with `WouldBlock`. 0 means that it waits for
/// ever.
pub fn set_receive_timeout(socket: BorrowedFd<'_>, timeout_ms: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &time_of(timeout_ms))
}

/// Limits how long a send waits in all: then it returns the number of bytes sent so far, or fails
/// with `WouldBlock` if there are none. 0 means that it waits for ever.
pub fn set_send_timeout(socket: BorrowedFd<'_>, timeout_ms: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &time_of(timeout_ms))
}

/// Ends receiving: a thread that waits for bytes gets the end, after what has arrived already.
pub fn shutdown_read(socket: BorrowedFd<'_>) -> io::Result<()> {
    shutdown(socket, libc::SHUT_RD)
}

/// Ends both directions: a thread that waits in a call on the socket returns from it.
pub fn shutdown_both(socket: BorrowedFd<'_>) -> io::Result<()> {
    shutdown(socket, libc::SHUT_RDWR)
}

/// Waits until the socket is ready, for at most `timeout_ms`, and returns whether it is. An error
/// of the connection counts as ready: the next call reports it.
pub fn wait_ready(
    socket: BorrowedFd<'_>,
    readiness: Readiness,
    timeout_ms: u64,
) -> io::Result<bool> {
    let events = match readiness {
        Readiness::Readable => libc::POLLIN,
        Readiness::Writable => libc::POLLOUT,
    };
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
    let timeout = libc::c_int::try_from(timeout_ms).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer is to one live, writable entry, and the count says so.
    let ready = uninterrupted(|| check(unsafe { libc::poll(&raw mut entry, 1, timeout) }))?;
    Ok(ready > 0)
}

/// Whether the socket has bytes that have not been received yet. An end or an error does not count.
pub fn has_input(socket: BorrowedFd<'_>) -> bool {
    let mut byte = 0_u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the pointer is to one live, writable byte, and the length says so.
    unsafe { libc::recv(socket.as_raw_fd(), (&raw mut byte).cast(), 1, flags) > 0 }
}

fn shutdown(socket: BorrowedFd<'_>, how: libc::c_int) -> io::Result<()> {
    // SAFETY: shutdown takes no pointers, and the descriptor is open because it is borrowed.
    check(unsafe { libc::shutdown(socket.as_raw_fd(), how) })?;
    Ok(())
}

fn time_of(ms: u64) -> libc::timeval {
    libc::timeval { tv_sec: (ms / 1000) as _, tv_usec: (ms % 1000 * 1000) as _ }
}
