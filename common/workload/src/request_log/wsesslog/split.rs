//! A log cut into parts that are read at the same time.

use memchr::memmem;

use super::reader;
use super::{LogError, Notes};
use crate::request_log::Builder;

/// The smallest part: below this a thread costs more than it saves.
const PART_BYTES_MIN: usize = 1 << 20;

type Read = Result<(Builder, Notes), LogError>;

/// Reads `bytes` with as many threads as are worthwhile, up to `threads`. `None` if one thread is
/// enough, or if anything is wrong.
pub(super) fn read_parts(
    bytes: &[u8],
    default_think_us: u64,
    threads: usize,
) -> Option<(Builder, Notes)> {
    read_with_threads(bytes, default_think_us, threads.min(bytes.len() / PART_BYTES_MIN))
}

/// Reads `bytes` with `count` threads, a part each, however short the parts. `None` if `count` is
/// less than 2, or if anything is wrong.
pub(super) fn read_with_threads(
    bytes: &[u8],
    default_think_us: u64,
    count: usize,
) -> Option<(Builder, Notes)> {
    if count < 2 {
        return None;
    }
    let parts = cut(bytes, count);
    let read: Vec<Read> = std::thread::scope(|scope| {
        let start = |part| scope.spawn(move || reader::read(part, default_think_us));
        let threads: Vec<_> = parts.into_iter().map(start).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Read>| match thread.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    });
    // In the order of the parts, so that templates are numbered as one reader would.
    let mut read = read.into_iter();
    let (mut builder, mut notes) = read.next()?.ok()?;
    for part in read {
        let (next, more) = part.ok()?;
        builder.append(next);
        notes.add(&more);
    }
    builder.error().is_none().then_some((builder, notes))
}

/// About `count` parts of equal length, cut after blank lines only.
fn cut(bytes: &[u8], count: usize) -> Vec<&[u8]> {
    let mut parts = Vec::with_capacity(count);
    let mut start = 0;
    for index in 1..count {
        let wished = (bytes.len() / count * index).max(start);
        let Some(end) = after_blank_line(bytes, wished) else { break };
        parts.push(&bytes[start..end]);
        start = end;
    }
    parts.push(&bytes[start..]);
    parts
}

/// The end of the first session that ends after `from`. A blank line after a backslash may be part
/// of contents that go over several lines, and is passed over.
fn after_blank_line(bytes: &[u8], from: usize) -> Option<usize> {
    memmem::find_iter(&bytes[from..], b"\n\n")
        .map(|found| from + found)
        .find(|&at| at > 0 && bytes[at - 1] != b'\\')
        .map(|at| at + 2)
}
