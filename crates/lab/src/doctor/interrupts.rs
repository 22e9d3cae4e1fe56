//! Which CPUs take the interrupts of which network interface, as `/sys` and `/proc` tell it: what
//! `partitions.listen` and `reuseport-cpu` should follow. It changes nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Receive queues.
    pub(super) queues: usize,
    /// Whether there is a device behind it, as opposed to one that the kernel makes up.
    pub(super) is_device: bool,
    /// Where each of its interrupts may be taken: CPU lists as the kernel writes them.
    pub(super) interrupts: Vec<String>,
    /// Whether the kernel spreads received packets over other CPUs (RPS).
    pub(super) is_spread: bool,
}

impl Interface {
    /// One line.
    pub(super) fn describe(&self) -> String {
        let name = &self.name;
        if name == "lo" {
            return "lo: no interrupts, whoever sends receives".into();
        }
        if !self.is_device {
            return format!("{name}: no device, no interrupts");
        }
        let queues = match self.queues {
            1 => "1 receive queue".into(),
            queues => format!("{queues} receive queues"),
        };
        let cpus: BTreeSet<&str> = self.interrupts.iter().map(String::as_str).collect();
        let cpus: Vec<&str> = cpus.into_iter().collect();
        let interrupts = match self.interrupts.len() {
            0 => "interrupts not told".into(),
            1 => format!("1 interrupt on CPUs {}", cpus.join(" | ")),
            count => format!("{count} interrupts on CPUs {}", cpus.join(" | ")),
        };
        let spread = if self.is_spread { ", spread further by the kernel (RPS)" } else { "" };
        format!("{name}: {queues}, {interrupts}{spread}")
    }

    /// Whether all its packets are received by one CPU, or nobody says by which.
    pub(super) fn is_single(&self) -> bool {
        self.is_device && self.queues <= 1 && !self.is_spread
    }
}

/// The interfaces of this machine.
pub(super) fn interfaces() -> Vec<Interface> {
    read(Path::new("/sys/class/net"), Path::new("/proc"))
}

/// The same from any folders like these.
fn read(net: &Path, proc: &Path) -> Vec<Interface> {
    let mut names: Vec<String> = names(net);
    names.sort_unstable();
    names.iter().map(|name| interface(net, proc, name)).collect()
}

fn interface(net: &Path, proc: &Path, name: &str) -> Interface {
    let queues = os::interfaces::receive_queues(net, name);
    let mask = |queue: &String| text(&net.join(name).join("queues").join(queue).join("rps_cpus"));
    let is_set = |mask: String| mask.chars().any(|c| c != '0' && c != ',');
    let numbers = os::interfaces::interrupts(net, proc, name);
    let affinity = |number: u32| text(&proc.join(format!("irq/{number}/smp_affinity_list")));
    Interface {
        name: name.into(),
        queues: queues.len(),
        is_device: os::interfaces::device(net, name).is_some(),
        interrupts: numbers.into_iter().filter_map(affinity).collect(),
        is_spread: queues.iter().filter_map(mask).any(is_set),
    }
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
                "eth0: 1 receive queue, 2 interrupts on CPUs 0-1",
                "eth1: 2 receive queues, 2 interrupts on CPUs 0 | 1, spread further by the \
                 kernel (RPS)",
                "ifb0: no device, no interrupts",
                "lo: no interrupts, whoever sends receives",
            ]
        );
        let single: Vec<bool> = all.iter().map(Interface::is_single).collect();
        assert_eq!(single, [true, false, false, false]);
    }

    #[test]
    fn a_machine_that_tells_nothing() {
        let nowhere = Path::new("/proc/self/no-such");
        assert_eq!(read(nowhere, nowhere), []);
    }
}
