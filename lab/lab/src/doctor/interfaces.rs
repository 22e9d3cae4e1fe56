//! Network interfaces: what moves their interrupts about, and how packets wait on their way in.

use ::doctor::Section::Measuring;
use ::doctor::{Check, Machine, Reading, Rule};

const PROGRAMS: &str = "/proc/*/comm";
const BACKLOG: &str = "/proc/sys/net/core/netdev_max_backlog";
const SOFTNET: &str = "/proc/net/softnet_stat";
const LOOPBACK_MTU: &str = "/sys/class/net/lo/mtu";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Measuring,
        subject: "irqbalance",
        source: "Hashemian 2013 (interrupts bound to cores); Radhakrishnan 2019, 3.1",
        good: "not running",
        cost: "interrupts move from CPU to CPU in the middle of a run: two runs of the same thing \
               differ",
        mend: "systemctl stop irqbalance",
        rule: Rule::Of(&[PROGRAMS], irqbalance),
    },
    Check {
        section: Measuring,
        subject: "netdev_max_backlog",
        source: "Genevès 2012, Table I: net.core.netdev_max_backlog = 400000",
        good: "none dropped since the start; at least 1000",
        cost: "packets on loopback, veth or RPS are dropped when a CPU falls behind, and sent \
               again 200 ms later: it looks like a slow server",
        mend: "sysctl -w net.core.netdev_max_backlog=400000",
        rule: Rule::Of(&[BACKLOG, SOFTNET], netdev_backlog),
    },
    Check {
        section: Measuring,
        subject: "loopback MTU",
        source: "kernel: drivers/net/loopback.c (64 KiB)",
        good: "at least 65536",
        cost: "measurements on loopback pay for more packets than is usual there",
        mend: "ip link set lo mtu 65536",
        rule: Rule::AtLeast(LOOPBACK_MTU, 65_536),
    },
];

fn irqbalance(machine: &Machine) -> Reading {
    let mut names = machine.all(PROGRAMS).map(|(_, name)| name).peekable();
    if names.peek().is_none() {
        return Reading::unreadable("/proc");
    }
    match names.any(|name| name == "irqbalance") {
        true => Reading::wrong("running"),
        false => Reading::fine("not running"),
    }
}

fn netdev_backlog(machine: &Machine) -> Reading {
    let Some(backlog) = machine.number(BACKLOG) else { return Reading::unreadable(BACKLOG) };
    let dropped = machine.text(SOFTNET).map(|table| {
        // A line for each CPU, in hexadecimal: received, dropped, squeezed, …
        let second = |line: &str| u64::from_str_radix(line.split(' ').nth(1)?, 16).ok();
        table.lines().filter_map(second).sum::<u64>()
    });
    let found = match dropped {
        None => format!("{backlog}, drops not known"),
        Some(dropped) => format!("{backlog}, {dropped} dropped since the start"),
    };
    // The counter stays until the next start; a queue as long as the paper's is the remedy.
    let is_mended = backlog >= 400_000;
    Reading::fine_if(is_mended || (backlog >= 1000 && dropped.unwrap_or(0) == 0), found)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_setting};
    use super::*;
    use ::doctor::Verdict::{Fine, Unreadable, Wrong};

    #[test]
    fn a_program_that_moves_interrupts_is_found() {
        check("irqbalance", &[("/proc/1/comm", "systemd\n")], Fine);
        let both = [("/proc/1/comm", "systemd\n"), ("/proc/7/comm", "irqbalance\n")];
        check("irqbalance", &both, Wrong);
        check("irqbalance", &[], Unreadable);
    }

    #[test]
    fn packets_dropped_before_tcp_are_counted() {
        let table = |dropped: &str| format!("00ff 0000 01\n00aa {dropped} 00\n");
        check("netdev_max_backlog", &[(BACKLOG, "1000"), (SOFTNET, &table("0000"))], Fine);
        check("netdev_max_backlog", &[(BACKLOG, "300"), (SOFTNET, &table("0000"))], Wrong);
        let reading =
            check("netdev_max_backlog", &[(BACKLOG, "1000"), (SOFTNET, &table("0010"))], Wrong);
        assert_eq!(reading.found, "1000, 16 dropped since the start");
        check("netdev_max_backlog", &[(BACKLOG, "400000"), (SOFTNET, &table("0010"))], Fine);
        check("netdev_max_backlog", &[(SOFTNET, "")], Unreadable);
    }

    #[test]
    fn settings() {
        check_setting("loopback MTU", LOOPBACK_MTU, "65536\n", "16436\n");
    }
}
