//! Reading files at an offset; the descriptor's own position is neither used nor moved, so that
//! threads can share it.

use crate::call::{check_len, error, uninterrupted};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reads into `buffer` from `offset` on. Fewer bytes than fit mean the end of the file is near
/// (or, on some file systems, nothing); 0 means that `offset` is at or past the end. May wait for
/// the disk.
pub fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let position = libc::off_t::try_from(offset).map_err(|_| error(libc::EINVAL))?;
    uninterrupted(|| {
        // SAFETY: pointer and length describe `buffer`, exclusively borrowed for the call; any
        // bytes are valid u8s.
        check_len(unsafe {
            let (pointer, len) = (buffer.as_mut_ptr().cast(), buffer.len());
            libc::pread(file.as_raw_fd(), pointer, len, position)
        })
    })
}

/// What [`read_at_nowait`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NowaitRead {
    /// So many bytes, the first ones of those asked for; 0 is the end of the file. The rest may
    /// be beyond the end or not be in memory.
    Read(usize),
    /// Not even the first byte is in memory; the kernel has begun to fetch it.
    WouldBlock,
    /// This file system or kernel cannot tell.
    Unsupported,
}

/// Reads into `buffer` from `offset` on what can be had without waiting for the disk.
pub fn read_at_nowait(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<NowaitRead> {
    libc::off_t::try_from(offset).map_err(|_| error(libc::EINVAL))?;
    match uninterrupted(|| preadv2_nowait(file, buffer, offset)) {
        Ok(len) => Ok(NowaitRead::Read(len)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(NowaitRead::WouldBlock),
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(NowaitRead::Unsupported),
            _ => Err(error),
        },
    }
}

/// Asks the kernel to begin fetching `len` bytes from `offset` on from the disk; may itself take
/// some 100 microseconds per MiB.
pub fn advise_will_need(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let position = libc::off_t::try_from(offset).map_err(|_| error(libc::EINVAL))?;
    let len = libc::off_t::try_from(len).unwrap_or(libc::off_t::MAX);
    // SAFETY: posix_fadvise takes no pointers, and the descriptor is open.
    let code =
        unsafe { libc::posix_fadvise(file.as_raw_fd(), position, len, libc::POSIX_FADV_WILLNEED) };
    if code == 0 { Ok(()) } else { Err(error(code)) }
}

/// Asks the kernel to drop what it keeps of the file in memory. Pages that are not on the disk yet,
/// mapped or in use stay.
pub fn advise_dont_need(file: BorrowedFd<'_>) -> io::Result<()> {
    const WHOLE: libc::off_t = 0;
    // SAFETY: posix_fadvise takes no pointers, and the descriptor is open.
    let code =
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, WHOLE, libc::POSIX_FADV_DONTNEED) };
    if code == 0 { Ok(()) } else { Err(error(code)) }
}

/// By number, because not every C library has the function.
fn preadv2_nowait(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    const COUNT: libc::c_ulong = 1;
    // The offset travels in two words; a 64-bit kernel takes all of it from the first.
    let (low, high) = (offset as libc::c_long, (offset >> 32) as libc::c_long);
    // SAFETY: the pointer is to one iovec of this frame, which describes `buffer`, exclusively
    // borrowed for the call; any bytes are valid u8s.
    let returned = unsafe {
        let vector = &raw const vector;
        let file = file.as_raw_fd();
        libc::syscall(libc::SYS_preadv2, file, vector, COUNT, low, high, libc::RWF_NOWAIT)
    };
    check_len(returned as libc::ssize_t)
}
