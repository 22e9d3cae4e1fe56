//! `ropewalk doctor`: what a machine must be before it measures or serves, and what it is.
//!
//! A [`Check`] says what is good, what it costs where it is not, and the command that mends it; it
//! looks at a [`Machine`], which was read once, and at nothing else. One file per theme. It reports
//! and changes nothing. What only a server can find out about itself is asked in the `server`
//! crate, and printed with these.

mod control_groups;
mod counters;
mod files;
mod finding;
mod interfaces;
mod interrupts;
mod machine;
mod memory;
mod network;
mod processors;
mod queues;
mod rule;
mod threads;

use std::path::Path;

pub(crate) use control_groups::{cfs_quota, cpu_max};
pub use finding::{Finding, Section, Tally, Verdict, json, show};
pub use machine::Machine;
pub use rule::Check;

/// All checks, theme by theme.
#[must_use]
pub fn checks() -> Vec<&'static Check> {
    let themes = [
        processors::CHECKS,
        interfaces::CHECKS,
        queues::CHECKS,
        network::CHECKS,
        memory::CHECKS,
        threads::CHECKS,
        control_groups::CHECKS,
        counters::CHECKS,
        files::CHECKS,
    ];
    themes.into_iter().flatten().collect()
}

/// Looks at everything on this machine; files are served from the current directory. It takes a few
/// milliseconds.
#[must_use]
pub fn examine() -> Vec<Finding> {
    examine_for(Path::new("."))
}

/// Looks at everything on this machine; files are served from `directory`. It takes a few
/// milliseconds.
#[must_use]
pub fn examine_for(directory: &Path) -> Vec<Finding> {
    examine_machine(&Machine::read(directory))
}

/// What all checks say of a machine that has been read.
#[must_use]
pub fn examine_machine(machine: &Machine) -> Vec<Finding> {
    checks().into_iter().map(|check| check.examine(machine)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Genevès 2012, Table I, as printed.
    const TABLE_I: &str = "\
        net.ipv4.tcp_tw_recycle = 1\n\
        vm.max_map_count = 786762\n\
        net.ipv4.tcp_fin_timeout = 1\n\
        kernel.randomize_va_space = 0\n\
        net.core.rmem_default = 87380\n\
        fs.file-max = 1048576\n\
        net.core.wmem_default = 65536\n\
        kernel.pid_max = 786762\n\
        net.core.rmem_max = 4194304\n\
        net.ipv4.tcp_max_syn_backlog = 200000\n\
        net.core.wmem_max = 4194304\n\
        net.core.netdev_max_backlog = 400000\n\
        net.ipv4.conf.all.arp_filter = 1\n\
        net.core.somaxconn = 200000\n\
        net.ipv4.conf.ethX.arp_filter = 1\n\
        net.ipv4.ip_local_port_range = 1024 65000\n\
        net.ipv4.tcp_syncookies = 0\n\
        net.ipv4.tcp_rmem = 4096 87380 4194304\n\
        net.ipv4.tcp_wmem = 4096 65536 4194304";

    #[test]
    fn every_row_of_table_i_is_checked() {
        for row in TABLE_I.lines() {
            let count = checks().iter().filter(|check| check.source.contains(row)).count();
            assert_eq!(count, 1, "{row}");
        }
    }

    #[test]
    fn subjects_differ_and_texts_are_whole() {
        let all = checks();
        let subjects: BTreeSet<&str> = all.iter().map(|check| check.subject).collect();
        assert_eq!(subjects.len(), all.len());
        for check in all {
            for text in [check.subject, check.source, check.good, check.cost, check.mend] {
                assert!(
                    !text.is_empty() && !text.contains(['\n', '|']),
                    "{}: {text:?}",
                    check.subject
                );
            }
        }
    }

    /// Whatever a machine does not tell is said to be unreadable, and nothing panics.
    #[test]
    fn a_machine_that_tells_nothing() {
        let findings = examine_machine(&Machine::of(&[]));
        assert_eq!(findings.len(), checks().len());
        for finding in &findings {
            assert_ne!(finding.verdict, Verdict::Wrong, "{finding:?}");
        }
        let tally = Tally::of(&findings);
        assert!(tally.unreadable > 20, "{tally:?}");
    }

    #[test]
    fn this_machine_is_read() {
        let findings = examine();
        let found = |subject: &str| {
            findings.iter().find(|finding| finding.subject == subject).expect("a finding").clone()
        };
        assert_ne!(found("somaxconn").verdict, Verdict::Unreadable);
        assert_ne!(found("swap").verdict, Verdict::Unreadable);
        assert_ne!(found("file system").verdict, Verdict::Unreadable);
    }
}
