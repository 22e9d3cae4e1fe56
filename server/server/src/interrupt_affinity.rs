//! `partitions.set_irq_affinity`: what arrives at an interface is received by the CPUs of the
//! partition that listens there. The interrupts of the interface are steered to them, and its
//! receive queues spread over them (RPS). The settings are written when the server starts and put
//! back when it ends, or when the last process ends that serves in its place; if it is killed, they
//! stay. A setting that cannot be written is reported and left as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::report;
use os::cpu_list;

/// A partition's CPUs, and the addresses it listens at.
pub(crate) type Place = (Vec<usize>, Vec<IpAddr>);

/// The settings that were written. When this is dropped, they are put back.
#[derive(Debug, Default)]
pub(crate) struct InterruptAffinity {
    changes: Vec<Change>,
    lines: Vec<String>,
}

/// A file whose content was changed.
#[derive(Debug)]
struct Change {
    path: PathBuf,
    before: String,
    /// The affinity that was written, as the kernel shows it.
    ours: String,
}

impl InterruptAffinity {
    /// Writes all settings that can be written; none without places.
    pub(crate) fn set(places: &[Place]) -> Self {
        if places.is_empty() {
            return Self::default();
        }
        match os::interfaces::addresses() {
            Ok(known) => {
                let (net, proc) = (Path::new("/sys/class/net"), Path::new("/proc"));
                Self::set_below(net, proc, &cpus_of_interfaces(&known, places))
            }
            Err(why) => {
                let line = format!("the addresses of interfaces cannot be read: {why}");
                Self { changes: Vec::new(), lines: vec![line] }
            }
        }
    }

    /// The settings that were written, each as [`Self::take_over`] knows it in another process.
    pub(crate) fn changes(&self) -> Vec<String> {
        let shown = |it: &Change| format!("{}\n{}\n{}", it.before, it.ours, it.path.display());
        self.changes.iter().map(shown).collect()
    }

    /// Leaves the settings to another process, which puts them back.
    pub(crate) fn leave(&mut self) {
        self.changes.clear();
    }

    /// Goes on in the place of another process, which has written these settings before: they are
    /// put back to what was there before that, at once unless this process has written them too.
    pub(crate) fn take_over(&mut self, changes: &[String]) {
        let mut former = Self::default();
        for change in changes.iter().filter_map(|text| Change::from_text(text)) {
            match self.changes.iter_mut().find(|own| own.path == change.path) {
                Some(own) => own.before = change.before,
                None => former.changes.push(change),
            }
        }
    }

    /// A line for each setting that was written or could not be.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        self.lines.iter().map(|line| format!("interrupts: {line}"))
    }

    /// Writes below folders that are laid out like `/sys/class/net` and `/proc`.
    fn set_below(net: &Path, proc: &Path, interfaces: &BTreeMap<String, BTreeSet<usize>>) -> Self {
        let mut set = Self::default();
        if interfaces.is_empty() {
            set.lines.push("no interface has an address that the server listens at".into());
        }
        for (name, cpus) in interfaces {
            if name == "lo" {
                set.lines.push("lo has none: each CPU receives what it sends".into());
                continue;
            }
            let cpus: Vec<usize> = cpus.iter().copied().collect();
            let numbers = os::interfaces::interrupts(net, proc, name);
            let queues = os::interfaces::receive_queues(net, name);
            if numbers.is_empty() && queues.is_empty() {
                set.lines.push(format!("{name} has neither interrupts nor receive queues"));
            }
            for number in numbers {
                let path = proc.join(format!("irq/{number}/smp_affinity_list"));
                set.write(name, path, &cpu_list::show(&cpus));
            }
            for queue in queues {
                set.write(
                    name,
                    net.join(name).join("queues").join(queue).join("rps_cpus"),
                    &mask(&cpus),
                );
            }
        }
        set
    }

    fn write(&mut self, interface: &str, path: PathBuf, value: &str) {
        let written = read(&path).and_then(|before| {
            fs::write(&path, value)?;
            Ok((before, read(&path)?))
        });
        let shown = path.display();
        self.lines.push(match &written {
            Ok((before, _)) => format!("{interface}: {shown} is {value}, was {before}"),
            Err(why) => format!("{interface}: {shown} cannot be made {value}: {why}"),
        });
        self.changes.extend(written.map(|(before, ours)| Change { path, before, ours }));
    }
}

