//! How much of a file can be sent without waiting for the disk: asked before each send by engines
//! in which somebody else waits for it.
//!
//! Sendfile itself cannot be told not to wait. To read without waiting (`RWF_NOWAIT`) is the one
//! honest test there is: mincore and cachestat answer only to who owns the file or may write it
//! (anybody else is told that all is there, or nothing), and cachestat counts pages that are still
//! under way. But reading costs a copy. So all bytes are read, into nowhere and in one call, when
//! nobody has done so in the last quarter of a second, no more than [`BLOCK_BYTES`] of them: that
//! much, or the part that is there, is sent, and then the next is asked for. Otherwise the first
//! and the last byte are: two calls without a copy, for all that is known and may be sent in a row;
//! and these only if nobody has done so in the last hundredth of a second. A file that is always
//! asked for costs nothing.
//!
//! What remains: pages in the middle that are evicted in that quarter of a second, and all of a
//! file in that hundredth. The kernel evicts last what was used last.

use std::os::fd::AsFd;

use os::files::NowaitRead;
use session::Tick;
use site::resource::{BLOCK_BYTES, OpenFile};

/// What [`sendable`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sendable {
    /// The number of bytes, more than 0, that are in memory; errors of the file are for sendfile to
    /// find.
    Now(u64),
    /// Not even the first byte is in memory.
    Cold,
    /// The file system cannot tell.
    Unknown,
}

/// How many of the `len` bytes from `offset` on can be sent at once. `buffer` is lent, a page of it
/// is enough.
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
        // No more than is asked for is read.
        os::files::advise_random(file.as_fd()).unwrap();
        file.read_exact(&mut vec![0; MIDDLE as usize]).unwrap();
        file.seek(SeekFrom::Start(LEN - 10)).unwrap();
        file.read_exact(&mut [0; 10]).unwrap();
        let known = os::files::read_at_nowait(file.as_fd(), &mut [0], MIDDLE).unwrap();
        match known {
            NowaitRead::WouldBlock => Some(file.into()),
            other => {
                println!("the target directory is on a file system that says {other:?}");
                None
            }
        }
    }

    /// A question about a page that is not there has the kernel begin to read it: the hole begins a
    /// page later each time.
    fn ends_in_the_middle(found: Sendable) -> bool {
        matches!(found, Sendable::Now(len) if (MIDDLE..BLOCK_BYTES).contains(&len))
    }

    #[test]
    fn a_hole_in_the_middle_is_found_though_both_ends_are_there() {
        let Some(file) = partly_resident("hole") else { return };
        let mut buffer = [0; 16 << 10];
        let mut ask = |offset, len| sendable(&file, offset, len, Tick(1_000_000), &mut buffer);
        assert!(ends_in_the_middle(ask(0, LEN)), "what is there is sent");
        assert!(ends_in_the_middle(ask(0, LEN)), "and so when it is known");
        assert_eq!(ask(MIDDLE - 10, 10), Sendable::Now(10));
        assert_eq!(ask(LEN - 10, 10), Sendable::Now(10));
        assert_eq!(ask(LEN, 10), Sendable::Now(10), "the end is for sendfile to find");
    }

    #[test]
    fn what_is_not_there_is_cold_and_what_was_seen_is_asked_for_by_its_ends() {
        let Some(file) = partly_resident("cold") else { return };
        let mut buffer = [0; 4096];
        let mut now = Tick(1_000_000);
        let mut ask = |offset, len, now| sendable(&file, offset, len, now, &mut buffer);
        assert_eq!(ask(BLOCK_BYTES, 100, now), Sendable::Cold);
        // Two blocks that were seen are sent in a row, if their ends are still there.
        file.residency().record(0, BLOCK_BYTES, now.0);
        file.residency().record(BLOCK_BYTES, BLOCK_BYTES, now.0);
        file.residency().record(2 * BLOCK_BYTES, LEN - 2 * BLOCK_BYTES, now.0);
        assert_eq!(ask(0, LEN, now), Sendable::Now(LEN));
        assert_eq!(ask(0, LEN - 100_000, now), Sendable::Now(LEN - 100_000), "nobody asks again");
        now.0 += 10_000;
        assert!(ends_in_the_middle(ask(0, LEN - 100_000, now)), "but a little later");
    }
}
