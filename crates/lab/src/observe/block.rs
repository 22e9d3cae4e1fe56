//! What was read from the disk: for the servers, and by the disk of the file set as a whole.

use super::Watched;
use crate::domain::{Device, Done, Enclosure};
use crate::process;
use std::fs;
use std::path::Path;

/// Totals at one moment, or what was added between two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    /// For the servers.
    pub(super) read_bytes: Option<u64>,
    pub(super) reads: Option<u64>,
    /// For everybody.
    pub(super) device: Option<Done>,
}

impl Blocks {
    pub(super) fn read(watched: &Watched<'_>, processes: &[u32]) -> Self {
        let counted = watched.enclosure.and_then(Enclosure::disk).and_then(of_group);
        let (read_bytes, reads) = match counted {
            Some((bytes, reads)) => (Some(bytes), Some(reads)),
            None => (of_processes(processes), None),
        };
        let device = watched.device.as_ref().and_then(of_device);
        Self { read_bytes, reads, device }
    }

    pub(super) fn between(first: &Self, last: &Self) -> Self {
        let more = |first: Option<u64>, last: Option<u64>| Some(last?.saturating_sub(first?));
        let device = first.device.zip(last.device).map(|(first, last)| Done {
            reads: last.reads.saturating_sub(first.reads),
            read_bytes: last.read_bytes.saturating_sub(first.read_bytes),
            written_bytes: last.written_bytes.saturating_sub(first.written_bytes),
            busy_ms: last.busy_ms.saturating_sub(first.busy_ms),
        });
        Self {
            read_bytes: more(first.read_bytes, last.read_bytes),
            reads: more(first.reads, last.reads),
            device,
        }
    }
}

fn of_device(device: &Device) -> Option<Done> {
    device.done(&fs::read_to_string("/proc/diskstats").ok()?)
}

/// Bytes and operations, summed over all disks, of either version.
fn of_group(folder: &Path) -> Option<(u64, u64)> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    if let Some(text) = read("io.stat") {
        return Some((of_io_stat(&text, "rbytes="), of_io_stat(&text, "rios=")));
    }
    let bytes = read("blkio.throttle.io_service_bytes_recursive")?;
    let reads = read("blkio.throttle.io_serviced_recursive")?;
    Some((of_blkio(&bytes), of_blkio(&reads)))
}

fn of_io_stat(text: &str, name: &str) -> u64 {
    let fields = text.split_whitespace().filter_map(|field| field.strip_prefix(name));
    fields.filter_map(|value| value.parse::<u64>().ok()).sum()
}

fn of_blkio(text: &str) -> u64 {
    let reads = text.lines().filter_map(|line| line.split_once(" Read "));
    reads.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// Those that have ended are missing. None if no process says anything.
fn of_processes(processes: &[u32]) -> Option<u64> {
    let said = processes.iter().filter_map(|pid| process::try_disk_bytes_read(*pid));
    said.reduce(|sum, bytes| sum + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let unified = "254:0 rbytes=4096 wbytes=512 rios=2 wios=1 dbytes=0 dios=0\n8:0 rbytes=1\n";
        assert_eq!((of_io_stat(unified, "rbytes="), of_io_stat(unified, "rios=")), (4097, 2));
        let separate = "254:0 Read 8192\n254:0 Write 512\n254:0 Total 8704\nTotal 8704\n";
        assert_eq!(of_blkio(separate), 8192);
        assert_eq!((of_blkio("Total 0\n"), of_io_stat("", "rios=")), (0, 0));
    }

    #[test]
    fn what_was_not_counted_stays_unknown() {
        let first = Blocks { read_bytes: Some(10), ..Blocks::default() };
        let last = Blocks { read_bytes: Some(30), reads: Some(3), ..Blocks::default() };
        let expected = Blocks { read_bytes: Some(20), ..Blocks::default() };
        assert_eq!(Blocks::between(&first, &last), expected);
    }
}
