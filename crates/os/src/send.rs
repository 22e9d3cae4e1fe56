//! Moving bytes: receiving, sending from memory and sending from files.
//!
//! Whether a call waits is decided by the descriptor (non-blocking sockets return `WouldBlock`),
//! never here; nothing is repeated to make a short transfer whole. A send on a closed connection
//! is an error (`BrokenPipe`), not a signal; for [`sendfile`], which has no flag for that, see
//! [`crate::signals::raise_pipe_ignored`].

use crate::call::{check_len, uninterrupted};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Receives what has arrived into `buffer`; 0 means the peer sends no more (or `buffer` is empty).
pub fn recv(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    uninterrupted(|| {
        // SAFETY: pointer and length describe `buffer`, exclusively borrowed for the call; the
        // kernel writes at most that many bytes, and any bytes are valid u8s.
        check_len(unsafe {
            libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0)
        })
    })
}

/// Sends a prefix of `bytes` and returns its length. `more`: further bytes follow at once, so
/// that the last, partly filled packet may wait for them.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], more: bool) -> io::Result<usize> {
    uninterrupted(|| {
        // SAFETY: pointer and length describe `bytes`, borrowed for the call; the kernel only
        // reads them.
        check_len(unsafe {
            libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags(more))
        })
    })
}

/// Sends `head` and then `body` with one call; the count returned covers both.
pub fn send_two(socket: BorrowedFd<'_>, head: &[u8], body: &[u8], more: bool) -> io::Result<usize> {
    send_vectored(socket, &[IoSlice::new(head), IoSlice::new(body)], more)
}

/// Sends a prefix of the concatenated `slices` (the kernel takes at most 1,024 of them per call)
/// and returns its length.
pub fn send_vectored(
    socket: BorrowedFd<'_>,
    slices: &[IoSlice<'_>],
    more: bool,
) -> io::Result<usize> {
    const SLICES_MAX: usize = 1_024; // UIO_MAXIOV; more is EMSGSIZE
    // SAFETY: msghdr is made of integers and raw pointers, for which zeroes are valid values;
    // zeroing also covers the padding fields that some C libraries add.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    // IoSlice is documented to have the layout of iovec; sendmsg does not write through it.
    message.msg_iov = slices.as_ptr().cast_mut().cast();
    message.msg_iovlen = slices.len().min(SLICES_MAX) as _;
    uninterrupted(|| {
        // SAFETY: `message` is live and names no address and no control bytes (null, length 0).
        // Its vector has at least `msg_iovlen` entries, borrowed for the call, and each of them
        // is a live slice by IoSlice's lifetime. The kernel only reads.
        check_len(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags(more)) })
    })
}

/// Sends bytes `offset..offset + len` of `file` without copying them through this process, as
/// many as fit; 0 means that the file ends at or before `offset`. The file's own position is
/// neither used nor moved. May wait for the disk even when `socket` is non-blocking.
pub fn sendfile(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    const LEN_MAX: usize = 0x7fff_f000; // what the kernel takes per call
    let start = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    uninterrupted(|| {
        let mut position = start;
        // SAFETY: the pointer is to a live, writable off_t of this closure; both descriptors are
        // open for the duration of the call because they are borrowed.
        check_len(unsafe {
            libc::sendfile(
                socket.as_raw_fd(),
                file.as_raw_fd(),
                &raw mut position,
                len.min(LEN_MAX),
            )
        })
    })
}

fn flags(more: bool) -> libc::c_int {
    libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 }
}
