//! Control groups: the part of the machine that we are given, and whether groups for servers can be
//! made.

use ::doctor::Section::Measuring;
use ::doctor::{Check, Machine, Reading, Rule, STATUS};
use os::cpu_list;

const OWN: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mounts";
const ONLINE: &str = "/sys/devices/system/cpu/online";
const NODES: &str = "/sys/devices/system/node/has_memory";

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
        section: Measuring,
        subject: "CPU set",
        source: "kernel: admin-guide/cgroup-v2 (cpuset.cpus, cpuset.mems); Genevès 2012, III-D",
        good: "all CPUs and memory nodes of the machine",
        cost: "servers scale no further than these, whatever the machine has, and programs on \
               the others share caches and memory with them",
        mend: "start it without one: no docker run --cpuset-cpus or --cpuset-mems, no AllowedCPUs= \
               or AllowedMemoryNodes= (systemctl set-property UNIT AllowedCPUs=)",
        rule: Rule::Of(&[OWN, ONLINE, NODES], cpu_set),
    },
    Check {
        section: Measuring,
        subject: "memory controller",
        source: "Radhakrishnan 2019, 3.1 (memory set by the experiment)",
        good: "there, version 1 or 2, and for groups of our own",
        cost: "no memory pressure can be set: experiments with disk input are left out",
        mend: "boot with cgroup_enable=memory; in a container: docker run --privileged \
               --cgroupns=host",
        rule: Rule::Of(&[MOUNTS, STATUS], memory_controller),
    },
];

/// How many CPUs' worth of time a group of version 2 has, from its `cpu.max`; none: no bound.
pub(crate) fn cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

/// How many CPUs' worth of time a group of version 1 has, from its quota and its period in
/// microseconds; none: no bound, for which a quota of -1 stands.
pub(crate) fn cfs_quota(quota_us: f64, period_us: f64) -> Option<f64> {
    (quota_us >= 0.0).then(|| quota_us / period_us)
}

fn cpu_quota(machine: &Machine) -> Reading {
    if machine.text(OWN).is_none() {
        return Reading::unreadable(OWN);
    }
    let unified = machine.of_groups("cpu.max").map(|(_, text)| cpu_max(text));
    let separate = machine.of_groups("cpu.cfs_quota_us").map(|(folder, quota)| {
        let period = machine.number(&format!("{folder}/cpu.cfs_period_us"))?;
        cfs_quota(quota.parse().ok()?, period as f64)
    });
    // All of them are in force together.
    match unified.chain(separate).flatten().min_by(f64::total_cmp) {
        None => Reading::fine("none"),
        Some(cpus) => Reading::wrong(format!("{cpus:.2} CPUs' worth of time")),
    }
}

fn cpu_set(machine: &Machine) -> Reading {
    if machine.text(OWN).is_none() {
        return Reading::unreadable(OWN);
    }
    if machine.text(ONLINE).is_none() {
        return Reading::unreadable(ONLINE);
    }
    let cpus = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
    let nodes = ["cpuset.mems.effective", "cpuset.effective_mems"];
    let parts = [part(machine, cpus, "CPUs", ONLINE), part(machine, nodes, "memory nodes", NODES)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => Reading::fine("none"),
        false => Reading::wrong(parts.join("; ")),
    }
}

/// What part of all that is in the file `all` the narrowest of the groups has; none if it is all.
fn part(machine: &Machine, files: [&str; 2], what: &str, all: &str) -> Option<String> {
    let all = machine.text(all)?;
    let sets = files.iter().flat_map(|file| machine.of_groups(file));
    let sets = sets.map(|(_, set)| set).filter(|set| !set.is_empty());
    let narrowest = sets.min_by_key(|set| cpu_list::numbers(set).len())?;
    let is_part = cpu_list::numbers(narrowest).len() < cpu_list::numbers(all).len();
    is_part.then(|| format!("{what} {narrowest} of {all}"))
}

/// As `testbed/enclosure.rs` makes groups: at the top of a hierarchy, whose mount must let it, and
/// which must hand the controller on.
fn memory_controller(machine: &Machine) -> Reading {
    let Some(mounts) = machine.text(MOUNTS) else { return Reading::unreadable(MOUNTS) };
    let has_memory = |text: &str| text.split([',', ' ']).any(|name| name == "memory");
    let is_in =
        |mount: &str, file: &str| machine.text(&format!("{mount}/{file}")).is_some_and(has_memory);
    let unified = hierarchies(mounts, "cgroup2")
        .next()
        .filter(|mount| is_in(mount.point, "cgroup.controllers"));
    let separate = hierarchies(mounts, "cgroup").find(|mount| has_memory(mount.options));
    match (separate, unified) {
        (Some(mount), _) => can_be_had(machine, 1, &mount),
        (None, Some(mount)) if mount.is_read_only() => can_be_had(machine, 2, &mount),
        (None, Some(mount)) => match is_in(mount.point, "cgroup.subtree_control") {
            true => can_be_had(machine, 2, &mount),
            false => kept_back(mount.point),
        },
        (None, None) => Reading::wrong("none"),
    }
}

/// Version 2 gives a controller to those groups only that it is handed on to.
fn kept_back(point: &str) -> Reading {
    let found = format!("version 2, but {point} hands it on to no group (cgroup.subtree_control)");
    let mend = format!(
        "echo +memory > {point}/cgroup.subtree_control (in a container: docker run --privileged \
         --cgroupns=host)"
    );
    Reading { mend: Some(mend), ..Reading::wrong(found) }
}

