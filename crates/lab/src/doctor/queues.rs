//! Where new connections wait, and where old ones do: backlogs, cookies, ports, TIME_WAIT.

use super::finding::Section::{Measuring, Serving};
use super::machine::Machine;
use super::rule::{Check, Look, Rule};

const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";
const SYN_BACKLOG: &str = "/proc/sys/net/ipv4/tcp_max_syn_backlog";
const SYN_COOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";
const NETSTAT: &str = "/proc/net/netstat";
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const REUSE: &str = "/proc/sys/net/ipv4/tcp_tw_reuse";
const RECYCLE: &str = "/proc/sys/net/ipv4/tcp_tw_recycle";
const BUCKETS: &str = "/proc/sys/net/ipv4/tcp_max_tw_buckets";
const SOCKETS: &str = "/proc/net/sockstat";
const FIN_TIMEOUT: &str = "/proc/sys/net/ipv4/tcp_fin_timeout";

/// A burst that no server of the literature takes in at once.
const BACKLOG_ENOUGH: u64 = 4096;

/// What is left to lengthen where the kernel's bound is long enough.
const SERVERS_BACKLOG: &str = "a longer backlog for the server that listens (Ropewalk: \
    socket.backlog; nginx: listen … backlog=), or more CPUs for it; the counters stay until the \
    next start";

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Serving,
        subject: "somaxconn",
        source: "Genevès 2012, Table I: net.core.somaxconn = 200000",
        good: "at least 4096",
        cost: "bursts of connections are turned away while CPUs idle (Genevès: Knot's 8 cores \
               stayed at 33 %)",
        mend: "sysctl -w net.core.somaxconn=4096",
        rule: Rule::AtLeast(SOMAXCONN, BACKLOG_ENOUGH),
    },
    Check {
        section: Serving,
        subject: "tcp_max_syn_backlog",
        source: "Genevès 2012, Table I: net.ipv4.tcp_max_syn_backlog = 200000",
        good: "at least 4096, or tcp_syncookies = 1, which makes it void",
        cost: "handshakes are dropped in a burst, and tried again one second later",
        mend: "sysctl -w net.ipv4.tcp_max_syn_backlog=4096",
        rule: Rule::Of(&[SYN_BACKLOG, SYN_COOKIES], syn_backlog),
    },
    Check {
        section: Serving,
        subject: "tcp_syncookies",
        source: "Genevès 2012, Table I: net.ipv4.tcp_syncookies = 0",
        good: "1, today: cookies are sent only when the queue is full; the paper's 0 needs its \
               backlogs",
        cost: "0: a full queue drops handshakes; 2: every connection does without what does not \
               fit into a cookie",
        mend: "sysctl -w net.ipv4.tcp_syncookies=1",
        rule: Rule::Of(&[SYN_COOKIES, SYN_BACKLOG], syn_cookies),
    },
    Check {
        section: Serving,
        subject: "listen queues",
        source: "kernel: networking/snmp_counter (ListenOverflows)",
        good: "no overflow and no drop since the start; while measuring look before and after",
        cost: "each was a connection turned away, whose client tries again after a second or more: \
               it looks like a slow server",
        mend: "sysctl -w net.core.somaxconn=4096, and as long a backlog for the server (Ropewalk: \
               socket.backlog); the counters stay until the next start",
        rule: Rule::Of(&[NETSTAT, SOMAXCONN], overflows),
    },
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
    Check {
        section: Serving,
        subject: "tcp_fin_timeout",
        source: "Genevès 2012, Table I: net.ipv4.tcp_fin_timeout = 1",
        good: "at most 60, the default; it does not shorten TIME_WAIT, only how long half-closed \
               connections are kept",
        cost: "connections whose clients never close stay in memory that long",
        mend: "sysctl -w net.ipv4.tcp_fin_timeout=60",
        rule: Rule::AtMost(FIN_TIMEOUT, 60),
    },
];

fn syn_backlog(machine: &Machine) -> Look {
    let Some(backlog) = machine.number(SYN_BACKLOG) else { return Look::unreadable(SYN_BACKLOG) };
    let has_cookies = machine.number(SYN_COOKIES).is_some_and(|mode| mode > 0);
    match has_cookies {
        true => Look::fine(format!("{backlog}; void, since tcp_syncookies is on")),
        false => Look::fine_if(backlog >= BACKLOG_ENOUGH, backlog.to_string()),
    }
}

fn syn_cookies(machine: &Machine) -> Look {
    let is_long = machine.number(SYN_BACKLOG).is_some_and(|backlog| backlog >= BACKLOG_ENOUGH);
    match machine.number(SYN_COOKIES) {
        None => Look::unreadable(SYN_COOKIES),
        Some(0) => Look::fine_if(is_long, "0: a full queue drops handshakes"),
        Some(1) => Look::fine("1: only when a queue is full"),
        Some(mode) => Look::wrong(format!("{mode}: for every connection")),
    }
}

