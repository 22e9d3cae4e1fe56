//! Which CPUs take the interrupts of which network interface, according to `/sys` and `/proc`:
//! `partitions.listen` and `reuseport-cpu` should follow that. Nothing is changed here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use os::cpu_list;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Receive queues.
    pub(super) queues: usize,
    /// Whether there is a device behind it, as opposed to one that the kernel makes up.
    pub(super) is_device: bool,
    pub(super) interrupts: Vec<Interrupt>,
    /// Whether the kernel spreads received packets over several CPUs (RPS).
    pub(super) is_spread: bool,
}

/// An interrupt of a network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interrupt {
    pub(super) number: u32,
    /// The CPUs that take it, or that may if the kernel shows no more, as the kernel writes lists.
    pub(super) cpus: String,
    /// Whether its name says that it is for packets received.
    pub(super) receives: bool,
}

impl Interface {
    /// One line.
    pub(super) fn describe(&self) -> String {
        let name = &self.name;
        if name == "lo" {
            return "lo: no interrupts, the CPU that sends also receives".into();
        }
        if !self.is_device {
            return format!("{name}: no device, no interrupts");
        }
        let queues = match self.queues {
            1 => "1 receive queue".into(),
            queues => format!("{queues} receive queues"),
        };
        let mut cpus: Vec<&str> = self.interrupts.iter().map(|one| &*one.cpus).collect();
        cpus.sort_by_key(|list| cpu_list::numbers(list));
        cpus.dedup();
        let interrupts = match self.interrupts.len() {
            0 => "interrupts not known".into(),
            1 => format!("1 interrupt on CPUs {}", cpus.join(" | ")),
            count => format!("{count} interrupts on CPUs {}", cpus.join(" | ")),
        };
        let sole = match self.sole_cpu().filter(|_| cpus.len() > 1) {
            Some(cpu) => format!(", those of packets received all on CPU {cpu}"),
            None => String::new(),
        };
        let spread = if self.is_spread { ", spread further by the kernel (RPS)" } else { "" };
        format!("{name}: {queues}, {interrupts}{sole}{spread}")
    }

    /// Whether all its packets are received by one CPU, as far as the kernel shows.
    pub(super) fn is_single(&self) -> bool {
        let is_narrow = self.queues <= 1 || self.sole_cpu().is_some();
        self.is_device && is_narrow && !self.is_spread
    }

    /// What spreads its interrupts, or its packets, over the CPUs.
    pub(super) fn mend(&self) -> String {
        let name = &self.name;
        if self.queues <= 1 {
            return format!(
                "ethtool -L {name} combined N; where there is one queue: \
                 echo f > /sys/class/net/{name}/queues/rx-0/rps_cpus (a bit for each CPU)"
            );
        }
        let numbers = self.of_packets().into_iter().map(|one| one.number.to_string());
        format!(
            "cpu=0; for n in {}; do echo $cpu > /proc/irq/$n/smp_affinity_list; \
             cpu=$(((cpu + 1) % $(nproc))); done",
            numbers.collect::<Vec<_>>().join(" ")
        )
    }

    /// The CPU that takes the interrupts of all its queues, if there are several and one does.
    fn sole_cpu(&self) -> Option<usize> {
        let interrupts = self.of_packets();
        let cpu = interrupts.first()?.cpus.parse().ok()?;
        let is_there = |one: &&Interrupt| one.cpus == interrupts[0].cpus;
        (self.queues > 1 && interrupts.iter().all(is_there)).then_some(cpu)
    }

    /// The interrupts of packets received. Where no name says which those are it is all of them,
    /// unless there are too few to have one for each queue: then it is none.
    fn of_packets(&self) -> Vec<&Interrupt> {
        let named: Vec<&Interrupt> = self.interrupts.iter().filter(|one| one.receives).collect();
        match named.is_empty() && self.interrupts.len() >= self.queues {
            true => self.interrupts.iter().collect(),
            false => named,
        }
    }
}

/// The interfaces of this machine.
pub(super) fn interfaces() -> Vec<Interface> {
    read(Path::new("/sys/class/net"), Path::new("/proc"))
}

/// The interfaces by name, read from any folders like `/sys/class/net` and `/proc`.
fn read(net: &Path, proc: &Path) -> Vec<Interface> {
    let mut names: Vec<String> = names(net);
    names.sort_unstable();
    names.iter().map(|name| interface(net, proc, name)).collect()
}

