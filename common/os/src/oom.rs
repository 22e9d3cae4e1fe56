//! Which process the kernel ends when there is no memory left.

use std::fs;
use std::io;
use std::sync::OnceLock;

use crate::memory;

const FILE: &str = "/proc/self/oom_score_adj";
/// A bound on the memory of a process that only looks after others, with a margin.
const HEAD_START_BYTES: u64 = 8 << 20;
/// The score adjustment of a process that the kernel never ends for lack of memory.
const NEVER: i64 = -1000;
const MAX: i64 = 1000;

/// Has the kernel end the calling process before the one that started it (`oom_score_adj`): a
/// parent replaces a child that was ended, but nothing replaces the parent. By default the kernel
/// ends the process with most in memory, which may be a parent that would free nothing. In
/// comparison with other programs the preference counts as 8 MiB more in memory, or as the least
/// possible adjustment (a thousandth of all).
///
/// # Errors
/// Where /proc does not have the file; the kernel chooses by its own rules then.
pub fn end_before_parent() -> io::Result<()> {
    static POINTS: OnceLock<i64> = OnceLock::new();
    let own = fs::read_to_string(FILE)?.trim().parse().map_err(io::Error::other)?;
    // Where the amount of memory is unknown, the least possible adjustment.
    let points = POINTS.get_or_init(|| memory::usable_memory_bytes().map_or(1, points_of));
    fs::write(FILE, raised(own, *points).to_string())
}

/// Converts a share of the memory to points. A point is a thousandth of what may be used
/// (proc_pid_oom_score_adj(5)).
fn points_of(usable_bytes: u64) -> i64 {
    (HEAD_START_BYTES * 1000).div_ceil(usable_bytes.max(1)).min(MAX as u64) as i64
}

fn raised(own: i64, points: i64) -> i64 {
    if own == NEVER { own } else { (own + points).min(MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_start_is_one_of_memory() {
        assert_eq!([64 << 30, 160 << 20, 1 << 20, 0].map(points_of), [1, 50, 1000, 1000]);
    }

    #[test]
    fn who_is_never_to_be_ended_stays_so() {
        assert_eq!([-1000, -500, 0, 990].map(|own| raised(own, 50)), [-1000, -450, 50, 1000]);
    }
}
