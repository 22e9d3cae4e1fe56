//! What bends or blurs measurements of processors: frequencies, shared cores, a host that takes
//! time, other programs. Not how many processors we may use: see `control_groups.rs`.

use ::doctor::Section::Measuring;
use ::doctor::{Check, Machine, Reading, Rule, STATUS};
use os::cpu_list;

const GOVERNORS: &str = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
const NO_TURBO: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
const BOOST: &str = "/sys/devices/system/cpu/cpufreq/boost";
const SMT: &str = "/sys/devices/system/cpu/smt/active";
const SIBLINGS: &str = "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list";
const CPU_INFO: &str = "/proc/cpuinfo";
const HYPERVISOR: &str = "/sys/hypervisor/type";
const MAKER: &str = "/sys/class/dmi/id/sys_vendor";
const PRODUCT: &str = "/sys/class/dmi/id/product_name";
const TREE_HYPERVISOR: &str = "/proc/device-tree/hypervisor/compatible";
const TREE_MACHINE: &str = "/proc/device-tree/compatible";
const TREE_MODEL: &str = "/proc/device-tree/model";
const STAT: &str = "/proc/stat";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
const LOAD: &str = "/proc/loadavg";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Measuring,
        subject: "frequency governor",
        source: "kernel: admin-guide/pm/cpufreq",
        good: "performance, on every CPU",
        cost: "the clock follows the load, late: a server that is half idle looks slower per \
               request than a busy one",
        mend: "cpupower frequency-set -g performance",
        rule: Rule::Of(&[GOVERNORS], governor),
    },
    Check {
        section: Measuring,
        subject: "turbo",
        source: "kernel: admin-guide/pm/intel_pstate, cpufreq (boost)",
        good: "off",
        cost: "few busy cores are clocked higher than many: scaling by cores looks worse than it \
               is, and results depend on the temperature",
        mend: "echo 0 > /sys/devices/system/cpu/cpufreq/boost (intel_pstate: echo 1 > \
               /sys/devices/system/cpu/intel_pstate/no_turbo)",
        rule: Rule::Of(&[NO_TURBO, BOOST], turbo),
    },
    Check {
        section: Measuring,
        subject: "SMT",
        source: "Radhakrishnan 2019, 2.1 (sharing within a core)",
        good: "off, or one CPU of each core used",
        cost: "two CPUs share a core: the second adds a part of what the first can do, and \
               the generator slows the server down",
        mend: "echo off > /sys/devices/system/cpu/smt/control, or start it on one CPU of each core \
               (taskset -c)",
        rule: Rule::Of(&[SMT, STATUS, SIBLINGS], smt),
    },
    Check {
        section: Measuring,
        subject: "virtualisation",
        source: "Genevès 2012, III-B; Hashemian 2013: bare machines",
        good: "none",
        cost: "other guests share caches, memory bandwidth and time, and system calls and \
               interrupts cost more: numbers hold for this guest at this hour",
        mend: "measure on a machine of your own; else repeat, interleave and look at the intervals",
        rule: Rule::Of(
            &[CPU_INFO, HYPERVISOR, MAKER, PRODUCT, TREE_HYPERVISOR, TREE_MACHINE, TREE_MODEL],
            virtualisation,
        ),
    },
    Check {
        section: Measuring,
        subject: "steal time",
        source: "proc(5), /proc/stat",
        good: "at most 1 % of the busy time since the start",
        cost: "the host gave our time to others: what a server did not do in it is counted \
               against the server",
        mend: "measure at another hour or on another host, and repeat",
        rule: Rule::Of(&[STAT], steal),
    },
    Check {
        section: Measuring,
        subject: "clock source",
        source: "kernel: timers/timekeeping",
        good: "one that is read without a system call: tsc, kvm-clock, arch_sys_counter",
        cost: "every look at the clock is a system call or slower, a microsecond each: generators \
               and logs look at it twice per request",
        mend: "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
        rule: Rule::Of(&[CLOCK_SOURCE], clock_source),
    },
    Check {
        section: Measuring,
        subject: "other load",
        source: "Genevès 2012, III-B (a machine for the server alone)",
        good: "less than a tenth of the CPUs busy in the last minute",
        cost: "other programs take time from server and generator, and push both out of the caches",
        mend: "stop what runs (see top) and wait for a minute",
        rule: Rule::Of(&[LOAD, STAT], load),
    },
];