fn interface(net: &Path, proc: &Path, name: &str) -> Interface {
    let queues = os::interfaces::receive_queues(net, name);
    let mask = |queue: &String| text(&net.join(name).join("queues").join(queue).join("rps_cpus"));
    let numbers = os::interfaces::interrupts(net, proc, name);
    let table = text(&proc.join("interrupts")).unwrap_or_default();
    let mut interface = Interface {
        name: name.into(),
        queues: queues.len(),
        is_device: os::interfaces::device(net, name).is_some(),
        interrupts: numbers.into_iter().filter_map(|n| interrupt(proc, &table, n)).collect(),
        is_spread: false,
    };
    let masks: Vec<Vec<usize>> = queues.iter().filter_map(mask).map(|m| cpus_of_mask(&m)).collect();
    let mut cpus: BTreeSet<usize> = masks.iter().flatten().copied().collect();
    if masks.iter().any(Vec::is_empty) {
        // The packets of such a queue stay where its interrupt is.
        cpus.extend(interface.sole_cpu());
    }
    interface.is_spread = cpus.len() > 1;
    interface
}

/// The CPUs of a mask as the kernel writes it: in hexadecimal, the first in the last digit, and a
/// comma after each eight.
fn cpus_of_mask(mask: &str) -> Vec<usize> {
    let digits = mask.chars().rev().filter_map(|digit| digit.to_digit(16));
    let bits = |(index, digit): (usize, u32)| {
        (0..4).filter(move |bit| digit >> bit & 1 == 1).map(move |bit| index * 4 + bit)
    };
    digits.enumerate().flat_map(bits).collect()
}

/// An interrupt in the table `/proc/interrupts`. The kernel picks one CPU of those allowed and
/// keeps to it: where it says which, that counts.
fn interrupt(proc: &Path, table: &str, number: u32) -> Option<Interrupt> {
    let cpus = ["effective_affinity_list", "smp_affinity_list"].into_iter().find_map(|file| {
        let list = text(&proc.join(format!("irq/{number}/{file}")))?;
        (!list.is_empty()).then_some(list)
    });
    let start = format!("{number}:");
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(&start));
    Some(Interrupt { number, cpus: cpus?, receives: line.is_some_and(receives) })
}

