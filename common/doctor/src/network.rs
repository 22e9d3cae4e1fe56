//! What TCP does with a connection's bytes: buffers, congestion control, and the tracking of
//! connections, for which every packet is looked up.

use super::finding::Section::Serving;
use super::machine::Machine;
use super::rule::{Check, Reading, Rule};

const RECEIVE_DEFAULT: &str = "/proc/sys/net/core/rmem_default";
const SEND_DEFAULT: &str = "/proc/sys/net/core/wmem_default";
const RECEIVE_MAX: &str = "/proc/sys/net/core/rmem_max";
const SEND_MAX: &str = "/proc/sys/net/core/wmem_max";
const TCP_RECEIVE: &str = "/proc/sys/net/ipv4/tcp_rmem";
const TCP_SEND: &str = "/proc/sys/net/ipv4/tcp_wmem";
const CONNTRACK_MAX: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
const CONNTRACK_COUNT: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const KERNEL: &str = "/proc/sys/kernel/osrelease";

/// What the paper set: the bytes under way at 10 Gbit/s and 3 ms.
const BUFFER_ENOUGH: u64 = 4_194_304;

/// The kernel's default of many years.
const ASKED_ENOUGH: u64 = 212_992;

pub(super) const CHECKS: &[Check] = &[
    Check {
        section: Serving,
        subject: "tcp_rmem",
        source: "Genevès 2012, Table I: net.ipv4.tcp_rmem = 4096 87380 4194304",
        good: "the last of the three at least 4194304",
        cost: "receiving stalls on paths that are long and fast",
        mend: "sysctl -w net.ipv4.tcp_rmem='4096 131072 6291456'",
        rule: Rule::AtLeast(TCP_RECEIVE, BUFFER_ENOUGH),
    },
    Check {
        section: Serving,
        subject: "tcp_wmem",
        source: "Genevès 2012, Table I: net.ipv4.tcp_wmem = 4096 65536 4194304",
        good: "the last of the three at least 4194304",
        cost: "large files go out in more steps, each a wake-up, and stall on paths that are long \
               and fast",
        mend: "sysctl -w net.ipv4.tcp_wmem='4096 65536 4194304'",
        rule: Rule::AtLeast(TCP_SEND, BUFFER_ENOUGH),
    },
    Check {
        section: Serving,
        subject: "rmem_max",
        source: "Genevès 2012, Table I: net.core.rmem_max = 4194304",
        good: "at least 212992, the default; more only for servers that ask for buffers of a size",
        cost: "a server that asks for a receive buffer gets no more than this",
        mend: "sysctl -w net.core.rmem_max=4194304",
        rule: Rule::AtLeast(RECEIVE_MAX, ASKED_ENOUGH),
    },
    Check {
        section: Serving,
        subject: "wmem_max",
        source: "Genevès 2012, Table I: net.core.wmem_max = 4194304",
        good: "at least 212992, the default; more only for servers that ask for buffers of a size",
        cost: "a server that asks for a send buffer gets no more than this",
        mend: "sysctl -w net.core.wmem_max=4194304",
        rule: Rule::AtLeast(SEND_MAX, ASKED_ENOUGH),
    },
    Check {
        section: Serving,
        subject: "rmem_default",
        source: "Genevès 2012, Table I: net.core.rmem_default = 87380",
        good: "whatever it is: TCP takes the middle of tcp_rmem",
        cost: "nothing",
        mend: "nothing to fix",
        rule: Rule::Of(&[RECEIVE_DEFAULT], |machine| default_buffer(machine, RECEIVE_DEFAULT)),
    },
    Check {
        section: Serving,
        subject: "wmem_default",
        source: "Genevès 2012, Table I: net.core.wmem_default = 65536",
        good: "whatever it is: TCP takes the middle of tcp_wmem",
        cost: "nothing",
        mend: "nothing to fix",
        rule: Rule::Of(&[SEND_DEFAULT], |machine| default_buffer(machine, SEND_DEFAULT)),
    },
    Check {
        section: Serving,
        subject: "conntrack",
        source: "kernel: networking/nf_conntrack-sysctl",
        good: "not loaded, or a table for 262144 that is less than half full",
        cost: "every packet is looked up, and when the table is full new connections are dropped \
               without an answer",
        mend: "sysctl -w net.netfilter.nf_conntrack_max=1048576, or no tracking of the server's \
               port (nft: notrack)",
        rule: Rule::Of(&[CONNTRACK_MAX, CONNTRACK_COUNT, KERNEL], conntrack),
    },
];

fn default_buffer(machine: &Machine, path: &'static str) -> Reading {
    match machine.number(path) {
        None => Reading::unreadable(path),
        Some(bytes) => Reading::obsolete(format!("{bytes}, which no TCP connection uses")),
    }
}

fn conntrack(machine: &Machine) -> Reading {
    match (machine.number(CONNTRACK_MAX), machine.number(CONNTRACK_COUNT)) {
        (Some(most), Some(count)) => {
            let is_fine = most >= 262_144 && count * 2 < most;
            Reading::fine_if(is_fine, format!("{count} connections in a table for {most}"))
        }
        (Some(most), None) => Reading::fine_if(most >= 262_144, format!("a table for {most}")),
        // Where other settings can be read, its absence is an answer.
        (None, _) if machine.text(KERNEL).is_some() => Reading::fine("not loaded"),
        (None, _) => Reading::unreadable(CONNTRACK_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{Fine, Obsolete, Unreadable, Wrong};
    use super::super::tests::{check, check_setting};
    use super::*;

    #[test]
    fn settings() {
        check_setting("tcp_rmem", TCP_RECEIVE, "4096\t131072\t6291456\n", "4096\t87380\t174760\n");
        check_setting("tcp_wmem", TCP_SEND, "4096\t16384\t4194304\n", "4096\t16384\t131072\n");
        check_setting("rmem_max", RECEIVE_MAX, "212992\n", "131071\n");
        check_setting("wmem_max", SEND_MAX, "212992\n", "131071\n");
    }

    #[test]
    fn buffers_that_tcp_does_not_use_are_never_wrong() {
        check("rmem_default", &[(RECEIVE_DEFAULT, "1")], Obsolete);
        check("wmem_default", &[(SEND_DEFAULT, "1")], Obsolete);
        check("wmem_default", &[], Unreadable);
    }

    #[test]
    fn tracking_costs_when_its_table_is_small_or_full() {
        let of = |most: &'static str, count: &'static str| {
            [(CONNTRACK_MAX, most), (CONNTRACK_COUNT, count)]
        };
        check("conntrack", &of("262144", "5"), Fine);
        check("conntrack", &of("262144", "131072"), Wrong);
        check("conntrack", &of("65536", "5"), Wrong);
        assert_eq!(check("conntrack", &[(KERNEL, "6.1")], Fine).found, "not loaded");
        check("conntrack", &[], Unreadable);
    }
}