fn governor(machine: &Machine) -> Reading {
    let mut names: Vec<&str> = machine.all(GOVERNORS).map(|(_, name)| name).collect();
    names.sort_unstable();
    names.dedup();
    match names[..] {
        [] => Reading::unreadable("no frequency scaling is shown, as in most virtual machines"),
        _ => Reading::fine_if(names == ["performance"], names.join(", ")),
    }
}

fn turbo(machine: &Machine) -> Reading {
    const OFF: &str = "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo";
    match (machine.number(NO_TURBO), machine.number(BOOST)) {
        (Some(0), _) => Reading { mend: Some(OFF.into()), ..Reading::wrong("on (intel_pstate)") },
        (None, Some(1)) => Reading {
            mend: Some("echo 0 > /sys/devices/system/cpu/cpufreq/boost".into()),
            ..Reading::wrong("on (boost)")
        },
        (None, None) => Reading::unreadable("no switch is shown, as in most virtual machines"),
        _ => Reading::fine("off"),
    }
}

fn smt(machine: &Machine) -> Reading {
    match machine.number(SMT) {
        None => Reading::unreadable(SMT),
        Some(0) => Reading::fine("off"),
        Some(_) => match alone_on_their_cores(machine) {
            Some(cpus) => {
                Reading::fine(format!("on, but we may use only one CPU of each core: {cpus}"))
            }
            None => Reading::wrong("on: two CPUs or more are one core"),
        },
    }
}

/// The CPUs that this process may use, if no two of them are of one core.
fn alone_on_their_cores(machine: &Machine) -> Option<&str> {
    let list = machine.status("Cpus_allowed_list")?;
    let allowed = cpu_list::numbers(list);
    let is_alone = |cpu: &usize| {
        let siblings = machine.text(&SIBLINGS.replace('*', &cpu.to_string()));
        siblings.is_some_and(|core| {
            cpu_list::numbers(core).iter().all(|other| other == cpu || !allowed.contains(other))
        })
    };
    allowed.iter().all(is_alone).then_some(list)
}

/// How the makers and products of hypervisors begin, as `systemd-detect-virt` has them.
const GUESTS: [&str; 16] = [
    "Apple Virtualization",
    "BHYVE",
    "Bochs",
    "Droplet",
    "HVM domU",
    "KVM",
    "KubeVirt",
    "OpenStack",
    "Parallels",
    "QEMU",
    "VMware",
    "VirtualBox",
    "Virtual Machine",
    "Xen",
    "innotek GmbH",
    "vServer",
];

/// Providers of both guests and bare machines: only a name with `metal` in it is surely bare.
const CLOUDS: [&str; 3] = ["Alibaba Cloud", "Amazon EC2", "Google Compute Engine"];

fn virtualisation(machine: &Machine) -> Reading {
    // Of x86 only: the processors of others have no flag for it.
    let flags = machine.text(CPU_INFO).and_then(|info| {
        let flags = info.lines().find(|line| line.starts_with("flags"))?;
        Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
    });
    let name = [MAKER, PRODUCT, TREE_MODEL].into_iter().filter_map(|file| name(machine, file));
    let name = name.collect::<Vec<_>>().join(" ");
    match (hypervisor(machine), flags) {
        (Some(hypervisor), _) => Reading::wrong(format!("a virtual machine: {hypervisor}")),
        (None, Some(true)) => Reading::wrong("a virtual machine"),
        (None, Some(false)) => Reading::fine("no hypervisor is shown"),
        (None, None) if begins(machine, &CLOUDS) && !name.contains("metal") => {
            Reading::wrong(format!("a virtual machine: {name}"))
        }
        (None, None) if !name.is_empty() => {
            Reading::fine(format!("no hypervisor is shown: {name}"))
        }
        (None, None) => Reading::unreadable("neither the processor nor the firmware tells"),
    }
}

