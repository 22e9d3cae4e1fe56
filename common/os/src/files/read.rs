//! Reading files at an offset; the descriptor's own position is neither used nor moved, so that
//! threads can share it.

use crate::call::{check_len, error, uninterrupted};
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, pread, preadv2, retry_on_intr};
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Reads into `buffer` from `offset` on. Fewer bytes than fit mean the end of the file is near
/// (or, on some file systems, nothing); 0 means that `offset` is at or past the end. May wait for
/// the disk.
pub fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(retry_on_intr(|| pread(file, &mut *buffer, offset))?)
}

/// The outcome of [`read_at_nowait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NowaitRead {
    /// This many bytes, the first ones of those requested; 0 is the end of the file. The rest may
    /// be beyond the end or not be in memory.
    Read(usize),
    /// Not even the first byte is in memory; the kernel has begun to fetch it.
    WouldBlock,
    /// This file system or kernel cannot tell.
    Unsupported,
}

/// The most pages that one call of [`read_nowhere_nowait`] checks.
pub const LOOKED_AT_MAX: usize = 64;

/// Reads into `buffer` from `offset` on the bytes that are available without waiting for the disk.
pub fn read_at_nowait(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<NowaitRead> {
    let slices = &mut [IoSliceMut::new(buffer)];
    nowait(offset, || Ok(preadv2(file, slices, offset, ReadWriteFlags::NOWAIT)?))
}

/// How many of the `len` bytes from `offset` on can be read without waiting for the disk. They are
/// read, which is the only reliable test, and discarded: all pages are read over each other into
/// the first bytes of `buffer`, which stays in the CPU's nearest cache. So the check costs one
/// call, and touches no more memory than the pages themselves. At most [`LOOKED_AT_MAX`] pages are
/// checked, fewer if `buffer` is shorter than one.
pub fn read_nowhere_nowait(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: u64,
    len: u64,
) -> io::Result<NowaitRead> {
    const PAGE_BYTES: usize = 4096;
    let place_len = PAGE_BYTES.min(buffer.len());
    let place = &mut buffer[..place_len];
    let mut vectors =
        [libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: 0 }; LOOKED_AT_MAX];
    let mut left = usize::try_from(len).unwrap_or(usize::MAX);
    let mut count = 0;
    while left > 0 && count < vectors.len() && !place.is_empty() {
        vectors[count].iov_len = place.len().min(left);
        left -= vectors[count].iov_len;
        count += 1;
    }
    // SAFETY: each vector describes a part of `place`, exclusively borrowed for the call. That they
    // overlap leaves open which bytes are there in the end: any bytes are valid u8s.
    nowait(offset, || unsafe { preadv2_nowait(file, &vectors[..count], offset) })
}

/// The outcome of `read`, which reads from `offset` on. To the kernel an offset beyond its own type
/// would be the open file's position.
fn nowait(offset: u64, read: impl FnMut() -> io::Result<usize>) -> io::Result<NowaitRead> {
    libc::off_t::try_from(offset).map_err(|_| error(libc::EINVAL))?;
    match uninterrupted(read) {
        Ok(len) => Ok(NowaitRead::Read(len)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(NowaitRead::WouldBlock),
            io::ErrorKind::Unsupported => Ok(NowaitRead::Unsupported),
            _ => Err(error),
        },
    }
}

/// Asks the kernel to begin fetching `len` bytes from `offset` on from the disk; may itself take
/// some 100 microseconds per MiB.
pub fn advise_will_need(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    libc::off_t::try_from(offset).map_err(|_| error(libc::EINVAL))?;
    let len = NonZeroU64::new(len.min(libc::off_t::MAX as u64));
    Ok(fadvise(file, offset, len, Advice::WillNeed)?)
}

/// Tells the kernel that reads of this open file follow no order: it reads what is requested, and
/// nothing ahead.
pub fn advise_random(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::Random)?)
}

/// Asks the kernel to drop the file's pages from memory. Pages that are not on the disk yet, mapped
/// or in use stay.
pub fn advise_dont_need(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Calls preadv2 with RWF_NOWAIT, by the call's number, because not every C library has the
/// function.
///
/// # Safety
/// Each vector describes memory that may be written for the length of the call, to any bytes.
unsafe fn preadv2_nowait(
    file: BorrowedFd<'_>,
    vectors: &[libc::iovec],
    offset: u64,
) -> io::Result<usize> {
    // The offset travels in two words; a 64-bit kernel takes all of it from the first.
    let (low, high) = (offset as libc::c_long, (offset >> 32) as libc::c_long);
    // SAFETY: pointer and count describe the vectors; the caller vouches for where they point.
    let returned = unsafe {
        let (file, count) = (file.as_raw_fd(), vectors.len() as libc::c_ulong);
        libc::syscall(libc::SYS_preadv2, file, vectors.as_ptr(), count, low, high, libc::RWF_NOWAIT)
    };
    check_len(returned as libc::ssize_t)
}
