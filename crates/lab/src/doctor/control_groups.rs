//! What our control groups, and those around them, keep from us: processor time, memory, threads;
//! and whether a group of our own can be had to bound a server. Both versions.

use super::finding::Section::{Measuring, Serving};
use super::machine::Machine;
use super::rule::{Check, Look, Rule};

const OWN: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mounts";
const MEMORY: &str = "/proc/meminfo";
const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

/// As for the other limits on threads.
const THREADS_ENOUGH: u64 = 65_536;

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Measuring,
        subject: "CPU quota",
        source: "kernel: admin-guide/cgroup-v2 (cpu.max); Genevès 2012, III-D (all of every CPU)",
        good: "none",
        cost: "when the quota is used up everything stands still for the rest of the period, up to \
               100 ms: the slowest responses are the quota's",
        mend: "start it without one: no docker run --cpus, no CPUQuota= (systemctl set-property \
               UNIT CPUQuota=)",
        rule: Rule::Of(&[OWN], cpu_quota),
    },
    Check {
        section: Serving,
        subject: "memory limit",
        source: "kernel: admin-guide/cgroup-v2 (memory.max); Radhakrishnan 2019, 3.1",
        good: "none below the machine's memory",
        cost: "pages of the files served count as well: what does not fit is read from the disk \
               again, and `cache.bytes_max` must stay well below it",
        mend: "start it without one, or with more: docker run --memory, MemoryMax= (systemctl \
               set-property UNIT MemoryMax=)",
        rule: Rule::Of(&[OWN, MEMORY], memory_limit),
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
    Check {
        section: Measuring,
        subject: "memory controller",
        source: "Radhakrishnan 2019, 3.1 (memory set by the experiment)",
        good: "there, version 1 or 2",
        cost: "no memory pressure can be set: experiments with disk input are left out",
        mend: "boot with cgroup_enable=memory; in a container: docker run --privileged \
               --cgroupns=host",
        rule: Rule::Of(&[MOUNTS, CONTROLLERS], memory_controller),
    },
];

/// The lowest of the limits, which are in force together.
fn lowest(limits: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    limits.flatten().min_by(f64::total_cmp)
}

fn cpu_quota(machine: &Machine) -> Look {
    if machine.text(OWN).is_none() {
        return Look::unreadable(OWN);
    }
    let unified = machine.of_groups("cpu.max").map(|(_, text)| {
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    let separate = machine.of_groups("cpu.cfs_quota_us").map(|(folder, quota)| {
        let period = machine.number(&format!("{folder}/cpu.cfs_period_us"))?;
        // -1 stands for none.
        Some(quota.parse::<u64>().ok()? as f64 / period as f64)
    });
    match lowest(unified.chain(separate)) {
        None => Look::fine("none"),
        Some(cpus) => Look::wrong(format!("{cpus:.2} CPUs' worth of time")),
    }
}

fn memory_limit(machine: &Machine) -> Look {
    if machine.text(OWN).is_none() {
        return Look::unreadable(OWN);
    }
    let total = machine.text(MEMORY).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? * 1024.0)
    });
    let Some(total) = total else { return Look::unreadable(MEMORY) };
    let names = ["memory.max", "memory.limit_in_bytes"];
    let limits = names.into_iter().flat_map(|name| machine.of_groups(name));
    match lowest(limits.map(|(_, text)| text.parse::<f64>().ok())) {
        Some(limit) if limit < total => {
            let mebibytes = |bytes: f64| bytes / f64::from(1 << 20);
            let (limit, total) = (mebibytes(limit), mebibytes(total));
            Look::wrong(format!("{limit:.0} MiB of the machine's {total:.0}"))
        }
        _ => Look::fine("none"),
    }
}

fn thread_limit(machine: &Machine) -> Look {
    if machine.text(OWN).is_none() {
        return Look::unreadable(OWN);
    }
    let limits = machine.of_groups("pids.max").map(|(_, text)| text.parse::<f64>().ok());
    match lowest(limits) {
        None => Look::fine("none"),
        Some(limit) => Look::fine_if(limit >= THREADS_ENOUGH as f64, format!("{limit:.0}")),
    }
}

fn memory_controller(machine: &Machine) -> Look {
    let Some(mounts) = machine.text(MOUNTS) else { return Look::unreadable(MOUNTS) };
    let is_separate = mounts.lines().any(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        matches!(fields[..], [_, _, "cgroup", options, ..]
            if options.split(',').any(|option| option == "memory"))
    });
    let controllers = machine.text(CONTROLLERS).unwrap_or_default();
    match (is_separate, controllers.split(' ').any(|name| name == "memory")) {
        (true, _) => Look::fine("version 1"),
        (false, true) => Look::fine("version 2"),
        (false, false) => Look::wrong("none"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Unreadable, Wrong};
    use super::super::rule::tests::check;
    use super::*;

    const UNIFIED: (&str, &str) = (OWN, "0::/a\n");
    const SEPARATE: (&str, &str) = (OWN, "2:cpu:/a\n");

    #[test]
    fn quotas_of_both_versions() {
        check("CPU quota", &[UNIFIED, ("/g/a/cpu.max", "max 100000\n")], Fine);
        let look = check("CPU quota", &[UNIFIED, ("/g/a/cpu.max", "150000 100000\n")], Wrong);
        assert_eq!(look.found, "1.50 CPUs' worth of time");
        let separate = |quota: &'static str| {
            [SEPARATE, ("/g/a/cpu.cfs_quota_us", quota), ("/g/a/cpu.cfs_period_us", "100000\n")]
        };
        check("CPU quota", &separate("-1\n"), Fine);
        check("CPU quota", &separate("50000\n"), Wrong);
        check("CPU quota", &[], Unreadable);
    }

    #[test]
    fn the_tightest_group_counts() {
        let groups = [UNIFIED, ("/g/cpu.max", "50000 100000"), ("/g/a/cpu.max", "400000 100000")];
        assert_eq!(check("CPU quota", &groups, Wrong).found, "0.50 CPUs' worth of time");
    }

    #[test]
    fn memory_is_limited_only_below_what_there_is() {
        let memory = (MEMORY, "MemTotal:       8388608 kB\nMemFree: 1 kB\n");
        check("memory limit", &[UNIFIED, memory, ("/g/a/memory.max", "max\n")], Fine);
        let none = ("/g/memory.limit_in_bytes", "9223372036854771712\n");
        check("memory limit", &[SEPARATE, memory, none], Fine);
        let look =
            check("memory limit", &[UNIFIED, memory, ("/g/memory.max", "1073741824")], Wrong);
        assert_eq!(look.found, "1024 MiB of the machine's 8192");
        check("memory limit", &[UNIFIED], Unreadable);
    }

    #[test]
    fn threads_are_limited_by_groups_too() {
        check("thread limit", &[UNIFIED, ("/g/a/pids.max", "max\n")], Fine);
        check("thread limit", &[UNIFIED, ("/g/a/pids.max", "100000\n")], Fine);
        check("thread limit", &[UNIFIED, ("/g/a/pids.max", "4915\n")], Wrong);
        check("thread limit", &[], Unreadable);
    }

    #[test]
    fn memory_controllers_of_both_versions() {
        let separate = "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
        check("memory controller", &[(MOUNTS, separate)], Fine);
        let unified = (MOUNTS, "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        check("memory controller", &[unified, (CONTROLLERS, "cpu io memory pids\n")], Fine);
        check("memory controller", &[unified, (CONTROLLERS, "cpu io pids\n")], Wrong);
        check("memory controller", &[], Unreadable);
    }
}
