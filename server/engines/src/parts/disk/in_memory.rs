//! How much of a file can be sent without waiting for the disk: determined before each send by
//! engines in which other connections would wait for it.
//!
//! Sendfile has no mode that does not wait. Reading without waiting (`RWF_NOWAIT`) is the only
//! reliable test: mincore and cachestat give a true answer only to a caller that owns the file or
//! may write it (for any other caller all pages are reported as present, or none), and cachestat
//! counts pages that are still under way. But reading costs a copy. So all bytes, at most
//! [`BLOCK_BYTES`] of them, are read in one call whose data are dropped, if no thread has done so
//! in the last quarter of a second: that block, or the part that is in memory, is sent, and then
//! the next one is read. Otherwise only the first and the last byte of all that is known and may
//! be sent in a row are read: two calls without a copy; and these only if no thread has done so in
//! the last hundredth of a second. A file that is requested all the time costs nothing.
//!
//! The test misses pages in the middle that are evicted in that quarter of a second, and all of a
//! file in that hundredth. The kernel evicts last the pages that were used last.

use std::os::fd::AsFd;

use os::files::NowaitRead;
use session::Tick;
use site::resource::{BLOCK_BYTES, OpenFile};

/// The outcome of [`sendable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sendable {
    /// The number of bytes, more than 0, that are in memory. Also after an error of the file:
    /// sendfile will report it.
    Now(u64),
    /// Not even the first byte is in memory.
    Cold,
    /// The file system cannot tell.
    Unknown,
}

/// How many of the `len` bytes from `offset` on can be sent at once. `buffer` is scratch space, for
/// which one page is enough.
pub(crate) fn sendable(
    file: &OpenFile,
    offset: u64,
    len: u64,
    now: Tick,
    buffer: &mut [u8],
) -> Sendable {
    let residency = file.residency();
    let known = residency.known_len(offset, len, now.0);
    if known > 0 {
        let ends = [offset, offset + known - 1];
        if residency.is_certain(ends, now.0) {
            return Sendable::Now(known);
        }
        if ends.iter().all(|end| is_there(file, *end)) {
            residency.confirm(ends, now.0);
            return Sendable::Now(known);
        }
    }
    let len = len.min(BLOCK_BYTES - offset % BLOCK_BYTES);
    match os::files::read_nowhere_nowait(file.as_fd(), buffer, offset, len) {
        Ok(NowaitRead::Read(seen)) if seen > 0 => {
            residency.record(offset, seen as u64, now.0);
            Sendable::Now(seen as u64)
        }
        // The end of a file that has become shorter, or an error.
        Ok(NowaitRead::Read(_)) | Err(_) => Sendable::Now(len),
        Ok(NowaitRead::WouldBlock) => Sendable::Cold,
        Ok(NowaitRead::Unsupported) => Sendable::Unknown,
    }
}

fn is_there(file: &OpenFile, offset: u64) -> bool {
    let read = os::files::read_at_nowait(file.as_fd(), &mut [0], offset);
    !matches!(read, Ok(NowaitRead::WouldBlock | NowaitRead::Unsupported))
}

const _: () = assert!(BLOCK_BYTES <= 4096 * os::files::LOOKED_AT_MAX as u64, "one call does");

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::io::{Read, Seek, SeekFrom};

    const LEN: u64 = 700_000;
    const MIDDLE: u64 = 100 << 10;

    /// A file that is in memory up to [`MIDDLE`] and at its end, unless this file system cannot
    /// evict or cannot tell.
    fn partly_resident(name: &str) -> Option<OpenFile> {
        let path = std::env::current_exe().unwrap().with_extension(name);
        fs::write(&path, vec![1; LEN as usize]).unwrap();
        let mut file = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file.sync_all().unwrap();
        os::files::advise_dont_need(file.as_fd()).unwrap();
        // The kernel reads only the pages that are requested.
        os::files::advise_random(file.as_fd()).unwrap();
        // It may evict pages that were just read: then they are read again.
        testkit::wait_until(|| {
            file.rewind().unwrap();
            file.read_exact(&mut vec![0; MIDDLE as usize]).unwrap();
            file.seek(SeekFrom::Start(LEN - 10)).unwrap();
            file.read_exact(&mut [0; 10]).unwrap();
            let there = os::files::read_nowhere_nowait(file.as_fd(), &mut [0; 4096], 0, MIDDLE);
            !matches!(there, Ok(NowaitRead::Read(len)) if (len as u64) < MIDDLE)
                && !matches!(there, Ok(NowaitRead::WouldBlock))
        });
        let known = os::files::read_at_nowait(file.as_fd(), &mut [0], MIDDLE).unwrap();
        match known {
            NowaitRead::WouldBlock => Some(file.into()),
            other => {
                println!("the target directory is on a file system that says {other:?}");
                None
            }
        }
    }

    /// Whether the bytes in memory end in the middle. A query about a page that is not in memory
    /// has the kernel begin to read it: the hole begins a page later each time.
    fn ends_in_the_middle(found: Sendable) -> bool {
        matches!(found, Sendable::Now(len) if (MIDDLE..BLOCK_BYTES).contains(&len))
    }

    /// Checks what holds for such a file as long as the kernel evicts none of its pages; if it
    /// does, with another one.
    fn check(name: &str, holds: impl Fn(&OpenFile) -> bool) {
        assert!(testkit::comes_true(|| partly_resident(name).is_none_or(|file| holds(&file))));
    }

    #[test]
    fn a_hole_in_the_middle_is_found_though_both_ends_are_there() {
        check("hole", |file| {
            let mut buffer = [0; 16 << 10];
            let mut query = |offset, len| sendable(file, offset, len, Tick(1_000_000), &mut buffer);
            // The part in memory is sent, also once it is known; the end is for sendfile to find.
            ends_in_the_middle(query(0, LEN))
                && ends_in_the_middle(query(0, LEN))
                && query(MIDDLE - 10, 10) == Sendable::Now(10)
                && query(LEN - 10, 10) == Sendable::Now(10)
                && query(LEN, 10) == Sendable::Now(10)
        });
    }

    #[test]
    fn absent_bytes_are_cold() {
        check("cold", |file| {
            sendable(file, BLOCK_BYTES, 100, Tick(1_000_000), &mut [0; 4096]) == Sendable::Cold
        });
    }

    #[test]
    fn known_bytes_are_tested_by_their_ends_and_a_little_later_all_are() {
        check("known", |file| {
            let (mut buffer, now) = ([0; 4096], 1_000_000);
            file.residency().record(0, BLOCK_BYTES, now);
            file.residency().record(BLOCK_BYTES, BLOCK_BYTES, now);
            file.residency().record(2 * BLOCK_BYTES, LEN - 2 * BLOCK_BYTES, now);
            let mut query = |len, now| sendable(file, 0, len, Tick(now), &mut buffer);
            query(LEN, now) == Sendable::Now(LEN)
                && query(LEN - 100_000, now) == Sendable::Now(LEN - 100_000)
                && ends_in_the_middle(query(LEN - 100_000, now + 10_000))
        });
    }
}
