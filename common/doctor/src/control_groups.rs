//! Limits on memory, disk and threads by the control groups we are in, both versions, the outer
//! groups included.

use std::collections::BTreeMap;

use super::finding::Section::Serving;
use super::machine::Machine;
use super::rule::{Check, Reading, Rule};

const OWN: &str = "/proc/self/cgroup";
const MEMORY: &str = "/proc/meminfo";

/// The threads that the groups' `pids.max` must allow: as many as other limits on threads must.
const THREADS_ENOUGH: u64 = 65_536;

const MEBIBYTE: f64 = (1 << 20) as f64;

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Serving,
        subject: "memory limit",
        source: "kernel: admin-guide/cgroup-v2 (memory.max, memory.high); Radhakrishnan 2019, 3.1",
        good: "none below the machine's memory",
        cost: "pages of the files served count as well: what does not fit is read from the disk \
               again, and `cache.bytes_max` must stay well below it",
        mend: "start it without one, or with more: docker run --memory, MemoryMax= and MemoryHigh= \
               (systemctl set-property UNIT MemoryMax= MemoryHigh=)",
        rule: Rule::Of(&[OWN, MEMORY], memory_limit),
    },
    Check {
        section: Serving,
        subject: "disk limit",
        source: "kernel: admin-guide/cgroup-v2 (io.max), admin-guide/cgroup-v1/blkio-controller",
        good: "none",
        cost: "however fast the disk is, what is not in memory comes no faster than this, and logs \
               are written no faster",
        mend: "start it without one: no docker run --device-read-bps and its like, no \
               IOReadBandwidthMax= and its like (systemctl set-property UNIT IOReadBandwidthMax=)",
        rule: Rule::Of(&[OWN], disk_limit),
    },
    Check {
        section: Serving,
        subject: "thread limit",
        source: "kernel: admin-guide/cgroup-v2 (pids.max)",
        good: "none below 65536",
        cost: "a thread for each connection ends there",
        mend: "start it with more: docker run --pids-limit, TasksMax= (systemctl set-property UNIT \
               TasksMax=infinity)",
        rule: Rule::Of(&[OWN], thread_limit),
    },
];

/// The lowest of the limits, which are in force together.
fn lowest(limits: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    limits.flatten().min_by(f64::total_cmp)
}

fn memory_limit(machine: &Machine) -> Reading {
    if machine.text(OWN).is_none() {
        return Reading::unreadable(OWN);
    }
    let total = machine.text(MEMORY).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? * 1024.0)
    });
    let Some(total) = total else { return Reading::unreadable(MEMORY) };
    let lowest_of = |names: &[&str]| {
        let limits = names.iter().flat_map(|name| machine.of_groups(name));
        lowest(limits.map(|(_, text)| text.parse::<f64>().ok())).filter(|limit| *limit < total)
    };
    let mebibytes = |bytes: f64| bytes / MEBIBYTE;
    let shown =
        |limit| format!("{:.0} MiB of the machine's {:.0}", mebibytes(limit), mebibytes(total));
    let max = lowest_of(&["memory.max", "memory.limit_in_bytes"]);
    let high = lowest_of(&["memory.high"]).filter(|high| max.is_none_or(|max| *high < max));
    match high.or(max) {
        None => Reading::fine("none"),
        Some(limit) if high.is_some() => Reading::wrong(format!(
            "{}; processes are slowed down above it (memory.high)",
            shown(limit)
        )),
        Some(limit) => Reading::wrong(shown(limit)),
    }
}

/// A bound on a disk's use.
struct DiskBound {
    /// Its key in `io.max`.
    key: &'static str,
    /// The file of version 1.
    file: &'static str,
    what: &'static str,
    unit: DiskUnit,
}

#[derive(Clone, Copy)]
enum DiskUnit {
    Bytes,
    Operations,
}

const DISK_BOUNDS: [DiskBound; 4] = [
    DiskBound {
        key: "rbps",
        file: "blkio.throttle.read_bps_device",
        what: "MiB read",
        unit: DiskUnit::Bytes,
    },
    DiskBound {
        key: "riops",
        file: "blkio.throttle.read_iops_device",
        what: "reads",
        unit: DiskUnit::Operations,
    },
    DiskBound {
        key: "wbps",
        file: "blkio.throttle.write_bps_device",
        what: "MiB written",
        unit: DiskUnit::Bytes,
    },
    DiskBound {
        key: "wiops",
        file: "blkio.throttle.write_iops_device",
        what: "writes",
        unit: DiskUnit::Operations,
    },
];

fn disk_limit(machine: &Machine) -> Reading {
    if machine.text(OWN).is_none() {
        return Reading::unreadable(OWN);
    }
    let mut lowest = BTreeMap::new();
    for (disk, kind, bound) in disk_bounds(machine) {
        let kept = lowest.entry((disk, kind)).or_insert(bound);
        *kept = bound.min(*kept);
    }
    let shown = |((disk, kind), bound): ((&str, usize), u64)| {
        let DiskBound { what, unit, .. } = DISK_BOUNDS[kind];
        match unit {
            DiskUnit::Bytes => {
                format!("disk {disk}: {:.1} {what} a second", bound as f64 / MEBIBYTE)
            }
            DiskUnit::Operations => format!("disk {disk}: {bound} {what} a second"),
        }
    };
    match lowest.is_empty() {
        true => Reading::fine("none"),
        false => Reading::wrong(lowest.into_iter().map(shown).collect::<Vec<_>>().join("; ")),
    }
}

