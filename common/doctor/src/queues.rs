//! Where new connections wait: backlogs and cookies; and how long old ones linger.

use super::finding::Section::Serving;
use super::machine::Machine;
use super::rule::{Check, Reading, Rule};

const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";
const SYN_BACKLOG: &str = "/proc/sys/net/ipv4/tcp_max_syn_backlog";
const SYN_COOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";
const NETSTAT: &str = "/proc/net/netstat";
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

fn syn_backlog(machine: &Machine) -> Reading {
    let Some(backlog) = machine.number(SYN_BACKLOG) else {
        return Reading::unreadable(SYN_BACKLOG);
    };
    let has_cookies = machine.number(SYN_COOKIES).is_some_and(|mode| mode > 0);
    match has_cookies {
        true => Reading::fine(format!("{backlog}; void, since tcp_syncookies is on")),
        false => Reading::fine_if(backlog >= BACKLOG_ENOUGH, backlog.to_string()),
    }
}

fn syn_cookies(machine: &Machine) -> Reading {
    let is_long = machine.number(SYN_BACKLOG).is_some_and(|backlog| backlog >= BACKLOG_ENOUGH);
    match machine.number(SYN_COOKIES) {
        None => Reading::unreadable(SYN_COOKIES),
        Some(0) => Reading::fine_if(is_long, "0: a full queue drops handshakes"),
        Some(1) => Reading::fine("1: only when a queue is full"),
        Some(mode) => Reading::wrong(format!("{mode}: for every connection")),
    }
}

fn overflows(machine: &Machine) -> Reading {
    let count = |name| machine.text(NETSTAT).and_then(|table| counter(table, "TcpExt:", name));
    let (Some(overflows), Some(drops)) = (count("ListenOverflows"), count("ListenDrops")) else {
        return Reading::unreadable(NETSTAT);
    };
    let found = format!("{overflows} overflows and {drops} connections dropped since the start");
    let is_long = machine.number(SOMAXCONN).is_some_and(|most| most >= BACKLOG_ENOUGH);
    match (overflows + drops, is_long) {
        (0, _) => Reading::fine(found),
        (_, false) => Reading::wrong(found),
        // The kernel allows enough: the server has asked for less, or was too slow.
        (_, true) => Reading { mend: Some(SERVERS_BACKLOG.into()), ..Reading::wrong(found) },
    }
}

/// A value of a table like `/proc/net/netstat`: a line of names, then one of values.
fn counter(table: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split(' ').position(|candidate| candidate == name)?;
    values.split(' ').nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Unreadable, Wrong};
    use super::super::tests::{check, check_setting};
    use super::*;

    #[test]
    fn settings() {
        check_setting("somaxconn", SOMAXCONN, "4096\n", "128\n");
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
        let reading = check("listen queues", &[(NETSTAT, table)], Wrong);
        assert_eq!(reading.found, "22 overflows and 33 connections dropped since the start");
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
}