/// Whether an interrupt's line says that it is for packets received: `eth0-TxRx-0` and `eth0-rx-0`
/// of most drivers, `virtio1-input.0`, `mlx5_comp0`.
fn receives(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["rx", "input", "comp"].iter().any(|word| line.contains(word))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use testkit::Temporary;

    use super::*;

    const INTERRUPTS: &str = "\
           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 30:          9          0  PCI-MSI  virtio1-input.0
 31:          0          9  PCI-MSI  virtio1-output.0
 40:          0          0  PCI-MSI  virtio10-input.0
 50:          4          4  PCI-MSI  eth1-TxRx-0
 51:          4          4  PCI-MSI  eth1-TxRx-1
LOC:    7981561   11501740   Local timer interrupts
";

    fn machine() -> Temporary {
        let root = Temporary::new();
        root.file("proc/interrupts", INTERRUPTS);
        for (number, cpus) in [(30, "0-1"), (31, "0-1"), (40, "0"), (50, "0"), (51, "1")] {
            root.file(&format!("proc/irq/{number}/smp_affinity_list"), format!("{cpus}\n"));
        }
        for (number, cpu) in [(30, ""), (31, "1"), (50, "0")] {
            root.file(&format!("proc/irq/{number}/effective_affinity_list"), format!("{cpu}\n"));
        }
        root.file("net/lo/queues/rx-0/rps_cpus", "0\n");
        root.file("net/ifb0/queues/rx-0/rps_cpus", "0\n");
        root.file("net/eth0/queues/rx-0/rps_cpus", "00000000,00000000\n");
        root.file("net/eth0/queues/tx-0/xps_cpus", "0\n");
        root.file("net/eth1/queues/rx-0/rps_cpus", "3\n");
        root.file("net/eth1/queues/rx-1/rps_cpus", "0\n");
        for (name, device) in [("eth0", "virtio1"), ("eth1", "0000:3b:00.0")] {
            root.file(&format!("devices/{device}/vendor"), "0x1af4\n");
            let device = root.path().join("devices").join(device);
            symlink(device, root.path().join("net").join(name).join("device")).unwrap();
        }
        root
    }

    #[test]
    fn queues_and_interrupts() {
        let root = machine();
        let all = read(&root.path().join("net"), &root.path().join("proc"));
        let lines: Vec<String> = all.iter().map(Interface::describe).collect();
        assert_eq!(
            lines,
            [
                "eth0: 1 receive queue, 2 interrupts on CPUs 0-1 | 1",
                "eth1: 2 receive queues, 2 interrupts on CPUs 0 | 1, spread further by the \
                 kernel (RPS)",
                "ifb0: no device, no interrupts",
                "lo: no interrupts, the CPU that sends also receives",
            ]
        );
        let single: Vec<bool> = all.iter().map(Interface::is_single).collect();
        assert_eq!(single, [true, false, false, false]);
    }

    /// An interface with so many queues, whose interrupts are taken there.
    fn several(queues: usize, interrupts: &[(&str, &str)]) -> Interface {
        let interrupt = |(number, (line, cpus)): (u32, &(&str, &str))| Interrupt {
            number,
            cpus: (*cpus).into(),
            receives: receives(line),
        };
        Interface {
            name: "eth0".into(),
            queues,
            is_device: true,
            interrupts: (30..).zip(interrupts).map(interrupt).collect(),
            is_spread: false,
        }
    }

    #[test]
    fn several_queues_may_all_end_at_one_cpu() {
        let check = |queues, interrupts: &[_], expected: bool| {
            let interface = several(queues, interrupts);
            assert_eq!(interface.is_single(), expected, "{interrupts:?}");
            let spread = Interface { is_spread: true, ..interface };
            assert!(!spread.is_single(), "{interrupts:?}");
        };
        check(2, &[("eth0-TxRx-0", "0"), ("eth0-TxRx-1", "0")], true);
        check(2, &[("eth0-TxRx-0", "0"), ("eth0-TxRx-1", "1")], false);
        // Wherever the kernel may choose and does not say what it chose.
        check(2, &[("eth0-TxRx-0", "0-3"), ("eth0-TxRx-1", "0-3")], false);
        // Packets sent, and the card's own affairs, are beside the point.
        let virtio = [("virtio1-config", "2"), ("virtio1-input.0", "1"), ("virtio1-output.0", "3")];
        check(2, &[&virtio[..], &[("virtio1-input.1", "1")]].concat(), true);
        check(2, &[&virtio[..], &[("virtio1-input.1", "0")]].concat(), false);
        check(2, &[("mlx5_async0", "1"), ("mlx5_comp0", "0"), ("mlx5_comp1", "0")], true);
        // Names that say nothing are judged together, if there are enough of them.
        check(2, &[("gve-ntfy-blk0", "0"), ("gve-ntfy-blk1", "0")], true);
        check(2, &[("gve-ntfy-blk0", "0"), ("gve-ntfy-blk1", "1")], false);
        check(4, &[("eth0", "0")], false);
        check(4, &[], false);
    }

    #[test]
    fn where_several_queues_end_and_what_spreads_them() {
        let names = ["eth0", "eth0-rx-0", "eth0-rx-1", "eth0-tx-0"];
        let cpus = ["10", "0", "0", "9"];
        let interface = several(2, &std::array::from_fn::<_, 4, _>(|n| (names[n], cpus[n])));
        assert_eq!(
            interface.describe(),
            "eth0: 2 receive queues, 4 interrupts on CPUs 0 | 9 | 10, those of packets received \
             all on CPU 0"
        );
        let mend = interface.mend();
        assert!(
            mend.contains(" n in 31 32; do echo $cpu > /proc/irq/$n/smp_affinity_list"),
            "{mend}"
        );
        assert!(several(1, &[]).mend().starts_with("ethtool -L eth0 "));
    }

    #[test]
    fn packets_that_are_all_moved_to_one_cpu_are_not_spread() {
        let check = |masks: &[&str], is_single| {
            let root = machine();
            for (queue, mask) in masks.iter().enumerate() {
                root.file(&format!("net/eth0/queues/rx-{queue}/rps_cpus"), format!("{mask}\n"));
            }
            let found = interface(&root.path().join("net"), &root.path().join("proc"), "eth0");
            assert_eq!(found.is_single(), is_single, "{masks:?}: {found:?}");
        };
        check(&["1"], true);
        check(&["3"], false);
        check(&["80000000,00000001"], false);
        check(&["80000000,00000000"], true);
        assert_eq!(cpus_of_mask("80000001,00000012"), [1, 4, 32, 63]);
    }

    #[test]
    fn a_machine_that_tells_nothing() {
        let nowhere = Path::new("/proc/self/no-such");
        assert_eq!(read(nowhere, nowhere), []);
    }
}
