//! Pressure stall information: how long tasks were held up for want of a resource.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

/// Microseconds in which at least one task (`some`), or all tasks that were not idle (`full`),
/// waited. None where the kernel does not keep them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pressure {
    /// At least one task waited for a CPU.
    pub cpu_some_us: Option<u64>,
    /// At least one task waited for memory to be reclaimed or read back.
    pub memory_some_us: Option<u64>,
    /// All tasks waited for memory.
    pub memory_full_us: Option<u64>,
    /// At least one task waited for the disk.
    pub io_some_us: Option<u64>,
    /// All tasks waited for the disk.
    pub io_full_us: Option<u64>,
}

impl Pressure {
    /// Reads the totals so far from the files of `cpu`, `memory` and `io`.
    pub(super) fn read(file: impl Fn(&str) -> PathBuf) -> Self {
        let [cpu, memory, io] =
            ["cpu", "memory", "io"].map(|kind| fs::read_to_string(file(kind)).unwrap_or_default());
        Self {
            cpu_some_us: total(&cpu, "some"),
            memory_some_us: total(&memory, "some"),
            memory_full_us: total(&memory, "full"),
            io_some_us: total(&io, "some"),
            io_full_us: total(&io, "full"),
        }
    }

    pub(super) fn between(first: &Self, last: &Self) -> Self {
        let more = |value: fn(&Self) -> Option<u64>| {
            value(first).zip(value(last)).map(|(first, last)| last.saturating_sub(first))
        };
        Self {
            cpu_some_us: more(|it| it.cpu_some_us),
            memory_some_us: more(|it| it.memory_some_us),
            memory_full_us: more(|it| it.memory_full_us),
            io_some_us: more(|it| it.io_some_us),
            io_full_us: more(|it| it.io_full_us),
        }
    }
}

fn total(text: &str, kind: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(kind))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read() {
        let text = "some avg10=28.14 avg60=15.44 avg300=9.34 total=21629096079\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!((total(text, "some"), total(text, "full")), (Some(21_629_096_079), Some(7)));
        assert_eq!(total("", "some"), None);
    }

    #[test]
    fn what_one_look_lacks_is_not_known() {
        let first = Pressure { io_some_us: Some(5), cpu_some_us: Some(1), ..Pressure::default() };
        let last = Pressure { io_some_us: Some(9), ..Pressure::default() };
        let expected = Pressure { io_some_us: Some(4), ..Pressure::default() };
        assert_eq!(Pressure::between(&first, &last), expected);
    }
}