/// Whether groups can be made where the controller is.
fn can_be_had(machine: &Machine, version: u8, mount: &Mount<'_>) -> Reading {
    let point = mount.point;
    match (mount.is_read_only(), machine.is_root()) {
        (true, _) => Reading {
            mend: Some(format!(
                "mount -o remount,rw {point}; in a container: docker run --privileged \
                 --cgroupns=host"
            )),
            ..Reading::wrong(format!("version {version}, but {point} is mounted read-only"))
        },
        (false, true) => Reading::fine(format!("version {version}")),
        (false, false) => Reading::fine(format!("version {version}, for root only")),
    }
}

struct Mount<'m> {
    point: &'m str,
    options: &'m str,
}

impl Mount<'_> {
    fn is_read_only(&self) -> bool {
        self.options.split(',').any(|option| option == "ro")
    }
}

/// The hierarchies of a kind: `cgroup` is version 1, `cgroup2` version 2.
fn hierarchies<'m>(mounts: &'m str, kind: &str) -> impl Iterator<Item = Mount<'m>> {
    mounts.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [_, point, is, options, ..] = fields[..] else { return None };
        (is == kind).then_some(Mount { point, options })
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use ::doctor::Verdict::{Fine, Unreadable, Wrong};

    const UNIFIED: (&str, &str) = (OWN, "0::/a\n");

    const SEPARATE: (&str, &str) = (OWN, "2:cpu:/a\n");

    #[test]
    fn quotas_of_both_versions() {
        check("CPU quota", &[UNIFIED, ("/g/a/cpu.max", "max 100000\n")], Fine);
        let reading = check("CPU quota", &[UNIFIED, ("/g/a/cpu.max", "150000 100000\n")], Wrong);
        assert_eq!(reading.found, "1.50 CPUs' worth of time");
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
    fn cpus_and_memory_nodes_may_be_a_part_of_all() {
        let (cpus, nodes) = ((ONLINE, "0-15\n"), (NODES, "0-1\n"));
        let of = |file, set, verdict| {
            let files = [UNIFIED, cpus, nodes, ("/g/cpuset.cpus.effective", "0-15\n"), (file, set)];
            check("CPU set", &files, verdict).found
        };
        assert_eq!(of("/g/a/cpuset.cpus.effective", "0-15\n", Fine), "none");
        assert_eq!(of("/g/a/cpuset.cpus.effective", "\n", Fine), "none");
        assert_eq!(of("/g/a/cpuset.cpus.effective", "0-3,8\n", Wrong), "CPUs 0-3,8 of 0-15");
        assert_eq!(of("/g/a/cpuset.effective_cpus", "4\n", Wrong), "CPUs 4 of 0-15");
        assert_eq!(of("/g/a/cpuset.mems.effective", "1\n", Wrong), "memory nodes 1 of 0-1");
        assert_eq!(of("/g/a/cpuset.effective_mems", "0\n", Wrong), "memory nodes 0 of 0-1");
        check("CPU set", &[SEPARATE, cpus], Fine);
        check("CPU set", &[UNIFIED], Unreadable);
        check("CPU set", &[cpus], Unreadable);
    }

    #[test]
    fn memory_controllers_of_both_versions() {
        let separate = "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n";
        let reading = check("memory controller", &[(MOUNTS, separate)], Fine);
        assert_eq!(reading.found, "version 1, for root only");
        let root = (STATUS, "Uid:\t0\t0\t0\t0\n");
        let reading = check("memory controller", &[(MOUNTS, separate), root], Fine);
        assert_eq!(reading.found, "version 1");
        let unified = (MOUNTS, "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        let of = |all, handed_on, verdict| {
            let files = [(CONTROLLERS, all), (HANDED_ON, handed_on)];
            check("memory controller", &[&[unified, root][..], &files].concat(), verdict)
        };
        assert_eq!(of("cpu io memory pids\n", "cpu memory\n", Fine).found, "version 2");
        assert_eq!(of("cpu io pids\n", "cpu\n", Wrong), Reading::wrong("none"));
        let reading = of("cpu io memory pids\n", "cpu pids\n", Wrong);
        let mend = "echo +memory > /sys/fs/cgroup/cgroup.subtree_control ";
        assert!(reading.mend.is_some_and(|told| told.starts_with(mend)), "as enclosure.rs has it");
        check("memory controller", &[], Unreadable);
    }

    const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

    const HANDED_ON: &str = "/sys/fs/cgroup/cgroup.subtree_control";

    /// As most containers have it.
    #[test]
    fn no_group_can_be_made_where_nothing_can_be_written() {
        let check = |mount: &str, expected: &str| {
            let mount = mount.replace("rw", "ro,nosuid");
            let files = [(MOUNTS, &*mount), (CONTROLLERS, "cpu memory\n"), (HANDED_ON, "memory\n")];
            let reading = check("memory controller", &files, Wrong);
            assert_eq!(reading.found, expected);
            assert!(
                reading.mend.is_some_and(|mend| mend.starts_with("mount -o remount,rw /sys/fs/"))
            );
        };
        check(
            "cgroup2 /sys/fs/cgroup cgroup2 rw,relatime 0 0\n",
            "version 2, but /sys/fs/cgroup is mounted read-only",
        );
        check(
            "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n",
            "version 1, but /sys/fs/cgroup/memory is mounted read-only",
        );
    }

    /// Both versions may be mounted; the controller is bound to one of them.
    #[test]
    fn a_hybrid_has_the_controller_in_one_of_both() {
        let both = "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
            cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        let found = check("memory controller", &[(MOUNTS, both)], Fine).found;
        assert_eq!(found, "version 1, for root only");
        let unified = ("/sys/fs/cgroup/unified/cgroup.controllers", "memory\n");
        let on = ("/sys/fs/cgroup/unified/cgroup.subtree_control", "memory\n");
        let only = (MOUNTS, "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
        let found = check("memory controller", &[only, unified, on], Fine).found;
        assert_eq!(found, "version 2, for root only");
    }
}
