//! Network interfaces: which CPUs take their packets, and which of them answer for an address. Not
//! what TCP makes of packets: see `network.rs` and `queues.rs`.

use super::finding::Section::Serving;
use super::interrupts::Interface;
use super::machine::Machine;
use super::rule::{Check, Reading, Rule};

const ROUTES: &str = "/proc/net/route";
const ARP_FILTERS: &str = "/proc/sys/net/ipv4/conf/*/arp_filter";
const ARP_FILTER_ALL: &str = "/proc/sys/net/ipv4/conf/all/arp_filter";
const PRESENT: &str = "/sys/devices/system/cpu/present";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Serving,
        subject: "interrupts",
        source: "Genevès 2012, III-B; Hashemian 2013 (a queue for each core); Radhakrishnan 2019, \
                 3.1",
        good: "several receive queues on several CPUs, or RPS",
        cost: "all packets of the interface arrive at one CPU, which is full before the others: \
               neither reuseport-cpu nor addresses for each partition gain anything (Hashemian: \
               spreading interrupts, affinity and workers together gave up to 69 % more)",
        mend: "ethtool -L IFACE combined N; where there is one queue: echo MASK > \
               /sys/class/net/IFACE/queues/rx-0/rps_cpus; where several end at one CPU: echo CPU > \
               /proc/irq/N/smp_affinity_list, another CPU for each",
        rule: Rule::Of(&[PRESENT], interrupts),
    },
    Check {
        section: Serving,
        subject: "arp_filter",
        source: "Genevès 2012, Table I: net.ipv4.conf.all.arp_filter = 1",
        good: "1 where two interfaces are in one network",
        cost: "any interface answers for any of our addresses: what was to be spread over several \
               arrives at one",
        mend: "sysctl -w net.ipv4.conf.all.arp_filter=1",
        rule: Rule::Of(&[ROUTES, ARP_FILTERS], arp_filter),
    },
    Check {
        section: Serving,
        subject: "arp_filter of each",
        source: "Genevès 2012, Table I: net.ipv4.conf.ethX.arp_filter = 1",
        good: "whatever it is: 1 for all is enough, as the kernel takes the greater of the two",
        cost: "nothing",
        mend: "nothing to fix",
        rule: Rule::Of(&[ARP_FILTERS], arp_filter_of_each),
    },
];

fn interrupts(machine: &Machine) -> Reading {
    let devices: Vec<&Interface> =
        machine.interfaces.iter().filter(|interface| interface.is_device).collect();
    let is_alone = machine.text(PRESENT).is_some_and(|cpus| cpus == "0");
    let single: Vec<&&Interface> =
        devices.iter().filter(|interface| interface.is_single() && !is_alone).collect();
    let describe = |all: &[&Interface]| {
        all.iter().map(|interface| interface.describe()).collect::<Vec<_>>().join("; ")
    };
    match (devices.first(), single.first()) {
        (None, _) => Reading::fine(
            "no interface with a device; on loopback the CPU that sends also receives",
        ),
        (Some(_), None) => Reading::fine(describe(&devices)),
        (Some(_), Some(first)) => {
            Reading { mend: Some(first.mend()), ..Reading::wrong(describe(&devices)) }
        }
    }
}

fn arp_filter(machine: &Machine) -> Reading {
    let Some(routes) = machine.text(ROUTES) else { return Reading::unreadable(ROUTES) };
    let Some(all) = machine.number(ARP_FILTER_ALL) else {
        return Reading::unreadable(ARP_FILTER_ALL);
    };
    let Some((one, other)) = in_one_network(routes) else {
        return Reading::fine(format!("{all}; no two interfaces in one network"));
    };
    let is_set = |name: &str| {
        machine.number(&format!("/proc/sys/net/ipv4/conf/{name}/arp_filter")).is_some_and(|n| n > 0)
    };
    let found = format!("{all}, with {one} and {other} in one network");
    Reading::fine_if(all > 0 || (is_set(one) && is_set(other)), found)
}