/// What the machine itself says of its hypervisor, apart from the processor's flags.
fn hypervisor(machine: &Machine) -> Option<&str> {
    let virtual_tree = name(machine, TREE_MACHINE).filter(|name| *name == "linux,dummy-virt");
    let named = [HYPERVISOR, TREE_HYPERVISOR].into_iter().find_map(|file| name(machine, file));
    named.or(virtual_tree).or_else(|| {
        let is_guest = begins(machine, &GUESTS);
        is_guest.then(|| name(machine, MAKER).or_else(|| name(machine, PRODUCT)))?
    })
}

/// Whether the machine's maker or product is one of these.
fn begins(machine: &Machine, names: &[&str]) -> bool {
    let mut told = [MAKER, PRODUCT].into_iter().filter_map(|file| name(machine, file));
    told.any(|told| names.iter().any(|name| told.starts_with(name)))
}

/// The first name in a file. Those of the device tree end with NUL.
fn name<'m>(machine: &'m Machine, file: &str) -> Option<&'m str> {
    machine.text(file)?.split('\0').next()
}

fn steal(machine: &Machine) -> Reading {
    let Some((busy, stolen)) = machine.text(STAT).and_then(busy_and_stolen) else {
        return Reading::unreadable(STAT);
    };
    let share = 100.0 * stolen as f64 / ((busy + stolen) as f64).max(1.0);
    Reading::fine_if(share <= 1.0, format!("{share:.1} % of the busy time since the start"))
}

/// Ticks in which all CPUs worked, and in which they would have worked, since the start.
fn busy_and_stolen(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|n| n.parse().ok()).collect();
    // proc(5): user, nice, system, idle, iowait, irq, softirq, steal, …
    let [user, nice, system, _, _, irq, softirq, stolen, ..] = ticks[..] else { return None };
    Some((user + nice + system + irq + softirq, stolen))
}

fn clock_source(machine: &Machine) -> Reading {
    const QUICK: [&str; 5] = [
        "tsc",
        "kvm-clock",
        "arch_sys_counter",
        "hyperv_clocksource_tsc_page",
        "riscv_clocksource",
    ];
    match machine.text(CLOCK_SOURCE) {
        None => Reading::unreadable(CLOCK_SOURCE),
        Some(name) => Reading::fine_if(QUICK.contains(&name), name),
    }
}