fn overflows(machine: &Machine) -> Look {
    let count = |name| machine.text(NETSTAT).and_then(|table| counter(table, "TcpExt:", name));
    let (Some(overflows), Some(drops)) = (count("ListenOverflows"), count("ListenDrops")) else {
        return Look::unreadable(NETSTAT);
    };
    let found = format!("{overflows} overflows and {drops} connections dropped since the start");
    let is_long = machine.number(SOMAXCONN).is_some_and(|most| most >= BACKLOG_ENOUGH);
    match (overflows + drops, is_long) {
        (0, _) => Look::fine(found),
        (_, false) => Look::wrong(found),
        // The kernel allows enough: who asked for less is the server, or it was too slow.
        (_, true) => Look { mend: Some(SERVERS_BACKLOG.into()), ..Look::wrong(found) },
    }
}

/// A value of a table like `/proc/net/netstat`: a line of names, then one of values.
fn counter(table: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|candidate| candidate == name)?;
    values.split(' ').nth(place)?.parse().ok()
}

/// How many ports connections of this machine's own may have.
fn port_count(machine: &Machine) -> Option<u64> {
    let mut ends = machine.text(PORTS)?.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some((last + 1).saturating_sub(first))
}

fn ports(machine: &Machine) -> Look {
    match port_count(machine) {
        None => Look::unreadable(PORTS),
        Some(count) => {
            let rate = count / 60;
            Look::fine_if(count >= 60_000, format!("{count} ports, {rate} connections per second"))
        }
    }
}

fn recycle(machine: &Machine) -> Look {
    match machine.number(RECYCLE) {
        None => Look::obsolete("no kernel since 4.12 has it, and none should have had it"),
        Some(0) => Look::obsolete("0, as it should be"),
        Some(value) => Look::wrong(value.to_string()),
    }
}

fn time_wait(machine: &Machine) -> Look {
    let Some(ports) = port_count(machine) else { return Look::unreadable(PORTS) };
    let waiting = machine.text(SOCKETS).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
        let mut words = line.split_whitespace().skip_while(|word| *word != "tw");
        words.nth(1)?.parse::<u64>().ok()
    });
    match waiting {
        None => Look::unreadable(SOCKETS),
        Some(count) => {
            Look::fine_if(count * 4 < ports, format!("{count} connections wait, of {ports} ports"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Obsolete, Unreadable, Wrong};
    use super::super::rule::tests::{check, check_setting};
    use super::*;

    #[test]
    fn settings() {
        check_setting("somaxconn", SOMAXCONN, "4096\n", "128\n");
        check_setting("tcp_tw_reuse", REUSE, "2\n", "0\n");
        check_setting("tcp_max_tw_buckets", BUCKETS, "131072\n", "8192\n");
        check_setting("tcp_fin_timeout", FIN_TIMEOUT, "60\n", "600\n");
    }

    #[test]
    fn a_short_queue_of_handshakes_matters_only_without_cookies() {
        let of = |backlog: &'static str, cookies: &'static str| {
            [(SYN_BACKLOG, backlog), (SYN_COOKIES, cookies)]
        };
        check("tcp_max_syn_backlog", &of("128", "1"), Fine);
        check("tcp_max_syn_backlog", &of("128", "0"), Wrong);
        check("tcp_max_syn_backlog", &of("200000", "0"), Fine);
        check("tcp_max_syn_backlog", &[(SYN_COOKIES, "1")], Unreadable);
        check("tcp_syncookies", &of("128", "1"), Fine);
        check("tcp_syncookies", &of("128", "0"), Wrong);
        check("tcp_syncookies", &of("200000", "0"), Fine);
        check("tcp_syncookies", &of("200000", "2"), Wrong);
    }

    #[test]
    fn overflows_are_found_by_name() {
        let table = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 1 22 33\n\
            IpExt: InNoRoutes\nIpExt: 4\n";
        let look = check("listen queues", &[(NETSTAT, table)], Wrong);
        assert_eq!(look.found, "22 overflows and 33 connections dropped since the start");
        check("listen queues", &[(NETSTAT, "IpExt: A\nIpExt: 1\n")], Unreadable);
    }

    #[test]
    fn connections_turned_away_are_mended_where_the_queue_is_short() {
        let of = |overflows: u64, drops: u64| {
            format!("TcpExt: ListenOverflows ListenDrops\nTcpExt: {overflows} {drops}\n")
        };
        check("listen queues", &[(NETSTAT, &of(0, 0)), (SOMAXCONN, "128")], Fine);
        check("listen queues", &[(NETSTAT, &of(0, 1)), (SOMAXCONN, "128")], Wrong);
        let mend = |most: &str| {
            check("listen queues", &[(NETSTAT, &of(1, 1)), (SOMAXCONN, most)], Wrong).mend
        };
        assert_eq!(mend("128"), None, "that of the table: the kernel's bound first");
        assert_eq!(mend("4096").as_deref(), Some(SERVERS_BACKLOG));
    }

    #[test]
    fn ports_are_counted_with_both_ends() {
        let look = check("ip_local_port_range", &[(PORTS, "32768\t60999\n")], Wrong);
        assert_eq!(look.found, "28232 ports, 470 connections per second");
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