/// Two interfaces that lead to the same network without a gateway.
fn in_one_network(routes: &str) -> Option<(&str, &str)> {
    let fields = |line| str::split_whitespace(line).collect::<Vec<&str>>();
    let rows: Vec<Vec<&str>> = routes.lines().skip(1).map(fields).collect();
    // Columns: interface, destination, gateway, flags, …, mask (the eighth).
    let direct = rows.iter().filter(|row| row.len() >= 8 && row[2] == "00000000");
    let direct: Vec<&Vec<&str>> = direct.filter(|row| row[1] != "00000000").collect();
    direct.iter().enumerate().find_map(|(index, row)| {
        let same = |other: &&&Vec<&str>| other[1] == row[1] && other[7] == row[7];
        let other = direct[..index].iter().filter(same).find(|other| other[0] != row[0])?;
        Some((other[0], row[0]))
    })
}

fn arp_filter_of_each(machine: &Machine) -> Reading {
    let shown: Vec<String> = machine
        .all(ARP_FILTERS)
        .filter_map(|(path, value)| Some(format!("{} {value}", path.split('/').nth(6)?)))
        .collect();
    match shown.is_empty() {
        true => Reading::unreadable(ARP_FILTERS),
        false => Reading::obsolete(format!("{}: arp_filter of all is enough", shown.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Obsolete, Wrong};
    use super::super::interrupts::Interrupt;
    use super::super::tests::{check, check_machine};
    use super::*;

    /// An interface with a queue for each CPU.
    fn interface(name: &str, cpus: &[usize], is_device: bool) -> Interface {
        let interrupt = |(number, cpu): (u32, &usize)| Interrupt {
            number,
            cpus: cpu.to_string(),
            receives: true,
        };
        let interrupts = (30..).zip(cpus).map(interrupt).collect();
        let queues = cpus.len();
        Interface { name: name.into(), queues, is_device, interrupts, is_spread: false }
    }

    #[test]
    fn an_interface_with_one_queue_is_found() {
        let of =
            |cpus, interfaces| Machine { interfaces, ..Machine::with_files(&[(PRESENT, cpus)]) };
        let single = || vec![interface("eth0", &[0], true), interface("lo", &[0], false)];
        let reading = check_machine("interrupts", &of("0-3", single()), Wrong);
        assert!(reading.mend.is_some_and(|mend| mend.contains("ethtool -L eth0 ")));
        check_machine("interrupts", &of("0", single()), Fine);
        let of = |cpus, interface| of(cpus, vec![interface]);
        check_machine("interrupts", &of("0-3", interface("eth0", &[0, 1, 2, 3], true)), Fine);
        check_machine("interrupts", &of("0-3", interface("lo", &[0], false)), Fine);
    }

    #[test]
    fn an_interface_whose_queues_end_at_one_cpu_is_found() {
        let of = |cpus| {
            let good = interface("eth0", &[0, 1], true);
            let narrow = interface("eth1", &[2, 2, 2], true);
            Machine { interfaces: vec![good, narrow], ..Machine::with_files(&[(PRESENT, cpus)]) }
        };
        let reading = check_machine("interrupts", &of("0-3"), Wrong);
        assert!(
            reading.found.ends_with("; eth1: 3 receive queues, 3 interrupts on CPUs 2"),
            "{reading:?}"
        );
        assert!(reading.mend.is_some_and(|mend| mend.contains("for n in 30 31 32; do ")));
        check_machine("interrupts", &of("0"), Fine);
    }

    const ROUTE: &str = "\
        Iface Destination Gateway  Flags RefCnt Use Metric Mask MTU Window IRTT\n\
        eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0\n\
        eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n";

    #[test]
    fn two_interfaces_in_one_network_need_the_filter() {
        let two = format!("{ROUTE}eth1 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n");
        let other = format!("{ROUTE}eth1 000300C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n");
        let of = |routes: &str, value: &str, verdict| {
            check("arp_filter", &[(ROUTES, routes), (ARP_FILTER_ALL, value)], verdict)
        };
        of(ROUTE, "0", Fine);
        of(&other, "0", Fine);
        of(&two, "1", Fine);
        assert_eq!(of(&two, "0", Wrong).found, "0, with eth0 and eth1 in one network");
        let each = [
            (ROUTES, &*two),
            (ARP_FILTER_ALL, "0"),
            ("/proc/sys/net/ipv4/conf/eth0/arp_filter", "1"),
            ("/proc/sys/net/ipv4/conf/eth1/arp_filter", "1"),
        ];
        check("arp_filter", &each, Fine);
        check("arp_filter of each", &each, Obsolete);
    }
}