impl Change {
    fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.splitn(3, '\n');
        let (before, ours, path) = (lines.next()?.into(), lines.next()?.into(), lines.next()?);
        Some(Self { path: path.into(), before, ours })
    }

    /// Undoes the change, unless another program has written the file since.
    fn put_back(&self) -> Result<(), String> {
        let path = self.path.display();
        let failed = |why: io::Error| format!("{path} cannot be put back: {why}");
        if read(&self.path).map_err(failed)? != self.ours {
            return Err(format!("{path} has been changed by others, and stays"));
        }
        fs::write(&self.path, &self.before).map_err(failed)
    }
}

impl Drop for InterruptAffinity {
    fn drop(&mut self) {
        let outcomes: Vec<_> = self.changes.iter().rev().map(Change::put_back).collect();
        let count = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        if !outcomes.is_empty() {
            report(&format!("interrupts: settings put back: {count} of {}", outcomes.len()));
        }
        for why in outcomes.into_iter().filter_map(Result::err) {
            report(&format!("interrupts: {why}"));
        }
    }
}

/// The CPUs for each interface at which a partition listens. Several partitions at one interface
/// share it; a partition that listens everywhere uses all interfaces that have an address.
fn cpus_of_interfaces(
    known: &[(String, IpAddr)],
    places: &[Place],
) -> BTreeMap<String, BTreeSet<usize>> {
    let mut interfaces: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (cpus, addresses) in places {
        for address in addresses {
            let is_meant = |(name, one): &&(String, IpAddr)| match address.is_unspecified() {
                true => name != "lo" && one.is_ipv4() == address.is_ipv4(),
                false => one == address,
            };
            for (name, _) in known.iter().filter(is_meant) {
                interfaces.entry(name.clone()).or_default().extend(cpus);
            }
        }
    }
    interfaces
}

/// CPUs as a mask in words of 32 bits, the highest first: `3`, or `1,00000000` for CPU 32.
fn mask(cpus: &[usize]) -> String {
    let mut words = vec![0_u32; cpus.iter().max().map_or(1, |highest| highest / 32 + 1)];
    for cpu in cpus {
        words[cpu / 32] |= 1 << (cpu % 32);
    }
    let mut words = words.iter().rev();
    let first = words.next().map_or_else(String::new, |word| format!("{word:x}"));
    words.fold(first, |text, word| format!("{text},{word:08x}"))
}

fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use testkit::Temporary;

    use super::*;

    #[test]
    fn masks() {
        let check = |cpus: &[usize], expected| assert_eq!(mask(cpus), expected);
        check(&[0], "1");
        check(&[0, 1], "3");
        check(&[4, 31], "80000010");
        check(&[32], "1,00000000");
        check(&[0, 65], "2,00000000,00000001");
        check(&[], "0");
    }

    #[test]
    fn an_interface_gets_the_cpus_of_its_listeners() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let known =
            [("lo", "127.0.0.1"), ("eth0", "10.0.0.1"), ("eth0", "fe80::1"), ("eth1", "10.0.1.1")];
        let known = known.map(|(name, address)| (name.to_string(), ip(address)));
        let check = |places: &[(&[usize], &[&str])], expected: &str| {
            let place = |(cpus, addresses): &(&[usize], &[&str])| {
                (cpus.to_vec(), addresses.iter().map(|address| ip(address)).collect())
            };
            let places: Vec<Place> = places.iter().map(place).collect();
            let found = cpus_of_interfaces(&known, &places);
            let shown: Vec<String> =
                found.iter().map(|(name, cpus)| format!("{name} {cpus:?}")).collect();
            assert_eq!(shown.join(", "), expected);
        };
        check(&[(&[0], &["10.0.0.1"]), (&[1], &["10.0.1.1"])], "eth0 {0}, eth1 {1}");
        check(&[(&[2], &["10.0.0.1"]), (&[0], &["fe80::1"])], "eth0 {0, 2}");
        check(&[(&[0, 1], &["0.0.0.0", "::"])], "eth0 {0, 1}, eth1 {0, 1}");
        check(&[(&[0], &["127.0.0.1"])], "lo {0}");
        check(&[(&[0], &["192.0.2.1"])], "");
    }

    #[test]
    fn written_settings_are_reported_and_put_back() {
        let root = Temporary::new();
        let line = "30: 9 0 PCI-MSI eth0-TxRx-0\n31: 9 0 PCI-MSI eth0-TxRx-1\n";
        root.file("proc/interrupts", line);
        root.file("proc/irq/30/smp_affinity_list", "0-3\n"); // the other cannot be read
        root.file("net/eth0/queues/rx-0/rps_cpus", "0\n");
        root.file("net/eth0/queues/rx-1/rps_cpus", "4\n");
        root.file("net/eth0/queues/tx-0/xps_cpus", "1\n");
        let read = |path: &str| fs::read_to_string(root.path().join(path)).unwrap();
        let files = [
            "proc/irq/30/smp_affinity_list",
            "net/eth0/queues/rx-0/rps_cpus",
            "net/eth0/queues/rx-1/rps_cpus",
        ];
        let interfaces =
            [("eth0".to_string(), BTreeSet::from([0, 1])), ("lo".to_string(), BTreeSet::from([0]))];
        let (net, proc) = (root.path().join("net"), root.path().join("proc"));
        let set = InterruptAffinity::set_below(&net, &proc, &interfaces.into());
        assert_eq!(files.map(read), ["0-1", "3", "3"]);
        let folder = format!("{}/", root.path().display());
        let lines: Vec<String> = set.lines().map(|line| line.replace(&folder, "")).collect();
        assert_eq!(
            lines,
            [
                "interrupts: eth0: proc/irq/30/smp_affinity_list is 0-1, was 0-3",
                "interrupts: eth0: proc/irq/31/smp_affinity_list cannot be made 0-1: No such file \
                 or directory (os error 2)",
                "interrupts: eth0: net/eth0/queues/rx-0/rps_cpus is 3, was 0",
                "interrupts: eth0: net/eth0/queues/rx-1/rps_cpus is 3, was 4",
                "interrupts: lo has none: each CPU receives what it sends",
            ]
        );
        fs::write(root.path().join(files[2]), "8\n").unwrap(); // written by another program
        drop(set);
        assert_eq!(files.map(read), ["0-3", "0", "8\n"]);
        assert_eq!(read("net/eth0/queues/tx-0/xps_cpus"), "1\n");
    }

    /// The former process has written two settings, one of which this one has written again.
    #[test]
    fn a_process_that_follows_puts_back_what_there_was_at_first() {
        let root = Temporary::new();
        root.file("net/eth0/queues/rx-0/rps_cpus", "8\n");
        root.file("net/eth1/queues/rx-0/rps_cpus", "10\n");
        let folder = |name: &str| root.path().join(name);
        let both = || {
            let path = |name| folder(&format!("net/{name}/queues/rx-0/rps_cpus"));
            ["eth0", "eth1"].map(|name| fs::read_to_string(path(name)).unwrap().trim().to_owned())
        };
        let set = |names: &[&str], cpu| {
            let interfaces = names.iter().map(|name| (name.to_string(), BTreeSet::from([cpu])));
            let set = |all| InterruptAffinity::set_below(&folder("net"), &folder("proc"), all);
            set(&interfaces.collect())
        };
        let mut former = set(&["eth0", "eth1"], 0);
        let mut next = set(&["eth0"], 1);
        next.take_over(&former.changes());
        former.leave();
        drop(former);
        assert_eq!(both(), ["2", "10"]);
        drop(next);
        assert_eq!(both(), ["8", "10"]);
    }
}