/// All bounds that are in force: the disk's numbers, which of `DISK_BOUNDS`, and how much.
fn disk_bounds(machine: &Machine) -> Vec<(&str, usize, u64)> {
    let mut bounds = Vec::new();
    for (kind, DiskBound { key, file, .. }) in DISK_BOUNDS.iter().enumerate() {
        let unified = machine.of_groups("io.max").flat_map(|(_, text)| text.lines());
        bounds.extend(unified.filter_map(|line| {
            let mut words = line.split(' ');
            let disk = words.next()?;
            let value = words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))?;
            Some((disk, kind, value.parse().ok()?))
        }));
        // Version 1 treats groups within one another as if they stood side by side: ours counts.
        let own = machine.of_groups(file).max_by_key(|(folder, _)| folder.len());
        bounds.extend(own.into_iter().flat_map(|(_, text)| text.lines()).filter_map(|line| {
            let (disk, value) = line.split_once(' ')?;
            Some((disk, kind, value.parse().ok()?))
        }));
    }
    bounds
}

fn thread_limit(machine: &Machine) -> Reading {
    if machine.text(OWN).is_none() {
        return Reading::unreadable(OWN);
    }
    let limits = machine.of_groups("pids.max").map(|(_, text)| text.parse::<f64>().ok());
    match lowest(limits) {
        None => Reading::fine("none"),
        Some(limit) => Reading::fine_if(limit >= THREADS_ENOUGH as f64, format!("{limit:.0}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Unreadable, Wrong};
    use super::super::tests::check;
    use super::*;

    const UNIFIED: (&str, &str) = (OWN, "0::/a\n");

    const SEPARATE: (&str, &str) = (OWN, "2:cpu:/a\n");

    #[test]
    fn memory_is_limited_only_below_what_there_is() {
        let memory = (MEMORY, "MemTotal:       8388608 kB\nMemFree: 1 kB\n");
        check("memory limit", &[UNIFIED, memory, ("/g/a/memory.max", "max\n")], Fine);
        let none = ("/g/memory.limit_in_bytes", "9223372036854771712\n");
        check("memory limit", &[SEPARATE, memory, none], Fine);
        let reading =
            check("memory limit", &[UNIFIED, memory, ("/g/memory.max", "1073741824")], Wrong);
        assert_eq!(reading.found, "1024 MiB of the machine's 8192");
        check("memory limit", &[UNIFIED], Unreadable);
    }

    #[test]
    fn memory_may_be_held_back_before_it_is_refused() {
        let memory = (MEMORY, "MemTotal:       8388608 kB\n");
        let of = |max, high, verdict| {
            let files = [UNIFIED, memory, ("/g/a/memory.max", max), ("/g/memory.high", high)];
            check("memory limit", &files, verdict).found
        };
        let slowed =
            "1024 MiB of the machine's 8192; processes are slowed down above it (memory.high)";
        of("max\n", "max\n", Fine);
        of("max\n", "17179869184\n", Fine);
        assert_eq!(of("max\n", "1073741824\n", Wrong), slowed);
        assert_eq!(of("2147483648\n", "1073741824\n", Wrong), slowed);
        assert_eq!(of("1073741824\n", "2147483648\n", Wrong), "1024 MiB of the machine's 8192");
    }

    #[test]
    fn disks_are_bounded_by_all_groups_of_version_2() {
        let of = |text, verdict| {
            let outer = ("/g/io.max", "8:0 rbps=max wbps=max riops=50 wiops=max\n");
            check("disk limit", &[UNIFIED, outer, ("/g/a/io.max", text)], verdict).found
        };
        assert_eq!(of("", Wrong), "disk 8:0: 50 reads a second");
        let two = "8:0 rbps=1572864 wbps=max riops=100 wiops=7\n8:16 rbps=max wbps=1048576\n";
        assert_eq!(
            of(two, Wrong),
            "disk 8:0: 1.5 MiB read a second; disk 8:0: 50 reads a second; disk 8:0: 7 writes a \
             second; disk 8:16: 1.0 MiB written a second"
        );
        check("disk limit", &[UNIFIED, ("/g/io.max", "8:0 rbps=max wbps=max\n")], Fine);
        check("disk limit", &[UNIFIED], Fine);
        check("disk limit", &[], Unreadable);
    }

    #[test]
    fn disks_are_bounded_by_our_own_group_of_version_1() {
        let reads = ("/g/a/blkio.throttle.read_bps_device", "8:0 1048576\n");
        let reading = check("disk limit", &[SEPARATE, reads], Wrong);
        assert_eq!(reading.found, "disk 8:0: 1.0 MiB read a second");
        let own = ("/g/a/b/blkio.throttle.read_bps_device", "");
        check("disk limit", &[SEPARATE, reads, own], Fine);
        let writes = ("/g/a/blkio.throttle.write_iops_device", "8:0 9\n");
        assert_eq!(
            check("disk limit", &[SEPARATE, writes], Wrong).found,
            "disk 8:0: 9 writes a second"
        );
    }

    #[test]
    fn threads_are_limited_by_groups_too() {
        check("thread limit", &[UNIFIED, ("/g/a/pids.max", "max\n")], Fine);
        check("thread limit", &[UNIFIED, ("/g/a/pids.max", "100000\n")], Fine);
        check("thread limit", &[UNIFIED, ("/g/a/pids.max", "4915\n")], Wrong);
        check("thread limit", &[], Unreadable);
    }
}
