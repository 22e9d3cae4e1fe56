//! Where old connections of clients wait: ports and TIME_WAIT.

use ::doctor::Section::Measuring;
use ::doctor::{Check, Machine, Reading, Rule};

const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const REUSE: &str = "/proc/sys/net/ipv4/tcp_tw_reuse";
const RECYCLE: &str = "/proc/sys/net/ipv4/tcp_tw_recycle";
const BUCKETS: &str = "/proc/sys/net/ipv4/tcp_max_tw_buckets";
const SOCKETS: &str = "/proc/net/sockstat";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Measuring,
        subject: "ip_local_port_range",
        source: "Genevès 2012, Table I: net.ipv4.ip_local_port_range = 1024 65000",
        good: "at least 60000 ports",
        cost: "a client address that closes first can open as many connections to a server in 60 \
               seconds as it has ports, and then fails: 28,232 by default are 470 per second",
        mend: "sysctl -w net.ipv4.ip_local_port_range='1024 65000' (and keep servers' ports out: \
               net.ipv4.ip_local_reserved_ports)",
        rule: Rule::Of(&[PORTS], ports),
    },
    Check {
        section: Measuring,
        subject: "tcp_tw_reuse",
        source: "kernel: networking/ip-sysctl",
        good: "1, or 2 for loopback only, which is the default",
        cost: "ports in TIME_WAIT cannot be used again for 60 seconds, even for a new connection \
               that cannot be mistaken for the old",
        mend: "sysctl -w net.ipv4.tcp_tw_reuse=1",
        rule: Rule::AtLeast(REUSE, 1),
    },
    Check {
        section: Measuring,
        subject: "tcp_tw_recycle",
        source: "Genevès 2012, Table I: net.ipv4.tcp_tw_recycle = 1",
        good: "absent (since Linux 4.12) or 0: it refused clients behind one address",
        cost: "clients that share an address are refused at random",
        mend: "sysctl -w net.ipv4.tcp_tw_recycle=0",
        rule: Rule::Of(&[RECYCLE], recycle),
    },
    Check {
        section: Measuring,
        subject: "tcp_max_tw_buckets",
        source: "kernel: networking/ip-sysctl",
        good: "at least 65536, as many as an address has ports",
        cost: "connections are forgotten before their time, with a line in the kernel's log for it",
        mend: "sysctl -w net.ipv4.tcp_max_tw_buckets=262144",
        rule: Rule::AtLeast(BUCKETS, 65_536),
    },
    Check {
        section: Measuring,
        subject: "TIME_WAIT",
        source: "RFC 9293, 3.6.1; Genevès 2012, III-B (clients are never short)",
        good: "less than a quarter of the ports now",
        cost: "a run that starts now has fewer ports than the next one",
        mend: "wait for 60 seconds",
        rule: Rule::Of(&[SOCKETS, PORTS], time_wait),
    },
];

/// How many ports connections of this machine's own may have.
fn port_count(machine: &Machine) -> Option<u64> {
    let mut ends = machine.text(PORTS)?.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some((last + 1).saturating_sub(first))
}

fn ports(machine: &Machine) -> Reading {
    match port_count(machine) {
        None => Reading::unreadable(PORTS),
        Some(count) => {
            let rate = count / 60;
            Reading::fine_if(
                count >= 60_000,
                format!("{count} ports, {rate} connections per second"),
            )
        }
    }
}

fn recycle(machine: &Machine) -> Reading {
    match machine.number(RECYCLE) {
        None => Reading::obsolete("no kernel since 4.12 has it, and none should have had it"),
        Some(0) => Reading::obsolete("0, as it should be"),
        Some(value) => Reading::wrong(value.to_string()),
    }
}

fn time_wait(machine: &Machine) -> Reading {
    let Some(ports) = port_count(machine) else { return Reading::unreadable(PORTS) };
    let waiting = machine.text(SOCKETS).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
        let mut words = line.split_whitespace().skip_while(|word| *word != "tw");
        words.nth(1)?.parse::<u64>().ok()
    });
    match waiting {
        None => Reading::unreadable(SOCKETS),
        Some(count) => Reading::fine_if(
            count * 4 < ports,
            format!("{count} connections wait, of {ports} ports"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, check_setting};
    use super::*;
    use ::doctor::Verdict::{Fine, Obsolete, Unreadable, Wrong};

    #[test]
    fn settings() {
        check_setting("tcp_tw_reuse", REUSE, "2\n", "0\n");
        check_setting("tcp_max_tw_buckets", BUCKETS, "131072\n", "8192\n");
    }

    #[test]
    fn ports_are_counted_with_both_ends() {
        let reading = check("ip_local_port_range", &[(PORTS, "32768\t60999\n")], Wrong);
        assert_eq!(reading.found, "28232 ports, 470 connections per second");
        check("ip_local_port_range", &[(PORTS, "1024\t65000\n")], Fine);
        check("ip_local_port_range", &[(PORTS, "1024\n")], Unreadable);
    }

    #[test]
    fn recycling_is_gone_and_was_never_good() {
        check("tcp_tw_recycle", &[], Obsolete);
        check("tcp_tw_recycle", &[(RECYCLE, "0")], Obsolete);
        check("tcp_tw_recycle", &[(RECYCLE, "1")], Wrong);
    }

    #[test]
    fn connections_that_wait_are_measured_by_the_ports() {
        let of =
            |waiting| format!("sockets: used 30\nTCP: inuse 1 orphan 0 tw {waiting} alloc 1\n");
        check("TIME_WAIT", &[(PORTS, "1001 2000"), (SOCKETS, &of(249))], Fine);
        check("TIME_WAIT", &[(PORTS, "1001 2000"), (SOCKETS, &of(250))], Wrong);
        check("TIME_WAIT", &[(PORTS, "1001 2000"), (SOCKETS, "UDP: tw 1")], Unreadable);
    }
}
