//! The memory of a server's processes, from `/proc/PID/smaps_rollup`.
//!
//! User memory only: what the kernel holds for sockets is equal for every server.

use os::memory::field_bytes;
use std::fs;

/// Memory of one or several processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Resident bytes; a page that two processes share counts twice.
    pub resident_bytes: u64,
    /// Proportional set size: a page that n processes share counts 1/n in each.
    pub proportional_bytes: u64,
    /// Proportional bytes of anonymous memory, which no file is behind: neither the program nor
    /// libraries, which other servers of the same program share.
    pub own_bytes: u64,
}

/// The memory of `processes` together. A process that has ended counts as 0.
pub fn used_by(processes: &[u32]) -> Memory {
    let texts = processes
        .iter()
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok());
    texts.map(|text| parse(&text)).fold(Memory::default(), |sum, one| Memory {
        resident_bytes: sum.resident_bytes + one.resident_bytes,
        proportional_bytes: sum.proportional_bytes + one.proportional_bytes,
        own_bytes: sum.own_bytes + one.own_bytes,
    })
}

fn parse(rollup: &str) -> Memory {
    let bytes = |name: &str| field_bytes(rollup, name).unwrap_or(0);
    Memory {
        resident_bytes: bytes("Rss:"),
        proportional_bytes: bytes("Pss:"),
        own_bytes: bytes("Pss_Anon:") + bytes("Pss_Shmem:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollup_is_read() {
        let text = "55d0-7ffd ---p 00000000 00:00 0    [rollup]\n\
            Rss:                4500 kB\nPss:                1200 kB\nPss_Dirty:           100 kB\n\
            Pss_Anon:             90 kB\nPss_File:           1100 kB\nPss_Shmem:            10 kB\n";
        let expected = Memory {
            resident_bytes: 4500 * 1024,
            proportional_bytes: 1200 * 1024,
            own_bytes: 100 * 1024,
        };
        assert_eq!(parse(text), expected);
        assert_eq!(parse(""), Memory::default());
    }

    #[test]
    fn we_ourselves_have_some() {
        let memory = used_by(&[std::process::id()]);
        assert!(memory.proportional_bytes > 100 * 1024, "{memory:?}");
        assert!(memory.resident_bytes >= memory.proportional_bytes, "{memory:?}");
    }
}
