//! Reads from the disk: by the servers, and by all processes from the disk of the file set.

use super::Watched;
use crate::process;
use crate::testbed::{Device, Done, Enclosure};
use std::fs;
use std::path::Path;

/// Totals at one moment, or the differences between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    /// Bytes read for the servers.
    pub(super) read_bytes: Option<u64>,
    pub(super) reads: Option<u64>,
    /// Bytes and operations read for the servers from the disk of the file set, where their group
    /// names that disk.
    of_disk: Option<(u64, u64)>,
    /// What the disk of the file set has done for all processes.
    pub(super) device: Option<Done>,
}

impl Blocks {
    pub(super) fn read(watched: &Watched<'_>, processes: &[u32]) -> Self {
        let device = watched.device.as_ref();
        let folder = watched.enclosure.and_then(Enclosure::disk);
        let (all, of_disk) = match folder.and_then(|folder| read_group(folder, device)) {
            Some(((bytes, reads), of_disk)) => ((Some(bytes), Some(reads)), of_disk),
            None => ((read_processes(processes), None), None),
        };
        Self { read_bytes: all.0, reads: all.1, of_disk, device: device.and_then(read_device) }
    }

    /// The differences between two moments. Reads are those from the disk of the file set, if they
    /// are known: with disks that lie on others, such as those of LVM and md, the sum over all
    /// disks counts each read at every level.
    pub(super) fn between(first: &Self, last: &Self) -> Self {
        let more = |first: Option<u64>, last: Option<u64>| Some(last?.saturating_sub(first?));
        let device = first.device.zip(last.device).map(|(first, last)| Done {
            reads: last.reads.saturating_sub(first.reads),
            read_bytes: last.read_bytes.saturating_sub(first.read_bytes),
            written_bytes: last.written_bytes.saturating_sub(first.written_bytes),
            busy_ms: last.busy_ms.saturating_sub(first.busy_ms),
        });
        // The kernel names a disk only after the first read from it.
        let before = first.of_disk.unwrap_or_default();
        let of_disk = last
            .of_disk
            .map(|(bytes, reads)| (bytes.saturating_sub(before.0), reads.saturating_sub(before.1)));
        Self {
            read_bytes: of_disk.map(|it| it.0).or(more(first.read_bytes, last.read_bytes)),
            reads: of_disk.map(|it| it.1).or(more(first.reads, last.reads)),
            of_disk,
            device,
        }
    }
}

fn read_device(device: &Device) -> Option<Done> {
    device.done(&fs::read_to_string("/proc/diskstats").ok()?)
}

type Counted = (u64, u64);

/// Reads bytes and operations of a group of either version: summed over all disks, and of `device`.
fn read_group(folder: &Path, device: Option<&Device>) -> Option<(Counted, Option<Counted>)> {
    let read = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let (bytes, reads, count): (_, _, fn(&str, &str) -> Counted) = match read("io.stat") {
        Some(text) => (text.clone(), text, |bytes, reads| {
            (sum_io_stat(bytes, "rbytes="), sum_io_stat(reads, "rios="))
        }),
        None => (
            read("blkio.throttle.io_service_bytes_recursive")?,
            read("blkio.throttle.io_serviced_recursive")?,
            |bytes, reads| (sum_blkio(bytes), sum_blkio(reads)),
        ),
    };
    let of_disk = device.and_then(|device| {
        Some(count(&lines_naming(device, &bytes)?, &lines_naming(device, &reads)?))
    });
    Some((count(&bytes, &reads), of_disk))
}

/// The lines that name this disk, if there is one.
fn lines_naming(device: &Device, text: &str) -> Option<String> {
    let start = format!("{}:{} ", device.major, device.minor);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&start)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn sum_io_stat(text: &str, name: &str) -> u64 {
    let fields = text.split_whitespace().filter_map(|field| field.strip_prefix(name));
    fields.filter_map(|value| value.parse::<u64>().ok()).sum()
}

fn sum_blkio(text: &str) -> u64 {
    let reads = text.lines().filter_map(|line| line.split_once(" Read "));
    reads.filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// Sums the bytes that these processes had the disk read. Processes that have ended are missing.
/// None if this is known of no process.
fn read_processes(processes: &[u32]) -> Option<u64> {
    let known = processes.iter().filter_map(|pid| process::try_disk_bytes_read(*pid));
    known.reduce(|sum, bytes| sum + bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        let unified = "254:0 rbytes=4096 wbytes=512 rios=2 wios=1 dbytes=0 dios=0\n8:0 rbytes=1\n";
        assert_eq!((sum_io_stat(unified, "rbytes="), sum_io_stat(unified, "rios=")), (4097, 2));
        let separate = "254:0 Read 8192\n254:0 Write 512\n254:0 Total 8704\nTotal 8704\n";
        assert_eq!(sum_blkio(separate), 8192);
        assert_eq!((sum_blkio("Total 0\n"), sum_io_stat("", "rios=")), (0, 0));
    }

    /// Each read from a volume of LVM is also a read from the disk below it.
    #[test]
    fn a_disk_on_another_counts_alone() {
        let device = |minor| Device { name: "dm-0".into(), major: 253, minor };
        let check = |files: &[(&str, &str)]| {
            let folder = testkit::Temporary::new();
            for (name, text) in files {
                folder.file(name, text);
            }
            let of = |device: &Device| read_group(folder.path(), Some(device));
            assert_eq!(of(&device(0)), Some(((16_384, 4), Some((8192, 2)))), "{files:?}");
            assert_eq!(of(&device(1)), Some(((16_384, 4), None)), "{files:?}");
        };
        check(&[("io.stat", "254:0 rbytes=8192 rios=2\n253:0 rbytes=8192 wbytes=1 rios=2\n")]);
        check(&[
            ("blkio.throttle.io_service_bytes_recursive", "254:0 Read 8192\n253:0 Read 8192\n"),
            ("blkio.throttle.io_serviced_recursive", "254:0 Read 2\n253:0 Read 2\nTotal 4\n"),
        ]);
        let all = Blocks { read_bytes: Some(50), reads: Some(9), ..Blocks::default() };
        let named = Blocks { read_bytes: Some(70), of_disk: Some((10, 1)), ..all };
        let found = Blocks::between(&all, &named);
        assert_eq!((found.read_bytes, found.reads), (Some(10), Some(1)), "named since");
    }

    #[test]
    fn what_was_not_counted_stays_unknown() {
        let first = Blocks { read_bytes: Some(10), ..Blocks::default() };
        let last = Blocks { read_bytes: Some(30), reads: Some(3), ..Blocks::default() };
        let expected = Blocks { read_bytes: Some(20), ..Blocks::default() };
        assert_eq!(Blocks::between(&first, &last), expected);
    }
}