fn load(machine: &Machine) -> Reading {
    let average = machine.text(LOAD).and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let cpus = machine.text(STAT).map_or(0, |stat| stat.lines().filter(is_cpu).count());
    match average {
        None => Reading::unreadable(LOAD),
        Some(_) if cpus == 0 => Reading::unreadable(STAT),
        Some(average) => {
            let found = format!("{average} runnable on average of a minute, for {cpus} CPUs");
            Reading::fine_if(average <= 0.1 * cpus as f64, found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;
    use super::*;
    use ::doctor::Verdict::{Fine, Unreadable, Wrong};

    #[test]
    fn every_cpu_must_have_the_governor() {
        let path = |cpu| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        let (first, second) = (path(0), path(1));
        let both = [(&*first, "performance\n"), (&*second, "performance\n")];
        check("frequency governor", &both, Fine);
        let one = [(&*first, "performance\n"), (&*second, "schedutil\n")];
        assert_eq!(check("frequency governor", &one, Wrong).found, "performance, schedutil");
        check("frequency governor", &[], Unreadable);
    }

    #[test]
    fn turbo_has_two_switches_that_mean_the_opposite() {
        check("turbo", &[(NO_TURBO, "1")], Fine);
        check("turbo", &[(NO_TURBO, "0")], Wrong);
        check("turbo", &[(BOOST, "0")], Fine);
        let reading = check("turbo", &[(BOOST, "1")], Wrong);
        assert_eq!(reading.mend.as_deref(), Some("echo 0 > /sys/devices/system/cpu/cpufreq/boost"));
    }

    #[test]
    fn cores_are_shared_or_not() {
        check("SMT", &[(SMT, "0\n")], Fine);
        check("SMT", &[(SMT, "1\n")], Wrong);
    }

    #[test]
    fn one_cpu_of_each_core_is_as_good_as_none_that_share() {
        let path = |cpu: usize| SIBLINGS.replace('*', &cpu.to_string());
        let paths = [0, 1, 2, 3].map(path);
        let of = |allowed: &str, verdict| {
            let status = format!("Cpus_allowed:\tf\nCpus_allowed_list:\t{allowed}\n");
            let files = [
                (SMT, "1\n"),
                (STATUS, &*status),
                (&*paths[0], "0,2\n"),
                (&*paths[1], "1,3\n"),
                (&*paths[2], "0,2\n"),
                (&*paths[3], "1,3\n"),
            ];
            check("SMT", &files, verdict).found
        };
        assert_eq!(of("0-1", Fine), "on, but we may use only one CPU of each core: 0-1");
        of("2", Fine);
        of("0,3", Fine);
        of("0-3", Wrong);
        of("0,2", Wrong);
        of("0-1,7", Wrong);
    }

    #[test]
    fn a_guest_shows_in_the_flags() {
        check("virtualisation", &[(CPU_INFO, "flags\t\t: fpu sse2\n")], Fine);
        check("virtualisation", &[(CPU_INFO, "flags\t\t: fpu hypervisor sse2\n")], Wrong);
        check("virtualisation", &[(CPU_INFO, "model name: x\n")], Unreadable);
        check("virtualisation", &[], Unreadable);
    }

    #[test]
    fn a_guest_without_such_a_flag_shows_in_its_names() {
        let arm = (CPU_INFO, "processor\t: 0\nFeatures\t: fp asimd\n");
        let of = |maker, product, verdict| {
            check("virtualisation", &[arm, (MAKER, maker), (PRODUCT, product)], verdict).found
        };
        assert_eq!(of("QEMU", "KVM Virtual Machine", Wrong), "a virtual machine: QEMU");
        of("Microsoft Corporation", "Virtual Machine", Wrong);
        of("Google", "Google Compute Engine", Wrong);
        assert_eq!(of("Amazon EC2", "m7g.large", Wrong), "a virtual machine: Amazon EC2 m7g.large");
        of("Amazon EC2", "m7g.metal", Fine);
        assert_eq!(of("HPE", "RL300", Fine), "no hypervisor is shown: HPE RL300");
        let file = |path, text, verdict| check("virtualisation", &[arm, (path, text)], verdict);
        file(HYPERVISOR, "xen\n", Wrong);
        assert_eq!(
            file(TREE_HYPERVISOR, "linux,kvm\0", Wrong).found,
            "a virtual machine: linux,kvm"
        );
        file(TREE_MACHINE, "linux,dummy-virt\0", Wrong);
        let board = "Raspberry Pi 4 Model B";
        assert!(file(TREE_MODEL, &format!("{board}\0"), Fine).found.ends_with(board));
        check("virtualisation", &[arm], Unreadable);
    }

    /// Machines that are rented are bare where the processor, which knows, says so.
    #[test]
    fn the_flags_know_better_than_names() {
        let bare = (CPU_INFO, "flags\t\t: fpu sse2\n");
        let rented = (PRODUCT, "Google Compute Engine\n");
        check("virtualisation", &[bare, rented], Fine);
        check("virtualisation", &[bare, (MAKER, "QEMU\n")], Wrong);
    }

    #[test]
    fn stolen_time_is_a_share_of_the_busy_time() {
        let stat = |stolen| format!("cpu  600 100 200 50000 9 0 100 {stolen} 0 0\n");
        check("steal time", &[(STAT, &stat(10))], Fine);
        assert_eq!(
            check("steal time", &[(STAT, &stat(250))], Wrong).found,
            "20.0 % of the busy time since the start"
        );
        check("steal time", &[(STAT, "cpu 1 2\n")], Unreadable);
    }

    #[test]
    fn clocks() {
        check("clock source", &[(CLOCK_SOURCE, "tsc\n")], Fine);
        check("clock source", &[(CLOCK_SOURCE, "hpet\n")], Wrong);
    }

    #[test]
    fn load_is_judged_by_the_number_of_cpus() {
        let stat = "cpu  1 1\ncpu0 1\ncpu1 1\nintr 5\n";
        check("other load", &[(LOAD, "0.15 0.2 0.3 1/99 7\n"), (STAT, stat)], Fine);
        check("other load", &[(LOAD, "0.40 0.2 0.3 1/99 7\n"), (STAT, stat)], Wrong);
        check("other load", &[(LOAD, "0.40 0.2 0.3 1/99 7\n")], Unreadable);
    }
}
